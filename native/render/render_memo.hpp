// What has been made for this document, indexed by what it was made from.
#pragma once

#include "base/seeded_hash.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace treecast {

// Words -> a range of something that the owner stores. Clearing is free: entries carry a stamp.
// When there are `entries_max`, nothing new is kept.
// The table is not an IdSlots (base/id_slots.hpp): its slots carry the stamp, because it is cleared for each document.
class Memo {
public:
    struct Made {
        uint64_t begin = 0, size = 0;
        uint8_t flags = 0;
    };

    const Made* find(std::span<const uint64_t> words, uint64_t& hash) const {
        hash = hash_of(words);
        for (size_t at = hash & mask(); slots_[at].stamp == stamp_; at = (at + 1) & mask())
            if (same(slots_[at].entry, hash, words)) return &entries_[slots_[at].entry].made;
        return nullptr;
    }
    void keep(std::span<const uint64_t> words, uint64_t hash, Made made) {
        if (entries_.size() >= entries_max) return;
        auto number = static_cast<uint32_t>(entries_.size());
        entries_.push_back({hash, static_cast<uint32_t>(words_.size()), static_cast<uint32_t>(words.size()), made});
        words_.insert(words_.end(), words.begin(), words.end());
        if (entries_.size() * 2 > slots_.size()) {
            slots_.assign(slots_.size() * 2, Slot());
            for (uint32_t earlier = 0; earlier < number; ++earlier) place(earlier);
        }
        place(number);
    }
    void clear() {
        if (entries_.empty()) return;
        entries_.clear();
        words_.clear();
        if (++stamp_ == 0) {
            slots_.assign(slots_.size(), Slot());
            stamp_ = 1;
        }
    }

private:
    static constexpr size_t entries_max = 1u << 18;
    struct Entry {
        uint64_t hash;
        uint32_t words, count;
        Made made;
    };
    // Seeded with the length, so that a list and its prefix start from different values.
    static uint64_t hash_of(std::span<const uint64_t> words) {
        const HashSeeds& seeds = hash_seeds();
        uint64_t hash = words.size() ^ seeds.c;
        for (uint64_t word : words) hash = hash_words(seeds, hash, word);
        return hash;
    }
    bool same(uint32_t number, uint64_t hash, std::span<const uint64_t> words) const {
        const Entry& entry = entries_[number];
        if (entry.hash != hash || entry.count != words.size()) return false;
        for (size_t i = 0; i < words.size(); ++i)
            if (words_[entry.words + i] != words[i]) return false;
        return true;
    }

    size_t mask() const { return slots_.size() - 1; }
    void place(uint32_t number) {
        size_t at = entries_[number].hash & mask();
        while (slots_[at].stamp == stamp_) at = (at + 1) & mask();
        slots_[at] = {stamp_, number};
    }

    struct Slot {
        uint32_t stamp = 0, entry = 0;
    };
    std::vector<Entry> entries_;
    std::vector<uint64_t> words_;
    std::vector<Slot> slots_ = std::vector<Slot>(64);
    uint32_t stamp_ = 1;
};

}  // namespace treecast
