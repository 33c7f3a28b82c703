// Labels: the alphabet of the machines. A label is one node test of a step: a name, `*`, `q:*`, `*:a`, for elements and for
// attributes, or text(), comment() and processing-instruction(), the latter perhaps with a target. A name in a document fires at
// most four of them.
//
// A *placed* label is a name together with a place, such as the third `item` of its parent. A *counter* is something that every
// element is taken to have, like an attribute whose value is a number: where it stands among its siblings, or whether it has children. A *first* label is a
// path, such as `b/c`: an element is taken to have it, like an attribute with the value of the first item that the path leads to.
// A *derived* label is another one together with a Derivation (derivation.hpp): what has it has another value, such as its
// normalize-space(). Only tree machines have such.
#pragma once

#include "base/fork.hpp"
#include "base/id_slots.hpp"
#include "base/seeded_hash.hpp"
#include "document/document.hpp"
#include "query/path.hpp"

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace treecast {

// Fixed labels; named ones follow. The order matters: `//` sorts first, so its states form the first block of a machine.
enum : uint32_t { label_descend = 0, label_root = 1, label_element_any = 2, label_attribute_any = 3, label_text = 4, label_comment = 5, label_instruction = 6,
                 label_counter = 7, label_first = 14 };

// Among the siblings of its name, or among all: its place from the first on, its place from the last on, how many there are.
// `content`: 1 if it has children of any kind, else 0. Their labels start at label_counter.
enum class Counter : uint8_t { place_name, place_any, end_name, end_any, count_name, count_any, content };
constexpr uint32_t counters = 7;
static_assert(label_counter + counters == label_first);
constexpr bool is_counter(uint32_t label) { return label >= label_counter && label < label_first; }

// The named labels that one expanded name fires, besides `*` and `@*`; `none` where no query has such a label.
struct NameLabels {
    uint32_t element[3] = {none, none, none};
    uint32_t attribute[3] = {none, none, none};
    uint32_t resolved_at = 0;   // changes of the table until this was looked up: after another it may be different
};

// Append-only but for cut(). One writer (under the store's lock) and any number of readers.
class LabelTable {
public:
    LabelTable();
    uint32_t intern(const PathStep& step);                 // the label of a step's test
    uint32_t intern_first(std::span<const PathStep> path);       // the first label of a path, and those of its steps
    static std::vector<PathStep> path_of_first(const PathStep& first);       // the path again
    static constexpr uint32_t first_place = none;          // marks a first label where others have their place
    NameLabels resolve(std::string_view uri, std::string_view local) const;
    void cut(uint32_t size) noexcept;                      // forgets the labels that were added last; no machine has them
    uint32_t find(const PathStep& step) const;             // the label of a step's test, or none; not of fixed labels
    uint32_t size() const;
    uint32_t changes() const;
    uint64_t bytes() const;
    PathStep step_of(uint32_t label) const;                // the test again; views live as long as the table
    StepKind kind_of(uint32_t label) const { return entries_[label].kind; }      // for the writer: it needs no lock
    uint32_t name_of(uint32_t label) const;                // of a placed label: that of its name alone, wherever it stands
    uint32_t base_of(uint32_t label) const;                // of a derived label: the one that it is derived from
    // Whether a label may have this derivation: everything with that label pays for each of them.
    static constexpr uint32_t derivations_max = 32;
    bool can_derive(const PathStep& step) const;

private:
    struct Entry {
        StepKind kind;
        Test test;
        uint32_t place = 0;
        std::string uri, local, program;
        uint32_t derivations = 0;                          // labels that are derived from it
    };
    static uint64_t hash(const Entry& entry) { return hash(entry.kind, entry.test, entry.uri, entry.local, entry.place, entry.program); }
    static uint64_t hash(StepKind kind, Test test, std::string_view uri, std::string_view local, uint32_t place, std::string_view program);
    uint32_t find(StepKind kind, Test test, std::string_view uri, std::string_view local, uint32_t place = 0,
                  std::string_view program = {}) const;    // or none
    uint32_t base_of_entry(const Entry& entry) const;
    static uint32_t fixed(const PathStep& step);           // the label of a test that needs no entry, or none

    mutable MomentarySharedMutex mutex_;
    IdSlots slots_;
    std::deque<Entry> entries_;   // a deque: views into its strings stay valid
    uint64_t text_bytes_ = 0;
    uint32_t changes_ = 1;
};

}  // namespace treecast
