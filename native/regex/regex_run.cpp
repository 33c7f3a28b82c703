// Runs a regular expression over a value.
#include "regex/regex_run.hpp"

#include "document/characters.hpp"

#include <algorithm>

namespace treecast {

RegexRun::RegexRun(Regex regex) : regex_(std::move(regex)) {
    ascii_.fill(no_class);
    cuts_.push_back(128);
    for (const CharacterSet& set : regex_.sets())
        for (const CharacterSet::Part& part : set.parts())
            if (part.begin > 128) cuts_.push_back(part.begin);
    std::ranges::sort(cuts_);
    cuts_.erase(std::unique(cuts_.begin(), cuts_.end()), cuts_.end());
    kinds_.assign(cuts_.size() * kind_count, no_class);
    members_.emplace_back();                             // the end of a value: in no set
    marks_.assign(regex_.program().size(), 0);
    fixed_bytes_ = sizeof *this + kinds_.size() * 4 + cuts_.size() * 4 + regex_.program().size() * (sizeof(RegexInstruction) + 4);
    for (const CharacterSet& set : regex_.sets()) fixed_bytes_ += sizeof set + set.parts().size() * sizeof set.parts()[0];
    if (regex_.is_multiline()) line_class_ = class_of('\n');
}

// Which of the sets it is in decides the class, and with several lines whether it is the end of one.
uint32_t RegexRun::new_class(uint32_t character) {
    const std::vector<CharacterSet>& sets = regex_.sets();
    std::string members(sets.size() + 1, '\0');
    for (size_t i = 0; i < sets.size(); ++i) members[i] = sets[i].has(character);
    members[sets.size()] = regex_.is_multiline() && character == '\n';
    auto [entry, is_new] = class_numbers_.try_emplace(members, static_cast<uint32_t>(members_.size()));
    if (is_new) {
        fixed_bytes_ += 2 * members.size() + 96;
        members_.push_back(std::move(members));
    }
    return entry->second;
}

uint32_t RegexRun::class_of(uint32_t character) {
    uint32_t* known = nullptr;
    if (character < 128) {
        known = &ascii_[character];
    } else {
        size_t part = static_cast<size_t>(std::ranges::upper_bound(cuts_, character) - cuts_.begin()) - 1;
        known = &kinds_[part * kind_count + kind_of(character)];
    }
    if (*known == no_class) *known = new_class(character);
    return *known;
}

bool RegexRun::matches(std::string_view value, uint64_t& steps) {
    steps += 1 + value.size() / 8;
    if (start_ == unknown) {
        std::vector<uint32_t> first{regex_.start()};
        start_ = place_of(first, Before::nothing);
    }
    uint32_t now = start_;
    const char* at = value.data();
    const char* end = at + value.size();
    while (true) {
        uint32_t character_class = end_class;
        if (at < end) {
            auto byte = static_cast<unsigned char>(*at);
            if (byte < 128) {
                character_class = ascii_[byte] == no_class ? class_of(byte) : ascii_[byte];
                ++at;
            } else {
                Decoded decoded = decode_utf8(at, end);
                character_class = class_of(decoded.character);
                at += std::max(decoded.length, 1u);
            }
        }
        const std::vector<uint32_t>& known = place(now).next;
        uint32_t next = character_class < known.size() ? known[character_class] : unknown;
        if (next == unknown) next = follow(now, character_class, steps);
        if (next <= rejects) return next == accepts;
        now = next;
    }
}

// Collects in closed_ the instructions at which a character is taken; true where the program accepts on the way.
bool RegexRun::close(const Place& place, uint32_t character_class, uint64_t& steps) {
    const bool at_end = character_class == end_class;
    const bool lines = regex_.is_multiline();
    const bool begins = place.before == Before::nothing || (lines && place.before == Before::line_end && !at_end);
    const bool ends = lines ? character_class == line_class_ || (at_end && place.before != Before::line_end) : at_end;
    if (++mark_ == 0) {
        std::ranges::fill(marks_, 0);
        mark_ = 1;
    }
    closed_.clear();
    stack_ = place.instructions;
    auto push = [&](uint32_t at) {
        if (marks_[at] != mark_) stack_.push_back(at);
    };
    while (!stack_.empty()) {
        const uint32_t at = stack_.back();
        stack_.pop_back();
        if (marks_[at] == mark_) continue;
        marks_[at] = mark_;
        ++steps;
        const RegexInstruction& instruction = regex_.program()[at];
        switch (instruction.operation) {
            case RegexOperation::accept: return true;
            case RegexOperation::characters: closed_.push_back(at); break;
            case RegexOperation::either: push(instruction.second), push(instruction.first); break;
            case RegexOperation::begin: if (begins) push(instruction.first); break;
            case RegexOperation::end: if (ends) push(instruction.first); break;
        }
    }
    return false;
}

uint32_t RegexRun::follow(uint32_t number, uint32_t character_class, uint64_t& steps) {
    uint32_t next = rejects;
    std::vector<uint32_t> instructions;
    if (close(place(number), character_class, steps)) {
        next = accepts;
    } else if (character_class != end_class) {
        const std::string& members = members_[character_class];
        if (!regex_.is_anchored()) instructions.push_back(regex_.start());
        for (uint32_t at : closed_) {
            const RegexInstruction& instruction = regex_.program()[at];
            if (members[instruction.first]) instructions.push_back(instruction.second);
        }
        std::ranges::sort(instructions);
        instructions.erase(std::unique(instructions.begin(), instructions.end()), instructions.end());
        if (!instructions.empty()) {
            if (bytes_ > bytes_max) {
                forget();
                return place_of(instructions, character_class == line_class_ ? Before::line_end : Before::character);
            }
            next = place_of(instructions, character_class == line_class_ ? Before::line_end : Before::character);
        }
    }
    std::vector<uint32_t>& known = places_[number - places_begin].next;
    if (known.size() <= character_class) {
        bytes_ += (members_.size() - known.size()) * 4;
        known.resize(members_.size(), unknown);
    }
    known[character_class] = next;
    return next;
}

uint32_t RegexRun::place_of(std::vector<uint32_t>& instructions, Before before) {
    std::string key(reinterpret_cast<const char*>(instructions.data()), instructions.size() * sizeof(uint32_t));
    key += static_cast<char>(before);
    auto [entry, is_new] = place_numbers_.try_emplace(std::move(key), static_cast<uint32_t>(places_.size()) + places_begin);
    if (is_new) {
        bytes_ += sizeof(Place) + 2 * instructions.size() * sizeof(uint32_t) + 96;
        places_.push_back({std::move(instructions), {}, before});
    }
    return entry->second;
}

void RegexRun::forget() {
    places_.clear();
    place_numbers_.clear();
    bytes_ = 0;
    start_ = unknown;
}

}  // namespace treecast
