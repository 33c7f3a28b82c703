// Hashing of what strangers write: names, ids, queries, literals. Every hash table of the core takes its hashes from here, so
// that nobody outside can prepare keys that collide; nothing visible depends on a hash, because ids are given in order of
// first sight.
//
// There are two kinds of seeds. Those of hash_seeds() come from the system: for every table that grows while strangers write. Those of a
// Digest (digest.hpp) follow from all keys of a table that is made at once and then never grows: what is saved is such tables, so
// that equal subscriptions give equal bytes in every process. Who writes some of the keys cannot choose such seeds, because every key
// changes them; who tries many sets of keys at home gets the worst of so many random tables, whose longest run of
// neighbours is longer by a few slots each time that the number of trials doubles (docs/decisions.md).
//
// A key is folded 16 bytes at a time by a 64 x 64 -> 128 bit multiplication whose halves are xored. Names shorter
// than 32 bytes are hashed as four zero-padded words, which is what the reader's fast path has in registers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace treecast {

struct HashSeeds {
    uint64_t a, b, c;
    bool operator==(const HashSeeds&) const = default;
};
const HashSeeds& hash_seeds();              // drawn once per process
HashSeeds hash_seeds_from(uint64_t seed);   // the same in every process

inline uint64_t hash_fold(uint64_t x, uint64_t y) {
    unsigned __int128 product = static_cast<unsigned __int128>(x) * y;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

inline uint64_t hash_words(const HashSeeds& seeds, uint64_t w0, uint64_t w1) { return hash_fold(w0 ^ seeds.a, w1 ^ seeds.b); }
inline uint64_t hash_words(const HashSeeds& seeds, uint64_t w0, uint64_t w1, uint64_t w2, uint64_t w3) {
    return hash_fold(hash_words(seeds, w0, w1) ^ w2, w3 ^ seeds.c);
}

// Any length; `salt` separates keys that share their bytes. A saved table keeps the seeds it was made with.
uint64_t hash_bytes(std::string_view bytes, uint64_t salt = 0, const HashSeeds& seeds = hash_seeds());

// The tables of the standard library, by text and by number. Texts are looked up without making a std::string.
struct TextHash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return hash_bytes(text); }
};
struct NumberHash {
    size_t operator()(uint64_t number) const { return hash_words(hash_seeds(), number, 0); }
};
template <class Value>
using TextMap = std::unordered_map<std::string, Value, TextHash, std::equal_to<>>;
template <class Value>
using TextViewMap = std::unordered_map<std::string_view, Value, TextHash, std::equal_to<>>;
template <class Number, class Value>
using NumberMap = std::unordered_map<Number, Value, NumberHash>;

}  // namespace treecast
