// Places among siblings, for TreeRun: which labels an element fires because it is the first or the third of its name, and what
// counters say of it.
//
// Only names that some pattern asks a place of have a Family (tree_run.hpp). Counters are for all elements or for none.
#include "machines/tree_run.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace treecast {

// An element of this name fires the same labels everywhere, and more in some places.
void TreeRun::add_family(Locals& locals, uint32_t name) {
    std::span<const TreeMachine::Place> places = machine_->places(name);
    if (places.empty()) return;
    Family family;
    locals.family = static_cast<uint32_t>(families_.size());    // in the copies too: they do not depend on the name alone
    for (const TreeMachine::Place& place : places) {
        if (family.placed.empty() || family.placed.back().place != place.place) family.placed.push_back({place.place, locals});
        fire(family.placed.back().labels, place.local);
    }
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

void TreeRun::find_counters() {
    uint32_t nothing[3] = {none, none, none};
    for (uint32_t c = 0; c < counters; ++c) {
        Locals& labels = siblings_.labels[c] = localize(nothing, label_counter + c);
        siblings_.are_counted |= labels.count != 0 && static_cast<Counter>(c) != Counter::content;
        siblings_.is_early |= labels.count && !labels.late;
    }
}

// One pass over the elements. How many siblings there are is known at its end.
void TreeRun::count_siblings(const Document& document) {
    Siblings& s = siblings_;
    const size_t count = document.elements();
    if (s.places.size() < count) s.places.resize(count + count / 2);
    s.children.assign(count + 1, 0);
    s.groups.clear();
    for (uint32_t i = 0; i < count; ++i) {
        const uint32_t parent = i ? document.parent[i] + 1 : 0, name = document.name[i];
        if (name >= s.names.size()) s.names.resize(name + 1 + name / 2);
        Siblings::Name& of_name = s.names[name];
        if (of_name.run != run_) {
            of_name.run = run_;
            of_name.open.clear();
        }
        while (!of_name.open.empty() && of_name.open.back().parent > parent) of_name.open.pop_back();
        if (of_name.open.empty() || of_name.open.back().parent != parent) {
            of_name.open.push_back({parent, static_cast<uint32_t>(s.groups.size())});
            s.groups.push_back(0);
        }
        const uint32_t group = of_name.open.back().group;
        s.places[i] = {++s.groups[group], ++s.children[parent], group, parent};
    }
}

uint32_t TreeRun::Siblings::number(Counter counter, uint32_t element) const {
    const Place& place = places[element];
    switch (counter) {
        case Counter::place_name: return place.by_name;
        case Counter::place_any: return place.among_all;
        case Counter::end_name: return groups[place.group] - place.by_name + 1;
        case Counter::end_any: return children[place.parent] - place.among_all + 1;
        case Counter::count_name: return groups[place.group];
        default: return children[place.parent];
    }
}

}  // namespace treecast
