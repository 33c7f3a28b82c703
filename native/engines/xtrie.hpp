// XTrie: a trie over the substrings of all expressions and a table of their rows, probed whenever a substring occurs.
//
// Theory of operation (XTrie, "Efficient Filtering of XML Data").
//
// An expression is decomposed into substrings, sequences of names joined by `/` (xtrie_rows.hpp). The trie finds their
// occurrences: it follows the start tags, and the max-suffix pointers lead from each state to the shorter substrings that end
// at the same element (xtrie_trie.hpp). Each substring of each expression has a row in the substring table: its parent row,
// how many levels below the parent's end it must end, its rank among its siblings, how many children it has, and its tests.
//
// Matching (xtrie_run.*). An occurrence of a row counts if its tests hold and its parent row occurs, on the path of open
// elements, at a fitting level. It is remembered with its level and the children it has seen: the positional information,
// which the end tag removes. A row without children reports to all fitting occurrences of its parent. A row that has all its
// children reports to those of its own parent, and so on up. At the first row the expression is matched, and its rows are
// not looked at again. An occurrence that no parent waits for any more is redundant and not remembered.
//
// Two variants, as published. `xtrie-single-path` takes expressions whose steps have at most one child. There a row is
// matched when it counts: nothing is reported upward, the last row decides, and occurrences need only their level.
// `xtrie` takes trees. Unordered, a row collects its children in a set. Ordered, the first-step witnesses of the
// branches must have increasing start tags.
//
// We differ from the paper, which in this version gives no procedures:
//   - Ordered matching by a counter ("the next child in rank") would miss matches: with a[.//x[y]][.//z] in
//     <a><x><z/><y/></x></a> the second branch is complete before the first, though its witness starts later.
//     So for each rank the smallest last witness of a chain of branches is kept. Witnesses that came too early wait as long
//     as an earlier one may still be found, that is until the child of the occurrence's element closes.
//     If all branches are children, nothing ever waits, and the method is the counter again.
//   - The document is columns, so the value of an element is tested at its start tag, not after its text was read.
//   - The empty substring, of a `*` with a row of its own, occurs at every element. If the row must end at one level
//     below its parent, it is looked for only there, as long as the parent's occurrence lasts.
//   - Names have namespaces; `p:*` and the like are `*` with a test. A union is several expressions of one subscription.
//   - Functions such as contains() of the element's own text or of one attribute are tests like the comparisons.
#pragma once

#include "base/seeded_hash.hpp"
#include "engines/published.hpp"
#include "engines/xtrie_rows.hpp"
#include "engines/xtrie_trie.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace treecast {

class XTrie final : public PublishedFilter {
public:
    enum class Variant : uint8_t { tree, single_path };

    // A row of the substring table; what every probe needs is in SubstringTrie::Probe.
    struct Row {
        uint32_t state = none, place = 0;    // its substring, and where it stands among the rows of that
        uint32_t filter = none, parent = none;
        uint32_t next = none;                // the next row of the same filter
        uint32_t expected = none;            // the first of its children that are looked for where it occurs,
        uint32_t next_expected = none;       // and the next such child of its parent
        uint32_t tests = none;
        uint16_t distance = 0, witness_back = 0;
        uint8_t rank = 0, children = 0, ordered_children = 0, order = 0;
        bool open = false, witness_below_parent = false;
        bool listed = false;                 // among the probes of its substring; or else expected by its parent
        bool child_open = false;             // it has one child, at any distance from some level on
    };
    struct Filter { uint32_t slot = none, first_row = none; };

    explicit XTrie(Variant variant) : variant_(variant) {}
    void add(uint32_t slot, const Query& query, bool ordered) override;
    void remove(uint32_t slot) override;
    std::unique_ptr<Scratch> scratch() const override;
    void match(const Document& document, Scratch& scratch, std::vector<uint32_t>& slots) const override;
    size_t states() const override { return trie_.size(); }
    size_t bytes() const override;

    Variant variant() const { return variant_; }
    std::string_view name() const { return variant_ == Variant::tree ? "xtrie" : "xtrie-single-path"; }
    const LabelTable& labels() const { return labels_; }
    const SubstringTrie& trie() const { return trie_; }
    const std::vector<Row>& rows() const { return rows_; }
    const std::vector<Filter>& filters() const { return filters_; }
    const std::vector<RowTest>& tests(uint32_t index) const { return tests_[index]; }
    SubstringTrie::Probe probe_of(uint32_t index) const {
        const Row& row = rows_[index];
        return {index, row.filter, row.parent, row.distance, row.open, row.tests != none};
    }
    bool has_attributes() const { return attribute_rows_; }
    bool has_texts() const { return text_rows_; }

private:
    uint32_t add_row(uint32_t filter, const SubstringRow& row, uint32_t parent);
    void remove_row(uint32_t row);
    void count_leaf(uint32_t state, uint32_t by);

    Variant variant_;
    LabelTable labels_;
    SubstringTrie trie_;
    std::vector<Row> rows_;
    std::vector<Filter> filters_;
    std::vector<std::vector<RowTest>> tests_;
    std::vector<uint32_t> vacant_rows_, vacant_filters_, vacant_tests_;
    NumberMap<uint32_t, uint32_t> filter_of_;       // by slot
    uint32_t attribute_rows_ = 0, text_rows_ = 0;            // how many rows end at one
};

std::unique_ptr<PublishedFilter> make_xtrie();
std::unique_ptr<PublishedFilter> make_xtrie_single_path();

}  // namespace treecast
