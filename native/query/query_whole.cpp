// Where patterns end and terms begin: reads a text as a pattern, and as a term if it is none.
//
// Patterns come first, so that whatever they can say is shared and has one spelling. This is decided for each comparison by itself:
// in [@a = 1 and count(b) > 2] the first part stays a pattern.
//
// Terms are all of the language, and patterns are a part of it. So what a pattern cannot say is no reason to refuse a text: where it
// is no pattern, its reading as a term decides, and a refusal is that of the term.
//
// A whole query that is no union of paths becomes /*[condition]:
// every document has one root element, and the condition does not depend on it.
#include "query/query_parser.hpp"
#include "query/relation.hpp"

namespace treecast {

QueryParser::Mark QueryParser::mark() const {
    return {query_.paths_.size(), query_.steps_.size(), query_.exprs_.size(), query_.values_.size(), query_.terms_.size(),
            query_.term_steps_.size(), query_.derived_.size(), scan_.at, entries_, context_, in_branch_, bound_, message_, in_term_predicate_};
}

void QueryParser::go_back(const Mark& mark) {
    query_.paths_.resize(mark.paths);
    query_.steps_.resize(mark.steps);
    query_.exprs_.resize(mark.exprs);
    query_.values_.resize(mark.values);
    query_.terms_.resize(mark.terms);
    query_.term_steps_.resize(mark.term_steps);
    query_.derived_.resize(mark.derived);
    scan_.at = mark.at;
    entries_ = mark.entries;
    context_ = mark.context;
    in_branch_ = mark.in_branch;
    bound_ = mark.bound;
    message_ = mark.message;
    in_term_predicate_ = mark.in_term_predicate;
}

template <class Plain, class Other>
auto QueryParser::read_either(Plain plain, Other other) {
    const Mark before = mark();
    try {
        return plain();
    } catch (const Failure& failure) {
        // In clauses of a transformation a mistake is refused that XPath would allow: everything, and what lies below an attribute.
        if (before.bound && (failure.code == "TC107" || failure.code == "TC108")) throw;
        go_back(before);
        try {
            return other();
        } catch (const Failure&) {
            if (failure.code != "TC113") throw;
        }
        throw;                             // this variable cannot stand there
    }
}

QueryParser::Operand QueryParser::read_comparison() {
    return read_either([this] { return read_plain_comparison(); }, [this] {
        scan_.skip_space();
        uint32_t begin = scan_.at, term = read_term_equality();
        if (bound_) check_bound(term);
        return Operand{Is::term, query_.terms_[term].uses_position, Relation::eq, term, since(begin)};
    });
}

// A constant, a position or a name that stands alone: reads its text once more, as a term.
QueryParser::Operand QueryParser::as_term(const Operand& operand) {
    if (operand.is == Is::term) return operand;
    uint32_t end = scan_.at;
    scan_.at = operand.source.begin;
    uint32_t term = read_term_equality();
    if (bound_) check_bound(term);
    scan_.at = end;
    return {Is::term, query_.terms_[term].uses_position, Relation::eq, term, operand.source};
}

// The truth of a term, with what it requires.
QueryParser::Operand QueryParser::term_condition(uint32_t term, Slice source) {
    if (query_.terms_[term].type == TermType::number) {      // printed alone it would be a position
        Term made = query_.terms_[term];
        made.kind = TermKind::call;
        made.type = TermType::boolean;
        made.function = TermFunction::boolean;
        made.first = term;
        made.next = no_term;
        term = append(query_.terms_, made, source);
    }
    if (query_.terms_[term].kind == TermKind::comparison)
        if (uint32_t simple = simplify_count(query_.terms_[term]); simple != no_entry) return {Is::condition, false, Relation::eq, simple, source};
    Expr expr;
    expr.kind = ExprKind::term;
    expr.first = term;
    expr.derived = derive(term);
    expr.value = relax(term);
    return make_condition(expr, query_.terms_[term].uses_position, source);
}

// count(path) against a small whole number, as patterns have it: count(b) > 2 holds where there is a b[3], and count(b//c) = 0
// where there is no b//c. no_entry: it is something else.
uint32_t QueryParser::simplify_count(const Term& comparison) {
    if (bound_) return no_entry;
    const uint32_t first = comparison.first, second = query_.terms_[first].next;
    if (query_.terms_[second].next != no_term) return no_entry;
    auto is_count = [&](uint32_t at) { return query_.terms_[at].kind == TermKind::call && query_.terms_[at].function == TermFunction::count; };
    const bool turn = is_count(second);
    const Term count = query_.terms_[turn ? second : first], number = query_.terms_[turn ? first : second];
    if (!is_count(turn ? second : first) || number.kind != TermKind::number) return no_entry;
    const double value = query_.values_[number.value].number;
    constexpr double count_max = 1 << 24;
    if (!(value >= 0 && value <= count_max) || value != static_cast<uint32_t>(value)) return no_entry;
    auto relation = static_cast<Relation>(query_.terms_[second].relation);
    if (turn) relation = mirrored(relation);
    const auto n = static_cast<uint32_t>(value);
    const Term path = query_.terms_[count.first];
    const Slice source = comparison.source;
    auto at_least = [&](uint32_t least) { return counted(path, least, source); };
    auto both = [&](uint32_t a, uint32_t b, ExprKind kind) { return a == no_entry || b == no_entry ? no_entry : join_exprs(kind, {a, b}, source); };
    switch (relation) {
        case Relation::ge: return n == 0 ? no_entry : at_least(n);
        case Relation::gt: return at_least(n + 1);
        case Relation::lt: return n == 0 ? no_entry : denied(at_least(n), source);
        case Relation::le: return denied(at_least(n + 1), source);
        case Relation::eq: return n == 0 ? denied(at_least(1), source) : both(at_least(n), denied(at_least(n + 1), source), ExprKind::conjunction);
        case Relation::ne: return n == 0 ? at_least(1) : both(denied(at_least(n), source), at_least(n + 1), ExprKind::disjunction);
    }
    return no_entry;
}

// That the path selects at least so many items. More than one are counted only where they are children of one name: b[3], or
// b[position() >= 30].
uint32_t QueryParser::counted(const Term& path, uint32_t least, Slice source) {
    if (path.kind != TermKind::path || path.first != no_term || path.variable != no_term || path.predicates != no_term || path.steps == no_term) return no_entry;
    const TermStep& step = query_.term_steps_[path.steps];
    const bool child = !path.absolute && step.next == no_term && step.axis == TermAxis::child && step.test == TermTest::name && step.predicates == no_term;
    if (least > 1 && !child) return no_entry;
    const Mark before = mark();
    Expr exists;
    try {
        scan_.at = path.source.begin;
        Operand again = read_union();
        if (again.is != Is::paths || scan_.at < path.source.end() || query_.terms_.size() != before.terms) throw Failure(Family::query, "TC101", "");
        exists.first = again.index;
    } catch (const Failure&) {
        go_back(before);
        return no_entry;
    }
    scan_.at = before.at;
    if (least > 1) {
        Value number;
        number.is_number = true;
        number.number = least;
        constexpr uint32_t place_max = 8;          // PERF: bench/language.py. Each place is a label, and so many are cheap
        Expr place;
        place.kind = ExprKind::position;
        place.relation = least > place_max ? Relation::ge : Relation::eq;
        place.value = append(query_.values_, number, source);
        place.source = source;
        Step& last = query_.steps_[query_.paths_[exists.first].first];
        last.positional = true;
        last.predicates = append(query_.exprs_, place, source);
    }
    exists.source = source;
    return append(query_.exprs_, exists, source);
}

uint32_t QueryParser::denied(uint32_t expr, Slice source) {
    if (expr == no_entry) return no_entry;
    Expr negation;
    negation.kind = ExprKind::negation;
    negation.first = expr;
    negation.source = source;
    return append(query_.exprs_, negation, source);
}

// In clauses of a transformation there is no context: paths start at variables.
void QueryParser::check_bound(uint32_t term) {
    if (query_.terms_[term].uses_context) refuse_relative(term);
}

// The text as one term, of any type.
uint32_t QueryParser::read_whole_term() {
    scan_.skip_space();
    if (scan_.ended()) refuse("TC101", "the query is empty", {scan_.at, 0}, "write a path such as /a/b or //b, or a condition such as count(//b) > 2");
    const uint32_t term = read_term();
    scan_.skip_space();
    const char c = scan_.peek();
    if (c == ']' || c == ')') refuse("TC101", std::string("nothing is open that '") + c + "' could close", {scan_.at, 1}, "leave it out");
    if (!scan_.ended())
        refuse_operator("an operator or the end of the query",
                        c == ',' ? "write '|', or put what is to be built into parentheses: ($msg/a, $msg/b)" : "");
    return term;
}

// A query that is no union of paths.
void QueryParser::read_whole() {
    message_ = in_branch_ = false;
    const uint32_t term = read_whole_term();
    if (query_.terms_[term].uses_context) refuse_relative(term);
    const bool selects = query_.terms_[term].type == TermType::items;
    scan_.at = 0;
    Step step;
    PathEntry branch;
    branch.absolute = true;
    branch.steps = 1;
    branch.source = {0, scan_.size()};
    step.source = {0, scan_.size()};
    if (selects) {
        query_.selection_ = term;
    } else {                                  // read again: what patterns can say of it is said in patterns
        query_.terms_.clear();
        query_.term_steps_.clear();
        query_.values_.clear();
        query_.derived_.clear();
        entries_ = 0;
    }
    Operand condition = selects ? term_condition(term, branch.source) : as_condition(read_disjunction());
    scan_.at = scan_.size();
    step.predicates = condition.index;
    query_.exprs_[condition.index].source = branch.source;
    branch.first = append(query_.steps_, step, branch.source);
    query_.branches_ = append(query_.paths_, branch, branch.source);
    query_.linear_ = query_.alternatives_ = false;
    query_.is_condition_ = true;
}

}  // namespace treecast
