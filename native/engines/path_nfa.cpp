// The states of YFilter's NFA: inserting a path, releasing it, and the small hash tables of transitions.
//
// The machine is a trie over labels in which `//` is a label of its own. So a path has exactly one state, and insertion and
// removal touch only the states along it.
#include "engines/path_nfa.hpp"

namespace treecast {

// At most three quarters full. Many states have one or two transitions, so tables start very small.
void Transitions::add(uint32_t label, uint32_t state) {
    if (4 * (used_ + 1) > 3 * capacity_) rebuild(capacity_ ? 2 * capacity_ : 2, none);
    uint32_t at = slot(label);
    while (entries_[at].label != none) at = (at + 1) & (capacity_ - 1);
    entries_[at] = {label, state};
    ++used_;
}

// Open addressing cannot simply empty a slot without breaking probe chains, so the table is rebuilt without the entry.
void Transitions::remove(uint32_t label) {
    uint32_t capacity = capacity_;
    while (capacity > 2 && 4 * used_ <= capacity) capacity /= 2;
    rebuild(used_ == 1 ? 0 : capacity, label);
}

void Transitions::rebuild(uint32_t capacity, uint32_t without) {
    std::unique_ptr<Entry[]> old = std::move(entries_);
    uint32_t old_capacity = capacity_;
    entries_ = capacity ? std::make_unique<Entry[]>(capacity) : nullptr;
    capacity_ = capacity;
    used_ = 0;
    for (uint32_t i = 0; i < old_capacity; ++i) {
        if (old[i].label == none || old[i].label == without) continue;
        uint32_t at = slot(old[i].label);
        while (entries_[at].label != none) at = (at + 1) & (capacity_ - 1);
        entries_[at] = old[i];
        ++used_;
    }
}

PathNfa::PathNfa() : states_(1) {
    states_[0].label = label_root;
}

uint32_t PathNfa::child(uint32_t state, uint32_t label) const {
    const State& from = states_[state];
    return label == label_descend ? from.below : label == label_element_any ? from.any : from.named.find(label);
}

// Appends a state, or takes one that became vacant: numbers stay dense for the arrays indexed by state.
uint32_t PathNfa::branch(uint32_t state, uint32_t label) {
    uint32_t made;
    if (vacant_.empty()) {
        made = static_cast<uint32_t>(states_.size());
        states_.emplace_back();
    } else {
        made = vacant_.back();
        vacant_.pop_back();
    }
    states_[made].parent = state;
    states_[made].label = label;
    State& from = states_[state];
    ++from.children;
    if (label == label_descend)
        from.below = made;
    else if (label == label_element_any)
        from.any = made;
    else
        from.named.add(label, made);
    return made;
}

// The state is a leaf without holders, so only its parent refers to it.
void PathNfa::detach(uint32_t state) {
    uint32_t label = states_[state].label;
    State& from = states_[states_[state].parent];
    --from.children;
    if (label == label_descend)
        from.below = none;
    else if (label == label_element_any)
        from.any = none;
    else
        from.named.remove(label);
    states_[state] = State();
    vacant_.push_back(state);
}

// A `//` step walks through the looping child first, then along its label.
uint32_t PathNfa::insert(std::span<const LabelStep> path) {
    uint32_t state = 0;
    auto step = [&](uint32_t label) {
        uint32_t next = child(state, label);
        state = next == none ? branch(state, label) : next;
    };
    for (const LabelStep& each : path) {
        if (each.descendant) step(label_descend);
        step(each.label);
    }
    ++states_[state].holders;
    return state;
}

// Removes states upward as long as nothing else needs them.
void PathNfa::release(uint32_t state) {
    --states_[state].holders;
    while (state != 0 && states_[state].holders == 0 && states_[state].children == 0) {
        uint32_t parent = states_[state].parent;
        detach(state);
        state = parent;
    }
}

size_t PathNfa::bytes() const {
    size_t total = states_.capacity() * sizeof(State) + vacant_.capacity() * sizeof(uint32_t);
    for (const State& state : states_) total += state.named.bytes();
    return total;
}

}  // namespace treecast
