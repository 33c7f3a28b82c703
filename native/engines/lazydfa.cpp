// Adds and removes queries: their paths, and the chains of subscriptions that ask for them.
// Where paths live is decided in lazydfa_places.cpp.
//
// Chains are singly linked lists through arrays indexed by slot. Readers walk them without a lock while the writer links new
// slots at the head. Nothing a reader may be standing on is ever changed, unless no reader is there (`alone`).
#include "engines/lazydfa.hpp"

#include "base/id_slots.hpp"
#include "base/interrupt.hpp"
#include "engines/path_merge.hpp"
#include "evaluate/evaluate.hpp"
#include "machines/path_key.hpp"
#include "machines/pattern.hpp"

#include <algorithm>

namespace treecast {

LazyDfaEngine::LazyDfaEngine(const HashSeeds& seeds) : seeds_(seeds), paths_(std::make_unique<Paths>(seeds)) {}
LazyDfaEngine::~LazyDfaEngine() = default;
LazyDfaEngine::Paths::Paths(const HashSeeds& seeds_) : own(seeds_), seeds(seeds_) {}
LazyDfaEngine::Paths::~Paths() = default;

// The paths of a slot. One path is stored directly; several are a list with its length in front.
std::span<const uint32_t> LazyDfaEngine::Paths::of_slot(uint32_t slot) const {
    uint32_t packed = slot_paths[slot];
    if (packed == none) return {};
    if (!(packed & several_bit)) return {&slot_paths[slot], 1};
    const uint32_t* list = &lists[packed & ~several_bit];
    return {list + 1, *list};
}

// Sizes only grow during a change, so remembering them is enough to undo it.
LazyDfaEngine::Mark::Mark(const Paths& paths)
    : labels(paths.labels->size()), slots(paths.slots()), paths(static_cast<uint32_t>(paths.place_of.size())),
      lists(paths.lists.size()), keys(paths.keys.used()) {}

void LazyDfaEngine::begin(const Subscriptions&) { mark_ = Mark(*paths_); }

// Encodes the paths of a query as bytes. Its labels enter the table at once; rollback() removes them again.
void LazyDfaEngine::add(uint32_t, const Query& query, bool ordered) {
    if (query.linear()) {
        query.linear_paths(linear_paths_);
        for (const Path& path : linear_paths_) {
            queries_.bytes.push_back(plain_key);
            for (const PathStep& step : path) {
                if (step.descendant) put_varint(queries_.bytes, label_descend);
                put_varint(queries_.bytes, paths_->labels->intern(step));
            }
            queries_.end_path();
        }
        queries_.end_item(false);
        return;
    }
    if (ordered) check_ordered(query);
    Patterns patterns = to_patterns(query, ordered, *paths_->labels);
    for (const std::string& pattern : patterns.patterns) {
        queries_.bytes.push_back(tree_key);
        queries_.bytes += pattern;
        queries_.end_path();
    }
    queries_.end_item(!patterns.exact);
}

// Readers follow links through buffers that are as large as those of their View.
// If one of these buffers moves, the heads move too, and first. So no old reader meets a link that leads beyond its buffers.
void LazyDfaEngine::reserve_links(Paths& paths, const NewQueries& queries) {
    size_t several = 0;
    for (size_t i = 0; i < queries.size(); ++i) {
        size_t count = queries.item_ends[i] - (i ? queries.item_ends[i - 1] : 0);
        several += count > 1 || queries.needs_recheck[i] ? count : 0;
    }
    size_t next = paths.next.size() + queries.size(), extras = paths.extras.size() + several;
    if (!paths.next.has_room(next) || !paths.extras.has_room(extras)) paths.heads.move();
    paths.next.reserve(next);
    paths.extras.reserve(extras);
}

// A list costs memory, so it is only used for several paths or a recheck.
void LazyDfaEngine::list_paths(Paths& paths, uint32_t slot, std::span<const uint32_t> numbers) {
    if (numbers.empty()) return;
    if (numbers.size() == 1 && !paths.needs_recheck[slot]) {
        paths.slot_paths[slot] = numbers[0];
        return;
    }
    uint32_t list = static_cast<uint32_t>(paths.lists.size());
    paths.lists.push(static_cast<uint32_t>(numbers.size()));
    paths.lists.append(numbers.data(), numbers.size());
    paths.slot_paths[slot] = several_bit | list;
}

Array<uint32_t> LazyDfaEngine::Paths::lay_out_table(const HashSeeds& with) const {
    uint32_t count = static_cast<uint32_t>(place_of.size());
    return lay_out(count, count, [&](uint32_t path) { return hash_bytes(key(path), 0, with); }, [](uint32_t) { return true; });
}

// Adds the rows of the queries, which no reader sees before commit(), and builds what their paths need.
// May fail: see rollback().
void LazyDfaEngine::add_rows(Paths& paths, const Subscriptions& rows, const NewQueries& queries, Change& change) {
    reserve_links(paths, queries);
    change.first_slot = paths.slots();
    change.path_ends.reserve(queries.size());
    std::vector<uint32_t> numbers;
    InterruptTicks ticks(1000);
    for (size_t i = 0, p = 0; i < queries.size(); ++i) {
        ticks.tick();
        uint32_t slot = static_cast<uint32_t>(change.first_slot + i);
        paths.next.push(none);
        paths.needs_recheck.push(queries.needs_recheck[i]);
        paths.slot_paths.push(none);
        numbers.clear();
        for (; p < queries.item_ends[i]; ++p) numbers.push_back(add_path(paths, queries.key(p), change.fresh));
        // A union may contain the same path twice; a slot must be in each chain once.
        if (numbers.size() > 1) {
            std::sort(numbers.begin(), numbers.end());
            numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
        }
        list_paths(paths, slot, numbers);
        change.paths.insert(change.paths.end(), numbers.begin(), numbers.end());
        change.path_ends.push_back(change.paths.size());
    }
    place(paths, rows, change);
}

void LazyDfaEngine::prepare(const Subscriptions& rows, bool merges) {
    change_.merges = merges;
    add_rows(*paths_, rows, queries_, change_);
    if (merges) advance_merges(*paths_, rows, change_);
}

// Copies the paths of the slots, with labels in a table of their own. Names that nobody uses remain in the old one.
void LazyDfaEngine::renumber(std::span<const uint32_t> slots, const Subscriptions& rows) {
    auto copy = std::make_unique<Paths>(seeds_);
    auto new_label = [&](uint32_t label) { return label < label_first ? label : copy->labels->intern(paths_->labels->step_of(label)); };
    NewQueries queries;
    for (uint32_t slot : slots) {
        for (uint32_t path : paths_->of_slot(slot)) {
            queries.bytes += relabel_key(paths_->key(path), new_label);
            queries.end_path();
        }
        queries.end_item(paths_->needs_recheck[slot]);
    }
    Change change;
    add_rows(*copy, rows, queries, change);
    change_ = std::move(change);
    next_paths_ = std::move(copy);
}

// Puts the slot into the chains of its paths. There is room, so this cannot fail.
void LazyDfaEngine::link(Paths& paths, uint32_t slot, std::span<const uint32_t> numbers) noexcept {
    auto head = [&](uint32_t path) { return std::atomic_ref<uint32_t>(paths.heads[path]); };
    bool several = paths.slot_paths[slot] & several_bit;
    for (uint32_t path : numbers) {
        uint32_t link = several ? static_cast<uint32_t>(paths.extras.size()) | extra_bit : slot;
        uint32_t after = head(path).load(std::memory_order_relaxed);
        if (several)
            paths.extras.push({slot, after});
        else
            paths.next[slot] = after;
        // Release: a reader that sees the new head also sees the link that it leads to.
        head(path).store(link, std::memory_order_release);
        mark_dirty(paths, path);
        set_vacant(paths, path, false);
    }
}

// Only stores into memory that exists. Everything that could fail happened in prepare().
void LazyDfaEngine::commit(const Subscriptions& rows, bool alone) noexcept {
    if (next_paths_) {
        paths_ = std::move(next_paths_);
        credit_.reset();
    }
    Paths& paths = *paths_;
    // What is said of a path from here on has to be known to the delta that the next View has.
    if (change_.placing.delta) paths.delta = change_.placing.delta;
    for (uint32_t slot : removed_slots_)
        for (uint32_t path : paths.of_slot(slot)) {
            mark_dirty(paths, path);
            unlink(paths, rows, path, slot, alone);
            // A reader of an older View would still ask for the dead.
            if (alone && paths.heads[path] == none) set_vacant(paths, path, true);
        }
    for (size_t i = 0, begin = 0; i < change_.path_ends.size(); begin = change_.path_ends[i++])
        link(paths, static_cast<uint32_t>(change_.first_slot + i), std::span(change_.paths).subspan(begin, change_.path_ends[i] - begin));
    paths_built_ = 0;
    for (const Placing::NewPlace& built : change_.placing.built) paths_built_ += built.paths.size();
    merges_done_ += change_.placing.done.size();
    if (change_.placing.delta) {
        settle(paths, rows, change_.placing);
        credit_.earn(change_.placing.fresh_trees);
        credit_.update(TreePlaces(paths.places).sizes());
    }
    end_change();
}

// Undoes what add() and prepare() have added.
void LazyDfaEngine::rollback(const Subscriptions&) noexcept {
    Paths& paths = *paths_;
    if (!next_paths_)                           // otherwise the change is about those, and they go as they are
        for (uint32_t path : change_.fresh)
            if (path < mark_.paths) paths.place_of[path] = nowhere;
    for (uint32_t path = static_cast<uint32_t>(paths.place_of.size()); path-- > mark_.paths;) forget_path(paths, path);
    paths.next.cut(mark_.slots), paths.slot_paths.cut(mark_.slots), paths.needs_recheck.cut(mark_.slots), paths.lists.cut(mark_.lists);
    paths.keys.cut(mark_.paths, mark_.keys);
    paths.heads.cut(mark_.paths), paths.accept_of.cut(mark_.paths), paths.place_of.cut(mark_.paths);
    paths.labels->cut(mark_.labels);
    end_change();
}

void LazyDfaEngine::end_change() noexcept {
    queries_.clear();
    change_.clear();
    if (removed_slots_.capacity() > kept_max) removed_slots_ = {};
    removed_slots_.clear();
    next_paths_ = nullptr;
}

// Takes a dead slot off the chain of a path, now or later. A slot near the head is found at once.
// Further down the dead stay until they are half of the chain, and then all go in one walk.
// So the cost of removing does not depend on the length of the chain.
void LazyDfaEngine::unlink(Paths& paths, const Subscriptions& rows, uint32_t path, uint32_t slot, bool alone) noexcept {
    auto walk = [&](uint32_t links_max, auto&& is_gone) {
        uint32_t left = 0;
        for (uint32_t* at = &paths.heads[path]; *at != none && left < links_max;) {
            bool extra = *at & extra_bit;
            uint32_t there = extra ? paths.extras[*at & ~extra_bit].slot : *at;
            uint32_t* after = extra ? &paths.extras[*at & ~extra_bit].next : &paths.next[*at];
            if (is_gone(there))
                *at = *after;
            else
                at = after, ++left;
        }
        return left;
    };
    auto chain = paths.chains.find(path);
    if (chain == paths.chains.end()) {
        bool done = false;
        if (alone) walk(links_walked_max, [&](uint32_t there) { return there == slot && (done = true); });
        if (done) return;
        try {
            chain = paths.chains.emplace(path, Paths::Chain{0, 2 * links_walked_max}).first;
        } catch (const std::bad_alloc&) {
            return;              // readers pass over it
        }
    }
    if (++chain->second.dead < chain->second.sweep_at || !alone) return;
    uint32_t left = walk(none, [&](uint32_t there) { return rows.deaths[there] != 0; });
    if (left <= links_walked_max)
        paths.chains.erase(chain);
    else
        chain->second = {0, std::max(2 * links_walked_max, left / 2)};
}

// Shares buffers with the View; nothing is copied.
void LazyDfaEngine::fill(EngineState& state) const noexcept {
    auto& out = static_cast<LazyDfaState&>(state);
    const Paths& paths = *paths_;
    hold(out.labels, paths.labels);
    for (size_t p = 0; p < places_max; ++p) hold(out.places[p], paths.places[p]);
    hold(out.delta, paths.delta);
    paths.heads.share_with(out.heads);
    paths.next.share_with(out.next);
    paths.extras.share_with(out.extras);
    paths.needs_recheck.share_with(out.needs_recheck);
}

EngineStats LazyDfaEngine::stats() const {
    const Paths& p = *paths_;
    EngineStats stats;
    stats.paths = p.accept_of.size();
    stats.bytes = p.labels->bytes() + p.next.bytes() + p.extras.bytes() + p.heads.bytes() + p.needs_recheck.bytes() +
                  p.slot_paths.bytes() + p.lists.bytes() + p.accept_of.bytes() + p.path_table.bytes() + p.added_table.bytes() + p.place_of.bytes() +
                  p.keys.bytes() + p.delta->bytes();
    for (const auto& merge : p.merges) stats.bytes += merge->bytes();
    stats.merges_begun = p.merges.size(), stats.merges_done = merges_done_, stats.paths_built = paths_built_;
    stats.keys_compared = p.keys_compared;
    for (const auto& place : p.places) {
        if (!place) continue;
        stats.bytes += place->bytes();
        stats.states += place->states();
        ++stats.machines;
    }
    return stats;
}

}  // namespace treecast
