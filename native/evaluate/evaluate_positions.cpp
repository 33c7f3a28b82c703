// Steps with positions, depth first.
//
// In general they work in groups. The candidates of one context are gathered, then the predicates sift them one after the
// other. Each predicate numbers what the previous one left. The survivors are the candidates of the step.
// That is linear on axes where contexts have no candidates in common.
//
// On the descendant axis contexts do share candidates. There, if only the first predicate has positions, candidates come
// one by one. Their number follows from their place, and verdicts on them are kept. See evaluate.hpp.
#include "evaluate/evaluate.hpp"

#include <algorithm>
#include <cmath>

namespace treecast {

namespace {

// Collects the comparisons with positions in a condition. Returns false if there are more than fit.
// Each comparison doubles the number of slots, hence the small limit.
bool find_atoms(const Query& query, uint32_t index, std::array<uint32_t, 3>& atoms, uint8_t& count) {
    const Expr& expr = query.expr(index);
    switch (expr.kind) {
        case ExprKind::position:
        case ExprKind::position_last:
        case ExprKind::last:
            if (count == atoms.size()) return false;
            atoms[count++] = index;
            return true;
        case ExprKind::conjunction:
        case ExprKind::disjunction:
        case ExprKind::negation: {
            bool fit = true;
            query.each_expr(expr.first, [&](uint32_t operand, const Expr&) { fit = fit && find_atoms(query, operand, atoms, count); });
            return fit;
        }
        case ExprKind::term: return !query.term(expr.first).uses_position;
        default: return true;
    }
}

}  // namespace

// Decides whether candidates are numbered by their place. The predicates have been prepared.
// The place gives the number only if every candidate before it counts: a plain name or any name, and no `//` in between.
void Evaluator::number_step(const Step& step, StepPlan& plan) {
    bool deep = step.axis == Axis::descendant || step.axis == Axis::descendant_or_self;
    bool placed = step.test == Test::any || step.test == Test::name;
    if (!step.positional || !deep || step.gap || !placed || step.kind != StepKind::element) return;
    // Later predicates number what the first one left, which no place can tell. So they must have no positions.
    for (uint32_t expr = step.predicates; expr != no_entry; expr = query_->expr(expr).next)
        if (expr_plans_[expr].positional != (expr == step.predicates)) return;
    uint8_t count = 0;
    if (find_atoms(*query_, step.predicates, plan.atom, count)) plan.atoms = count;
}

// The number of a candidate is its distance from the start of the range, or of the list of its name.
void Evaluator::aim_numbered(Cursor& cursor, const Step& step, const StepPlan& plan) {
    uint32_t context = cursor.context;
    Range range{step.axis == Axis::descendant_or_self && context != none ? context : below(context), end_of(context)};
    cursor.way = Way::numbered;
    cursor.by_name = step.test == Test::name;
    if (cursor.by_name) range = named(plan.name, range.begin, range.end);
    cursor.at = cursor.first = cursor.stretch_end = range.begin;
    cursor.end = range.end;
}

// Starts a stretch: from here to stretch_end no comparison with a position changes its result.
// So the combination of results selects the slot, and a verdict in it holds for every context that leads to the same slot.
void Evaluator::begin_stretch(Cursor& cursor) {
    if (cursor.limit) note_failures(cursor, cursor.limit);
    spend(2);
    const StepPlan& plan = step_plans_[cursor.step];
    uint32_t position = cursor.at - cursor.first + 1, last = cursor.end - cursor.first, change = last + 1;
    auto changes_at = [&](double place) {
        if (place > position && place < change) change = static_cast<uint32_t>(place);
    };
    cursor.slot = plan.slot;
    for (uint8_t i = 0; i < plan.atoms; ++i) {
        const Expr& atom = query_->expr(plan.atom[i]);
        if (check_position(atom, position, last)) cursor.slot += 1u << i;
        if (atom.kind == ExprKind::last) continue;
        double wanted = atom.kind == ExprKind::position_last ? last : query_->value(atom.value).number;
        // A comparison can change where the position reaches the wanted value, and right after it.
        changes_at(std::ceil(wanted));
        changes_at(std::floor(wanted) + 1);
    }
    cursor.stretch_end = cursor.first + change - 1;
    cursor.started = element_at(cursor, cursor.at);
    cursor.limit = cursor.stretch_end < cursor.end ? element_at(cursor, cursor.stretch_end) : end_of(cursor.context);
}

// Runs of failures belong to one slot, so they are skipped only within the current stretch.
bool Evaluator::advance_numbered(Cursor& cursor) {
    while (cursor.at < cursor.end) {
        spend(1);
        if (cursor.at >= cursor.stretch_end) begin_stretch(cursor);
        if (skip_failures(cursor)) continue;
        cursor.candidate = element_at(cursor, cursor.at++);
        return true;
    }
    return false;
}

// The first predicate needs the number; planning made sure that the others do not.
bool Evaluator::passes_numbered(const Cursor& cursor, const Step& step, Item item) {
    uint32_t position = cursor.at - cursor.first, last = cursor.end - cursor.first;
    if (!check(step.predicates, item, position, last)) return false;
    for (uint32_t expr = query_->expr(step.predicates).next; expr != no_entry; expr = query_->expr(expr).next)
        if (!check_kept(expr, item)) return false;
    return true;
}

// With `//` before the step, each element of the subtree is a context of its own: a group.
void Evaluator::aim_groups(Cursor& cursor, const Step& step) {
    cursor.way = Way::groups;
    uint32_t context = cursor.context;
    cursor.document_waits = context == none;
    if (context != none) {
        cursor.at = context;
        cursor.end = step.gap ? end_of(context) : context + 1;
    } else if (step.gap) {
        cursor.end = end_of(none);
    }
    if (!step.gap || cursor.slot == none) return;
    cursor.started = cursor.at;
    cursor.limit = cursor.end;
}

// Moves to the next survivor, in this group or a later one.
// Gathering asks predicates, which may reallocate both stacks. So this function works with indices, not references.
Evaluator::Next Evaluator::advance_group(uint32_t index) {
    uint32_t slot = cursors_[index].slot;
    while (true) {
        Cursor& cursor = cursors_[index];
        if (cursor.survivor < survivors_.size()) {
            cursor.candidate = survivors_[cursor.survivor++];
            return Next::candidate;
        }
        // The previous group is exhausted. Without success its verdict is known, and its survivors can go.
        bool fails = cursor.open_group && !cursor.reached;
        if (fails && slot != none && cursor.group != none) keep(slot, cursor.group, false);
        survivors_.resize(cursor.survivors);
        cursor.survivor = cursor.survivors;
        cursor.open_group = false;
        if (!cursor.document_waits && cursor.at >= cursor.end) return Next::done;
        spend(1);
        if (!cursor.document_waits && cursor.limit && skip_failures(cursor)) continue;
        cursor.group = cursor.document_waits ? none : cursor.at++;
        cursor.document_waits = false;
        if (slot != none && cursor.group != none) {
            Verdict known = verdict(slot, cursor.group);
            if (known == Verdict::no) continue;
            if (known == Verdict::yes && cursor.want == Want::any) return Next::success;
        }
        cursor.open_group = true;
        gather(cursor.step, cursor.group);
    }
}

// Puts on the stack of survivors what a step with positions selects from one context, ignoring `//` before the step.
void Evaluator::gather(uint32_t step_index, uint32_t context) {
    const Step& step = query_->step(step_index);
    size_t base = survivors_.size();
    // [n] as the first predicate needs no more than n candidates.
    uint32_t most = none;
    const Expr& first = query_->expr(step.predicates);
    if (first.kind == ExprKind::position && first.relation == Relation::eq) {
        double wanted = query_->value(first.value).number;
        if (wanted >= 1 && wanted < most) most = static_cast<uint32_t>(wanted);
    }
    gather_axis(step, plan(step_index), context, most);
    for (uint32_t expr = step.predicates; expr != no_entry && survivors_.size() > base; expr = query_->expr(expr).next)
        sift(base, expr, step.kind);
}

// Collects what passes the step's test on its axis, up to `most` items.
void Evaluator::gather_axis(const Step& step, const StepPlan& plan, uint32_t context, uint32_t most) {
    const Document& d = *document_;
    size_t enough = most == none ? survivors_.max_size() : survivors_.size() + most;
    bool deep = step.axis == Axis::descendant || step.axis == Axis::descendant_or_self;
    if (step.kind == StepKind::text) {
        Range texts = deep || context != none ? texts_of(context) : Range{};
        for (uint32_t text = texts.begin; text < texts.end && survivors_.size() < enough; ++text) {
            if (!deep) text = next_child_text(context, text);
            if (text == none) break;
            survivors_.push_back(text);
        }
    } else if (step.axis == Axis::self) {
        if (context != none && passes(step, plan, d.name[context])) survivors_.push_back(context);
    } else {
        uint32_t at = step.axis == Axis::descendant_or_self && context != none ? context : below(context);
        uint64_t looked = 0;
        for (uint32_t end = end_of(context); at < end && survivors_.size() < enough; at += deep ? 1 : d.size[at], ++looked)
            if (passes(step, plan, d.name[at])) survivors_.push_back(at);
        spend(looked);
    }
}

// Keeps the items for which the predicate holds. Positions count among those that the previous predicate left.
void Evaluator::sift(size_t base, uint32_t predicate, StepKind kind) {
    size_t count = survivors_.size() - base, left = base;
    spend(count);
    bool positional = expr_plans_[predicate].positional;
    for (size_t i = 0; i < count; ++i) {
        Item item{kind, survivors_[base + i]};
        bool holds = positional ? check(predicate, item, static_cast<uint32_t>(i + 1), static_cast<uint32_t>(count))
                                : check_kept(predicate, item);
        if (holds) survivors_[left++] = item.index;
    }
    survivors_.resize(left);
}

}  // namespace treecast
