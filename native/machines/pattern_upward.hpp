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
// Only plain forms are read here: one such step, and predicates that are a path down or compare one with a constant. All others keep
// what they require (query_relax.cpp). Paths down are read here too where patterns cannot say them otherwise: those with comment(),
// processing-instruction() and node() in them.
#pragma once

#include "machines/label.hpp"
#include "query/query.hpp"

#include <optional>
#include <string>
#include <vector>

namespace treecast {

// What the branch requires of the document, exactly; nullopt where it has another form.
std::optional<std::string> upward_requirement(const Query& query, const PathEntry& branch, LabelTable& labels);

// `@x = p` and `@x = "v"` together: that p, wherever it leads, is "v". `is_here`: a requirement of the context; else of the document.
struct Consequence {
    std::string requirement;
    bool is_here = false;
};
std::optional<Consequence> equal_consequence(const Query& query, const Expr& known, const Expr& comparison, LabelTable& labels);

// What a term that is a plain predicate requires of its context: boolean(@x = 1), comment() = "c". `wider`: what was read holds
// wherever the term does, and elsewhere too; `nothing`: it has another form.
enum class Reading : uint8_t { nothing, wider, exact };
Reading plain_requirements(const Query& query, uint32_t term, LabelTable& labels, std::vector<std::string>& out);

}  // namespace treecast
