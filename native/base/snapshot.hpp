// A saved index: one flat, mapped, checksummed file. Little-endian; the arrays of the index, as they are in memory.
//
//     header        magic, format version, byte order, file size, number of sections, two checksums
//     section table offset and size of each section
//     sections      each at a multiple of 64 bytes, large ones at a multiple of 4096
//
// Section 0 holds the plain values. Sections 1 to 10 hold what was asked for, and keep their place and form in every format
// version from the sixth on, so that an index can be rebuilt from them: about, settings, ends and bytes of ids, rows of query texts
// and where they begin, bytes and ends of the words in them (query/query_texts.hpp), deaths, order. The first five versions had
// nine: ends and bytes of texts, and settings by slot, in the place of the texts. All other sections may change with the version.
//
// The checksums guard against accidents, not attackers. Header and table are always verified; the sections, and that the
// bytes between them are zero, on request.
//
// Most of a large index stays as it was saved, and something is added to the end of each array. So a large section that begins
// with a page is mapped by itself, with vacant memory behind it: then the first addition copies no array.
//
//   TC501  not a saved index, or made on another kind of machine
//   TC502  cut off, or longer than it says
//   TC503  damaged: a checksum differs
#pragma once

#include "base/array.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace treecast {

constexpr uint32_t snapshot_version = 10;

uint64_t checksum(const void* data, size_t bytes, uint64_t seed = 0);

// Takes the parts of an index in order, then writes the file next to its place, syncs it and renames it.
class SnapshotWriter {
public:
    // No gaps between members: what is in them would differ from process to process.
    template <class T>
        requires std::has_unique_object_representations_v<T>
    void operator()(Array<T>& array) {
        sections_.emplace_back(reinterpret_cast<const char*>(array.data()), array.size() * sizeof(T));
        memory_.push_back(array.share());
    }
    template <class T>
        requires std::has_unique_object_representations_v<T>
    void operator()(T& value) {
        values_.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
    void write(const std::string& path);            // throws std::system_error

private:
    std::vector<std::string_view> sections_;
    std::vector<std::shared_ptr<const void>> memory_;     // of the sections: an array may be gone before it is written
    std::string values_;
};

// A mapped file whose parts are given out in the order in which they were written.
class SnapshotReader {
public:
    SnapshotReader(const std::string& path, bool verify);      // throws Failure, std::system_error
    uint32_t version() const { return version_; }
    bool current() const { return version_ == snapshot_version; }

    template <class T>
    void operator()(Array<T>& array) {
        Part part = next(sizeof(T));
        array.map(std::shared_ptr<T[]>(std::move(part.memory), reinterpret_cast<T*>(part.data)), part.bytes / sizeof(T),
                  part.room / sizeof(T));
    }
    template <class T>
        requires std::is_trivially_copyable_v<T>
    void operator()(T& value) {
        take_value(&value, sizeof value);
    }
    static void damaged();                          // throws TC503

private:
    struct Section {
        uint64_t offset, bytes;
    };
    struct Part {
        std::shared_ptr<char[]> memory;         // keeps it mapped
        char* data;
        uint64_t bytes, room;                   // room: with what is vacant behind it
    };
    Part next(size_t element);
    void map_sections(int file, const std::shared_ptr<char[]>& memory, bool verify);
    void check_gaps(const char* file, uint64_t table_end, uint64_t bytes) const;
    void take_value(void* value, size_t bytes);

    std::vector<Section> sections_;
    std::vector<Part> parts_;                   // by section
    size_t next_section_ = 1, next_value_ = 0;
    uint32_t version_ = 0;
};

}  // namespace treecast
