// Sets of values, for routing: which targets want a value, without the value itself.
//
// A value is kept as 40 bits of a hash that is the same in every process, so that brokers can tell each other of it in 5 bytes.
// Two values may share those bits: then a document goes where nobody wants it, with a probability of n / 2^40 for each of its
// values and n values in the set. The other way round cannot happen.
//
// Each value has a word: the targets that want it, as bits, or how often it was added. A word of 0 is no value.
#pragma once

#include "base/fork.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace treecast {

class ValueSet {
public:
    // Whoever changes or reads any set holds it: Python may change one while another thread routes.
    static MomentaryMutex& mutex();
    static constexpr size_t hash_bytes_each = 5;
    static uint64_t hash(std::string_view value);               // 40 bits
    static void append(std::string& out, uint64_t hash);        // big-endian, so that bytes sort as numbers do
    static uint64_t read(const char* at);

    // Hashes, one after the other. Each returns those that were not there before, or are not there any more, in order.
    std::string add(uint64_t bit, std::string_view hashes);
    std::string remove(uint64_t bit, std::string_view hashes);
    std::string count(std::string_view hashes);
    std::string uncount(std::string_view hashes);
    // How many of the hashes have the bit.
    uint64_t having(uint64_t bit, std::string_view hashes) const;
    // All that have one of the bits, in order.
    std::string values(uint64_t bits) const;
    uint64_t size() const { return size_; }
    uint64_t bytes() const { return slots_.size() * sizeof(Slot); }
    uint64_t word(uint64_t hash) const;
    void prefetch(uint64_t hash) const {                        // for a word that is asked for soon
        if (!slots_.empty()) __builtin_prefetch(&slots_[home(hash | present)]);
    }

private:
    struct Slot { uint64_t key = 0, word = 0; };                // key 0: empty
    static constexpr uint64_t present = 1ull << 40;             // in every key
    size_t home(uint64_t key) const;
    size_t find(uint64_t key) const;                            // where it is, or where it would be
    uint64_t& reach(uint64_t hash);                             // its word; a new one is 0
    void erase(size_t at);
    void resize(size_t slots);
    template <class Change>
    std::string change(std::string_view hashes, Change&& change);

    std::vector<Slot> slots_;                                   // a power of 2, at most three quarters full
    uint64_t size_ = 0;
};

// What is in one list of hashes and not in another, each as often as it is left; both in order.
std::string value_difference(std::string_view hashes, std::string_view others);
std::string sorted_values(std::string_view hashes);

}  // namespace treecast
