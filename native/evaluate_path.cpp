// Depth first along a path: one cursor per step. See evaluate.hpp for why verdicts are kept and runs are skipped.
//
// A step without positions enumerates its axis, tests names on the way, and its predicates are asked of each candidate. A
// step with positions works in groups: for each context its candidates are gathered, its predicates sift them one after
// the other, each numbering what the one before left, and the survivors are the candidates.
#include "evaluate.hpp"

#include <algorithm>

namespace treecast {

namespace {

bool is_deep(const Step& step) {
    return step.gap || step.axis == Axis::descendant || step.axis == Axis::descendant_or_self;
}

bool includes_self(const Step& step) {
    return step.axis == Axis::descendant_or_self || (step.axis == Axis::self && step.gap);
}

}  // namespace

// Whether the steps from `first_step` on lead from the context to something that passes the goal: a comparison, or no_entry
// where existence is enough.
bool Evaluator::reaches(uint32_t first_step, uint32_t context, uint32_t goal, Item* found) {
    uint32_t base = static_cast<uint32_t>(cursors_.size());
    push_cursor(first_step, context);
    while (cursors_.size() > base) {
        uint32_t top = static_cast<uint32_t>(cursors_.size() - 1);
        Next next = advance(top);
        if (next == Next::success) return succeed(base);
        if (next == Next::done) {
            fail_cursor(base);
            continue;
        }
        const Step& step = query_->step(cursors_[top].step);
        Item item{step.kind, cursors_[top].candidate};
        uint32_t slot = none;
        if (!step.positional && step.kind == StepKind::element) slot = step_plans_[cursors_[top].step].slot;
        Verdict known = slot == none ? Verdict::unknown : verdict(slot, item.index);
        if (known == Verdict::no) continue;
        if (known == Verdict::yes) return succeed(base);
        bool holds = step.positional || check_predicates(step, item);
        if (holds && step.next != no_entry) {
            push_cursor(step.next, item.index);
            continue;
        }
        if (holds && (goal == no_entry || compare(query_->expr(goal), item))) {
            if (found) *found = item;
            return succeed(base);
        }
        if (slot != none) keep(slot, item.index, false);
    }
    return false;
}

// The top cursor came to its end, so what led to it failed.
void Evaluator::fail_cursor(uint32_t base) {
    note_failures(cursors_.back(), cursors_.back().limit);
    pop_cursor();
    if (cursors_.size() == base) return;
    const Cursor& below = cursors_.back();
    const Step& step = query_->step(below.step);
    uint32_t slot = step_plans_[below.step].slot;
    if (slot != none && !step.positional) keep(slot, below.candidate, false);
}

// Everything that is on the stack led to success.
bool Evaluator::succeed(uint32_t base) {
    while (cursors_.size() > base) {
        const Cursor& cursor = cursors_.back();
        const Step& step = query_->step(cursor.step);
        uint32_t slot = step_plans_[cursor.step].slot;
        if (slot != none) {
            if (!step.positional) {
                if (step.kind == StepKind::element) keep(slot, cursor.candidate, true);
                note_failures(cursor, cursor.candidate);
            } else if (cursor.group != none) {
                keep(slot, cursor.group, true);
            }
        }
        pop_cursor();
    }
    return true;
}

void Evaluator::pop_cursor() {
    survivors_.resize(cursors_.back().survivors);
    cursors_.pop_back();
}

// All candidates from where the cursor started up to `end` fail, whatever context they are reached from.
void Evaluator::note_failures(const Cursor& cursor, uint32_t end) {
    uint32_t slot = step_plans_[cursor.step].slot;
    if (slot == none || cursor.started >= cursor.limit) return;
    Run& run = runs_[slot];
    if (run.begin <= cursor.started && cursor.started <= run.end) run.end = std::max(run.end, end);
    else run = {cursor.started, end};
}

// Candidates before `from` are left out. `all` enumerates the axis without regard to verdicts.
void Evaluator::push_cursor(uint32_t step_index, uint32_t context, uint32_t from, bool all) {
    const Step& step = query_->step(step_index);
    const StepPlan& plan = this->plan(step_index);
    Cursor cursor;
    cursor.step = step_index;
    cursor.context = context;
    cursor.all = all;
    cursor.survivors = cursor.survivor = static_cast<uint32_t>(survivors_.size());
    bool possible = step.kind == StepKind::text || step.test == Test::any || plan.name != none;
    if (possible) {
        if (step.positional) aim_groups(cursor, step);
        else aim(cursor, step, plan, from);
    }
    cursors_.push_back(cursor);
}

void Evaluator::aim(Cursor& cursor, const Step& step, const StepPlan& plan, uint32_t from) {
    uint32_t context = cursor.context;
    Range range;
    if (step.kind == StepKind::attribute) {
        range = is_deep(step) ? attributes_within(context) : attributes_of(context);
    } else if (step.kind == StepKind::text) {
        range = is_deep(step) || context != none ? texts_of(context) : Range{};
    } else if (is_deep(step)) {
        range = {includes_self(step) && context != none ? context : below(context), end_of(context)};
        range.begin = std::max(range.begin, from);
    } else if (step.axis == Axis::child) {
        range = {below(context), end_of(context)};
    } else if (context != none) {
        range = {context, context + 1};
    }
    if (is_deep(step)) {
        aim_deep(cursor, step, plan, range);
        return;
    }
    cursor.at = range.begin;
    cursor.end = range.end;
    cursor.way = step.kind == StepKind::attribute ? Way::range
                 : step.kind == StepKind::text    ? Way::child_texts
                 : step.axis == Axis::child       ? Way::children
                                                  : Way::one;
    if (cursor.way != Way::children) return;
    while (cursor.at < from && cursor.at < cursor.end) cursor.at += document_->size[cursor.at];
}

void Evaluator::aim_deep(Cursor& cursor, const Step& step, const StepPlan& plan, Range range) {
    if (plan.slot != none && !cursor.all) {
        cursor.started = range.begin;
        cursor.limit = range.end;
        const Run& run = runs_[plan.slot];
        if (run.begin <= range.begin && range.begin <= run.end) range.begin = std::min(run.end, range.end);
    }
    cursor.way = Way::range;
    constexpr uint32_t few = 16;   // elements that are looked at sooner than searched for
    if (step.kind == StepKind::element && step.test == Test::name && range.begin + few < range.end) {
        cursor.way = Way::listed;
        range = named(plan.name, range.begin, range.end);
    }
    cursor.at = range.begin;
    cursor.end = range.end;
}

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
}

Evaluator::Next Evaluator::advance(uint32_t index) {
    Cursor& cursor = cursors_[index];
    if (cursor.way == Way::groups) return advance_group(index);
    const Document& d = *document_;
    const Step& step = query_->step(cursor.step);
    const StepPlan& plan = step_plans_[cursor.step];
    uint64_t looked = 0;
    while (cursor.at < cursor.end) {
        uint32_t candidate = cursor.at;
        ++looked;
        switch (cursor.way) {
            case Way::children:
                cursor.at += d.size[candidate];
                if (!passes(step, plan, d.name[candidate])) continue;
                break;
            case Way::listed:
                candidate = by_name_[cursor.at++];
                break;
            case Way::child_texts:
                candidate = next_child_text(cursor.context, candidate);
                cursor.at = candidate == none ? cursor.end : candidate + 1;
                if (candidate == none) continue;
                break;
            default:
                ++cursor.at;
                if (step.kind == StepKind::element && !passes(step, plan, d.name[candidate])) continue;
                if (step.kind == StepKind::attribute && !passes(step, plan, d.attribute_name[candidate])) continue;
        }
        cursor.candidate = candidate;
        look(looked);
        return Next::candidate;
    }
    look(looked);
    return Next::done;
}

// The next survivor, of this group or of a later one. Gathering asks predicates, which may move the stacks: hence indices.
Evaluator::Next Evaluator::advance_group(uint32_t index) {
    uint32_t slot = cursors_[index].all ? none : step_plans_[cursors_[index].step].slot;
    while (true) {
        Cursor& cursor = cursors_[index];
        if (cursor.survivor < survivors_.size()) {
            cursor.candidate = survivors_[cursor.survivor++];
            return Next::candidate;
        }
        if (cursor.open_group && slot != none && cursor.group != none) keep(slot, cursor.group, false);
        survivors_.resize(cursor.survivors);
        cursor.survivor = cursor.survivors;
        cursor.open_group = false;
        if (!cursor.document_waits && cursor.at >= cursor.end) return Next::done;
        cursor.group = cursor.document_waits ? none : cursor.at++;
        cursor.document_waits = false;
        if (slot != none && cursor.group != none) {
            Verdict known = verdict(slot, cursor.group);
            if (known == Verdict::no) continue;
            if (known == Verdict::yes) return Next::success;
        }
        cursor.open_group = true;
        gather(cursor.step, cursor.group);
    }
}

// Puts on the stack of survivors what a step with positions selects from one context, `//` before it left aside.
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
        look(looked);
    }
}

// Leaves those for which the predicate holds.
void Evaluator::sift(size_t base, uint32_t predicate, StepKind kind) {
    size_t count = survivors_.size() - base, left = base;
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
