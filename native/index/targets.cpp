// Targets by number and by slot, and the values of a document.
#include "index/targets.hpp"

#include <algorithm>
#include <charconv>
#include <mutex>

namespace treecast {

namespace {
constexpr uint64_t text_bytes_max = 1 << 20;                // looked at for one place: elements may hold each other's text
}

void Targets::set(uint64_t number, uint64_t targets, const Sets& sets) {
    std::lock_guard lock(mutex_);
    auto found = entries_.find(number);
    if (found == entries_.end()) {
        if (!targets) return;
        found = entries_.emplace(number, Entry{}).first;
    }
    Entry& entry = found->second;
    entry.targets = targets;
    entry.sets.clear();
    for (const auto& [place, values] : sets) entry.sets.emplace_back(&*places_.try_emplace(place).first, values);
    if (entry.slot != unseen) {
        of_slot_[entry.slot] = targets ? word_of(entry) : 0;
        with_sets_.erase(entry.slot);
        if (targets && !entry.sets.empty()) with_sets_[entry.slot] = &entry;
    }
    if (!targets) entries_.erase(found);
}

const std::vector<uint64_t>& Targets::of(const View& view) {
    if (view.serial != serial_) {
        serial_ = view.serial;
        of_slot_.clear();
        with_sets_.clear();
        for (auto& [number, entry] : entries_) entry.slot = unseen;
    }
    for (auto slot = static_cast<uint32_t>(of_slot_.size()); slot < view.slots; ++slot) {
        std::string_view id = view.id(slot);
        uint64_t number = 0;
        auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), number);
        auto found = error == std::errc() && end == id.data() + id.size() ? entries_.find(number) : entries_.end();
        of_slot_.push_back(found == entries_.end() ? 0 : word_of(found->second));
        if (found == entries_.end()) continue;
        found->second.slot = slot;
        if (!found->second.sets.empty()) with_sets_[slot] = &found->second;
    }
    return of_slot_;
}

uint64_t Targets::targets_of(uint32_t slot, const Document& document, uint64_t found) {
    uint64_t targets = of_slot_[slot] & ~marker & ~found;
    if (!targets) return 0;
    const Entry& entry = *with_sets_.at(slot);
    std::lock_guard lock(ValueSet::mutex());
    for (const auto& [place, set] : entry.sets) {
        const Values& values = values_at(*place, document);
        if (!values.is_known) continue;                     // then it may be for all of them
        uint64_t having = 0;
        for (uint64_t hash : values.hashes) having |= set->word(hash);
        targets &= having;
        if (!targets) break;
    }
    return targets;
}

// Once for each document, however many subscriptions ask for it.
const Targets::Values& Targets::values_at(Places::value_type& place, const Document& document) {
    const ValuePlace& where = place.first;
    Values& values = place.second;
    if (values.document == document_) return values;
    values.document = document_;
    values.is_known = true;
    values.hashes.clear();
    const bool is_any = where.element.empty(), is_text = where.attribute.empty();
    const uint32_t element = is_any ? none : document.names->find(where.element_uri, where.element);
    const uint32_t attribute = is_text ? none : document.names->find(where.attribute_uri, where.attribute);
    if ((!is_any && element == none) || (!is_text && attribute == none)) return values;
    uint64_t bytes = 0;
    for (size_t i = 0; i < document.elements(); ++i) {
        if (!is_any && document.name[i] != element) continue;
        if (is_text) {
            text_.clear();
            for (uint32_t text = document.text_begin[i]; text < document.text_end[i]; ++text) {
                text_ += document.value(document.text[text]);
                if ((bytes += 16 + document.text[text].end - document.text[text].begin) <= text_bytes_max) continue;
                values.is_known = false;
                return values;
            }
            values.hashes.push_back(ValueSet::hash(text_));
            continue;
        }
        for (size_t a = document.attribute_begin[i], end = document.attribute_end(i); a < end; ++a)
            if (document.attribute_name[a] == attribute) values.hashes.push_back(ValueSet::hash(document.value(document.attribute_value[a])));
    }
    return values;
}

}  // namespace treecast
