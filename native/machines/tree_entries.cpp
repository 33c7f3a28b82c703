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
    std::vector<Requirement> wanted(count);
    for (Requirement& r : wanted) {
        uint8_t kind = static_cast<uint8_t>(*at++);
        r.reach = static_cast<Reach>(kind & 3);
        r.negated = kind & negated_bit;
        r.target = r.reach == Reach::value ? read_test(at, label) : read(at);
    }
    return intern(label, wanted);
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

uint64_t TreeEntries::hash(uint32_t label, std::span<const Requirement> requirements) const {
    uint64_t hash = label ^ seeds_.c;
    for (const Requirement& r : requirements) {
        uint64_t kind = static_cast<uint64_t>(r.reach) * 2 + r.negated;
        hash = hash_words(seeds_, hash, kind << 32 | r.target);
    }
    return hash_words(seeds_, hash, requirements.size());
}

uint32_t TreeEntries::intern(uint32_t label, std::span<const Requirement> wanted) {
    uint64_t wanted_hash = hash(label, wanted);
    uint32_t known = slots_.find(wanted_hash, [&](uint32_t e) { return label_[e] == label && std::ranges::equal(requirements(e), wanted); });
    if (known != IdSlots::empty) return known;
    uint32_t entry = size();
    label_.push_back(label);
    requirements_.insert(requirements_.end(), wanted.begin(), wanted.end());
    begin_.push_back(static_cast<uint32_t>(requirements_.size()));
    slots_.add(wanted_hash, entry, [&](uint32_t e) { return hash(label_[e], requirements(e)); });
    return entry;
}

}  // namespace treecast
