// Hashing of names that strangers choose. The seeds are drawn once per process, so nobody outside can prepare names
// that collide; nothing visible depends on the hash, because ids are given in order of first sight.
//
// A key is folded 16 bytes at a time by a 64 x 64 -> 128 bit multiplication whose halves are xored. Names shorter
// than 32 bytes are hashed as four zero-padded words, which is what the reader's fast path has in registers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace treecast {

struct HashSeeds {
    uint64_t a, b, c;
};
const HashSeeds& hash_seeds();

inline uint64_t hash_fold(uint64_t x, uint64_t y) {
    unsigned __int128 product = static_cast<unsigned __int128>(x) * y;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

inline uint64_t hash_words(const HashSeeds& seeds, uint64_t w0, uint64_t w1) { return hash_fold(w0 ^ seeds.a, w1 ^ seeds.b); }
inline uint64_t hash_words(const HashSeeds& seeds, uint64_t w0, uint64_t w1, uint64_t w2, uint64_t w3) {
    return hash_fold(hash_words(seeds, w0, w1) ^ w2, w3 ^ seeds.c);
}

// Any length; `salt` tells apart keys that share their bytes. A saved table keeps the seeds it was made with.
uint64_t hash_bytes(std::string_view bytes, uint64_t salt = 0, const HashSeeds& seeds = hash_seeds());

// An open-addressing index from hashes to dense ids; the owner keeps the keys. Deletes nothing, grows at 1/2 full.
class IdSlots {
public:
    IdSlots() : slots_(64, empty) {}
    // The id for which `same(id)` holds among those with this hash, or `empty`.
    template <class Same>
    uint32_t find(uint64_t hash, Same same) const {
        for (size_t at = hash & mask();; at = (at + 1) & mask()) {
            uint32_t id = slots_[at];
            if (id == empty || same(id)) return id;
        }
    }
    // Adds an id that is known to be absent. `hash_of(id)` gives the hash of any earlier id, for growing.
    template <class HashOf>
    void add(uint64_t hash, uint32_t id, HashOf hash_of) {
        if (++used_ * 2 > slots_.size()) {
            std::vector<uint32_t> old(slots_.size() * 2, empty);
            old.swap(slots_);
            for (uint32_t earlier : old)
                if (earlier != empty) place(hash_of(earlier), earlier);
        }
        place(hash, id);
    }
    void reset() {
        slots_.assign(64, empty);
        slots_.shrink_to_fit();
        used_ = 0;
    }
    const uint32_t* data() const { return slots_.data(); }
    size_t mask() const { return slots_.size() - 1; }
    static constexpr uint32_t empty = 0xFFFFFFFFu;

private:
    void place(uint64_t hash, uint32_t id) {
        size_t at = hash & mask();
        while (slots_[at] != empty) at = (at + 1) & mask();
        slots_[at] = id;
    }
    std::vector<uint32_t> slots_;
    size_t used_ = 0;
};

}  // namespace treecast
