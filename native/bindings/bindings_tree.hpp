// What the bindings of src/treecast/query/ share: namespaces in, syntax trees out as tuples.
#pragma once

#include "bindings/bindings.hpp"
#include "query/query.hpp"
#include "query/query_print.hpp"

#include <string>
#include <utility>
#include <vector>

namespace treecast {

// Prefixes and URIs as bytes: lone surrogates are refused where they stand.
inline Bindings to_bindings(const std::vector<std::pair<nb::bytes, nb::bytes>>& namespaces) {
    Bindings bindings;
    for (const auto& [prefix, uri] : namespaces)
        bindings.emplace_back(std::string(prefix.c_str(), prefix.size()), std::string(uri.c_str(), uri.size()));
    return bindings;
}

inline nb::object text_object(std::string_view text) { return nb::str(text.data(), text.size()); }

inline const char* axis_name(Axis axis) {
    static const char* const names[] = {"child", "descendant", "descendant-or-self", "self", "attribute"};
    return names[static_cast<int>(axis)];
}

inline const char* kind_name(StepKind kind) {
    static const char* const names[] = {"element", "attribute", "text"};
    return names[static_cast<int>(kind)];
}

// The tuples that src/treecast/query/tree.py turns into its classes; field orders are the same there.
class TreeMaker {
public:
    explicit TreeMaker(const Query& query) : query_(query) {}

    nb::tuple paths(uint32_t first) const {
        nb::list made;
        query_.each_path(first, [&](uint32_t, const PathEntry& path) {
            nb::list steps;
            query_.each_step(path.first, [&](uint32_t, const Step& step) { steps.append(one_step(step)); });
            made.append(nb::make_tuple(path.absolute, nb::tuple(steps),
                                       path.variable == no_entry ? nb::none() : nb::object(nb::int_(path.variable))));
        });
        return nb::tuple(made);
    }

    // (axis, gap, kind, uri or None, local or None, predicates)
    nb::tuple one_step(const Step& step) const {
        bool has_uri = step.test == Test::name || step.test == Test::any_namespace;
        bool has_local = step.test == Test::name || step.test == Test::any_local;
        return nb::make_tuple(axis_name(step.axis), step.gap, kind_name(step.kind),
                              has_uri ? text_object(query_.uri(step)) : nb::none(),
                              has_local ? text_object(query_.view(step.local)) : nb::none(), exprs(step.predicates));
    }

    nb::tuple exprs(uint32_t first) const {
        nb::list made;
        query_.each_expr(first, [&](uint32_t, const Expr& expr) { made.append(one_expr(expr)); });
        return nb::tuple(made);
    }

    nb::tuple one_expr(const Expr& expr) const {
        static const char* const relations[] = {"=", "!=", "<", "<=", ">", ">="};
        const char* relation = relations[static_cast<int>(expr.relation)];
        switch (expr.kind) {
            case ExprKind::conjunction: return nb::make_tuple("and", exprs(expr.first));
            case ExprKind::disjunction: return nb::make_tuple("or", exprs(expr.first));
            case ExprKind::negation: return nb::make_tuple("not", one_expr(query_.expr(expr.first)));
            case ExprKind::exists: return nb::make_tuple("exists", paths(expr.first));
            case ExprKind::compare: return nb::make_tuple("compare", paths(expr.first), relation, value(expr.value));
            case ExprKind::call:
                return nb::make_tuple("call", text_object(traits_of(expr.function).name), paths(expr.first), value(expr.value));
            case ExprKind::position: return nb::make_tuple("position", relation, value(expr.value));
            case ExprKind::position_last: return nb::make_tuple("position-last", relation);
            case ExprKind::last: return nb::make_tuple("last", relation, value(expr.value));
            case ExprKind::term:
                return nb::make_tuple("term", term(expr.first), requirement(expr.value), query_.term(expr.first).uses_position,
                                      expression(expr.first));
        }
        return nb::make_tuple();
    }

    // Its key: what has another meaning has another text.
    nb::object term(uint32_t index) const {
        std::string text;
        VariablePrinter(query_, true, text).term(index);
        return text_object(text);
    }

    // The structure of a term, for src/treecast/query/expressions.py.
    nb::tuple expression(uint32_t index) const {
        static const char* const signs[] = {"+", "-", "*", "div", "mod"};
        static const char* const relations[] = {"=", "!=", "<", "<=", ">", ">="};
        const Term& term = query_.term(index);
        switch (term.kind) {
            case TermKind::number: return nb::make_tuple("number", value(term.value));
            case TermKind::literal: return nb::make_tuple("literal", value(term.value));
            case TermKind::disjunction: return nb::make_tuple("or", expressions(term.first));
            case TermKind::conjunction: return nb::make_tuple("and", expressions(term.first));
            case TermKind::union_: return nb::make_tuple("union", expressions(term.first));
            case TermKind::negative: return nb::make_tuple("negative", expression(term.first));
            case TermKind::call:
                return nb::make_tuple("function", text_object(traits_of(term.function).name), expressions(term.first));
            case TermKind::path: return path_expression(term);
            case TermKind::comparison:
            case TermKind::arithmetic: break;
        }
        nb::list operators;
        query_.each_term(query_.term(term.first).next, [&](uint32_t, const Term& operand) {
            operators.append(term.kind == TermKind::comparison ? relations[operand.relation] : signs[static_cast<int>(operand.sign)]);
        });
        return nb::make_tuple("chain", expressions(term.first), nb::tuple(operators));
    }

    nb::tuple expressions(uint32_t first) const {
        nb::list made;
        query_.each_term(first, [&](uint32_t index, const Term&) { made.append(expression(index)); });
        return nb::tuple(made);
    }

    nb::tuple path_expression(const Term& path) const {
        nb::list steps;
        query_.each_term_step(path.steps, [&](uint32_t, const TermStep& step) { steps.append(term_step(step)); });
        return nb::make_tuple("path", path.first == no_term ? nb::none() : nb::object(expression(path.first)), path.absolute,
                              path.variable != no_term, expressions(path.predicates), nb::tuple(steps));
    }

    // (axis, kind, uri or None, local or None, predicates)
    nb::tuple term_step(const TermStep& step) const {
        static const char* const axes[] = {"child", "descendant", "descendant-or-self", "self", "attribute", "parent", "ancestor",
                                           "ancestor-or-self", "following", "following-sibling", "preceding", "preceding-sibling"};
        static const char* const tests[] = {"named", "named", "named", "text", "node", "comment", "instruction"};
        bool has_uri = step.test == TermTest::name || step.test == TermTest::any_namespace;
        bool has_local = step.test == TermTest::name || step.has_target;
        return nb::make_tuple(axes[static_cast<int>(step.axis)], tests[static_cast<int>(step.test)],
                              has_uri ? text_object(query_.uri(step)) : nb::none(),
                              has_local ? text_object(query_.view(step.local)) : nb::none(), expressions(step.predicates));
    }

    nb::object requirement(uint32_t index) const {
        if (index == no_entry) return nb::none();
        return one_expr(query_.expr(index));
    }

    nb::object value(uint32_t index) const {
        const Value& value = query_.value(index);
        if (value.is_number) return nb::cast(value.number);
        return text_object(query_.view(value.text));
    }

private:
    // Writes the numbers of variables, which are a transformation's.
    class VariablePrinter : public QueryPrinter {
        using QueryPrinter::QueryPrinter;
        bool start(const PathEntry& path) override {
            if (path.variable == no_entry) return QueryPrinter::start(path);
            (out_ += '$') += std::to_string(path.variable);
            return true;
        }
    };

    const Query& query_;
};

}  // namespace treecast
