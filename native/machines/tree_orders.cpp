// Ordered patterns, for TreeRun: where branches hold, and whether they come in their order.
//
// Theory of operation. A branch holds at an element whatever stands beside it, so it is an entry like any other. It is noted at
// which elements it holds; nothing is noted for other entries. Where all branches of an element hold below it, their order is
// tested: for each branch in turn, the first witness that starts after the one before (evaluate/evaluate_ordered.cpp says why that
// is exact). All that closed before is either below this element or started before it, so the witnesses are found by number.
#include "machines/tree_run.hpp"

#include <algorithm>
#include <bit>

namespace treecast {

void TreeRun::note_witnesses(uint32_t word, uint64_t bits) {
    const TreeMachine::Witnesses& witnesses = machine_->witnesses_[word];
    for (uint64_t rest = bits & witnesses.mask; rest; rest &= rest - 1) {
        const uint64_t before = witnesses.mask & ((rest & (~rest + 1)) - 1);
        const uint32_t witness = witnesses.first + static_cast<uint32_t>(std::popcount(before));
        noted_.push_back(witness);
        note_witness(witness);
    }
}

// What closes started after most of what was noted, except what is below it. An entry may be found twice.
void TreeRun::note_witness(uint32_t witness) {
    std::vector<uint32_t>& elements = witnesses_[witness];
    if (elements.empty()) witnesses_touched_.push_back(witness);
    if (elements.empty() || elements.back() < closing_) {
        elements.push_back(closing_);
        return;
    }
    auto place = std::lower_bound(elements.begin(), elements.end(), closing_);
    if (*place != closing_) elements.insert(place, closing_);
}

void TreeRun::forget_witnesses() {
    for (uint32_t witness : witnesses_touched_) witnesses_[witness].clear();
    witnesses_touched_.clear();
    noted_.clear();
}

bool TreeRun::is_in_order(uint32_t order) {
    const Document& document = *document_;
    const uint32_t end = closing_ + document.size[closing_];
    const TreeMachine::Branch* const last = machine_->branches_.data() + machine_->orders_[order + 1];
    uint32_t after = closing_;
    for (const TreeMachine::Branch* branch = machine_->branches_.data() + machine_->orders_[order]; branch != last; ++branch) {
        const std::vector<uint32_t>& elements = witnesses_[branch->witness];
        auto at = std::upper_bound(elements.begin(), elements.end(), after);
        if (branch->is_child)
            while (at != elements.end() && *at < end && document.parent[*at] != closing_) {
                uint32_t child = *at;           // not a child itself: nor is anything else in the child that it is below
                while (document.parent[child] != closing_) child = document.parent[child];
                at = std::lower_bound(at, elements.end(), child + document.size[child]);
            }
        if (at == elements.end() || *at >= end) return false;
        after = *at;
    }
    return true;
}

}  // namespace treecast
