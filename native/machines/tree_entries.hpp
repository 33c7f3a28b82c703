// The entries of many patterns (pattern.hpp), hash-consed: each distinct one once, after all that it requires.
#pragma once

#include "base/id_slots.hpp"
#include "base/seeded_hash.hpp"
#include "machines/pattern.hpp"
#include "machines/values.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace treecast {

class TreeEntries {
public:
    struct Requirement {
        uint32_t target;            // an entry, or a condition
        Reach reach;
        bool negated;
        bool operator==(const Requirement&) const = default;
    };
    explicit TreeEntries(const HashSeeds& seeds) : seeds_(seeds) {}
    uint32_t add(std::string_view pattern);                          // the entry that stands for the whole pattern
    void close() { slots_.reset(); }           // nothing is added any more: requirements may change places

    uint32_t size() const { return static_cast<uint32_t>(label_.size()); }
    uint32_t label(uint32_t e) const { return label_[e]; }
    std::span<Requirement> requirements(uint32_t e) { return {requirements_.data() + begin_[e], begin_[e + 1] - begin_[e]}; }
    std::span<const Requirement> requirements(uint32_t e) const { return {requirements_.data() + begin_[e], begin_[e + 1] - begin_[e]}; }
    const std::vector<Values::Condition>& conditions() const { return conditions_; }       // they look into the patterns

private:
    uint32_t read(const char*& at);
    uint32_t read_test(const char*& at, uint32_t label);
    uint32_t intern(uint32_t label, std::span<const Requirement> wanted);
    uint64_t hash(uint32_t label, std::span<const Requirement> requirements) const;

    std::vector<uint32_t> label_, begin_{0};
    std::vector<Requirement> requirements_;
    IdSlots slots_;                                                  // entries by label and requirements
    std::vector<Values::Condition> conditions_;
    TextMap<uint32_t> condition_ids_;
    const HashSeeds seeds_;
};

}  // namespace treecast
