// The open-addressing table of the core: from hashes to numbers. The owner keeps the keys, under these numbers.
//
// A table is an array of 32-bit slots, as many as a power of two, searched from `hash & mask` on to the first that is empty. Hashes
// come from seeded_hash.hpp, so nobody outside can fill a table with collisions. `IdSlots` is the table for almost everything;
// probe() alone is for arrays that somebody else owns, those of a saved index, which lie in a mapped file.
//
//     IdSlots slots;                            // names_[number] is the key
//     uint32_t number = slots.find(hash, [&](uint32_t n) { return names_[n] == name; });
//     if (number == IdSlots::empty) slots.add(hash, names_.size(), hash_of), names_.push_back(name);
#pragma once

#include "base/array.hpp"
#include "base/interrupt.hpp"
#include "base/large_pages.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace treecast {

inline constexpr uint32_t empty_slot = 0xFFFFFFFFu;

// Where the search for a key of this hash ends: at the number for which `same` holds, or at an empty slot. One slot at least
// has to be empty.
template <class Slots, class Same>
size_t probe(const Slots& slots, uint64_t hash, Same&& same) {
    const size_t mask = slots.size() - 1;
    size_t at = hash & mask;
    while (slots[at] != empty_slot && !same(slots[at])) at = (at + 1) & mask;
    return at;
}

// Where a number of this hash goes that is not there yet.
template <class Slots>
size_t probe_vacancy(const Slots& slots, uint64_t hash) {
    return probe(slots, hash, [](uint32_t) { return false; });
}

// The same for a table of numbers that are less than three quarters of its size: the bits that they leave free hold a part of the
// hash, so almost no key but the one that is sought is looked at. PERF: bench/churn.py: where a key lies is far from here.
template <class Slots>
uint32_t marked(const Slots& slots, uint64_t hash, uint32_t number) {
    return static_cast<uint32_t>(hash >> 32) << std::countr_zero(slots.size()) | number;
}

template <class Slots>
uint32_t unmarked(const Slots& slots, uint32_t entry) {
    return entry == empty_slot ? empty_slot : entry & static_cast<uint32_t>(slots.size() - 1);
}

template <class Slots, class Same>
size_t probe_marked(const Slots& slots, uint64_t hash, Same&& same) {
    const auto numbers = static_cast<uint32_t>(slots.size() - 1);
    const uint32_t sought = marked(slots, hash, 0);
    return probe(slots, hash, [&](uint32_t entry) { return (entry & ~numbers) == sought && same(entry & numbers); });
}

// A table of the numbers below `end` that are there, `count` of them, as it is when it is made at once: two thirds full at most. It
// depends on nothing but the hashes and the order of the numbers, so a saved table is the same in every process.
template <class HashOf, class IsThere>
Array<uint32_t> lay_out(size_t count, uint32_t end, HashOf&& hash_of, IsThere&& is_there) {
    Array<uint32_t> slots;
    if (!count) return slots;
    size_t size = 64;
    while (2 * size < 3 * count) size *= 2;
    slots.assign(size, empty_slot);
    InterruptTicks ticks(100);
    for (uint32_t number = 0; number < end; ++number) {
        if (!is_there(number)) continue;
        ticks.tick();
        slots[probe_vacancy(slots, hash_of(number))] = number;
    }
    return slots;
}

// At most half full. A change that finds no memory changes nothing.
class IdSlots {
public:
    IdSlots() : slots_(slots_min, empty) {}
    // The id for which `same(id)` holds among those with this hash, or `empty`.
    template <class Same>
    uint32_t find(uint64_t hash, Same same) const {
        return slots_[probe(slots_, hash, same)];
    }
    // For whoever will look for this hash soon: a slot of a large table takes a while to arrive.
    void prefetch(uint64_t hash) const { __builtin_prefetch(&slots_[hash & (slots_.size() - 1)]); }
    // Room for `count` more, so that adding them cannot fail. `hash_of(id)` gives the hash of any earlier id.
    template <class HashOf>
    void reserve(size_t count, HashOf hash_of) {
        size_t size = slots_.size();
        while ((used_ + count) * 2 > size) size *= 2;
        if (size == slots_.size()) return;
        Slots old(size, empty);
        old.swap(slots_);
        // PERF: bench/million.py, build. Without gaps, ids are taken in their order: their keys then lie one after the other.
        if (used_ && highest_ - lowest_ + 1 == used_) {
            place_row(lowest_, highest_ + 1, hash_of);
            return;
        }
        for (uint32_t earlier : old)
            if (earlier != empty) place(hash_of(earlier), earlier);
    }
    // Adds an id that is known to be absent.
    template <class HashOf>
    void add(uint64_t hash, uint32_t id, HashOf hash_of) {
        reserve(1, hash_of);
        ++used_;
        lowest_ = std::min<size_t>(lowest_, id);
        highest_ = std::max<size_t>(highest_, id);
        place(hash, id);
    }
    // The same in two parts, where ids are given in a row from 0 and never taken out. Growing then reads the keys in the order in
    // which they lie in memory. PERF: bench/growth.py. The first part may fail; the second cannot, and returns the id.
    template <class HashOf>
    void reserve_next(HashOf hash_of) {
        if ((used_ + 1) * 2 <= slots_.size()) return;
        Slots(slots_.size() * 2, empty).swap(slots_);
        place_row(0, used_, hash_of);
    }
    uint32_t add_next(uint64_t hash) noexcept {
        place(hash, static_cast<uint32_t>(used_));
        return static_cast<uint32_t>(used_++);
    }
    // Takes out an id that is there; those after it move up, so that no gap stops a search.
    template <class HashOf>
    void remove(uint64_t hash, uint32_t id, HashOf hash_of) noexcept {
        const size_t mask = slots_.size() - 1;
        size_t gap = probe(slots_, hash, [&](uint32_t other) { return other == id; });
        for (size_t at = (gap + 1) & mask; slots_[at] != empty; at = (at + 1) & mask) {
            size_t home = hash_of(slots_[at]) & mask;
            if (((at - home) & mask) < ((at - gap) & mask)) continue;     // it would come to lie before its home
            slots_[gap] = slots_[at];
            gap = at;
        }
        slots_[gap] = empty;
        --used_;
    }
    void reset() {
        slots_.assign(slots_min, empty);
        slots_.shrink_to_fit();
        used_ = 0;
        lowest_ = empty;
        highest_ = 0;
    }
    size_t bytes() const { return slots_.size() * sizeof(uint32_t); }
    static constexpr uint32_t empty = empty_slot;

private:
    using Slots = std::vector<uint32_t, LargePages<uint32_t>>;
    static constexpr size_t slots_min = 64;
    void place(uint64_t hash, uint32_t id) { slots_[probe_vacancy(slots_, hash)] = id; }
    // PERF: bench/growth.py. Some slots are asked for at once, because each may be a miss.
    template <class HashOf>
    void place_row(size_t begin, size_t end, HashOf hash_of) {
        constexpr size_t at_once = 16;
        uint64_t hashes[at_once];
        for (size_t count; begin < end; begin += count) {
            count = std::min(at_once, end - begin);
            for (size_t i = 0; i < count; ++i) prefetch(hashes[i] = hash_of(static_cast<uint32_t>(begin + i)));
            for (size_t i = 0; i < count; ++i) place(hashes[i], static_cast<uint32_t>(begin + i));
        }
    }
    Slots slots_;
    size_t used_ = 0;
    size_t lowest_ = empty, highest_ = 0;       // bounds of the ids that were ever added
};

}  // namespace treecast
