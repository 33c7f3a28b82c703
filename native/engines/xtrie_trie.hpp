// The trie of XTrie: all substrings, with common prefixes stored once and max-suffix pointers, changed one substring at a time.
//
// The max-suffix pointer of a state leads to the longest other state whose string is a suffix of its own.
// A document is followed as in the machine of Aho and Corasick: from the state of an element's parent along the edge of its name.
// If there is no such edge, the same edge is tried from the max-suffix, and so on. The state of an element is then the longest
// string in the trie that the path to the element ends with. The chain of max-suffix pointers from it visits all the others.
//
// How pointers stay correct while substrings come and go: a new state takes over the states whose string ends with its own,
// from the state that its own pointer leads to. It gives them back when it is removed. So each state lists the states that
// point to it. Very many point to the empty string, so those are listed by their last label.
#pragma once

#include "document/document.hpp"

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace treecast {

class SubstringTrie {
public:
    static constexpr uint32_t root = 0;      // the empty string

    // The part of a row that the matcher reads whenever the row's substring occurs. It is kept apart to be compact.
    struct Probe {
        uint32_t row = 0, filter = 0, parent = none;
        uint16_t distance = 0;
        bool open = false, tested = false;
    };

    SubstringTrie();
    uint32_t insert(std::span<const uint32_t> substring);        // its state
    void prune(uint32_t state);                                  // takes away what no row and no longer string needs

    uint32_t edge(uint32_t state, uint32_t label) const {
        const auto& edges = states_[state].edges;
        auto found = std::lower_bound(edges.begin(), edges.end(), label, before);
        return found != edges.end() && found->first == label ? found->second : none;
    }
    // The longest state that the string of `state`, extended by this label, ends with.
    uint32_t advance(uint32_t state, uint32_t label) const {
        for (;; state = states_[state].suffix) {
            if (uint32_t next = edge(state, label); next != none) return next;
            if (state == root) return root;
        }
    }
    uint32_t suffix(uint32_t state) const { return states_[state].suffix; }
    uint32_t parent(uint32_t state) const { return states_[state].parent; }
    uint32_t label(uint32_t state) const { return states_[state].label; }
    std::vector<Probe>& rows(uint32_t state) { return states_[state].rows; }
    const std::vector<Probe>& rows(uint32_t state) const { return states_[state].rows; }
    size_t capacity() const { return states_.size(); }           // all state numbers are below
    bool alive(uint32_t state) const { return state == root || states_[state].parent != none; }
    size_t size() const { return states_.size() - vacant_.size(); }
    size_t bytes() const;

private:
    using Edge = std::pair<uint32_t, uint32_t>;                  // label, state
    static bool before(const Edge& edge, uint32_t label) { return edge.first < label; }
    struct State {
        std::vector<Edge> edges;                                 // by label
        std::vector<Probe> rows;
        uint32_t parent = none, label = 0, length = 0;
        uint32_t suffix = root;
        uint32_t pointed = none;                                 // the first state that points here
        uint32_t next = none, previous = none;                   // others that point where this one does
    };
    uint32_t branch(uint32_t state, uint32_t label);
    uint32_t& list_of(uint32_t target, uint32_t label);
    void point(uint32_t state, uint32_t target);
    void unpoint(uint32_t state);
    bool ends_with(uint32_t state, uint32_t tail) const;

    std::vector<State> states_;
    std::vector<uint32_t> vacant_;
    std::vector<uint32_t> pointed_to_root_;                      // by label: the first state that points to the root
};

}  // namespace treecast
