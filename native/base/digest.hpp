// A digest that nobody can steer: BLAKE2b (RFC 7693), 32 bytes, without a key.
//
// Use it where something has to follow from what strangers wrote, and they must not be able to choose it; see seeded_hash.hpp. Where
// only accidents matter, checksum() of base/snapshot.hpp is many times faster.
#pragma once

#include "base/array.hpp"
#include "base/seeded_hash.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace treecast {

class Digest {
public:
    Digest();
    void add(std::string_view bytes);
    void add_number(uint64_t number) { add({reinterpret_cast<const char*>(&number), sizeof number}); }
    // With its size in front, so that no two lists of arrays are the same bytes.
    template <class T>
    void add_array(const Array<T>& array) {
        add_number(array.size());
        add({reinterpret_cast<const char*>(array.data()), array.size() * sizeof(T)});
    }
    // Of everything that was added; nothing can be added any more.
    std::array<uint64_t, 4> finish();
    HashSeeds seeds();                  // the same as seeds of hash tables

private:
    static constexpr size_t block_bytes = 128;
    void compress(const unsigned char* block, bool last);

    uint64_t state_[8];
    uint64_t counted_ = 0;              // bytes that were compressed
    unsigned char block_[block_bytes];
    size_t filled_ = 0;                 // the last block stays here, full or not, until it is known to be the last
};

}  // namespace treecast
