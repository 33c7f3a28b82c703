// One step of the NFA on bit sets. machine.hpp has the layout, machine_builder.cpp builds it.
#include "machines/machine.hpp"

#include "base/pext.hpp"

#include <algorithm>
#include <bit>

namespace treecast {

uint32_t Machine::local(uint32_t label) const {
    auto found = std::lower_bound(labels_.begin(), labels_.end(), label);
    return found != labels_.end() && *found == label ? static_cast<uint32_t>(found - labels_.begin()) : none;
}

uint64_t Machine::bytes() const {
    return labels_.bytes() + directories_.bytes() + word_table_.bytes();
}

// The root is no descend state itself, but may have one below it, for paths that begin with `//`.
void Machine::start(Words& fresh, Words& descend) const {
    fresh.clear();
    descend.clear();
    if (word_table_.empty()) return;
    const Word& word = word_table_[root_ >> 6];
    uint64_t bit = 1ull << (root_ & 63);
    if (word.source & bit) fresh.push(root_ >> 6, bit);
    if (word.descend & bit) descend.append(word.target + std::popcount(word.descend & (bit - 1)), 1);
}

// Maps the active states to their children by label, then sorts these out: answers, descend states, and states with children.
template <class Bits>
void Machine::step_with(WordsView descend, WordsView fresh, std::span<const uint32_t> labels, Words& out_fresh,
                        Words& out_accept, Words& out_descend, std::vector<uint64_t>& scratch) const {
    out_fresh.clear();
    out_accept.clear();
    out_descend.clear();
    for (uint32_t label : labels) {
        auto cross = [&](const Record& record, uint64_t mask) {
            if (mask & record.inner) out_fresh.append(record.target, Bits::pext(mask, record.inner));
            if (mask & record.end) out_accept.append(record.accept, Bits::pext(mask, record.end));
        };
        // Descend states are the first block, padded to whole words, so these two lists ascend one after the other.
        directories_.each<Bits>(label, descend, scratch, cross);
        directories_.each<Bits>(label, fresh, scratch, cross);
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < out_fresh.size(); ++i) {
        uint32_t index = out_fresh.index(i);
        uint64_t mask = out_fresh.mask(i);
        const Word& word = word_table_[index];
        if (mask & word.descend) out_descend.append(word.target, Bits::pext(mask, word.descend));
        // A state without children by name need not stay active.
        if (uint64_t rest = mask & word.source) out_fresh.keep(kept++, index, rest);
    }
    out_fresh.truncate(kept);
}

template <class Bits>
void Machine::answers_with(WordsView descend, WordsView fresh, std::span<const uint32_t> labels, Words& out_accept,
                           std::vector<uint64_t>& scratch) const {
    out_accept.clear();
    auto cross = [&](const Record& record, uint64_t mask) {
        if (mask & record.end) out_accept.append(record.accept, Bits::pext(mask, record.end));
    };
    for (uint32_t label : labels) {
        directories_.each<Bits>(label, descend, scratch, cross);
        directories_.each<Bits>(label, fresh, scratch, cross);
    }
}

void Machine::answers(WordsView descend, WordsView fresh, std::span<const uint32_t> labels, Words& out_accept,
                      std::vector<uint64_t>& scratch) const {
#if TREECAST_X86
    if (simd_level() >= Simd::avx2) return answers_with<HardBits>(descend, fresh, labels, out_accept, scratch);
#endif
    answers_with<SoftBits>(descend, fresh, labels, out_accept, scratch);
}

void Machine::step(WordsView descend, WordsView fresh, std::span<const uint32_t> labels, Words& out_fresh,
                   Words& out_accept, Words& out_descend, std::vector<uint64_t>& scratch) const {
#if TREECAST_X86
    if (simd_level() >= Simd::avx2)
        return step_with<HardBits>(descend, fresh, labels, out_fresh, out_accept, out_descend, scratch);
#endif
    step_with<SoftBits>(descend, fresh, labels, out_fresh, out_accept, out_descend, scratch);
}

}  // namespace treecast
