// Builds the tries of first_paths.hpp.
#include "machines/first_paths.hpp"

namespace treecast {

namespace {

// The number of something in an array that ascends.
uint32_t number_in(const Array<uint32_t>& array, uint32_t value) {
    return static_cast<uint32_t>(std::lower_bound(array.begin(), array.end(), value) - array.begin());
}

// A copy without duplicates.
Array<uint32_t> ascending(std::vector<uint32_t> values) {
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
    return Array<uint32_t>(values);
}

// The table is a const one, and has the label.
uint32_t label_of(const LabelTable& table, const PathStep& step) {
    if (step.kind == StepKind::text) return label_text;
    if (step.test == Test::any) return step.kind == StepKind::element ? label_element_any : label_attribute_any;
    return table.find(step);
}

}  // namespace

std::vector<uint64_t> FirstPaths::keys_of(uint32_t label, const LabelTable& table) {
    std::vector<uint64_t> keys;
    for (const PathStep& step : LabelTable::path_of_first(table.step_of(label))) {
        const Kind kind = step.kind == StepKind::attribute ? attribute : step.kind == StepKind::text ? text : step.descendant ? descendant : child;
        const uint32_t own = label_of(table, step);
        keys.push_back(uint64_t(kind) << 32 | (kind == descendant && !descendants_.empty() ? number_in(descendants_, own) : own));
    }
    return keys;
}

void FirstPaths::build(std::span<const Wanted> wanted, const Array<uint32_t>& labels, const LabelTable& table) {
    std::vector<uint32_t> firsts, below;
    for (const Wanted& one : wanted) firsts.push_back(one.first);
    firsts_ = ascending(std::move(firsts));
    for (uint32_t first : firsts_)
        for (uint64_t key : keys_of(labels[first], table))
            if (key >> 32 == descendant) below.push_back(static_cast<uint32_t>(key));
    descendants_ = ascending(std::move(below));
    roots_.assign(labels.size(), {});
    std::vector<Item> items;
    for (size_t begin = 0, end = 0; begin < wanted.size(); begin = end) {
        items.clear();
        for (; end < wanted.size() && wanted[end].label == wanted[begin].label; ++end)
            items.push_back({keys_of(labels[wanted[end].first], table), number_in(firsts_, wanted[end].first)});
        std::sort(items.begin(), items.end());
        roots_[wanted[begin].label] = add(items, 0);
    }
    steps_.shrink();
}

// Adds the steps at this depth, which are neighbours, and then what follows each of them. Items have the same steps before.
FirstPaths::Root FirstPaths::add(std::span<const Item> items, size_t depth) {
    Root root{static_cast<uint32_t>(steps_.size()), 0};
    std::vector<std::span<const Item>> rests;
    for (size_t begin = 0, end = 0; begin < items.size(); begin = end) {
        const uint64_t key = items[begin].keys[depth];
        while (end < items.size() && items[end].keys[depth] == key) ++end;
        const bool ends_here = items[begin].keys.size() == depth + 1;       // the shortest comes first, and paths are distinct
        steps_.push({static_cast<uint32_t>(key >> 32), static_cast<uint32_t>(key), 0, 0, ends_here ? items[begin].first : none});
        rests.push_back(items.subspan(begin + ends_here, end - begin - ends_here));
    }
    root.end = static_cast<uint32_t>(steps_.size());
    for (size_t i = 0; i < rests.size(); ++i) {
        const Root inner = rests[i].empty() ? Root{} : add(rests[i], depth + 1);
        steps_[root.begin + i].begin = inner.begin;
        steps_[root.begin + i].end = inner.end;
    }
    return root;
}

}  // namespace treecast
