// Names as a document spells them, with their prefixes. The columns hold expanded names only, so these are found in the source.
#pragma once

#include "document/document.hpp"

#include <cstdint>
#include <string_view>

namespace treecast {

std::string_view element_qname(const Document& document, uint32_t element);
std::string_view attribute_qname(const Document& document, uint32_t attribute);

// The element that has an attribute.
uint32_t owner_of(const Document& document, uint32_t attribute);

}  // namespace treecast
