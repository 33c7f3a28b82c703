// Where the paths of a Store live: the delta, the machines, and how one becomes the other.
#include "store.hpp"

#include "seeded_hash.hpp"

#include <algorithm>

namespace treecast {

namespace {

void encode(Labels labels, std::vector<uint8_t>& out) {
    out.clear();
    for (uint32_t label : labels) {
        while (label >= 128) {
            out.push_back(static_cast<uint8_t>(label | 128));
            label >>= 7;
        }
        out.push_back(static_cast<uint8_t>(label));
    }
}

}  // namespace

uint64_t Placed::bytes() const {
    return machine->bytes() + (path_of.capacity() + slot_of.capacity()) * 4 + dirty.capacity() * 8;
}

void Store::decode(const Body& body, uint32_t path, std::vector<uint32_t>& labels) const {
    const uint8_t* at = body.path_bytes.data() + body.path_ends[path];
    const uint8_t* end = body.path_bytes.data() + body.path_ends[path + 1];
    while (at < end) {
        uint32_t label = 0;
        int shift = 0;
        for (; *at & 128; ++at, shift += 7) label |= uint32_t(*at & 127) << shift;
        labels.push_back(label | uint32_t(*at++) << shift);
    }
}

// The number of a path; new ones, and known ones that live nowhere at present, are added to `fresh`.
uint32_t Store::add_path(Body& body, Labels labels, std::vector<uint32_t>& fresh) {
    auto bytes_of = [&](uint32_t path) {
        return std::string_view(reinterpret_cast<const char*>(body.path_bytes.data()) + body.path_ends[path],
                                body.path_ends[path + 1] - body.path_ends[path]);
    };
    size_t count = body.accept_of.size();
    if (4 * (count + 1) > 3 * body.path_table.size()) {
        size_t size = 64;
        while (2 * size < 3 * (count + 1)) size *= 2;
        body.path_table.assign(size, none);
        for (uint32_t p = 0; p < count; ++p) {
            size_t at = hash_bytes(bytes_of(p)) & (size - 1);
            while (body.path_table[at] != none) at = (at + 1) & (size - 1);
            body.path_table[at] = p;
        }
    }
    encode(labels, encoded_);
    std::string_view key(reinterpret_cast<const char*>(encoded_.data()), encoded_.size());
    size_t at = hash_bytes(key) & (body.path_table.size() - 1);
    for (; body.path_table[at] != none; at = (at + 1) & (body.path_table.size() - 1)) {
        uint32_t path = body.path_table[at];
        if (bytes_of(path) != key) continue;
        if (body.place_of[path] == nowhere) {
            body.place_of[path] = pending;
            fresh.push_back(path);
        }
        return path;
    }
    uint32_t path = static_cast<uint32_t>(count);
    body.path_table[at] = path;
    body.path_bytes.insert(body.path_bytes.end(), encoded_.begin(), encoded_.end());
    body.path_ends.push_back(body.path_bytes.size());
    body.heads.push(none);
    body.accept_of.push_back(none);
    body.place_of.push_back(pending);
    fresh.push_back(path);
    return path;
}

void Store::mark_dirty(Body& body, uint32_t path) {
    uint8_t place = body.place_of[path];
    if (place >= View::places_max) return;
    uint32_t accept = body.accept_of[path];
    body.places[place]->dirty[accept >> 6].fetch_or(1ull << (accept & 63), std::memory_order_relaxed);
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
    if (fresh.empty()) return;
    std::vector<uint32_t> labels;
    auto fits = [&](Delta& delta, uint32_t path) {
        labels.clear();
        decode(body, path, labels);
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
    if (fresh.size() <= delta_paths_max / 4) {      // it was full of paths that nobody wants any more
        size_t done = 0;
        while (done < fresh.size() && fits(*renewed, fresh[done])) ++done;
        fresh.erase(fresh.begin(), fresh.begin() + done);
    }
    body.delta = std::move(renewed);
    if (!fresh.empty()) build(body, fresh);
}

// Builds a machine of `paths` and of all machines that are not much larger than what is merged already.
void Store::build(Body& body, std::vector<uint32_t>& paths) {
    for (;;) {
        uint8_t smallest = nowhere, vacant = nowhere;
        for (uint8_t p = 0; p < View::places_max; ++p) {
            if (!body.places[p])
                vacant = p;
            else if (smallest == nowhere || body.places[p]->machine->accepts() < body.places[smallest]->machine->accepts())
                smallest = p;
        }
        if (smallest == nowhere) break;
        if (vacant != nowhere && body.places[smallest]->machine->accepts() > merge_ratio * paths.size()) break;
        for (uint32_t path : body.places[smallest]->path_of) {
            body.place_of[path] = path_lives(body, path) ? pending : nowhere;
            if (body.place_of[path] == pending) paths.push_back(path);
        }
        body.places[smallest] = nullptr;
    }
    uint8_t home = 0;
    while (body.places[home]) ++home;
    std::vector<uint32_t> labels;
    std::vector<size_t> ends;
    for (uint32_t path : paths) {
        decode(body, path, labels);
        ends.push_back(labels.size());
    }
    std::vector<Labels> spans;
    spans.reserve(paths.size());
    for (size_t i = 0, begin = 0; i < paths.size(); begin = ends[i++]) spans.emplace_back(labels.data() + begin, ends[i] - begin);
    auto placed = std::make_shared<Placed>();
    std::vector<uint32_t> accept_of;
    placed->machine = std::make_shared<Machine>(spans, *body.labels, accept_of);
    placed->path_of.resize(paths.size());
    placed->slot_of.assign(paths.size(), none);
    placed->dirty = std::vector<std::atomic<uint64_t>>((paths.size() + 63) / 64);
    for (size_t i = 0; i < paths.size(); ++i) {
        uint32_t path = paths[i], accept = accept_of[i], head = body.heads[path];
        placed->path_of[accept] = path;
        body.accept_of[path] = accept;
        body.place_of[path] = home;
        bool plain = head != none && !(head & extra_bit) && body.deaths[head] == 0 && body.next[head] == none;
        if (plain)
            placed->slot_of[accept] = head;
        else
            placed->dirty[accept >> 6].fetch_or(1ull << (accept & 63), std::memory_order_relaxed);
    }
    body.places[home] = std::move(placed);
}

StoreStats Store::stats() const {
    std::lock_guard lock(write_mutex_);
    const Body& b = *body_;
    StoreStats stats;
    stats.subscriptions = b.live;
    stats.paths = b.accept_of.size();
    stats.bytes = b.labels->bytes() + b.id_ends.bytes() + b.id_bytes.bytes() + b.text_bytes.bytes() + b.text_ends.bytes() +
                  b.deaths.bytes() + b.next.bytes() + b.order.bytes() + b.extras.bytes() + b.heads.bytes() +
                  4 * (b.slot_paths.capacity() + b.slot_settings.capacity() + b.id_table.capacity() + b.accept_of.capacity() +
                       b.path_table.capacity()) +
                  b.place_of.capacity() + b.path_bytes.capacity() + 8 * b.path_ends.capacity() + b.delta->bytes();
    for (const auto& list : b.lists) stats.bytes += sizeof(list) + 4 * list.capacity();
    for (const auto& placed : b.places) {
        if (!placed) continue;
        stats.bytes += placed->bytes();
        stats.states += placed->machine->states();
        ++stats.machines;
    }
    return stats;
}

}  // namespace treecast
