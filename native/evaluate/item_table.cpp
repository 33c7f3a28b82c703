// Merges the columns of a document into one numbering, and finds the comments and instructions in its source.
//
// An element knows how many texts began before it, so elements and texts merge without looking at the source. For comments the
// source is scanned once. It is well-formed, which the reader has checked, so only the delimiters matter.
#include "evaluate/item_table.hpp"

#include "document/characters.hpp"

#include <algorithm>

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
    if (with_marks) {
        find_marks();
        work += d.source.size() / 32;
    }
    has_marks_ = with_marks;
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

// Whether a reference at this byte stands for no text at all. `end` is then where it ends.
bool ItemTable::is_empty_reference(uint32_t at, uint32_t& end) const {
    const auto& references = document_->references;
    const EntityReference* first = references.data();
    const EntityReference* last = first + references.size();
    const EntityReference* found = std::lower_bound(first, last, at, [](const EntityReference& r, uint32_t place) { return r.begin < place; });
    if (found == last || found->begin != at || found->text_begin != found->text_end) return false;
    end = found->end;
    return true;
}

// Counts elements and texts on the way, as the reader has counted them: CDATA belongs to the text around it, an empty one to none.
void ItemTable::find_marks() {
    const std::string_view s = document_->source;
    auto after = [&](std::string_view end, size_t from) {
        size_t found = s.find(end, from);
        return found == std::string_view::npos ? s.size() : found + end.size();
    };
    std::vector<uint32_t> parents;
    uint32_t elements = 0, texts = 0;
    bool in_text = false;
    auto end_text = [&] {
        texts += in_text;
        in_text = false;
    };
    for (size_t at = 0; at < s.size();) {
        if (s[at] != '<') {
            uint32_t end = 0;
            if (s[at] == '&' && is_empty_reference(static_cast<uint32_t>(at), end)) {
                at = end;
                continue;
            }
            in_text = !parents.empty();
            at = s[at] == '&' ? at + 1 : std::min(s.find_first_of("<&", at), s.size());
            continue;
        }
        std::string_view rest = s.substr(at);
        if (rest.starts_with("<![CDATA[")) {
            size_t end = after("]]>", at + 9);
            in_text = in_text || end - at > 12;
            at = end;
            continue;
        }
        end_text();
        if (rest.starts_with("<!--") || rest.starts_with("<?")) {
            bool is_comment = rest[1] == '!';
            size_t end = is_comment ? after("-->", at + 4) : after("?>", at + 2);
            bool is_declaration = elements == 0 && rest.starts_with("<?xml") && rest.size() > 5 && is_space(rest[5]);
            if (!is_declaration)
                marks_.push_back({static_cast<uint32_t>(at), static_cast<uint32_t>(end), elements, texts,
                                  parents.empty() ? none : parents.back(), is_comment});
            at = end;
        } else if (rest.starts_with("<!")) {           // a document type, whose own comments are no part of the document
            int brackets = 0;
            for (++at; at < s.size(); ++at) {
                char c = s[at];
                if (c == '"' || c == '\'') at = std::min(s.find(c, at + 1), s.size());
                else if (s.compare(at, 4, "<!--") == 0) at = after("-->", at + 4) - 1;
                else if (s.compare(at, 2, "<?") == 0) at = after("?>", at + 2) - 1;
                else if (c == '[') ++brackets;
                else if (c == ']') --brackets;
                else if (c == '>' && brackets == 0) break;
            }
            ++at;
        } else if (rest.starts_with("</")) {
            if (!parents.empty()) parents.pop_back();
            at = after(">", at);
        } else {
            for (++at; at < s.size() && s[at] != '>'; ++at)
                if (s[at] == '"' || s[at] == '\'') at = std::min(s.find(s[at], at + 1), s.size());
            if (s[at - 1] != '/') parents.push_back(elements);
            ++elements;
            ++at;
        }
    }
}

std::string_view ItemTable::target(uint32_t item) const {
    const MarkPlace& mark = marks_[indices_[item]];
    std::string_view inside = document_->source.substr(mark.begin + 2, mark.end - mark.begin - 4);
    size_t end = inside.find_first_of(" \t\r\n");
    return inside.substr(0, end);
}

// Of an instruction: what follows its target, without the space between.
std::string_view ItemTable::mark_value(uint32_t item) const {
    const MarkPlace& mark = marks_[indices_[item]];
    if (mark.is_comment) return document_->source.substr(mark.begin + 4, mark.end - mark.begin - 7);
    std::string_view inside = document_->source.substr(mark.begin + 2, mark.end - mark.begin - 4);
    size_t data = inside.find_first_not_of(" \t\r\n", target(item).size());
    return data == std::string_view::npos ? std::string_view() : inside.substr(data);
}

}  // namespace treecast
