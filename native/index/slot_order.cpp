// Sorts slots by a bit set; replacements, which keep the places of their originals, are put among the others.
#include "index/slot_order.hpp"

#include "base/expand.hpp"
#include "machines/order.hpp"

#include <algorithm>
#include <vector>

namespace treecast {

// PERF: bench/network_cpu.py: of a large index the bit set is looked through, so it is for a 32,768th of it or more.
void SlotOrder::sort_numbers(std::span<int32_t> numbers, uint32_t below) {
    constexpr size_t few = 24;                   // are sorted in less time than a bit set takes
    if (numbers.size() <= std::max<size_t>(few, below >> 15)) {
        std::sort(numbers.begin(), numbers.end());
        return;
    }
    bits_.resize(below);
    bits_.add(numbers);
    const ListBits list = list_bits();
    int32_t* to = numbers.data();
    bits_.drain([&](const uint32_t* words, const uint64_t* masks, uint32_t count) { to = list(words, masks, count, to); });
}

// A replacement has the number of its original in the order, and a slot of its own; for all others both are the same. So those are
// sorted as numbers, and replacements are put among them, from the end, where there is room.
// PERF: bench/yfilter.py, after one replacement: comparing by the order took ten times as long as matching.
void SlotOrder::sort(const View& view, Output<int32_t>& out) {
    out.room(64);                                // the last word of the bit set is written in whole registers
    const std::span<int32_t> slots(out.data(), out.size());
    if (!view.order) return sort_numbers(slots, view.slots);
    std::vector<Keyed> replacements, spare;
    size_t others = 0;
    for (int32_t found : slots) {
        const auto slot = static_cast<uint32_t>(found);
        if (const uint32_t order = view.order[slot]; order != slot)
            replacements.push_back({order, slot});
        else
            slots[others++] = found;
    }
    sort_numbers(slots.first(others), view.slots);
    constexpr size_t few = 256;                  // are sorted in less time than counting digits takes
    if (replacements.size() <= few)
        std::sort(replacements.begin(), replacements.end(), [](const Keyed& a, const Keyed& b) { return a.key < b.key; });
    else
        radix_sort(replacements, spare);
    for (size_t end = slots.size(); !replacements.empty(); --end) {
        const Keyed last = replacements.back();
        if (others && static_cast<uint32_t>(slots[others - 1]) > last.key) {
            slots[end - 1] = slots[--others];
        } else {
            slots[end - 1] = static_cast<int32_t>(last.value);
            replacements.pop_back();
        }
    }
}

}  // namespace treecast
