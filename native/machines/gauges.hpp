// Gauges: all values under one label (an element's own, its children's, those below it), each summed up in one number, its
// height. Order and inequality are decided from it, however many subscriptions compare with however many different values.
//
// `n > 5` asks whether the largest number exceeds 5, `n < 5` whether the smallest is below; `n != "v"` whether there is a value
// and not all of them are "v". So a gauge keeps the largest number, the smallest, or the one condition of equality that all
// values meet. Height 0 means that there is no such value.
//
// The same holds along a path: `a/b > 5` reads a gauge that takes its height, at every a, from the gauge of its b.
#pragma once

#include "base/array.hpp"
#include "machines/pattern.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>

namespace treecast {

enum class GaugeKind : uint8_t { most, least, text, number };
constexpr uint32_t gauge_kinds = 4;

constexpr bool is_order(ValueTest test) { return test >= ValueTest::less && test <= ValueTest::greater_equal; }
constexpr bool is_equality(ValueTest test) { return test == ValueTest::equal_text || test == ValueTest::equal_number; }
constexpr GaugeKind gauge_kind(ValueTest test) {
    if (is_order(test)) return test == ValueTest::less || test == ValueTest::less_equal ? GaugeKind::least : GaugeKind::most;
    return test == ValueTest::equal_text ? GaugeKind::text : GaugeKind::number;
}

// In the order of the numbers, and never 0, not even inverted. No NaN.
inline uint64_t height_of(double number) {
    uint64_t bits = std::bit_cast<uint64_t>(number == 0 ? 0 : number);
    return bits >> 63 ? ~bits : bits | 1ull << 63;
}

constexpr uint64_t height_various = ~0ull;          // of equality: the values do not all meet one and the same condition

inline uint64_t join_heights(GaugeKind kind, uint64_t a, uint64_t b) {
    if (kind == GaugeKind::most || kind == GaugeKind::least) return std::max(a, b);
    return a == 0 || a == b ? b : b == 0 ? a : height_various;
}

struct Bound {                          // a condition on a gauge
    uint32_t gauge = 0;
    uint32_t unequal = 0;               // else the height must be reached
    uint64_t height = 0;
    bool met(uint64_t at) const { return unequal ? at != 0 && at != height : at >= height; }
    bool operator==(const Bound&) const = default;
};

// The height from which on `value test number` holds.
inline uint64_t bound_height(ValueTest test, double number) {
    uint64_t height = height_of(number);
    switch (test) {
    case ValueTest::less: return ~height + 1;
    case ValueTest::less_equal: return ~height;
    case ValueTest::greater: return height + 1;
    default: return height;
    }
}

// Which of many bounds, or pairs of bounds on the same two gauges, are met: sorted by the first, so that those are a run of
// neighbours; among them the second is found in a tree of the lowest heights. The cost follows those that are met.
//
// PERF: bench/shapes.py. Every value is looked up here, mostly to find nothing. So both searches touch few cache lines and
// have few branches: every 16th height is in a list of its own, and the tree has 16 branches at each fork.
class Spans {
public:
    struct Span {                       // bounds on one gauge or pairs on two
        uint32_t first, second;         // gauges; second may be none
        uint32_t target;                // what the first one stands for; the others follow
        uint32_t run;                   // target is an entry (else a candidate)
        uint32_t begin = 0, end = 0;    // in heights_
        uint32_t others = 0, tree = 0;  // in others_ and tree_
        uint32_t marks = 0;             // in marks_
    };
    struct Pair { uint64_t first, second; };
    void add(Span span, const std::vector<Pair>& pairs);             // sorted by their first; `second` is not read without a second gauge
    const Array<Span>& all() const { return spans_; }
    uint32_t met(const Span& span, uint64_t height) const {           // by the first gauge alone
        uint32_t passed = forks_met(span, height);
        if (!passed) return 0;
        uint32_t begin = (passed - 1) * fork;
        return begin + count_up_to(heights_.data() + span.begin + begin, std::min(fork, span.end - span.begin - begin), height);
    }
    // Calls f(i) for those that both gauges meet.
    template <class F>
    void each(const Span& span, uint64_t height, uint64_t other, F&& f) const {
        const uint64_t* const heights = heights_.data() + span.begin;
        const uint64_t* const others = others_.data() + span.others;
        const uint32_t forks = forks_met(span, height);              // beyond them none is met by the first gauge
        if (!forks) return;
        const uint64_t* levels[levels_max];          // from the level above the pairs themselves up to the top
        uint32_t top = 0;
        levels[0] = tree_.data() + span.tree;
        for (uint32_t size = forks_of(span.end - span.begin); size > fork; size = forks_of(size), ++top)
            levels[top + 1] = levels[top] + forks_of(size) * fork;
        struct Open { uint32_t first, low; } open[levels_max];       // of a fork: its first branch, and those that are low enough
        uint32_t level = top;
        open[level] = {0, low_in(levels[level], other)};
        while (level <= top) {
            if (!open[level].low) {
                ++level;
                continue;
            }
            uint32_t branch = open[level].first + static_cast<uint32_t>(std::countr_zero(open[level].low));
            open[level].low &= open[level].low - 1;
            if (level) {
                --level;
                open[level] = {branch * fork, low_in(levels[level] + branch * fork, other)};
                continue;
            }
            if (branch >= forks) return;             // branches come in order
            for (uint32_t i = branch * fork, end = std::min(span.end - span.begin, i + fork); i < end; ++i)
                if (heights[i] <= height && others[i] <= other) f(i);
        }
    }
    void shrink();
    uint64_t bytes() const { return spans_.bytes() + heights_.bytes() + marks_.bytes() + others_.bytes() + tree_.bytes(); }
    template <class Visit>
    void parts(Visit&& visit) { visit(spans_), visit(heights_), visit(marks_), visit(others_), visit(tree_); }

private:
    static constexpr uint32_t fork = 16, levels_max = 8;
    void add_levels(const Span& span);
    static uint32_t forks_of(uint32_t count) { return (count + fork - 1) / fork; }
    static uint32_t low_in(const uint64_t* lowest, uint64_t height) {            // a bit for each of the 16 that is low enough
        uint32_t low = 0;
        for (uint32_t i = 0; i < fork; ++i) low |= static_cast<uint32_t>(lowest[i] <= height) << i;
        return low;
    }
    uint32_t forks_met(const Span& span, uint64_t height) const {                // of 16 neighbours, those where the first one is met
        return count_up_to(marks_.data() + span.marks, forks_of(span.end - span.begin), height);
    }
    // How many of the sorted numbers are not above the height: a binary search without branches to mispredict.
    static uint32_t count_up_to(const uint64_t* sorted, uint32_t size, uint64_t height) {
        const uint64_t* begin = sorted;
        while (size > 1) {
            uint32_t half = size / 2;
            begin += (begin[half - 1] <= height) * half;
            size -= half;
        }
        return static_cast<uint32_t>(begin - sorted) + (size && *begin <= height);
    }

    Array<Span> spans_;
    Array<uint64_t> heights_, marks_, others_, tree_;
};

}  // namespace treecast
