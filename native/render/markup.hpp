// Where things lie in the source of a Document: the parts of a start tag, end tags, the bytes of a text. For those
// who change or copy sources; the Document itself knows names, values and the outline only. And how to change: Edits.
#pragma once

#include "document/document.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace treecast {

// An attribute or a namespace declaration as written. Offsets into `source`.
struct TagPart {
    uint32_t begin = 0;                  // of the white space before it
    uint32_t name = 0, name_end = 0;
    uint32_t value = 0, value_end = 0;   // inside the quotes
    uint32_t end = 0;                    // after the closing quote
    bool declares = false;               // xmlns or xmlns:…: no attribute
};

uint32_t end_tag_of(const Document& document, uint32_t element);     // where it begins; its end where there is none
void read_start_tag(const Document& document, uint32_t element, std::vector<TagPart>& out);

inline bool has_end_tag(const Document& document, uint32_t element) {
    // <a></a> has content that is empty, <a/> has none: only there the element ends with its start tag.
    return document.content[element] != document.end[element];
}

// The bytes that a child text of an element is written in, CDATA sections with their signs among them.
struct TextPlace {
    uint32_t text = 0;                   // index into the columns of texts
    uint32_t begin = 0, end = 0;
};
void place_texts(const Document& document, uint32_t element, std::vector<TextPlace>& out);

// Changes to a source, gathered in any order and made in one pass.
class Edits {
public:
    void clear();
    void remove(uint32_t begin, uint32_t end) { edits_.push_back({begin, end, 0, 0}); }
    void replace(uint32_t begin, uint32_t end, std::string_view text);
    void insert(uint32_t at, std::string_view text) { replace(at, at, text); }
    uint64_t text_bytes() const { return texts_.size(); }    // put in so far; the caller stops before it has 32 bits

    // Appends bytes [begin, end) of the source as edited. An edit that begins inside an earlier one is part of it and
    // forgotten. False, with `out` longer than wanted, where that would make `out` longer than `size_max`.
    bool apply(std::string_view source, uint32_t begin, uint32_t end, uint64_t size_max, std::string& out);

private:
    struct Edit {
        uint32_t begin, end;
        uint32_t text, text_size;        // of texts_
    };
    std::vector<Edit> edits_;
    std::string texts_;
};

}  // namespace treecast
