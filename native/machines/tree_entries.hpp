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
    struct Branch {                 // of an order
        uint32_t entry;
        Reach reach;                // child or descend
    };
    explicit TreeEntries(const HashSeeds& seeds) : seeds_(seeds) {}
    uint32_t add(std::string_view pattern);                          // the entry that stands for the whole pattern
    void close() { slots_.reset(); }           // nothing is added any more: requirements may change places

    uint32_t size() const { return static_cast<uint32_t>(label_.size()); }
    uint32_t label(uint32_t e) const { return label_[e]; }
    std::span<Requirement> requirements(uint32_t e) { return {requirements_.data() + begin_[e], begin_[e + 1] - begin_[e]}; }
    std::span<const Requirement> requirements(uint32_t e) const { return {requirements_.data() + begin_[e], begin_[e + 1] - begin_[e]}; }
    const std::vector<Values::Condition>& conditions() const { return conditions_; }       // they look into the patterns
    uint32_t order(uint32_t e) const { return order_[e]; }                                 // in which its branches come; or none
    uint32_t orders() const { return static_cast<uint32_t>(order_begin_.size() - 1); }
    std::span<const Branch> branches(uint32_t order) const { return {branches_.data() + order_begin_[order], order_begin_[order + 1] - order_begin_[order]}; }
    bool is_branch(uint32_t e) const { return is_branch_[e]; }                             // of some order

private:
    uint32_t read(const char*& at);
    uint32_t read_test(const char*& at, uint32_t label);
    uint32_t read_order(const char*& at, std::span<const Requirement> requirements);
    uint32_t intern(uint32_t label, std::span<const Requirement> wanted, uint32_t order);
    uint64_t hash(uint32_t label, std::span<const Requirement> requirements, uint32_t order) const;

    std::vector<uint32_t> label_, order_, begin_{0};
    std::vector<uint8_t> is_branch_;                                 // by entry
    std::vector<uint32_t> order_begin_{0};
    std::vector<Branch> branches_;
    TextMap<uint32_t> order_ids_;
    std::vector<Requirement> requirements_;
    IdSlots slots_;                                                  // entries by label and requirements
    std::vector<Values::Condition> conditions_;
    TextMap<uint32_t> condition_ids_;
    const HashSeeds seeds_;
};

}  // namespace treecast
