// Items -> places.
//
// The columns store where elements are, but not attributes or texts. Those are found again in the source of their element.
// The source was read before and is known to be well-formed, so this code checks nothing.
#include "evaluate/explain.hpp"

#include "document/characters.hpp"

#include <algorithm>
#include <set>

namespace treecast {

namespace {

constexpr size_t names_max = 2000;           // to choose a similar name from

// Columns count characters, not bytes: continuation bytes do not count.
uint64_t characters(std::string_view utf8) {
    return static_cast<uint64_t>(std::count_if(utf8.begin(), utf8.end(), [](unsigned char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

// Lines end at LF, CR or CR LF. A byte order mark belongs to no line.
Places::Places(const Document& document) : document_(document) {
    std::string_view source = document.source;
    line_starts_.push_back(source.starts_with("\xEF\xBB\xBF") ? 3 : 0);
    for (size_t i = 0; i < source.size(); ++i)
        if (source[i] == '\n' || (source[i] == '\r' && (i + 1 == source.size() || source[i + 1] != '\n')))
            line_starts_.push_back(static_cast<uint32_t>(i + 1));
}

// Everything is computed in the transcoded source, then converted to offsets in the bytes as given.
Place Places::find(const ItemTable& table, uint32_t item) const {
    const Document& d = document_;
    const uint32_t index = table.index(item);
    Place place;
    place.kind = table.kind(item);
    uint32_t start = 0, end = 0, tag_end = 0;
    switch (place.kind) {
        case ItemKind::document:
            place.path = "/";
            start = line_starts_[0];
            end = static_cast<uint32_t>(d.source.size());
            break;
        case ItemKind::element:
            place.path = path_of(index);
            place.uri = d.names->uri(d.name[index]);
            start = d.start[index];
            end = d.end[index];
            tag_end = d.content[index];
            break;
        case ItemKind::attribute: {
            const uint32_t owner = table.index(table.parent(item));
            std::string_view name;
            std::tie(start, end) = attribute_range(owner, index - d.attribute_begin[owner], name);
            place.path = path_of(owner) + "/@" + std::string(name);
            place.uri = d.names->uri(d.attribute_name[index]);
            break;
        }
        case ItemKind::text: {
            uint32_t parent = d.text_parent[index], number = 0, count = 0;
            for (uint32_t text = d.text_begin[parent]; text < d.text_end[parent]; ++text) {
                if (d.text_parent[text] != parent) continue;
                number += text < index;
                ++count;
            }
            std::tie(start, end) = text_range(parent, number, count);
            place.path = path_of(parent) + "/text()[" + std::to_string(number + 1) + "]";
            break;
        }
        case ItemKind::comment:
        case ItemKind::instruction: {
            std::tie(start, end) = table.mark_range(item);
            const uint32_t parent = table.parent(item);
            size_t number = 1;
            for (uint32_t at = table.content(parent); at < item; at = table.end(at)) number += table.kind(at) == place.kind;
            if (parent) place.path = path_of(table.index(parent));
            place.path += place.kind == ItemKind::comment ? "/comment()[" : "/processing-instruction()[";
            place.path += std::to_string(number) + "]";
            break;
        }
    }
    if (!tag_end) tag_end = end;
    std::tie(place.line, place.column) = line_of(start);
    std::tie(place.tag_line, place.tag_column) = line_of(tag_end);
    place.start = d.original_offset(start);
    place.end = d.original_offset(end);
    return place;
}

std::vector<std::string_view> Places::names(bool attributes) const {
    const Document& d = document_;
    std::vector<std::string_view> found;
    std::set<uint32_t> seen;
    for (uint32_t element = 0; element < d.elements() && found.size() < names_max; ++element) {
        if (!attributes) {
            if (seen.insert(d.name[element]).second) found.push_back(name_of(element));
            continue;
        }
        for (uint32_t at = d.attribute_begin[element]; at < d.attribute_end(element); ++at) {
            if (!seen.insert(d.attribute_name[at]).second) continue;
            found.emplace_back();
            attribute_range(element, at - d.attribute_begin[element], found.back());
        }
    }
    return found;
}

// Numbers each element among its siblings of the same name, as XPath does. The chain is built upward and written downward.
std::string Places::path_of(uint32_t element) const {
    const Document& d = document_;
    std::vector<uint32_t> line;
    for (uint32_t at = element; at != none; at = d.parent[at]) line.push_back(at);
    std::string path;
    for (auto at = line.rbegin(); at != line.rend(); ++at) {
        uint32_t parent = d.parent[*at], number = 1;
        for (uint32_t sibling = parent == none ? *at : parent + 1; sibling < *at; sibling += d.size[sibling])
            number += d.name[sibling] == d.name[*at];
        ((((path += '/') += name_of(*at)) += '[') += std::to_string(number)) += ']';
    }
    return path;
}

// The name as the document writes it, with its prefix.
std::string_view Places::name_of(uint32_t element) const {
    std::string_view source = document_.source;
    size_t begin = document_.start[element] + 1, end = begin;
    while (!is_space(source[end]) && source[end] != '/' && source[end] != '>') ++end;
    return source.substr(begin, end - begin);
}

// Columns are seldom needed, so they are counted on demand from the start of the line.
std::pair<uint64_t, uint64_t> Places::line_of(uint32_t offset) const {
    auto after = std::upper_bound(line_starts_.begin(), line_starts_.end(), offset);
    if (after == line_starts_.begin()) return {1, 1};
    uint32_t start = *(after - 1);
    return {static_cast<uint64_t>(after - line_starts_.begin()), 1 + characters(document_.source.substr(start, offset - start))};
}

// The attribute with this number: name, equals sign and value. Namespace declarations are not counted.
std::pair<uint32_t, uint32_t> Places::attribute_range(uint32_t element, uint32_t number, std::string_view& name) const {
    std::string_view source = document_.source;
    uint32_t at = document_.start[element] + 1 + static_cast<uint32_t>(name_of(element).size());
    while (true) {
        while (is_space(source[at])) ++at;
        uint32_t begin = at;
        while (!is_space(source[at]) && source[at] != '=') ++at;
        name = source.substr(begin, at - begin);
        while (source[at] != '"' && source[at] != '\'') ++at;
        at = static_cast<uint32_t>(source.find(source[at], at + 1)) + 1;
        if (name == "xmlns" || name.starts_with("xmlns:")) continue;
        if (number-- == 0) return {begin, at};
    }
}

// The bytes of a text: a run of characters, references and CDATA sections between other markup.
// An entity may stand for nothing, so runs and texts may disagree. Then the whole content of the element is returned.
std::pair<uint32_t, uint32_t> Places::text_range(uint32_t element, uint32_t number, uint32_t count) const {
    const Document& d = document_;
    std::string_view source = d.source;
    std::vector<std::pair<uint32_t, uint32_t>> runs;
    uint32_t child = element + 1, at = d.content[element], begin = at;
    uint32_t end = static_cast<uint32_t>(source.rfind("</", d.end[element] - 1));
    bool some = false;
    // Ends the current run, if it has any characters, and continues after the markup.
    auto close = [&](uint32_t next) {
        if (some) runs.emplace_back(begin, at);
        some = false;
        begin = at = next;
    };
    while (at < end) {
        if (source[at] != '<') {
            some = true;
            ++at;
        } else if (source.substr(at).starts_with("<![CDATA[")) {
            uint32_t last = static_cast<uint32_t>(source.find("]]>", at));
            some = some || last > at + 9;
            at = last + 3;
        } else if (source.substr(at).starts_with("<!--")) {
            close(static_cast<uint32_t>(source.find("-->", at + 4)) + 3);
        } else if (source[at + 1] == '?') {
            close(static_cast<uint32_t>(source.find("?>", at)) + 2);
        // A child element: skip its whole subtree.
        } else {
            uint32_t next = d.end[child];
            child += d.size[child];
            close(next);
        }
    }
    close(end);
    if (runs.size() != count) return {d.content[element], end};
    return runs[number];
}

}  // namespace treecast
