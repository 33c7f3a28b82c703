// Where paths live: the delta, the machines, and how one becomes the other.
//
// Machines are immutable. Adding paths builds a new machine, which replaces the smaller ones that it absorbs.
// All of it is prepared in a Placing, which settle() puts in force without any step that can fail.
#include "engines/lazydfa.hpp"

#include "base/id_slots.hpp"
#include "base/seeded_hash.hpp"
#include "engines/path_merge.hpp"
#include "machines/machine_builder.hpp"
#include "machines/path_key.hpp"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

namespace treecast {

uint64_t MachinePlace::bytes() const {
    return (machine ? machine->bytes() : tree->bytes()) + path_of.bytes() + slot_of.bytes() + dirty.bytes() + vacant.bytes();
}

// Makes room for one more in the table that paths are added to. What was added since loading has one of its own while it is less
// than half of what was loaded.
void LazyDfaEngine::reserve_path(Paths& paths) {
    const size_t count = paths.place_of.size();
    const bool joins = paths.has_saved_table() && 2 * (count + 1 - paths.loaded) > paths.loaded;
    const bool is_apart = paths.has_saved_table() && !joins;
    Array<uint32_t>& table = is_apart ? paths.added_table : paths.path_table;
    const uint32_t first = is_apart ? paths.loaded : 0;
    if (!joins && 4 * (count - first + 1) <= 3 * table.size()) return;
    size_t size = 64;
    while (2 * size < 3 * (count - first + 1)) size *= 2;
    Array<uint32_t> larger;
    larger.assign(size, none);
    for (uint32_t p = first; p < count; ++p) {
        const uint64_t hash = hash_bytes(paths.key(p), 0, paths.own);
        larger[probe_vacancy(larger, hash)] = marked(larger, hash, p - first);
    }
    table = std::move(larger);
    if (!joins) return;
    paths.added_table = {};
    paths.seeds = paths.own;
}

// The number of a path. New paths, and known ones that live nowhere at present, are added to `fresh`.
uint32_t LazyDfaEngine::add_path(Paths& paths, std::string_view key, std::vector<uint32_t>& fresh) {
    reserve_path(paths);
    auto is_same = [&](uint32_t path) { return ++paths.keys_compared, paths.key(path) == key; };
    const bool is_apart = paths.has_saved_table();
    const uint32_t first = is_apart ? paths.loaded : 0;
    Array<uint32_t>& table = is_apart ? paths.added_table : paths.path_table;
    const uint64_t hash = hash_bytes(key, 0, paths.own);
    const size_t at = probe_marked(table, hash, [&](uint32_t number) { return is_same(first + number); });
    uint32_t known = unmarked(table, table[at]);
    if (known != none)
        known += first;
    else if (is_apart)
        known = paths.path_table[probe(paths.path_table, hash_bytes(key, 0, paths.seeds), is_same)];
    if (known != none) {
        if (paths.place_of[known] == nowhere) {
            fresh.push_back(known);
            paths.place_of[known] = pending;
        }
        return known;
    }
    uint32_t path = static_cast<uint32_t>(paths.place_of.size());
    paths.keys.push(key);
    paths.heads.push(none);
    paths.accept_of.push(none);
    paths.place_of.push(pending);
    table[at] = marked(table, hash, path - first);
    fresh.push_back(path);
    return path;
}

// Takes the path that was added last out of the table again. Only the last one can simply be emptied.
void LazyDfaEngine::forget_path(Paths& paths, uint32_t path) noexcept {
    const bool is_apart = paths.has_saved_table();
    Array<uint32_t>& table = is_apart ? paths.added_table : paths.path_table;
    const uint32_t number = path - (is_apart ? paths.loaded : 0);
    table[probe_marked(table, hash_bytes(paths.key(path), 0, paths.own), [&](uint32_t other) { return other == number; })] = none;
}

// From now on the path's chain is walked when it matches, instead of the direct slot.
void LazyDfaEngine::mark_dirty(Paths& paths, uint32_t path) noexcept {
    uint8_t place = paths.place_of[path];
    if (place == in_delta) paths.delta->mark(paths.accept_of[path], false);
    if (place >= places_max) return;
    if (paths.places[place]) paths.places[place]->mark(paths.accept_of[path]);     // otherwise it is being moved to another
    for (const auto& merge : paths.merges) merge->mark(place, paths.accept_of[path]);
}

// While a path is being moved to another place, nothing is said of it.
void LazyDfaEngine::set_vacant(Paths& paths, uint32_t path, bool is_vacant) noexcept {
    const uint8_t place = paths.place_of[path];
    if (place == in_delta && is_vacant) paths.delta->mark(paths.accept_of[path], true);
    if (place < places_max && paths.places[place]) paths.places[place]->set_vacant(paths.accept_of[path], is_vacant);
}

// The dead stay in chains for a while, so a chain may be long and yet have no live subscription.
bool LazyDfaEngine::is_wanted(const Paths& paths, const Subscriptions& rows, uint32_t path) {
    for (uint32_t link = paths.heads[path]; link != none;) {
        bool extra = link & extra_bit;
        uint32_t slot = extra ? paths.extras[link & ~extra_bit].slot : link;
        if (rows.deaths[slot] == 0) return true;
        link = extra ? paths.extras[link & ~extra_bit].next : paths.next[link];
    }
    return false;
}

// Whether a subscription asks for the path, or will once the change is in force.
bool LazyDfaEngine::will_be_wanted(const Paths& paths, const Subscriptions& rows, uint32_t path, Change& change) {
    if (is_wanted(paths, rows, path)) return true;
    if (change.wanted.empty()) {
        change.wanted = change.paths;
        std::sort(change.wanted.begin(), change.wanted.end());
    }
    return std::binary_search(change.wanted.begin(), change.wanted.end(), path);
}

// Finds a home for new paths: the delta while there is room, otherwise a machine. They move there in settle().
void LazyDfaEngine::place(Paths& paths, const Subscriptions& rows, Change& change) const {
    Placing& placing = change.placing;
    placing.places = paths.places;
    placing.delta = paths.delta;
    std::vector<uint32_t> fresh, trees;
    for (uint32_t path : change.fresh) (is_tree(paths.key(path)) ? trees : fresh).push_back(path);
    placing.fresh_trees = trees.size();
    if (!trees.empty()) build(paths, rows, std::move(trees), true, change);
    if (fresh.empty()) return;
    std::vector<uint32_t> labels;
    auto fill = [&](Delta& delta) {           // as many as fit
        size_t done = 0;
        placing.delta_bits.clear();
        for (; done < fresh.size(); ++done) {
            labels.clear();
            plain_labels(paths.key(fresh[done]), labels);
            const uint32_t bit = delta.add(fresh[done], labels, *paths.labels);
            if (bit == none) break;
            placing.delta_bits.push_back(bit);
        }
        placing.delta_paths.assign(fresh.begin(), fresh.begin() + done);
        fresh.erase(fresh.begin(), fresh.begin() + done);
    };
    const bool is_few = fresh.size() <= delta_paths_max;
    if (is_few) {
        auto copy = std::make_shared<Delta>(*paths.delta);    // readers may be in the old one
        fill(*copy);
        placing.delta = copy;
        if (fresh.empty()) return;
        placing.delta_paths.clear();
    }
    // The delta is full. Its live paths move into a machine together with the new ones; dead ones lose their home.
    for (uint32_t path : placing.delta->paths()) (will_be_wanted(paths, rows, path, change) ? fresh : placing.homeless).push_back(path);
    auto renewed = std::make_shared<Delta>();
    // Unless it was full of paths that nobody wants any more. A quarter has to become free, as all are added to it again.
    if (is_few && fresh.size() <= Delta::paths_max / 4 * 3) fill(*renewed);
    placing.delta = std::move(renewed);
    if (!fresh.empty()) build(paths, rows, std::move(fresh), false, change);
}

namespace {

std::shared_ptr<const TreeMachine> build_tree(const PackedRows& keys, std::span<const uint32_t> numbers, const LabelTable& table,
                                              std::vector<uint32_t>& accept_of, const HashSeeds& seeds) {
    std::vector<std::string_view> patterns;
    patterns.reserve(numbers.size());
    for (uint32_t path : numbers) patterns.push_back(keys[path].substr(1));
    return std::make_shared<TreeMachine>(patterns, table, accept_of, seeds);
}

}  // namespace

// Builds a machine from these paths and from all machines of its kind that are not much larger than what is merged so far.
// Where few paths are added, only what is merged at once; the rest is left to a merge in slices.
void LazyDfaEngine::build(Paths& paths, const Subscriptions& rows, std::vector<uint32_t> numbers, bool trees, Change& change) const {
    Placing& placing = change.placing;
    uint8_t begin = trees ? plain_places_max : 0, end = trees ? places_max : plain_places_max;
    const bool is_sliced = !trees && change.merges && numbers.size() <= merged_at_once_max;
    if (!trees && !is_sliced && change.merges) end_merges(paths);
    for (;;) {
        uint8_t smallest = nowhere, vacant = nowhere;
        const uint32_t merging = trees ? 0 : merging_places(paths);
        for (uint8_t p = begin; p < end; ++p) {
            if (merging >> p & 1) continue;
            if (!placing.places[p])
                vacant = p;
            else if (smallest == nowhere || placing.places[p]->accepts() < placing.places[smallest]->accepts())
                smallest = p;
        }
        if (smallest == nowhere && vacant == nowhere) {          // as many merges as there are places: very many at once
            end_merges(paths);
            continue;
        }
        if (smallest == nowhere) break;
        // Stop at a machine that is much larger, unless no place is vacant. A very large one is merged seldom: that takes seconds.
        const size_t size = placing.places[smallest]->accepts();
        const size_t ratio = trees && size <= MergeCredit::patterns_max ? tree_merge_ratio : merge_ratio;
        if (vacant != nowhere && (size > ratio * numbers.size() || !change.merges)) break;
        if (vacant != nowhere && is_sliced && size + numbers.size() > merged_at_once_max) break;
        absorb(paths, rows, smallest, numbers, change);
    }
    build_place(paths, std::move(numbers), trees, placing);
    if (is_sliced) begin_merge(paths, placing);
}

// Takes the paths out of a place. Those that nobody wants any more lose their home.
void LazyDfaEngine::absorb(const Paths& paths, const Subscriptions& rows, uint8_t place, std::vector<uint32_t>& numbers, Change& change) {
    Placing& placing = change.placing;
    for (uint32_t path : placing.places[place]->path_of)
        (will_be_wanted(paths, rows, path, change) ? numbers : placing.homeless).push_back(path);
    placing.places[place] = nullptr;
}

// A machine of these paths, in a place that is vacant.
void LazyDfaEngine::build_place(Paths& paths, std::vector<uint32_t> numbers, bool trees, Placing& placing) const {
    uint8_t home = trees ? plain_places_max : 0;
    const uint32_t merging = merging_places(paths);
    while (placing.places[home] || merging >> home & 1) ++home;
    auto place = std::make_shared<MachinePlace>();
    std::vector<uint32_t> accept_of;
    if (trees)
        place->tree = build_tree(paths.keys, numbers, *paths.labels, accept_of, seeds_);
    else
        place->machine = build_machine(KeySource(paths.keys, numbers), *paths.labels, accept_of);
    place->path_of.assign(numbers.size(), none);
    place->slot_of.assign(numbers.size(), none);
    place->clear_marks(numbers.size());
    placing.built.push_back({place, home, std::move(numbers), std::move(accept_of)});
    placing.places[home] = std::move(place);
}

LazyDfaEngine::TreePlaces::TreePlaces(const Places& places) {
    for (uint8_t p = plain_places_max; p < places_max; ++p)
        if (places[p]) place[count++] = p;
    auto accepts = [&](uint8_t p) { return places[p]->accepts(); };
    std::sort(place.begin(), place.begin() + count, [&](uint8_t a, uint8_t b) { return std::pair(accepts(a), a) < std::pair(accepts(b), b); });
    for (size_t i = 0; i < count; ++i) size[i] = accepts(place[i]);
}

// Paid for whether it succeeds or not: if it fails, it is tried again once as much has been earned again.
void LazyDfaEngine::merge(const Subscriptions& rows) {
    TreePlaces trees(paths_->places);
    size_t count = credit_.affordable(trees.sizes());
    if (!count) return;
    credit_.pay(trees.sizes(), count);
    credit_.update(trees.sizes());
    Placing& placing = change_.placing;
    placing.places = paths_->places;
    placing.delta = paths_->delta;
    std::vector<uint32_t> numbers;
    for (size_t i = 0; i < count; ++i) absorb(*paths_, rows, trees.place[i], numbers, change_);
    if (!numbers.empty()) build_place(*paths_, std::move(numbers), true, placing);
}

bool LazyDfaEngine::is_compact() const {
    size_t trees = TreePlaces(paths_->places).count, all = 0;
    for (const auto& place : paths_->places) all += place != nullptr;
    return trees <= 1 && all - trees + !paths_->delta->paths().empty() <= 1;
}

// Lists what chains lead to, as it is now. PERF: bench/trees.py, bench/rendering.py: each link of a chain is somewhere else in memory.
void LazyDfaEngine::make_lists(const Paths& paths, const Subscriptions& rows, const Placing::NewPlace& built) {
    MachinePlace& place = *built.place;
    auto each_dirty = [&](auto&& visit) {
        for (uint32_t word = 0; word < place.dirty.size(); ++word)
            for (uint64_t rest = place.dirty[word]; rest; rest &= rest - 1) visit(word * 64 + static_cast<uint32_t>(std::countr_zero(rest)));
    };
    auto each_slot = [&](uint32_t accept, auto&& visit) {
        for (uint32_t link = paths.heads[place.path_of[accept]]; link != none;) {
            const bool several = link & extra_bit;
            const Extra at = several ? paths.extras[link & ~extra_bit] : Extra{link, paths.next[link]};
            if (rows.deaths[at.slot] == 0) visit(at.slot | (several ? extra_bit : 0));
            link = at.next;
        }
    };
    size_t size = place.slot_of.size();
    each_dirty([&](uint32_t accept) {
        ++size;
        each_slot(accept, [&](uint32_t) { ++size; });
    });
    if (size == place.slot_of.size() || size >= MachinePlace::list_bit) return;
    Array<uint32_t> slot_of;
    slot_of.reserve(size);
    slot_of.append(place.slot_of.data(), place.slot_of.size());
    each_dirty([&](uint32_t accept) {
        const auto begin = static_cast<uint32_t>(slot_of.size());
        slot_of.push(0);
        each_slot(accept, [&](uint32_t slot) {
            slot_of.push(slot);
            slot_of[begin] = (slot_of[begin] + 1) | (slot & extra_bit);
        });
        slot_of[accept] = MachinePlace::list_bit | begin;
    });
    place.slot_of = std::move(slot_of);
}

// Brings paths to their new homes, after the subscriptions that ask for them have been linked.
void LazyDfaEngine::settle(Paths& paths, const Subscriptions& rows, Placing& placing) noexcept {
    for (uint32_t path : placing.homeless) paths.place_of[path] = nowhere;
    // A path with exactly one live, plain subscription leads straight to its slot. All others need their chain.
    auto slot_of = [&](uint32_t path) {
        const uint32_t head = paths.heads[path];
        return head != none && !(head & extra_bit) && rows.deaths[head] == 0 && paths.next[head] == none ? head : none;
    };
    for (size_t i = 0; i < placing.delta_paths.size(); ++i) {
        const uint32_t path = placing.delta_paths[i], bit = placing.delta_bits[i], slot = slot_of(path);
        paths.place_of[path] = in_delta;
        paths.accept_of[path] = bit;
        if (slot != none)
            placing.delta->lead(bit, slot);
        else
            placing.delta->mark(bit, false);
    }
    for (const Placing::NewPlace& built : placing.built)
        for (size_t i = 0; i < built.paths.size(); ++i) {
            uint32_t path = built.paths[i], accept = built.accept_of[i], slot = slot_of(path);
            built.place->path_of[accept] = path;
            paths.accept_of[path] = accept;
            paths.place_of[path] = built.home;
            if (slot != none)
                built.place->slot_of[accept] = slot;
            else
                built.place->mark(accept);
        }
    for (const Placing::NewPlace& built : placing.built) {
        try {
            make_lists(paths, rows, built);
        } catch (const std::bad_alloc&) {}              // then chains are walked
    }
    for (PathMerge* merge : placing.done) merge->publish();
    paths.places = std::move(placing.places);
    paths.delta = std::move(placing.delta);
}

}  // namespace treecast
