// Paths and conditions of a transformation. They start at variables, whose items come with each question.
//
// One query is entered once per document and asked many times: for every binding of its variables.
#include "evaluate/evaluate.hpp"

#include <algorithm>

namespace treecast {

// Nothing is prepared yet: the caller knows which entries it will ask for.
void Evaluator::enter(const Query& query) {
    query_ = &query;
    ordered_ = false;
    cursors_.clear();
    survivors_.clear();
    slots_ = 0;
    settled_ = false;
    terms_query_ = nullptr;
    values_.forget_literals();
}

// New slots make the table of verdicts too small, so it is sized again before the next answer.
void Evaluator::prepare_entry(uint32_t entry, bool condition) {
    settled_ = false;
    if (condition) prepare_expr(entry, false, false);
    else prepare_paths(entry, false, false, true);
}

// Verdicts are about elements, no matter what led to them. So they hold from one question to the next.
void Evaluator::settle(Variables variables) {
    variables_ = variables;
    if (settled_) return;
    settled_ = true;
    size_table();
}

// Several paths form a union: sorted, and each item once.
void Evaluator::select(uint32_t paths, Variables variables, std::vector<Item>& out) {
    settle(variables);
    out.clear();
    query_->each_path(paths, [&](uint32_t, const PathEntry& path) { select_path(path, out); });
    if (query_->path(paths).next == no_entry) return;
    std::sort(out.begin(), out.end(), [this](Item a, Item b) { return order(a) < order(b); });
    out.erase(std::unique(out.begin(), out.end()), out.end());
}

// Uses the cheaper depth-first walk where it yields document order, and sets per step elsewhere.
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

// Goes depth first to everything that the steps lead to, for paths that meet items in document order.
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

// Each path of a union has its own first item; the earliest of them wins.
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

Terms::Result Evaluator::value(uint32_t term, Variables variables) {
    settle(variables);
    return terms_of(term).value(term, {});
}

void Evaluator::append_text(uint32_t term, Variables variables, std::string& out) {
    settle(variables);
    terms_of(term).string(term, {}, out);
}

void Evaluator::select_items(uint32_t term, Variables variables, std::vector<Item>& out) {
    settle(variables);
    out.clear();
    select_term(term, true, out);
}

// Conditions of clauses have no context item; their paths start at variables or at the document.
bool Evaluator::holds(uint32_t expr, Variables variables) {
    settle(variables);
    return check(expr, {}, 1, 1);
}

}  // namespace treecast
