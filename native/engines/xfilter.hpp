// XFilter: a finite state machine for each distinct path, and an index of the machines by element name.
//
// Theory of operation (XFilter, as YFilter's introduction and related work describe it). The named steps of a path are the
// states of its machine; a `*` between them is only a distance. A state knows its label, its distance from the state before
// (or from the document), and whether that distance is exact (`/`) or the least allowed (a `//` on the way). The query index
// has for each label a candidate list and a wait list. The first state of every machine is a candidate from the start, all others
// wait. A start tag goes through the candidates of its name: one whose level fits and whose value-based predicates hold
// has been passed. If it was the last state, the path has matched; otherwise the next state is copied from its wait list to its
// candidate list, with the level that it must be found at. An end tag takes back what its start tag has promoted.
//
// We differ: the wait lists are the machines themselves, which lead to their next state by number. A `*` that ends a path or has
// predicates is a state, in a list that every element goes through. A copy that asks for a least level is not made while an
// equal one is in force (candidates.hpp), which bounds the copies. List balancing and the prefilter, optimisations of XFilter
// that the text does not describe, are left out. Nested paths are refused.
#pragma once

#include "engines/published.hpp"

#include <memory>

namespace treecast {

std::unique_ptr<PublishedFilter> make_xfilter();

}  // namespace treecast
