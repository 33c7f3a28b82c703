// Puts lines together from two parts, with one copy of each.
#include "index/match_lines.hpp"

#include <algorithm>
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

bool MatchLines::next_document() {
    if (documents_.empty()) return false;
    size_t count = 1;
    while (count < documents_.size() && documents_[count] == documents_[0]) ++count;
    start_ = starts_[static_cast<size_t>(documents_[0])];
    of_document_ = subscriptions_.first(count);
    documents_ = documents_.subspan(count);
    subscriptions_ = subscriptions_.subspan(count);
    return true;
}

// Some lines at a time, so that room is made for them once.
bool MatchLines::append(size_t bytes, Bytes& out) {
    constexpr size_t lines_max = 256;
    while (out.size() < bytes) {
        if (of_document_.empty() && !next_document()) return false;
        const size_t last = std::min(of_document_.size(), lines_max);
        size_t wanted = 0, end = 0;
        for (; end < last && out.size() + wanted < bytes; ++end) wanted += start_.size() + ends_[static_cast<size_t>(of_document_[end])].size();
        char* to = out.room(wanted);
        for (int32_t subscription : of_document_.first(end)) to = copy_short(copy_short(to, start_), ends_[static_cast<size_t>(subscription)]);
        of_document_ = of_document_.subspan(end);
        out.added(wanted);
    }
    return true;
}

}  // namespace treecast
