// Parts of a document into the output, as they are in the source: slices of bytes, with namespaces put right.
#pragma once

#include "document.hpp"
#include "scopes.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace treecast {

// Bytes of the source as they are, but for references to entities that the caller gave: their text stands in the output,
// escaped, because nobody else knows them.
void copy_source(const Document& document, uint32_t begin, uint32_t end, std::string& out);

// The declarations that the start tag of a copied element needs beside those that it has itself: every namespace in scope at
// the element that is not in force in the output, as XQuery copies (preserve, inherit); and xmlns="" where the output has
// a default namespace and the source has none.
void append_missing_declarations(Scopes& scopes, uint32_t element, const NamespacesInForce& in_force, std::string& out);

// An element with all that is in it.
void copy_element(const Document& document, Scopes& scopes, uint32_t element, const NamespacesInForce& in_force, std::string& out);

// The children of the document itself: its root, and the comments and instructions around it.
void copy_document(const Document& document, Scopes& scopes, const NamespacesInForce& in_force, std::string& out);

// Names as written in the source, with their prefix.
std::string_view element_qname(const Document& document, uint32_t element);
std::string_view attribute_qname(const Document& document, uint32_t attribute);

// The element that has an attribute.
uint32_t owner_of(const Document& document, uint32_t attribute);

}  // namespace treecast
