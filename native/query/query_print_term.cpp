// Term -> text. Parentheses stand where the operators inside would bind weaker than those around them, and nowhere else.
#include "query/query_print.hpp"

namespace treecast {

namespace {

const char* axis_text(TermAxis axis) {
    static const char* const texts[] = {"", "descendant::", "descendant-or-self::", "self::", "@", "parent::", "ancestor::",
                                        "ancestor-or-self::", "following::", "following-sibling::", "preceding::",
                                        "preceding-sibling::"};
    return texts[static_cast<int>(axis)];
}

const char* relation_text(uint8_t relation) {
    static const char* const texts[] = {" = ", " != ", " < ", " <= ", " > ", " >= "};
    return texts[relation];
}

const char* sign_text(Sign sign) {
    static const char* const texts[] = {" + ", " - ", " * ", " div ", " mod "};
    return texts[static_cast<int>(sign)];
}

// Written as a slash alone.
bool is_document(const Term& term) {
    return term.kind == TermKind::path && term.absolute && term.first == no_term && term.steps == no_term && term.predicates == no_term;
}

// How closely the operators of a term bind; the levels of the grammar.
int binding(const Query& query, const Term& term) {
    auto second = [&] { return query.term(query.term(term.first).next); };
    switch (term.kind) {
        case TermKind::disjunction: return 0;
        case TermKind::conjunction: return 1;
        case TermKind::comparison: return second().relation <= static_cast<uint8_t>(Relation::ne) ? 2 : 3;
        case TermKind::arithmetic: return second().sign <= Sign::minus ? 4 : 5;
        case TermKind::negative: return 6;
        case TermKind::union_: return 7;
        case TermKind::path: return is_document(term) ? -1 : 8;      // `/ and x` would be a path: (/) and x
        default: return 9;
    }
}

bool is_plain(const TermStep& step, TermAxis axis) {
    return step.axis == axis && step.test == TermTest::any_item && step.predicates == no_term;
}

}  // namespace

void QueryPrinter::term(uint32_t index) {
    const Term& term = query_.term(index);
    switch (term.kind) {
        case TermKind::number:
        case TermKind::literal: value(query_.value(term.value)); return;
        case TermKind::negative:
            out_ += '-';
            inner_term(term.first, 7);
            return;
        case TermKind::path: term_path(term); return;
        case TermKind::call:
            (out_ += traits_of(term.function).name) += '(';
            query_.each_term(term.first, [&](uint32_t argument, const Term&) {
                if (argument != term.first) out_ += ", ";
                this->term(argument);
            });
            out_ += ')';
            return;
        default: break;
    }
    const int own = binding(query_, term);
    query_.each_term(term.first, [&](uint32_t operand, const Term& one) {
        if (operand != term.first) {
            if (term.kind == TermKind::disjunction) out_ += " or ";
            else if (term.kind == TermKind::conjunction) out_ += " and ";
            else if (term.kind == TermKind::union_) out_ += " | ";
            else out_ += term.kind == TermKind::comparison ? relation_text(one.relation) : sign_text(one.sign);
        }
        inner_term(operand, own + 1);
    });
}

// An operand, in parentheses unless it binds at least that closely.
void QueryPrinter::inner_term(uint32_t index, int least) {
    bool weaker = binding(query_, query_.term(index)) < least;
    if (weaker) out_ += '(';
    term(index);
    if (weaker) out_ += ')';
}

void QueryPrinter::term_path(const Term& path) {
    bool slash = path.absolute;
    if (path.variable != no_term) {
        PathEntry start_only;
        start_only.variable = path.variable;
        slash = start(start_only);
        if (!slash && path.predicates != no_term) out_ += "self::node()";
        else if (!slash && path.steps == no_term) out_ += '.';
        slash = slash || path.predicates != no_term;
    } else if (path.first != no_term) {
        inner_term(path.first, 9);
        slash = true;
    } else if (path.absolute) {
        PathEntry document;
        document.absolute = true;
        start(document);
        if (path.steps == no_term) out_ += '/';
    } else if (path.steps == no_term) {
        out_ += '.';                                // a slash in a predicate after $msg
    }
    term_predicates(path.predicates);
    bool gap = false;                               // a slash waits for that of the next step; there is no third one
    query_.each_term_step(path.steps, [&](uint32_t, const TermStep& step) {
        if (is_plain(step, TermAxis::descendant_or_self) && slash && !gap && step.next != no_term) {
            out_ += '/';
            gap = true;
            return;
        }
        gap = false;
        if (slash) out_ += '/';
        slash = true;
        term_step(step);
    });
}

void QueryPrinter::term_step(const TermStep& step) {
    if (is_plain(step, TermAxis::self) || is_plain(step, TermAxis::parent)) {
        out_ += step.axis == TermAxis::self ? "." : "..";
        return;
    }
    out_ += axis_text(step.axis);
    Step named;
    named.prefix = step.prefix;
    named.local = step.local;
    named.uri = step.uri;
    switch (step.test) {
        case TermTest::any: out_ += '*'; break;
        case TermTest::name:
        case TermTest::any_namespace:
            prefix(named);
            if (step.test == TermTest::name) out_ += query_.view(step.local);
            else out_ += '*';
            break;
        case TermTest::text: out_ += "text()"; break;
        case TermTest::any_item: out_ += "node()"; break;
        case TermTest::comment: out_ += "comment()"; break;
        case TermTest::instruction:
            out_ += "processing-instruction(";
            if (step.has_target) literal(query_.view(step.local));
            out_ += ')';
            break;
    }
    term_predicates(step.predicates);
}

void QueryPrinter::term_predicates(uint32_t first) {
    query_.each_term(first, [&](uint32_t index, const Term&) {
        out_ += '[';
        term(index);
        out_ += ']';
    });
}

}  // namespace treecast
