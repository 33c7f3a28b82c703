// Checks that a query is an ordered pattern: conjunctive, with branches that go to children and descendants.
//
// Under `or` and `not()` the order of witnesses would have no meaning. evaluate_ordered.cpp explains what the order means.
#include "base/failure.hpp"
#include "query/query.hpp"

namespace treecast {

namespace {

// Walks a query and refuses whatever is not a conjunctive pattern.
class OrderedCheck {
public:
    explicit OrderedCheck(const Query& query) : query_(query) {}

    void main_paths() {
        query_.each_path(query_.branches(), [&](uint32_t, const PathEntry& path) { steps(path); });
    }

private:
    // A self step would give two branches the same start tag, so they could never strictly increase.
    void steps(const PathEntry& path) {
        query_.each_step(path.first, [&](uint32_t, const Step& step) {
            if (step.axis == Axis::self || step.axis == Axis::descendant_or_self)
                refuse("an ordered pattern goes to children and descendants only", step.source,
                       "write the step with '/' or '//'");
            query_.each_expr(step.predicates, [&](uint32_t, const Expr& expr) { condition(expr); });
        });
    }

    void condition(const Expr& expr) {
        const char* everything = "all branches of an ordered pattern must hold, in the order they are written";
        switch (expr.kind) {
            case ExprKind::conjunction:
                query_.each_expr(expr.first, [&](uint32_t, const Expr& operand) { condition(operand); });
                return;
            case ExprKind::disjunction:
                refuse("'or' cannot stand in an ordered pattern", expr.source, "add one subscription for each alternative");
            case ExprKind::negation:
                refuse("not() cannot stand in an ordered pattern", expr.source, everything);
            case ExprKind::position:
            case ExprKind::position_last:
            case ExprKind::last:
                refuse("positions cannot stand in an ordered pattern", expr.source, "drop the position, or the order");
            case ExprKind::term:
                refuse("an ordered pattern is made of paths and values", expr.source, "drop the expression, or the order");
            default: paths(expr);
        }
    }

    // A union offers several first steps, and an absolute path leaves the element. Neither has one place in the order.
    void paths(const Expr& expr) {
        const PathEntry& path = query_.path(expr.first);
        if (path.next != no_entry)
            refuse("'|' cannot stand inside an ordered pattern", expr.source, "add one subscription for each alternative");
        if (path.absolute)
            refuse("a path from the document is no branch of an ordered pattern", path.source, "start it at the element: .//x");
        // self::a alone tests the element's own name, as local-name() does.
        if (path.steps == 1) {
            const Step& step = query_.step(path.first);
            if (step.axis == Axis::self && !step.gap && step.predicates == no_entry) return;
        }
        steps(path);
    }

    [[noreturn]] static void refuse(const char* message, Slice where, const char* hint) {
        Failure failure(Family::query, "TC112", message, where.begin);
        failure.length = where.size;
        failure.hint = hint;
        throw failure;
    }

    const Query& query_;
};

}  // namespace

void check_ordered(const Query& query) { OrderedCheck(query).main_paths(); }

}  // namespace treecast
