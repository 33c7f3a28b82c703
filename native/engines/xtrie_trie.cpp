#include "engines/xtrie_trie.hpp"

namespace treecast {

SubstringTrie::SubstringTrie() : states_(1) {}

uint32_t SubstringTrie::insert(std::span<const uint32_t> substring) {
    uint32_t state = root;
    for (uint32_t label : substring) {
        uint32_t next = edge(state, label);
        state = next != none ? next : branch(state, label);
    }
    return state;
}

uint32_t SubstringTrie::branch(uint32_t from, uint32_t label) {
    uint32_t made = static_cast<uint32_t>(states_.size());
    if (vacant_.empty()) {
        states_.emplace_back();
    } else {
        made = vacant_.back();
        vacant_.pop_back();
    }
    uint32_t target = from == root ? root : advance(states_[from].suffix, label);
    auto& edges = states_[from].edges;
    edges.insert(std::lower_bound(edges.begin(), edges.end(), label, before), {label, made});
    State& state = states_[made];
    state.parent = from;
    state.label = label;
    state.length = states_[from].length + 1;

    // Those that end with the new string pointed, for want of it, to where it points itself.
    for (uint32_t other = list_of(target, label), next; other != none; other = next) {
        next = states_[other].next;
        if (!ends_with(other, made)) continue;
        unpoint(other);
        point(other, made);
    }
    point(made, target);
    return made;
}

void SubstringTrie::prune(uint32_t at) {
    while (at != root && states_[at].edges.empty() && states_[at].rows.empty()) {
        uint32_t above = states_[at].parent, target = states_[at].suffix;
        while (states_[at].pointed != none) {
            uint32_t other = states_[at].pointed;
            unpoint(other);
            point(other, target);
        }
        unpoint(at);
        auto& edges = states_[above].edges;
        edges.erase(std::lower_bound(edges.begin(), edges.end(), states_[at].label, before));
        states_[at] = State();
        vacant_.push_back(at);
        at = above;
    }
}

uint32_t& SubstringTrie::list_of(uint32_t target, uint32_t label) {
    if (target != root) return states_[target].pointed;
    if (label >= pointed_to_root_.size()) pointed_to_root_.resize(label + 1, none);
    return pointed_to_root_[label];
}

void SubstringTrie::point(uint32_t state, uint32_t target) {
    uint32_t& first = list_of(target, states_[state].label);
    states_[state].suffix = target;
    states_[state].previous = none;
    states_[state].next = first;
    if (first != none) states_[first].previous = state;
    first = state;
}

void SubstringTrie::unpoint(uint32_t at) {
    State& state = states_[at];
    if (state.next != none) states_[state.next].previous = state.previous;
    if (state.previous != none) states_[state.previous].next = state.next;
    else list_of(state.suffix, state.label) = state.next;
}

bool SubstringTrie::ends_with(uint32_t state, uint32_t tail) const {
    if (states_[state].length <= states_[tail].length) return false;
    for (; tail != root; state = states_[state].parent, tail = states_[tail].parent)
        if (states_[state].label != states_[tail].label) return false;
    return true;
}

size_t SubstringTrie::bytes() const {
    size_t bytes = states_.capacity() * sizeof(State);
    bytes += (vacant_.capacity() + pointed_to_root_.capacity()) * sizeof(uint32_t);
    for (const State& state : states_)
        bytes += state.edges.capacity() * sizeof(Edge) + state.rows.capacity() * sizeof(Probe);
    return bytes;
}

}  // namespace treecast
