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
    span.marks = static_cast<uint32_t>(marks_.size());
    for (uint32_t i = 0; i < count; ++i) {
        heights_.push(pairs[i].first);
        if (i % fork == 0) marks_.push(pairs[i].first);
    }
    if (span.second != none) {
        for (const Pair& pair : pairs) others_.push(pair.second);
        add_levels(span);
    }
    spans_.push(span);
}

// One level after the other, until one fork is enough. What a level lacks to whole forks is too high for everything.
void Spans::add_levels(const Span& span) {
    size_t below = span.others;
    const Array<uint64_t>* heights = &others_;
    for (uint32_t size = span.end - span.begin;; heights = &tree_) {
        const size_t level = tree_.size();
        const uint32_t forks = forks_of(size);
        tree_.resize(level + forks_of(forks) * fork, ~0ull);
        for (uint32_t i = 0; i < size; ++i) {
            uint64_t& lowest = tree_[level + i / fork];
            lowest = std::min(lowest, (*heights)[below + i]);
        }
        if (forks <= fork) return;
        below = level;
        size = forks;
    }
}

void Spans::shrink() {
    spans_.shrink();
    heights_.shrink();
    marks_.shrink();
    others_.shrink();
    tree_.shrink();
}

}  // namespace treecast
