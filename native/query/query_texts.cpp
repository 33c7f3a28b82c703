// Writes texts of queries as the numbers of their words, and reads them back. query_texts.hpp has the form.
#include "query/query_texts.hpp"

#include "base/varint.hpp"
#include "document/document.hpp"

namespace treecast {

namespace {

// A row begins with the number of the settings, times two, plus one where words follow. The number 0 among the words says that
// the rest is as it was given; words are written as their number plus one.
constexpr uint32_t literal_follows = 0;

bool is_word_character(char c) {
    auto byte = static_cast<unsigned char>(c);
    return byte >= 0x80 || (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') || byte == '_' ||
           byte == '-' || byte == '.' || byte == ':' || byte == '*' || byte == '@' || byte == '(' || byte == ')';
}

// Where the word ends that begins here: behind its slashes and the name that follows. 0 where there is none, or where the name goes
// on with something that no plain path has.
size_t query_word_size(std::string_view text) {
    size_t at = 0;
    while (at < text.size() && at < 2 && text[at] == '/') ++at;
    const size_t name = at;
    while (at < text.size() && is_word_character(text[at])) ++at;
    return name && at > name && (at == text.size() || text[at] == '/') ? at : 0;
}

template <class WordText>
std::string_view read_query_text(std::string_view row, std::string& room, WordText&& word_text) {
    const char* at = row.data();
    const char* end = at + row.size();
    if (!(take_varint(at) & 1)) return {at, static_cast<size_t>(end - at)};
    room.clear();
    while (at < end) {
        uint32_t number = take_varint(at);
        if (number == literal_follows) {
            room.append(at, end);
            break;
        }
        room += word_text(number - 1);
    }
    return room;
}

uint32_t read_query_settings(std::string_view row) {
    const char* at = row.data();
    return take_varint(at) >> 1;
}

std::string_view word_between(const char* bytes, const uint32_t* ends, uint32_t word) { return {bytes + ends[word], ends[word + 1] - ends[word]}; }

}  // namespace

uint32_t SharedTexts::settings(uint32_t slot) const { return read_query_settings(rows_[slot]); }

std::string_view SharedTexts::text(uint32_t slot, std::string& room) const {
    return read_query_text(rows_[slot], room, [&](uint32_t word) { return word_between(word_bytes_.get(), word_ends_.get(), word); });
}

std::string_view QueryTexts::word_text(uint32_t word) const { return word_between(word_bytes_.data(), word_ends_.data(), word); }

uint32_t QueryTexts::settings(uint32_t slot) const { return read_query_settings(rows_[slot]); }

std::string_view QueryTexts::text(uint32_t slot, std::string& room) const {
    return read_query_text(rows_[slot], room, [&](uint32_t word) { return word_text(word); });
}

void QueryTexts::share_with(SharedTexts& reader) const noexcept {
    rows_.share_with(reader.rows_);
    word_bytes_.share_with(reader.word_bytes_);
    word_ends_.share_with(reader.word_ends_);
}

uint32_t QueryTexts::word(std::string_view text) {
    const uint64_t sought = hash(text);
    uint32_t known = slots_.find(sought, [&](uint32_t word) { return word_text(word) == text; });
    if (known != IdSlots::empty) return known;
    if (words() == words_max || text.size() > word_bytes_max) return none;
    auto hash_of = [&](uint32_t word) { return hash(word_text(word)); };
    slots_.reserve_next(hash_of);
    word_bytes_.append(text.data(), text.size());
    try {
        word_ends_.push(static_cast<uint32_t>(word_bytes_.size()));
    } catch (...) {
        word_bytes_.cut(word_ends_[words()]);
        throw;
    }
    return slots_.add_next(sought);
}

void QueryTexts::add(std::string_view text, uint32_t settings) {
    row_.clear();
    std::string_view rest = text;
    size_t size = query_word_size(rest);
    put_varint(row_, settings << 1 | (size != 0));
    for (; size; size = query_word_size(rest)) {
        uint32_t number = word(rest.substr(0, size));
        if (number == none) break;
        put_varint(row_, number + 1);
        rest.remove_prefix(size);
    }
    if (rest.size() < text.size() && !rest.empty()) put_varint(row_, literal_follows);
    if (rest.size() == text.size()) {               // the first word has no number: then there are none
        row_.clear();
        put_varint(row_, settings << 1);
    }
    row_ += rest;
    rows_.push(row_);
}

void QueryTexts::cut(const Mark& mark) noexcept {
    rows_.cut(mark.texts, mark.used);
    auto hash_of = [&](uint32_t word) { return hash(word_text(word)); };
    while (words() > mark.words) {
        slots_.remove(hash_of(words() - 1), words() - 1, hash_of);
        word_ends_.cut(words());
        word_bytes_.cut(word_ends_[words()]);
    }
}

// What is looked up by text is not in a file.
bool QueryTexts::adopt(uint32_t size) {
    if (!rows_.set_size(size) || word_ends_.empty() || words() > words_max || word_ends_[words()] != word_bytes_.size()) return false;
    slots_.reset();
    auto hash_of = [&](uint32_t word) { return hash(word_text(word)); };
    for (uint32_t word = 0; word < words(); ++word) {
        if (word_ends_[word] > word_ends_[word + 1]) return false;
        slots_.reserve_next(hash_of);
        slots_.add_next(hash_of(word));
    }
    return true;
}

}  // namespace treecast
