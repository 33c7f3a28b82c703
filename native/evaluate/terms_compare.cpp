// Comparisons of terms: XPath 1.0, section 3.4. A set compares if one of its items does.
//
// Two sets are never compared pair by pair: for `<` the smallest and the largest numbers decide, for `=` a table of strings,
// for `!=` whether there are two different strings at all.
#include "base/seeded_hash.hpp"
#include "evaluate/evaluate.hpp"
#include "evaluate/terms.hpp"
#include "document/number.hpp"
#include "query/relation.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace treecast {

namespace {

double to_number(const Terms::Result& result) {
    switch (result.type) {
        case TermType::number: return result.number;
        case TermType::boolean: return result.boolean ? 1 : 0;
        default: return treecast::to_number(std::string_view(result.string));
    }
}

}  // namespace

// From the left: a = b = c compares the result of a = b with c.
bool Terms::compare(const Term& comparison, const Context& context) {
    const uint32_t first = comparison.first, second = query_->term(first).next;
    const TermType one = query_->term(first).type, other = query_->term(second).type;
    auto is_plain = [](TermType type) { return type == TermType::number || type == TermType::string; };
    if (query_->term(second).next == no_term && is_plain(one) && is_plain(other)) {         // no sets
        const auto relation = static_cast<Relation>(query_->term(second).relation);
        if (!is_equality(relation) || one == TermType::number || other == TermType::number)
            return related(relation, number(first, context), number(second, context));
        std::string left, right;
        string(first, context, left);
        string(second, context, right);
        spend(left.size() / 32);
        return related(relation, left, right);
    }
    // PERF: bench/language.py. A set that queries share is not copied.
    const bool is_constant = query_->term(second).kind == TermKind::literal || query_->term(second).kind == TermKind::number;
    if (query_->term(second).next == no_term && one == TermType::items && is_constant && is_fixed(query_->term(first))) {
        const Result constant = compute(second, context);
        return compare_set(static_cast<Relation>(query_->term(second).relation), kept(first, context).items, constant);
    }
    Result left = value(comparison.first, context);
    for (uint32_t at = query_->term(comparison.first).next; at != no_term; at = query_->term(at).next) {
        Result right = value(at, context);
        bool holds = compare_results(static_cast<Relation>(query_->term(at).relation), left, right);
        left = Result();
        left.boolean = holds;
    }
    return left.boolean;
}

bool Terms::compare_results(Relation relation, const Result& left, const Result& right) {
    const bool left_set = left.type == TermType::items, right_set = right.type == TermType::items;
    const bool boolean = left.type == TermType::boolean || right.type == TermType::boolean;
    if (boolean && is_equality(relation)) return related(relation, left.is_true(), right.is_true());
    if (boolean) {                   // a set is a truth value here, and that is a number; all else is a number at once
        auto number = [](const Result& side) { return side.type == TermType::items ? double(side.is_true()) : to_number(side); };
        return related(relation, number(left), number(right));
    }
    if (left_set && right_set) return compare_sets(relation, left.items, right.items);
    if (left_set) return compare_set(relation, left.items, right);
    if (right_set) return compare_set(mirrored(relation), right.items, left);
    bool strings = is_equality(relation) && left.type == TermType::string && right.type == TermType::string;
    if (strings) {
        spend(left.string.size() / 32);
        return related(relation, left.string, right.string);
    }
    spend((left.string.size() + right.string.size()) / 32);
    return related(relation, to_number(left), to_number(right));
}

// A set with a string or a number.
bool Terms::compare_set(Relation relation, const Set& set, const Result& other) {
    if (is_equality(relation) && other.type == TermType::string) {
        std::string text;
        for (uint32_t item : set) {
            text.clear();
            append_string(item, text);
            if (related(relation, text, other.string)) return true;
        }
        return false;
    }
    const double number = to_number(other);
    for (uint32_t item : set)
        if (related(relation, number_of(item), number)) return true;
    return false;
}

bool Terms::compare_sets(Relation relation, const Set& left, const Set& right) {
    if (left.empty() || right.empty()) return false;
    if (!is_equality(relation)) {
        // The numbers that are easiest to satisfy: for a < b the smallest on the left and the largest on the right.
        const bool less = relation == Relation::lt || relation == Relation::le;
        auto extreme = [&](const Set& set, bool smallest) {
            double found = std::numeric_limits<double>::quiet_NaN();
            for (uint32_t item : set) {
                double number = number_of(item);
                if (std::isnan(number)) continue;
                if (std::isnan(found) || (smallest ? number < found : number > found)) found = number;
            }
            return found;
        };
        return related(relation, extreme(left, less), extreme(right, !less));
    }
    const Set& few = left.size() <= right.size() ? left : right;
    const Set& many = left.size() <= right.size() ? right : left;
    std::string text;
    if (few.size() == 1) {
        // PERF: bench/language.py. Most values are in one piece, and are compared where they are.
        const Document& d = *document_;
        auto is_related = [&](uint32_t item, std::string_view other) {
            const uint32_t index = table_.index(item);
            const ItemKind kind = table_.kind(item);
            const bool is_short = kind == ItemKind::element && d.text_end[index] - d.text_begin[index] == 1;
            if (kind == ItemKind::attribute || is_short) {
                const std::string_view own = d.value(is_short ? d.text[d.text_begin[index]] : d.attribute_value[index]);
                spend(1 + own.size() / 32);
                return related(relation, own, other);
            }
            text.clear();
            append_string(item, text);
            return related(relation, std::string_view(text), other);
        };
        std::string other;
        append_string(few[0], other);
        return std::ranges::any_of(many, [&](uint32_t item) { return is_related(item, other); });
    }
    TextMap<bool> known;
    for (uint32_t item : few) {
        text.clear();
        append_string(item, text);
        known.emplace(text, true);
        if (relation == Relation::ne && known.size() > 1) return true;      // one of the two differs from any string
    }
    for (uint32_t item : many) {
        text.clear();
        append_string(item, text);
        if (known.contains(text) == (relation == Relation::eq)) return true;
    }
    return false;
}

}  // namespace treecast
