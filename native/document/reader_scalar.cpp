// The pass in portable C++.
#include "document/binary.hpp"
#include "document/reader_state.hpp"
#include "document/survey.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#define TREECAST_INLINE inline __attribute__((always_inline))
#define TREECAST_NOINLINE __attribute__((noinline))

namespace treecast::level_scalar {

namespace {

enum Stop : uint8_t { text = 1, value = 2, double_quote = 4, single_quote = 8, name_end = 16 };

constexpr std::array<uint8_t, 256> stops = [] {
    std::array<uint8_t, 256> table{};
    auto mark = [&table](std::string_view characters, uint8_t bits) {
        for (unsigned char c : characters) table[c] |= bits;
    };
    table[0] = text | value;
    mark("<&\r]", text);
    mark("<&\t\n\r", value);
    mark("\"", double_quote);
    mark("'", single_quote);
    mark(" \t\n/>=", name_end);
    return table;
}();

inline uint8_t stop_at(const char* at) { return stops[static_cast<unsigned char>(*at)]; }

struct Scan {
    static TREECAST_INLINE void copy_32(void* to, const void* from) { std::memcpy(to, from, 32); }
    static const char* find_text_stop(const char* at) {
        while (!(stop_at(at) & text)) ++at;
        return at;
    }
    static const char* find_value_stop(const char* at, char quote) {
        const uint8_t wanted = value | (quote == '"' ? double_quote : single_quote);
        while (!(stop_at(at) & wanted)) ++at;
        return at;
    }
    // Up to 32, which means 32 or more.
    static uint32_t name_length(const char* at) {
        uint32_t length = 0;
        while (length < short_name_bytes && !(stop_at(at + length) & name_end)) ++length;
        return length;
    }
    struct Key {
        uint64_t words[4];
        Key(const char* at, uint32_t length) {
            const unsigned char* mask = name_masks + 32 - length;
            for (int i = 0; i < 4; ++i) words[i] = load_word(at + 8 * i) & load_word(mask + 8 * i);
        }
        bool equals(const char* bytes) const { return std::memcmp(words, bytes, sizeof words) == 0; }
    };
    // May deny a long name, which then takes the slow path.
    static bool same_name(const char* one, const char* other, uint32_t length) {
        return length <= short_name_bytes && std::memcmp(one, other, length) == 0;
    }
};

#include "document/reader_pass.hpp"
#include "document/binary_pass.hpp"

}  // namespace treecast::level_scalar
