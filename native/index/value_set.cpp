// A table of hashes with open addressing. Slots are chosen by a hash of the process, since whoever knows the public one could
// choose values that collide.
#include "index/value_set.hpp"

#include "base/seeded_hash.hpp"

#include <algorithm>

namespace treecast {

namespace {

constexpr uint64_t hash_mask = (1ull << 40) - 1;
constexpr uint64_t public_seed = 0x7472656563617374;            // "treecast": part of what brokers tell each other

std::vector<uint64_t> to_numbers(std::string_view hashes) {
    std::vector<uint64_t> out(hashes.size() / ValueSet::hash_bytes_each);
    for (size_t i = 0; i < out.size(); ++i) out[i] = ValueSet::read(hashes.data() + i * ValueSet::hash_bytes_each);
    return out;
}

std::string to_bytes(std::vector<uint64_t>& numbers) {
    std::sort(numbers.begin(), numbers.end());
    std::string out;
    out.reserve(numbers.size() * ValueSet::hash_bytes_each);
    for (uint64_t number : numbers) ValueSet::append(out, number);
    return out;
}

}  // namespace

MomentaryMutex& ValueSet::mutex() {
    static MomentaryMutex& lasting = *new MomentaryMutex;       // never destroyed: threads may outlive main()
    return lasting;
}

uint64_t ValueSet::hash(std::string_view value) {
    static const HashSeeds seeds = hash_seeds_from(public_seed);
    return treecast::hash_bytes(value, 0, seeds) & hash_mask;
}

void ValueSet::append(std::string& out, uint64_t hash) {
    for (int shift = 32; shift >= 0; shift -= 8) out.push_back(static_cast<char>(hash >> shift));
}

uint64_t ValueSet::read(const char* at) {
    uint64_t hash = 0;
    for (size_t i = 0; i < hash_bytes_each; ++i) hash = hash << 8 | static_cast<unsigned char>(at[i]);
    return hash;
}

size_t ValueSet::home(uint64_t key) const { return hash_words(hash_seeds(), key, 0) & (slots_.size() - 1); }

size_t ValueSet::find(uint64_t key) const {
    size_t at = home(key);
    while (slots_[at].key && slots_[at].key != key) at = (at + 1) & (slots_.size() - 1);
    return at;
}

uint64_t ValueSet::word(uint64_t hash) const { return slots_.empty() ? 0 : slots_[find(hash | present)].word; }

uint64_t& ValueSet::reach(uint64_t hash) {
    if (4 * (size_ + 1) > 3 * slots_.size()) resize(std::max<size_t>(8, 2 * slots_.size()));
    Slot& slot = slots_[find(hash | present)];
    if (!slot.key) {
        slot.key = hash | present;
        ++size_;
    }
    return slot.word;
}

// Those behind it that would be found no more move up.
void ValueSet::erase(size_t at) {
    const size_t mask = slots_.size() - 1;
    for (size_t next = (at + 1) & mask; slots_[next].key; next = (next + 1) & mask) {
        if (((next - home(slots_[next].key)) & mask) < ((next - at) & mask)) continue;
        slots_[at] = slots_[next];
        at = next;
    }
    slots_[at] = {};
    --size_;
}

void ValueSet::resize(size_t slots) {
    std::vector<Slot> before(slots);
    std::swap(before, slots_);
    for (const Slot& slot : before)
        if (slot.key) slots_[find(slot.key)] = slot;
}

// `change` gets a word and returns what it becomes.
template <class Change>
std::string ValueSet::change(std::string_view hashes, Change&& change) {
    std::vector<uint64_t> crossed;
    for (size_t i = 0; i + hash_bytes_each <= hashes.size(); i += hash_bytes_each) {
        uint64_t hash = read(hashes.data() + i);
        uint64_t& word = reach(hash);
        const uint64_t before = word;
        word = change(before);
        if (!before != !word) crossed.push_back(hash);
        if (!word) erase(find(hash | present));
    }
    if (slots_.size() > 64 && 8 * size_ < slots_.size()) resize(slots_.size() / 4);
    return to_bytes(crossed);
}

std::string ValueSet::add(uint64_t bit, std::string_view hashes) {
    return change(hashes, [bit](uint64_t word) { return word | bit; });
}

std::string ValueSet::remove(uint64_t bit, std::string_view hashes) {
    return change(hashes, [bit](uint64_t word) { return word & ~bit; });
}

std::string ValueSet::count(std::string_view hashes) {
    return change(hashes, [](uint64_t word) { return word + 1; });
}

std::string ValueSet::uncount(std::string_view hashes) {
    return change(hashes, [](uint64_t word) { return word ? word - 1 : 0; });
}

uint64_t ValueSet::having(uint64_t bit, std::string_view hashes) const {
    uint64_t found = 0;
    for (size_t i = 0; i + hash_bytes_each <= hashes.size(); i += hash_bytes_each) found += (word(read(hashes.data() + i)) & bit) != 0;
    return found;
}

std::string ValueSet::values(uint64_t bits) const {
    std::vector<uint64_t> found;
    for (const Slot& slot : slots_)
        if (slot.word & bits) found.push_back(slot.key & hash_mask);
    return to_bytes(found);
}

std::string value_difference(std::string_view hashes, std::string_view others) {
    std::vector<uint64_t> left = to_numbers(hashes), right = to_numbers(others), out;
    std::set_difference(left.begin(), left.end(), right.begin(), right.end(), std::back_inserter(out));
    return to_bytes(out);
}

std::string sorted_values(std::string_view hashes) {
    std::vector<uint64_t> numbers = to_numbers(hashes);
    return to_bytes(numbers);
}

}  // namespace treecast
