// Sweep: finds substrings in nested values with one pass over the text. substrings.hpp has the theory.
#include "machines/substrings.hpp"

namespace treecast {

// The root is left by most bytes, so its transitions are a complete table.
Sweep::Sweep(const Values& values, uint32_t group) : root_(values.automaton(group)), state_(root_) {
    auto [begin, end] = values.substring_tests(group);
    first_test_ = begin;
    marks_.resize(end - begin);
    for (unsigned byte = 0; byte < after_root_.size(); ++byte) {
        uint32_t next = values.edge(root_, static_cast<unsigned char>(byte));
        after_root_[byte] = next ? next : root_;
    }
}

void Sweep::start(uint64_t place) {
    for (const Occurrence& occurrence : occurrences_) marks_[occurrence.test].occurrence = none;
    occurrences_.clear();
    latest_ = none;
    state_ = root_;
    place_ = place;
}

// Only the longest text that ends here is recorded; its suffixes follow from it.
void Sweep::read(const Values& values, std::string_view piece) {
    uint32_t state = state_;
    for (unsigned char byte : piece) {
        ++place_;
        for (;; state = values.fallback(state)) {
            uint32_t next = state == root_ ? after_root_[byte] : values.edge(state, byte);
            if (!next) continue;
            state = next;
            break;
        }
        uint32_t ends = values.ends(state);
        if (ends) add_occurrence(ends, values.test_of(ends) - first_test_);
    }
    state_ = state;
}

void Sweep::forget_visits() {
    for (Mark& mark : marks_) mark.visit = 0;
    visit_ = 1;
}

// Moves the occurrence to the front of the list, which is ordered from the latest to the oldest.
void Sweep::add_occurrence(uint32_t state, uint32_t test) {
    uint32_t at = marks_[test].occurrence;
    if (at == none) {
        at = marks_[test].occurrence = static_cast<uint32_t>(occurrences_.size());
        occurrences_.push_back({.state = state, .test = test});
    } else if (at != latest_) {
        Occurrence& occurrence = occurrences_[at];
        occurrences_[occurrence.newer].older = occurrence.older;
        if (occurrence.older != none) occurrences_[occurrence.older].newer = occurrence.newer;
    }
    occurrences_[at].end = place_;
    if (at == latest_) return;
    occurrences_[at].newer = none;
    occurrences_[at].older = latest_;
    if (latest_ != none) occurrences_[latest_].newer = at;
    latest_ = at;
}

}  // namespace treecast
