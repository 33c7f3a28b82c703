// MessagePack, as far as rows and messages of brokers need it: numbers, texts and the beginnings of arrays, each as short as it goes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace treecast {

namespace message_pack {

inline void big_endian(uint64_t value, int bytes, std::string& out) {
    for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) out.push_back(static_cast<char>(value >> shift));
}

inline void append_number(uint64_t value, std::string& out) {
    if (value < 0x80) {
        out.push_back(static_cast<char>(value));
        return;
    }
    int size = value <= 0xFF ? 1 : value <= 0xFFFF ? 2 : value <= 0xFFFFFFFF ? 4 : 8;
    out.push_back(static_cast<char>(size == 1 ? 0xCC : size == 2 ? 0xCD : size == 4 ? 0xCE : 0xCF));
    big_endian(value, size, out);
}

inline void append_text(std::string_view text, std::string& out) {
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

inline void append_array(size_t count, std::string& out) {
    if (count < 16) {
        out.push_back(static_cast<char>(0x90 | count));
        return;
    }
    out.push_back(static_cast<char>(count <= 0xFFFF ? 0xDC : 0xDD));
    big_endian(count, count <= 0xFFFF ? 2 : 4, out);
}

}  // namespace message_pack

}  // namespace treecast
