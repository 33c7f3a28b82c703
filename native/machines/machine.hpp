// The shared machine: all paths in one NFA, laid out so that a step is bit-parallel.
//
// Theory of operation (YFilter, sections 2 and 3, gives the NFA; the layout is ours).
//
// The paths form a trie over labels; `//` is a label of its own that leads to a "descend" state, which stays alive in the
// whole subtree. Only states with children are kept. They are sorted by their *reversed* path, so that
//   - all states reached by one label are neighbours, in the order of their parents: "the child by label a" preserves
//     order, and its targets are one contiguous block;
//   - states that become active together lie close together: about 15 share a 64-bit word.
// The end of a path is an accept id, numbered by (label, parent), so accept ids are such blocks too, and a leaf is no state.
// For a label and a word of parents, a Record holds which parents have a child there and where its block begins, and a step
// is: PEXT the active bits under that mask, OR them in at the block. The answers of a step alone need no look at its states.
// As sources are walked in ascending order, targets come out in ascending order: sets are plain sorted lists of words.
//
// The machine never changes once built; see store.hpp for how additions and removals are handled around it.
#pragma once

#include "base/directory.hpp"
#include "base/words.hpp"
#include "machines/label.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace treecast {

// A path as the machines store it: for every step its label, with label_descend before it where it is reached by `//`.
using Labels = std::span<const uint32_t>;

class Machine {
public:
    struct Record {
        uint64_t inner = 0;     // parents in this word whose child by the label is a state
        uint64_t end = 0;       // parents in this word whose child by the label ends a path
        uint32_t target = 0;    // the first such state
        uint32_t accept = 0;    // the accept id of the first such end
    };
    struct Word {               // facts about 64 neighbouring states
        uint64_t source = 0;    // have children besides a descend state: stay in the active set
        uint64_t descend = 0;   // have a descend state
        uint32_t target = 0;    // descend state of the first one that has it
        uint32_t unused = 0;    // where the compiler would leave a gap, which is saved with the rest
    };

    Machine();                  // empty, to be filled by a MachineBuilder or by parts()

    uint32_t accepts() const { return accepts_; }
    uint32_t states() const { return states_; }
    bool has_text() const { return has_text_; }
    bool has_attributes() const { return has_attributes_; }
    uint64_t bytes() const;
    uint64_t serial() const { return serial_; }

    // All that a saved machine consists of, in a fixed order: `visit` takes arrays and plain values.
    template <class Visit>
    void parts(Visit&& visit) {
        visit(labels_), directories_.arrays(visit), visit(word_table_);
        visit(root_), visit(states_), visit(accepts_), visit(has_text_), visit(has_attributes_);
    }

    // The machine's number for a label, or `none`. Numbers ascend with labels.
    uint32_t local(uint32_t label) const;

    // What is active before the root element.
    void start(Words& fresh, Words& descend) const;

    // One step: from the states `descend` (alive here) and `fresh` (reached here), by any of the labels (ascending local
    // numbers), to: the states reached, the accept ids passed, the descend states that the reached ones open.
    void step(WordsView descend, WordsView fresh, std::span<const uint32_t> labels, Words& out_fresh, Words& out_accept,
              Words& out_descend, std::vector<uint64_t>& scratch) const;
    // Of such a step only the accept ids.
    void answers(WordsView descend, WordsView fresh, std::span<const uint32_t> labels, Words& out_accept,
                 std::vector<uint64_t>& scratch) const;

private:
    template <class Bits>
    void answers_with(WordsView descend, WordsView fresh, std::span<const uint32_t> labels, Words& out_accept,
                      std::vector<uint64_t>& scratch) const;
    template <class Bits>
    void step_with(WordsView descend, WordsView fresh, std::span<const uint32_t> labels, Words& out_fresh,
                   Words& out_accept, Words& out_descend, std::vector<uint64_t>& scratch) const;
    friend class MachineBuilder;

    Array<uint32_t> labels_;                 // sorted global labels; the position is the local number
    Directories<Record> directories_;        // by local number
    Array<Word> word_table_;
    uint32_t root_ = 0, states_ = 0, accepts_ = 0;
    bool has_text_ = false, has_attributes_ = false;
    uint64_t serial_ = 0;
};

}  // namespace treecast
