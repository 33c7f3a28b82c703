// MessagePack, as far as rows and messages of brokers need it: numbers, texts, bytes and the beginnings of arrays, each as short as
// it goes; and the way back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>

namespace treecast {

namespace message_pack {

// What is written to is a std::string, or has as much of it: ByteCount only counts, Room writes into memory that is large enough.
struct ByteCount {
    size_t size = 0;
    void push_back(char) { ++size; }
    void append(std::string_view bytes) { size += bytes.size(); }
};
struct Room {
    char* at;
    void push_back(char byte) { *at++ = byte; }
    void append(std::string_view bytes) {
        if (!bytes.empty()) std::memcpy(at, bytes.data(), bytes.size());
        at += bytes.size();
    }
};

template <class Out>
void big_endian(uint64_t value, int bytes, Out& out) {
    for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) out.push_back(static_cast<char>(value >> shift));
}

template <class Out>
void append_number(uint64_t value, Out& out) {
    if (value < 0x80) {
        out.push_back(static_cast<char>(value));
        return;
    }
    int size = value <= 0xFF ? 1 : value <= 0xFFFF ? 2 : value <= 0xFFFFFFFF ? 4 : 8;
    out.push_back(static_cast<char>(size == 1 ? 0xCC : size == 2 ? 0xCD : size == 4 ? 0xCE : 0xCF));
    big_endian(value, size, out);
}

template <class Out>
void append_text(std::string_view text, Out& out) {
    size_t size = text.size();
    if (size < 32) {
        out.push_back(static_cast<char>(0xA0 | size));
    } else {
        int bytes = size <= 0xFF ? 1 : size <= 0xFFFF ? 2 : 4;
        out.push_back(static_cast<char>(bytes == 1 ? 0xD9 : bytes == 2 ? 0xDA : 0xDB));
        big_endian(size, bytes, out);
    }
    out.append(text);
}

template <class Out>
void append_array(size_t count, Out& out) {
    if (count < 16) {
        out.push_back(static_cast<char>(0x90 | count));
        return;
    }
    out.push_back(static_cast<char>(count <= 0xFFFF ? 0xDC : 0xDD));
    big_endian(count, count <= 0xFFFF ? 2 : 4, out);
}

template <class Out>
void append_binary(std::string_view bytes, Out& out) {
    const size_t size = bytes.size();
    const int length = size <= 0xFF ? 1 : size <= 0xFFFF ? 2 : 4;
    out.push_back(static_cast<char>(length == 1 ? 0xC4 : length == 2 ? 0xC5 : 0xC6));
    big_endian(size, length, out);
    out.append(bytes);
}

// The beginning of such a value, always as long: for values that lie in memory as they travel.
constexpr size_t long_binary_head = 5;
inline void write_long_binary_head(size_t size, char* out) {
    *out++ = static_cast<char>(0xC6);
    for (int shift = 24; shift >= 0; shift -= 8) *out++ = static_cast<char>(size >> shift);
}

// Reads one value after the other. Every function throws std::invalid_argument for a value of another kind, or where bytes are missing.
struct Cursor {
    const char *at, *end;

    explicit Cursor(std::string_view bytes) : at(bytes.data()), end(at + bytes.size()) {}

    uint64_t number() {
        const unsigned char kind = byte();
        if (kind < 0x80) return kind;
        if (kind < 0xCC || kind > 0xCF) wrong("a number");
        return unsigned_of(1 << (kind - 0xCC));
    }
    std::string_view text() {
        const unsigned char kind = byte();
        if (kind >> 5 == 5) return take(kind & 0x1F);
        if (kind < 0xD9 || kind > 0xDB) wrong("a text");
        return take(unsigned_of(1 << (kind - 0xD9)));
    }
    std::string_view binary() {
        const unsigned char kind = byte();
        if (kind < 0xC4 || kind > 0xC6) wrong("bytes");
        return take(unsigned_of(1 << (kind - 0xC4)));
    }
    size_t array() {
        const unsigned char kind = byte();
        if (kind >> 4 == 9) return kind & 0x0F;
        if (kind != 0xDC && kind != 0xDD) wrong("an array");
        return unsigned_of(kind == 0xDC ? 2 : 4);
    }
    // So many values, whatever they are. What is inside of one is counted, so nothing is nested here.
    void skip(uint64_t count) {
        for (; count; --count) {
            // Each value that is still to come takes a byte at least.
            if (count > static_cast<uint64_t>(end - at)) wrong("complete");
            const unsigned char kind = byte();
            if (kind < 0x80 || kind >= 0xE0 || kind == 0xC0 || kind == 0xC2 || kind == 0xC3) continue;
            if (kind < 0x90) count += 2ull * (kind & 0x0F);
            else if (kind < 0xA0) count += kind & 0x0F;
            else if (kind < 0xC0) take(kind & 0x1F);
            else skip_sized(kind, count);
        }
    }

private:
    [[noreturn]] static void wrong(const char* what) { throw std::invalid_argument(std::string("something is not ") + what); }
    unsigned char byte() {
        if (at == end) wrong("complete");
        return static_cast<unsigned char>(*at++);
    }
    uint64_t unsigned_of(int bytes) {
        uint64_t value = 0;
        for (; bytes; --bytes) value = value << 8 | byte();
        return value;
    }
    std::string_view take(uint64_t size) {
        if (size > static_cast<uint64_t>(end - at)) wrong("complete");
        at += size;
        return {at - size, static_cast<size_t>(size)};
    }
    // Kinds from 0xC1 to 0xDF.
    void skip_sized(unsigned char kind, uint64_t& count) {
        switch (kind) {
        case 0xC4: case 0xC5: case 0xC6: take(unsigned_of(1 << (kind - 0xC4))); break;
        case 0xC7: case 0xC8: case 0xC9: take(unsigned_of(1 << (kind - 0xC7)) + 1); break;
        case 0xCA: take(4); break;
        case 0xCB: take(8); break;
        case 0xCC: case 0xCD: case 0xCE: case 0xCF: take(1u << (kind - 0xCC)); break;
        case 0xD0: case 0xD1: case 0xD2: case 0xD3: take(1u << (kind - 0xD0)); break;
        case 0xD4: case 0xD5: case 0xD6: case 0xD7: case 0xD8: take((1u << (kind - 0xD4)) + 1); break;
        case 0xD9: case 0xDA: case 0xDB: take(unsigned_of(1 << (kind - 0xD9))); break;
        case 0xDC: case 0xDD: count += unsigned_of(kind == 0xDC ? 2 : 4); break;
        case 0xDE: case 0xDF: count += 2 * unsigned_of(kind == 0xDE ? 2 : 4); break;
        default: wrong("MessagePack");
        }
    }
};

}  // namespace message_pack

}  // namespace treecast
