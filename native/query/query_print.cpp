// Query -> canonical text, or key.
//
// The text reads back to an equal query under the same bindings; people see it. The key has namespaces instead of prefixes,
// so equal queries with different prefixes share one entry in the index.
#include "query/query_print.hpp"

namespace treecast {

namespace {

const char* axis_text(Axis axis) {
    switch (axis) {
        case Axis::child: return "";
        case Axis::attribute: return "@";
        case Axis::self: return "self::";
        case Axis::descendant: return "descendant::";
        case Axis::descendant_or_self: return "descendant-or-self::";
    }
    return "";
}

const char* relation_text(Relation relation) {
    static const char* const texts[] = {"=", "!=", "<", "<=", ">", ">="};
    return texts[static_cast<int>(relation)];
}

}  // namespace

// One spelling for each number: no leading or trailing zeros, and no minus before zero.
void print_number(std::string_view digits, bool negative, std::string& out) {
    size_t point = digits.find('.');
    std::string_view whole = digits.substr(0, point);
    std::string_view fraction = point == std::string_view::npos ? std::string_view() : digits.substr(point + 1);
    while (!whole.empty() && whole.front() == '0') whole.remove_prefix(1);
    while (!fraction.empty() && fraction.back() == '0') fraction.remove_suffix(1);
    if (negative && !(whole.empty() && fraction.empty())) out += '-';
    if (whole.empty()) out += '0';
    out += whole;
    if (!fraction.empty()) (out += '.') += fraction;
}

void QueryPrinter::paths(uint32_t first) {
    query_.each_path(first, [&](uint32_t index, const PathEntry& one) {
        if (index != first) out_ += " | ";
        path(one);
    });
}

// A relative path that begins with a gap needs its dot; otherwise it would read as absolute.
void QueryPrinter::path(const PathEntry& path) {
    bool started = start(path);
    if (path.first == no_entry && !started) out_ += '.';
    query_.each_step(path.first, [&](uint32_t index, const Step& step) {
        bool leading = index == path.first && !started;
        if (step.gap) out_ += leading ? ".//" : "//";
        else if (!leading) out_ += '/';
        one_step(step);
    });
}

// A transformation's printer writes variables here.
bool QueryPrinter::start(const PathEntry& path) { return path.absolute; }

void QueryPrinter::one_step(const Step& step) {
    out_ += axis_text(step.axis);
    if (step.kind == StepKind::text) out_ += "text()";
    else name_test(step);
    predicates(step);
}

void QueryPrinter::predicates(const Step& step) {
    query_.each_expr(step.predicates, [&](uint32_t, const Expr& expr) {
        out_ += '[';
        predicate(expr);
        out_ += ']';
    });
}

void QueryPrinter::prefix(const Step& step) {
    // The size before the URI keeps keys apart whatever characters the URI holds.
    if (expanded_)
        ((((out_ += '{') += std::to_string(step.uri.size)) += ':') += query_.uri(step)) += '}';
    else if (step.prefix.size) (out_ += query_.view(step.prefix)) += ':';
}

// Any namespace is written as a predicate, because XPath 1.0 has no wildcard prefix.
void QueryPrinter::name_test(const Step& step) {
    if (step.test == Test::name || step.test == Test::any_namespace) prefix(step);
    if (step.test == Test::name) {
        out_ += query_.view(step.local);
        return;
    }
    out_ += '*';
    if (step.test != Test::any_local) return;
    out_ += "[local-name()=";
    literal(query_.view(step.local));
    out_ += ']';
}

// A whole predicate. Only there may a position be written in its short form.
void QueryPrinter::predicate(const Expr& expr) {
    if (expr.kind == ExprKind::position && expr.relation == Relation::eq) value(query_.value(expr.value));
    else if (expr.kind == ExprKind::position_last && expr.relation == Relation::eq) out_ += "last()";
    else condition(expr);
}

void QueryPrinter::condition(const Expr& expr) {
    switch (expr.kind) {
        case ExprKind::conjunction: operands(expr, " and "); break;
        case ExprKind::disjunction: operands(expr, " or "); break;
        case ExprKind::negation:
            out_ += "not(";
            condition(query_.expr(expr.first));
            out_ += ')';
            break;
        case ExprKind::exists: paths(expr.first); break;
        case ExprKind::compare:
            paths(expr.first);   // a | b=1 is (a | b)=1: of the operators '|' binds closest
            relation(expr);
            break;
        case ExprKind::call: call(expr); break;
        case ExprKind::position:
            out_ += "position()";
            relation(expr);
            break;
        case ExprKind::position_last: ((out_ += "position()") += relation_text(expr.relation)) += "last()"; break;
        case ExprKind::last:
            out_ += "last()";
            relation(expr);
            break;
        case ExprKind::term: term_of(expr); break;
    }
}

// As a condition among others a term stands alone or in parentheses: `or` and `and` bind weaker than anything else in it.
void QueryPrinter::term_of(const Expr& expr) {
    const Term& term = query_.term(expr.first);
    const bool document = term.kind == TermKind::path && term.absolute && term.first == no_term && term.steps == no_term;
    const bool weak = term.kind == TermKind::disjunction || term.kind == TermKind::conjunction || document;
    if (weak) out_ += '(';
    this->term(expr.first);
    if (weak) out_ += ')';
}

// Only `or` below `and` binds weaker than its surroundings; nothing else needs parentheses.
void QueryPrinter::operands(const Expr& expr, const char* connective) {
    query_.each_expr(expr.first, [&](uint32_t index, const Expr& operand) {
        if (index != expr.first) out_ += connective;
        bool weaker = expr.kind == ExprKind::conjunction && operand.kind == ExprKind::disjunction;
        if (weaker) out_ += '(';
        condition(operand);
        if (weaker) out_ += ')';
    });
}

void QueryPrinter::call(const Expr& expr) {
    (out_ += traits_of(expr.function).name) += '(';
    paths(expr.first);
    out_ += ", ";
    value(query_.value(expr.value));
    out_ += ')';
}

void QueryPrinter::relation(const Expr& expr) {
    out_ += relation_text(expr.relation);
    value(query_.value(expr.value));
}

void QueryPrinter::value(const Value& value) {
    if (value.is_number && !value.text.size) out_ += std::to_string(static_cast<int>(value.number));   // not written by anybody
    else if (value.is_number) print_number(query_.view(value.text), value.negative, out_);
    else literal(query_.view(value.text));
}

// A literal that was read never contains both quotes: XPath 1.0 cannot write such a text.
void QueryPrinter::literal(std::string_view text) {
    char quote = text.find('"') == std::string_view::npos ? '"' : '\'';
    ((out_ += quote) += text) += quote;
}

std::string Query::print(bool expanded) const {
    std::string out;
    QueryPrinter printer(*this, expanded, out);
    if (selection_ != no_term) printer.term(selection_);
    else if (is_condition_) printer.condition(exprs_[steps_[paths_[branches_].first].predicates]);
    else printer.paths(branches_);
    return out;
}

std::string Query::text() const { return print(false); }

std::string Query::key() const { return print(true); }

}  // namespace treecast
