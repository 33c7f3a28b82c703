#include "substrings.hpp"

namespace treecast {

Sweep::Sweep(const Values& values, uint32_t group) : root_(values.automaton(group)), state_(root_) {
    auto [begin, end] = values.substring_facts(group);
    first_fact_ = begin;
    marks_.resize(end - begin);
}

void Sweep::read(const Values& values, std::string_view piece) {
    for (unsigned char byte : piece) {
        state_ = values.follow(root_, state_, byte);
        ++place_;
        uint32_t ends = values.fact_of(state_) != none ? state_ : values.shorter(state_);
        if (ends) meet(ends, values.fact_of(ends) - first_fact_);
    }
}

// To the front of the list.
void Sweep::meet(uint32_t state, uint32_t fact) {
    uint32_t at = marks_[fact].met;
    if (at == none) {
        at = marks_[fact].met = static_cast<uint32_t>(met_.size());
        met_.push_back({.state = state});
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
