// Finds everything that a path leads to: one set of items per step, in document order and without duplicates.
//
// Sets are used instead of cursors where all items are wanted: no item is visited twice, however many contexts lead to it.
#include "evaluate/evaluate.hpp"

#include <algorithm>

namespace treecast {

void Evaluator::select(const Query& query, bool ordered, std::vector<Item>& out) {
    open(query, ordered);
    out.clear();
    if (query.selection() != no_term) return select_term(query.selection(), false, out);
    Reached set;
    for (uint32_t branch = query.branches(); branch != no_entry; branch = query.path(branch).next) {
        set = start_at(none);
        walk(query.path(branch).first, set);
        for (uint32_t index : set.items) out.push_back({set.kind, index});
    }
    // A single branch is already sorted and unique.
    if (query.path(query.branches()).next == no_entry) return;
    std::sort(out.begin(), out.end(), [this](Item a, Item b) { return order(a) < order(b); });
    out.erase(std::unique(out.begin(), out.end()), out.end());
}

// Comments and instructions are no items of a delivery: check_delivered has refused them.
void Evaluator::select_term(uint32_t term, bool with_document, std::vector<Item>& out) {
    Terms& terms = terms_of(term);
    const ItemTable& table = terms.table();
    Terms::Set set;
    terms.items(term, {}, set);
    for (uint32_t item : set) {
        uint32_t index = table.index(item);
        switch (table.kind(item)) {
            case ItemKind::element: out.push_back({StepKind::element, index}); break;
            case ItemKind::attribute: out.push_back({StepKind::attribute, index}); break;
            case ItemKind::text: out.push_back({StepKind::text, index}); break;
            case ItemKind::document:
                if (with_document) out.push_back({});
                break;
            default: break;
        }
    }
}

// Alternates between two sets, so that no step allocates.
void Evaluator::walk(uint32_t first_step, Reached& set) {
    Reached next;
    walk(first_step, set, next);
}

void Evaluator::walk(uint32_t first_step, Reached& set, Reached& next) {
    for (uint32_t step = first_step; step != no_entry && !set.items.empty(); step = query_->step(step).next) {
        walk_step(step, set, next);
        std::swap(set, next);
    }
}

// Collects the candidates of a step, then keeps those that satisfy its predicates.
// In ordered patterns each survivor also carries the bound that the next step must come after.
void Evaluator::walk_step(uint32_t step_index, const Reached& contexts, Reached& out) {
    const Step& step = query_->step(step_index);
    out.kind = step.kind;
    out.bounds.clear();
    collect(step_index, contexts, out.items);
    if (step.positional) return;   // its predicates have been asked
    size_t left = 0;
    for (size_t i = 0; i < out.items.size(); ++i) {
        uint32_t index = out.items[i], bound = index;
        bool branches = ordered_ && step.kind == StepKind::element;
        if (!(branches ? fits_branches(step_index, index, bound) : check_predicates(step, {step.kind, index}))) continue;
        out.items[left++] = index;
        if (ordered_) out.bounds.push_back(bound);
    }
    out.items.resize(left);
}

// Collects the candidates of a step from all contexts.
void Evaluator::collect(uint32_t step_index, const Reached& contexts, std::vector<uint32_t>& out) {
    const Step& step = query_->step(step_index);
    out.clear();
    bool descends = step.axis == Axis::descendant || step.axis == Axis::descendant_or_self;
    // What is below a context was collected with it. But positions on the descendant axis are counted from each context.
    bool covers = step.gap || (descends && !step.positional);
    uint32_t covered = 0;
    for (size_t i = 0; i < contexts.items.size(); ++i) {
        uint32_t context = contexts.items[i], from = 0;
        bool bounded = ordered_ && step.kind == StepKind::element;
        if (bounded) from = contexts.bounds[i] + 1;   // of the document, none + 1: no bound
        else if (covers && context != none && context < covered) continue;
        covered = std::max(covered, end_of(context));
        uint32_t cursor = static_cast<uint32_t>(cursors_.size());
        push_cursor(step_index, context, Want::all, from);
        while (advance(cursor) == Next::candidate) out.push_back(cursors_[cursor].candidate);
        pop_cursor();
    }
    // Contexts are in document order, but children of nested contexts are not.
    if (!std::is_sorted(out.begin(), out.end())) std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
}

// The first item that a path in a predicate selects. Its index is `none` if there is nothing.
Evaluator::Item Evaluator::first_item(const PathEntry& path, Item item) {
    Item found;
    find_first(path, item, found);
    return found;
}

// Depth first can stop at the first item if it meets items in document order. Otherwise all candidates compete.
bool Evaluator::find_first(const PathEntry& path, Item item, Item& found) {
    Item from = start_of(path, item);
    if (path.first == no_entry) {
        found = from;
        return true;
    }
    if (from.kind != StepKind::element) return false;
    if (!ordered_)
        return in_document_order(path) ? reaches(path.first, from.index, no_entry, &found)
                                       : first_of_all(path.first, from.index, found);
    Reached set = start_at(from.index);
    walk(path.first, set);
    if (set.items.empty()) return false;
    found = {set.kind, set.items.front()};
    return true;
}

// Whether going depth first meets the items in document order: no step descends from contexts that may be nested.
bool Evaluator::in_document_order(const PathEntry& path) const {
    for (uint32_t at = path.first; at != no_entry; at = query_->step(at).next) {
        const Step& step = query_->step(at);
        bool deep = step.gap || step.axis == Axis::descendant || step.axis == Axis::descendant_or_self;
        if (deep && (step.next != no_entry || (step.gap && step.positional))) return false;
    }
    return true;
}

}  // namespace treecast
