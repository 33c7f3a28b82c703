// The paths of first labels (label.hpp), such as those of `contains(b/c, "x")`: which of them are asked of elements with which label.
//
// Theory of operation. The first item of a path is that of the first child with the name of its first step from which the rest of
// the path leads somewhere. The paths that are asked of a label are a trie. One walk over the children of an element, and further
// down as far as the trie goes, finds the first items of all of them: the work depends on the document, not on how many paths
// there are. Where the last step is a descendant, the item is looked up among all elements that pass its test.
#pragma once

#include "base/array.hpp"
#include "machines/label.hpp"

#include <algorithm>
#include <compare>
#include <cstdint>
#include <span>
#include <vector>

namespace treecast {

class FirstPaths {
public:
    enum Kind : uint32_t { child, descendant, attribute, text };
    struct Step {
        uint32_t kind, label;                 // of the label table; for a descendant, its number among descendants()
        uint32_t begin, end;                  // the steps that follow
        uint32_t first;                       // the number of the path that ends here, or none
        auto key() const { return uint64_t(kind) << 32 | label; }
    };
    struct Wanted {
        uint32_t label, first;                // both as the machine numbers them
        auto operator<=>(const Wanted&) const = default;
    };

    // `labels` are those of the machine, in the order of its numbers; `wanted` ascends.
    void build(std::span<const Wanted> wanted, const Array<uint32_t>& labels, const LabelTable& table);
    bool empty() const { return steps_.empty(); }
    uint32_t size() const { return static_cast<uint32_t>(firsts_.size()); }
    uint32_t label(uint32_t first) const { return firsts_[first]; }                  // of a path: the machine's number of its label
    const Array<uint32_t>& descendants() const { return descendants_; }              // labels of the label table
    // The first steps of what is asked of a label, ascending by key.
    std::span<const Step> steps(uint32_t label) const {
        if (empty()) return {};
        return {steps_.data() + roots_[label].begin, steps_.data() + roots_[label].end};
    }
    std::span<const Step> after(const Step& step) const { return {steps_.data() + step.begin, steps_.data() + step.end}; }
    static const Step* find(std::span<const Step> steps, Kind kind, uint32_t label) {
        const uint64_t key = uint64_t(kind) << 32 | label;
        auto found = std::ranges::lower_bound(steps, key, {}, &Step::key);
        return found != steps.end() && found->key() == key ? &*found : nullptr;
    }
    uint64_t bytes() const { return roots_.bytes() + steps_.bytes() + firsts_.bytes() + descendants_.bytes(); }
    template <class Visit>
    void parts(Visit&& visit) { visit(roots_), visit(steps_), visit(firsts_), visit(descendants_); }

private:
    struct Root {
        uint32_t begin = 0, end = 0;          // in steps_
    };
    struct Item {                             // a path that is being added
        std::vector<uint64_t> keys;
        uint32_t first;
        auto operator<=>(const Item&) const = default;
    };
    Root add(std::span<const Item> items, size_t depth);
    std::vector<uint64_t> keys_of(uint32_t label, const LabelTable& table);

    Array<Root> roots_;                       // by label of the machine
    Array<Step> steps_;
    Array<uint32_t> firsts_, descendants_;    // both ascend
};

}  // namespace treecast
