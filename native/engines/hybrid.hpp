// The hybrid that YFilter was measured against: machines per path as in XFilter, over a shared index of substrings.
//
// Theory of operation (YFilter, section 3.4, and its description of XTrie in section 4). A path is cut at every `//` into
// substrings, whose steps are joined by `/` alone. All substrings of all paths are kept in one trie, with equal ones and equal
// beginnings stored once. The trie is run over the document with a stack of active states, starting again at every element.
//
// So the work within a substring is shared. The work of joining the substrings of a path is not: each path has its own machine,
// whose states are its substrings, with candidate lists by substring, promoted and taken back as in XFilter. A substring fits
// if it begins below the end of the one before, or at the root if the path begins with `/`.
//
// The trie is the NFA of path_nfa.hpp with every substring inserted below `//`. We differ as there, and as in xfilter.hpp: `*` is
// a label of the trie like any other, predicates of a step are checked when its substring has been found, and nested paths are
// refused.
#pragma once

#include "engines/published.hpp"

#include <memory>

namespace treecast {

std::unique_ptr<PublishedFilter> make_hybrid();

}  // namespace treecast
