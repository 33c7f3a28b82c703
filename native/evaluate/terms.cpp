// The values of terms: operators and conversions. Paths are in terms_path.cpp, functions in terms_call.cpp.
#include "evaluate/terms.hpp"

#include "document/line_ends.hpp"
#include "document/number.hpp"
#include "evaluate/evaluate.hpp"
#include "query/arithmetic.hpp"

#include <charconv>
#include <cmath>
#include <limits>

namespace treecast {

bool Terms::Result::is_true() const {
    switch (type) {
        case TermType::items: return !items.empty();
        case TermType::boolean: return boolean;
        case TermType::number: return number != 0 && !std::isnan(number);
        case TermType::string: return !string.empty();
    }
    return false;
}

std::string number_text(double number) {
    if (std::isnan(number)) return "NaN";
    if (std::isinf(number)) return number > 0 ? "Infinity" : "-Infinity";
    if (number == 0) return "0";                     // of -0, too
    char digits[1100];
    auto [end, error] = std::to_chars(digits, digits + sizeof digits, number, std::chars_format::fixed);
    return {digits, end};
}

void Terms::spend(uint64_t steps) { evaluator_.spend(steps); }

void Terms::begin(const Document& document) {
    document_ = &document;
    query_ = nullptr;
    table_.begin(document);
    begin_sharing();
}

// Forgets what queries share.
void Terms::begin_sharing() {
    if (++document_stamp_) return;
    for (Kept& kept : shared_) kept.stamp = 0;
    document_stamp_ = 1;
}

void Terms::open(const Query& query, std::span<const uint32_t> shared) {
    query_ = &query;
    shared_numbers_ = shared;
    for (uint32_t number : shared)
        if (number != none && number >= shared_.size()) shared_.resize(number + 1 + number / 2);
    if (++stamp_ == 0) {
        step_plans_.clear();
        kept_.clear();
        stamp_ = 1;
    }
    if (step_plans_.size() < query.term_steps()) step_plans_.resize(query.term_steps());
    if (kept_.size() < query.terms()) kept_.resize(query.terms());
    asks_for_marks_ = false;
    for (uint32_t at = 0; at < query.term_steps(); ++at) {
        TermTest test = query.term_step(at).test;
        bool goes_nowhere = query.term_step(at).axis == TermAxis::self || query.term_step(at).axis == TermAxis::parent ||
                            query.term_step(at).axis == TermAxis::ancestor || query.term_step(at).axis == TermAxis::ancestor_or_self;
        asks_for_marks_ |= test == TermTest::comment || test == TermTest::instruction || (test == TermTest::any_item && !goes_nowhere);
    }
}

const ItemTable& Terms::table() {
    if (uint64_t work = table_.fill(asks_for_marks_)) {
        begin_sharing();                             // items have other numbers now
        spend(work);
    }
    return table_;
}

bool Terms::truth(uint32_t index, const Context& context) {
    const Term& term = query_->term(index);
    if (is_fixed(term)) return kept(index, context).is_true();
    switch (term.kind) {
        case TermKind::conjunction:
            for (uint32_t at = term.first; at != no_term; at = query_->term(at).next)
                if (!truth(at, context)) return false;
            return true;
        case TermKind::disjunction:
            for (uint32_t at = term.first; at != no_term; at = query_->term(at).next)
                if (truth(at, context)) return true;
            return false;
        case TermKind::comparison: return compare(term, context);
        default: break;
    }
    if (term.type == TermType::items) return has(index, context);
    return compute(index, context).is_true();
}

// PERF: bench/language.py. Most operands are short: no set and no result is made for them.
double Terms::number(uint32_t index, const Context& context) {
    const Term& term = query_->term(index);
    if (term.kind == TermKind::number) return query_->value(term.value).number;
    if (is_fixed(term)) {
        if (term.type == TermType::number) return kept(index, context).number;
    } else if (term.kind == TermKind::arithmetic) {
        spend(1);
        return arithmetic(term, context);
    } else if (uint32_t item; term.kind == TermKind::path && first_item(term, context, item)) {
        return item == none ? std::numeric_limits<double>::quiet_NaN() : number_of(item);
    }
    Result result = value(index, context);
    switch (result.type) {
        case TermType::number: return result.number;
        case TermType::boolean: return result.boolean ? 1 : 0;
        case TermType::items:
            if (result.items.empty()) return std::numeric_limits<double>::quiet_NaN();
            return number_of(result.items.front());
        case TermType::string: spend(result.string.size() / 32); return to_number(result.string);
    }
    return 0;
}

// From the left: a - b - c is (a - b) - c.
double Terms::arithmetic(const Term& term, const Context& context) {
    double total = number(term.first, context);
    for (uint32_t at = query_->term(term.first).next; at != no_term; at = query_->term(at).next) {
        const double operand = number(at, context);
        total = apply(query_->term(at).sign, total, operand);
    }
    return total;
}

void Terms::string(uint32_t index, const Context& context, std::string& out) {
    const Term& term = query_->term(index);
    if (term.kind == TermKind::literal) {
        out += query_->view(query_->value(term.value).text);
        return;
    }
    if (uint32_t item; term.kind == TermKind::path && !is_fixed(term) && first_item(term, context, item)) {
        if (item != none) append_string(item, out);
        return;
    }
    Result result = value(index, context);
    switch (result.type) {
        case TermType::string: out += result.string; break;
        case TermType::number: out += number_text(result.number); break;
        case TermType::boolean: out += result.boolean ? "true" : "false"; break;
        case TermType::items:
            if (!result.items.empty()) append_string(result.items.front(), out);
            break;
    }
}

void Terms::items(uint32_t index, const Context& context, Set& out) { out = value(index, context).items; }

Terms::Result Terms::value(uint32_t index, const Context& context) {
    return is_fixed(query_->term(index)) ? kept(index, context) : compute(index, context);
}

// A term that depends on nothing but the document has one value.
const Terms::Result& Terms::kept(uint32_t index, const Context& context) {
    const uint32_t number = index < shared_numbers_.size() ? shared_numbers_[index] : none;
    if (asks_for_marks_) table();                    // what was shared before may have had other numbers
    const bool is_shared = number != none && shared_[number].stamp == document_stamp_;
    if (!is_shared && kept_[index].stamp != stamp_) {
        Result result = compute(index, context);
        if (number != none && share(number, result)) return shared_[number].result;
        kept_[index] = {stamp_, std::move(result)};
    }
    const Result& result = is_shared ? shared_[number].result : kept_[index].result;
    spend(1 + result.items.size() / 8 + result.string.size() / 32);
    return result;
}

// Keeps a value for other queries. What is kept has a limit: at it, all is forgotten.
bool Terms::share(uint32_t number, Result& result) {
    const uint64_t bytes = sizeof(Kept) + result.items.size() * sizeof(uint32_t) + result.string.size();
    if (bytes > shared_bytes_max / 8) return false;
    if (shared_bytes_ + bytes > shared_bytes_max) {
        for (Kept& kept : shared_) kept = {};
        shared_bytes_ = 0;
    }
    shared_bytes_ += bytes;
    shared_[number] = {document_stamp_, std::move(result)};
    return true;
}

Terms::Result Terms::compute(uint32_t index, const Context& context) {
    const Term& term = query_->term(index);
    Result result;
    result.type = term.type;
    spend(1);
    switch (term.kind) {
        case TermKind::number: result.number = query_->value(term.value).number; break;
        case TermKind::literal: result.string = query_->view(query_->value(term.value).text); break;
        case TermKind::conjunction:
            result.boolean = true;
            for (uint32_t at = term.first; at != no_term && result.boolean; at = query_->term(at).next) result.boolean = truth(at, context);
            break;
        case TermKind::disjunction:
            for (uint32_t at = term.first; at != no_term && !result.boolean; at = query_->term(at).next) result.boolean = truth(at, context);
            break;
        case TermKind::comparison: result.boolean = compare(term, context); break;
        case TermKind::negative: result.number = -number(term.first, context); break;
        case TermKind::arithmetic: result.number = arithmetic(term, context); break;
        case TermKind::union_: {
            Set part;
            for (uint32_t at = term.first; at != no_term; at = query_->term(at).next) {
                items(at, context, part);
                Set both;
                both.reserve(result.items.size() + part.size());
                std::set_union(result.items.begin(), result.items.end(), part.begin(), part.end(), std::back_inserter(both));
                spend(both.size());
                result.items.swap(both);
            }
            break;
        }
        case TermKind::path: path(term, context, result.items); break;
        case TermKind::call: return call(term, context);
    }
    return result;
}

// The string value: of an element or the document all the text inside it.
void Terms::append_string(uint32_t item, std::string& out) {
    const Document& d = *document_;
    const size_t before = out.size();
    uint32_t index = table_.index(item);
    switch (table_.kind(item)) {
        case ItemKind::attribute: out += d.value(d.attribute_value[index]); break;
        case ItemKind::text: out += d.value(d.text[index]); break;
        case ItemKind::comment:
        case ItemKind::instruction:
            append_lines(table_.mark_value(item), out);
            break;
        default: {
            uint32_t begin = index == none ? 0 : d.text_begin[index];
            uint32_t end = index == none ? static_cast<uint32_t>(d.text.size()) : d.text_end[index];
            for (uint32_t at = begin; at < end; ++at) out += d.value(d.text[at]);
            spend(end - begin);
        }
    }
    spend(1 + (out.size() - before) / 32);
}

double Terms::number_of(uint32_t item) {
    if (table_.kind(item) == ItemKind::attribute) {
        std::string_view text = document_->value(document_->attribute_value[table_.index(item)]);
        spend(1 + text.size() / 32);
        return to_number(text);
    }
    std::string text;
    append_string(item, text);
    return to_number(text);
}

}  // namespace treecast
