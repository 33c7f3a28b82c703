// for and where: what is bound, as flat tuples of items, one item per variable of the clauses in their order.
//
// Tuples are gathered before anything is built, so that they can be sorted and shared.
#include "render/render_build.hpp"

#include <algorithm>

namespace treecast {

namespace {

constexpr size_t kept_items_max = 1u << 21;      // 16 MiB
// Limits the total width of tuples. Clauses that bind one item each make tuples wide, not many.
constexpr uint64_t items_per_binding = 8;
constexpr uint64_t items_at_least = 1u << 20;

}  // namespace

void Builder::flwr(uint32_t at) {
    const Op& op = program_->ops[at];
    size_t stack = stack_.size();
    Tuples found = tuples(op);
    if (found.count && op.binds) bound_any_ = true;
    for (size_t i = 0; i < found.count; ++i) {
        // Building may reallocate both arrays, so the tuple is found again each time.
        set_variables(op, (found.kept ? kept_ : stack_).data() + found.begin + i * op.count);
        run(at + 1);
    }
    stack_.resize(stack);
}

// Clauses that depend on no outer variable bind the same for all plans with this key, so they are evaluated once.
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

// Goes depth first through the clauses from this one on.
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
        if (stack_.size() + op.count > std::max(limits_.bindings_max * items_per_binding, items_at_least)) refuse_width();
        for (uint32_t i = 0; i < op.count; ++i) stack_.push_back(variables_[program_->variables[op.first + i]]);
        return;
    }
    const Clause& clause = all_->clause(at);
    // Each level has its own vector, reused from binding to binding.
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

void Builder::refuse_width() const {
    Failure failure(Family::document, "TC332",
                    "what this payload binds holds more than " + std::to_string(items_per_binding) +
                        " items for each that may be bound (" + std::to_string(limits_.bindings_max) + ", the limit bindings_max)");
    failure.limit = true;
    failure.hint = "raise it with DeliveryLimits(bindings_max=…), or bind fewer variables together";
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

}  // namespace treecast
