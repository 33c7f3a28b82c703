// The shared machine for tree patterns: all patterns in one bottom-up automaton, laid out so that closing an element is
// bit-parallel.
//
// Theory of operation. All entries of all patterns (pattern.hpp) are hash-consed into one DAG: an entry is (label, set of
// requirements), and each distinct one is a bit. When an element closes, three sets of bits are known: `child`, the entries
// that hold at its children (attributes and texts among them), `descend`, those that hold anywhere below, and `facts`, the
// conditions that its own value meets. From these and its labels follow the entries that hold here.
//   - An entry with a single requirement: entries are sorted by (label, kind of requirement, the required entry, recursively),
//     so for one label and kind they stand in the order of what they require, and PEXT maps requirements to entries.
//   - An entry with several: the one that is met most rarely is its pivot. Entries are listed by pivot, and the other
//     requirements are tested one by one where the pivot holds. A negated requirement is never a pivot.
//   - An entry without any positive requirement is tested wherever its label occurs.
// The patterns themselves are the entries with label_root, the first block: their positions are the accept ids.
//
// (XTrie and YFilter evaluate tree patterns by joining matches of their paths; here nothing is joined.)
#pragma once

#include "directory.hpp"
#include "label.hpp"
#include "pattern.hpp"
#include "values.hpp"
#include "words.hpp"

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace treecast {

class TreeMachine {
public:
    enum Space : uint32_t { in_facts = 0, in_child = 1, in_descend = 2, spaces = 3 };
    struct Check {                      // a requirement to be tested
        uint32_t id;
        uint8_t space;
        bool negated;
    };
    struct Candidate {                  // an entry whose pivot holds; its checks end where the next one's begin
        uint32_t position, checks;
    };
    struct Record {                     // 64 neighbouring requirements, for one label
        uint64_t single = 0;            // are all that some entry requires
        uint64_t pivot = 0;             // are the pivot of some entries
        uint32_t target = 0;            // the first entry of `single`
        uint32_t group = 0;             // the first group of `pivot`
    };

    // `patterns[i]` is accepted with the accept id accept_of[i] (filled in). Patterns must be distinct.
    TreeMachine(std::span<const std::string_view> patterns, const LabelTable& table, std::vector<uint32_t>& accept_of);

    TreeMachine();                                           // empty, to be filled by parts()

    uint32_t accepts() const { return accepts_; }
    uint32_t entries() const { return entries_; }
    uint32_t facts() const { return facts_; }
    bool has_text() const { return has_text_; }
    bool has_attributes() const { return has_attributes_; }
    uint64_t bytes() const;
    uint64_t serial() const { return serial_; }
    // All that a saved machine consists of, in a fixed order: `visit` takes arrays and plain values.
    template <class Visit>
    void parts(Visit&& visit) {
        visit(labels_), directories_.arrays(visit), visit(groups_), visit(candidates_), visit(frees_), visit(free_);
        visit(checks_), visit(child_used_), visit(descend_used_), visit(valued_), values_.parts(visit);
        visit(accepts_), visit(entries_), visit(facts_), visit(has_text_), visit(has_attributes_);
    }
    uint32_t local(uint32_t label) const;                    // the machine's number for a label, or none
    uint32_t global(uint32_t local) const { return labels_[local]; }
    const Values& values() const { return values_; }
    bool valued(uint32_t local) const { return valued_[local]; }
    uint64_t child_mask(uint32_t word) const { return child_used_[word]; }      // entries that some entry wants of a child
    uint64_t descend_mask(uint32_t word) const { return descend_used_[word]; }

private:
    friend class TreeBuilder;
    friend class TreeRun;

    Array<uint32_t> labels_;                  // sorted global labels
    Directories<Record> directories_;               // by local label * spaces + space
    Array<uint32_t> groups_;                  // into candidates_; one more than there are groups
    Array<Candidate> candidates_;             // one more at the end
    Array<uint32_t> frees_;                   // by local label, into free_; one more at the end
    Array<Candidate> free_;                   // entries without a pivot
    Array<Check> checks_;
    Array<uint64_t> child_used_, descend_used_;
    Array<uint8_t> valued_;                   // by local label
    Values values_;
    uint32_t accepts_ = 0, entries_ = 0, facts_ = 0;
    bool has_text_ = false, has_attributes_ = false;
    uint64_t serial_ = 0;
};

}  // namespace treecast
