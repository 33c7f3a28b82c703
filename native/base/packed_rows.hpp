// Rows of bytes of any size, one after the other, each with its size in front. Where every sixteenth row begins is noted; the
// others are found by going on from there. So what a row takes beside its bytes is one byte and a half, where an array of ends
// would take eight.
//
// Readers may share the memory while one writer appends, as with an Array.
#pragma once

#include "base/array.hpp"
#include "base/varint.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace treecast {

// Rows where they lie.
struct RowsPlace {
    static constexpr uint32_t block_rows = 16;
    const char* bytes;
    const uint64_t* blocks;

    std::string_view operator[](uint32_t row) const {
        const char* at = bytes + blocks[row / block_rows];
        uint32_t size = take_varint(at);
        for (uint32_t before = row % block_rows; before > 0; --before) {
            at += size;
            size = take_varint(at);
        }
        return {at, size};
    }
};

// What a reader holds: the rows that there were when it came.
struct SharedRows {
    std::shared_ptr<char[]> bytes;
    std::shared_ptr<uint64_t[]> blocks;
    std::string_view operator[](uint32_t row) const { return RowsPlace{bytes.get(), blocks.get()}[row]; }
    void prefetch(uint32_t row) const { __builtin_prefetch(&blocks[row / RowsPlace::block_rows]); }
};

class PackedRows {
public:
    uint32_t size() const { return size_; }
    std::string_view operator[](uint32_t row) const { return RowsPlace{bytes_.data(), blocks_.data()}[row]; }
    void share_with(SharedRows& reader) const noexcept { bytes_.share_with(reader.bytes), blocks_.share_with(reader.blocks); }
    uint64_t bytes() const { return bytes_.bytes() + blocks_.bytes(); }
    uint64_t used() const { return bytes_.size(); }           // where the next row begins

    // If there is no memory for it, cut() takes back what was written of it.
    void push(std::string_view row) {
        char size[5];
        size_t digits = 0;
        auto rest = static_cast<uint32_t>(row.size());
        for (; rest >= 0x80; rest >>= 7) size[digits++] = static_cast<char>(rest | 0x80);
        size[digits++] = static_cast<char>(rest);
        bytes_.reserve(bytes_.size() + digits + row.size());
        if (size_ % RowsPlace::block_rows == 0) blocks_.push(bytes_.size());
        bytes_.append(size, digits);
        bytes_.append(row.data(), row.size());
        ++size_;
    }
    // Back to as many rows, and to what used() was then.
    void cut(uint32_t size, uint64_t used) noexcept {
        size_ = size;
        bytes_.cut(used);
        blocks_.cut(blocks_of(size));
    }

    // Its arrays, in the order of a saved file. Whoever reads them says how many rows they are; false: they cannot be.
    template <class Visit>
    void parts(Visit&& visit) { visit(bytes_), visit(blocks_); }
    bool set_size(uint32_t size) {
        size_ = size;
        return blocks_.size() == blocks_of(size);
    }

private:
    static size_t blocks_of(uint32_t rows) { return (size_t(rows) + RowsPlace::block_rows - 1) / RowsPlace::block_rows; }
    Array<char> bytes_;
    Array<uint64_t> blocks_;
    uint32_t size_ = 0;
};

}  // namespace treecast
