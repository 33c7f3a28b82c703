// What a term requires of a document, as far as patterns can say it: a condition that holds wherever the term is true, and elsewhere too.
//
// The shared machines decide this condition for all subscriptions at once, and the evaluator sees only what is left.
// So whatever is uncertain is left out. no_entry: nothing is known to be required.
//
// The rules follow from XPath 1.0: an empty set compares with nothing but truth values, the empty string is no number, and
// NaN is true of nothing.
#include "query/query_parser.hpp"
#include "query/relation.hpp"
#include "regex/regex_run.hpp"

#include <algorithm>

namespace treecast {

namespace {

// Functions that give an empty string for an empty string, whatever their other arguments are.
bool keeps_empty(TermFunction function) {
    switch (function) {
        case TermFunction::string:
        case TermFunction::normalize_space:
        case TermFunction::substring:
        case TermFunction::substring_before:
        case TermFunction::substring_after:
        case TermFunction::translate:
        case TermFunction::name:
        case TermFunction::local_name:
        case TermFunction::namespace_uri: return true;
        default: return false;
    }
}

// Functions that give NaN for NaN.
bool keeps_nan(TermFunction function) {
    return function == TermFunction::number || function == TermFunction::floor || function == TermFunction::ceiling ||
           function == TermFunction::round;
}

}  // namespace

// All of the conditions that are known; none is known if the list has none.
uint32_t QueryParser::all_of(const std::vector<uint32_t>& conditions, Slice source) {
    std::vector<uint32_t> known;
    for (uint32_t condition : conditions)
        if (condition != no_entry) known.push_back(condition);
    return join_exprs(ExprKind::conjunction, known, source);
}

// One of the conditions: nothing is required if nothing is known of one of them.
uint32_t QueryParser::one_of(const std::vector<uint32_t>& conditions, Slice source) {
    if (std::ranges::find(conditions, no_entry) != conditions.end()) return no_entry;
    return join_exprs(ExprKind::disjunction, conditions, source);
}

uint32_t QueryParser::join_exprs(ExprKind kind, const std::vector<uint32_t>& operands, Slice source) {
    if (operands.empty()) return no_entry;
    if (operands.size() == 1) return operands[0];
    Expr joined;
    joined.kind = kind;
    joined.first = operands[0];
    joined.source = source;
    for (size_t i = 0; i + 1 < operands.size(); ++i) query_.exprs_[operands[i]].next = operands[i + 1];
    return append(query_.exprs_, joined, source);
}

// What boolean(term) requires.
uint32_t QueryParser::relax(uint32_t index) {
    uint32_t path;
    const Goal goal = derived_goal(index, path);
    if (path == no_term) return relax_condition(index);
    const Term items = query_.terms_[path];
    return relax_items(items, goal);
}

uint32_t QueryParser::relax_condition(uint32_t index) {
    const Term term = query_.terms_[index];
    std::vector<uint32_t> parts;
    switch (term.kind) {
        case TermKind::conjunction:
        case TermKind::disjunction:
            for (uint32_t at = term.first; at != no_term; at = query_.terms_[at].next) parts.push_back(relax(at));
            return term.kind == TermKind::conjunction ? all_of(parts, term.source) : one_of(parts, term.source);
        case TermKind::comparison: return all_of({relax_comparison(term), relax_concat(term)}, term.source);
        case TermKind::call:
            if (term.function == TermFunction::boolean) return relax(term.first);
            if (term.function == TermFunction::contains || term.function == TermFunction::starts_with) {
                const Term& literal = query_.terms_[query_.terms_[term.first].next];
                bool some = literal.kind == TermKind::literal && query_.values_[literal.value].text.size;
                return some ? relax_string(term.first) : no_entry;
            }
            if (term.function == TermFunction::matches) return relax_matches(term);
            if (term.function == TermFunction::count) return relax(term.first);
            if (term.function == TermFunction::string_length) return term.first == no_term ? no_entry : relax_string(term.first);
            break;
        default: break;
    }
    if (term.type == TermType::items) return relax_items(term, {});
    if (term.type == TermType::string) return relax_string(index);
    if (term.type == TermType::number) return relax_number(index);
    return no_entry;
}

// What a match requires: that the value has one of a few texts inside, if the pattern has any, and else that there is a value. A
// pattern that matches the empty string requires nothing.
uint32_t QueryParser::relax_matches(const Term& call) {
    const Regex regex = read_regex(call);
    uint64_t steps = 0;
    if (RegexRun(regex).matches("", steps)) return no_entry;
    const Term subject = query_.terms_[call.first];
    if (subject.type != TermType::items) return relax_string(call.first);
    Goal goal;
    goal.function = regex.required().at_start ? Function::starts_with : Function::contains;
    for (const std::string& text : regex.required().texts) goal.texts.push_back(keep_text(text, call.source));
    return relax_items(subject, goal);
}

// That the context's value has one of the texts.
uint32_t QueryParser::has_text(const Goal& goal, Slice source) {
    std::vector<uint32_t> calls;
    for (uint32_t text : goal.texts) {
        PathEntry context;
        context.source = source;
        Expr call;
        call.kind = ExprKind::call;
        call.function = goal.function;
        call.first = append(query_.paths_, context, source);
        call.value = text;
        call.source = source;
        calls.push_back(append(query_.exprs_, call, source));
    }
    return join_exprs(ExprKind::disjunction, calls, source);
}

// A literal that stands nowhere in the query: its text goes behind that of the query.
uint32_t QueryParser::keep_text(std::string_view text, Slice source) {
    Value value;
    value.text = query_.store_text(text);
    const uint32_t at = scan_.at;
    scan_.reset(query_.text_.data(), scan_.size());           // it may have moved
    scan_.at = at;
    return append(query_.values_, value, source);
}

// What a comparison of two operands requires; of more nothing is known, since their results are compared again.
uint32_t QueryParser::relax_comparison(const Term& comparison) {
    uint32_t sides[2] = {comparison.first, query_.terms_[comparison.first].next};
    const Term right = query_.terms_[sides[1]];
    if (right.next != no_term) return no_entry;
    const auto relation = static_cast<Relation>(right.relation);
    const bool numbers = relation != Relation::eq && relation != Relation::ne;
    std::vector<uint32_t> parts;
    for (int side = 0; side < 2; ++side) {
        const Term one = query_.terms_[sides[side]], other = query_.terms_[sides[1 - side]];
        if (one.type == TermType::boolean || other.type == TermType::boolean) return no_entry;
        if (one.type == TermType::items) {
            const bool constant = other.kind == TermKind::literal || other.kind == TermKind::number;
            Goal goal{side == 0 ? relation : mirrored(relation), constant ? other.value : no_entry};
            parts.push_back(relax_items(one, goal));
        } else if (numbers || (relation == Relation::eq && (one.type == TermType::number || other.type == TermType::number))) {
            parts.push_back(relax_number(sides[side]));                     // no comparison with NaN holds
        } else if (relation == Relation::eq && other.kind == TermKind::literal && query_.values_[other.value].text.size) {
            parts.push_back(relax_string(sides[side]));
        }
    }
    return all_of(parts, comparison.source);
}

// What it requires that the string is not empty.
uint32_t QueryParser::relax_string(uint32_t index) {
    const Term term = query_.terms_[index];
    if (term.type == TermType::items) return relax_items(term, {});
    if (term.kind == TermKind::call && keeps_empty(term.function) && term.first != no_term) return relax_string(term.first);
    return no_entry;
}

// What it requires that the number is not NaN.
uint32_t QueryParser::relax_number(uint32_t index) {
    const Term term = query_.terms_[index];
    if (term.type == TermType::items) return relax_items(term, {});
    if (term.type == TermType::string) return relax_string(index);
    if (term.kind == TermKind::negative) return relax_number(term.first);
    if (term.kind == TermKind::call && keeps_nan(term.function) && term.first != no_term) return relax_number(term.first);
    if (term.kind != TermKind::arithmetic) return no_entry;
    std::vector<uint32_t> parts;
    for (uint32_t at = term.first; at != no_term; at = query_.terms_[at].next) parts.push_back(relax_number(at));
    return all_of(parts, term.source);
}

// What it requires that a set of items is not empty, or that one of them meets the goal.
uint32_t QueryParser::relax_items(const Term& term, const Goal& goal) {
    std::vector<uint32_t> parts;
    if (term.kind == TermKind::union_) {
        for (uint32_t at = term.first; at != no_term; at = query_.terms_[at].next) parts.push_back(relax_items(query_.terms_[at], goal));
        return one_of(parts, term.source);
    }
    if (term.kind != TermKind::path) return no_entry;
    if (term.first != no_term) parts.push_back(relax_items(query_.terms_[term.first], term.steps == no_term ? goal : Goal()));
    if (term.steps != no_term || term.first == no_term) relax_path(term, goal, parts);
    return all_of(parts, term.source);
}

// A predicate of a step: what it says of the step's item itself comes along.
uint32_t QueryParser::relax_predicate(uint32_t index) {
    uint32_t derived = derive(index), condition = relax(index);
    if (derived == no_entry) return condition;
    const Slice source = query_.terms_[index].source;
    return all_of({condition, derived_condition(derived, source)}, source);
}

// A path becomes one path for each of its parts that goes down. A step that goes up or sideways may lead anywhere, so the next
// part starts with `//`: for b[../@c = 1] there is a //@c that is 1.
void QueryParser::relax_path(const Term& term, const Goal& goal, std::vector<uint32_t>& parts) {
    PathEntry path;
    path.absolute = term.absolute;
    path.source = term.source;
    uint32_t last = no_entry;
    bool gap = false;
    auto go_anywhere = [&] {                  // ends this part, and starts the next one
        if (last != no_entry) parts.push_back(relaxed(path, Goal(), term.source));
        path.absolute = gap = true;
        path.first = last = no_entry;
        path.steps = 0;
    };
    if (term.first != no_term || term.variable != no_term) go_anywhere();
    for (uint32_t at = term.steps; at != no_term; at = query_.term_steps_[at].next) {
        const TermStep from = query_.term_steps_[at];
        Step step;
        if (last != no_entry && query_.steps_[last].kind != StepKind::element) go_anywhere();
        if (!relax_axis(from.axis, step)) {
            go_anywhere();
            if (from.test == TermTest::any_item) continue;
        }
        if (from.test == TermTest::any_item && from.axis == TermAxis::self) continue;
        if (from.test == TermTest::any_item && from.axis == TermAxis::descendant_or_self) {
            gap = true;
            continue;
        }
        if (!relax_test(from, step)) {
            go_anywhere();
            continue;
        }
        step.gap = gap;
        gap = false;
        settle_axis(step, path.absolute && last == no_entry);
        std::vector<uint32_t> predicates;
        for (uint32_t p = from.predicates; p != no_term; p = query_.terms_[p].next)
            if (query_.terms_[p].type != TermType::number) predicates.push_back(relax_predicate(p));
        step.predicates = all_of(predicates, term.source);
        step.source = term.source;
        uint32_t index = append(query_.steps_, step, term.source);
        if (last == no_entry) path.first = index;
        else query_.steps_[last].next = index;
        last = index;
        ++path.steps;
    }
    const bool is_context = last == no_entry && !path.absolute && !gap;
    if (is_context ? !goal.is_none() : last != no_entry) parts.push_back(relaxed(path, gap ? Goal() : goal, term.source));
}

// That a path leads somewhere, or to something that meets the goal.
uint32_t QueryParser::relaxed(const PathEntry& path, const Goal& goal, Slice source) {
    Expr expr;
    if (!goal.texts.empty()) {
        const uint32_t condition = has_text(goal, source);
        if (path.first == no_entry) return condition;
        uint32_t last = path.first;
        while (query_.steps_[last].next != no_entry) last = query_.steps_[last].next;
        query_.steps_[last].predicates = all_of({query_.steps_[last].predicates, condition}, source);
    }
    expr.kind = goal.value == no_entry ? ExprKind::exists : ExprKind::compare;
    expr.relation = goal.relation;
    expr.value = goal.value;
    expr.first = append(query_.paths_, path, source);
    expr.source = source;
    if (goal.derived != no_entry) {
        Derived derived = query_.derived_[goal.derived];
        derived.path = expr.first;
        expr.derived = append(query_.derived_, derived, source);
    }
    return append(query_.exprs_, expr, source);
}

// False for axes that do not go down.
bool QueryParser::relax_axis(TermAxis axis, Step& step) {
    switch (axis) {
        case TermAxis::child: step.axis = Axis::child; break;
        case TermAxis::descendant: step.axis = Axis::descendant; break;
        case TermAxis::descendant_or_self: step.axis = Axis::descendant_or_self; break;
        case TermAxis::self: step.axis = Axis::self; break;
        case TermAxis::attribute: step.axis = Axis::attribute; break;
        default: return false;
    }
    return true;
}

// The same test as patterns have it. False where they have none.
bool QueryParser::relax_test(const TermStep& from, Step& step) {
    step.kind = step.axis == Axis::attribute ? StepKind::attribute : StepKind::element;
    switch (from.test) {
        case TermTest::any: step.test = Test::any; break;
        case TermTest::name: step.test = Test::name; break;
        case TermTest::any_namespace: step.test = Test::any_namespace; break;
        case TermTest::text:
            step.kind = StepKind::text;
            return step.axis == Axis::child || step.axis == Axis::descendant;
        default: return false;
    }
    step.prefix = from.prefix;
    step.local = from.local;
    step.uri = from.uri;
    return true;
}

}  // namespace treecast
