// Finds names in the source. See spelling.hpp.
#include "document/spelling.hpp"

#include "document/characters.hpp"

#include <algorithm>

namespace treecast {

namespace {

bool ends_spelling(char c) { return is_space(c) || c == '>' || c == '/' || c == '='; }

// The source is well-formed, so a name always ends.
std::string_view name_at(std::string_view source, size_t at) {
    size_t end = at;
    while (!ends_spelling(source[end])) ++end;
    return source.substr(at, end - at);
}

}  // namespace

std::string_view element_qname(const Document& document, uint32_t element) {
    return name_at(document.source, document.start[element] + 1);
}

// The columns do not store the owner of an attribute; begins ascend, so a binary search finds it.
uint32_t owner_of(const Document& document, uint32_t attribute) {
    const uint32_t* begins = document.attribute_begin.data();
    return static_cast<uint32_t>(std::upper_bound(begins, begins + document.elements(), attribute) - begins - 1);
}

// A name without namespace is its local name. Otherwise the prefix is found in the source.
std::string_view attribute_qname(const Document& document, uint32_t attribute) {
    uint32_t name = document.attribute_name[attribute];
    if (document.names->uri_id(name) == 0) return document.names->local(name);
    uint32_t element = owner_of(document, attribute), left = attribute - document.attribute_begin[element];
    std::string_view source = document.source;
    size_t at = document.start[element] + 1 + element_qname(document, element).size();
    while (true) {
        while (is_space(source[at])) ++at;
        std::string_view found = name_at(source, at);
        at = source.find_first_of("\"'", at + found.size());
        at = source.find(source[at], at + 1) + 1;
        if (found == "xmlns" || found.starts_with("xmlns:")) continue;
        if (left-- == 0) return found;
    }
}

}  // namespace treecast
