// Where patterns end and terms begin: reads a text as a pattern, and as a term if it is none.
//
// Patterns come first, so that whatever they can say is shared and has one spelling. This is decided for each comparison by itself:
// in [@a = 1 and count(b) > 2] the first part stays a pattern. A whole query that is no union of paths becomes /*[condition]:
// every document has one root element, and the condition does not depend on it.
#include "query/query_parser.hpp"

namespace treecast {

QueryParser::Mark QueryParser::mark() const {
    return {query_.paths_.size(), query_.steps_.size(), query_.exprs_.size(), query_.values_.size(), query_.terms_.size(),
            query_.term_steps_.size(), scan_.at, entries_, context_, in_branch_, bound_, message_, in_term_predicate_};
}

void QueryParser::go_back(const Mark& mark) {
    query_.paths_.resize(mark.paths);
    query_.steps_.resize(mark.steps);
    query_.exprs_.resize(mark.exprs);
    query_.values_.resize(mark.values);
    query_.terms_.resize(mark.terms);
    query_.term_steps_.resize(mark.term_steps);
    scan_.at = mark.at;
    entries_ = mark.entries;
    context_ = mark.context;
    in_branch_ = mark.in_branch;
    bound_ = mark.bound;
    message_ = mark.message;
    in_term_predicate_ = mark.in_term_predicate;
}

namespace {

// Of two refusals the one that stands further right knows more: the other stopped at what only terms have. At the same place that
// of the term does, unless patterns have said what is missing.
bool knows_more(const Failure& term, const Failure& plain) {
    if (term.position != plain.position) return term.position > plain.position;
    if (term.code == "TC104") return plain.code != "TC104";
    return plain.code == "TC102" || plain.code == "TC103" || plain.code == "TC105" || plain.code == "TC106";
}

}  // namespace

template <class Plain, class Other>
auto QueryParser::read_either(Plain plain, Other other) {
    const Mark before = mark();
    try {
        return plain();
    } catch (const Failure& failure) {
        go_back(before);
        try {
            return other();
        } catch (const Failure& second) {
            if (knows_more(second, failure)) throw;
        }
        throw;
    }
}

QueryParser::Operand QueryParser::read_comparison() {
    if (bound_ && !reads_bound_terms()) return read_plain_comparison();
    return read_either([this] { return read_plain_comparison(); }, [this] {
        scan_.skip_space();
        uint32_t begin = scan_.at, term = read_term_equality();
        return Operand{Is::term, query_.terms_[term].uses_position, Relation::eq, term, since(begin)};
    });
}

// A constant, a position or a name that stands alone: reads its text once more, as a term.
QueryParser::Operand QueryParser::as_term(const Operand& operand) {
    if (operand.is == Is::term) return operand;
    uint32_t end = scan_.at;
    scan_.at = operand.source.begin;
    uint32_t term = read_term_equality();
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
    Expr expr;
    expr.kind = ExprKind::term;
    expr.first = term;
    expr.value = relax(term);
    return make_condition(expr, query_.terms_[term].uses_position, source);
}

// A query that is no union of paths. `plain` is why.
void QueryParser::read_whole(const Failure& plain) {
    message_ = in_branch_ = false;
    uint32_t term;
    try {
        term = read_term();
        scan_.skip_space();
        if (!scan_.ended()) refuse_rest();
        if (query_.terms_[term].uses_context) refuse_relative(term);
    } catch (const Failure& second) {
        if (knows_more(second, plain)) throw;
        throw plain;
    }
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
