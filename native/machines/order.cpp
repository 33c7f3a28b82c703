// Sorting for the builders: radix sort, and the order of entries by chains of keys.
#include "machines/order.hpp"

#include "base/interrupt.hpp"
#include "document/document.hpp"

#include <bit>
#include <utility>

namespace treecast {

// Digits that no key uses are skipped, so short keys need few passes.
void radix_sort(std::vector<Keyed>& items, std::vector<Keyed>& scratch) {
    uint64_t used = 0;
    for (const Keyed& item : items) used |= item.key;
    scratch.resize(items.size());
    for (int shift = 0; shift < 64 && (used >> shift); shift += 11) {
        if (((used >> shift) & 2047) == 0) continue;
        Interrupt::check(items.size() * 4);
        size_t counts[2049] = {};
        for (const Keyed& item : items) ++counts[((item.key >> shift) & 2047) + 1];
        for (int i = 0; i < 2048; ++i) counts[i + 1] += counts[i];
        for (const Keyed& item : items) scratch[counts[(item.key >> shift) & 2047]++] = item;
        items.swap(scratch);
    }
}

// Prefix doubling, as for suffix arrays: after each round the ranks cover chains twice as long.
// So the cost is logarithmic in the length of the longest chain. It ends when ranks no longer change.
std::vector<uint32_t> order_by_chains(const std::vector<uint32_t>& entries, const std::vector<uint64_t>& key,
                                      const std::vector<uint32_t>& next) {
    size_t count = entries.size(), distinct = 0;
    std::vector<uint32_t> rank(key.size(), 0), next_rank(key.size(), 0), ahead(next), next_ahead(next);
    std::vector<Keyed> keyed(count), scratch;
    auto renumber = [&] {
        radix_sort(keyed, scratch);
        uint32_t last = 0;
        for (size_t i = 0; i < count; ++i) {
            if (i == 0 || keyed[i].key != keyed[i - 1].key) ++last;
            next_rank[keyed[i].value] = last;
        }
        rank.swap(next_rank);
        bool changed = last != distinct;
        distinct = last;
        return changed && distinct < count;
    };
    for (size_t i = 0; i < count; ++i) keyed[i] = {key[entries[i]], entries[i]};
    for (bool more = renumber(); more; more = renumber()) {
        const int width = std::bit_width(distinct);      // of a rank: short keys are sorted in fewer passes
        for (size_t i = 0; i < count; ++i) {
            uint32_t e = entries[i];
            keyed[i] = {uint64_t(rank[e]) << width | (ahead[e] == none ? 0 : rank[ahead[e]]), e};
        }
        for (uint32_t e : entries) next_ahead[e] = ahead[e] == none ? none : ahead[ahead[e]];
        ahead.swap(next_ahead);
    }
    std::vector<uint32_t> sorted(count);
    for (size_t i = 0; i < count; ++i) sorted[i] = keyed[i].value;
    return sorted;
}

}  // namespace treecast
