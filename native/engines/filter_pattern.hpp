// A query in the form that the engines of the papers take: conjunctive patterns of linear paths with value-based predicates.
//
// What they have in common (YFilter, sections 2 and 3.3): the axes `/` and `//`, names and `*`, and any number of predicates on a
// step. Each predicate is about a property of its element (an attribute, its text, its position) or is a nested path.
// A union is several patterns.
//
// Final steps `@x` and `text()` become predicates of the element before them: `/a/@x` is `/a[@x]`, and `/a//@x` is two patterns,
// `/a[@x]` and `/a//*[@x]`. Everything else is refused: `or`, `not()`, functions, last(), other axes, absolute nested paths,
// positions that count what an earlier predicate left, ordered patterns with branches.
#pragma once

#include "engines/filter_condition.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace treecast {

// A step of a machine: which label, and whether at any depth.
struct LabelStep {
    uint32_t label = label_element_any;      // of elements
    bool descendant = false;                 // reached by `//`
    bool operator==(const LabelStep&) const = default;
};

struct FilterStep {
    PathStep test;                           // void after intern_labels
    LabelStep step;
    std::vector<ValueCondition> conditions;
};

// The main path, or a nested one. A nested path continues from a step of another path of the pattern.
struct FilterPath {
    uint32_t parent = none;                  // a path earlier in the pattern
    uint32_t branch = 0;                     // the step of the parent that it hangs on
    std::vector<FilterStep> steps;
};

using FilterPattern = std::vector<FilterPath>;

// What an engine accepts beyond paths with value-based predicates.
struct FilterLanguage {
    std::string_view engine;                 // for the refusal
    bool nested = false;
};

// The patterns, of which at least one must hold. There are none if the query can never match (/@x).
// Throws TC150 for whatever is outside the language. The views in `test` point into the query.
std::vector<FilterPattern> to_filter_patterns(const Query& query, bool ordered, const FilterLanguage& language);

// Replaces every `test` by its label.
void intern_labels(std::vector<FilterPattern>& patterns, LabelTable& labels);

// Equal for paths with the same labels and the same predicates, in the same order.
std::string path_key(const FilterPath& path);

}  // namespace treecast
