// PERF: runs without such characters are found 16 bytes at a time and copied whole; most values are one such run.
#include "render/escape.hpp"

#include "base/output.hpp"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace treecast {

namespace {

// In text a line feed is kept as it is, but a carriage return would be normalized away by the next reader.
struct InText {
    static constexpr char characters[] = {'&', '<', '>', '\r'};
};
// In attributes, all white space but the space would be normalized to spaces.
struct InAttribute {
    static constexpr char characters[] = {'&', '<', '>', '\r', '"', '\n', '\t'};
};

template <class Place>
inline constexpr std::array<bool, 256> special = [] {
    std::array<bool, 256> table{};
    for (char c : Place::characters) table[static_cast<unsigned char>(c)] = true;
    return table;
}();

// The first character from `at` on that must be escaped, or the end.
template <class Place>
const char* find_special(const char* at, const char* end) {
#if defined(__SSE2__)
    for (; end - at >= 16; at += 16) {
        __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
        __m128i found = _mm_setzero_si128();
        for (char c : Place::characters) found = _mm_or_si128(found, _mm_cmpeq_epi8(bytes, _mm_set1_epi8(c)));
        if (auto mask = static_cast<uint32_t>(_mm_movemask_epi8(found))) return at + std::countr_zero(mask);
    }
#endif
    while (at < end && !special<Place>[static_cast<unsigned char>(*at)]) ++at;
    return at;
}

std::string_view reference_to(char c) {
    switch (c) {
        case '&': return "&amp;";
        case '<': return "&lt;";
        case '>': return "&gt;";
        case '"': return "&quot;";
        case '\t': return "&#9;";
        case '\n': return "&#10;";
        default: return "&#13;";
    }
}

// Alternates between copying a run and writing one reference.
template <class Place, class Out>
void append_escaped(std::string_view text, Out& out) {
    const char* at = text.data();
    const char* end = at + text.size();
    while (true) {
        const char* stop = find_special<Place>(at, end);
        out.append(at, static_cast<size_t>(stop - at));
        if (stop == end) return;
        out += reference_to(*stop);
        at = stop + 1;
    }
}

}  // namespace

template <class Out>
void append_escaped_text(std::string_view text, Out& out) {
    append_escaped<InText>(text, out);
}

template <class Out>
void append_escaped_attribute(std::string_view text, Out& out) {
    append_escaped<InAttribute>(text, out);
}

template void append_escaped_text(std::string_view, std::string&);
template void append_escaped_text(std::string_view, Bytes&);
template void append_escaped_attribute(std::string_view, std::string&);
template void append_escaped_attribute(std::string_view, Bytes&);

}  // namespace treecast
