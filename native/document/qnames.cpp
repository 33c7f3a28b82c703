// The table of spelled names: open addressing with linear probing, over entries in blocks that never move.
//
// The reader probes it for every tag, so its layout is fixed by qnames.hpp; here are the slow operations.
// Long names are stored apart, so that an entry fills exactly one cache line.
#include "document/qnames.hpp"

#include <algorithm>

namespace treecast {

namespace {
constexpr size_t slots_min = 256;
}  // namespace

const unsigned char name_masks[64] = {
    255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
    255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255};

QNames::QNames() : slots_(slots_min, nullptr) {}

// Must agree with the reader's inline hash of names in the text, hence the padding.
uint64_t QNames::hash(std::string_view name) {
    if (name.size() >= short_name_bytes) return hash_bytes(name);
    char padded[short_name_bytes] = {};
    std::copy(name.begin(), name.end(), padded);
    return hash_short_name(hash_seeds(), padded, static_cast<uint32_t>(name.size()));
}

void QNames::place(uint64_t hash, QName* entry) {
    size_t at = hash & slot_mask();
    while (slots_[at]) at = (at + 1) & slot_mask();
    slots_[at] = entry;
}

// Ends at an empty slot. There always is one, because the table is at most a quarter full.
QName* QNames::find(std::string_view name, uint64_t hash) const {
    for (size_t at = hash & slot_mask();; at = (at + 1) & slot_mask())
        if (!slots_[at] || slots_[at]->text() == name) return slots_[at];
}

// PERF: bench/growth.py. In the order of their memory, not of the old slots, which is random; and some slots are asked for at
// once, because each may be a miss.
void QNames::grow() {
    Slots(slots_.size() * 2, nullptr).swap(slots_);
    constexpr size_t at_once = 16;
    uint64_t hashes[at_once];
    for (size_t begin = 0, count; begin < size_; begin += count) {
        count = std::min(at_once, size_ - begin);
        for (size_t i = 0; i < count; ++i) prefetch(hashes[i] = hash(entry(begin + i).text()));
        for (size_t i = 0; i < count; ++i) place(hashes[i], &entry(begin + i));
    }
}

// A quarter full keeps probes short: most names are found at the first slot.
QName& QNames::add(std::string_view name, uint64_t hash) {
    if ((size_ + 1) * 4 > slots_.size()) grow();
    if (size_ == blocks_.size() * block_entries) blocks_.push_back(std::make_unique_for_overwrite<QName[]>(block_entries));
    QName& entry = blocks_.back()[size_ % block_entries];
    std::memset(static_cast<void*>(&entry), 0, sizeof entry);
    entry.length = static_cast<uint32_t>(name.size());
    if (name.size() < short_name_bytes) {
        std::copy(name.begin(), name.end(), entry.bytes);
    } else {
        const char* far = long_names_.keep(name).data();
        // 0xFF starts no UTF-8 character, so no short name ever compares equal to this entry.
        std::memset(entry.bytes, 0xFF, 8);
        std::memcpy(entry.bytes + 8, &far, sizeof far);
    }
    place(hash, &entry);
    ++size_;                                              // last: what failed before leaves no trace
    return entry;
}

// Gives all memory back. A document with millions of distinct names must not slow down all later ones.
void QNames::reset() {
    Slots(slots_min, nullptr).swap(slots_);
    blocks_.clear();
    long_names_.reset();
    size_ = 0;
}

}  // namespace treecast
