// The shared machine for tree patterns: all patterns in one bottom-up automaton, laid out so that closing an element is
// bit-parallel.
//
// Theory of operation. All entries of all patterns (pattern.hpp) are hash-consed into one DAG: an entry is (label, set of
// requirements), and each distinct one is a bit. When an element closes, three sets of bits are known: `child`, the entries
// that hold at its children (including attributes and texts), `descend`, those that hold anywhere below, and `tests`, the
// conditions that its own value meets. From these and its labels follow the entries that hold here.
//   - An entry with a single requirement: entries are sorted by (label, kind of requirement, the required entry, recursively).
//     So for one label and kind they are in the order of what they require, and PEXT maps requirements to entries.
//   - An entry with several: the one that is met most rarely is its pivot (tree_plan.hpp). If few entries share a pivot, they are
//     listed, and their other requirements are tested one by one where it holds. If many do, they get a *context* of their own,
//     which is to them what a label is to others: it is entered where the pivot holds, and they are found by what else they
//     require.
//   - Order and inequality of values are read from gauges (gauges.hpp). Entries that nothing else distinguishes are found by
//     bounds on one gauge, or pairs of bounds on two.
//   - Where branches have to come in an order (pattern.hpp), it is noted at which elements each of them holds, and the order is
//     tested last, when everything else is met.
//   - An entry that requires nothing but absence and inequality is tested wherever its context is entered.
//
// Entries that depend on values are in a second half of their own, which starts at a whole word. Most of them hold in no
// document,
// so the words of the others stay dense. The patterns themselves are the entries with label_root, the first block of each half.
//
// Patterns that are a path with a value at its end are found the other way round, and are kept apart (value_paths.hpp).
//
// (XTrie and YFilter evaluate tree patterns by joining matches of their paths; here nothing is joined.)
#pragma once

#include "base/directory.hpp"
#include "base/words.hpp"
#include "machines/first_paths.hpp"
#include "machines/gauges.hpp"
#include "machines/label.hpp"
#include "machines/pattern.hpp"
#include "machines/value_paths.hpp"
#include "machines/values.hpp"

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace treecast {

class TreeMachine {
public:
    enum Space : uint8_t { in_tests = 0, in_child = 1, in_descend = 2, spaces = 3, in_gauges = 3, in_orders = 4 };
    struct Check {                      // a requirement to be tested
        uint32_t id;                    // a bit of the space, one of bounds_, or an order
        uint8_t space;
        bool negated;
        uint16_t unused = 0;            // where the compiler would leave a gap, which is saved with the rest
    };
    static constexpr uint32_t context_bit = 0x80000000u;
    struct Candidate {                  // an entry to be tested, or with context_bit a context to enter
        uint32_t position, checks;      // its checks end where the next one's begin
    };
    // The same where a pivot holds: most have one or two requirements left, and these are here. PERF: bench/trees.py: what is looked
    // at is read from one place to the next, and tested without branches.
    struct Quick {
        uint32_t position;
        uint32_t first, second;         // see pack(); with by_candidate, `first` is the number of a Candidate
    };
    static constexpr uint32_t packed_id_max = (1u << 29) - 1, always = 3u << 29, by_candidate = none;
    static uint32_t pack(const Check& check) { return uint32_t(check.negated) << 31 | uint32_t(check.space) << 29 | check.id; }
    struct Gauges {                     // of a label: by space and kind; none where nobody reads such a gauge
        uint32_t of[spaces][gauge_kinds] = {{none, none, none, none}, {none, none, none, none}, {none, none, none, none}};
        uint32_t kinds = 0;             // a bit for each kind that somebody reads
        bool has(GaugeKind kind) const { return kinds >> static_cast<int>(kind) & 1; }
        bool numbers() const { return kinds & ~(1u << static_cast<int>(GaugeKind::text)); }    // whether values are read as numbers
    };
    struct Place {                      // the place that makes a name a placed label (label.hpp)
        uint32_t name;                  // the label of the name
        uint32_t place;
        uint32_t local;                 // the machine's number for the placed label
    };
    struct Made {                       // a label that is derived from another (label.hpp), in whatever place
        uint32_t base;                  // the label
        uint32_t local;                 // the machine's number for the derived one
    };
    struct Derived {                    // a gauge that takes its height from another, at every element with this label
        uint32_t inner, label, outer;   // label: the machine's number
        uint32_t space;                 // of the outer one
    };
    struct Record {                     // 64 neighbouring requirements, for one label
        uint64_t single = 0;            // are all that some entry requires
        uint64_t pivot = 0;             // are the pivot of some entries
        uint32_t target = 0;            // the first entry of `single`
        uint32_t group = 0;             // the first group of `pivot`
    };

    // `patterns[i]` is accepted with the accept id accept_of[i] (filled in). Patterns must be distinct.
    TreeMachine(std::span<const std::string_view> patterns, const LabelTable& table, std::vector<uint32_t>& accept_of,
                const HashSeeds& seeds);             // of tables that are needed while it is built

    TreeMachine();                                           // empty, to be filled by parts()

    uint32_t accepts() const { return accepts_; }
    uint32_t entries() const { return entries_; }            // with the gap before the second half
    uint32_t tests() const { return tests_; }
    bool has_trees() const { return tree_accepts_ != 0; }
    const ValuePaths& value_paths() const { return value_paths_; }       // their accept ids come after those of all others
    bool has_text() const { return has_text_; }
    bool has_attributes() const { return has_attributes_; }
    bool has_marks() const { return has_marks_; }            // comments and instructions are asked for
    uint64_t bytes() const;
    uint64_t serial() const { return serial_; }
    // All that a saved machine consists of, in a fixed order: `visit` takes arrays and plain values.
    template <class Visit>
    void parts(Visit&& visit) {
        visit(labels_), directories_.arrays(visit), visit(groups_), visit(quicks_), visit(candidates_), visit(frees_), visit(free_);
        visit(checks_), visit(wanted_), visit(value_groups_), values_.parts(visit), visit(valued_begin_), visit(plain_accepts_);
        visit(accepts_), visit(entries_), visit(tests_), visit(has_text_), visit(has_attributes_), visit(has_marks_);
        visit(label_flags_), visit(test_entries_), visit(bounds_), visit(gauges_), visit(gauge_kinds_), visit(gauge_keys_), visit(derived_);
        visit(context_spans_), spans_.parts(visit), visit(places_);
        visit(made_), visit(programs_), visit(program_bytes_), visit(program_ends_), visit(tree_accepts_), value_paths_.parts(visit);
        visit(orders_), visit(branches_), visit(witnesses_), visit(witness_count_), first_paths_.parts(visit);
    }
    uint32_t local(uint32_t label) const;                    // the machine's number for a label, or none
    bool has_places() const { return !places_.empty(); }
    std::span<const Place> places(uint32_t name) const;      // of the placed labels of a name, ascending
    std::span<const Made> made(uint32_t base) const;         // the labels that are derived from one
    uint32_t program(uint32_t local) const { return programs_[local]; }              // of a derived label, from 1; 0: its value is its own
    template <class Visit>
    void each_program(Visit&& visit) const {
        for (size_t i = 0; i + 1 < program_ends_.size(); ++i) visit(std::string_view(program_bytes_.data() + program_ends_[i], program_ends_[i + 1] - program_ends_[i]));
    }
    const Values& values() const { return values_; }
    uint32_t value_group(uint32_t local) const { return value_groups_[local]; }      // 0: nobody asks for the value
    const Gauges& gauges(uint32_t local) const { return gauges_[local]; }
    bool is_only_tested(uint32_t local) const { return label_flags_[local] & only_tested; }
    bool is_direct(uint32_t local) const { return label_flags_[local] & direct; }
    bool has_counts(uint32_t local) const { return label_flags_[local] & counts; }
    uint32_t test_entry(uint32_t test) const { return test_entries_[test]; }         // of a direct label: what holds then, or none
    struct Wanted {                     // of 64 neighbouring entries, those that some entry wants of a child, or below
        uint64_t child = 0, descend = 0;
        uint64_t keys = 0;              // those that something is looked up by; the others are only tested
    };
    const Wanted& wanted(uint32_t word) const { return wanted_[word]; }
    const FirstPaths& first_paths() const { return first_paths_; }
    bool has_orders() const { return witness_count_ != 0; }
    struct Branch {                     // of an order
        uint32_t witness;               // its number among the entries that are noted where they hold
        uint32_t is_child;
    };
    struct Witnesses {                  // of 64 neighbouring entries, those that are noted
        uint64_t mask = 0;
        uint32_t first = 0;             // the number of the first
        uint32_t unused = 0;            // where the compiler would leave a gap, which is saved with the rest
    };
    // Patterns stand at the beginning of both halves; their accept ids follow each other.
    uint32_t accept(uint32_t position) const { return position < valued_begin_ ? position : position - valued_begin_ + plain_accepts_; }

private:
    friend class TreeBuilder;
    friend class TreeRun;

    Array<uint32_t> labels_;                  // sorted global labels; they are the first contexts
    Directories<Record> directories_;               // by context * spaces + space
    Array<uint32_t> groups_;                  // into quicks_; one more than there are groups
    Array<Quick> quicks_;
    Array<Candidate> candidates_;             // one more at the end
    Array<uint32_t> frees_;                   // by context, into free_; one more at the end
    Array<Candidate> free_;                   // entries without a pivot
    Array<Check> checks_;
    Array<Wanted> wanted_;
    Array<uint32_t> value_groups_;                  // by local label
    enum LabelFlag : uint8_t {
        only_tested = 1,                // what has this label matters to its parent, and only in tests
        direct = 2,                     // each of its entries holds where one test does
        counts = 4,                     // some of its entries ask for counters (label.hpp)
    };
    Array<uint8_t> label_flags_;                    // by local label
    Array<uint32_t> test_entries_;                  // by test
    Values values_;
    Array<Bound> bounds_;                           // by gauge, then height
    Array<Gauges> gauges_;                          // by local label
    Array<GaugeKind> gauge_kinds_;                  // by gauge
    Array<uint8_t> gauge_keys_;                     // by gauge: something is looked up by it; else it is only tested
    Array<Derived> derived_;                        // by inner gauge, then label
    Array<uint32_t> context_spans_;                 // by context, into spans_; one more at the end
    Spans spans_;                                   // of a context by their first gauge
    Array<Place> places_;                           // by name, then place
    Array<Made> made_;                              // by base, then local
    Array<uint32_t> programs_;                      // by local label
    Array<char> program_bytes_;                     // of Derivations, one after the other
    Array<uint32_t> program_ends_;
    ValuePaths value_paths_;
    Array<uint32_t> orders_;                        // into branches_; one more at the end
    Array<Branch> branches_;
    Array<Witnesses> witnesses_;                    // by word of entries; none without orders
    uint32_t witness_count_ = 0;
    FirstPaths first_paths_;                        // by local label
    uint32_t accepts_ = 0, tree_accepts_ = 0, plain_accepts_ = 0, entries_ = 0, valued_begin_ = 0, tests_ = 0;
    bool has_text_ = false, has_attributes_ = false, has_marks_ = false;
    uint64_t serial_ = 0;
};

}  // namespace treecast
