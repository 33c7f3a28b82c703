// Comments and processing instructions: the marks of a document.
//
// They are no part of the columns, because few documents have any and few subscriptions ask for them. Where both is so, they are
// found in the source. It is well-formed, which the reader has checked, so only the delimiters matter.
#pragma once

#include "document/document.hpp"

#include <cstdint>
#include <string_view>
#include <vector>

namespace treecast {

class Marks {
public:
    struct Place {
        uint32_t begin, end;           // bytes of the source, with its delimiters
        uint32_t elements, texts;      // how many started before it
        uint32_t parent;               // an element, or none
        bool is_comment;
    };
    // Finds those of a document, in document order. Returns how many bytes were read: none if it has none.
    uint64_t find(const Document& document);
    void clear() { places_.clear(); }

    size_t size() const { return places_.size(); }
    const Place& operator[](size_t mark) const { return places_[mark]; }
    std::string_view target(size_t mark) const;          // of an instruction
    std::string_view value(size_t mark) const;           // of an instruction: what follows its target, without the space between

private:
    bool is_empty_reference(uint32_t at, uint32_t& end) const;
    size_t skip_doctype(size_t at) const;
    size_t after(std::string_view delimiter, size_t from) const;
    void scan();

    const Document* document_ = nullptr;
    std::vector<Place> places_;
};

}  // namespace treecast
