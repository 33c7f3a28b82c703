// String values of elements. The theory is in string_values.hpp: all values are parts of one long text that is never joined.
//
// Small values are still joined and searched directly, because that is faster than any preparation.
// The tables pay off only when ancestors ask about the same text again and again.
#include "document/string_values.hpp"

#include "document/characters.hpp"
#include "document/number.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

namespace treecast {

namespace {

constexpr uint64_t table_bytes_max = 64u << 20;     // of all tables of next occurrences
constexpr size_t plain_bytes_max = 1024;            // what is searched without preparation

}  // namespace

// Caches carry a stamp, so a new document invalidates them without touching them.
void StringValues::begin(const Document& document) {
    document_ = &document;
    offsets_found_ = dark_found_ = false;
    ++stamp_;
}

// Rests below 32 bytes carry over, so many short values still add up to steps.
uint64_t StringValues::take_work() {
    uint64_t steps = bytes_ / 32 + texts_;
    bytes_ %= 32;
    texts_ = 0;
    return steps;
}

uint64_t StringValues::offset(uint32_t text) {
    if (!offsets_found_) find_offsets();
    return offsets_[text];
}

// offsets_[n] is where text n starts in the long text. One extra entry marks the end.
void StringValues::find_offsets() {
    offsets_found_ = true;
    size_t count = document_->text.size();
    if (offsets_.size() < count + 1) offsets_.resize(count + 1);
    uint64_t at = 0;
    for (size_t text = 0; text < count; ++text) {
        offsets_[text] = at;
        at += document_->text[text].end - document_->text[text].begin;
    }
    offsets_[count] = at;
    texts_ += count;
}

// --- substrings

// The state of one literal. A stale stamp means that it belongs to an earlier query or document.
StringValues::Search& StringValues::search(uint32_t key) {
    if (key >= searches_.size()) searches_.resize(key + 1);
    Search& search = searches_[key];
    if (search.stamp != stamp_) {
        search.stamp = stamp_;
        search.bytes = 0;
        search.table = none;
        search.fallback.clear();
    }
    return search;
}

// The failure function of Knuth, Morris and Pratt.
// fallback[n]: the longest proper suffix of the first n bytes that is also a prefix of the literal.
void StringValues::prepare(Search& search, std::string_view literal) {
    if (!search.fallback.empty()) return;
    search.fallback.assign(literal.size() + 1, 0);
    uint32_t matched = 0;
    for (size_t at = 1; at < literal.size(); ++at) {
        while (matched && literal[matched] != literal[at]) matched = search.fallback[matched];
        if (literal[matched] == literal[at]) ++matched;
        search.fallback[at + 1] = matched;
    }
    bytes_ += literal.size();
}

template <class Visit>
bool StringValues::scan(const Search& search, std::string_view literal, std::string_view piece, uint32_t& matched, Visit&& visit) {
    size_t at = 0;
    while (at < piece.size()) {
        // Nothing has matched: memchr finds the next possible start much faster than the automaton.
        if (matched == 0) {
            const void* first = std::memchr(piece.data() + at, literal[0], piece.size() - at);
            if (!first) return false;
            at = static_cast<size_t>(static_cast<const char*>(first) - piece.data());
        } else {
            while (matched && literal[matched] != piece[at]) matched = search.fallback[matched];
            if (literal[matched] != piece[at]) {
                ++at;
                continue;
            }
        }
        ++at;
        if (++matched < literal.size()) continue;
        matched = search.fallback[matched];
        if (visit(at)) return true;
    }
    return false;
}

// The standard search is quadratic at worst, so it is used for short texts only.
bool StringValues::contains(std::string_view text, std::string_view literal, uint32_t key) {
    if (literal.empty()) return true;
    bytes_ += text.size();
    if (text.size() <= plain_bytes_max) return text.find(literal) != std::string_view::npos;
    Search& found = search(key);
    prepare(found, literal);
    uint32_t matched = 0;
    return scan(found, literal, text, matched, [](size_t) { return true; });
}

// Searches in place at first. After about one full read of the document, builds the table of next occurrences.
bool StringValues::contains(Texts texts, std::string_view literal, uint32_t key) {
    if (literal.empty()) return true;
    uint64_t begin = offset(texts.begin), end = offset(texts.end), size = end - begin;
    if (size < literal.size()) return false;
    Search& found = search(key);
    // The table may have been displaced by another literal.
    if (found.table != none && (tables_[found.table].key != key || tables_[found.table].stamp != stamp_)) found.table = none;
    // All texts have been read once for this literal. From now on a table is cheaper than searching.
    if (found.table == none && found.bytes > offset(static_cast<uint32_t>(document_->text.size()))) {
        found.table = take_table(key);
        fill_table(found, literal, tables_[found.table].next);
    }
    if (found.table != none) {
        // The first occurrence at or after the value's start decides: it lies inside if it ends in time.
        uint64_t next = tables_[found.table].next[texts.begin];
        return next != nowhere && next + literal.size() <= end;
    }
    found.bytes += size;
    if (texts.end - texts.begin == 1) return contains(piece(texts.begin), literal, key);
    bytes_ += size;
    texts_ += texts.end - texts.begin;
    if (size <= plain_bytes_max) {
        buffer_.clear();
        for (uint32_t text = texts.begin; text < texts.end; ++text) buffer_ += piece(text);
        return buffer_.find(literal) != std::string::npos;
    }
    prepare(found, literal);
    uint32_t matched = 0;
    // `matched` continues across texts, so an occurrence may span them.
    for (uint32_t text = texts.begin; text < texts.end; ++text)
        if (scan(found, literal, piece(text), matched, [](size_t) { return true; })) return true;
    return false;
}

// Takes a table, round robin. Tables that do not fit displace others, which costs time only.
uint32_t StringValues::take_table(uint32_t key) {
    uint64_t each = (document_->text.size() + 1) * sizeof(uint64_t);
    auto most = static_cast<uint32_t>(std::clamp<uint64_t>(table_bytes_max / each, 1, 256));
    if (tables_.size() > most) tables_.resize(most);
    uint32_t place = next_table_++ % most;
    if (place >= tables_.size()) place = static_cast<uint32_t>(tables_.size()), tables_.emplace_back();
    tables_[place].stamp = stamp_;
    tables_[place].key = key;
    return place;
}

// One pass over all texts fills in, for each text, where the next occurrence begins.
void StringValues::fill_table(Search& found, std::string_view literal, std::vector<uint64_t>& next) {
    prepare(found, literal);
    auto count = static_cast<uint32_t>(document_->text.size());
    next.resize(count + 1);
    uint32_t waiting = 0, matched = 0;               // texts from `waiting` on have not met an occurrence yet
    for (uint32_t text = 0; text < count; ++text)
        scan(found, literal, piece(text), matched, [&](size_t end) {
            uint64_t begin = offsets_[text] + end - literal.size();
            for (; waiting <= text && offsets_[waiting] <= begin; ++waiting) next[waiting] = begin;
            return false;
        });
    std::fill(next.begin() + waiting, next.end(), nowhere);
    bytes_ += offsets_[count];
    texts_ += count;
}

// --- the others

// Consumes the literal text by text, so it never reads more than the literal's length.
bool StringValues::equals(Texts texts, std::string_view literal) {
    bytes_ += literal.size();
    for (uint32_t text = texts.begin; text < texts.end; ++text) {
        std::string_view one = piece(text);
        ++texts_;
        if (!literal.starts_with(one)) return false;
        literal.remove_prefix(one.size());
    }
    return literal.empty();
}

bool StringValues::starts_with(Texts texts, std::string_view beginning) {
    bytes_ += beginning.size();
    for (uint32_t text = texts.begin; text < texts.end && !beginning.empty(); ++text) {
        std::string_view one = piece(text).substr(0, beginning.size());
        ++texts_;
        if (!beginning.starts_with(one)) return false;
        beginning.remove_prefix(one.size());
    }
    return beginning.empty();
}

// For each text: the first byte from there on that is not white space, and the end of the last one before it.
// A number is what lies between the two, so long white space is read only once per document.
void StringValues::find_dark() {
    dark_found_ = true;
    auto count = static_cast<uint32_t>(document_->text.size());
    if (first_dark_.size() < count + 1) first_dark_.resize(count + 1);
    if (last_dark_.size() < count + 1) last_dark_.resize(count + 1);
    last_dark_[0] = 0;
    for (uint32_t text = 0; text < count; ++text) {
        std::string_view one = piece(text);
        auto last = std::find_if_not(one.rbegin(), one.rend(), is_space);
        auto spaces = static_cast<size_t>(last - one.rbegin());
        last_dark_[text + 1] = spaces == one.size() ? last_dark_[text] : offset(text + 1) - spaces;
        bytes_ += spaces;
    }
    first_dark_[count] = nowhere;
    for (uint32_t text = count; text-- > 0;) {
        std::string_view one = piece(text);
        auto spaces = static_cast<size_t>(std::find_if_not(one.begin(), one.end(), is_space) - one.begin());
        first_dark_[text] = spaces == one.size() ? first_dark_[text + 1] : offset(text) + spaces;
        bytes_ += spaces;
    }
    texts_ += 2ull * count;
}

// Joins a value that is short and in few pieces. Returns false if it is not.
bool StringValues::gather(Texts texts) {
    constexpr uint32_t texts_max = 8;
    constexpr size_t bytes_max = 256;
    if (texts.end - texts.begin > texts_max) return false;
    buffer_.clear();
    for (uint32_t text = texts.begin; text < texts.end; ++text, ++texts_) {
        if (buffer_.size() + piece(text).size() > bytes_max) return false;
        buffer_ += piece(text);
    }
    return true;
}

double StringValues::number(Texts texts) {
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    if (texts.begin >= texts.end) return nan;
    // PERF: most elements with text are no numbers, and the first letter tells.
    std::string_view one = piece(texts.begin);
    if (!one.empty() && !in_number(one.front())) return nan;
    if (texts.end - texts.begin == 1 && one.size() <= number_bytes_max) {
        bytes_ += one.size();
        return to_number(one);
    }
    if (!dark_found_ && gather(texts)) return to_number(buffer_);
    if (!dark_found_) find_dark();
    // After trimming, anything longer than a number can be is no number.
    uint64_t begin = first_dark_[texts.begin], end = last_dark_[texts.end];
    if (begin >= end || end - begin > number_bytes_max) return nan;
    const uint64_t* offsets = offsets_.data();
    // Find the text that holds the first byte, then copy the pieces between the two ends.
    auto text = static_cast<uint32_t>(std::upper_bound(offsets + texts.begin, offsets + texts.end, begin) - offsets - 1);
    buffer_.clear();
    for (uint64_t at = begin; at < end; at = offsets_[++text]) {
        std::string_view part = piece(text).substr(at - offsets_[text]);
        buffer_ += part.substr(0, std::min<uint64_t>(part.size(), end - at));
        ++texts_;
    }
    bytes_ += buffer_.size();
    return to_number(buffer_);
}

}  // namespace treecast
