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

void StringValues::begin(const Document& document) {
    document_ = &document;
    offsets_found_ = dark_found_ = false;
    ++stamp_;
}

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

// fallback[n]: of the first n bytes, the longest end that is a beginning too.
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

bool StringValues::contains(std::string_view text, std::string_view literal, uint32_t key) {
    if (literal.empty()) return true;
    bytes_ += text.size();
    if (text.size() <= plain_bytes_max) return text.find(literal) != std::string_view::npos;
    Search& found = search(key);
    prepare(found, literal);
    uint32_t matched = 0;
    return scan(found, literal, text, matched, [](size_t) { return true; });
}

bool StringValues::contains(Texts texts, std::string_view literal, uint32_t key) {
    if (literal.empty()) return true;
    uint64_t begin = offset(texts.begin), end = offset(texts.end), size = end - begin;
    if (size < literal.size()) return false;
    Search& found = search(key);
    if (found.table != none && (tables_[found.table].key != key || tables_[found.table].stamp != stamp_)) found.table = none;
    if (found.table == none && found.bytes > offset(static_cast<uint32_t>(document_->text.size()))) {
        found.table = take_table(key);
        fill_table(found, literal, tables_[found.table].next);
    }
    if (found.table != none) {
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
    for (uint32_t text = texts.begin; text < texts.end; ++text)
        if (scan(found, literal, piece(text), matched, [](size_t) { return true; })) return true;
    return false;
}

// Tables that do not fit push others out, which costs time only.
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

// Puts a value that is short and in few pieces into the buffer.
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
    uint64_t begin = first_dark_[texts.begin], end = last_dark_[texts.end];
    if (begin >= end || end - begin > number_bytes_max) return nan;
    const uint64_t* offsets = offsets_.data();
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
