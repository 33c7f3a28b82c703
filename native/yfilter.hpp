// YFilter: one NFA for all queries, run with a stack of sets of active states.
//
// Theory of operation (YFilter, sections 2 and 3). Each query is a path of steps `/a`, `//a`, `/*`, `//*`. A step of `/` is a
// transition; one of `//` is an ε-move to a state with a loop, the `//`-child, and a transition from there. Paths are
// inserted one by one: walk the machine as far as it goes, branch off where it does not, and hang the query on the
// accepting state; equal paths end in the same state. Removal goes back up the same way and takes away states that lead
// nowhere any more. A state holds a small hash table from label to state, the state for `*`, its `//`-child, and its queries.
//
// A start tag takes the set on top of the stack, makes for each state in it the four checks (name, `*`, the loop of a
// `//`-child, the ε-move followed by the first three) and pushes the set of targets; an end tag pops. The queries of an
// accepting state that is reached are collected, and the machine goes on to the end of the document.
//
// We differ: names have namespaces, so a state is asked for up to three labels of an element (a name, `q:*`, `*:a`) besides
// `*`; a union is two paths with one subscription.
#pragma once

#include "published.hpp"

#include <memory>

namespace treecast {

std::unique_ptr<PublishedEngine> make_yfilter();

}  // namespace treecast
