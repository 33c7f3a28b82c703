// for, where and order by: what is bound, as flat tuples of items, one per variable of the clauses in their order.
#include "render_build.hpp"

#include <algorithm>
#include <numeric>

namespace treecast {

namespace {
constexpr size_t kept_items_max = 1u << 21;      // 16 MiB
}

void Builder::flwr(uint32_t at) {
    const Op& op = program_->ops[at];
    size_t stack = stack_.size();
    Tuples found = tuples(op);
    if (found.count && op.binds) bound_any_ = true;
    for (size_t i = 0; i < found.count; ++i) {
        // What is made meanwhile may move both arrays.
        set_variables(op, (found.kept ? kept_ : stack_).data() + found.begin + i * op.count);
        run(at + 1);
    }
    stack_.resize(stack);
}

Builder::Tuples Builder::tuples(const Op& op) {
    bool shared = share_ && op.key != no_entry;
    uint64_t hash = 0;
    if (shared) {
        words_.assign(1, op.key);
        words_.insert(words_.end(), filled_.begin(), filled_.end());
        if (const Memo::Made* made = bound_.find(words_, hash)) return {true, made->begin, made->size};
    }
    ready();
    ++bound;
    size_t begin = stack_.size();
    tuples_ = 0;
    bind_clauses(all_->shape(op.shape).clauses, op);
    size_t count = tuples_;
    sort_tuples(op, begin);
    if (!shared || kept_.size() + count * op.count > kept_items_max) return {false, begin, count};
    Memo::Made made{kept_.size(), count, 0};
    kept_.insert(kept_.end(), stack_.begin() + static_cast<std::ptrdiff_t>(begin), stack_.end());
    stack_.resize(begin);
    bound_.keep(words_, hash, made);
    return {true, made.begin, made.size};
}

// Depth first through the clauses from this one on.
void Builder::bind_clauses(uint32_t at, const Op& op) {
    while (at != no_entry) {
        const Clause& clause = all_->clause(at);
        if (clause.kind == ClauseKind::where) {
            bool holds = evaluator.holds(clause.condition, variables_);
            check_work();
            if (!holds) return;
        }
        if (clause.kind == ClauseKind::each && clause.variable != no_entry) break;
        at = clause.next;
    }
    if (at == no_entry) {
        ++tuples_;
        for (uint32_t i = 0; i < op.count; ++i) stack_.push_back(variables_[program_->variables[op.first + i]]);
        return;
    }
    const Clause& clause = all_->clause(at);
    if (pool_used_ == pool_.size()) pool_.emplace_back();
    size_t level = pool_used_++;
    evaluator.select(clause.paths, variables_, pool_[level]);
    count_binding(pool_[level].size());
    for (size_t i = 0; i < pool_[level].size(); ++i) {
        variables_[clause.variable] = pool_[level][i];
        bind_clauses(clause.next, op);
    }
    --pool_used_;
}

void Builder::set_variables(const Op& op, const Item* tuple) {
    for (uint32_t i = 0; i < op.count; ++i) variables_[program_->variables[op.first + i]] = tuple[i];
}

void Builder::count_binding(uint64_t items) {
    bindings_ += items;
    check_work();
    if (bindings_ <= limits_.bindings_max) return;
    Failure failure(Family::document, "TC332", "more than " + std::to_string(limits_.bindings_max) +
                                                   " items are bound for one payload, the limit bindings_max");
    failure.limit = true;
    failure.hint = "raise it with DeliveryLimits(bindings_max=…), or bind less: conditions in brackets come first";
    throw failure;
}

void Builder::refuse_work() const {
    std::string each = std::to_string(limits_.bindings_max) + ", the limit bindings_max";
    Failure failure(Family::document, "TC332",
                    "this payload looks at more than " + std::to_string(looks_per_item) +
                        " items for each that is in the document or may be bound (" + each + ")");
    failure.limit = true;
    failure.hint = "raise it with DeliveryLimits(bindings_max=…), or look for less in each binding";
    throw failure;
}

// --- order by

void Builder::sort_tuples(const Op& op, size_t begin) {
    uint32_t clauses = all_->shape(op.shape).clauses, width = op.count;
    size_t keys_each = 0;
    all_->each_clause(clauses, [&](uint32_t, const Clause& clause) { keys_each += clause.kind == ClauseKind::order; });
    if (!keys_each || !width || tuples_ < 2) return;
    std::vector<SortKey> keys;
    keys.reserve(keys_each * tuples_);
    for (size_t i = 0; i < tuples_; ++i) {
        set_variables(op, stack_.data() + begin + i * width);
        all_->each_clause(clauses, [&](uint32_t, const Clause& clause) {
            if (clause.kind == ClauseKind::order) keys.push_back(sort_key(clause));
        });
    }
    std::vector<uint32_t> order(tuples_);
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
        for (size_t i = 0; i < keys_each; ++i) {
            const SortKey &left = keys[a * keys_each + i], &right = keys[b * keys_each + i];
            if (int relation = compare(left, right)) return left.clause->descending ? relation > 0 : relation < 0;
        }
        return false;
    });
    std::vector<Item> unsorted(stack_.begin() + static_cast<std::ptrdiff_t>(begin), stack_.end());
    for (size_t i = 0; i < tuples_; ++i)
        std::copy_n(unsorted.data() + size_t(order[i]) * width, width, stack_.data() + begin + i * width);
}

Builder::SortKey Builder::sort_key(const Clause& clause) {
    SortKey key;
    key.clause = &clause;
    if (clause.counts) {
        if (pool_used_ == pool_.size()) pool_.emplace_back();
        evaluator.select(clause.paths, variables_, pool_[pool_used_]);
        key.count = pool_[pool_used_].size();
        check_work();
        return key;
    }
    Item item;
    bool any = evaluator.first(clause.paths, variables_, item);
    check_work();
    if (!any) {
        key.none = !clause.strings;
        return key;
    }
    const Document& d = *document_;
    if (item.kind == StepKind::attribute) {
        key.value = d.value(d.attribute_value[item.index]);
    } else if (item.kind == StepKind::text) {
        key.value = d.value(d.text[item.index]);
    } else {
        key.text = item.index == none ? 0 : d.text_begin[item.index];
        key.text_end = item.index == none ? static_cast<uint32_t>(d.text.size()) : d.text_end[item.index];
    }
    return key;
}

// By code points, which is the order of the bytes of UTF-8. Elements are compared text by text: their values together might be
// many times the document.
int Builder::compare(const SortKey& a, const SortKey& b) {
    if (a.none || b.none) {
        if (a.none == b.none) return 0;
        return a.none != a.clause->empty_greatest ? -1 : 1;
    }
    if (a.clause->counts) return a.count < b.count ? -1 : a.count > b.count;
    std::string_view left = a.value, right = b.value;
    uint32_t left_text = a.text, right_text = b.text;
    for (;; ++evaluator.looked_at) {
        check_work();
        while (left.empty() && left_text < a.text_end) left = document_->value(document_->text[left_text++]);
        while (right.empty() && right_text < b.text_end) right = document_->value(document_->text[right_text++]);
        size_t common = std::min(left.size(), right.size());
        if (!common) return left.empty() ? (right.empty() ? 0 : -1) : 1;
        if (int relation = left.substr(0, common).compare(right.substr(0, common))) return relation;
        left.remove_prefix(common);
        right.remove_prefix(common);
    }
}

}  // namespace treecast
