// YFilter: one NFA for all queries, run with a stack of sets of active states. Predicates are handled outside the NFA.
//
// Theory of operation (YFilter, sections 2 and 3). Each query is a path of steps `/a`, `//a`, `/*`, `//*`. A step with `/` is a
// transition. A step with `//` is an ε-move to a state with a loop, the `//`-child, and a transition from there.
// Paths are inserted one by one: walk the machine as far as it goes, branch off where it ends, and attach the query to the
// accepting state. Equal paths end in the same state. Removal goes back up the same way and removes states that no longer lead
// anywhere. A state holds a small hash table from label to state, the state for `*`, its `//`-child, and its queries.
//
// A start tag takes the set on top of the stack and makes four checks for each state in it: the name, `*`, the loop of a
// `//`-child, and the ε-move followed by the first three. It pushes the set of targets; an end tag pops it. The queries of each
// accepting state that is reached are collected, and the machine continues to the end of the document.
//
// Value-based predicates (section 3.3) are not part of the machine. There are two ways to check them.
// Selection Postponed looks at them when a path has been matched. At the accepting state, all assignments of the open elements
// to the steps of the path are tried, and one of them must satisfy all predicates.
// Inline looks at the predicates of a step as soon as an element reaches the state of that step, whether or not the rest of the
// path will match, and notes the element if they hold. At the accepting state an assignment is sought among the noted elements,
// so predicates that hold for different elements or in different runs are never combined.
//
// Nested paths are separated: each becomes a path from the root, beginning with the steps up to the one it is attached to, and is
// matched in the same machine. Its result is the set of elements that its branching step can be. Results are joined at the end of
// the document, innermost paths first: an element counts for a step if all nested paths of that step have it.
//
// We differ: names have namespaces, so a state is asked for up to three labels of an element (a name, `q:*`, `*:a`) besides `*`.
// A union is two paths with one subscription. The assignments are not enumerated but kept as a set of depths per step, which
// gives the same result without the exponential cost. The document was read before, so the text of an element is known at its
// start tag.
#pragma once

#include "engines/published.hpp"

#include <memory>

namespace treecast {

std::unique_ptr<PublishedFilter> make_yfilter();             // Selection Postponed
std::unique_ptr<PublishedFilter> make_yfilter_inline();

}  // namespace treecast
