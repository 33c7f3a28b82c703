// Finds comments and instructions in the source of a document.
#include "document/marks.hpp"

#include "document/characters.hpp"

#include <algorithm>

namespace treecast {

uint64_t Marks::find(const Document& document) {
    document_ = &document;
    places_.clear();
    if (!document.has_marks) return 0;
    scan();
    return document.source.size();
}

// Whether a reference at this byte stands for no text at all. `end` is then where it ends.
bool Marks::is_empty_reference(uint32_t at, uint32_t& end) const {
    const auto& references = document_->references;
    const EntityReference* first = references.data();
    const EntityReference* last = first + references.size();
    const EntityReference* found = std::lower_bound(first, last, at, [](const EntityReference& r, uint32_t place) { return r.begin < place; });
    if (found == last || found->begin != at || found->text_begin != found->text_end) return false;
    end = found->end;
    return true;
}

size_t Marks::after(std::string_view delimiter, size_t from) const {
    const size_t found = document_->source.find(delimiter, from);
    return found == std::string_view::npos ? document_->source.size() : found + delimiter.size();
}

// A document type, whose own comments are no part of the document.
size_t Marks::skip_doctype(size_t at) const {
    const std::string_view s = document_->source;
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
    return at + 1;
}

// Counts elements and texts on the way, as the reader has counted them: CDATA belongs to the text around it, an empty one to none.
void Marks::scan() {
    const std::string_view s = document_->source;
    std::vector<uint32_t> parents;
    uint32_t elements = 0, texts = 0;
    bool in_text = false;
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
        texts += in_text;
        in_text = false;
        if (rest.starts_with("<!--") || rest.starts_with("<?")) {
            bool is_comment = rest[1] == '!';
            size_t end = is_comment ? after("-->", at + 4) : after("?>", at + 2);
            bool is_declaration = elements == 0 && rest.starts_with("<?xml") && rest.size() > 5 && is_space(rest[5]);
            if (!is_declaration)
                places_.push_back({static_cast<uint32_t>(at), static_cast<uint32_t>(end), elements, texts,
                                   parents.empty() ? none : parents.back(), is_comment});
            at = end;
        } else if (rest.starts_with("<!")) {
            at = skip_doctype(at);
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

std::string_view Marks::target(size_t mark) const {
    const Place& place = places_[mark];
    std::string_view inside = document_->source.substr(place.begin + 2, place.end - place.begin - 4);
    return inside.substr(0, inside.find_first_of(" \t\r\n"));
}

std::string_view Marks::value(size_t mark) const {
    const Place& place = places_[mark];
    if (place.is_comment) return document_->source.substr(place.begin + 4, place.end - place.begin - 7);
    std::string_view inside = document_->source.substr(place.begin + 2, place.end - place.begin - 4);
    size_t data = inside.find_first_not_of(" \t\r\n", target(mark).size());
    return data == std::string_view::npos ? std::string_view() : inside.substr(data);
}

}  // namespace treecast
