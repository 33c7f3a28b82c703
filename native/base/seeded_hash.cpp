// Seeds and hashes of all tables. seeded_hash.hpp explains why every hash is seeded.
#include "base/seeded_hash.hpp"

#include <random>

namespace treecast {

// Drawn once per process, from the system's source of randomness.
const HashSeeds& hash_seeds() {
    static const HashSeeds seeds = [] {
        std::random_device device;
        auto word = [&device] { return (static_cast<uint64_t>(device()) << 32 | device()) | 1; };
        return HashSeeds{word(), word(), word()};
    }();
    return seeds;
}

// Three numbers of the generator by Steele, Lea and Flood, "Fast splittable pseudorandom number generators".
HashSeeds hash_seeds_from(uint64_t seed) {
    auto word = [&seed] {
        uint64_t z = seed += 0x9E3779B97F4A7C15ull;
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
        z = (z ^ z >> 27) * 0x94D049BB133111EBull;
        return (z ^ z >> 31) | 1;
    };
    uint64_t a = word(), b = word();
    return {a, b, word()};
}

// Sixteen bytes a round, folded by a multiplication. The length comes first, so padding with zeros causes no collisions.
uint64_t hash_bytes(std::string_view bytes, uint64_t salt, const HashSeeds& seeds) {
    uint64_t hash = hash_fold(salt ^ seeds.c, bytes.size() ^ seeds.a);
    while (!bytes.empty()) {
        uint64_t words[2] = {0, 0};
        size_t taken = bytes.size() < 16 ? bytes.size() : 16;
        std::memcpy(words, bytes.data(), taken);
        hash = hash_fold(hash ^ words[0] ^ seeds.a, words[1] ^ seeds.b) + seeds.c;
        bytes.remove_prefix(taken);
    }
    return hash;
}

}  // namespace treecast
