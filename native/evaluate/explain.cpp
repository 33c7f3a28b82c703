// The Explainer: sets of items forward, one per step, then one chain of elements backward.
//
// Walking forward finds how far the query gets. Walking backward from one item finds the elements that led to it.
// It asks the Evaluator everything, so an explanation never contradicts a match. See explain.hpp for what is explained.
#include "evaluate/explain.hpp"

#include <algorithm>

namespace treecast {

namespace {

// More examples than this do not help a reader.
constexpr size_t items_max = 3;

bool contains(const std::vector<uint32_t>& sorted, uint32_t index) {
    return std::binary_search(sorted.begin(), sorted.end(), index);
}

}  // namespace

// A complete branch beats an incomplete one. Of two complete ones, the earlier item wins; otherwise the longer prefix.
Explanation Explainer::explain(const Query& query, bool ordered) {
    query_ = &query;
    evaluator_.open(query, ordered);
    Explanation result;
    Climb best;
    for (uint32_t branch = query.branches(); branch != no_entry; branch = query.path(branch).next) {
        Climb now;
        climb(query.path(branch).first, {}, now);
        bool better = result.branch == no_entry;
        if (!better && now.complete() && best.complete()) {
            Item mine{now.sets.back().kind, now.sets.back().items.front()};
            Item theirs{best.sets.back().kind, best.sets.back().items.front()};
            better = evaluator_.order(mine) < evaluator_.order(theirs);
        } else if (!better) {
            better = now.complete() || (!best.complete() && now.reached() > best.reached());
        }
        if (!better) continue;
        best = std::move(now);
        result.branch = branch;
    }
    describe(best, result);
    return result;
}

// Walks a path until a step leads nowhere, and keeps every set on the way: the chain is found in them later.
void Explainer::climb(uint32_t first_step, Item context, Climb& out) {
    out.sets.push_back(evaluator_.start_at(context.index));
    for (uint32_t step = first_step; step != no_entry; step = query_->step(step).next) out.steps.push_back(step);
    for (uint32_t step : out.steps) {
        Reached next;
        evaluator_.walk_step(step, out.sets.back(), next);
        if (next.items.empty()) {
            out.candidates = candidates(step, out.sets.back(), true);
            return;
        }
        out.sets.push_back(std::move(next));
    }
}

// The last step that was reached may be one whose candidates all failed their predicates; it is described as well.
void Explainer::describe(const Climb& climb, Explanation& out) {
    size_t depth = climb.reached();
    if (depth > 0) {
        bool tested = depth < climb.sets.size();
        Item item{query_->step(climb.steps[depth - 1]).kind, tested ? climb.sets[depth].items.front() : climb.candidates.front()};
        std::vector<Item> chain = trace(climb, depth, item);
        for (size_t i = 0; i < depth; ++i) {
            uint32_t context = i ? chain[i - 1].index : none;
            out.steps.push_back({climb.steps[i], chain[i], conditions(climb.steps[i], chain[i], context)});
        }
    }
    if (!climb.complete()) describe_stop(climb, out);
}

// Names the most useful cause: a false condition, a wrong order, a wrong namespace, or simply no such element.
void Explainer::describe_stop(const Climb& climb, Explanation& out) {
    if (!climb.candidates.empty()) {
        out.miss = Explanation::Miss::condition;
        return;
    }
    const Reached& contexts = climb.sets.back();
    out.miss = Explanation::Miss::step;
    out.next = climb.steps[climb.sets.size() - 1];
    // Without the bound there would be a candidate, so only the order is wrong.
    if (evaluator_.ordered_) {
        std::vector<uint32_t> early = candidates(out.next, contexts, false);
        if (!early.empty()) {
            out.miss = Explanation::Miss::order;
            out.other = {query_->step(out.next).kind, early.front()};
            return;
        }
    }
    out.other = in_other_namespace(out.next, contexts);
    if (out.other.index != none) out.miss = Explanation::Miss::name_space;
}

// Builds the chain: one item per step, each of which led to the next. The last item is given.
std::vector<Evaluator::Item> Explainer::trace(const Climb& climb, size_t depth, Item item) {
    std::vector<Item> chain(depth);
    chain[depth - 1] = item;
    for (size_t i = depth - 1; i > 0; --i) {
        bool tested = i + 1 < climb.sets.size();
        chain[i - 1] = {StepKind::element, context_of(climb.steps[i], climb.sets[i], chain[i], tested)};
    }
    return chain;
}

// The first context from which the step leads to the item, or would lead to it without its predicates.
uint32_t Explainer::context_of(uint32_t step, const Reached& contexts, Item item, bool tested) {
    uint32_t element = element_of(item);
    for (size_t i = 0; i < contexts.items.size(); ++i) {
        uint32_t context = contexts.items[i];
        // Only an ancestor, or the element itself, can be the context.
        if (context > element || element >= evaluator_.end_of(context)) continue;
        Reached one{StepKind::element, {context}, {contexts.bounds.empty() ? context : contexts.bounds[i]}}, next;
        if (tested) evaluator_.walk_step(step, one, next);
        else next.items = candidates(step, one, true);
        if (contains(next.items, item.index)) return context;
    }
    return none;
}

// The element that an item belongs to.
uint32_t Explainer::element_of(Item item) const {
    if (item.kind == StepKind::attribute) return evaluator_.owner(item.index);
    return item.kind == StepKind::text ? evaluator_.document_->text_parent[item.index] : item.index;
}

// Visits everything on the axis of a step, whatever its name, including `//` before the step.
template <class Take>
void Explainer::each_on_axis(const Step& step, uint32_t context, Take&& take) {
    const Document& d = *evaluator_.document_;
    bool deep = step.gap || step.axis == Axis::descendant || step.axis == Axis::descendant_or_self;
    if (step.kind == StepKind::attribute) {
        auto range = deep ? evaluator_.attributes_within(context) : evaluator_.attributes_of(context);
        for (uint32_t at = range.begin; at < range.end; ++at) take(at, d.attribute_name[at]);
    } else if (step.kind == StepKind::text) {
        auto range = evaluator_.texts_of(context);
        for (uint32_t at = range.begin; at < range.end; ++at)
            if (deep || d.text_parent[at] == context) take(at, none);
    } else {
        bool self = step.axis == Axis::descendant_or_self || step.axis == Axis::self;
        uint32_t at = self && context != none ? context : evaluator_.below(context);
        uint32_t end = deep || !self ? evaluator_.end_of(context) : context == none ? 0 : context + 1;
        for (; at < end; at += deep ? 1 : d.size[at]) take(at, d.name[at]);
    }
}

// What passes the test of the step, ignoring its predicates.
std::vector<uint32_t> Explainer::candidates(uint32_t index, const Reached& contexts, bool bounded) {
    const Step& step = query_->step(index);
    const Evaluator::StepPlan& plan = evaluator_.plan(index);
    bounded = bounded && evaluator_.ordered_ && step.kind == StepKind::element;
    std::vector<uint32_t> found;
    for (size_t i = 0; i < contexts.items.size(); ++i) {
        uint32_t from = bounded ? contexts.bounds[i] + 1 : 0;
        each_on_axis(step, contexts.items[i], [&](uint32_t at, uint32_t name) {
            if (at >= from && (step.kind == StepKind::text || evaluator_.passes(step, plan, name))) found.push_back(at);
        });
    }
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
}

// Finds an element with the right local name in a wrong namespace: the most common mistake in queries.
Evaluator::Item Explainer::in_other_namespace(uint32_t index, const Reached& contexts) {
    const Step& step = query_->step(index);
    Item found{step.kind, none};
    if (step.test != Test::name || step.kind == StepKind::text) return found;
    const NameTable& names = *evaluator_.names_;
    std::string_view local = query_->view(step.local), uri = query_->uri(step);
    for (uint32_t context : contexts.items)
        each_on_axis(step, context, [&](uint32_t at, uint32_t name) {
            if (at < found.index && names.local(name) == local && names.uri(name) != uri) found.index = at;
        });
    return found;
}

// The predicates of a step on one item, up to the first that is false.
std::vector<Reason> Explainer::conditions(uint32_t index, Item item, uint32_t context) {
    const Step& step = query_->step(index);
    std::vector<Reason> found;
    if (step.positional) {
        numbered_conditions(index, item, context, found);
        return found;
    }
    uint32_t bound = item.index;
    bool ordered = evaluator_.ordered_ && step.kind == StepKind::element;
    for (uint32_t expr = step.predicates; expr != no_entry; expr = query_->expr(expr).next) {
        found.push_back(ordered ? ordered_reason(expr, item.index, bound) : reason(expr, item, 1, 1));
        if (!found.back().holds) break;
    }
    return found;
}

// Each predicate numbers what the previous one left, so the group shrinks along the way.
void Explainer::numbered_conditions(uint32_t index, Item item, uint32_t context, std::vector<Reason>& out) {
    const Step& step = query_->step(index);
    std::vector<uint32_t> group = group_of(index, item, context);
    for (uint32_t expr = step.predicates; expr != no_entry; expr = query_->expr(expr).next) {
        uint32_t last = static_cast<uint32_t>(group.size()), position = 0, left = 0;
        while (group[position] != item.index) ++position;
        out.push_back(reason(expr, item, position + 1, last));
        if (!out.back().holds) return;
        for (uint32_t i = 0; i < last; ++i)
            if (evaluator_.check(expr, {step.kind, group[i]}, i + 1, last)) group[left++] = group[i];
        group.resize(left);
    }
}

// The group in which the item is numbered: the candidates of one context.
// With `//` before the step there are many contexts. It is the first in which the item survives, or the first that has it.
std::vector<uint32_t> Explainer::group_of(uint32_t index, Item item, uint32_t context) {
    const Step& step = query_->step(index);
    std::vector<uint32_t> groups;
    if (!step.gap || context == none) groups.push_back(context);
    uint32_t element = element_of(item);
    for (uint32_t at = context == none ? 0 : context; step.gap && at <= element; ++at)
        if (element < evaluator_.end_of(at)) groups.push_back(at);
    std::vector<uint32_t> first;
    for (uint32_t group : groups) {
        size_t base = evaluator_.survivors_.size();
        evaluator_.gather_axis(step, evaluator_.plan(index), group, none);
        std::vector<uint32_t> members(evaluator_.survivors_.begin() + static_cast<ptrdiff_t>(base), evaluator_.survivors_.end());
        evaluator_.survivors_.resize(base);
        if (!contains(members, item.index)) continue;
        if (survives(index, group, item.index)) return members;
        if (first.empty()) first = std::move(members);
    }
    return first;
}

// Whether the item passes all predicates of the step within this group.
bool Explainer::survives(uint32_t step, uint32_t group, uint32_t candidate) {
    std::vector<uint32_t>& survivors = evaluator_.survivors_;
    size_t base = survivors.size();
    evaluator_.gather(step, group);
    bool found = std::find(survivors.begin() + static_cast<ptrdiff_t>(base), survivors.end(), candidate) != survivors.end();
    survivors.resize(base);
    return found;
}

// Explains one condition. Only the parts that decide the result are listed.
Reason Explainer::reason(uint32_t index, Item item, uint32_t position, uint32_t last) {
    const Expr& expr = query_->expr(index);
    Reason made;
    made.expr = index;
    made.holds = evaluator_.check(index, item, position, last);
    switch (expr.kind) {
        case ExprKind::conjunction:
        case ExprKind::disjunction: {
            // For `and`: all parts, or the first that is false. For `or`: the first that is true, or all.
            bool all = made.holds == (expr.kind == ExprKind::conjunction);
            for (uint32_t part = expr.first; part != no_entry; part = query_->expr(part).next)
                if (all || evaluator_.check(part, item, position, last) == made.holds) {
                    made.parts.push_back(reason(part, item, position, last));
                    if (!all) break;
                }
            break;
        }
        case ExprKind::negation: made.parts.push_back(reason(expr.first, item, position, last)); break;
        case ExprKind::position:
        case ExprKind::position_last:
        case ExprKind::last:
            made.position = position;
            made.last = last;
            break;
        case ExprKind::term:
            // What is missing is often what the term requires; otherwise the term speaks for itself.
            if (!made.holds && expr.value != no_entry && !evaluator_.check(expr.value, item, position, last))
                made.parts.push_back(reason(expr.value, item, position, last));
            break;
        default: reason_of_paths(index, item, made);
    }
    return made;
}

// Nothing lies below an attribute or a text. Patterns never ask for it, but what a term requires may.
bool Explainer::leads_nowhere(const PathEntry& path, Item item) { return !path.absolute && path.first != no_entry && item.kind != StepKind::element; }

// Shows the items that made a condition true. If it is false, shows what was compared instead.
void Explainer::reason_of_paths(uint32_t index, Item item, Reason& out) {
    const Expr& expr = query_->expr(index);
    if (expr.kind == ExprKind::call) {
        Item first = evaluator_.first_item(query_->path(expr.first), item);
        if (first.index != none) out.items.push_back(first);
    } else {
        std::vector<Item> all;
        query_->each_path(expr.first, [&](uint32_t, const PathEntry& path) {
            if (path.first == no_entry) {
                all.push_back(item);
                return;
            }
            if (leads_nowhere(path, item)) return;
            Reached set = evaluator_.start_at(path.absolute ? none : item.index);
            evaluator_.walk(path.first, set);
            for (uint32_t found : set.items) all.push_back({set.kind, found});
        });
        if (out.holds && expr.kind == ExprKind::compare)
            std::erase_if(all, [&](Item found) { return !evaluator_.compare(expr, found); });
        std::sort(all.begin(), all.end(), [&](Item a, Item b) { return evaluator_.order(a) < evaluator_.order(b); });
        all.erase(std::unique(all.begin(), all.end()), all.end());
        if (all.size() > items_max) all.resize(items_max);
        out.items = std::move(all);
    }
    if (!out.holds && out.items.empty() && !blame_condition(expr, item, out)) blame_namespace(expr, item, out);
}

// Among the candidates of a step without positions, the first that satisfies the most predicates in a row.
uint32_t Explainer::nearest(uint32_t index, const std::vector<uint32_t>& candidates) {
    const Step& step = query_->step(index);
    uint32_t best = candidates.front(), most = 0;
    for (uint32_t candidate : candidates) {
        uint32_t holding = 0, expr = step.predicates;
        for (; expr != no_entry && evaluator_.check(expr, {step.kind, candidate}, 1, 1); expr = query_->expr(expr).next) ++holding;
        if (holding > most) best = candidate;
        most = std::max(most, holding);
    }
    return best;
}

// A path leads nowhere: is one of its own conditions the cause? Reports the element that satisfies most of them.
bool Explainer::blame_condition(const Expr& expr, Item item, Reason& out) {
    // In an ordered pattern a false condition may be a matter of order, which ordered_reason() explains.
    if (evaluator_.ordered_) return false;
    for (uint32_t at = expr.first; at != no_entry; at = query_->path(at).next) {
        const PathEntry& path = query_->path(at);
        if (path.first == no_entry || leads_nowhere(path, item)) continue;
        Climb way;
        climb(path.first, path.absolute ? Item{} : item, way);
        if (way.complete() || way.candidates.empty()) continue;
        uint32_t step = way.steps[way.sets.size() - 1];
        Item stopped{query_->step(step).kind, way.candidates.front()};
        if (!query_->step(step).positional) stopped.index = nearest(step, way.candidates);
        std::vector<Reason> found = conditions(step, stopped, context_of(step, way.sets.back(), stopped, false));
        if (found.empty() || found.back().holds) continue;
        out.items.push_back(stopped);
        out.parts.push_back(std::move(found.back()));
        return true;
    }
    return false;
}

// A path leads nowhere: is the only cause that a name is in another namespace?
void Explainer::blame_namespace(const Expr& expr, Item item, Reason& out) {
    for (uint32_t at = expr.first; at != no_entry; at = query_->path(at).next) {
        const PathEntry& path = query_->path(at);
        if (path.first == no_entry || leads_nowhere(path, item)) continue;
        Climb way;
        climb(path.first, path.absolute ? Item{} : item, way);
        if (way.complete() || !way.candidates.empty()) continue;
        uint32_t step = way.steps[way.sets.size() - 1];
        Item other = in_other_namespace(step, way.sets.back());
        if (other.index == none) continue;
        out.other_namespace = other;
        out.wanting = step;
        return;
    }
}

// The same in an ordered pattern; `bound` is the last witness so far.
Reason Explainer::ordered_reason(uint32_t index, uint32_t element, uint32_t& bound) {
    const Expr& expr = query_->expr(index);
    Reason made;
    made.expr = index;
    if (expr.kind == ExprKind::conjunction) {
        made.holds = true;
        for (uint32_t part = expr.first; part != no_entry && made.holds; part = query_->expr(part).next) {
            made.parts.push_back(ordered_reason(part, element, bound));
            made.holds = made.parts.back().holds;
        }
        if (!made.holds) made.parts.erase(made.parts.begin(), made.parts.end() - 1);
        return made;
    }
    uint32_t after = bound;
    made.holds = evaluator_.fits_condition(index, element, bound);
    if (made.holds && bound != after) {
        made.items.push_back({StepKind::element, bound});
        return made;
    }
    // Without the bound the condition holds: a witness exists, but too early.
    uint32_t free = element;
    if (!made.holds && evaluator_.fits_condition(index, element, free)) {
        made.out_of_order = true;
        made.items.push_back({StepKind::element, free});
        return made;
    }
    reason_of_paths(index, {StepKind::element, element}, made);
    return made;
}

}  // namespace treecast
