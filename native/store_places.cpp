// Where the paths of a Store live: the delta, the machines, and how one becomes the other.
#include "store.hpp"

#include "path_key.hpp"
#include "seeded_hash.hpp"

#include <algorithm>

namespace treecast {

uint64_t Placed::bytes() const {
    return (machine ? machine->bytes() : tree->bytes()) + path_of.bytes() + slot_of.bytes() + dirty.bytes();
}

std::string_view Store::key_of(const Body& body, uint32_t path) {
    return {body.path_bytes.data() + body.path_ends[path], body.path_ends[path + 1] - body.path_ends[path]};
}

// The number of a path; new ones, and known ones that live nowhere at present, are added to `fresh`.
uint32_t Store::add_path(Body& body, std::string_view key, std::vector<uint32_t>& fresh) {
    size_t count = body.accept_of.size();
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
            body.place_of[path] = pending;
            fresh.push_back(path);
        }
        return path;
    }
    uint32_t path = static_cast<uint32_t>(count);
    body.path_bytes.append(key.data(), key.size());
    body.path_ends.push(body.path_bytes.size());
    body.heads.push(none);
    body.accept_of.push(none);
    fresh.push_back(path);
    body.place_of.push(pending);
    body.path_table[at] = path;
    return path;
}

void Store::mark_dirty(Body& body, uint32_t path) {
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

// Finds a home for new paths: the delta while there is room, otherwise a machine.
void Store::place(Body& body, std::vector<uint32_t>& fresh) {
    auto first_tree = std::stable_partition(fresh.begin(), fresh.end(), [&](uint32_t path) { return !is_tree(key_of(body, path)); });
    std::vector<uint32_t> trees(first_tree, fresh.end());
    fresh.erase(first_tree, fresh.end());
    if (!trees.empty()) build(body, trees, true);
    if (fresh.empty()) return;
    std::vector<uint32_t> labels;
    auto fits = [&](Delta& delta, uint32_t path) {
        labels.clear();
        plain_labels(key_of(body, path), labels);
        if (!delta.add(path, labels, *body.labels)) return false;
        body.place_of[path] = in_delta;
        return true;
    };
    if (fresh.size() <= delta_paths_max) {
        auto copy = std::make_shared<Delta>(*body.delta);    // readers may be in the old one
        size_t done = 0;
        while (done < fresh.size() && fits(*copy, fresh[done])) ++done;
        body.delta = std::move(copy);
        fresh.erase(fresh.begin(), fresh.begin() + done);
        if (fresh.empty()) return;
    }
    for (uint32_t path : body.delta->paths()) {
        body.place_of[path] = path_lives(body, path) ? pending : nowhere;
        if (body.place_of[path] == pending) fresh.push_back(path);
    }
    auto renewed = std::make_shared<Delta>();
    try {
        if (fresh.size() <= delta_paths_max / 4) {      // it was full of paths that nobody wants any more
            size_t done = 0;
            while (done < fresh.size() && fits(*renewed, fresh[done])) ++done;
            fresh.erase(fresh.begin(), fresh.begin() + done);
        }
        if (!fresh.empty()) build(body, fresh, false);
        body.delta = std::move(renewed);
    } catch (...) {
        for (uint32_t path : renewed->paths()) body.place_of[path] = pending;
        for (uint32_t path : body.delta->paths()) body.place_of[path] = in_delta;
        throw;
    }
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
                                              std::vector<uint32_t>& accept_of) {
    std::vector<std::string_view> patterns;
    patterns.reserve(keys.size());
    for (std::string_view key : keys) patterns.push_back(key.substr(1));
    return std::make_shared<TreeMachine>(patterns, table, accept_of);
}

}  // namespace

// Builds a machine of `paths` and of all machines of its kind that are not much larger than what is merged already. The body is
// changed when it is done: what throws before that leaves all as it was.
void Store::build(Body& body, std::vector<uint32_t>& paths, bool trees) {
    uint8_t begin = trees ? View::places_max / 2 : 0, end = begin + View::places_max / 2;
    auto places = body.places;                          // as they will be
    std::vector<uint32_t> unwanted;
    for (;;) {
        uint8_t smallest = nowhere, vacant = nowhere;
        for (uint8_t p = begin; p < end; ++p) {
            if (!places[p])
                vacant = p;
            else if (smallest == nowhere || places[p]->accepts() < places[smallest]->accepts())
                smallest = p;
        }
        if (smallest == nowhere) break;
        if (vacant != nowhere && places[smallest]->accepts() > merge_ratio * paths.size()) break;
        for (uint32_t path : places[smallest]->path_of) (path_lives(body, path) ? paths : unwanted).push_back(path);
        places[smallest] = nullptr;
    }
    uint8_t home = begin;
    while (places[home]) ++home;
    std::vector<std::string_view> keys;
    keys.reserve(paths.size());
    for (uint32_t path : paths) keys.push_back(key_of(body, path));
    auto placed = std::make_shared<Placed>();
    std::vector<uint32_t> accept_of;
    if (trees)
        placed->tree = build_tree(keys, *body.labels, accept_of);
    else
        placed->machine = build_machine(keys, *body.labels, accept_of);
    placed->path_of.assign(paths.size(), none);
    placed->slot_of.assign(paths.size(), none);
    placed->dirty.assign((paths.size() + 63) / 64, 0);
    // From here on nothing throws.
    for (size_t i = 0; i < paths.size(); ++i) {
        uint32_t path = paths[i], accept = accept_of[i], head = body.heads[path];
        placed->path_of[accept] = path;
        body.accept_of[path] = accept;
        body.place_of[path] = home;
        bool plain = head != none && !(head & extra_bit) && body.deaths[head] == 0 && body.next[head] == none;
        if (plain)
            placed->slot_of[accept] = head;
        else
            placed->mark(accept);
    }
    for (uint32_t path : unwanted) body.place_of[path] = nowhere;
    places[home] = std::move(placed);
    body.places = std::move(places);
}

StoreStats Store::stats() const {
    std::lock_guard lock(write_mutex_);
    const Body& b = *body_;
    StoreStats stats;
    stats.subscriptions = b.live;
    stats.paths = b.accept_of.size();
    stats.bytes = b.labels->bytes() + b.id_ends.bytes() + b.id_bytes.bytes() + b.text_bytes.bytes() + b.text_ends.bytes() +
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
