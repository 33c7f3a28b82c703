// Paths and conditions of a transformation: they start at variables, whose items come with each question.
#include "evaluate/evaluate.hpp"

#include <algorithm>

namespace treecast {

void Evaluator::enter(const Query& query) {
    query_ = &query;
    ordered_ = false;
    cursors_.clear();
    survivors_.clear();
    slots_ = 0;
    settled_ = false;
    values_.forget_literals();
}

void Evaluator::prepare_entry(uint32_t entry, bool condition) {
    settled_ = false;
    if (condition) prepare_expr(entry, false, false);
    else prepare_paths(entry, false, false, true);
}

// Verdicts are of elements, whatever led to them, so they hold from one question to the next.
void Evaluator::settle(Variables variables) {
    variables_ = variables;
    if (settled_) return;
    settled_ = true;
    size_table();
}

void Evaluator::select(uint32_t paths, Variables variables, std::vector<Item>& out) {
    settle(variables);
    out.clear();
    query_->each_path(paths, [&](uint32_t, const PathEntry& path) { select_path(path, out); });
    if (query_->path(paths).next == no_entry) return;
    std::sort(out.begin(), out.end(), [this](Item a, Item b) { return order(a) < order(b); });
    out.erase(std::unique(out.begin(), out.end()), out.end());
}

void Evaluator::select_path(const PathEntry& path, std::vector<Item>& out) {
    Item from = start_of(path, {});
    if (path.first == no_entry) {
        out.push_back(from);
    } else if (from.kind != StepKind::element) {
        return;
    } else if (in_document_order(path)) {
        descend(path.first, from.index, out);
    } else {
        reached_.kind = StepKind::element;
        reached_.items.assign(1, from.index);
        walk(path.first, reached_, reached_next_);
        for (uint32_t index : reached_.items) out.push_back({reached_.kind, index});
    }
}

// Depth first to everything that the steps lead to, for paths that meet it in document order.
void Evaluator::descend(uint32_t first_step, uint32_t context, std::vector<Item>& out) {
    auto base = static_cast<uint32_t>(cursors_.size());
    push_cursor(first_step, context, Want::all);
    while (cursors_.size() > base) {
        auto top = static_cast<uint32_t>(cursors_.size() - 1);
        if (advance(top) != Next::candidate) {
            pop_cursor();
            continue;
        }
        const Step& step = query_->step(cursors_[top].step);
        Item item{step.kind, cursors_[top].candidate};
        if (!step.positional && !check_predicates(step, item)) continue;
        if (step.next != no_entry) push_cursor(step.next, item.index, Want::all);
        else out.push_back(item);
    }
}

bool Evaluator::first(uint32_t paths, Variables variables, Item& out) {
    settle(variables);
    bool any = false;
    query_->each_path(paths, [&](uint32_t, const PathEntry& path) {
        Item found;
        if (!find_first(path, {}, found)) return;
        if (!any || order(found) < order(out)) out = found;
        any = true;
    });
    return any;
}

bool Evaluator::holds(uint32_t expr, Variables variables) {
    settle(variables);
    return check(expr, {}, 1, 1);
}

}  // namespace treecast
