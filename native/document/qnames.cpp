// The table of spelled names: open addressing with linear probing, over entries in blocks that never move.
//
// The reader probes it for every tag, so its layout is fixed by qnames.hpp; here are the slow operations.
// Long names are stored apart, so that an entry fills exactly one cache line.
#include "document/qnames.hpp"

#include <algorithm>

namespace treecast {

namespace {
// Entries are allocated in blocks, so pointers to them survive growth.
constexpr size_t block_entries = 64;
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

void QNames::place(QName* entry) {
    size_t at = hash(entry->text()) & slot_mask();
    while (slots_[at]) at = (at + 1) & slot_mask();
    slots_[at] = entry;
}

// Ends at an empty slot. There always is one, because the table is at most a quarter full.
QName* QNames::find(std::string_view name) const {
    for (size_t at = hash(name) & slot_mask();; at = (at + 1) & slot_mask())
        if (!slots_[at] || slots_[at]->text() == name) return slots_[at];
}

// A quarter full keeps probes short: most names are found at the first slot.
QName& QNames::add(std::string_view name) {
    if ((size_ + 1) * 4 > slots_.size()) {
        // PERF: bench/growth.py. In the order of their memory, not of the old slots, which is random.
        Slots(slots_.size() * 2, nullptr).swap(slots_);
        for (size_t i = 0; i < size_; ++i) place(&blocks_[i / block_entries][i % block_entries]);
    }
    if (size_ == blocks_.size() * block_entries) blocks_.push_back(std::make_unique<QName[]>(block_entries));
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
    place(&entry);
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
