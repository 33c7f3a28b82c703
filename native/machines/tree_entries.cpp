// Hash-consing of pattern entries: equal parts of all patterns become one entry.
#include "machines/tree_entries.hpp"

#include <algorithm>

namespace treecast {

uint32_t TreeEntries::add(std::string_view pattern) {
    const char* at = pattern.data();
    return read(at);
}

// Reads an entry depth first, so what an entry requires always has a smaller number.
uint32_t TreeEntries::read(const char*& at) {
    uint32_t label = take_varint(at), count = take_varint(at);
    std::vector<Requirement> wanted;
    wanted.reserve(count);
    uint32_t order = none;
    for (; count > 0; --count) {
        uint8_t kind = static_cast<uint8_t>(*at++);
        const Reach reach = static_cast<Reach>(kind & 3);
        if (reach == Reach::order)
            order = read_order(at, wanted);
        else
            wanted.push_back({reach == Reach::value ? read_test(at, label) : read(at), reach, (kind & negated_bit) != 0});
    }
    return intern(label, wanted, order);
}

// Its branches are requirements, which come before.
uint32_t TreeEntries::read_order(const char*& at, std::span<const Requirement> requirements) {
    std::vector<Branch> branches(take_varint(at));
    std::string key;
    for (Branch& branch : branches) {
        const Requirement& r = requirements[take_varint(at)];
        branch = {r.target, r.reach};
        is_branch_[r.target] = 1;
        put_varint(key, r.target);
        key.push_back(static_cast<char>(r.reach));
    }
    auto [known, added] = order_ids_.try_emplace(std::move(key), orders());
    if (added) {
        branches_.insert(branches_.end(), branches.begin(), branches.end());
        order_begin_.push_back(static_cast<uint32_t>(branches_.size()));
    }
    return known->second;
}

// Conditions belong to a label, so that the value of an element is only compared with conditions on such elements.
uint32_t TreeEntries::read_test(const char*& at, uint32_t label) {
    ValueTest test = static_cast<ValueTest>(*at++);
    uint32_t size = take_varint(at);
    std::string key(reinterpret_cast<const char*>(&label), sizeof label);
    key.push_back(static_cast<char>(test));
    key.append(at, size);
    auto [known, added] = condition_ids_.try_emplace(std::move(key), static_cast<uint32_t>(conditions_.size()));
    if (added) conditions_.push_back({label, test, {at, size}});
    at += size;
    return known->second;
}

uint64_t TreeEntries::hash(uint32_t label, std::span<const Requirement> requirements, uint32_t order) const {
    uint64_t hash = (uint64_t(order) << 32 | label) ^ seeds_.c;
    for (const Requirement& r : requirements) {
        uint64_t kind = static_cast<uint64_t>(r.reach) * 2 + r.negated;
        hash = hash_words(seeds_, hash, kind << 32 | r.target);
    }
    return hash_words(seeds_, hash, requirements.size());
}

uint32_t TreeEntries::intern(uint32_t label, std::span<const Requirement> wanted, uint32_t order) {
    uint64_t wanted_hash = hash(label, wanted, order);
    uint32_t known = slots_.find(wanted_hash, [&](uint32_t e) {
        return label_[e] == label && order_[e] == order && std::ranges::equal(requirements(e), wanted);
    });
    if (known != IdSlots::empty) return known;
    uint32_t entry = size();
    label_.push_back(label);
    order_.push_back(order);
    is_branch_.push_back(0);
    requirements_.insert(requirements_.end(), wanted.begin(), wanted.end());
    begin_.push_back(static_cast<uint32_t>(requirements_.size()));
    slots_.add(wanted_hash, entry, [&](uint32_t e) { return hash(label_[e], requirements(e), order_[e]); });
    return entry;
}

}  // namespace treecast
