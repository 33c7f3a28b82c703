// The normal form that the machines understand: a linear path without predicates.
//
// All spellings of a path end up here, so machines know two axes (child and descendant) and four tests, and nothing else.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace treecast {

enum class StepKind : uint8_t { element, attribute, text, comment, instruction };    // the last two only in labels
enum class Test : uint8_t { name, any, any_local, any_namespace };   // q:a, *, *[local-name()='a'], q:*

struct PathStep {
    bool descendant = false;          // reached by '//' rather than '/'
    StepKind kind = StepKind::element;
    Test test = Test::any;            // of elements and attributes
    std::string_view uri, local;      // as far as the test uses them
    uint32_t place = 0;               // of an element with a full name: its number among the siblings of that name, from 1; 0: any
    std::string_view program = {};    // what its value is made of: a Derivation (derivation.hpp); empty: its string value
};

using Path = std::vector<PathStep>;   // views point into the Query it came from

}  // namespace treecast
