// The Explainer's paths: sets of items forward, one per step, then one chain of items backward.
//
// Walking forward finds how far the query gets. Walking backward from one item finds the items that led to it.
// explain.hpp says what is explained, explain_condition.cpp what is said of conditions.
#include "evaluate/explain.hpp"

#include "document/characters.hpp"

#include <algorithm>

namespace treecast {

namespace {

bool has(const std::vector<uint32_t>& sorted, uint32_t item) {
    return std::binary_search(sorted.begin(), sorted.end(), item);
}

// The operands of an `and`, at any depth, as patterns list them too.
void flatten(const Query& query, uint32_t expr, std::vector<uint32_t>& out) {
    if (query.expr(expr).kind != ExprKind::conjunction) {
        out.push_back(expr);
        return;
    }
    query.each_expr(query.expr(expr).first, [&](uint32_t operand, const Expr&) { flatten(query, operand, out); });
}

void flatten_terms(const Query& query, uint32_t term, std::vector<uint32_t>& out) {
    if (query.term(term).kind != TermKind::conjunction) {
        out.push_back(term);
        return;
    }
    query.each_term(query.term(term).first, [&](uint32_t operand, const Term&) { flatten_terms(query, operand, out); });
}

bool goes_down(TermAxis axis) {
    return axis == TermAxis::child || axis == TermAxis::attribute || axis == TermAxis::descendant ||
           axis == TermAxis::descendant_or_self || axis == TermAxis::self;
}

}  // namespace

Explainer::Explainer(const Document& document, const Query& query, const Query& written, bool ordered, uint64_t steps)
    : document_(document), query_(query), written_(written), ordered_(ordered), steps_left_(steps), terms_(evaluator_) {
    evaluator_.begin(document);
    terms_.begin(document);
    if (!ordered) return;
    query.each_path(query.branches(), [&](uint32_t, const PathEntry& path) {
        query.each_step(path.first, [&](uint32_t, const Step& step) {
            query.each_expr(step.predicates, [&](uint32_t index, const Expr& expr) { expressions_[expr.source.begin] = index; });
        });
    });
}

// The answer, as `match` gives it.
Truth Explainer::decide(Explanation& out) {
    evaluator_.allow(steps_left_);
    try {
        return evaluator_.satisfies(query_, ordered_) ? Truth::yes : Truth::no;
    } catch (const OutOfWork& failure) {
        out.undecided = failure.code + " " + failure.message;
        return Truth::undecided;
    }
}

// A complete branch beats an incomplete one. Of two complete ones, the earlier item wins; otherwise the longer prefix.
Explanation Explainer::explain() {
    Explanation result;
    result.matched = decide(result);
    if (ordered_) evaluator_.open_ordered(query_);
    terms_.open(written_);
    within([&] { terms_.table(); });
    const uint32_t root = written_.selection();
    const Term& whole = written_.term(root);
    result.branch = whole.source;
    if (whole.type != TermType::items) {             // a condition of the document: shown at its root element
        StepReason step;
        step.item = table().of_element(0);
        step.conditions.push_back(condition(root, {}));
        if (result.matched != Truth::undecided) step.conditions[0].holds = result.matched;
        if (result.matched == Truth::no) {
            result.miss = std::make_unique<Miss>();
            result.miss->kind = Miss::Kind::condition;
            result.miss->item = step.item;
        }
        result.steps.push_back(std::move(step));
        return result;
    }
    Climb best;
    uint32_t best_branch = no_term;
    const bool is_union = whole.kind == TermKind::union_;
    for (uint32_t branch = is_union ? whole.first : root; branch != no_term; branch = is_union ? written_.term(branch).next : no_term) {
        Climb now;
        now.is_ordered = ordered_;
        climb(branch, now);
        bool better = best_branch == no_term;
        if (!better && now.complete() && best.complete()) better = now.sets.back().front() < best.sets.back().front();
        else if (!better) better = now.complete() || (!best.complete() && now.reached() > best.reached());
        if (!better) continue;
        best = std::move(now);
        best_branch = branch;
    }
    result.branch = written_.term(best_branch).source;
    describe(best_branch, best, result);
    return result;
}

size_t Explainer::Climb::reached() const {
    const size_t passed = sets.size() - 1 + (candidates.empty() ? 0 : 1);
    return static_cast<size_t>(std::count_if(stages.begin(), stages.begin() + static_cast<ptrdiff_t>(passed),
                                             [](const Stage& stage) { return !stage.is_hidden; }));
}

// What a path in parentheses leads to is a part of the path around it: (//a/b)[2]/c has four stages.
void Explainer::find_stages(uint32_t path, Climb& out) const {
    const Term& term = written_.term(path);
    if (term.first != no_term) {
        if (written_.term(term.first).kind == TermKind::path) find_stages(term.first, out);
        else out.stages.push_back({Stage::Kind::items, term.first, term.predicates != no_term});
    }
    if (term.predicates != no_term) out.stages.push_back({Stage::Kind::filter, path, false});
    written_.each_term_step(term.steps, [&](uint32_t index, const TermStep& step) {
        const bool stays = step.axis == TermAxis::self && step.test == TermTest::any_item && step.predicates == no_term;
        out.stages.push_back({Stage::Kind::step, index, stays || !step.source.size});
    });
}

bool Explainer::is_absolute(uint32_t path) const {
    const Term& term = written_.term(path);
    return term.first != no_term && written_.term(term.first).kind == TermKind::path ? is_absolute(term.first) : term.absolute;
}

// Walks a path until a stage leads nowhere, and keeps every set on the way: the chain is found in them later.
void Explainer::climb(uint32_t path, Climb& out) {
    find_stages(path, out);
    const uint32_t start = is_absolute(path) ? 0 : out.context.item;
    out.sets.push_back({start});
    if (out.is_ordered) out.bounds.push_back({{start, start}});
    while (!out.complete()) {
        Set next;
        const bool is_known = within([&] { walk(out, next); });
        if (!is_known) out.is_undecided = true;
        if (!is_known || next.empty()) {
            if (!within([&] { candidates(out, next); })) next.clear();
            out.candidates = std::move(next);
            return;
        }
        out.sets.push_back(std::move(next));
    }
}

// What the next stage leads to.
void Explainer::walk(Climb& climb, Set& out) {
    const Stage& stage = climb.stages[climb.sets.size() - 1];
    const Set& from = climb.sets.back();
    if (climb.is_ordered) {
        walk_ordered(climb, out);
        return;
    }
    switch (stage.kind) {
        case Stage::Kind::items: terms_.items(stage.index, climb.context, out); return;
        case Stage::Kind::step: terms_.step(stage.index, from, out); return;
        case Stage::Kind::filter: {
            const uint32_t predicates = written_.term(stage.index).predicates;
            bool positional = false;
            written_.each_term(predicates, [&](uint32_t at, const Term&) { positional |= is_positional(at); });
            out = from;
            terms_.filter(predicates, out, positional);
            return;
        }
    }
}

// Of an ordered pattern. Each item has a bound, after which the next witness must start. What no tag starts has no order.
void Explainer::walk_ordered(Climb& climb, Set& out) {
    const Stage& stage = climb.stages[climb.sets.size() - 1];
    const TermStep& step = written_.term_step(stage.index);
    std::map<uint32_t, uint32_t> bounds;
    candidates(climb, out);
    if (stage.is_hidden) {
        Set reached;
        for (uint32_t context : climb.sets.back()) {
            terms_.candidates(stage.index, {context}, reached);
            for (uint32_t item : reached) {
                auto [found, is_new] = bounds.emplace(item, climb.bounds.back()[context]);
                found->second = std::min(found->second, climb.bounds.back()[context]);
            }
        }
    } else {
        std::erase_if(out, [&](uint32_t item) {
            uint32_t bound = item;
            for (uint32_t at = step.predicates; at != no_term; at = written_.term(at).next)
                if (!passes_ordered(at, item, bound)) return true;
            bounds[item] = bound;
            return false;
        });
    }
    if (!out.empty()) climb.bounds.push_back(std::move(bounds));
}

// A predicate that patterns have made part of a name test is no branch.
bool Explainer::passes_ordered(uint32_t predicate, uint32_t item, uint32_t& bound) {
    const auto expr = expressions_.find(bracketed(predicate).begin);
    if (expr == expressions_.end() || terms_.table().kind(item) != ItemKind::element) return terms_.passes(predicate, {item, 1, 1});
    uint32_t last = terms_.table().index(bound);
    if (!evaluator_.fits_condition(expr->second, terms_.table().index(item), last)) return false;
    bound = terms_.table().of_element(last);
    return true;
}

// What passes the test of the next stage, whatever its predicates say.
void Explainer::candidates(Climb& climb, Set& out) {
    const Stage& stage = climb.stages[climb.sets.size() - 1];
    const Set& from = climb.sets.back();
    out.clear();
    if (stage.kind == Stage::Kind::filter) out = from;
    if (stage.kind != Stage::Kind::step) return;
    terms_.candidates(stage.index, from, out);
    if (!climb.is_ordered || stage.is_hidden) return;
    Set reached, found;
    for (uint32_t context : from) {
        terms_.candidates(stage.index, {context}, reached);
        for (uint32_t item : reached)
            if (terms_.table().kind(item) != ItemKind::element || item > climb.bounds.back()[context]) found.push_back(item);
    }
    std::erase_if(out, [&](uint32_t item) { return std::find(found.begin(), found.end(), item) == found.end(); });
}

// The last stage that was reached may be one whose candidates all failed their predicates; it is described as well.
void Explainer::describe(uint32_t path, const Climb& climb, Explanation& out) {
    const size_t passed = climb.sets.size() - 1, depth = passed + (climb.candidates.empty() ? 0 : 1);
    const uint32_t item = depth > passed ? climb.candidates.front() : climb.sets.back().front();
    const std::vector<uint32_t> chain = trace(climb, depth, item);
    for (size_t i = 0; i < depth; ++i) {
        if (climb.stages[i].is_hidden || chain[i + 1] == none) continue;
        StepReason step;
        step.step = source_of(climb.stages[i]);
        step.item = chain[i + 1];
        step.conditions = conditions(climb, i, chain[i + 1], chain[i]);
        out.steps.push_back(std::move(step));
    }
    if (climb.is_undecided) {
        if (out.undecided.empty()) out.undecided = "TC340 the reasons take more steps than work_per_item_max allows for this document";
        return;
    }
    if (!climb.complete() && out.matched != Truth::yes) {
        out.miss = std::make_unique<Miss>(stop(climb));
    } else if (out.steps.empty()) {                   // a path without steps, such as /
        out.steps.emplace_back();
        out.steps.back().step = written_.term(path).source;
        out.steps.back().item = item;
    }
}

// Builds the chain: one item per stage, each of which led to the next. The last item is given.
std::vector<uint32_t> Explainer::trace(const Climb& climb, size_t depth, uint32_t item) {
    std::vector<uint32_t> chain(depth + 1, none);
    chain[depth] = item;
    for (size_t i = depth; i > 0 && chain[i] != none; --i) chain[i - 1] = context_of(climb, i - 1, chain[i]);
    return chain;
}

// The first item from which a stage leads to `item`; none if that takes too long. What is a candidate of several items and
// counts positions has to survive: only the stage that stopped the path is asked without its predicates.
uint32_t Explainer::context_of(const Climb& climb, size_t index, uint32_t item) {
    const Stage& stage = climb.stages[index];
    const Set& from = climb.sets[index];
    if (stage.kind == Stage::Kind::filter) return item;
    if (stage.kind == Stage::Kind::items) return from.front();
    const TermStep& step = written_.term_step(stage.index);
    const bool survives = step.positional && index + 1 < climb.sets.size();
    Set contexts = from, reached;
    if (goes_down(step.axis))
        std::erase_if(contexts, [&](uint32_t context) { return context != item && !table().is_below(item, context); });
    const bool is_known = within([&] {
        auto leads = [&](const Set& some) {
            if (survives) terms_.step(stage.index, some, reached);
            else terms_.candidates(stage.index, some, reached);
            return has(reached, item);
        };
        if (climb.is_ordered) {
            const bool has_order = !stage.is_hidden && table().kind(item) == ItemKind::element;
            std::erase_if(contexts, [&](uint32_t at) { return has_order && item <= climb.bounds[index].at(at); });
        }
        // More contexts lead to more items, so the first that is needed can be searched for.
        size_t low = 0, high = contexts.size();
        while (low + 1 < high) {
            const size_t middle = (low + high) / 2;
            if (leads(Set(contexts.begin(), contexts.begin() + static_cast<ptrdiff_t>(middle)))) high = middle;
            else low = middle;
        }
        contexts = {contexts[low]};
    });
    return is_known ? contexts.front() : none;
}

// Names the most useful cause: a false condition, a wrong order, a wrong namespace, a wrong name, or simply nothing there.
Miss Explainer::stop(const Climb& climb) {
    const Stage& stage = climb.stages[climb.sets.size() - 1];
    const Set& from = climb.sets.back();
    Miss miss;
    miss.step = source_of(stage);
    if (climb.reached()) miss.item = climb.candidates.empty() ? from.front() : climb.candidates.front();
    if (!climb.candidates.empty()) miss.kind = Miss::Kind::condition;
    if (!climb.candidates.empty() || stage.kind != Stage::Kind::step) return miss;
    const TermStep& step = written_.term_step(stage.index);
    miss.goes_down = goes_down(step.axis);
    miss.uri = written_.uri(step);
    Set early;
    if (climb.is_ordered && within([&] { terms_.candidates(stage.index, from, early); }) && !early.empty()) {
        miss.kind = Miss::Kind::order;
        miss.other = early.front();
        return miss;
    }
    if (step.test != TermTest::name) return miss;
    miss.is_attribute = step.axis == TermAxis::attribute;
    if (!occurs(step)) {
        miss.unknown = view(step.local);
        return miss;
    }
    miss.other = in_other_namespace(stage.index, from);
    if (miss.other != none) miss.kind = Miss::Kind::name_space;
    return miss;
}

// Finds something with the right local name in a wrong namespace: the most common mistake in queries.
uint32_t Explainer::in_other_namespace(uint32_t index, const Set& contexts) {
    const TermStep& step = written_.term_step(index);
    const NameTable& names = *document_.names;
    Set all;
    if (!within([&] { terms_.all_on_axis(index, contexts, all); })) return none;
    for (uint32_t item : all) {
        const uint32_t at = table().index(item);
        const uint32_t name = step.axis == TermAxis::attribute ? document_.attribute_name[at] : document_.name[at];
        if (names.local(name) == view(step.local) && names.uri(name) != written_.uri(step)) return item;
    }
    return none;
}

// Whether anything in the document has the local name of the step, in any namespace.
bool Explainer::occurs(const TermStep& step) const {
    const auto& all = step.axis == TermAxis::attribute ? document_.attribute_name : document_.name;
    for (size_t at = 0; at < all.size(); ++at)
        if (document_.names->local(all[at]) == view(step.local)) return true;
    return false;
}

bool Explainer::is_positional(uint32_t predicate) const {
    const Term& term = written_.term(predicate);
    return term.type == TermType::number || term.uses_position;
}

// The predicates of a stage on one item, up to the first that does not hold.
std::vector<Reason> Explainer::conditions(const Climb& climb, size_t index, uint32_t item, uint32_t context) {
    const Stage& stage = climb.stages[index];
    if (stage.kind == Stage::Kind::items) return {};
    if (stage.kind == Stage::Kind::filter) return numbered_conditions(written_.term(stage.index).predicates, climb.sets[index], item);
    const TermStep& step = written_.term_step(stage.index);
    if (step.positional) {
        Set group;
        if (context == none || !within([&] { terms_.members(stage.index, context, group); })) return {};
        return numbered_conditions(step.predicates, std::move(group), item);
    }
    std::vector<Reason> found;
    uint32_t bound = item;
    for (uint32_t at = step.predicates; at != no_term; at = written_.term(at).next) {
        found.push_back(climb.is_ordered ? ordered_predicate(at, item, bound) : predicate(at, {item, 1, 1}));
        if (found.back().holds != Truth::yes) break;
    }
    return found;
}

// Each predicate numbers what the previous one left, so the group shrinks along the way.
std::vector<Reason> Explainer::numbered_conditions(uint32_t predicates, Set group, uint32_t item) {
    std::vector<Reason> found;
    for (uint32_t at = predicates; at != no_term; at = written_.term(at).next) {
        const auto place = static_cast<uint32_t>(std::find(group.begin(), group.end(), item) - group.begin());
        const auto last = static_cast<uint32_t>(group.size());
        found.push_back(predicate(at, {item, place + 1, last}));
        if (found.back().holds != Truth::yes) break;
        const bool is_known = within([&] {
            uint32_t position = 0;
            std::erase_if(group, [&](uint32_t other) { return !terms_.passes(at, {other, ++position, last}); });
        });
        if (!is_known) break;
    }
    return found;
}

// In an ordered pattern each part of an `and` is a branch. `bound` is the last witness so far.
Reason Explainer::ordered_predicate(uint32_t predicate, uint32_t item, uint32_t& bound) {
    const auto expr = expressions_.find(bracketed(predicate).begin);
    if (expr == expressions_.end() || table().kind(item) != ItemKind::element) return this->predicate(predicate, {item, 1, 1});
    std::vector<uint32_t> terms, exprs;
    flatten_terms(written_, predicate, terms);
    flatten(query_, expr->second, exprs);
    Reason made;
    for (size_t i = 0; i < terms.size() && i < exprs.size(); ++i) {
        made.parts.push_back(ordered_condition(terms[i], exprs[i], item, bound));
        made.holds = made.parts.back().holds;
        if (made.holds != Truth::yes) break;
    }
    if (terms.size() == 1) {
        made = std::move(made.parts.front());
    } else {
        made.kind = Reason::Kind::conjunction;
        if (made.holds != Truth::yes) made.parts.erase(made.parts.begin(), made.parts.end() - 1);
    }
    made.source = bracketed(predicate);
    return made;
}

// A step with the slashes before it, or what stands in parentheses.
Slice Explainer::source_of(const Stage& stage) const {
    const std::string_view all = written_.written();
    if (stage.kind == Stage::Kind::items) return written_.term(stage.index).source;
    Slice source;
    uint32_t end;
    if (stage.kind == Stage::Kind::filter) {
        const Term& term = written_.term(stage.index);
        source = term.source;
        end = bracketed(term.predicates).begin;
        while (is_space(all[end - 1])) --end;
    } else {
        source = written_.term_step(stage.index).source;
        end = source.end();
    }
    while (source.begin > 0 && (all[source.begin - 1] == '/' || is_space(all[source.begin - 1]))) --source.begin;
    while (is_space(all[source.begin])) ++source.begin;
    source.size = end - source.begin;
    return source;
}

// A predicate with its brackets.
Slice Explainer::bracketed(uint32_t predicate) const {
    const std::string_view all = written_.written();
    Slice source = written_.term(predicate).source;
    const size_t end = all.find(']', source.end()) + 1;
    source.begin = static_cast<uint32_t>(all.rfind('[', source.begin));
    source.size = static_cast<uint32_t>(end - source.begin);
    return source;
}

}  // namespace treecast
