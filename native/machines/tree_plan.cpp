#include "machines/tree_plan.hpp"

#include "base/seeded_hash.hpp"
#include "machines/gauges.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

namespace treecast {

namespace {

constexpr size_t group_max = 16;        // PERF: bench/shapes.py, bench/trees.py: so many entries are tested one by one

uint64_t key_of(const TreeEntries::Requirement& r) {
    return uint64_t(r.negated) << 34 | uint64_t(r.reach) << 32 | r.target;
}

}  // namespace

TreePlan::TreePlan(TreeEntries& entries, const std::vector<uint32_t>& patterns)
    : entries_(entries), patterns_(static_cast<float>(patterns.size())) {
    entries_.close();
    kind_.assign(entries.size(), Kind::free);
    nature_.assign(entries.size(), Nature::bit);
    context_.assign(entries.size(), none);
    met_.assign(entries.size(), 0);
    estimate(patterns);
    std::vector<uint32_t> sorted(entries.size());
    for (uint32_t e = 0; e < sorted.size(); ++e) sorted[e] = e;
    std::stable_sort(sorted.begin(), sorted.end(), [&](uint32_t a, uint32_t b) { return entries.label(a) < entries.label(b); });
    for (uint32_t e : sorted) {
        if (contexts_.empty() || contexts_.back().label != entries.label(e)) {
            todo_.push_back({static_cast<uint32_t>(contexts_.size()), 0, {}});
            contexts_.push_back({entries.label(e), none, {}, false});
        }
        if (nature_[e] == Nature::bit)
            todo_.back().entries.push_back(e);
        else
            kind_[e] = Kind::gauge;
    }
    labels_ = static_cast<uint32_t>(contexts_.size());
    while (!todo_.empty()) {
        Work work = std::move(todo_.back());
        todo_.pop_back();
        divide(work);
    }
}

// Entries come after what they require, so one pass in each direction will do.
void TreePlan::estimate(const std::vector<uint32_t>& patterns) {
    const auto& conditions = entries_.conditions();
    weight_.assign(entries_.size(), 0);
    condition_weight_.assign(conditions.size(), 0);
    for (uint32_t e = 0; e < entries_.size(); ++e) {
        uint32_t label = entries_.label(e);
        float whole = label == label_element_any || label == label_attribute_any ? 0.9f : 0.3f;
        std::span<const Requirement> requirements = entries_.requirements(e);
        for (const Requirement& r : requirements)
            if (!r.negated) whole *= prior(r);
        valued_.push_back(std::ranges::any_of(requirements, [&](const Requirement& r) { return r.reach == Reach::value || valued_[r.target]; }));
        prior_.push_back(std::max(whole, 1e-20f));
        if (requirements.size() != 1 || requirements[0].reach != Reach::value) continue;
        ValueTest test = conditions[requirements[0].target].test;
        if (is_order(test) && !requirements[0].negated) nature_[e] = Nature::order;
        if (is_equality(test) && requirements[0].negated) nature_[e] = Nature::unequal;
    }
    for (uint32_t pattern : patterns) weight_[pattern] = 1;
    for (uint32_t e = entries_.size(); e-- > 0;)
        for (const Requirement& r : entries_.requirements(e)) (r.reach == Reach::value ? condition_weight_ : weight_)[r.target] += weight_[e];
}

TreePlan::Nature TreePlan::nature(const Requirement& r) const {
    if (r.reach != Reach::value) return nature_[r.target];
    return is_order(entries_.conditions()[r.target].test) ? Nature::order : Nature::bit;
}

float TreePlan::prior(const Requirement& r) const {
    if (r.reach != Reach::value) return prior_[r.target];
    ValueTest test = entries_.conditions()[r.target].test;
    if (is_equality(test)) return 0.02f;
    return is_order(test) ? 0.4f : 0.1f;
}

float TreePlan::weight(const Requirement& r) const {
    return (r.reach == Reach::value ? condition_weight_ : weight_)[r.target];
}

// The population says less of the documents than the kind of a requirement does, and something of values only: of what has a
// value, those that many ask for may be common, and those that one asks for are rare or not there.
float TreePlan::chance(const Requirement& r) const {
    bool valued = r.reach == Reach::value || valued_[r.target];
    return valued ? prior(r) * std::sqrt(std::sqrt(weight(r) / patterns_)) : prior(r);
}

void TreePlan::divide(const Work& work) {
    std::vector<uint32_t> free;
    std::vector<Keyed> keyed;
    for (uint32_t e : work.entries) {
        context_[e] = work.context;
        met_[e] = work.met;
        choose(e);
        if (kind_[e] == Kind::free) free.push_back(e);
        if (kind_[e] == Kind::several) keyed.push_back({key_of(rest(e)[0]), e});
    }
    open_groups(work, keyed, false);
    if (free.size() > group_max) group_free(work, free);
}

// Puts first what the entry is to be found by, and after it the rarest requirements first, for most tests fail.
void TreePlan::choose(uint32_t e) {
    std::span<Requirement> rest = entries_.requirements(e).subspan(met_[e]);
    auto order = [&](const Requirement& r) {
        bool is_pivot = !r.negated && nature(r) == Nature::bit;
        return std::tuple(!is_pivot, r.negated, chance(r), key_of(r));
    };
    std::sort(rest.begin(), rest.end(), [&](const Requirement& a, const Requirement& b) { return order(a) < order(b); });
    if (!rest.empty() && !rest[0].negated && nature(rest[0]) == Nature::bit)
        kind_[e] = rest.size() == 1 ? Kind::single : Kind::several;
    else
        choose_bounds(e, rest);
}

// Two bounds on the same values, from below and above, say most; the least shared ones first.
void TreePlan::choose_bounds(uint32_t e, std::span<Requirement> rest) {
    auto end = std::stable_partition(rest.begin(), rest.end(), [&](const Requirement& r) { return is_bound(r); });
    size_t count = end - rest.begin();
    kind_[e] = count == 0 ? Kind::free : rest.size() == 1 ? Kind::run : Kind::bounded;
    if (count < 3) return;
    std::stable_sort(rest.begin(), end, [&](const Requirement& a, const Requirement& b) { return weight(a) < weight(b); });
    auto about = [&](const Requirement& r) {
        uint32_t condition = r.reach == Reach::value ? r.target : entries_.requirements(r.target)[0].target;
        return std::pair(entries_.conditions()[condition].label, gauge_kind(entries_.conditions()[condition].test));
    };
    for (size_t i = 1; i < count; ++i)
        if (rest[i].reach == rest[0].reach && about(rest[i]).first == about(rest[0]).first && about(rest[i]).second != about(rest[0]).second) {
            std::swap(rest[1], rest[i]);
            break;
        }
}

// What usually holds (a negated requirement, an inequality) finds nobody; but where many share one, it is tested once.
void TreePlan::group_free(const Work& work, std::vector<uint32_t>& free) {
    NumberMap<uint64_t, uint32_t> shared;
    for (uint32_t e : free)
        for (const Requirement& r : rest(e)) ++shared[key_of(r)];
    std::vector<Keyed> keyed;
    for (uint32_t e : free) {
        std::span<Requirement> rest = entries_.requirements(e).subspan(met_[e]);
        if (rest.empty()) continue;
        auto most = std::max_element(rest.begin(), rest.end(), [&](const Requirement& a, const Requirement& b) {
            return std::pair(shared[key_of(a)], key_of(a)) < std::pair(shared[key_of(b)], key_of(b));
        });
        std::swap(rest[0], *most);
        keyed.push_back({key_of(rest[0]), e});
    }
    open_groups(work, keyed, true);
}

// Entries that would be found by one and the same requirement get a context, if they are many.
void TreePlan::open_groups(const Work& work, std::vector<Keyed>& keyed, bool is_free) {
    std::sort(keyed.begin(), keyed.end(), [](const Keyed& a, const Keyed& b) { return std::pair(a.key, a.entry) < std::pair(b.key, b.entry); });
    for (size_t begin = 0, end = 0; begin < keyed.size(); begin = end) {
        while (end < keyed.size() && keyed[end].key == keyed[begin].key) ++end;
        if (end - begin <= group_max) continue;
        Work inner{static_cast<uint32_t>(contexts_.size()), work.met + 1, {}};
        contexts_.push_back({contexts_[work.context].label, work.context, rest(keyed[begin].entry)[0], is_free});
        for (size_t i = begin; i < end; ++i) inner.entries.push_back(keyed[i].entry);
        todo_.push_back(std::move(inner));
    }
}

}  // namespace treecast
