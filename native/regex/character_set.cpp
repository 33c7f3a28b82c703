// Sets of characters, and the look-up of what Unicode says of one.
#include "regex/character_set.hpp"

#include <algorithm>

namespace treecast {

uint32_t kind_of(uint32_t character) {
    const uint32_t* after = std::upper_bound(kind_runs, kind_runs + kind_run_count, character * 32 + 31);
    return after[-1] % 32;
}

CharacterSet CharacterSet::of_kinds(uint32_t kinds) {
    CharacterSet set;
    set.parts_[0].kinds = kinds;
    return set;
}

// Both sets are cut where either is, then joined part by part.
template <class Join>
void CharacterSet::combine(const CharacterSet& other, Join join) {
    std::vector<Part> joined;
    size_t own = 0, theirs = 0;
    for (uint32_t begin = 0;;) {
        uint32_t kinds = join(parts_[own].kinds, other.parts_[theirs].kinds);
        if (joined.empty() || joined.back().kinds != kinds) joined.push_back({begin, kinds});
        uint32_t own_end = own + 1 < parts_.size() ? parts_[own + 1].begin : character_max + 1;
        uint32_t their_end = theirs + 1 < other.parts_.size() ? other.parts_[theirs + 1].begin : character_max + 1;
        begin = std::min(own_end, their_end);
        if (begin > character_max) break;
        own += own_end == begin;
        theirs += their_end == begin;
    }
    parts_ = std::move(joined);
}

CharacterSet CharacterSet::of_ranges(std::vector<CharacterRange>& ranges) {
    std::ranges::sort(ranges, {}, &CharacterRange::first);
    CharacterSet set;
    set.parts_.clear();
    uint32_t end = 0;                                  // of what was looked at
    auto push = [&](uint32_t begin, uint32_t kinds) {
        if (set.parts_.empty() || set.parts_.back().kinds != kinds) set.parts_.push_back({begin, kinds});
    };
    for (const CharacterRange& range : ranges) {
        if (range.first > end) push(end, 0);
        push(std::max(range.first, end), all_kinds);
        end = std::max(end, range.last + 1);
    }
    if (end <= character_max) push(end, 0);
    return set;
}

void append_variants(CharacterRange range, std::vector<CharacterRange>& out) {
    for (const CaseRow& row : case_rows) {
        if (row.first > range.last) break;
        if (row.last < range.first) continue;
        uint32_t begin = row.first < range.first ? row.first + (range.first - row.first + row.step - 1) / row.step * row.step : row.first;
        uint32_t end = std::min(row.last, range.last);
        if (begin > end) continue;
        auto moved = [&](uint32_t character) { return static_cast<uint32_t>(static_cast<int32_t>(character) + row.distance); };
        if (row.step == 1) out.push_back({moved(begin), moved(end)});
        else
            for (uint32_t at = begin; at <= end; at += row.step) out.push_back({moved(at), moved(at)});
    }
}

void CharacterSet::add(const CharacterSet& other) {
    combine(other, [](uint32_t a, uint32_t b) { return a | b; });
}

void CharacterSet::subtract(const CharacterSet& other) {
    combine(other, [](uint32_t a, uint32_t b) { return a & ~b; });
}

void CharacterSet::invert() {
    for (Part& part : parts_) part.kinds ^= all_kinds;
}

bool CharacterSet::has(uint32_t character) const {
    auto after = std::ranges::upper_bound(parts_, character, {}, &Part::begin);
    uint32_t kinds = std::prev(after)->kinds;
    return kinds == all_kinds || (kinds && kinds >> kind_of(character) & 1);
}

bool CharacterSet::list(size_t count_max, std::vector<uint32_t>& out) const {
    size_t before = out.size();
    for (size_t i = 0; i < parts_.size(); ++i) {
        if (!parts_[i].kinds) continue;
        uint32_t end = i + 1 < parts_.size() ? parts_[i + 1].begin : character_max + 1;
        if (parts_[i].kinds != all_kinds || out.size() - before + (end - parts_[i].begin) > count_max) return false;
        for (uint32_t at = parts_[i].begin; at < end; ++at) out.push_back(at);
    }
    return true;
}

}  // namespace treecast
