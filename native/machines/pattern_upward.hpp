// Queries that go up or sideways once, as patterns that go down: exactly where that is possible.
//
// For a yes or no it does not matter which element a query selects. So these pairs hold for the same documents:
//
//     //b[../@x = 1], //b/parent::*[@x = 1]       //*[@x = 1]/b
//     //b[ancestor::a/@x = 1]                     //a[@x = 1]//b
//     //b[preceding-sibling::b/@x = 1]            //b[@x = 1], one that is not the last b of its parent
//     //b[following-sibling::b/@x = 1]            //b[@x = 1], one that is not the first
//     (//b[@x = 1])[1]                            //b[@x = 1]
//
// Only plain forms are read here: one such step, and predicates that are a step or compare one with a constant. All others keep
// what they require (query_relax.cpp).
#pragma once

#include "machines/label.hpp"
#include "query/query.hpp"

#include <optional>
#include <string>
#include <vector>

namespace treecast {

// What the branch requires of the document, exactly; nullopt where it has another form.
std::optional<std::string> upward_requirement(const Query& query, const PathEntry& branch, LabelTable& labels);

// What a term that is a plain predicate requires of its context, exactly: boolean(@x = 1). False where it has another form.
bool plain_requirements(const Query& query, uint32_t term, LabelTable& labels, std::vector<std::string>& out);

}  // namespace treecast
