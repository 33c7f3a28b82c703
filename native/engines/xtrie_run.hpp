// One document through an XTrie: the positional information at run time. One XTrieRun belongs to one thread at a time.
//
// Occurrences of rows that wait for children are on one stack, in the order of the start tags that made them.
// Those of one row are chained from the innermost outward. So an end tag removes exactly the top of the stack, and the
// fitting occurrences of a parent row are found by walking its chain.
// Levels count from 1, the root element; the document has 0.
#pragma once

#include "engines/xtrie.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace treecast {

class XTrieRun final : public PublishedFilter::Scratch {
public:
    // Appends the slots of all filters that the document matches.
    void run(const XTrie& engine, const Document& document, std::vector<uint32_t>& slots);

    // What the documents so far have cost; what is redundant is in neither. PERF: only what is rare is counted.
    struct Work {
        uint64_t remembered = 0;        // occurrences that wait for children
        uint64_t told = 0;              // rows that were found matched with all that hangs on them
    };
    const Work& work() const { return work_; }

private:
    using Probe = SubstringTrie::Probe;
    struct Item { StepKind kind; uint32_t index; };
    struct Occurrence {
        uint32_t row = none, level = 0;
        uint32_t outer = none;          // the occurrence of the same row further out
        uint32_t chain = none;          // of ordered children
        uint64_t seen = 0;              // the ranks of its children that have been matched
    };
    // The ordered children of an occurrence.
    struct Chain {
        // By rank - 1: the smallest witness that ends a chain of increasing witnesses of the branches up to this rank.
        std::vector<uint32_t> best;
        // Witnesses (rank, element) that no witness precedes yet.
        // All are below the element `within`, a child of the occurrence's element.
        std::vector<std::pair<uint32_t, uint32_t>> waiting;
        uint32_t within = none;
    };
    struct Level {
        uint32_t element = none, state = SubstringTrie::root;
        uint32_t occurrences = 0, chains = 0, expectations = 0;     // how many there were before it
    };

    void begin(const XTrie& engine, const Document& document, std::vector<uint32_t>& slots);
    void close(uint32_t level);
    template <bool tree> void follow();
    template <bool tree> void start(uint32_t element);
    template <bool tree> void attributes(uint32_t element);
    template <bool tree> void texts(uint32_t until);
    template <bool tree> void leaf(uint32_t state, uint32_t label, Item item);
    template <bool tree> void probe(uint32_t state, uint32_t level, Item item);
    template <bool tree> void consider(const Probe& probe, uint32_t level, Item item);

    // The innermost occurrence of the row's parent that the row may belong to, ending at this level; none if there is none.
    uint32_t fitting(uint32_t parent, uint32_t distance, bool open, uint32_t level) const;
    uint32_t next_fitting(uint32_t occurrence, bool open) const { return open ? occurrences_[occurrence].outer : none; }
    bool holds(const Probe& probe, Item item);
    bool holds(const RowTest& test, Item item);
    bool equals(Item item, std::string_view text);
    double number(Item item);
    std::string_view value(Item item);
    void accept(uint32_t filter);
    bool matched(uint32_t filter) const { return matched_[filter] == stamp_; }

    // -- the tree variant
    bool wanted(const XTrie::Row& row, uint32_t level, uint32_t parent) const;
    void tell(uint32_t row, uint32_t level);
    bool hear(Occurrence& parent, const XTrie::Row& child, uint32_t level);
    bool extend(Chain& chain, uint32_t rank, uint32_t witness, uint32_t within);
    uint32_t witness(const XTrie::Row& row, uint32_t level, const Occurrence& parent) const {
        return levels_[row.witness_below_parent ? parent.level + 1 : level - row.witness_back].element;
    }
    void remember(uint32_t row, uint32_t level);

    const XTrie* engine_ = nullptr;
    const Document* document_ = nullptr;
    std::vector<uint32_t>* slots_ = nullptr;
    ResolvedNames names_;
    uint32_t stamp_ = 0;                     // of the document
    std::vector<uint32_t> matched_;          // by filter: the last document that matched it
    std::vector<uint32_t> innermost_;        // by row: its innermost occurrence; all none between documents
    std::vector<Occurrence> occurrences_;
    std::vector<Chain> chains_;              // kept for their memory; the first chains_used_ are in use
    uint32_t chains_used_ = 0;
    std::vector<Level> levels_;              // the open elements, after the document
    std::vector<std::vector<uint32_t>> expected_;    // by level: rows that any element there matches, if its tests hold
    std::vector<uint32_t> expectations_;     // the levels of those rows in the order in which they were expected
    Work work_;
    uint32_t next_text_ = 0;
    std::string buffer_;                     // the value of the element buffered_
    uint32_t buffered_ = none;
};

}  // namespace treecast
