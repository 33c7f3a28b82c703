// Numbers in as few bytes as they need: seven bits per byte, lowest first. The high bit says that more follow.
#pragma once

#include <cstdint>
#include <string>

namespace treecast {

inline void put_varint(std::string& out, uint32_t value) {
    for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
    out.push_back(static_cast<char>(value));
}

// For bytes that this process wrote; it checks nothing. SnapshotText reads those of a file.
inline uint32_t take_varint(const char*& at) {
    uint32_t value = 0;
    int shift = 0;
    for (; *at & 0x80; ++at, shift += 7) value |= uint32_t(*at & 0x7F) << shift;
    return value | uint32_t(static_cast<unsigned char>(*at++)) << shift;
}

}  // namespace treecast
