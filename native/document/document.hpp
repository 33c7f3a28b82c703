// A document as flat columns, and the names in it. Filled by reader.cpp, walked by the machines.
//
// Elements are numbered in document order from 0 (the root element). Everything else is derived from four facts
// about element i: depth[i] (the root has 0), size[i] (elements in its subtree, itself included), parent[i], and i.
//   labels of DHT-NFA (L:R,D):  L = 2i - depth + 1, R = L + 2*size - 1, D = depth     (one counter over all tags, from 1)
//   labels of Selective:        LB = i - depth + 1, PON = i - depth + size            (post-order numbers, from 1)
#pragma once

#include "base/id_slots.hpp"
#include "base/large_pages.hpp"
#include "base/seeded_hash.hpp"

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace treecast {

constexpr uint32_t none = 0xFFFFFFFFu;

struct Limits {
    uint64_t document_bytes_max = 64ull << 20;
    uint32_t depth_max = 512;
    uint32_t attributes_max = 256;          // per element, namespace declarations included
    uint32_t name_bytes_max = 1024;
    uint32_t attribute_bytes_max = 1u << 20;
    uint32_t names_max = 500'000;           // distinct ones: as written, with their namespaces, and namespaces alone
    uint32_t work_per_item_max = 16;        // steps of deciding one subscription: see work_max() in evaluate.hpp
    bool operator==(const Limits&) const = default;
};

// An array that grows without clearing memory and never shrinks: its owner reuses it from document to document.
template <class T>
class Column {
public:
    Column() = default;
    Column(Column&& other) noexcept { swap(other); }
    Column& operator=(Column&& other) noexcept {
        swap(other);
        return *this;
    }
    ~Column() { release(); }
    T& operator[](size_t i) { return items_[i]; }
    const T& operator[](size_t i) const { return items_[i]; }
    T* data() { return items_; }
    const T* data() const { return items_; }
    size_t size() const { return size_; }
    size_t capacity() const { return capacity_; }
    void clear() { size_ = 0; }
    void push(const T& value) {
        if (size_ == capacity_) reserve(capacity_ ? capacity_ * 2 : 64);
        items_[size_++] = value;
    }
    void set_size(size_t size) { size_ = size; }  // the caller has reserved and written
    void reserve(size_t wanted);
    void release() {
        if (capacity_) ::operator delete(items_);
        items_ = nullptr;
        size_ = capacity_ = 0;
    }
    void swap(Column& other) noexcept {
        std::swap(items_, other.items_), std::swap(size_, other.size_), std::swap(capacity_, other.capacity_);
    }
    void look_at(T* items, size_t size) {          // which somebody else owns
        release();
        items_ = items;
        size_ = size;
    }

private:
    T* items_ = nullptr;
    size_t size_ = 0, capacity_ = 0;               // no capacity: the items are not its own
};

// Keeps strings at fixed addresses until all are dropped at once.
class StringArena {
public:
    std::string_view keep(std::string_view text);
    size_t bytes() const { return bytes_; }
    void reset();

private:
    std::vector<std::unique_ptr<char[]>> blocks_;
    char* free_ = nullptr;
    size_t room_ = 0, bytes_ = 0;
};

// An expanded name: namespace URI ("" for none) and local part. Ids are dense and stay valid until `generation` changes:
// a table is shared by all documents that one Reader reads, and starts afresh when it has grown past its limit. No two
// tables of a process ever have the same generation, so kept ids are safe from a new table at an old address.
class NameTable {
public:
    NameTable();
    uint32_t intern(std::string_view uri, std::string_view local) { return intern(intern_uri(uri), local); }
    uint32_t intern(uint32_t uri_id, std::string_view local);
    uint32_t intern_uri(std::string_view uri);                      // "" has 0
    uint32_t find(std::string_view uri, std::string_view local) const;   // `none` where no document had it
    uint32_t find_uri(std::string_view uri) const;
    void prefetch(uint32_t uri_id, std::string_view local) const { slots_.prefetch(hash_bytes(local, uri_id + 1)); }
    std::string_view uri(uint32_t id) const { return uris_[entries_[id].uri]; }
    std::string_view local(uint32_t id) const { return entries_[id].local; }
    uint32_t uri_id(uint32_t id) const { return entries_[id].uri; }
    std::string_view uri_text(uint32_t uri_id) const { return uris_[uri_id]; }
    size_t size() const { return entries_.size(); }
    size_t uris() const { return uris_.size(); }
    size_t bytes() const;                                           // memory held, roughly
    uint64_t generation() const { return generation_; }
    void reset();

private:
    struct Entry { uint32_t uri; std::string_view local; };
    std::vector<Entry, LargePages<Entry>> entries_;
    std::vector<std::string_view> uris_;
    StringArena strings_;
    IdSlots uri_slots_, slots_;
    uint64_t generation_;
};

// A string value: a slice of `source`, or of `decoded` where references, CDATA or line ends made it differ from the source.
struct Span {
    uint32_t begin = 0, end = 0;
    bool in_decoded = false;
};

// xmlns="uri" or xmlns:prefix="uri" in a start tag.
struct NamespaceDeclaration {
    uint32_t element = 0;
    uint32_t prefix_begin = 0, prefix_size = 0;   // bytes of `source`; no bytes: the default namespace
    uint32_t uri = 0;                             // an id of the NameTable; 0: the default namespace is taken back
};

// A reference to an entity whose text the caller gave. The predefined ones and character references are not among them.
struct EntityReference {
    uint32_t begin = 0, end = 0;                  // bytes of `source`, from the & to after the ;
    uint32_t text_begin = 0, text_end = 0;        // bytes of `decoded`: what it stands for
    bool in_attribute = false;
};

// How the bytes as given were encoded.
enum class Encoding : uint8_t { utf8, utf16_le, utf16_be, ascii, latin1, windows1252 };

struct Document {
    std::string_view source;       // UTF-8: the bytes as given, or transcoded from another encoding
    std::string_view original;     // the bytes as given
    Encoding encoding = Encoding::utf8;
    std::string decoded;
    const NameTable* names = nullptr;

    // Elements, in document order.
    Column<uint32_t> name, parent, size;
    Column<uint32_t> start, content, end;    // bytes of `source`: '<' of the start tag, after its '>', after the end tag
    Column<uint16_t> depth;
    Column<uint32_t> attribute_begin;        // first attribute; the end is the next element's first
    Column<uint32_t> text_begin, text_end;   // text nodes inside the element, at any depth: a contiguous run

    // Attributes without namespace declarations, in document order; text nodes of XPath (CDATA merged, comments split).
    Column<uint32_t> attribute_name;
    Column<Span> attribute_value;
    Column<uint32_t> text_parent;
    Column<Span> text;

    // What only copies of the source have to know, both in document order and mostly empty.
    Column<NamespaceDeclaration> declarations;
    Column<EntityReference> references;
    bool has_marks = false;        // there may be comments or processing instructions: see marks.hpp

    size_t elements() const { return name.size(); }
    size_t attribute_end(size_t i) const { return i + 1 < name.size() ? attribute_begin[i + 1] : attribute_name.size(); }
    std::string_view value(const Span& s) const {
        return {(s.in_decoded ? decoded.data() : source.data()) + s.begin, s.end - s.begin};
    }
    // Where an offset into `source` lies in `original`. Free for UTF-8 and US-ASCII; for others the first call counts once.
    uint64_t original_offset(uint32_t source_offset) const {
        return encoding == Encoding::utf8 || encoding == Encoding::ascii ? source_offset : transcoded_offset(source_offset);
    }
    // Everything of another document, in one block of memory. Its names and its original bytes stay where they are, but with
    // `copies_text` the text is part of the block, and becomes the original.
    void copy_from(const Document& other, bool copies_text, std::unique_ptr<char[]>& memory);
    void clear();                  // no elements, no text; keeps the memory
    void release();                // gives the memory back as well

private:
    uint64_t transcoded_offset(uint32_t source_offset) const;
    mutable std::vector<uint32_t> offset_marks_;   // units of `original` before every 1024th byte of `source`
};

template <class T>
void Column<T>::reserve(size_t wanted) {
    if (wanted <= capacity_) return;
    static_assert(std::is_trivially_copyable_v<T>);
    T* bigger = static_cast<T*>(::operator new(wanted * sizeof(T)));
    if (size_) std::memcpy(static_cast<void*>(bigger), items_, size_ * sizeof(T));
    if (capacity_) ::operator delete(items_);
    items_ = bigger;
    capacity_ = wanted;
}

}  // namespace treecast
