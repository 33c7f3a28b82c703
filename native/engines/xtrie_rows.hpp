// Query -> the rows of XTrie's substring table: the decomposition of an expression into few, long substrings.
//
// An expression is a tree of steps. The predicates of a step are branches below it, and the rest of its path is the last
// branch. Attributes and texts are steps like elements (the paper draws them so); a condition on their value is a test of
// the step.
//
// A substring is a sequence of names joined by `/`, and has one row. Each substring is as long as possible. It ends
//   - at a leaf,
//   - at a step with several branches or with tests, so that a row stands for it and its branches can name that row,
//   - before `//` and before `*`.
// It begins after the nearest `//` or `*` above its end, so it repeats names that it shares with the rows above:
// the path //a/b[c/d]/e has the substrings ab, abcd and abe.
//
// The row says where the substring ends, counted from the end of its parent row: a number of levels below, or at least that
// many. `*` costs no row but a level, except where nothing else could represent it: at a leaf, a branching, a test
// (`p:*` is one), or where an ordered pattern must know which element it was. Such a row has the empty substring, which
// every element matches.
#pragma once

#include "machines/label.hpp"
#include "query/query.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace treecast {

// What an element, attribute or text must be besides its place: its name (for tests without an edge) or its value.
struct RowTest {
    enum class Kind : uint8_t { name, compare, call } kind = Kind::compare;
    Relation relation = Relation::eq;
    Function function{};            // of a call, with `text`
    bool is_number = false;
    double number = 0;              // to compare with, unless equality with `text` is meant
    std::string text;
    uint32_t label = none;          // of kind name
};

// One row of the substring table, before it gets its place in an engine.
struct SubstringRow {
    std::vector<uint32_t> substring;    // labels; empty: any element
    uint32_t parent = none;             // an earlier row of the expression; none: the document
    uint32_t distance = 0;              // from the end of the parent row (the document: level 0) to its own
    bool open = false;                  // ... or more
    uint32_t rank = 0;                  // among the children of its parent, from 1: those that have an order first
    uint32_t children = 0;
    uint32_t ordered_children = 0;      // how many of them have an order; 0 or at least 2
    uint32_t order = 0;                 // its place in that order, from 1; 0: none
    bool witness_below_parent = false;  // which element the order counts: the one below the parent's on the way here,
    uint32_t witness_back = 0;          // or the one so many levels above the end of the substring
    std::vector<RowTest> tests;
};

using Expression = std::vector<SubstringRow>;   // a parent stands before its children

constexpr uint32_t xtrie_branches_max = 64;     // of one step: a match counts them in one word

// The expressions of a query, one for each path of its union; the query holds where one of them does.
// Their labels are added to `labels`. Throws TC150 in the name of `engine`, and then `labels` is unchanged.
// With `single_path`, branching is refused.
std::vector<Expression> decompose(const Query& query, bool ordered, bool single_path, std::string_view engine,
                                  LabelTable& labels);

}  // namespace treecast
