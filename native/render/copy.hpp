// Parts of a document into the output, as they are in the source: slices of bytes, with namespaces put right.
// Out: std::string or Bytes.
#pragma once

#include "document/document.hpp"
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

// Names as written in the source, with their prefix.
std::string_view element_qname(const Document& document, uint32_t element);
std::string_view attribute_qname(const Document& document, uint32_t attribute);

// The element that has an attribute.
uint32_t owner_of(const Document& document, uint32_t attribute);

}  // namespace treecast
