#include "machines/substrings.hpp"

namespace treecast {

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
    for (const Met& met : met_) marks_[met.test].met = none;
    met_.clear();
    latest_ = none;
    state_ = root_;
    place_ = place;
}

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
        uint32_t ends = values.test_of(state) != none ? state : values.shorter(state);
        if (ends) meet(ends, values.test_of(ends) - first_test_);
    }
    state_ = state;
}

void Sweep::forget_visits() {
    for (Mark& mark : marks_) mark.visit = 0;
    visit_ = 1;
}

// To the front of the list.
void Sweep::meet(uint32_t state, uint32_t test) {
    uint32_t at = marks_[test].met;
    if (at == none) {
        at = marks_[test].met = static_cast<uint32_t>(met_.size());
        met_.push_back({.state = state, .test = test});
    } else if (at != latest_) {
        Met& met = met_[at];
        met_[met.newer].older = met.older;
        if (met.older != none) met_[met.older].newer = met.newer;
    }
    met_[at].end = place_;
    if (at == latest_) return;
    met_[at].newer = none;
    met_[at].older = latest_;
    if (latest_ != none) met_[latest_].newer = at;
    latest_ = at;
}

}  // namespace treecast
