// Invariant: any bytes give a Document whose columns are consistent, or a Failure of the document family with a code, a
// line and an offset inside the bytes; the portable pass and the AVX2 pass give exactly the same; a Reader that has read
// other documents before gives the same as one that has not.
#include "base/cpu.hpp"
#include "base/failure.hpp"
#include "document/reader.hpp"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

using namespace treecast;

namespace {

void demand(bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "the invariant is broken: %s\n", what);
    std::abort();
}

void check_elements(const Document& d) {
    size_t count = d.elements();
    demand(count > 0 && d.parent[0] == none && d.depth[0] == 0 && d.size[0] == count, "root");
    for (size_t i = 0; i < count; ++i) {
        demand(d.name[i] < d.names->size(), "name");
        demand(d.start[i] < d.content[i] && d.content[i] <= d.end[i] && d.end[i] <= d.source.size(), "range");
        demand(d.source[d.start[i]] == '<' && d.source[d.end[i] - 1] == '>' && d.source[d.content[i] - 1] == '>', "tags");
        demand(d.original_offset(d.end[i]) <= d.original.size(), "original range");
        demand(d.size[i] >= 1 && i + d.size[i] <= count, "size");
        demand(d.attribute_begin[i] <= d.attribute_end(i) && d.attribute_end(i) <= d.attribute_name.size(), "attributes");
        demand(d.text_begin[i] <= d.text_end[i] && d.text_end[i] <= d.text.size(), "texts");
        if (!i) continue;
        size_t p = d.parent[i];
        demand(p < i && d.depth[i] == d.depth[p] + 1 && i + d.size[i] <= p + d.size[p], "parent");
        demand(d.start[i] >= d.content[p] && d.end[i] < d.end[p], "range in parent");
        demand(d.text_begin[i] >= d.text_begin[p] && d.text_end[i] <= d.text_end[p], "texts in parent");
    }
}

void check_values(const Document& d) {
    auto inside = [&](const Span& s) { return s.begin <= s.end && s.end <= (s.in_decoded ? d.decoded.size() : d.source.size()); };
    demand(d.attribute_name.size() == d.attribute_value.size() && d.text.size() == d.text_parent.size(), "column lengths");
    for (size_t a = 0; a < d.attribute_name.size(); ++a)
        demand(d.attribute_name[a] < d.names->size() && inside(d.attribute_value[a]), "attribute value");
    for (size_t t = 0; t < d.text.size(); ++t) {
        size_t p = d.text_parent[t];
        demand(inside(d.text[t]) && d.text[t].begin < d.text[t].end, "text");
        demand(p < d.elements() && t >= d.text_begin[p] && t < d.text_end[p], "text parent");
    }
}

// Everything that a Document or a Failure says, as one string.
std::string account(Reader& reader, std::string_view bytes) {
    std::string out;
    auto say = [&out](std::string_view text) { out.append(text).push_back('\x1F'); };
    auto number = [&out](uint64_t value) { out.append(std::to_string(value)).push_back(' '); };
    try {
        const Document& d = reader.read(bytes);
        check_elements(d);
        check_values(d);
        for (size_t i = 0; i < d.elements(); ++i) {
            say(d.names->uri(d.name[i])), say(d.names->local(d.name[i]));
            number(d.parent[i]), number(d.size[i]), number(d.start[i]), number(d.content[i]), number(d.end[i]);
            number(d.depth[i]), number(d.text_begin[i]), number(d.text_end[i]);
            for (size_t a = d.attribute_begin[i]; a < d.attribute_end(i); ++a)
                say(d.names->uri(d.attribute_name[a])), say(d.names->local(d.attribute_name[a])), say(d.value(d.attribute_value[a]));
        }
        for (size_t t = 0; t < d.text.size(); ++t) say(d.value(d.text[t])), number(d.text_parent[t]);
    } catch (const Failure& failure) {
        demand(failure.family == Family::document && failure.position <= bytes.size(), "failure");
        demand(failure.line > 0 || failure.code == "TC301", "line");
        say(failure.code), say(failure.message), say(failure.hint), number(failure.position), number(failure.line);
    }
    return out;
}

Reader fresh_reader() {
    Limits limits;
    limits.document_bytes_max = 3000;
    limits.depth_max = 20;
    limits.attributes_max = 8;
    limits.name_bytes_max = 80;
    limits.attribute_bytes_max = 200;
    limits.names_max = 40;                 // what a used reader has met before must not count
    static const auto entities = std::make_shared<const Entities>(Entities{{"x", "y\n<z>&"}, {"none", ""}});
    return Reader(limits, entities);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    std::string_view bytes(reinterpret_cast<const char*>(data), size);
    static Reader used = fresh_reader();
    Reader fresh = fresh_reader();
    simd_force(0);
    std::string scalar = account(fresh, bytes);
    simd_force(1);
    auto agrees = [&](const char* what) {
        std::string other = account(used, bytes);
        if (other != scalar) std::fprintf(stderr, "a fresh reader says: %s\na used reader says: %s\n", scalar.c_str(), other.c_str());
        demand(other == scalar, what);
    };
    agrees("both passes agree");
    agrees("a second reading agrees with the first");
    return 0;
}
