// Value-based predicates of the papers' engines: on an attribute, the text, the string value or the position of one element.
#pragma once

#include "engines/published.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace treecast {

struct Comparison {
    Relation relation = Relation::eq;
    bool as_text = false;                    // equality with a literal; all else compares numbers
    std::string text;
    double number = 0;
};

// A value-based predicate: some such attribute or text satisfies all comparisons, or the element itself does.
struct ValueCondition {
    enum class Target : uint8_t { attribute, text, element, position };
    Target target = Target::element;
    PathStep test;                           // of the attribute, or of the elements that are counted; void after intern_labels
    uint32_t label = none;                   // the same as a label
    std::vector<Comparison> comparisons;
};

// Evaluates value-based predicates on the elements of one document at a time. Part of a Scratch.
class ConditionEvaluator {
public:
    void begin(const Document& document, ResolvedNames& names);
    bool holds(const ValueCondition& condition, uint32_t element);
    bool all_hold(const std::vector<ValueCondition>& conditions, uint32_t element) {
        for (const ValueCondition& condition : conditions)
            if (!holds(condition, element)) return false;
        return true;
    }

private:
    uint32_t position(uint32_t label, uint32_t element);     // of an element that passes the test
    void rank_by_name(std::vector<uint32_t>& ranks);
    void rank_all(std::vector<uint32_t>& ranks);
    bool compare_attributes(const ValueCondition& condition, uint32_t element);
    bool compare_texts(const ValueCondition& condition, uint32_t element);
    bool compare_element(const ValueCondition& condition, uint32_t element);

    const Document* document_ = nullptr;
    ResolvedNames* names_ = nullptr;
    // By element: its position among all siblings, and among those of its name. Made when first needed; empty before.
    std::vector<uint32_t> any_ranks_, name_ranks_;
    std::vector<std::pair<uint32_t, uint32_t>> counts_;      // by name: the parent it was counted for, and the count
    std::string buffer_;
};

}  // namespace treecast
