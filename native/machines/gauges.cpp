// Spans: many bounds on one gauge, or pairs of bounds on two, laid out for search. gauges.hpp has the theory.
#include "machines/gauges.hpp"

#include "document/document.hpp"

namespace treecast {

// Pairs are sorted by their first height. For the second, a tree of minima finds those that are low enough.
void Spans::add(Span span, const std::vector<Pair>& pairs) {
    uint32_t count = static_cast<uint32_t>(pairs.size());
    span.begin = static_cast<uint32_t>(heights_.size());
    span.end = span.begin + count;
    span.others = static_cast<uint32_t>(others_.size());
    span.tree = static_cast<uint32_t>(tree_.size());
    for (const Pair& pair : pairs) heights_.push(pair.first);
    if (span.second != none) {
        uint32_t leaves = leaves_of(count);
        tree_.resize(tree_.size() + 2 * leaves, ~0ull);
        uint64_t* tree = tree_.data() + span.tree;
        for (uint32_t i = 0; i < count; ++i) {
            others_.push(pairs[i].second);
            uint64_t& lowest = tree[leaves + i / leaf_size];
            lowest = std::min(lowest, pairs[i].second);
        }
        for (uint32_t at = leaves - 1; at; --at) tree[at] = std::min(tree[2 * at], tree[2 * at + 1]);
    }
    spans_.push(span);
}

void Spans::shrink() {
    spans_.shrink();
    heights_.shrink();
    others_.shrink();
    tree_.shrink();
}

}  // namespace treecast
