// Query -> ColumnPlan: reads the last predicate of a path, and numbers the columns that it needs.
#include "document/number.hpp"
#include "evaluate/columns.hpp"
#include "query/query_print.hpp"
#include "query/relation.hpp"

#include <utility>

namespace treecast {

class ColumnPlanner {
public:
    ColumnPlanner(Columns& columns, const Query& query) : columns_(columns), query_(query) {}

    bool read(ColumnPlan& out) {
        if (query_.branches() == no_entry) return false;
        const PathEntry& branch = query_.path(query_.branches());
        if (query_.is_condition() || branch.next != no_entry || !branch.absolute || branch.variable != no_entry) return false;
        uint32_t predicate = no_entry;
        std::string key;
        if (!read_steps(branch, key, predicate) || predicate == no_entry || query_.expr(predicate).next != no_entry) return false;
        scope_ = key;
        if (read_expr(query_.expr(predicate)) == no_entry) return false;
        plan_.contexts = columns_.number_of(Columns::Kind::contexts, key);
        if (plan_.contexts == no_entry) return false;
        out = std::move(plan_);
        return true;
    }

private:
    static constexpr uint32_t steps_max = 32, nodes_max = 64;        // of what is planned

    // Steps to elements, of which the last one alone has a predicate.
    bool read_steps(const PathEntry& branch, std::string& key, uint32_t& predicate) const {
        bool fits = branch.steps <= steps_max && branch.first != no_entry;
        query_.each_step(branch.first, [&](uint32_t, const Step& step) {
            const bool is_down = step.axis == Axis::child || (step.axis == Axis::descendant && !step.positional);
            fits = fits && is_down && step.kind == StepKind::element && (step.next == no_entry || step.predicates == no_entry);
            predicate = step.predicates;
            key += step.gap || step.axis == Axis::descendant ? "//" : "/";
            key += static_cast<char>('0' + static_cast<int>(step.test));
            for (std::string_view part : {query_.uri(step), query_.view(step.local)}) key.append(std::to_string(part.size())).append(":").append(part);
        });
        return fits;
    }

    uint32_t add(const ColumnPlan::Node& node) {
        if (plan_.nodes.size() == nodes_max) return no_entry;
        plan_.nodes.push_back(node);
        return static_cast<uint32_t>(plan_.nodes.size() - 1);
    }
    uint32_t add(ColumnPlan::Op op, uint32_t first, uint32_t second = 0, uint8_t how = 0, double number = 0) {
        if (first == no_entry || second == no_entry) return no_entry;
        return add({op, how, first, second, number});
    }

    // Each returns the node, or no_entry where there is none.
    uint32_t read_expr(const Expr& expr) {
        switch (expr.kind) {
            case ExprKind::conjunction:
            case ExprKind::disjunction: {
                const auto op = expr.kind == ExprKind::conjunction ? ColumnPlan::Op::both : ColumnPlan::Op::either;
                uint32_t joined = no_entry;
                for (uint32_t at = expr.first; at != no_entry; at = query_.expr(at).next) {
                    const uint32_t operand = read_expr(query_.expr(at));
                    if (operand == no_entry) return no_entry;
                    joined = joined == no_entry ? operand : add(op, joined, operand);
                }
                return joined;
            }
            case ExprKind::negation: return add(ColumnPlan::Op::invert, read_expr(query_.expr(expr.first)));
            case ExprKind::term: return read_truth(expr.first);
            default: return no_entry;
        }
    }

    uint32_t read_truth(uint32_t index) {
        const Term& term = query_.term(index);
        if (term.kind == TermKind::comparison) return read_comparison(term);
        if (term.kind == TermKind::call && term.function == TermFunction::boolean) return read_truth(term.first);
        if (term.kind == TermKind::call && term.function == TermFunction::not_) return add(ColumnPlan::Op::invert, read_truth(term.first));
        if (term.kind != TermKind::conjunction && term.kind != TermKind::disjunction) return no_entry;
        const auto op = term.kind == TermKind::conjunction ? ColumnPlan::Op::both : ColumnPlan::Op::either;
        uint32_t joined = no_entry;
        for (uint32_t at = term.first; at != no_term; at = query_.term(at).next) {
            const uint32_t operand = read_truth(at);
            if (operand == no_entry) return no_entry;
            joined = joined == no_entry ? operand : add(op, joined, operand);
        }
        return joined;
    }

    // Of two numbers, of a set of items with a number, or of a text with a literal.
    uint32_t read_comparison(const Term& comparison) {
        uint32_t left = comparison.first, right = query_.term(left).next;
        if (query_.term(right).next != no_term) return no_entry;
        auto relation = static_cast<Relation>(query_.term(right).relation);
        auto type = [&](uint32_t term) { return query_.term(term).type; };
        if (type(left) == TermType::boolean || type(right) == TermType::boolean) return no_entry;
        if (type(right) == TermType::items) {
            std::swap(left, right);
            relation = mirrored(relation);
        }
        if (type(right) == TermType::items) return no_entry;
        if (is_equality(relation) && type(left) != TermType::number && type(right) != TermType::number)
            return type(left) == TermType::string ? read_text(left, right, relation) : no_entry;
        const auto how = static_cast<uint8_t>(relation);
        if (type(left) != TermType::items) return add(ColumnPlan::Op::compare, read_number(left), read_number(right), how);
        return add(ColumnPlan::Op::compare_set, column(Columns::Kind::sets, left), read_number(right), how, left);
    }

    uint32_t read_number(uint32_t index) {
        const Term& term = query_.term(index);
        auto of = [&](ColumnPlan::Op op) { return add(op, read_number(term.first)); };
        auto constant = [&](double number) { return add({ColumnPlan::Op::constant, 0, 0, 0, number}); };
        switch (term.kind) {
            case TermKind::number: return constant(query_.value(term.value).number);
            case TermKind::literal: return constant(to_number(query_.view(query_.value(term.value).text)));
            case TermKind::negative: return of(ColumnPlan::Op::negative);
            case TermKind::arithmetic: {
                uint32_t total = read_number(term.first);
                for (uint32_t at = query_.term(term.first).next; at != no_term && total != no_entry; at = query_.term(at).next)
                    total = add(ColumnPlan::Op::arithmetic, total, read_number(at), static_cast<uint8_t>(query_.term(at).sign));
                return total;
            }
            case TermKind::call:
                if (term.first == no_term) break;
                if (term.function == TermFunction::number) return read_number(term.first);
                if (term.function == TermFunction::floor) return of(ColumnPlan::Op::floor);
                if (term.function == TermFunction::ceiling) return of(ColumnPlan::Op::ceiling);
                if (term.function == TermFunction::round) return of(ColumnPlan::Op::round);
                break;
            default: break;
        }
        return add(ColumnPlan::Op::column, column(Columns::Kind::numbers, index), index);
    }

    // concat() of columns and literals, or one column, compared with a literal.
    uint32_t read_text(uint32_t left, uint32_t right, Relation relation) {
        if (query_.term(left).kind == TermKind::literal) std::swap(left, right);
        if (query_.term(right).kind != TermKind::literal) return no_entry;
        const auto first = static_cast<uint32_t>(plan_.pieces.size());
        const Term& term = query_.term(left);
        bool fits = true;
        auto add_piece = [&](uint32_t index) {
            const Term& piece = query_.term(index);
            if (piece.kind == TermKind::literal) return plan_.pieces.push_back({no_entry, piece.value});
            plan_.pieces.push_back({column(Columns::Kind::texts, index), index});
            fits = fits && plan_.pieces.back().column != no_entry;
        };
        if (term.kind == TermKind::call && term.function == TermFunction::concat)
            for (uint32_t at = term.first; at != no_term; at = query_.term(at).next) add_piece(at);
        else
            add_piece(left);
        const size_t count = plan_.pieces.size() - first;
        if (!fits || count > nodes_max) return no_entry;
        const auto op = relation == Relation::eq ? ColumnPlan::Op::text_is : ColumnPlan::Op::text_is_not;
        return add({op, static_cast<uint8_t>(count), first, query_.term(right).value, 0});
    }

    uint32_t column(Columns::Kind kind, uint32_t index) {
        if (query_.term(index).variables || query_.term(index).variable != no_term) return no_entry;
        std::string key = scope_ + '\n';
        QueryPrinter(query_, true, key).term(index);
        return columns_.number_of(kind, key);
    }

    Columns& columns_;
    const Query& query_;
    std::string scope_;                  // the key of the contexts
    ColumnPlan plan_;
};

ColumnPlan Columns::plan_of(const Query& query) {
    ColumnPlan plan;
    if (!query.has_terms() || !ColumnPlanner(*this, query).read(plan)) return {};
    plan.nodes.shrink_to_fit();
    plan.pieces.shrink_to_fit();
    return plan;
}

// Whoever asks for a number shares the column.
uint32_t Columns::number_of(Kind kind, const std::string& key) {
    const std::string whole = std::to_string(static_cast<int>(kind)) + key;
    auto known = numbers_.find(whole);
    if (known == numbers_.end()) {
        if (columns_.size() == columns_max || key.size() > key_bytes_max) return no_entry;
        known = numbers_.emplace(whole, static_cast<uint32_t>(columns_.size())).first;
        columns_.emplace_back().kind = kind;
    }
    ++columns_[known->second].sharers;
    return known->second;
}

}  // namespace treecast
