// Evaluates a predicate on one item: truth, comparison, string and number values.
//
// Types follow XPath 1.0. A comparison with a set holds if it holds for one of its items; a function takes the first item.
// Every function that reads text reports it to spend(), so that long texts count against the limit too.
#include "evaluate/evaluate.hpp"
#include "document/number.hpp"
#include "query/relation.hpp"

namespace treecast {

// Predicates without positions may be asked in any context, so their verdicts are kept where planning reserved a slot.
bool Evaluator::check_predicates(const Step& step, Item item) {
    for (uint32_t expr = step.predicates; expr != no_entry; expr = query_->expr(expr).next)
        if (!check_kept(expr, item)) return false;
    return true;
}

// Position 1 of 1 is a placeholder: an expression with a slot never looks at positions.
bool Evaluator::check_kept(uint32_t expr, Item item) {
    uint32_t slot = expr_plans_[expr].slot;
    if (slot == none) return check(expr, item, 1, 1);
    Verdict known = verdict(slot, item.index);
    if (known != Verdict::unknown) return known == Verdict::yes;
    bool value = check(expr, item, 1, 1);
    keep(slot, item.index, value);
    return value;
}

// Operands go through check_part(), which reuses kept verdicts of the parts that do not count positions.
bool Evaluator::check(uint32_t index, Item item, uint32_t position, uint32_t last) {
    const Expr& expr = query_->expr(index);
    switch (expr.kind) {
        case ExprKind::conjunction:
            // PERF: bench/language.py. Terms take longest, so they come last.
            for (const bool are_terms : {false, true})
                for (uint32_t operand = expr.first; operand != no_entry; operand = query_->expr(operand).next)
                    if ((query_->expr(operand).kind == ExprKind::term) == are_terms && !check_part(operand, item, position, last)) return false;
            return true;
        case ExprKind::disjunction:
            for (uint32_t operand = expr.first; operand != no_entry; operand = query_->expr(operand).next)
                if (check_part(operand, item, position, last)) return true;
            return false;
        case ExprKind::negation: return !check_part(expr.first, item, position, last);
        case ExprKind::exists:
        case ExprKind::compare: return check_paths(index, item);
        case ExprKind::call: return check_first(expr, item);
        case ExprKind::position:
        case ExprKind::position_last:
        case ExprKind::last: return check_position(expr, position, last);
        case ExprKind::term: return check_term(expr.first, item, position, last);
    }
    return false;
}

// Terms are opened when the first of a query is asked: most queries have none.
Terms& Evaluator::terms() {
    if (!terms_) {
        terms_ = std::make_unique<Terms>(*this);
        terms_->begin(*document_);
    }
    if (terms_query_ != query_) {
        terms_query_ = query_;
        terms_->open(*query_, shared_);
    }
    return *terms_;
}

uint32_t Evaluator::number_in(const ItemTable& table, Item item) const {
    switch (item.kind) {
        case StepKind::attribute: return table.of_attribute(item.index);
        case StepKind::text: return table.of_text(item.index);
        default: return table.of_element(item.index);
    }
}

Terms& Evaluator::terms_of(uint32_t term) {
    Terms& terms = this->terms();
    const uint64_t wanted = query_->term(term).variables;
    if (!wanted) return terms;
    const ItemTable& table = terms.table();
    numbers_.resize(variables_.size());
    for (uint32_t variable = 0; variable < variables_.size() && wanted >> variable; ++variable)
        if (wanted >> variable & 1) numbers_[variable] = number_in(table, variables_[variable]);
    terms.set_variables(numbers_);
    return terms;
}

bool Evaluator::check_term(uint32_t term, Item item, uint32_t position, uint32_t last) {
    Terms& terms = terms_of(term);
    return terms.truth(term, {number_in(terms.table(), item), position, last});
}

// XPath numbers are doubles, so a position compares as one: [1.5] is legal and selects nothing.
bool Evaluator::check_position(const Expr& expr, uint32_t position, uint32_t last) const {
    if (expr.kind == ExprKind::position_last) return related(expr.relation, position, last);
    return related<double>(expr.relation, expr.kind == ExprKind::last ? last : position, query_->value(expr.value).number);
}

// exists and compare: whether one of the paths leads to something that passes.
bool Evaluator::check_paths(uint32_t index, Item item) {
    const Expr& expr = query_->expr(index);
    uint32_t goal = expr.kind == ExprKind::compare ? index : no_entry;
    for (uint32_t at = expr.first; at != no_entry; at = query_->path(at).next) {
        const PathEntry& path = query_->path(at);
        Item from = start_of(path, item);
        // A path without steps is the item itself.
        if (path.first == no_entry) {
            if (goal == no_entry || compare(expr, from)) return true;
        // An absolute path has the same answer everywhere in the document, so one verdict is enough.
        } else if (path.absolute) {
            if (path_verdicts_[at] == Verdict::unknown)
                path_verdicts_[at] = reaches(path.first, none, goal) ? Verdict::yes : Verdict::no;
            if (path_verdicts_[at] == Verdict::yes) return true;
        } else if (from.kind == StepKind::element && reaches(path.first, from.index, goal)) {
            return true;
        }
    }
    return false;
}

// A function looks at the first item in document order. Without any item it sees the empty string.
bool Evaluator::check_first(const Expr& expr, Item item) {
    const PathEntry& path = query_->path(expr.first);
    if (path.absolute && path_verdicts_[expr.first] != Verdict::unknown) return path_verdicts_[expr.first] == Verdict::yes;
    Item first;
    bool value = find_first(path, item, first) ? check_text(expr, first) : check_empty(expr);
    if (path.absolute) path_verdicts_[expr.first] = value ? Verdict::yes : Verdict::no;
    return value;
}

// Attributes are one string. Elements may consist of many texts, so StringValues answers without joining them.
bool Evaluator::check_text(const Expr& expr, Item item) {
    std::string_view literal = query_->view(query_->value(expr.value).text);
    bool attribute = item.kind == StepKind::attribute, value;
    if (attribute && expr.function == Function::contains) {
        value = values_.contains(text_of(item), literal, expr.value);
    } else if (attribute) {
        value = function_holds(expr.function, text_of(item), literal);
    } else {
        switch (expr.function) {      // those that StringValues answers without building the value of an element
            case Function::contains: value = values_.contains(value_texts(item), literal, expr.value); break;
            case Function::starts_with: value = values_.starts_with(value_texts(item), literal); break;
            default: value = function_holds(expr.function, text_of(item), literal);
        }
    }
    spend(values_.take_work());
    return value;
}

// XPath 1.0, section 3.4: = and != compare strings unless one side is a number; < and > always compare numbers.
bool Evaluator::compare(const Expr& expr, Item item) {
    const Value& value = query_->value(expr.value);
    bool equality = expr.relation == Relation::eq || expr.relation == Relation::ne;
    if (equality && !value.is_number)
        return text_equals(item, query_->view(value.text)) == (expr.relation == Relation::eq);
    // An ordering against a string literal compares numbers too.
    spend(value.is_number ? 0 : value.text.size / 32);
    double right = value.is_number ? value.number : to_number(query_->view(value.text));
    return related(expr.relation, number_of(item), right);
}

// Attributes are at hand as one string; other values are compared text by text.
bool Evaluator::text_equals(Item item, std::string_view text) {
    const Document& d = *document_;
    if (item.kind == StepKind::attribute) {
        // Different lengths are decided without reading the text, so they cost nothing.
        std::string_view value = d.value(d.attribute_value[item.index]);
        if (value.size() == text.size()) spend(text.size() / 32);
        return value == text;
    }
    bool value = values_.equals(value_texts(item), text);
    spend(values_.take_work());
    return value;
}

// The view is valid until the next call. It is only built where an element has more than one text.
std::string_view Evaluator::text_of(Item item) {
    const Document& d = *document_;
    if (item.kind == StepKind::attribute) return d.value(d.attribute_value[item.index]);
    if (item.kind == StepKind::text) return d.value(d.text[item.index]);
    Range texts = texts_of(item.index);
    if (texts.empty()) return {};
    if (texts.end - texts.begin == 1) return d.value(d.text[texts.begin]);
    buffer_.clear();
    for (uint32_t at = texts.begin; at < texts.end; ++at) buffer_ += d.value(d.text[at]);
    spend(texts.end - texts.begin + buffer_.size() / 32);
    return buffer_;
}

// Long values count as work even if they turn out to be no number.
double Evaluator::number_of(Item item) {
    const Document& d = *document_;
    if (item.kind == StepKind::attribute) {
        std::string_view text = d.value(d.attribute_value[item.index]);
        spend(text.size() / 32);
        return to_number(text);
    }
    double value = values_.number(value_texts(item));
    spend(values_.take_work());
    return value;
}

}  // namespace treecast
