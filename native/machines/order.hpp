// Sorting entries by a key and then by the entry that each one points to, and so on along the chain.
#pragma once

#include "base/sliced_work.hpp"

#include <cstdint>
#include <vector>

namespace treecast {

struct Keyed {
    uint64_t key;
    uint32_t value;
};

// Least significant digit first, over the bits that keys really use; stable. `scratch` may hold anything.
void radix_sort(std::vector<Keyed>& items, std::vector<Keyed>& scratch);
SlicedWork radix_sort(Pace& pace, std::vector<Keyed>& items, std::vector<Keyed>& scratch);

// The entries listed, sorted by the sequence key(e), key(next(e)), key(next(next(e))), ... by prefix doubling: ranks over the
// first 1, 2, 4, ... keys until nothing changes. `key` and `next` are by entry; next is `none` at the end of a chain, and
// leads only to listed entries. They come out in order, with equal sequences in the order given.
std::vector<uint32_t> order_by_chains(const std::vector<uint32_t>& entries, const std::vector<uint64_t>& key,
                                      const std::vector<uint32_t>& next);
// The same of all entries, where keys have 32 bits.
SlicedWork order_by_chains(Pace& pace, const std::vector<uint32_t>& key, const std::vector<uint32_t>& next, std::vector<uint32_t>& sorted);

}  // namespace treecast
