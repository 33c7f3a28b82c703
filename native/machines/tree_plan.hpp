// How each entry of a TreeMachine is found: in which context, and by which of its requirements.
//
// Theory of operation. Testing an entry wherever one of its requirements holds is cheap only if that requirement holds rarely.
// How often it will hold is estimated from its kind, and among equals from the population itself: what all subscriptions ask
// for is common, what a single one asks for is rare.
//
// The estimate may be wrong, and there may be no rare requirement at all (two attributes of 300 values each). So a requirement
// that many entries would be listed under becomes a context of its own, in which those entries are found by what else they
// require, and so on. The contexts are a trie over sets of requirements: the work depends on what holds, not on how many ask
// for it. The order in which a query was written does not matter.
//
// Order and inequality (`n > 5`, `n != "v"`) hold for a great many different values at once. They are read from gauges
// (gauges.hpp), and decide only where nothing better exists.
#pragma once

#include "machines/tree_entries.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace treecast {

class TreePlan {
public:
    using Requirement = TreeEntries::Requirement;
    enum class Kind : uint8_t {
        free,                   // tested wherever its context is reached
        single,                 // holds where its one requirement does
        several,                // tested where the first of its requirements holds
        run,                    // its one requirement is a bound on a gauge
        bounded,                // tested where its first requirement, or the first two, are met; bounds on gauges
        gauge,                  // no entry of its own: what requires it reads a gauge
    };
    enum class Nature : uint8_t { bit, order, unequal };     // how a requirement is looked up
    struct Context {
        uint32_t label;
        uint32_t above;         // context from which it is reached; none: a label by itself
        Requirement reached;    // by this
        bool is_free;           // which is not looked up but tested
    };

    // Reorders the requirements of an entry: those that its context knows to hold, the one or two it is found by, the others.
    TreePlan(TreeEntries& entries, const std::vector<uint32_t>& patterns);

    const std::vector<Context>& contexts() const { return contexts_; }       // first the labels, ascending
    uint32_t labels() const { return labels_; }
    Kind kind(uint32_t e) const { return kind_[e]; }
    uint32_t context(uint32_t e) const { return context_[e]; }
    std::span<const Requirement> rest(uint32_t e) const { return entries_.requirements(e).subspan(met_[e]); }   // not known to hold
    Nature nature(const Requirement& r) const;
    uint32_t condition(const Requirement& r) const;                          // at the end of what a gauge decides
    bool is_valued(uint32_t e) const { return valued_[e]; }                  // depends on values
    bool is_bound(const Requirement& r) const { return !r.negated && nature(r) == Nature::order; }

private:
    struct Work {               // entries that stand in a context, with so many requirements known to hold
        uint32_t context, met;
        std::vector<uint32_t> entries;
    };
    struct Keyed { uint64_t key; uint32_t entry; };

    void estimate(const std::vector<uint32_t>& patterns);
    void find_gauges();
    float prior(const Requirement& r) const;
    float weight(const Requirement& r) const;
    float chance(const Requirement& r) const;
    void divide(const Work& work);
    void choose(uint32_t e);
    void choose_bounds(uint32_t e, std::span<Requirement> rest);
    void group_free(const Work& work, std::vector<uint32_t>& free);
    void open_groups(const Work& work, std::vector<Keyed>& keyed, bool is_free);

    TreeEntries& entries_;
    const float patterns_;                           // how many
    std::vector<Context> contexts_;
    uint32_t labels_ = 0;
    std::vector<Kind> kind_;
    std::vector<Nature> nature_;                     // of a requirement of this entry
    std::vector<uint32_t> context_, met_;
    std::vector<uint8_t> valued_;
    std::vector<float> prior_;                       // chance that the entry holds, whatever asks for it
    std::vector<float> weight_, condition_weight_;   // how many patterns ask for it
    std::vector<Work> todo_;
};

}  // namespace treecast
