// Plans how each entry of a tree machine is found. tree_plan.hpp has the theory.
//
// The plan affects only the speed. It estimates how often a requirement is met, from its kind and from how many patterns have it,
// and looks entries up by the rarest one.
#include "machines/tree_plan.hpp"

#include "base/seeded_hash.hpp"
#include "machines/gauges.hpp"

#include <algorithm>
#include <cmath>
#include <map>
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

// Entries come after what they require, so one pass in each direction is enough.
void TreePlan::estimate(const std::vector<uint32_t>& patterns) {
    const auto& conditions = entries_.conditions();
    weight_.assign(entries_.size(), 0);
    condition_weight_.assign(conditions.size(), 0);
    for (uint32_t e = 0; e < entries_.size(); ++e) {
        uint32_t label = entries_.label(e);
        // Rough guesses; only their order matters.
        float whole = label == label_element_any || label == label_attribute_any || is_counter(label) ? 0.9f : 0.3f;
        std::span<const Requirement> requirements = entries_.requirements(e);
        // Every element stands in some place, and most have few siblings: what counters say is met often, whatever the number.
        for (const Requirement& r : requirements)
            if (!r.negated && !is_counter(label)) whole *= prior(r);
        valued_.push_back(!is_counter(label) && std::ranges::any_of(requirements, [&](const Requirement& r) {
            return r.reach == Reach::value || valued_[r.target];
        }));
        prior_.push_back(std::max(whole, 1e-20f));
    }
    find_gauges();
    for (uint32_t pattern : patterns) weight_[pattern] = 1;
    for (uint32_t e = entries_.size(); e-- > 0;)
        for (const Requirement& r : entries_.requirements(e)) (r.reach == Reach::value ? condition_weight_ : weight_)[r.target] += weight_[e];
}

// Some item has a number above 5 if the largest of all numbers is above 5. So an entry that requires only a gauge can be read
// from a gauge itself. But bits are faster where few entries have the same labels and kind of comparison all along.
void TreePlan::find_gauges() {
    using Chain = std::tuple<uint32_t, Reach, uint32_t>;             // label, reach of its requirement, and the chain from there
    std::map<Chain, uint32_t> numbers;
    std::vector<uint32_t> chain(entries_.size(), none), shared;
    auto extend = [&](const Requirement& r) {
        if (r.reach != Reach::value) return r.negated ? none : chain[r.target];
        ValueTest test = entries_.conditions()[r.target].test;
        bool wanted = r.negated ? is_equality(test) : is_order(test);
        return wanted ? static_cast<uint32_t>(gauge_kind(test)) : none;
    };
    for (uint32_t e = 0; e < entries_.size(); ++e) {
        std::span<const Requirement> requirements = entries_.requirements(e);
        if (requirements.size() != 1 || entries_.label(e) == label_root) continue;
        if (entries_.order(e) != none || entries_.is_branch(e)) continue;        // it has to be found where it holds
        uint32_t inner = extend(requirements[0]);
        if (inner == none) continue;
        chain[e] = numbers.try_emplace({entries_.label(e), requirements[0].reach, inner}, static_cast<uint32_t>(numbers.size())).first->second;
        if (chain[e] == shared.size()) shared.push_back(0);
        ++shared[chain[e]];
    }
    for (uint32_t e = 0; e < entries_.size(); ++e) {
        if (chain[e] == none) continue;
        const Requirement& r = entries_.requirements(e)[0];
        if (r.reach == Reach::value)
            nature_[e] = r.negated ? Nature::unequal : Nature::order;
        else if (shared[chain[e]] > group_max)
            nature_[e] = nature_[r.target];
    }
}

// Follows a chain of single requirements down to the condition on a value.
uint32_t TreePlan::condition(const Requirement& r) const {
    const Requirement* at = &r;
    while (at->reach != Reach::value) at = &entries_.requirements(at->target)[0];
    return at->target;
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

// The population of patterns says less about documents than the kind of a requirement does, and only about values.
// Of values, those that many ask for may be common; those that one asks for are rare or absent.
float TreePlan::chance(const Requirement& r) const {
    bool valued = r.reach == Reach::value || valued_[r.target];
    return valued ? prior(r) * std::sqrt(std::sqrt(weight(r) / patterns_)) : prior(r);
}

// Chooses for each entry what it is found by, then gives large groups a context of their own.
void TreePlan::divide(const Work& work) {
    std::vector<uint32_t> free;
    std::vector<Keyed> keyed;
    for (uint32_t e : work.entries) {
        context_[e] = work.context;
        met_[e] = work.met;
        choose(e);
        if (kind_[e] == Kind::free || kind_[e] == Kind::bounded) free.push_back(e);
        if (kind_[e] == Kind::several) keyed.push_back({key_of(rest(e)[0]), e});
    }
    open_groups(work, keyed, false);
    if (free.size() > group_max) group_free(work, free);
}

// Puts first what the entry is found by. The rarest requirements follow, because most tests fail.
void TreePlan::choose(uint32_t e) {
    std::span<Requirement> rest = entries_.requirements(e).subspan(met_[e]);
    auto order = [&](const Requirement& r) {
        bool is_pivot = !r.negated && nature(r) == Nature::bit;
        return std::tuple(!is_pivot, r.negated, chance(r), key_of(r));
    };
    std::sort(rest.begin(), rest.end(), [&](const Requirement& a, const Requirement& b) { return order(a) < order(b); });
    if (!rest.empty() && !rest[0].negated && nature(rest[0]) == Nature::bit)
        kind_[e] = rest.size() == 1 && entries_.order(e) == none ? Kind::single : Kind::several;
    else
        choose_bounds(e, rest);
}

// Two bounds on the same values, from below and above, say most. The least shared ones come first.
void TreePlan::choose_bounds(uint32_t e, std::span<Requirement> rest) {
    auto end = std::stable_partition(rest.begin(), rest.end(), [&](const Requirement& r) { return is_bound(r); });
    size_t count = end - rest.begin();
    kind_[e] = count == 0 ? Kind::free : rest.size() == 1 && entries_.order(e) == none ? Kind::run : Kind::bounded;
    if (count < 3) return;
    std::stable_sort(rest.begin(), end, [&](const Requirement& a, const Requirement& b) { return weight(a) < weight(b); });
    auto about = [&](const Requirement& r) {
        const Values::Condition& c = entries_.conditions()[condition(r)];
        return std::pair(c.label, gauge_kind(c.test));
    };
    for (size_t i = 1; i < count; ++i)
        if (rest[i].reach == rest[0].reach && about(rest[i]).first == about(rest[0]).first && about(rest[i]).second != about(rest[0]).second) {
            std::swap(rest[1], rest[i]);
            break;
        }
}

// What usually holds (a negated requirement, an inequality) is no way to find an entry. But if many share one, it is tested once,
// and before bounds, which a great many may meet.
void TreePlan::group_free(const Work& work, std::vector<uint32_t>& free) {
    NumberMap<uint64_t, uint32_t> shared;
    for (uint32_t e : free)
        for (const Requirement& r : rest(e)) ++shared[key_of(r)];
    std::vector<Keyed> keyed;
    for (uint32_t e : free) {
        std::pair<uint32_t, uint64_t> most{0, 0};
        for (const Requirement& r : rest(e))
            if (!is_bound(r)) most = std::max(most, std::pair(shared[key_of(r)], key_of(r)));
        if (most.first) keyed.push_back({most.second, e});
    }
    open_groups(work, keyed, true);
}

// Entries that would be found by the same requirement get a context, if there are many.
void TreePlan::open_groups(const Work& work, std::vector<Keyed>& keyed, bool is_free) {
    std::sort(keyed.begin(), keyed.end(), [](const Keyed& a, const Keyed& b) { return std::pair(a.key, a.entry) < std::pair(b.key, b.entry); });
    for (size_t begin = 0, end = 0; begin < keyed.size(); begin = end) {
        while (end < keyed.size() && keyed[end].key == keyed[begin].key) ++end;
        if (end - begin <= group_max) continue;
        Work inner{static_cast<uint32_t>(contexts_.size()), work.met + 1, {}};
        for (size_t i = begin; i < end; ++i) {
            std::span<Requirement> rest = entries_.requirements(keyed[i].entry).subspan(work.met);
            std::swap(rest[0], *std::ranges::find(rest, keyed[i].key, key_of));
            inner.entries.push_back(keyed[i].entry);
        }
        contexts_.push_back({contexts_[work.context].label, work.context, rest(keyed[begin].entry)[0], is_free});
        todo_.push_back(std::move(inner));
    }
}

}  // namespace treecast
