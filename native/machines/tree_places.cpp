// Places among siblings, for TreeRun: which labels an element fires because it is the first or the third of its name.
//
// Only names that some pattern asks a place of have a Family (tree_run.hpp); all other elements are not counted.
#include "machines/tree_run.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace treecast {

// An element of this name fires the same labels everywhere, and one more in some places.
void TreeRun::add_family(Locals& locals, uint32_t name) {
    std::span<const TreeMachine::Place> places = machine_->places(name);
    if (places.empty()) return;
    Family family;
    for (const TreeMachine::Place& place : places) {
        Locals& placed = family.placed.emplace_back(place.place, locals).labels;
        fire(placed, place.local);
    }
    locals.family = static_cast<uint32_t>(families_.size());
    families_.push_back(std::move(family));
}

uint32_t TreeRun::Family::next_place(uint32_t parent) {
    while (!counts.empty() && counts.back().parent > parent) counts.pop_back();
    if (counts.empty() || counts.back().parent != parent) counts.push_back({parent, 0});
    return ++counts.back().count;
}

const TreeRun::Locals* TreeRun::Family::at(uint32_t place) const {
    auto found = std::ranges::lower_bound(placed, place, {}, &Placed::place);
    return found != placed.end() && found->place == place ? &found->labels : nullptr;
}

}  // namespace treecast
