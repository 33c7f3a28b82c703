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
class Spans {
public:
    struct Span {                       // bounds on one gauge or pairs on two
        uint32_t first, second;         // gauges; second may be none
        uint32_t target;                // what the first one stands for; the others follow
        uint32_t run;                   // target is an entry (else a candidate)
        uint32_t begin = 0, end = 0;    // in heights_
        uint32_t others = 0, tree = 0;  // in others_ and tree_
    };
    struct Pair { uint64_t first, second; };
    void add(Span span, const std::vector<Pair>& pairs);             // sorted by their first; `second` is not read without a second gauge
    const Array<Span>& all() const { return spans_; }
    uint32_t met(const Span& span, uint64_t height) const {           // by the first gauge alone
        const uint64_t *begin = heights_.data() + span.begin, *end = heights_.data() + span.end;
        return static_cast<uint32_t>(std::upper_bound(begin, end, height) - begin);
    }
    // Calls f(i) for those of the first `count` that the second gauge meets.
    template <class F>
    void each(const Span& span, uint32_t count, uint64_t height, F&& f) const {
        const uint64_t *others = others_.data() + span.others, *tree = tree_.data() + span.tree;
        uint32_t leaves = leaves_of(span.end - span.begin);
        uint32_t open[64], top = 0;
        open[top++] = 1;
        while (top) {                   // a binary tree in an array: 2n and 2n + 1 are below n
            uint32_t at = open[--top];
            if (tree[at] > height) continue;
            if (at < leaves) {
                open[top++] = 2 * at + 1, open[top++] = 2 * at;
                continue;
            }
            uint32_t i = (at - leaves) * leaf_size, end = std::min(count, i + leaf_size);
            if (i >= count) return;     // leaves come in order
            for (; i < end; ++i)
                if (others[i] <= height) f(i);
        }
    }
    void shrink();
    uint64_t bytes() const { return spans_.bytes() + heights_.bytes() + others_.bytes() + tree_.bytes(); }
    template <class Visit>
    void parts(Visit&& visit) { visit(spans_), visit(heights_), visit(others_), visit(tree_); }

private:
    static constexpr uint32_t leaf_size = 16;
    static uint32_t leaves_of(uint32_t count) { return std::bit_ceil((count + leaf_size - 1) / leaf_size); }

    Array<Span> spans_;
    Array<uint64_t> heights_, others_, tree_;
};

}  // namespace treecast
