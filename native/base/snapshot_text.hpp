// Texts and numbers in one array of a saved index, for tables of strings, which are not flat arrays in memory.
#pragma once

#include "base/array.hpp"
#include "base/snapshot.hpp"
#include "base/varint.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace treecast {

inline void put_text(std::string& out, std::string_view text) {
    put_varint(out, static_cast<uint32_t>(text.size()));
    out += text;
}

// Reads what put_varint and put_text wrote. A damaged text is a Failure, never a read outside the array.
class SnapshotText {
public:
    explicit SnapshotText(const Array<char>& bytes) : at_(bytes.begin()), end_(bytes.end()) {}
    bool is_done() const { return at_ == end_; }
    uint32_t number() {
        uint32_t value = 0;
        for (int shift = 0; shift < 35; shift += 7) {
            if (at_ == end_) SnapshotReader::damaged();
            unsigned char byte = static_cast<unsigned char>(*at_++);
            value |= uint32_t(byte & 0x7F) << shift;
            if (byte < 0x80) return value;
        }
        SnapshotReader::damaged();
        return 0;
    }
    std::string_view text() {
        uint32_t size = number();
        if (size > size_t(end_ - at_)) SnapshotReader::damaged();
        at_ += size;
        return {at_ - size, size};
    }

private:
    const char *at_, *end_;
};

inline Array<char> to_array(const std::string& text) {
    Array<char> array;
    array.append(text.data(), text.size());
    return array;
}

}  // namespace treecast
