// Functions on strings: see the header.
#include "document/text_functions.hpp"

#include "document/characters.hpp"

#include <cmath>

namespace treecast {

namespace {

size_t character_end(std::string_view text, size_t at) {
    size_t end = at + 1;
    while (end < text.size() && continues_character(text[end])) ++end;
    return end;
}

}  // namespace

size_t count_characters(std::string_view text) {
    size_t count = 0;
    for (char c : text) count += !continues_character(c);
    return count;
}

double round_half_up(double number) {
    if (!std::isfinite(number) || number == std::floor(number)) return number;
    if (number < 0 && number >= -0.5) return -0.0;
    double floor = std::floor(number);
    return number - floor < 0.5 ? floor : floor + 1;
}

// Positions are neighbours, so the result is a part of the text.
std::string_view substring_of(std::string_view text, double from, const double* length) {
    const double begin = round_half_up(from), end = length ? begin + round_half_up(*length) : HUGE_VAL;
    double position = 0;
    size_t first = text.size(), last = text.size();
    for (size_t at = 0; at < text.size(); at = character_end(text, at)) {
        ++position;
        if (!(position < end)) {
            last = at;
            break;
        }
        if (position >= begin && first == text.size()) first = at;
        if (first != text.size() && !length) break;
    }
    return first < last ? text.substr(first, last - first) : std::string_view();
}

void append_normalized(std::string_view text, std::string& out) {
    const size_t begin = out.size();
    bool pending = false;
    for (char c : text) {
        if (is_space(c)) {
            pending = out.size() > begin;
            continue;
        }
        if (pending) out += ' ';
        pending = false;
        out += c;
    }
}

Translation::Translation(std::string_view from, std::string_view to) {
    ascii_.fill(keep);
    for (size_t at = 0, other = 0; at < from.size();) {
        const size_t end = character_end(from, at), other_end = other < to.size() ? character_end(to, other) : other;
        std::string_view before = from.substr(at, end - at), after = to.substr(other, other_end - other);
        at = end;
        other = other_end;
        if (before.size() > 1 || static_cast<unsigned char>(before[0]) >= ascii_.size()) {
            others_.emplace(before, after);
            continue;
        }
        int& entry = ascii_[static_cast<unsigned char>(before[0])];
        if (entry != keep) continue;
        if (after.empty()) {
            entry = drop;
        } else if (after.size() == 1) {
            entry = static_cast<unsigned char>(after[0]);
        } else {
            entry = 256 + static_cast<int>(texts_.size());
            texts_.emplace_back(after);
        }
    }
}

void Translation::append(std::string_view text, std::string& out) const {
    for (size_t at = 0; at < text.size();) {
        const auto byte = static_cast<unsigned char>(text[at]);
        if (byte < ascii_.size()) {
            const int entry = ascii_[byte];
            ++at;
            if (entry == keep) out += static_cast<char>(byte);
            else if (entry >= 256) out += texts_[static_cast<size_t>(entry) - 256];
            else if (entry != drop) out += static_cast<char>(entry);
            continue;
        }
        const size_t end = character_end(text, at);
        std::string_view character = text.substr(at, end - at);
        at = end;
        auto found = others_.find(character);
        if (found == others_.end()) out += character;
        else out += found->second;
    }
}

}  // namespace treecast
