// Ordered patterns (XTrie's ordered matching).
//
// At each element the branches count in the order written, the continuation of the path last.
// Each branch needs a witness of its first step, and the start tags of these witnesses must strictly increase.
//
// A branch is a path in a predicate that starts with an element step, whatever is asked of its end: [b], [b/c = 1],
// [contains(b, "x")]. Tests of attributes, of text() and of the element itself have no start tag and take part in no order.
//
// Whether an element is a witness does not depend on the others, only on what is below it. So the greedy choice is exact:
// for each branch, take the first witness after the previous one. The recursion follows the steps, and each goes down.
#include "evaluate/evaluate.hpp"

#include <algorithm>

namespace treecast {

namespace {

// A self step stays at the element, so it has no start tag of its own to order.
bool starts_branch(const Query& query, const PathEntry& path) {
    if (path.absolute || path.first == no_entry) return false;
    const Step& first = query.step(path.first);
    return first.kind == StepKind::element && !(first.axis == Axis::self && !first.gap);
}

}  // namespace

// Whether the element, which has passed the step's test, is a witness of the step.
bool Evaluator::fits(uint32_t step_index, uint32_t element, uint32_t goal) {
    uint32_t slot = step_plans_[step_index].slot;
    Verdict known = slot == none ? Verdict::unknown : verdict(slot, element);
    if (known != Verdict::unknown) return known == Verdict::yes;
    const Step& step = query_->step(step_index);
    uint32_t bound = element;
    bool value = fits_branches(step_index, element, bound);
    if (value && step.next != no_entry) value = continues(step.next, element, bound, goal);
    else if (value && goal != no_entry) value = compare(query_->expr(goal), {StepKind::element, element});
    if (slot != none) keep(slot, element, value);
    return value;
}

// Checks the predicates of a step. `bound` becomes the last witness, or stays as it is if no branch took part.
bool Evaluator::fits_branches(uint32_t step_index, uint32_t element, uint32_t& bound) {
    for (uint32_t expr = query_->step(step_index).predicates; expr != no_entry; expr = query_->expr(expr).next)
        if (!fits_condition(expr, element, bound)) return false;
    return true;
}

// Only a conjunction is taken apart: check_ordered has refused branches under `or` and `not`.
bool Evaluator::fits_condition(uint32_t index, uint32_t element, uint32_t& bound) {
    const Expr& expr = query_->expr(index);
    if (expr.kind == ExprKind::conjunction) {
        for (uint32_t operand = expr.first; operand != no_entry; operand = query_->expr(operand).next)
            if (!fits_condition(operand, element, bound)) return false;
        return true;
    }
    bool first = expr.kind == ExprKind::call;
    bool paths = first || expr.kind == ExprKind::exists || expr.kind == ExprKind::compare;
    if (!paths || !starts_branch(*query_, query_->path(expr.first)))
        return check(index, {StepKind::element, element}, 1, 1);
    uint32_t goal = expr.kind == ExprKind::compare ? index : no_entry;
    uint32_t witness = first ? witness_of_first(expr, element, bound)
                             : first_witness(query_->path(expr.first).first, element, bound, goal);
    if (witness == none) return false;
    bound = witness;
    return true;
}

// The first witness of a step below the context that starts after `after`.
uint32_t Evaluator::first_witness(uint32_t step, uint32_t context, uint32_t after, uint32_t goal) {
    uint32_t cursor = static_cast<uint32_t>(cursors_.size()), witness = none;
    push_cursor(step, context, Want::all, after + 1);
    while (witness == none && advance(cursor) == Next::candidate) {
        uint32_t candidate = cursors_[cursor].candidate;
        if (fits(step, candidate, goal)) witness = candidate;
    }
    pop_cursor();
    return witness;
}

// The same for a function. Only the path's first item counts, so the witness must lead to that item.
uint32_t Evaluator::witness_of_first(const Expr& expr, uint32_t element, uint32_t after) {
    const PathEntry& path = query_->path(expr.first);
    Item item = first_item(path, {StepKind::element, element});
    if (item.index == none || !check_text(expr, item)) return none;
    uint32_t next = query_->step(path.first).next;
    // With a single step, the item itself is the witness.
    if (next == no_entry) return item.index > after ? item.index : none;
    uint32_t cursor = static_cast<uint32_t>(cursors_.size()), witness = none;
    push_cursor(path.first, element, Want::all, after + 1);
    while (witness == none && advance(cursor) == Next::candidate) {
        uint32_t candidate = cursors_[cursor].candidate, bound = candidate;
        if (!fits_branches(path.first, candidate, bound)) continue;
        Reached set{StepKind::element, {candidate}, {bound}};
        walk(next, set);
        if (std::binary_search(set.items.begin(), set.items.end(), item.index)) witness = candidate;
    }
    pop_cursor();
    return witness;
}

// Whether the path goes on from an element (or the document) with this step, after `after`.
// Attributes and texts have no start tag, so a last step of that kind is not ordered.
bool Evaluator::continues(uint32_t step, uint32_t element, uint32_t after, uint32_t goal) {
    if (query_->step(step).kind != StepKind::element) return reaches(step, element, goal);
    return first_witness(step, element, after, goal) != none;
}

}  // namespace treecast
