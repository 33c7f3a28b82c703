// What has been made for this document, by what it was made from.
#pragma once

#include "seeded_hash.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace treecast {

// Words -> a range of something that the owner keeps. Forgets everything at once; past `entries_max` it keeps nothing new.
class Memo {
public:
    struct Made {
        uint64_t begin = 0, size = 0;
        uint8_t flags = 0;
    };

    const Made* find(std::span<const uint64_t> words, uint64_t& hash) const {
        hash = hash_of(words);
        uint32_t found = slots_.find(hash, [&](uint32_t other) { return same(other, words); });
        return found == IdSlots::empty ? nullptr : &entries_[found].made;
    }
    void keep(std::span<const uint64_t> words, uint64_t hash, Made made) {
        if (entries_.size() >= entries_max) return;
        auto number = static_cast<uint32_t>(entries_.size());
        entries_.push_back({hash, static_cast<uint32_t>(words_.size()), static_cast<uint32_t>(words.size()), made});
        words_.insert(words_.end(), words.begin(), words.end());
        slots_.add(hash, number, [&](uint32_t earlier) { return entries_[earlier].hash; });
    }
    void clear() {
        if (entries_.empty()) return;
        entries_.clear();
        words_.clear();
        slots_.reset();
    }

private:
    static constexpr size_t entries_max = 1u << 18;
    struct Entry {
        uint64_t hash;
        uint32_t words, count;
        Made made;
    };
    static uint64_t hash_of(std::span<const uint64_t> words) {
        const HashSeeds& seeds = hash_seeds();
        uint64_t hash = words.size() ^ seeds.c;
        for (uint64_t word : words) hash = hash_words(seeds, hash, word);
        return hash;
    }
    bool same(uint32_t number, std::span<const uint64_t> words) const {
        const Entry& entry = entries_[number];
        if (entry.count != words.size()) return false;
        for (size_t i = 0; i < words.size(); ++i)
            if (words_[entry.words + i] != words[i]) return false;
        return true;
    }

    std::vector<Entry> entries_;
    std::vector<uint64_t> words_;
    IdSlots slots_;
};

}  // namespace treecast
