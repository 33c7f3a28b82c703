// Finds the parts of a start tag, the texts between tags, and applies edits to a source.
//
// Documents are columns; the columns do not store where attributes and texts are written. These functions find them again
// in a source that is known to be well-formed, so they check nothing.
#include "render/markup.hpp"

#include "document/characters.hpp"
#include "render/copy.hpp"

#include <algorithm>

namespace treecast {

namespace {

// The offset after the markup at `at` (a comment, instruction or CDATA section) that ends with `sign`.
size_t behind(std::string_view source, size_t at, std::string_view sign) { return source.find(sign, at) + sign.size(); }

// Splits the source between two tags into texts: comments and instructions end them, CDATA sections do not.
template <class Found>
void split_texts(std::string_view source, uint32_t begin, uint32_t end, Found&& found) {
    size_t from = begin;
    bool filled = false;                 // an empty CDATA section alone is no text
    auto finish = [&](size_t at) {
        if (filled) found(static_cast<uint32_t>(from), static_cast<uint32_t>(at));
        filled = false;
    };
    for (size_t at = begin; at < end;) {
        size_t markup = std::min<size_t>(source.find('<', at), end);
        filled |= markup > at;
        at = markup;
        if (at == end) break;
        if (source[at + 1] == '?' || source[at + 2] == '-') {
            finish(at);
            at = source[at + 1] == '?' ? behind(source, at + 2, "?>") : behind(source, at + 4, "-->");
            from = at;
        } else {
            constexpr size_t opening = 9, closing = 3;     // <![CDATA[ and ]]>
            size_t after = behind(source, at + opening, "]]>");
            filled |= after - at > opening + closing;
            at = after;
        }
    }
    finish(end);
}

// Text that gets a new neighbour must not form ]]> or a line end of two characters with it.
void append_joined(std::string_view chunk, std::string& out) {
    if (chunk.empty() || out.empty()) {
        out += chunk;
        return;
    }
    char last = out.back();
    if (last == ']' && chunk[0] == '>' && out.size() > 1 && out[out.size() - 2] == ']') {
        out += "&gt;";
        chunk.remove_prefix(1);
    } else if (last == ']' && chunk.size() > 1 && chunk[0] == ']' && chunk[1] == '>') {
        out += "]&gt;";
        chunk.remove_prefix(2);
    } else if (last == '\r' && chunk[0] == '\n') {
        out += "&#10;";
        chunk.remove_prefix(1);
    }
    out += chunk;
}

}  // namespace

// The last '<' before the end of an element belongs to its end tag: nothing in an end tag can contain one.
uint32_t end_tag_of(const Document& document, uint32_t element) {
    if (!has_end_tag(document, element)) return document.end[element];
    return static_cast<uint32_t>(document.source.rfind('<', document.end[element] - 1));
}

void read_start_tag(const Document& document, uint32_t element, std::vector<TagPart>& out) {
    out.clear();
    std::string_view source = document.source;
    auto name_size = static_cast<uint32_t>(element_qname(document, element).size());
    for (uint32_t at = document.start[element] + 1 + name_size;;) {
        TagPart part;
        part.begin = at;
        while (is_space(source[at])) ++at;
        if (source[at] == '>' || source[at] == '/') return;
        part.name = at;
        while (!is_space(source[at]) && source[at] != '=') ++at;
        part.name_end = at;
        while (source[at] != '"' && source[at] != '\'') ++at;
        part.value = at + 1;
        part.value_end = static_cast<uint32_t>(source.find(source[at], at + 1));
        part.end = at = part.value_end + 1;
        std::string_view name = source.substr(part.name, part.name_end - part.name);
        part.declares = name == "xmlns" || name.starts_with("xmlns:");
        out.push_back(part);
    }
}

// Texts in the source and texts in the columns come in the same order, so they are paired by counting.
void place_texts(const Document& document, uint32_t element, std::vector<TextPlace>& out) {
    out.clear();
    const Document& d = document;
    if (!has_end_tag(d, element)) return;
    uint32_t text = d.text_begin[element];
    auto found = [&](uint32_t begin, uint32_t end) {
        while (d.text_parent[text] != element) text = d.text_end[d.text_parent[text]];
        out.push_back({text++, begin, end});
    };
    uint32_t from = d.content[element], last = element + d.size[element];
    for (uint32_t child = element + 1; child < last; child += d.size[child]) {
        split_texts(d.source, from, d.start[child], found);
        from = d.end[child];
    }
    split_texts(d.source, from, end_tag_of(d, element), found);
}

void Edits::clear() {
    edits_.clear();
    texts_.clear();
}

void Edits::replace(uint32_t begin, uint32_t end, std::string_view text) {
    edits_.push_back({begin, end, static_cast<uint32_t>(texts_.size()), static_cast<uint32_t>(text.size())});
    texts_ += text;
}

// Copies the source with all edits in place. Edits inside a range that was removed are skipped.
bool Edits::apply(std::string_view source, uint32_t begin, uint32_t end, uint64_t size_max, std::string& out) {
    // At the same place, insertions come before removals.
    auto before = [](const Edit& a, const Edit& b) { return a.begin != b.begin ? a.begin < b.begin : a.end < b.end; };
    if (!std::is_sorted(edits_.begin(), edits_.end(), before)) std::stable_sort(edits_.begin(), edits_.end(), before);
    uint32_t at = begin;
    for (const Edit& edit : edits_) {
        if (edit.begin < at) continue;
        append_joined(source.substr(at, edit.begin - at), out);
        out.append(texts_, edit.text, edit.text_size);
        at = edit.end;
        if (out.size() > size_max) return false;
    }
    append_joined(source.substr(at, end - at), out);
    return out.size() <= size_max;
}

}  // namespace treecast
