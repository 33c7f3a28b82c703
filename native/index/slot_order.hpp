// Matches in the order of addition, whatever order an engine finds them in.
//
// Theory of operation. Few slots are sorted by comparing. Many are put into a bit set, which lists them ascending: a step for each
// slot, and one for each 4,096 slots of the index.
// PERF: bench/yfilter.py and bench/million.py, warm: a document has thousands of matches, and each goes through here.
#pragma once

#include "base/answer_bits.hpp"
#include "base/output.hpp"
#include "engines/subscriptions.hpp"

#include <cstdint>
#include <span>

namespace treecast {

class SlotOrder {
public:
    // Sorts distinct slots of a View.
    void sort(const View& view, Output<int32_t>& out);

private:
    void sort_numbers(std::span<int32_t> numbers, uint32_t below);       // there is room for 64 behind them
    AnswerBits bits_;
};

}  // namespace treecast
