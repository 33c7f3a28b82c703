// Targets by number and by slot, and what the values of a document say of them.
#include "index/targets.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <mutex>
#include <span>
#include <utility>

namespace treecast {

void BitCounts::add(uint64_t bits) {
    bits_ |= bits;
    for (; bits; bits &= bits - 1) ++counts_[static_cast<size_t>(std::countr_zero(bits))];
}

void BitCounts::remove(uint64_t bits) {
    for (; bits; bits &= bits - 1)
        if (--counts_[static_cast<size_t>(std::countr_zero(bits))] == 0) bits_ &= ~(bits & -bits);
}

void Targets::set(uint64_t number, uint64_t targets, const Sets& sets, const std::vector<ValueStep>& path) {
    std::lock_guard lock(mutex_);
    auto found = entries_.find(number);
    if (found == entries_.end()) {
        if (!targets) return;
        found = entries_.emplace(number, Entry{}).first;
    }
    Entry& entry = found->second;
    withdraw(entry);
    entry.targets = targets;
    if (targets) enter(entry, sets, path);
    if (entry.slot != unseen) {
        of_slot_[entry.slot] = targets ? word_of(entry) : 0;
        with_sets_.erase(entry.slot);
        if (targets && !entry.sets.empty()) with_sets_[entry.slot] = &entry;
    }
    if (!targets) entries_.erase(found);
}

void Targets::enter(Entry& entry, const Sets& sets, const std::vector<ValueStep>& path) {
    for (const auto& [place, values] : sets) {
        const uint32_t element = names_.take(place.element_uri, place.element);
        entry.sets.emplace_back(&places_.take(element, names_.take(place.attribute_uri, place.attribute)), values);
    }
    const bool is_one = entry.sets.size() == 1 && path.size() <= LinearPath::steps_max;
    if (is_one && entry.sets[0].first->decided.size() < decided_max)
        for (const ValueStep& step : path) entry.path.steps.push_back({step.is_anywhere, names_.take(step.uri, step.name)});
    if (entry.is_decided()) places_.decide(*entry.sets[0].first, {entry.targets, entry.sets[0].second.get(), &entry.path});
    counts_of(entry).add(entry.targets);
}

void Targets::withdraw(Entry& entry) {
    counts_of(entry).remove(entry.targets);
    if (entry.is_decided()) places_.undecide(*entry.sets[0].first, entry.path);
    for (const LinearPath::Step& step : entry.path.steps) names_.leave(step.name);
    for (const auto& [place, values] : entry.sets) {
        const uint32_t element = place->element, attribute = place->attribute;
        places_.leave(*place);
        names_.leave(element);
        names_.leave(attribute);
    }
    entry.path.steps.clear();
    entry.sets.clear();
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

// A document that would take too much work is left to the machines. Then its values count wherever they stand.
// PERF: bench/network_frame.py. A large set is not in the cache, so some values are looked up together, and fetched meanwhile: more and
// more of them, since few may be enough.
uint64_t Targets::find(const Document& document, uint64_t enough, uint64_t found) {
    is_sure_ = true;
    places_.begin(document, names_);
    auto is_over = [&] { return (enough && (found & enough) == enough) || !(decided_.bits() & ~found); };
    if (is_over()) return found;
    Sighting together[together_max];
    size_t count = 0, count_max = 2;
    uint64_t steps_left = 1024 + steps_per_item_max * (document.elements() + document.attribute_name.size());
    std::lock_guard lock(ValueSet::mutex());
    auto decide_all = [&] {
        count_max = std::min(2 * count_max, together_max);
        for (const Sighting& each : std::span(together, std::exchange(count, 0))) {
            found |= decide(each, document, found, steps_left);
            if (!is_sure_ || is_over()) return true;
        }
        return false;
    };
    places_.look([&](ValuesAt& place, uint32_t value) {
        auto is_wanted = [&](const ValueForm& form) { return (form.targets & ~found) != 0; };
        if (std::none_of(place.decided.begin(), place.decided.end(), is_wanted)) return false;
        is_sure_ = places_.make_known(place, value);
        if (!is_sure_) return true;
        for (const ValueForm& form : place.decided)
            if (is_wanted(form)) form.set->prefetch(places_.value(value).hash);
        together[count++] = {&place, value};
        return count == count_max && decide_all();
    });
    decide_all();
    return found;
}

// The targets that a value decides.
uint64_t Targets::decide(const Sighting& sighting, const Document& document, uint64_t found, uint64_t& steps_left) {
    const DocumentValue& value = places_.value(sighting.value);
    uint64_t more = 0;
    for (const ValueForm& form : sighting.place->decided) {
        const uint64_t wanted = form.targets & ~(found | more);
        const uint64_t having = wanted ? form.set->word(value.hash) & wanted : 0;
        if (!having) continue;
        if (form.path->leads_to(document, value.element, names_, steps_left)) more |= having;
        if (!steps_left) is_sure_ = false;
    }
    return more;
}

uint64_t Targets::targets_of(uint32_t slot, const Document&, uint64_t found) {
    uint64_t targets = of_slot_[slot] & ~marker & ~found;
    if (!targets) return 0;
    const Entry& entry = *with_sets_.at(slot);
    if (entry.is_decided() && is_sure_) return 0;           // find() has found those that there are
    std::lock_guard lock(ValueSet::mutex());
    for (const auto& [place, set] : entry.sets) {
        if (!places_.complete(*place)) continue;            // then it may be for all of them
        uint64_t having = 0;
        for (uint32_t value : place->values) having |= set->word(places_.value(value).hash);
        targets &= having;
        if (!targets) break;
    }
    return targets;
}

}  // namespace treecast
