// Puts lines together from two parts, with one copy of each.
#include "index/match_lines.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace treecast {

namespace {

// PERF: treecast match. Lines are short: calling memcpy takes longer than copying. Writes nothing beyond them, and reads nothing.
char* copy_short(char* to, std::string_view text) {
    auto move = [&]<class Word>(Word) {           // the first and the last bytes; in the middle they overlap
        Word first, last;
        std::memcpy(&first, text.data(), sizeof(Word));
        std::memcpy(&last, text.data() + text.size() - sizeof(Word), sizeof(Word));
        std::memcpy(to, &first, sizeof(Word));
        std::memcpy(to + text.size() - sizeof(Word), &last, sizeof(Word));
    };
    struct Wide { uint64_t words[2]; };
    if (text.size() > 32) std::memcpy(to, text.data(), text.size());
    else if (text.size() >= 16) move(Wide());
    else if (text.size() >= 8) move(uint64_t());
    else if (text.size() >= 4) move(uint32_t());
    else
        for (size_t i = 0; i < text.size(); ++i) to[i] = text[i];
    return to + text.size();
}

}  // namespace

// Few are sorted directly. Many are put into a bit set, which yields them sorted in linear time: a nanosecond for each, and for each word.
void sort_below(std::span<int32_t> numbers, size_t below, std::vector<uint64_t>& scratch) {
    if (numbers.size() * 1024 < below) {
        std::sort(numbers.begin(), numbers.end());
        return;
    }
    scratch.assign(below / 64 + 1, 0);
    for (int32_t number : numbers) scratch[static_cast<size_t>(number) >> 6] |= 1ull << (number & 63);
    auto at = numbers.begin();
    for (size_t word = 0; word < scratch.size(); ++word)
        for (uint64_t rest = scratch[word]; rest; rest &= rest - 1)
            *at++ = static_cast<int32_t>(word * 64 + static_cast<size_t>(std::countr_zero(rest)));
}

bool MatchLines::next_document() {
    if (documents_.empty()) return false;
    size_t count = 1;
    while (count < documents_.size() && documents_[count] == documents_[0]) ++count;
    start_ = starts_[static_cast<size_t>(documents_[0])];
    sorted_.assign(subscriptions_.begin(), subscriptions_.begin() + static_cast<std::ptrdiff_t>(count));
    sort_below(sorted_, ends_.size, scratch_);
    at_ = 0;
    documents_ = documents_.subspan(count);
    subscriptions_ = subscriptions_.subspan(count);
    return true;
}

// Some lines at a time, so that room is made for them once.
bool MatchLines::append(size_t bytes, Bytes& out) {
    constexpr size_t lines_max = 256;
    while (out.size() < bytes) {
        if (at_ == sorted_.size() && !next_document()) return false;
        const size_t last = std::min(sorted_.size(), at_ + lines_max);
        size_t wanted = 0, end = at_;
        for (; end < last && out.size() + wanted < bytes; ++end) wanted += start_.size() + ends_[static_cast<size_t>(sorted_[end])].size();
        char* to = out.room(wanted);
        for (; at_ < end; ++at_) {
            to = copy_short(copy_short(to, start_), ends_[static_cast<size_t>(sorted_[at_])]);
        }
        out.added(wanted);
    }
    return true;
}

}  // namespace treecast
