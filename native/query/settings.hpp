// How subscriptions are read and delivered. Many share the same settings, so an index stores each once, under a number.
#pragma once

#include "base/id_slots.hpp"
#include "base/seeded_hash.hpp"
#include "document/document.hpp"
#include "query/query.hpp"

#include <array>
#include <bit>
#include <cstdint>
#include <memory>

namespace treecast {

struct Settings {
    Bindings bindings;
    bool ordered = false;
    uint8_t deliver = 0;      // 0: the document, 1: the elements
    bool operator==(const Settings&) const = default;
};

// Append-only except for cut(). One writer; readers use the numbers that they were given, without a lock.
// An entry never moves: each block is as large as all blocks before it together, and stays where it is.
class SettingsTable {
public:
    const Settings& operator[](uint32_t number) const { return entry(number).settings; }
    uint32_t size() const { return size_; }          // for the writer
    uint64_t bytes() const { return bytes_; }        // likewise
    uint32_t intern(const Settings& settings);       // their number
    uint32_t append(const Settings& settings);       // under a new number
    void cut(uint32_t size) noexcept;                // forgets those that were added last; nobody has seen their numbers

private:
    static constexpr uint32_t first_block = 16, blocks_max = 29;
    static uint32_t begin_of(uint32_t block) { return block ? first_block << (block - 1) : 0; }
    static uint64_t hash(const Settings& settings);
    static uint64_t bytes_of(const Settings& settings);
    struct Entry {
        Settings settings;
        uint64_t hash = 0;
    };
    Entry& entry(uint32_t number) const {
        uint32_t block = std::bit_width(number / first_block);
        return blocks_[block][number - begin_of(block)];
    }
    uint32_t append(const Settings& settings, uint64_t hash);

    std::array<std::unique_ptr<Entry[]>, blocks_max> blocks_;
    IdSlots slots_;
    uint32_t size_ = 0;
    uint64_t bytes_ = 0;
};

}  // namespace treecast
