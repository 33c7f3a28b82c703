// What XFilter and the hybrid share: one machine for each distinct path, and the subscriptions that wait for it.
//
// Equal paths are matched once, however many subscriptions contain them.
#pragma once

#include "base/recycled_ids.hpp"
#include "base/seeded_hash.hpp"
#include "document/document.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace treecast {

class DistinctPaths {
public:
    // Adds a subscription to the path with this key and returns the path's number. `fresh` says whether it was unknown.
    uint32_t add(uint32_t slot, const std::string& key, bool& fresh) {
        auto [found, inserted] = numbers_.try_emplace(key, 0);
        if (inserted) {
            found->second = ids_.take();
            if (entries_.size() <= found->second) entries_.emplace_back();
            entries_[found->second].key = found->first;
        }
        fresh = inserted;
        if (of_slot_.size() <= slot) of_slot_.resize(slot + 1);
        of_slot_[slot].push_back({found->second, static_cast<uint32_t>(entries_[found->second].slots.size())});
        entries_[found->second].slots.push_back(slot);
        return found->second;
    }

    void add_nothing(uint32_t slot) {                    // a subscription that can never match
        if (of_slot_.size() <= slot) of_slot_.resize(slot + 1);
    }

    // Removes a subscription. Calls gone(path) for every path that no subscription waits for any more.
    template <class Gone>
    void remove(uint32_t slot, Gone&& gone) {
        for (auto [path, place] : of_slot_[slot]) {
            Entry& entry = entries_[path];
            uint32_t last = entry.slots.back();          // takes its place
            entry.slots[place] = last;
            for (Waiting& waiting : of_slot_[last])
                if (waiting.path == path && waiting.place + 1 == entry.slots.size()) waiting.place = place;
            entry.slots.pop_back();
            if (!entry.slots.empty()) continue;
            gone(path);
            numbers_.erase(numbers_.find(entry.key));
            entry = {};
            ids_.give_back(path);
        }
        of_slot_[slot] = {};
    }

    const std::vector<uint32_t>& slots(uint32_t path) const { return entries_[path].slots; }
    size_t paths() const { return entries_.size(); }     // all numbers are below
    size_t slots() const { return of_slot_.size(); }
    size_t bytes() const {
        size_t total = entries_.capacity() * sizeof(Entry) + of_slot_.capacity() * sizeof(of_slot_[0]);
        for (const Entry& entry : entries_) total += 2 * entry.slots.capacity() * sizeof(uint32_t) + entry.key.size() + 64;
        return total;
    }

private:
    struct Entry {
        std::string_view key;                            // of the map
        std::vector<uint32_t> slots;
    };
    struct Waiting {
        uint32_t path, place;                            // its place among the slots of the path
    };
    TextMap<uint32_t> numbers_;
    std::vector<Entry> entries_;
    std::vector<std::vector<Waiting>> of_slot_;
    RecycledIds ids_;
};

// Which paths and subscriptions a document has satisfied so far. Part of a Scratch.
// A subscription may wait for several paths (a union), so slots are marked as well: each is reported once.
class Satisfied {
public:
    void begin(const DistinctPaths& paths) {
        if (++document_ == 0) {                          // wrapped round: old marks would look new
            paths_.assign(paths_.size(), 0);
            slots_.assign(slots_.size(), 0);
            document_ = 1;
        }
        if (paths_.size() < paths.paths()) paths_.resize(paths.paths(), 0);
        if (slots_.size() < paths.slots()) slots_.resize(paths.slots(), 0);
    }
    bool has(uint32_t path) const { return paths_[path] == document_; }
    void add(const DistinctPaths& paths, uint32_t path, std::vector<uint32_t>& out) {
        paths_[path] = document_;
        for (uint32_t slot : paths.slots(path)) {
            if (slots_[slot] == document_) continue;
            slots_[slot] = document_;
            out.push_back(slot);
        }
    }

private:
    std::vector<uint32_t> paths_, slots_;                // the document that last did
    uint32_t document_ = 0;
};

}  // namespace treecast
