// Merges the columns of a document, and its marks, into one numbering.
//
// An element knows how many texts began before it, and a mark how many elements and texts, so all merge in one pass.
#include "evaluate/item_table.hpp"

namespace treecast {

// `open_` holds the items that are not complete. What does not belong into the last of them completes it.
void ItemTable::add(ItemKind kind, uint32_t index, uint32_t parent) {
    while (!open_.empty() && open_.back() != parent) {
        ends_[open_.back()] = size_;
        open_.pop_back();
    }
    kinds_[size_] = kind;
    indices_[size_] = index;
    parents_[size_] = parent;
    ends_[size_] = size_ + 1;
    if (kind == ItemKind::document || kind == ItemKind::element) open_.push_back(size_);
    ++size_;
}

uint64_t ItemTable::fill(bool with_marks) {
    if (size_ && (has_marks_ || !with_marks)) return 0;
    const Document& d = *document_;
    uint64_t work = 0;
    marks_.clear();
    if (with_marks) work += marks_.find(d) / 32;
    has_marks_ = with_marks || !d.has_marks;
    const auto elements = static_cast<uint32_t>(d.elements()), texts = static_cast<uint32_t>(d.text.size());
    const size_t total = 1 + elements + d.attribute_name.size() + texts + marks_.size();
    if (kinds_.size() < total) {
        kinds_.resize(total);
        for (auto* column : {&indices_, &parents_, &ends_}) column->resize(total);
    }
    of_element_.resize(elements);
    of_attribute_.resize(d.attribute_name.size());
    of_text_.resize(texts);
    size_ = 0;
    open_.clear();
    add(ItemKind::document, none, none);
    uint32_t text = 0;
    size_t mark = 0;
    auto add_texts = [&](uint32_t end) {
        for (; text < end; ++text) {
            of_text_[text] = size_;
            add(ItemKind::text, text, of_element_[d.text_parent[text]]);
        }
    };
    auto add_marks = [&](uint32_t before) {
        for (; mark < marks_.size() && marks_[mark].elements <= before; ++mark) {
            add_texts(marks_[mark].texts);
            add(marks_[mark].is_comment ? ItemKind::comment : ItemKind::instruction, static_cast<uint32_t>(mark),
                of_element(marks_[mark].parent));
        }
    };
    for (uint32_t element = 0; element < elements; ++element) {
        add_marks(element);
        add_texts(d.text_begin[element]);
        of_element_[element] = size_;
        uint32_t own = size_;
        add(ItemKind::element, element, element ? of_element_[d.parent[element]] : 0);
        for (uint32_t at = d.attribute_begin[element]; at < d.attribute_end(element); ++at) {
            of_attribute_[at] = size_;
            add(ItemKind::attribute, at, own);
        }
    }
    add_marks(elements);
    add_texts(texts);
    for (uint32_t item : open_) ends_[item] = size_;
    return work + total;
}

}  // namespace treecast
