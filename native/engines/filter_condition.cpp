// Value-based predicates of the papers' engines, evaluated on single elements. See filter_condition.hpp.
#include "engines/filter_condition.hpp"

#include "document/number.hpp"
#include "query/relation.hpp"

#include <algorithm>
#include <limits>
#include <string_view>

namespace treecast {

namespace {

// XPath: a string literal is compared as text only with = and !=; all other comparisons are numeric.
bool compare(const Comparison& comparison, std::string_view value) {
    if (comparison.as_text) return (value == comparison.text) == (comparison.relation == Relation::eq);
    return related(comparison.relation, to_number(value), comparison.number);
}

// One item has to satisfy all comparisons that a predicate makes.
bool compare_all(const ValueCondition& condition, std::string_view value) {
    return std::all_of(condition.comparisons.begin(), condition.comparisons.end(),
                       [&](const Comparison& comparison) { return compare(comparison, value); });
}

}  // namespace

void ConditionEvaluator::begin(const Document& document, ResolvedNames& names) {
    document_ = &document;
    names_ = &names;
    // Positions are counted when the first one is needed.
    any_ranks_.clear();
    name_ranks_.clear();
}

bool ConditionEvaluator::holds(const ValueCondition& condition, uint32_t element) {
    using Target = ValueCondition::Target;
    switch (condition.target) {
        case Target::attribute: return compare_attributes(condition, element);
        case Target::text: return compare_texts(condition, element);
        case Target::element: return compare_element(condition, element);
        case Target::position: break;
    }
    double place = position(condition.label, element);
    return std::all_of(condition.comparisons.begin(), condition.comparisons.end(),
                       [&](const Comparison& comparison) { return related(comparison.relation, place, comparison.number); });
}

// Any of the attributes that pass the name test may satisfy the comparisons.
bool ConditionEvaluator::compare_attributes(const ValueCondition& condition, uint32_t element) {
    const Document& d = *document_;
    for (size_t at = d.attribute_begin[element], end = d.attribute_end(element); at < end; ++at) {
        if (condition.label != label_attribute_any) {
            const NameLabels& labels = (*names_)[d.attribute_name[at]];
            if (std::find(std::begin(labels.attribute), std::end(labels.attribute), condition.label) == std::end(labels.attribute))
                continue;
        }
        if (compare_all(condition, d.value(d.attribute_value[at]))) return true;
    }
    return false;
}

// Only texts of the element itself count. The texts of a child are consecutive, so they are skipped in one jump.
bool ConditionEvaluator::compare_texts(const ValueCondition& condition, uint32_t element) {
    const Document& d = *document_;
    for (uint32_t text = d.text_begin[element]; text < d.text_end[element];) {
        uint32_t parent = d.text_parent[text];
        if (parent == element) {
            if (compare_all(condition, d.value(d.text[text]))) return true;
            ++text;
        } else {
            text = d.text_end[parent];                 // past the texts of that child
        }
    }
    return false;
}

// The string value of an element: all texts below it, joined.
bool ConditionEvaluator::compare_element(const ValueCondition& condition, uint32_t element) {
    const Document& d = *document_;
    uint32_t begin = d.text_begin[element], end = d.text_end[element];
    if (end - begin == 1) return compare_all(condition, d.value(d.text[begin]));
    // PERF: a large element is seldom a number or equal to a literal; its first texts tell.
    size_t longest = 0;
    bool wants_text = false, wants_number = false;
    for (const Comparison& comparison : condition.comparisons) {
        (comparison.as_text ? wants_text : wants_number) = true;
        longest = std::max(longest, comparison.text.size());
    }
    bool number = wants_number;
    buffer_.clear();
    for (uint32_t text = begin; text < end; ++text) {
        std::string_view piece = d.value(d.text[text]);
        buffer_ += piece;
        number = number && std::all_of(piece.begin(), piece.end(), in_number);
        if (!number && (!wants_text || buffer_.size() > longest)) break;
    }
    return compare_all(condition, buffer_);
}

// The position of an element among its siblings: among all, or among those of its name.
uint32_t ConditionEvaluator::position(uint32_t label, uint32_t element) {
    std::vector<uint32_t>& ranks = label == label_element_any ? any_ranks_ : name_ranks_;
    if (ranks.empty()) {
        ranks.assign(document_->elements(), 1);
        label == label_element_any ? rank_all(ranks) : rank_by_name(ranks);
    }
    return ranks[element];
}

// One counter per name, together with the parent that it counts for, so no counter needs clearing between parents.
void ConditionEvaluator::rank_by_name(std::vector<uint32_t>& ranks) {
    const Document& d = *document_;
    counts_.assign(d.names->size(), {none, 0});
    for (uint32_t parent = 0; parent < d.elements(); ++parent)
        for (uint32_t child = parent + 1, end = parent + d.size[parent]; child < end; child += d.size[child]) {
            auto& [counted, count] = counts_[d.name[child]];
            if (counted != parent) count = 0;
            counted = parent;
            ranks[child] = ++count;
        }
}

// Children are visited by jumping over subtrees, so each element is visited once.
void ConditionEvaluator::rank_all(std::vector<uint32_t>& ranks) {
    const Document& d = *document_;
    for (uint32_t parent = 0; parent < d.elements(); ++parent) {
        uint32_t count = 0;
        for (uint32_t child = parent + 1, end = parent + d.size[parent]; child < end; child += d.size[child]) ranks[child] = ++count;
    }
}

}  // namespace treecast
