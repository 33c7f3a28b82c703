// A query with predicates as conjunctive tree patterns: the form that the tree machine takes.
//
// Theory of operation. For a yes or no, the main path is one more branch, so a query says: "below the document there is an
// element with this label, for which these requirements hold", where a requirement is a child or a descendant of such a form,
// or a test of the element's own value, each possibly negated. Existence distributes over `or`, so `or` becomes several
// patterns; `not` is pushed inward to requirements; attributes and texts are children with a label and a value of their own;
// an absolute path in a predicate is a requirement of the document. `a != "v"` is "a child a whose value is not v".
//
// A place among the siblings of one name is part of the label: `b[2]`, and also `contains(b, "x")`, which is about the b in
// place 1. Other positions in the first predicate of a child step are tests of a counter (label.hpp): `b[last()]` is a b with a
// place from the last on whose value is 1. In an ordered pattern, an element with several branches requires their order as well:
// witnesses of them, children or descendants, whose start tags increase. `contains(b/c, "x")` is about the first item of a path: a
// label of its own, which an element is taken to have like an attribute with the value of that item. What cannot be said that way
// (positions among what other predicates leave, the first item of paths with predicates, negated name tests) is left out, and the
// pattern is marked as not exact: it then holds wherever the query does, and more. The query itself is evaluated afterwards.
//
// A pattern is written as bytes; equal patterns have equal bytes:
//     entry       = varint(label) varint(number of requirements) requirement*          requirements sorted, distinct
//     requirement = kind byte, then a value test (op byte, varint(size), bytes), an entry, or an order
//     order       = varint(number of branches), and for each varint(number of its requirement)     one at most, the last
#pragma once

#include "base/varint.hpp"
#include "machines/label.hpp"
#include "query/query.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace treecast {

enum class Reach : uint8_t { value = 0, child = 1, descend = 2, order = 3 };
constexpr uint8_t negated_bit = 4;

// The value of an element, attribute or text: equality as strings or numbers, order as numbers, substrings.
enum class ValueTest : uint8_t { equal_text, equal_number, less, less_equal, greater, greater_equal, contains, starts_with };

struct Patterns {
    std::vector<std::string> patterns;      // the query holds where one of them does; none: it never holds
    bool exact = true;                      // and only there
};

// `labels` gains the labels of the query.
Patterns to_patterns(const Query& query, bool ordered, LabelTable& labels);

// The same pattern with other label numbers.
std::string relabel(std::string_view pattern, const std::function<uint32_t(uint32_t)>& label);

}  // namespace treecast
