// Decides when those who match merge machines of patterns, so that few of them walk over each document.
//
// Theory of operation. Merging is paid for in advance, like skis that are bought once renting them has cost as much:
//   - every pattern that is added earns what building it some times more would cost;
//   - every document that more than one machine walks over earns what the walks of the others have cost.
// Once that covers merging the smallest machines into one, the next call that matches does it. So additions in a row cost little,
// the first document after them finds few machines, and all merging together takes no longer than what it was paid from.
//
// Half of what was earned is kept for merging all machines: otherwise additions and documents in turn would spend everything
// on small merges, and the largest machines would never be merged.
//
// A merge keeps one document waiting, so its size is limited. Larger machines are merged by whoever adds (LazyDfaEngine::build).
//
// Everything is counted in patterns and visits, never in time: the same calls in the same order merge the same machines.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace treecast {

class MergeCredit {
public:
    // PERF: bench/shapes.py. Building a pattern takes 4-8 µs, visiting an element or an attribute once more up to 60 ns.
    static constexpr uint64_t visits_per_pattern = 128, builds_per_addition = 24;
    static constexpr uint64_t patterns_max = 262'144;       // of one merge: a second or two

    // For readers: a document was walked over by several machines. `visits`: those of all but one.
    void walk(uint64_t visits) { walked_.fetch_add(visits, std::memory_order_relaxed); }
    // For readers: whether the writer would find something to merge.
    bool is_due() const { return walked_.load(std::memory_order_relaxed) >= due_at_.load(std::memory_order_relaxed); }

    // For the writer. `sizes`: the patterns of each machine, ascending.
    void earn(uint64_t patterns) noexcept {
        earned_ = std::min(earned_ + patterns * builds_per_addition * visits_per_pattern, spent_ + patterns_max * visits_per_pattern);
    }
    // To be called whenever the machines have changed.
    void update(std::span<const uint32_t> sizes) noexcept {
        if (sizes.size() < 2) return reset();
        size_t all = mergeable(sizes);
        if (!all) return due_at_.store(never, std::memory_order_relaxed);
        uint64_t due = spent_ + cost(sizes, all);
        if (all > 2 && due > 2 * (spent_ + cost(sizes, 2))) due = 2 * (spent_ + cost(sizes, 2));
        due_at_.store(due > earned_ ? due - earned_ : 0, std::memory_order_relaxed);
    }
    // How many of the smallest machines to merge into one: 0, or at least 2.
    size_t affordable(std::span<const uint32_t> sizes) const {
        uint64_t earned = earned_ + walked_.load(std::memory_order_relaxed);
        size_t all = mergeable(sizes);
        if (all && earned >= spent_ + cost(sizes, all)) return all;
        size_t count = all;
        while (count > 2)
            if (earned >= 2 * (spent_ + cost(sizes, --count))) return count;
        return 0;
    }
    // Merging everything that may be merged begins a new account.
    void pay(std::span<const uint32_t> sizes, size_t count) noexcept {
        if (count == mergeable(sizes)) return reset();
        spent_ += cost(sizes, count);
    }
    void reset() noexcept {
        earned_ = spent_ = 0;
        due_at_.store(never, std::memory_order_relaxed);
        walked_.store(0, std::memory_order_relaxed);
    }

private:
    static constexpr uint64_t never = ~0ull;
    static uint64_t cost(std::span<const uint32_t> sizes, size_t count) noexcept {
        uint64_t patterns = 0;
        for (uint32_t size : sizes.first(count)) patterns += size;
        return patterns * visits_per_pattern;
    }
    // How many of the smallest machines one merge may take: 0, or at least 2.
    static size_t mergeable(std::span<const uint32_t> sizes) noexcept {
        size_t count = 0;
        for (uint64_t patterns = 0; count < sizes.size() && (patterns += sizes[count]) <= patterns_max;) ++count;
        return count < 2 ? 0 : count;
    }

    std::atomic<uint64_t> walked_{0};        // visits, since the account began
    std::atomic<uint64_t> due_at_{never};    // as many make a merge due
    uint64_t earned_ = 0;                    // by additions, in visits
    uint64_t spent_ = 0;                     // on merges of some machines, in visits
};

}  // namespace treecast
