// YFilter: one NFA for all queries, run with a stack of sets of active states; predicates beside it.
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
// Value-based predicates (section 3.3) are no part of the machine. Selection Postponed looks at them when a path has been
// matched: at the accepting state, all assignments of the open elements to the steps of the path are tried, and one of them must
// satisfy all predicates. Inline looks at the predicates of a step as soon as an element reaches the state of that step, whether
// the rest of the path will match or not, and notes the element if they hold; at the accepting state an assignment is
// sought among the noted elements, so predicates that hold for different elements or in different runs are never combined.
//
// Nested paths are taken apart: each becomes a path from the root of its own, with the steps up to the one it hangs on in
// front, and is matched in the same machine. What a nested path yields is the elements that its branching step can be. They are
// joined at the end of the document: innermost paths first, an element counts for a step if all its nested paths have it.
//
// We differ: names have namespaces, so a state is asked for up to three labels of an element (a name, `q:*`, `*:a`) besides
// `*`; a union is two paths with one subscription; the assignments are not enumerated but kept as a set of depths per step, which is
// the same without the exponential; the document has been read before, so the text of an element is known at its start tag.
#pragma once

#include "engines/published.hpp"

#include <memory>

namespace treecast {

std::unique_ptr<PublishedFilter> make_yfilter();             // Selection Postponed
std::unique_ptr<PublishedFilter> make_yfilter_inline();

}  // namespace treecast
