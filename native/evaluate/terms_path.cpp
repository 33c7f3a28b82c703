// Paths of terms: sets of items, step by step.
#include "evaluate/evaluate.hpp"
#include "evaluate/terms.hpp"

#include <algorithm>

namespace treecast {

namespace {

void sort_set(Terms::Set& set) {
    if (!std::is_sorted(set.begin(), set.end())) std::sort(set.begin(), set.end());
    set.erase(std::unique(set.begin(), set.end()), set.end());
}

}  // namespace

// Resolved once per document: tests compare numbers.
uint32_t Terms::name_of(uint32_t index) {
    StepPlan& plan = step_plans_[index];
    if (plan.stamp != stamp_) {
        const TermStep& step = query_->term_step(index);
        plan.stamp = stamp_;
        plan.name = none;
        if (step.test == TermTest::name) plan.name = document_->names->find(query_->uri(step), query_->view(step.local));
        if (step.test == TermTest::any_namespace) plan.name = document_->names->find_uri(query_->uri(step));
    }
    return plan.name;
}

bool Terms::fits(const TermStep& step, uint32_t name, uint32_t item) const {
    const ItemKind kind = table_.kind(item);
    const ItemKind principal = step.axis == TermAxis::attribute ? ItemKind::attribute : ItemKind::element;
    auto own = [&] {
        return kind == ItemKind::element ? document_->name[table_.index(item)] : document_->attribute_name[table_.index(item)];
    };
    switch (step.test) {
        case TermTest::any: return kind == principal;
        case TermTest::name: return kind == principal && own() == name;
        case TermTest::any_namespace: return kind == principal && document_->names->uri_id(own()) == name;
        case TermTest::text: return kind == ItemKind::text;
        case TermTest::any_item: return true;
        case TermTest::comment: return kind == ItemKind::comment;
        case TermTest::instruction:
            return kind == ItemKind::instruction && (!step.has_target || table_.target(item) == query_->view(step.local));
    }
    return false;
}

void Terms::path(const Term& term, const Context& context, Set& out) {
    table();
    out.clear();
    if (term.variable != no_term) out.push_back(variables_[term.variable]);
    else if (term.first != no_term) items(term.first, context, out);
    else out.push_back(term.absolute ? 0 : context.item);
    if (term.predicates != no_term) {
        bool positional = false;
        query_->each_term(term.predicates, [&](uint32_t, const Term& p) { positional |= p.type == TermType::number || p.uses_position; });
        filter(term.predicates, out, positional);
    }
    Set next;
    for (uint32_t at = term.steps; at != no_term && !out.empty(); at = query_->term_step(at).next) {
        step(at, out, next);
        out.swap(next);
    }
}

bool Terms::first_item(const Term& term, const Context& context, uint32_t& out) {
    if (term.absolute || term.first != no_term || term.variable != no_term || term.predicates != no_term) return false;
    table();
    out = context.item;
    if (term.steps == no_term) return true;
    const TermStep& step = query_->term_step(term.steps);
    const bool is_near = step.axis == TermAxis::child || step.axis == TermAxis::attribute || step.axis == TermAxis::self || step.axis == TermAxis::parent;
    if (!is_near || step.next != no_term || step.predicates != no_term) return false;
    const uint32_t name = name_of(term.steps);
    const bool is_named = step.test == TermTest::name || step.test == TermTest::any_namespace;
    out = none;
    if (is_named && name == none) return true;
    const uint32_t item = context.item;
    const bool below = step.axis == TermAxis::child, beside = step.axis == TermAxis::attribute;
    uint32_t at = below ? table_.content(item) : beside ? item + 1 : step.axis == TermAxis::self ? item : item ? table_.parent(item) : none;
    const uint32_t end = below ? table_.end(item) : beside ? table_.content(item) : at == none ? at : at + 1;
    uint64_t looked = 1;
    for (; at < end && out == none; at = below ? table_.end(at) : at + 1, ++looked)
        if (fits(step, name, at)) out = at;
    spend(looked);
    return true;
}

// Whether a set has anything in it. The last step of a plain path ends at its first item.
bool Terms::has(uint32_t index, const Context& context) {
    return !value(index, context).items.empty();
}

void Terms::step(uint32_t index, const Set& contexts, Set& out) {
    const TermStep& step = query_->term_step(index);
    if (step.positional) {
        out.clear();
        if (has_name(index)) step_by_context(index, contexts, out);
        return;
    }
    candidates(index, contexts, out);
    if (step.predicates != no_term) filter(step.predicates, out, false);
}

void Terms::candidates(uint32_t index, const Set& contexts, Set& out) {
    out.clear();
    if (has_name(index) && !contexts.empty()) step_all(query_->term_step(index), name_of(index), contexts, out);
}

void Terms::all_on_axis(uint32_t index, const Set& contexts, Set& out) {
    TermStep step = query_->term_step(index);
    step.test = TermTest::any;
    out.clear();
    if (!contexts.empty()) step_all(step, none, contexts, out);
}

void Terms::members(uint32_t index, uint32_t context, Set& out) {
    const TermStep& step = query_->term_step(index);
    const uint32_t name = name_of(index);
    out.clear();
    uint64_t looked = 1;
    each_on_axis(step.axis, context, [&](uint32_t item) {
        ++looked;
        if (fits(step, name, item)) out.push_back(item);
    });
    spend(looked);
}

// Whether the document has the name that a step asks for, if it asks for one.
bool Terms::has_name(uint32_t index) {
    const TermTest test = query_->term_step(index).test;
    return (test != TermTest::name && test != TermTest::any_namespace) || name_of(index) != none;
}

// Positions count along the axis, for each context by itself.
void Terms::step_by_context(uint32_t index, const Set& contexts, Set& out) {
    const TermStep& step = query_->term_step(index);
    Set found;
    for (uint32_t context : contexts) {
        members(index, context, found);
        filter(step.predicates, found, true);
        out.insert(out.end(), found.begin(), found.end());
    }
    sort_set(out);
}

// Predicates one after the other, each on what the one before has left.
void Terms::filter(uint32_t predicates, Set& items, bool positional) {
    for (uint32_t at = predicates; at != no_term && !items.empty(); at = query_->term(at).next) {
        const Term& predicate = query_->term(at);
        if (positional && predicate.kind == TermKind::number) {          // [2]
            double wanted = query_->value(predicate.value).number;
            bool exists = wanted >= 1 && wanted <= static_cast<double>(items.size()) && wanted == static_cast<uint32_t>(wanted);
            if (exists) items = {items[static_cast<uint32_t>(wanted) - 1]};
            else items.clear();
            continue;
        }
        auto last = static_cast<uint32_t>(items.size());
        size_t left = 0;
        for (uint32_t i = 0; i < last; ++i)
            if (passes(at, {items[i], i + 1, last})) items[left++] = items[i];
        spend(last);
        items.resize(left);
    }
}

bool Terms::passes(uint32_t predicate, const Context& context) {
    if (query_->term(predicate).type == TermType::number) return number(predicate, context) == context.position;
    return truth(predicate, context);
}

// In the order of the axis: reverse axes lead away from the context.
template <class Visit>
void Terms::each_on_axis(TermAxis axis, uint32_t item, Visit&& visit) {
    const ItemTable& t = table_;
    auto is_item = [&](uint32_t at) { return t.kind(at) != ItemKind::attribute; };
    switch (axis) {
        case TermAxis::self: visit(item); return;
        case TermAxis::child:
            for (uint32_t at = t.content(item); at < t.end(item); at = t.end(at)) visit(at);
            return;
        case TermAxis::attribute:
            for (uint32_t at = item + 1; at < t.content(item); ++at) visit(at);
            return;
        case TermAxis::descendant_or_self: visit(item); [[fallthrough]];
        case TermAxis::descendant:
            for (uint32_t at = t.content(item); at < t.end(item); ++at)
                if (is_item(at)) visit(at);
            return;
        case TermAxis::parent:
            if (item) visit(t.parent(item));
            return;
        case TermAxis::ancestor_or_self: visit(item); [[fallthrough]];
        case TermAxis::ancestor:
            while (item) visit(item = t.parent(item));
            return;
        case TermAxis::following:
            for (uint32_t at = t.end(item); at < t.size(); ++at)
                if (is_item(at)) visit(at);
            return;
        case TermAxis::preceding:
            for (uint32_t at = item; at-- > 1;)
                if (is_item(at) && t.end(at) <= item) visit(at);
            return;
        case TermAxis::following_sibling:
            if (!item || !is_item(item)) return;
            for (uint32_t at = t.end(item); at < t.end(t.parent(item)); at = t.end(at)) visit(at);
            return;
        case TermAxis::preceding_sibling: {
            if (!item || !is_item(item)) return;
            Set before;
            for (uint32_t at = t.content(t.parent(item)); at < item; at = t.end(at)) before.push_back(at);
            for (size_t i = before.size(); i-- > 0;) visit(before[i]);
        }
    }
}

void Terms::add_range(const TermStep& step, uint32_t name, uint32_t begin, uint32_t end, Set& out) {
    for (uint32_t at = begin; at < end; ++at)
        if (table_.kind(at) != ItemKind::attribute && fits(step, name, at)) out.push_back(at);
    spend(end > begin ? end - begin : 0);
}

// A whole set at once. What one context shares with another is looked at once.
void Terms::step_all(const TermStep& step, uint32_t name, const Set& contexts, Set& out) {
    const ItemTable& t = table_;
    auto new_walk = [&] {
        if (marks_.size() < t.size()) marks_.resize(t.size(), 0);
        if (++walk_ == 0) {
            std::fill(marks_.begin(), marks_.end(), 0);
            walk_ = 1;
        }
    };
    auto is_new = [&](uint32_t item) { return marks_[item] != walk_ && (marks_[item] = walk_); };
    switch (step.axis) {
        case TermAxis::descendant:
        case TermAxis::descendant_or_self: {
            uint32_t covered = 0;
            for (uint32_t context : contexts) {
                bool attribute = t.kind(context) == ItemKind::attribute;
                bool self = step.axis == TermAxis::descendant_or_self;
                if (self && (attribute || context >= covered) && fits(step, name, context)) out.push_back(context);
                if (attribute || context < covered) continue;
                add_range(step, name, t.content(context), t.end(context), out);
                covered = t.end(context);
            }
            spend(contexts.size());
            sort_set(out);
            return;
        }
        case TermAxis::following: {
            uint32_t begin = t.size();
            for (uint32_t context : contexts) begin = std::min(begin, t.end(context));
            add_range(step, name, begin, t.size(), out);
            return;
        }
        case TermAxis::preceding: {
            uint64_t looked = contexts.back();
            for (uint32_t at = 1; at < contexts.back(); ++at)
                if (t.kind(at) != ItemKind::attribute && t.end(at) <= contexts.back() && fits(step, name, at)) out.push_back(at);
            spend(looked);
            return;
        }
        case TermAxis::ancestor:
        case TermAxis::ancestor_or_self: {
            new_walk();
            uint64_t looked = contexts.size();
            for (uint32_t context : contexts) {
                if (step.axis == TermAxis::ancestor_or_self && is_new(context) && fits(step, name, context)) out.push_back(context);
                for (uint32_t at = context; at;) {
                    at = t.parent(at);
                    ++looked;
                    if (!is_new(at)) break;
                    if (fits(step, name, at)) out.push_back(at);
                }
            }
            spend(looked);
            sort_set(out);
            return;
        }
        case TermAxis::following_sibling:
        case TermAxis::preceding_sibling: {
            // Of the contexts with one parent, the first sees all that the others see after them, and the last all before.
            new_walk();
            bool after = step.axis == TermAxis::following_sibling;
            for (size_t i = 0; i < contexts.size(); ++i) {
                uint32_t context = contexts[after ? i : contexts.size() - 1 - i];
                if (!context || t.kind(context) == ItemKind::attribute || !is_new(t.parent(context))) continue;
                uint32_t at = after ? t.end(context) : t.content(t.parent(context));
                uint32_t end = after ? t.end(t.parent(context)) : context;
                uint64_t looked = 0;
                for (; at < end; at = t.end(at), ++looked)
                    if (fits(step, name, at)) out.push_back(at);
                spend(looked);
            }
            spend(contexts.size());
            sort_set(out);
            return;
        }
        default: break;
    }
    for (uint32_t context : contexts) {
        uint64_t looked = 1;
        each_on_axis(step.axis, context, [&](uint32_t item) {
            ++looked;
            if (fits(step, name, item)) out.push_back(item);
        });
        spend(looked);
    }
    sort_set(out);
}

}  // namespace treecast
