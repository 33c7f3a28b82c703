// Where the paths of a Store live: the delta, the machines, and how one becomes the other.
#include "index/store.hpp"

#include "base/interrupt.hpp"
#include "base/seeded_hash.hpp"
#include "machines/path_key.hpp"

#include <algorithm>

namespace treecast {

uint64_t Placed::bytes() const {
    return (machine ? machine->bytes() : tree->bytes()) + path_of.bytes() + slot_of.bytes() + dirty.bytes();
}

std::string_view Store::key_of(const Body& body, uint32_t path) {
    return {body.path_bytes.data() + body.path_ends[path], body.path_ends[path + 1] - body.path_ends[path]};
}

// Tables of the ids that live and of all paths, as they would be if they were made at once.
Store::Tables Store::lay_out(const Body& body, const HashSeeds& seeds) {
    Tables tables;
    tables.seeds = seeds;
    auto fill = [&](Array<uint32_t>& table, size_t count, uint32_t numbers, auto&& key_of_number, auto&& is_there) {
        if (!count) return;
        size_t size = 64;
        while (2 * size < 3 * count) size *= 2;
        table.assign(size, none);
        InterruptTicks ticks(100);
        for (uint32_t number = 0; number < numbers; ++number) {
            if (!is_there(number)) continue;
            ticks.tick();
            size_t at = hash_bytes(key_of_number(number), 0, seeds) & (size - 1);
            while (table[at] != none) at = (at + 1) & (size - 1);
            table[at] = number;
        }
    };
    fill(tables.ids, body.live, static_cast<uint32_t>(body.deaths.size()), [&](uint32_t slot) { return id_of(body, slot); },
         [&](uint32_t slot) { return body.deaths[slot] == 0; });
    fill(tables.paths, body.place_of.size(), static_cast<uint32_t>(body.place_of.size()),
         [&](uint32_t path) { return key_of(body, path); }, [](uint32_t) { return true; });
    return tables;
}

// A body that was loaded has tables with seeds that anybody can compute. Looking something up in them does no harm; before something
// is added, they are laid out anew, with seeds that strangers do not know.
void Store::reseed(Body& body) const {
    if (body.seeds == seeds_) return;
    Tables tables = lay_out(body, seeds_);
    body.id_table = std::move(tables.ids);
    body.path_table = std::move(tables.paths);
    body.tombs = 0;
    body.seeds = seeds_;
}

bool Store::has_saved_seeds() const {
    std::lock_guard lock(write_mutex_);
    return !(body_->seeds == seeds_);
}

// The number of a path; new ones, and known ones that live nowhere at present, are added to `fresh`.
uint32_t Store::add_path(Body& body, std::string_view key, std::vector<uint32_t>& fresh) {
    size_t count = body.place_of.size();
    if (4 * (count + 1) > 3 * body.path_table.size()) {
        size_t size = 64;
        while (2 * size < 3 * (count + 1)) size *= 2;
        body.path_table.assign(size, none);
        for (uint32_t p = 0; p < count; ++p) {
            size_t at = hash_bytes(key_of(body, p), 0, body.seeds) & (size - 1);
            while (body.path_table[at] != none) at = (at + 1) & (size - 1);
            body.path_table[at] = p;
        }
    }
    size_t at = hash_bytes(key, 0, body.seeds) & (body.path_table.size() - 1);
    for (; body.path_table[at] != none; at = (at + 1) & (body.path_table.size() - 1)) {
        uint32_t path = body.path_table[at];
        if (key_of(body, path) != key) continue;
        if (body.place_of[path] == nowhere) {
            fresh.push_back(path);
            body.place_of[path] = pending;
        }
        return path;
    }
    uint32_t path = static_cast<uint32_t>(count);
    body.path_bytes.append(key.data(), key.size());
    body.path_ends.push(body.path_bytes.size());
    body.heads.push(none);
    body.accept_of.push(none);
    body.place_of.push(pending);
    body.path_table[at] = path;
    fresh.push_back(path);
    return path;
}

void Store::mark_dirty(Body& body, uint32_t path) noexcept {
    uint8_t place = body.place_of[path];
    if (place >= View::places_max) return;
    body.places[place]->mark(body.accept_of[path]);
}

bool Store::path_lives(const Body& body, uint32_t path) const {
    for (uint32_t link = body.heads[path]; link != none;) {
        bool extra = link & extra_bit;
        uint32_t slot = extra ? body.extras[link & ~extra_bit].slot : link;
        if (body.deaths[slot] == 0) return true;
        link = extra ? body.extras[link & ~extra_bit].next : body.next[link];
    }
    return false;
}

// Whether somebody asks for the path, or will once the change is in force.
bool Store::path_will_live(const Body& body, uint32_t path, Change& change) const {
    if (path_lives(body, path)) return true;
    if (change.wanted.empty()) {
        change.wanted = change.paths;
        std::sort(change.wanted.begin(), change.wanted.end());
    }
    return std::binary_search(change.wanted.begin(), change.wanted.end(), path);
}

// Finds a home for new paths: the delta while there is room, otherwise a machine. The body learns of it in settle().
void Store::place(const Body& body, Change& change) const {
    Placing& placing = change.placing;
    placing.places = body.places;
    placing.delta = body.delta;
    std::vector<uint32_t> fresh, trees;
    for (uint32_t path : change.fresh) (is_tree(key_of(body, path)) ? trees : fresh).push_back(path);
    if (!trees.empty()) build(body, std::move(trees), true, change);
    if (fresh.empty()) return;
    std::vector<uint32_t> labels;
    auto fill = [&](Delta& delta) {           // as many as fit
        size_t done = 0;
        for (; done < fresh.size(); ++done) {
            labels.clear();
            plain_labels(key_of(body, fresh[done]), labels);
            if (!delta.add(fresh[done], labels, *body.labels)) break;
        }
        placing.delta_paths.assign(fresh.begin(), fresh.begin() + done);
        fresh.erase(fresh.begin(), fresh.begin() + done);
    };
    if (fresh.size() <= delta_paths_max) {
        auto copy = std::make_shared<Delta>(*body.delta);    // readers may be in the old one
        fill(*copy);
        placing.delta = copy;
        if (fresh.empty()) return;
        placing.delta_paths.clear();
    }
    for (uint32_t path : placing.delta->paths()) (path_will_live(body, path, change) ? fresh : placing.homeless).push_back(path);
    auto renewed = std::make_shared<Delta>();
    if (fresh.size() <= delta_paths_max / 4) fill(*renewed);      // it was full of paths that nobody wants any more
    placing.delta = std::move(renewed);
    if (!fresh.empty()) build(body, std::move(fresh), false, change);
}

namespace {

std::shared_ptr<const Machine> build_machine(std::span<const std::string_view> keys, const LabelTable& table,
                                             std::vector<uint32_t>& accept_of) {
    std::vector<uint32_t> labels;
    std::vector<size_t> ends;
    for (std::string_view key : keys) {
        plain_labels(key, labels);
        ends.push_back(labels.size());
    }
    std::vector<Labels> paths;
    paths.reserve(keys.size());
    for (size_t i = 0, begin = 0; i < keys.size(); begin = ends[i++]) paths.emplace_back(labels.data() + begin, ends[i] - begin);
    return std::make_shared<Machine>(paths, table, accept_of);
}

std::shared_ptr<const TreeMachine> build_tree(std::span<const std::string_view> keys, const LabelTable& table,
                                              std::vector<uint32_t>& accept_of, const HashSeeds& seeds) {
    std::vector<std::string_view> patterns;
    patterns.reserve(keys.size());
    for (std::string_view key : keys) patterns.push_back(key.substr(1));
    return std::make_shared<TreeMachine>(patterns, table, accept_of, seeds);
}

}  // namespace

// Builds a machine of `paths` and of all machines of its kind that are not much larger than what is merged already.
void Store::build(const Body& body, std::vector<uint32_t> paths, bool trees, Change& change) const {
    Placing& placing = change.placing;
    uint8_t begin = trees ? View::places_max / 2 : 0, end = begin + View::places_max / 2;
    for (;;) {
        uint8_t smallest = nowhere, vacant = nowhere;
        for (uint8_t p = begin; p < end; ++p) {
            if (!placing.places[p])
                vacant = p;
            else if (smallest == nowhere || placing.places[p]->accepts() < placing.places[smallest]->accepts())
                smallest = p;
        }
        if (smallest == nowhere) break;
        if (vacant != nowhere && placing.places[smallest]->accepts() > merge_ratio * paths.size()) break;
        for (uint32_t path : placing.places[smallest]->path_of)
            (path_will_live(body, path, change) ? paths : placing.homeless).push_back(path);
        placing.places[smallest] = nullptr;
    }
    uint8_t home = begin;
    while (placing.places[home]) ++home;
    std::vector<std::string_view> keys;
    keys.reserve(paths.size());
    for (uint32_t path : paths) keys.push_back(key_of(body, path));
    auto placed = std::make_shared<Placed>();
    std::vector<uint32_t> accept_of;
    if (trees)
        placed->tree = build_tree(keys, *body.labels, accept_of, seeds_);
    else
        placed->machine = build_machine(keys, *body.labels, accept_of);
    placed->path_of.assign(paths.size(), none);
    placed->slot_of.assign(paths.size(), none);
    placed->dirty.assign((paths.size() + 63) / 64, 0);
    placing.built.push_back({placed, home, std::move(paths), std::move(accept_of)});
    placing.places[home] = std::move(placed);
}

// Brings paths to their new homes, after those who ask for them have been linked.
void Store::settle(Body& body, Placing& placing) noexcept {
    for (uint32_t path : placing.homeless) body.place_of[path] = nowhere;
    for (uint32_t path : placing.delta_paths) body.place_of[path] = in_delta;
    for (const Placing::Built& built : placing.built)
        for (size_t i = 0; i < built.paths.size(); ++i) {
            uint32_t path = built.paths[i], accept = built.accept_of[i], head = body.heads[path];
            built.placed->path_of[accept] = path;
            body.accept_of[path] = accept;
            body.place_of[path] = built.home;
            bool plain = head != none && !(head & extra_bit) && body.deaths[head] == 0 && body.next[head] == none;
            if (plain)
                built.placed->slot_of[accept] = head;
            else
                built.placed->mark(accept);
        }
    body.places = std::move(placing.places);
    body.delta = std::move(placing.delta);
}

StoreStats Store::stats() const {
    std::lock_guard lock(write_mutex_);
    const Body& b = *body_;
    StoreStats stats;
    stats.subscriptions = b.live;
    stats.paths = b.accept_of.size();
    stats.bytes = b.labels->bytes() + b.settings->bytes() + b.id_ends.bytes() + b.id_bytes.bytes() + b.text_bytes.bytes() + b.text_ends.bytes() +
                  b.deaths.bytes() + b.next.bytes() + b.order.bytes() + b.extras.bytes() + b.heads.bytes() + b.slot_settings.bytes() +
                  b.judged.bytes() + b.slot_paths.bytes() + b.lists.bytes() + b.id_table.bytes() + b.accept_of.bytes() +
                  b.path_table.bytes() + b.place_of.bytes() + b.path_bytes.bytes() + b.path_ends.bytes() + b.delta->bytes();
    for (const auto& placed : b.places) {
        if (!placed) continue;
        stats.bytes += placed->bytes();
        stats.states += placed->states();
        ++stats.machines;
    }
    if (published_) {
        stats.states = published_->states();
        stats.bytes += published_->bytes();
        stats.machines = 1;
    }
    return stats;
}

}  // namespace treecast
