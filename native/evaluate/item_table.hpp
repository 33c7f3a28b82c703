// Everything in a document that XPath can select, numbered in document order: what terms are evaluated on.
//
// The columns of a Document keep elements, attributes and texts apart, which suits patterns. Terms go up, sideways and back, and mix
// all kinds. Here each item has one number: the document has 0, an element is followed by its attributes, then by its content.
// So an axis is a range of numbers or a walk over parents, and a sorted list of numbers is a set in document order.
//
// Comments and processing instructions (document/marks.hpp) are numbered only if a query asks for them: `with_marks`.
#pragma once

#include "document/document.hpp"
#include "document/marks.hpp"

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace treecast {

enum class ItemKind : uint8_t { document, element, attribute, text, comment, instruction };

class ItemTable {
public:
    // Forgets the last document; cheap.
    void begin(const Document& document) {
        document_ = &document;
        size_ = 0;
        has_marks_ = false;
    }
    // Numbers the items of the document, unless that has been done. Returns the work that it took, in steps.
    uint64_t fill(bool with_marks);

    uint32_t size() const { return size_; }
    ItemKind kind(uint32_t item) const { return kinds_[item]; }
    uint32_t index(uint32_t item) const { return indices_[item]; }       // into the columns of its kind; of a mark, its number
    uint32_t parent(uint32_t item) const { return parents_[item]; }
    uint32_t end(uint32_t item) const { return ends_[item]; }            // after the last item inside it
    bool is_below(uint32_t item, uint32_t other) const { return other < item && item < ends_[other]; }
    uint32_t of_element(uint32_t element) const { return element == none ? 0 : of_element_[element]; }
    uint32_t of_attribute(uint32_t attribute) const { return of_attribute_[attribute]; }
    uint32_t of_text(uint32_t text) const { return of_text_[text]; }
    // Where the children of an item begin: attributes are none.
    uint32_t content(uint32_t item) const {
        uint32_t at = item + 1;
        if (kinds_[item] == ItemKind::element)
            at += static_cast<uint32_t>(document_->attribute_end(indices_[item])) - document_->attribute_begin[indices_[item]];
        return at;
    }

    std::string_view target(uint32_t item) const { return marks_.target(indices_[item]); }       // of a processing instruction
    std::string_view mark_value(uint32_t item) const { return marks_.value(indices_[item]); }    // of a comment or instruction
    std::pair<uint32_t, uint32_t> mark_range(uint32_t item) const {     // bytes of the source, with its delimiters
        const Marks::Place& mark = marks_[indices_[item]];
        return {mark.begin, mark.end};
    }

private:
    void add(ItemKind kind, uint32_t index, uint32_t parent);

    const Document* document_ = nullptr;
    uint32_t size_ = 0;
    bool has_marks_ = false;
    std::vector<ItemKind> kinds_;
    std::vector<uint32_t> indices_, parents_, ends_, of_element_, of_attribute_, of_text_, open_;
    Marks marks_;
};

}  // namespace treecast
