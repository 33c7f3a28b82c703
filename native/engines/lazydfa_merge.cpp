// Which machines of plain paths are merged in slices, and when: path_merge.hpp says how.
//
// Merges begin with additions and advance with them, by units of work and never by time. So the same calls in the same order
// merge the same machines.
#include "engines/lazydfa.hpp"
#include "engines/path_merge.hpp"

#include <algorithm>
#include <bit>
#include <new>

namespace treecast {

// The places that a merge reads from or will write to, as bits: nothing else may use them.
uint32_t LazyDfaEngine::merging_places(const Paths& paths) {
    uint32_t places = 0;
    for (const auto& merge : paths.merges) places |= merge->sources() | 1u << merge->home();
    return places;
}

// The smallest machines that are not being merged, as long as each is not much larger than those before it together.
void LazyDfaEngine::begin_merge(Paths& paths, Placing& placing) const {
    static_assert(plain_places_max < 32);
    const uint32_t merging = merging_places(paths);
    std::array<uint8_t, plain_places_max> by_size;
    size_t count = 0;
    uint8_t home = nowhere;
    for (uint8_t p = 0; p < plain_places_max; ++p) {
        if (merging >> p & 1) continue;
        // One that is built with this change is not in force yet, and its paths are not told where they live.
        if (placing.places[p] && placing.places[p] == paths.places[p]) by_size[count++] = p;
        if (!placing.places[p] && !paths.places[p]) home = p;        // whether this change succeeds or not
    }
    if (home == nowhere) return;
    auto accepts = [&](uint8_t p) { return placing.places[p]->accepts(); };
    std::sort(by_size.begin(), by_size.begin() + count, [&](uint8_t a, uint8_t b) { return std::pair(accepts(a), a) < std::pair(accepts(b), b); });
    size_t total = 0, taken = 0;
    while (taken < count && (taken == 0 || accepts(by_size[taken]) <= merge_ratio * total)) total += accepts(by_size[taken++]);
    if (taken < 2 || total <= merged_at_once_max) return;
    uint32_t sources = 0;
    for (size_t i = 0; i < taken; ++i) sources |= 1u << by_size[i];
    paths.merges.push_back(std::make_unique<PathMerge>(
        PathMerge::Rows{paths.keys, *paths.labels, paths.heads, paths.next, paths.accept_of, paths.place_of}, placing.places, sources, home));
}

// A slice of every merge for every query that is added. Those that are ready are in force with this change.
// Without memory for it a merge is given up, and begun again with the next machine.
void LazyDfaEngine::advance_merges(Paths& paths, const Subscriptions& rows, Change& change) {
    if (paths.merges.empty()) return;
    const uint64_t units = units_per_addition * std::max<size_t>(1, queries_.size());
    for (auto& merge : paths.merges) {
        try {
            merge->advance(units, rows.deaths);
        } catch (const std::bad_alloc&) {
            merge = nullptr;
        } catch (...) {
            merge = nullptr;
            std::erase(paths.merges, nullptr);
            throw;
        }
    }
    std::erase_if(paths.merges, [](const auto& merge) { return !merge || merge->is_done(); });
    change.placing.done.reserve(paths.merges.size());
    for (const auto& merge : paths.merges) {
        if (!merge->is_ready()) continue;
        for (uint8_t p = 0; p < plain_places_max; ++p)
            if (merge->sources() >> p & 1) change.placing.places[p] = nullptr;
        change.placing.places[merge->home()] = merge->place();
        change.placing.done.push_back(merge.get());
    }
}

void LazyDfaEngine::end_moves(Paths& paths) noexcept {
    for (auto& merge : paths.merges)
        if (merge->is_published()) merge->end_moving();
    std::erase_if(paths.merges, [](const auto& merge) { return merge->is_done(); });
}

// For whoever merges everything at once: what is not in force yet is given up.
void LazyDfaEngine::end_merges(Paths& paths) noexcept {
    end_moves(paths);
    paths.merges.clear();
}

}  // namespace treecast
