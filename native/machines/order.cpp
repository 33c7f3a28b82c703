// Sorting for the builders: radix sort, and the order of entries by chains of keys.
#include "machines/order.hpp"

#include "base/interrupt.hpp"
#include "document/document.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace treecast {

namespace {

constexpr size_t items_at_once = 2048;           // items that are looked at before somebody asks whether to stop

}  // namespace

void radix_sort(std::vector<Keyed>& items, std::vector<Keyed>& scratch) {
    Pace pace;
    radix_sort(pace, items, scratch).finish(pace);
}

// Digits that no key uses are skipped, so short keys need few passes.
SlicedWork radix_sort(Pace& pace, std::vector<Keyed>& items, std::vector<Keyed>& scratch) {
    const size_t count = items.size();
    uint64_t used = 0;
    for (size_t i = 0; i < count;) {
        for (size_t end = std::min(count, i + items_at_once); i < end; ++i) used |= items[i].key;
        co_await pace.spend(items_at_once / 4);
    }
    // Scratch is taken as it is: writing zeros to all of it first would be a pass of its own.
    scratch.reserve(count);
    for (size_t i = scratch.size(); i < count; ++i) {
        scratch.push_back({});
        if (i % items_at_once == 0) co_await pace.spend(items_at_once / 2);
    }
    scratch.resize(count);
    std::vector<size_t> counts;
    for (int shift = 0; shift < 64 && (used >> shift); shift += 11) {
        if (((used >> shift) & 2047) == 0) continue;
        counts.assign(2049, 0);
        for (size_t i = 0; i < count;) {
            for (size_t end = std::min(count, i + items_at_once); i < end; ++i) ++counts[((items[i].key >> shift) & 2047) + 1];
            co_await pace.spend(items_at_once / 4);
        }
        for (int i = 0; i < 2048; ++i) counts[i + 1] += counts[i];
        for (size_t i = 0; i < count;) {
            for (size_t end = std::min(count, i + items_at_once); i < end; ++i) scratch[counts[(items[i].key >> shift) & 2047]++] = items[i];
            co_await pace.spend(items_at_once);
        }
        items.swap(scratch);
    }
}

// As below, with everything in slices.
SlicedWork order_by_chains(Pace& pace, const std::vector<uint32_t>& key, const std::vector<uint32_t>& next, std::vector<uint32_t>& sorted) {
    const size_t count = key.size();
    size_t distinct = 0;
    std::vector<uint32_t> rank, ahead, next_ahead;
    std::vector<Keyed> keyed, scratch;
    rank.reserve(count), ahead.reserve(count), next_ahead.reserve(count), keyed.reserve(count);
    for (size_t i = 0; i < count;) {
        for (size_t end = std::min(count, i + items_at_once); i < end; ++i) {
            rank.push_back(0), ahead.push_back(next[i]), next_ahead.push_back(none);
            keyed.push_back({key[i], static_cast<uint32_t>(i)});
        }
        co_await pace.spend(items_at_once);
    }
    for (;;) {
        co_await radix_sort(pace, keyed, scratch);
        // Nobody needs the earlier ranks any more: they are in the keys.
        uint32_t last = 0;
        for (size_t i = 0; i < count;) {
            for (size_t end = std::min(count, i + items_at_once); i < end; ++i) {
                if (i == 0 || keyed[i].key != keyed[i - 1].key) ++last;
                rank[keyed[i].value] = last;
            }
            co_await pace.spend(items_at_once);
        }
        const bool is_done = last == distinct || last == count;
        distinct = last;
        if (is_done) break;
        const int width = std::bit_width(distinct);      // of a rank: short keys are sorted in fewer passes
        for (size_t i = 0; i < count;) {
            for (size_t end = std::min(count, i + items_at_once); i < end; ++i) {
                keyed[i] = {uint64_t(rank[i]) << width | (ahead[i] == none ? 0 : rank[ahead[i]]), static_cast<uint32_t>(i)};
                next_ahead[i] = ahead[i] == none ? none : ahead[ahead[i]];
            }
            co_await pace.spend(2 * items_at_once);
        }
        ahead.swap(next_ahead);
    }
    sorted.clear();
    sorted.reserve(count);
    for (size_t i = 0; i < count;) {
        for (size_t end = std::min(count, i + items_at_once); i < end; ++i) sorted.push_back(keyed[i].value);
        co_await pace.spend(items_at_once / 2);
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
