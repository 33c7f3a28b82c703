// The hybrid that YFilter was measured against: machines per path as in XFilter, over a shared index of substrings.
//
// Theory of operation (YFilter, section 3.4, and its description of XTrie in section 4). A path is cut at every `//` into
// substrings, whose steps are joined by `/` alone. All substrings of all paths are kept in one trie, equal ones and equal
// beginnings of them once, and the trie is run over the document with a stack of active states, beginning anew at every
// element. So the work within a substring is shared; the work of joining the substrings of a path is not: each path has a
// machine of its own, whose states are its substrings, with candidate lists by substring, promoted and taken back as in XFilter. A
// substring fits if it begins below the end of the one before, or at the root where the path begins with `/`.
//
// The trie is the NFA of path_nfa.hpp with every substring inserted below `//`. We differ as there, and as in xfilter.hpp: `*` is a
// label of the trie like any other; predicates of a step are looked at when its substring has been found; nested paths
// are refused.
#pragma once

#include "engines/published.hpp"

#include <memory>

namespace treecast {

std::unique_ptr<PublishedFilter> make_hybrid();

}  // namespace treecast
