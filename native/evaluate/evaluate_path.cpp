// Follows a path depth first, with one cursor per step. See evaluate.hpp for why verdicts are kept and runs are skipped.
//
// A step without positions enumerates its axis and tests names on the way. Its predicates are asked of each candidate.
// Steps with positions are in evaluate_positions.cpp.
//
// The stack of cursors replaces recursion, so deep documents and long paths cannot overflow the native stack.
#include "evaluate/evaluate.hpp"

#include <algorithm>

namespace treecast {

namespace {

constexpr uint64_t cursor_steps = 3;    // what setting one up and leaving it costs, with the verdict that comes of it

bool is_deep(const Step& step) {
    return step.gap || step.axis == Axis::descendant || step.axis == Axis::descendant_or_self;
}

bool includes_self(const Step& step) {
    return step.axis == Axis::descendant_or_self || (step.axis == Axis::self && step.gap);
}

}  // namespace

// Whether the steps from `first_step` on lead from the context to something that passes the goal.
// The goal is a comparison, or no_entry where existence is enough. With `found`, the first item is wanted, not any.
bool Evaluator::reaches(uint32_t first_step, uint32_t context, uint32_t goal, Item* found) {
    uint32_t base = static_cast<uint32_t>(cursors_.size());
    Want want = found ? Want::first : Want::any;
    push_cursor(first_step, context, want);
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
        uint32_t slot = candidate_slot(cursors_[top], step);
        Verdict known = slot == none ? Verdict::unknown : verdict(slot, item.index);
        if (known == Verdict::no) continue;
        // A kept success answers "does it lead anywhere", but not "to which item".
        if (known == Verdict::yes && !found) return succeed(base);
        bool holds = known == Verdict::yes || holds_at(cursors_[top], step, item);
        if (holds && step.next != no_entry) {
            push_cursor(step.next, item.index, want);
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

// Finds the first item in document order where going depth first may meet a later one before it.
// Everything after the best item so far is left out: from there on, paths lead only to later items.
bool Evaluator::first_of_all(uint32_t first_step, uint32_t context, Item& found) {
    auto base = static_cast<uint32_t>(cursors_.size());
    bool any = false;
    std::pair<uint64_t, uint32_t> best;
    auto is_late = [&](Item item) { return any && order(item) > best; };
    push_cursor(first_step, context, Want::first);
    while (cursors_.size() > base) {
        auto top = static_cast<uint32_t>(cursors_.size() - 1);
        const Cursor& cursor = cursors_[top];
        bool groups = cursor.way == Way::groups;
        // A group that starts too late ends the cursor; the groups after it start even later.
        if (groups && cursor.survivor == survivors_.size() && cursor.at < cursor.end && is_late({StepKind::element, cursor.at})) {
            leave_cursor(base, true);
            continue;
        }
        if (advance(top) == Next::done) {
            leave_cursor(base, cursors_[top].reached);
            continue;
        }
        const Step& step = query_->step(cursors_[top].step);
        Item item{step.kind, cursors_[top].candidate};
        if (is_late(item)) {
            // Leaving early proves nothing, so the context must not be recorded as a failure.
            cursors_[top].reached = true;      // or not: it is not known
            if (!groups) leave_cursor(base, true);
            continue;
        }
        uint32_t slot = candidate_slot(cursors_[top], step);
        Verdict known = slot == none ? Verdict::unknown : verdict(slot, item.index);
        if (known == Verdict::no) continue;
        if (known != Verdict::yes && !holds_at(cursors_[top], step, item)) {
            if (slot != none) keep(slot, item.index, false);
        } else if (step.next != no_entry) {
            push_cursor(step.next, item.index, Want::first);
        } else {
            cursors_[top].reached = any = true;
            found = item;
            best = order(item);
        }
    }
    return any;
}

// For first_of_all(): `reached` means that something was reached, or might have been. Then no failure is recorded.
void Evaluator::leave_cursor(uint32_t base, bool reached) {
    if (!reached) return fail_cursor(base);
    pop_cursor();
    if (cursors_.size() > base) cursors_.back().reached = true;
}

// A positional step without numbering has already sifted its candidates while it gathered them.
bool Evaluator::holds_at(const Cursor& cursor, const Step& step, Item item) {
    if (cursor.way == Way::numbered) return passes_numbered(cursor, step, item);
    return step.positional || check_predicates(step, item);
}

// The top cursor came to its end without success, so the candidate that led to it fails.
void Evaluator::fail_cursor(uint32_t base) {
    note_failures(cursors_.back(), cursors_.back().limit);
    pop_cursor();
    if (cursors_.size() == base) return;
    const Cursor& below = cursors_.back();
    uint32_t slot = candidate_slot(below, query_->step(below.step));
    if (slot != none) keep(slot, below.candidate, false);
}

// Everything on the stack led to success. What each cursor passed before its current candidate failed.
bool Evaluator::succeed(uint32_t base) {
    while (cursors_.size() > base) {
        const Cursor& cursor = cursors_.back();
        uint32_t slot = candidate_slot(cursor, query_->step(cursor.step));
        if (cursor.way != Way::groups) {
            if (slot != none) keep(slot, cursor.candidate, true);
            note_failures(cursor, cursor.candidate);
        } else if (cursor.slot != none && cursor.group != none) {
            keep(cursor.slot, cursor.group, true);
            note_failures(cursor, cursor.group);
        }
        pop_cursor();
    }
    return true;
}

void Evaluator::pop_cursor() {
    survivors_.resize(cursors_.back().survivors);
    cursors_.pop_back();
}

// All candidates (or groups) from where the cursor started up to `end` fail, whatever context they are reached from.
// One run per slot is enough: contexts come in document order, so their ranges overlap or follow each other.
void Evaluator::note_failures(const Cursor& cursor, uint32_t end) {
    if (cursor.slot == none || cursor.reached || cursor.started >= cursor.limit) return;
    Run& run = runs_[cursor.slot];
    if (run.begin <= cursor.started && cursor.started <= run.end) run.end = std::max(run.end, end);
    else run = {cursor.started, end};
}

// Starts a step at a context. Candidates before `from` are left out.
// A name that this document lacks leaves the cursor empty, so it ends at once.
void Evaluator::push_cursor(uint32_t step_index, uint32_t context, Want want, uint32_t from) {
    const Step& step = query_->step(step_index);
    const StepPlan& plan = this->plan(step_index);
    Cursor cursor;
    cursor.step = step_index;
    cursor.context = context;
    cursor.want = want;
    cursor.slot = want == Want::all ? none : plan.slot;
    cursor.survivors = cursor.survivor = static_cast<uint32_t>(survivors_.size());
    bool possible = step.kind == StepKind::text || step.test == Test::any || plan.name != none;
    if (possible) {
        if (plan.atoms && want != Want::all) aim_numbered(cursor, step, plan);
        else if (step.positional) aim_groups(cursor, step);
        else aim(cursor, step, plan, from);
    }
    cursors_.push_back(cursor);
    spend(cursor_steps);
}

// Chooses how to enumerate the axis. A child step jumps from sibling to sibling; the others cover a range.
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

// A descent over a large subtree goes through the list of the name instead of the range of elements.
// A run of known failures at the start of the range is skipped right here.
void Evaluator::aim_deep(Cursor& cursor, const Step& step, const StepPlan& plan, Range range) {
    if (cursor.slot != none) {
        cursor.started = range.begin;
        cursor.limit = range.end;
        const Run& run = runs_[cursor.slot];
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

// Whether the next candidate is known to fail. If so, the cursor moves past the whole run.
bool Evaluator::skip_failures(Cursor& cursor) {
    const Run& run = runs_[cursor.slot];
    bool listed = cursor.way == Way::listed || cursor.by_name;
    uint32_t next = listed ? by_name_[cursor.at] : cursor.at;
    if (next < run.begin || next >= run.end) return false;
    uint32_t end = cursor.way == Way::numbered ? cursor.stretch_end : cursor.end;
    if (listed)
        cursor.at = static_cast<uint32_t>(
            std::lower_bound(by_name_.data() + cursor.at, by_name_.data() + end, run.end) - by_name_.data());
    else
        cursor.at = std::min(run.end, end);
    return true;
}

// Children of an element, or its attributes. Most cursors enumerate these, and no run of failures is kept for them, so they have
// a loop of their own. PERF: bench/rendering.py, sharing off
template <bool children>
Evaluator::Next Evaluator::advance_named(Cursor& cursor) {
    const Step& step = query_->step(cursor.step);
    const StepPlan& plan = step_plans_[cursor.step];
    const uint32_t* names = children ? document_->name.data() : document_->attribute_name.data();
    const uint32_t* sizes = document_->size.data();
    uint64_t looked = 0;
    uint32_t at = cursor.at, candidate = none;
    while (at < cursor.end && candidate == none) {
        ++looked;
        if (passes(step, plan, names[at])) candidate = at;
        at += children ? sizes[at] : 1;
    }
    cursor.at = at;
    cursor.candidate = candidate;
    spend(looked);
    return candidate == none ? Next::done : Next::candidate;
}

// Moves to the next candidate that passes the step's test. Its predicates are asked by the caller.
Evaluator::Next Evaluator::advance(uint32_t index) {
    Cursor& cursor = cursors_[index];
    switch (cursor.way) {
        case Way::children: return advance_named<true>(cursor);
        case Way::groups: return advance_group(index);
        case Way::numbered: return advance_numbered(cursor) ? Next::candidate : Next::done;
        case Way::range:
            if (!cursor.limit && query_->step(cursor.step).kind == StepKind::attribute) return advance_named<false>(cursor);
            [[fallthrough]];
        default: return advance_other(cursor);
    }
}

Evaluator::Next Evaluator::advance_other(Cursor& cursor) {
    const Document& d = *document_;
    const Step& step = query_->step(cursor.step);
    const StepPlan& plan = step_plans_[cursor.step];
    uint64_t looked = 0;
    while (cursor.at < cursor.end) {
        ++looked;
        if (cursor.limit && skip_failures(cursor)) continue;
        uint32_t candidate = cursor.at;
        switch (cursor.way) {
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
        spend(looked);
        return Next::candidate;
    }
    spend(looked);
    return Next::done;
}

}  // namespace treecast
