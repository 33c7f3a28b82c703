// Names as documents spell them ("p:item"), found by their raw bytes.
//
// A name is examined once, when it first occurs. After that the reader only compares bytes.
// What a name means depends on the namespaces in scope. The last meaning is stored with the namespace it was resolved under.
// So a document that binds its prefixes once resolves each name once.
#pragma once

#include "base/large_pages.hpp"
#include "base/seeded_hash.hpp"
#include "document/document.hpp"

#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

namespace treecast {

constexpr uint32_t short_name_bytes = 32;                 // shorter names are compared inside their entry
constexpr uint32_t unresolved = none;                     // no namespace has been looked up yet
constexpr uint32_t declaration = none - 1;                // an attribute that declares a namespace

// One cache line per name: a hit costs one load, whether the name is compared, resolved or counted.
struct alignas(64) QName {
    char bytes[short_name_bytes];                         // zero-padded; a longer name has 0xFF, then its address at 8
    uint32_t length;
    uint32_t prefix;                                      // index of the prefix; 0 for none
    uint32_t element_uri, element_id;                     // the last meaning as an element
    uint32_t attribute_uri, attribute_id;                 // the last meaning as an attribute; for `declaration`: the prefix
    uint64_t stamp;                                       // the last element that had such an attribute

    std::string_view text() const {
        if (length < short_name_bytes) return {bytes, length};
        const char* far;
        std::memcpy(&far, bytes + 8, sizeof far);
        return {far, length};
    }
};
static_assert(sizeof(QName) == 64);

// 32 bytes of ones, then 32 of zeros: loading at `name_masks + 32 - n` gives a mask of n bytes.
extern const unsigned char name_masks[64];

// A load without alignment; compilers turn it into one instruction.
inline uint64_t load_word(const void* at) {
    uint64_t word;
    std::memcpy(&word, at, sizeof word);
    return word;
}

// The hash of a name of 1 to 31 bytes. 32 bytes at `at` must be readable; bytes after the name are masked out.
inline uint64_t hash_short_name(const HashSeeds& seeds, const char* at, uint32_t length) {
    const unsigned char* mask = name_masks + 32 - length;
    uint64_t w0 = load_word(at) & load_word(mask), w1 = load_word(at + 8) & load_word(mask + 8);
    if (length <= 16) return hash_words(seeds, w0, w1);
    return hash_words(seeds, w0, w1, load_word(at + 16) & load_word(mask + 16), load_word(at + 24) & load_word(mask + 24));
}

class QNames {
public:
    QNames();
    // Entries stay where they are until reset(). Slots are powers of two; empty ones are null.
    // PERF: a table of pointers, not IdSlots, because the reader goes through it for every tag (bench/reading.py).
    QName* const* slots() const { return slots_.data(); }
    size_t slot_mask() const { return slots_.size() - 1; }
    static uint64_t hash(std::string_view name);
    QName* find(std::string_view name, uint64_t hash) const;
    QName& add(std::string_view name, uint64_t hash);     // which is not there yet
    void prefetch(uint64_t hash) const { __builtin_prefetch(&slots_[hash & slot_mask()]); }
    size_t size() const { return size_; }
    size_t bytes() const { return size_ * sizeof(QName) + slots_.size() * sizeof(QName*) + long_names_.bytes(); }
    void reset();

private:
    // Entries are allocated in blocks, so pointers to them survive growth.
    static constexpr size_t block_entries = 64;
    QName& entry(size_t number) const { return blocks_[number / block_entries][number % block_entries]; }
    void grow();
    void place(uint64_t hash, QName* entry);
    using Slots = std::vector<QName*, LargePages<QName*>>;
    Slots slots_;
    std::vector<std::unique_ptr<QName[]>> blocks_;
    StringArena long_names_;
    size_t size_ = 0;
};

}  // namespace treecast
