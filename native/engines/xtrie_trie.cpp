// The trie of substrings with its max-suffix pointers, changed one substring at a time. xtrie_trie.hpp has the theory.
#include "engines/xtrie_trie.hpp"

namespace treecast {

SubstringTrie::SubstringTrie() : states_(1) {}

// Follows existing edges as far as they go, and adds states for the rest.
uint32_t SubstringTrie::insert(std::span<const uint32_t> substring) {
    uint32_t state = root;
    for (uint32_t label : substring) {
        uint32_t next = edge(state, label);
        state = next != none ? next : branch(state, label);
    }
    return state;
}

// Adds a state below `from`, and repairs the pointers of all states whose string ends with the new one.
uint32_t SubstringTrie::branch(uint32_t from, uint32_t label) {
    uint32_t made = static_cast<uint32_t>(states_.size());
    if (vacant_.empty()) {
        states_.emplace_back();
    } else {
        made = vacant_.back();
        vacant_.pop_back();
    }
    // Below the root the longest proper suffix is empty; elsewhere it extends the suffix of the parent.
    uint32_t target = from == root ? root : advance(states_[from].suffix, label);
    auto& edges = states_[from].edges;
    edges.insert(std::lower_bound(edges.begin(), edges.end(), label, before), {label, made});
    State& state = states_[made];
    state.parent = from;
    state.label = label;
    state.length = states_[from].length + 1;

    // States that end with the new string pointed, in its absence, to where the new one points now.
    for (uint32_t other = list_of(target, label), next; other != none; other = next) {
        next = states_[other].next;
        if (!ends_with(other, made)) continue;
        unpoint(other);
        point(other, made);
    }
    point(made, target);
    return made;
}

// Removes states from the bottom up, as long as neither a row nor a longer string needs them.
// States that pointed to a removed one fall back to its own target.
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

// Most states point to the root. Its list is divided by last label, so that branch() searches only matching ones.
uint32_t& SubstringTrie::list_of(uint32_t target, uint32_t label) {
    if (target != root) return states_[target].pointed;
    if (label >= pointed_to_root_.size()) pointed_to_root_.resize(label + 1, none);
    return pointed_to_root_[label];
}

// Lists are doubly linked, so that a state can leave its list in constant time.
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

// Compares backward along the parents: strings are not stored, only edges.
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
