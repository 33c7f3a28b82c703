#include "machine.hpp"

#include "cpu.hpp"

#include <algorithm>
#include <bit>

namespace treecast {

namespace {

// PEXT gathers the bits of `value` under `mask`. Written as assembly, so that it needs no compiler flag where it is inlined.
struct HardPext {
#if TREECAST_X86
    static inline __attribute__((always_inline)) uint64_t pext(uint64_t value, uint64_t mask) {
        uint64_t gathered;
        asm("pextq %2, %1, %0" : "=r"(gathered) : "r"(value), "r"(mask));
        return gathered;
    }
#endif
};

struct SoftPext {
    static inline uint64_t pext(uint64_t value, uint64_t mask) {
        uint64_t gathered = 0;
        for (uint64_t rest = value & mask; rest; rest &= rest - 1) {
            uint64_t lowest = rest & (~rest + 1);
            gathered |= 1ull << std::popcount(mask & (lowest - 1));
        }
        return gathered;
    }
};

}  // namespace

uint32_t Machine::local(uint32_t label) const {
    auto found = std::lower_bound(labels_.begin(), labels_.end(), label);
    return found != labels_.end() && *found == label ? static_cast<uint32_t>(found - labels_.begin()) : none;
}

uint64_t Machine::bytes() const {
    return labels_.capacity() * 4 + directories_.capacity() * sizeof(Directory) + records_.capacity() * sizeof(Record) +
           bits_.capacity() * 8 + ranks_.capacity() * 4 + words_.capacity() * 4 + word_table_.capacity() * sizeof(Word);
}

void Machine::start(Words& fresh, Words& descend) const {
    fresh.clear();
    descend.clear();
    if (word_table_.empty()) return;
    const Word& word = word_table_[root_ >> 6];
    uint64_t bit = 1ull << (root_ & 63);
    if (word.source & bit) fresh.push(root_ >> 6, bit);
    if (word.descend & bit) descend.append(word.target + std::popcount(word.descend & (bit - 1)), 1);
}

// All children by one label of the sources. Two passes over what is found: the first asks for the records early.
template <class Pext>
void Machine::cross(WordsView sources, const Directory& directory, Words& out_fresh, Words& out_accept,
                    std::vector<uint64_t>& scratch) const {
    if (scratch.size() < 2 * size_t(sources.size)) scratch.resize(2 * size_t(sources.size) + 64);
    uint64_t* hits = scratch.data();
    uint32_t found = 0;
    if (directory.wide) {
        const uint64_t* bits = bits_.data() + directory.place;
        const uint32_t* ranks = ranks_.data() + directory.place;
        for (uint32_t i = 0; i < sources.size; ++i) {
            uint32_t word = sources.index[i];
            uint64_t present = bits[word >> 6], bit = 1ull << (word & 63);
            uint32_t record = directory.records + ranks[word >> 6] + std::popcount(present & (bit - 1));
            hits[2 * found] = record;
            hits[2 * found + 1] = sources.mask[i];
            if (present & bit) {
                __builtin_prefetch(&records_[record]);
                ++found;
            }
        }
    } else {
        const uint32_t* words = words_.data() + directory.place;
        const uint32_t* at = sources.index;
        const uint32_t* end = sources.index + sources.size;
        for (uint32_t r = 0; r < directory.record_count && at != end; ++r) {
            at = std::lower_bound(at, end, words[r]);
            if (at == end || *at != words[r]) continue;
            hits[2 * found] = directory.records + r;
            hits[2 * found + 1] = sources.mask[at - sources.index];
            ++found;
        }
    }
    for (uint32_t i = 0; i < found; ++i) {
        const Record& record = records_[hits[2 * i]];
        uint64_t mask = hits[2 * i + 1];
        if (mask & record.inner) out_fresh.append(record.target, Pext::pext(mask, record.inner));
        if (mask & record.leaf) out_accept.append(record.accept, Pext::pext(mask, record.leaf));
    }
}

template <class Pext>
void Machine::step_with(WordsView descend, WordsView fresh, std::span<const uint32_t> labels, Words& out_fresh,
                        Words& out_accept, Words& out_descend, std::vector<uint64_t>& scratch) const {
    out_fresh.clear();
    out_accept.clear();
    out_descend.clear();
    for (uint32_t label : labels) {
        // Descend states are the first block, padded to whole words: these two lists ascend, one after the other.
        cross<Pext>(descend, directories_[label], out_fresh, out_accept, scratch);
        cross<Pext>(fresh, directories_[label], out_fresh, out_accept, scratch);
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < out_fresh.size(); ++i) {
        uint32_t index = out_fresh.index(i);
        uint64_t mask = out_fresh.mask(i);
        const Word& word = word_table_[index];
        if (mask & word.accepting) out_accept.append(word.accept, Pext::pext(mask, word.accepting));
        if (mask & word.descend) out_descend.append(word.target, Pext::pext(mask, word.descend));
        if (uint64_t rest = mask & word.source) out_fresh.keep(kept++, index, rest);
    }
    out_fresh.truncate(kept);
}

void Machine::step(WordsView descend, WordsView fresh, std::span<const uint32_t> labels, Words& out_fresh,
                   Words& out_accept, Words& out_descend, std::vector<uint64_t>& scratch) const {
#if TREECAST_X86
    if (simd_level() == Simd::avx2)
        return step_with<HardPext>(descend, fresh, labels, out_fresh, out_accept, out_descend, scratch);
#endif
    step_with<SoftPext>(descend, fresh, labels, out_fresh, out_accept, out_descend, scratch);
}

}  // namespace treecast
