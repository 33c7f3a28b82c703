// Terms that are derivations of one item (derivation.hpp), compared with a constant: read into a form that the machines take.
//
// normalize-space(b) = "x" is about the first b. Where labels can say which one that is, a Derived says exactly what the term
// does; elsewhere it says that some item of the path has such a value, which the term requires.
#include "document/number.hpp"
#include "query/arithmetic.hpp"
#include "query/query_parser.hpp"
#include "query/relation.hpp"

#include <cmath>

namespace treecast {

namespace {

bool is_number_constant(const Term& term) { return term.kind == TermKind::number; }

}  // namespace

// A number that is written, perhaps with a sign.
bool QueryParser::constant_number(uint32_t index, double& out) const {
    const Term& term = query_.terms_[index];
    if (term.kind == TermKind::negative && constant_number(term.first, out)) {
        out = -out;
        return true;
    }
    if (!is_number_constant(term)) return false;
    out = query_.values_[term.value].number;
    return true;
}

bool QueryParser::constant_text(uint32_t index, std::string_view& out) const {
    const Term& term = query_.terms_[index];
    if (term.kind != TermKind::literal) return false;
    out = query_.view(query_.values_[term.value].text);
    return true;
}

// The operations that make the string of a term of one item. False: it is no derivation.
bool QueryParser::derive_text(uint32_t index, Source& source) {
    if (index == no_term) return source.set(no_term);           // of the context
    const Term term = query_.terms_[index];
    if (term.type == TermType::items) return term.kind == TermKind::path && source.set(index);
    if (term.type != TermType::string || term.kind != TermKind::call) return false;
    const uint32_t second = term.first == no_term ? no_term : query_.terms_[term.first].next;
    std::string_view text, other;
    double from, length;
    switch (term.function) {
        case TermFunction::string: return derive_text(term.first, source);
        case TermFunction::name:
        case TermFunction::local_name:
        case TermFunction::namespace_uri: {
            const Deriving code = term.function == TermFunction::name ? Deriving::name
                                  : term.function == TermFunction::local_name ? Deriving::local_name : Deriving::namespace_uri;
            if (!derive_text(term.first, source)) return false;
            put_operation(source.program, code);
            return true;
        }
        case TermFunction::normalize_space:
            if (!derive_text(term.first, source)) return false;
            put_operation(source.program, Deriving::normalize);
            return true;
        case TermFunction::translate:
            if (!constant_text(second, text) || !constant_text(query_.terms_[second].next, other) || !derive_text(term.first, source)) return false;
            put_operation(source.program, Deriving::translate, text);
            put_operation(source.program, Deriving{}, other);
            return true;
        case TermFunction::substring_before:
        case TermFunction::substring_after:
            if (!constant_text(second, text) || !derive_text(term.first, source)) return false;
            put_operation(source.program, term.function == TermFunction::substring_before ? Deriving::before : Deriving::after, text);
            return true;
        case TermFunction::substring: {
            const uint32_t third = query_.terms_[second].next;
            if (!constant_number(second, from) || (third != no_term && !constant_number(third, length)) || !derive_text(term.first, source)) return false;
            put_operation(source.program, third == no_term ? Deriving::substring : Deriving::substring_length, from);
            if (third != no_term) put_operation(source.program, Deriving{}, length);
            return true;
        }
        case TermFunction::concat: return derive_concat(term, source);
        default: return false;
    }
}

// One of the arguments is a derivation, and the others are literals.
bool QueryParser::derive_concat(const Term& concat, Source& source) {
    std::string before, after;
    bool is_derived = false;
    for (uint32_t at = concat.first; at != no_term; at = query_.terms_[at].next) {
        std::string_view text;
        if (constant_text(at, text)) (is_derived ? after : before) += text;
        else if (is_derived || !derive_text(at, source)) return false;
        else is_derived = true;
    }
    if (!before.empty()) put_operation(source.program, Deriving::prepend, before);
    if (!after.empty()) put_operation(source.program, Deriving::append, after);
    return is_derived;
}

bool QueryParser::derive_number(uint32_t index, Source& source) {
    if (index != no_term && query_.terms_[index].type == TermType::boolean) return false;
    if (index == no_term || query_.terms_[index].type != TermType::number) {
        if (!derive_text(index, source)) return false;
        put_operation(source.program, Deriving::number);
        return true;
    }
    const Term term = query_.terms_[index];
    auto one = [&](Deriving code) {
        if (!derive_number(term.first, source)) return false;
        put_operation(source.program, code);
        return true;
    };
    if (term.kind == TermKind::negative) return one(Deriving::negative);
    if (term.kind == TermKind::arithmetic) return derive_arithmetic(term, source);
    if (term.kind != TermKind::call) return false;
    switch (term.function) {
        case TermFunction::string_length:
            if (!derive_text(term.first, source)) return false;
            put_operation(source.program, Deriving::length);
            return true;
        case TermFunction::number: return derive_number(term.first, source);
        case TermFunction::floor: return one(Deriving::floor);
        case TermFunction::ceiling: return one(Deriving::ceiling);
        case TermFunction::round: return one(Deriving::round);
        default: return false;
    }
}

// One of the operands is a derivation, and the others are constants. Those before it are computed now.
bool QueryParser::derive_arithmetic(const Term& arithmetic, Source& source) {
    bool is_derived = false;
    double before = 0;
    for (uint32_t at = arithmetic.first; at != no_term; at = query_.terms_[at].next) {
        const Sign sign = query_.terms_[at].sign;
        const bool is_first = at == arithmetic.first;
        double number;
        if (!constant_number(at, number)) {
            if (is_derived || !derive_number(at, source)) return false;
            is_derived = true;
            if (is_first) continue;
            static constexpr Deriving turned[] = {Deriving::add, Deriving::subtract_from, Deriving::multiply, Deriving::divide_from, Deriving::modulo_from};
            put_operation(source.program, turned[static_cast<int>(sign)], before);
        } else if (is_derived) {
            static constexpr Deriving straight[] = {Deriving::add, Deriving::subtract, Deriving::multiply, Deriving::divide, Deriving::modulo};
            put_operation(source.program, straight[static_cast<int>(sign)], number);
        } else if (is_first) {
            before = number;
        } else {
            before = apply(sign, before, number);
        }
    }
    return is_derived;
}

// What a condition says of one item: a comparison with a constant, contains() or starts-with() a literal, a string that is not
// empty. Its path is still to be found.
bool QueryParser::derive_test(const Term& condition, Derived& out, Source& source) {
    uint32_t made = no_term, constant = no_term;
    if (condition.kind == TermKind::comparison) {
        const uint32_t left = condition.first, right = query_.terms_[left].next;
        if (query_.terms_[right].next != no_term) return false;
        double number;
        std::string_view text;
        out.relation = static_cast<Relation>(query_.terms_[right].relation);
        made = left, constant = right;
        if (!constant_number(right, number) && !constant_text(right, text)) {
            made = right, constant = left;
            out.relation = mirrored(out.relation);
        }
    } else if (condition.kind == TermKind::call && (condition.function == TermFunction::contains || condition.function == TermFunction::starts_with)) {
        out.is_call = true;
        out.function = condition.function == TermFunction::contains ? Function::contains : Function::starts_with;
        made = condition.first, constant = query_.terms_[made].next;
        std::string_view text;
        if (!constant_text(constant, text) || text.empty() || query_.terms_[made].type == TermType::number) return false;
    } else {
        return false;
    }
    const TermType type = query_.terms_[made].type;
    if (type == TermType::boolean || (type == TermType::items && !out.is_call)) return false;
    if (!(type == TermType::number ? derive_number(made, source) : derive_text(made, source))) return false;
    return set_constant(constant, type == TermType::number, out);
}

// Numbers are compared with numbers, and with NaN nothing is.
bool QueryParser::set_constant(uint32_t constant, bool as_number, Derived& out) {
    double number;
    std::string_view text;
    Value value;
    if (constant_text(constant, text) && !as_number) {
        out.value = query_.terms_[constant].value;
        if (!out.is_call && out.relation != Relation::eq && out.relation != Relation::ne && std::isnan(to_number(text))) return false;
        return true;
    }
    if (!constant_number(constant, number)) number = to_number(text);
    if (std::isnan(number)) return false;
    value.is_number = true;
    value.number = number;
    out.value = append(query_.values_, value, query_.terms_[constant].source);
    return true;
}

// Whether the test holds for a value that was made of the empty string, as that of no item is.
bool QueryParser::holds_without(const Derived& derived) const {
    Derivation derivation(derived.program);
    const Derivation::Value made = derivation.of("");
    const Value& value = query_.values_[derived.value];
    const std::string_view text = query_.view(value.text);
    if (derived.is_call) return function_holds(derived.function, made.text, text);
    const bool equality = derived.relation == Relation::eq || derived.relation == Relation::ne;
    if (equality && !value.is_number) return related(derived.relation, made.text, text);
    return related(derived.relation, derivation.is_number() ? made.number : to_number(made.text), value.is_number ? value.number : to_number(text));
}

// The path as patterns have it, if labels can say which of its items is the first: `.`, `@a`, `b`. no_entry: they cannot.
uint32_t QueryParser::plain_path(uint32_t term) {
    PathEntry path;
    if (term != no_term) {
        const Term& from = query_.terms_[term];
        if (from.kind != TermKind::path || from.absolute || from.first != no_term || from.variable != no_term || from.predicates != no_term) return no_entry;
        path.source = from.source;
        for (uint32_t at = from.steps; at != no_term; at = query_.term_steps_[at].next) {
            const TermStep& step = query_.term_steps_[at];
            if (step.axis == TermAxis::self && step.test == TermTest::any_item && step.predicates == no_term) continue;
            const bool down = step.axis == TermAxis::child || step.axis == TermAxis::attribute;
            if (!down || step.test != TermTest::name || step.predicates != no_term || path.first != no_entry) return no_entry;
            Step made;
            relax_axis(step.axis, made);
            relax_test(step, made);
            settle_axis(made, false);
            made.source = from.source;
            path.first = append(query_.steps_, made, from.source);
            ++path.steps;
        }
    }
    return append(query_.paths_, path, path.source);
}

// What the condition says exactly, for the machines; no_entry where they cannot say it.
uint32_t QueryParser::derive(uint32_t index) {
    if (bound_) return no_entry;
    const Mark before = mark();
    Derived derived;
    Source source;
    if (derive_test(query_.terms_[index], derived, source)) {
        derived.path = plain_path(source.path);
        derived.program = source.program;
        derived.is_exact = true;
        if (derived.path != no_entry) {
            derived.holds_without = query_.paths_[derived.path].first != no_entry && holds_without(derived);
            return append(query_.derived_, derived, query_.terms_[index].source);
        }
    }
    go_back(before);
    return no_entry;
}

// The same where the path is relaxed: that some item of it has such a value.
QueryParser::Goal QueryParser::derived_goal(uint32_t index, uint32_t& path) {
    path = no_term;
    if (bound_) return {};
    const Mark before = mark();
    Derived derived;
    Source source;
    if (derive_test(query_.terms_[index], derived, source) && source.path != no_term) {
        derived.program = source.program;
        if (!holds_without(derived)) {
            path = source.path;
            Goal goal;
            goal.derived = append(query_.derived_, derived, query_.terms_[index].source);
            return goal;
        }
    }
    go_back(before);
    return {};
}

// concat(a, "-", b) = "x-y": what comes before the "-" is a, wherever that stands in the literal. no_entry: nothing is known.
uint32_t QueryParser::relax_concat(const Term& comparison) {
    if (bound_ || comparison.kind != TermKind::comparison) return no_entry;
    uint32_t made = comparison.first, constant = query_.terms_[made].next;
    const Term& right = query_.terms_[constant];
    std::string_view whole, before, after;
    if (right.next != no_term || static_cast<Relation>(right.relation) != Relation::eq) return no_entry;
    if (constant_text(made, whole)) std::swap(made, constant);
    const Term& concat = query_.terms_[made];
    if (concat.kind != TermKind::call || concat.function != TermFunction::concat || !constant_text(constant, whole)) return no_entry;
    const Slice literal = query_.values_[query_.terms_[constant].value].text;
    uint32_t part = concat.first;
    if (constant_text(part, before)) part = query_.terms_[part].next;
    const uint32_t follows = query_.terms_[part].next;
    if (follows == no_term || !constant_text(follows, after) || after.empty() || !whole.starts_with(before)) return no_entry;
    Source source;
    if (query_.terms_[part].type == TermType::number || !derive_text(part, source)) return no_entry;
    const uint32_t path = plain_path(source.path);
    if (path == no_entry) return no_entry;
    constexpr size_t ways_max = 8;
    std::vector<uint32_t> ways;
    for (size_t at = whole.find(after, before.size()); at != std::string_view::npos; at = whole.find(after, at + 1)) {
        Value value;
        value.text = {literal.begin + static_cast<uint32_t>(before.size()), static_cast<uint32_t>(at - before.size())};
        Derived derived;
        derived.program = source.program;
        derived.path = path;
        derived.is_exact = true;
        derived.value = append(query_.values_, value, comparison.source);
        if (ways.size() == ways_max || holds_without(derived)) return no_entry;
        ways.push_back(derived_condition(append(query_.derived_, derived, comparison.source), comparison.source));
    }
    return ways.empty() ? no_entry : one_of(ways, comparison.source);
}

// A condition that always holds, but for what is derived.
uint32_t QueryParser::derived_condition(uint32_t derived, Slice source) {
    Expr itself;
    itself.first = append(query_.paths_, PathEntry(), source);
    itself.derived = derived;
    itself.source = source;
    return append(query_.exprs_, itself, source);
}

}  // namespace treecast
