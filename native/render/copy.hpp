// Parts of a document into the output, as they are in the source: slices of bytes, with namespaces put right.
// Out: std::string or Bytes.
#pragma once

#include "document/document.hpp"
#include "document/spelling.hpp"
#include "render/scopes.hpp"

#include <cstdint>
#include <string_view>

namespace treecast {

// An element with all that is in it.
template <class Out>
void copy_element(const Document& document, Scopes& scopes, uint32_t element, const NamespacesInForce& in_force, Out& out);

// The children of the document itself: its root, and the comments and instructions around it.
template <class Out>
void copy_document(const Document& document, Scopes& scopes, const NamespacesInForce& in_force, Out& out);

}  // namespace treecast
