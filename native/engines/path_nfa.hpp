// The shared NFA of YFilter: paths are added and removed one by one while it runs. See yfilter.hpp for the theory.
#pragma once

#include "base/interrupt.hpp"
#include "base/seeded_hash.hpp"
#include "engines/filter_pattern.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace treecast {

// The transitions of one state by named label: a small hash table, open addressing.
// PERF: keys lie in the slots, unlike those of IdSlots: one look for every active state and event (bench/yfilter.py).
class Transitions {
public:
    uint32_t find(uint32_t label) const {
        if (!used_) return none;
        for (uint32_t at = slot(label);; at = (at + 1) & (capacity_ - 1)) {
            if (entries_[at].label == label) return entries_[at].state;
            if (entries_[at].label == none) return none;
        }
    }
    void add(uint32_t label, uint32_t state);           // absent before
    void remove(uint32_t label);
    size_t bytes() const { return capacity_ * sizeof(Entry); }

private:
    struct Entry { uint32_t label = none, state = none; };
    uint32_t slot(uint32_t label) const { return hash_words(hash_seeds(), label, 0) & (capacity_ - 1); }
    void rebuild(uint32_t capacity, uint32_t without);
    std::unique_ptr<Entry[]> entries_;
    uint32_t capacity_ = 0, used_ = 0;
};

// Does not know subscriptions: the caller attaches them to accepting states by number.
class PathNfa {
public:
    // What the run of one document needs; part of a Scratch.
    struct Run {
        std::vector<uint32_t> active;        // the stack: the sets of all open elements, one after the other
        std::vector<uint32_t> ends;          // by depth: where the set that the elements of that depth start from ends
        std::vector<uint32_t> marks;         // by state: the event that last processed it, where it is a //-child
        uint32_t event = 0;
    };

    PathNfa();
    uint32_t insert(std::span<const LabelStep> path);   // its accepting state, which gains a holder
    void release(uint32_t state);                       // the state loses a holder; what leads nowhere else is removed
    size_t states() const { return states_.size() - vacant_.size(); }
    size_t capacity() const { return states_.size(); }  // all state numbers are below
    size_t bytes() const;
    bool accepts(uint32_t state) const { return states_[state].holders > 0; }

    // The machine as it is, for whoever walks it in another way (path_replay.hpp) or shows it.
    bool alive(uint32_t state) const { return state == 0 || states_[state].parent != none; }
    uint32_t parent(uint32_t state) const { return states_[state].parent; }
    uint32_t label(uint32_t state) const { return states_[state].label; }
    uint32_t holders(uint32_t state) const { return states_[state].holders; }
    uint32_t children(uint32_t state) const { return states_[state].children; }
    uint32_t below(uint32_t state) const { return states_[state].below; }   // its //-child
    bool loops(uint32_t state) const { return states_[state].loops(); }
    // Calls arrive(state) for each state that an element with these labels leads to by a transition; loops are not among them.
    template <class Arrive>
    void follow(uint32_t state, const NameLabels& labels, Arrive&& arrive) const {
        const State& from = states_[state];
        for (uint32_t label : labels.element)
            if (label != none)
                if (uint32_t to = from.named.find(label); to != none) arrive(to);
        if (from.any != none) arrive(from.any);
    }

    // Calls begun(element) for each element, then reached(state, element) for every accepting state that it reaches.
    template <class Begun, class Reached>
    void run(const Document& document, ResolvedNames& names, Run& run, Begun&& begun, Reached&& reached) const;

private:
    struct State {
        Transitions named;
        uint32_t any = none;                 // the transition `*`
        uint32_t below = none;               // the ε-move: its //-child
        uint32_t parent = none, label = 0;   // how it is reached; label_descend: by ε
        uint32_t holders = 0;                // who called insert() for it
        uint32_t children = 0;
        bool loops() const { return label == label_descend; }
    };
    uint32_t child(uint32_t state, uint32_t label) const;
    uint32_t branch(uint32_t state, uint32_t label);
    void detach(uint32_t state);

    std::vector<State> states_;
    std::vector<uint32_t> vacant_;
};

template <class Begun, class Reached>
void PathNfa::run(const Document& document, ResolvedNames& names, Run& run, Begun&& begun, Reached&& reached) const {
    // All sets lie one after the other in one vector; `ends` marks their borders by depth. An end tag is a resize.
    std::vector<uint32_t>& active = run.active;
    if (run.marks.size() < states_.size()) run.marks.resize(states_.size(), 0);
    active.assign(1, 0);
    run.ends.assign(1, 1);
    for (uint32_t element = 0; element < document.elements(); ++element) {
        Interrupt::check(1000);
        uint32_t depth = document.depth[element];
        if (++run.event == 0) {              // wrapped round: old marks would look new
            run.marks.assign(run.marks.size(), 0);
            run.event = 1;
        }
        const NameLabels& labels = names[document.name[element]];
        begun(element);
        active.resize(run.ends[depth]);      // the end tags before this start tag
        auto arrive = [&](uint32_t state) {
            if (state == none) return;
            active.push_back(state);
            if (states_[state].holders) reached(state, element);
        };
        auto follow = [&](const State& state) {
            for (uint32_t label : labels.element)
                if (label != none) arrive(state.named.find(label));
            arrive(state.any);
        };
        // An active //-child may be an ε-successor as well; it is followed only once.
        auto loop = [&](uint32_t state) {
            if (run.marks[state] == run.event) return;
            run.marks[state] = run.event;
            follow(states_[state]);
            active.push_back(state);
        };
        // The set of the parent is only read while that of the element grows after it. Indices stay valid when the vector moves.
        for (uint32_t at = depth ? run.ends[depth - 1] : 0, end = run.ends[depth]; at < end; ++at) {
            const State& state = states_[active[at]];
            if (state.loops())
                loop(active[at]);
            else
                follow(state);
            if (state.below != none) loop(state.below);
        }
        run.ends.resize(depth + 1);
        run.ends.push_back(static_cast<uint32_t>(active.size()));
    }
}

}  // namespace treecast
