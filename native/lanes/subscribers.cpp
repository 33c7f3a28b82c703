#include "lanes/subscribers.hpp"

#include <cassert>
#include <limits>
#include <string>
#include <utility>

namespace treecast {

namespace {

constexpr uint32_t hints_max = 1 << 22;          // 96 MiB; others are looked for by id

}  // namespace

uint32_t Subscribers::join(const Joining& joining) {
    assert(joining.serial);
    auto [known, is_new] = slot_of_.try_emplace(std::string(joining.id), 0);
    if (!is_new) return nobody;
    const uint32_t slot = known->second = slot_numbers_.take();
    if (slot == slots_.size()) {
        slots_.emplace_back();
        rests_.emplace_back();
    }
    Subscriber& subscriber = slots_[slot];
    subscriber.serial = joining.serial;
    subscriber.newest = joining.newest;
    subscriber.lane = joining.lane;
    subscriber.acknowledge_ms = static_cast<uint32_t>(std::clamp<int64_t>(joining.acknowledge_ms, 0, std::numeric_limits<uint32_t>::max()));
    const std::string_view id = rests_[slot].id = known->first;
    const bool is_short = id.size() <= short_id_max;
    subscriber.id_size = static_cast<uint8_t>(is_short ? id.size() : short_id_max + 1);
    if (is_short) std::copy(id.begin(), id.end(), subscriber.short_id);
    return slot;
}

Subscribers::Leaving Subscribers::leave(uint32_t slot) {
    Subscriber& subscriber = slots_[slot];
    Rest& rest = rests_[slot];
    assert(subscriber.serial);
    Leaving left{{}, subscriber.ready, upto(slot), subscriber.newest};
    if (subscriber.waiting > few_max) left.waiting = std::move(rest.waiting);
    else left.waiting.assign(subscriber.few, subscriber.few + subscriber.waiting);
    slot_of_.erase(slot_of_.find(rest.id));
    subscriber = Subscriber();
    rest = Rest();
    slot_numbers_.give_back(slot);
    return left;
}

// Looking where it was last time touches what is needed anyway; a table of texts is elsewhere.
uint32_t Subscribers::find(std::string_view id, Number number) {
    const bool is_hinted = number.serial && number.slot < hints_max;
    if (is_hinted && number.slot < hints_.size()) {
        const Hint& hint = hints_[number.slot];
        if (hint.number_serial == number.serial && slots_[hint.slot].serial == hint.serial) return hint.slot;
    }
    auto known = slot_of_.find(id);
    if (known == slot_of_.end()) return nobody;
    if (is_hinted) {
        if (number.slot >= hints_.size()) hints_.resize(number.slot + 1);
        hints_[number.slot] = {number.serial, slots_[known->second].serial, known->second};
    }
    return known->second;
}

void Subscribers::add(uint32_t slot, int64_t document) {
    Subscriber& subscriber = slots_[slot];
    if (subscriber.waiting < few_max) {
        subscriber.few[subscriber.waiting] = document;
    } else {
        auto& all = rests_[slot].waiting;
        if (subscriber.waiting == few_max) all.assign(subscriber.few, subscriber.few + few_max);
        all.push_back(document);
    }
    ++subscriber.waiting;
    ++subscriber.ready;
    subscriber.newest = document;
}

void Subscribers::erase_waiting(uint32_t slot, size_t place) {
    Subscriber& subscriber = slots_[slot];
    if (subscriber.waiting <= few_max) {
        std::copy(subscriber.few + place + 1, subscriber.few + subscriber.waiting, subscriber.few + place);
        --subscriber.waiting;
        return;
    }
    auto& all = rests_[slot].waiting;
    all.erase(all.begin() + static_cast<std::ptrdiff_t>(place));
    if (--subscriber.waiting > few_max) return;
    std::copy(all.begin(), all.end(), subscriber.few);
    all.clear();
}

bool Subscribers::settle(uint32_t slot, int64_t document) {
    const std::span<const int64_t> sent = this->sent(slot);
    auto at = std::lower_bound(sent.begin(), sent.end(), document);
    if (at == sent.end() || *at != document) return false;
    const auto place = static_cast<size_t>(at - sent.begin());
    erase_waiting(slot, place);
    Subscriber& subscriber = slots_[slot];
    if (place) {
        rests_[slot].upto = std::max(upto(slot), document);
        subscriber.has_done = true;
    } else if (subscriber.has_done) {
        const std::span<const int64_t> left = waiting(slot);
        subscriber.has_done = !left.empty() && left.front() < rests_[slot].upto;
    }
    return true;
}

size_t Subscribers::longest() const {
    size_t most = 0;
    for (const Subscriber& subscriber : slots_) most = std::max<size_t>(most, subscriber.waiting);
    return most;
}

}  // namespace treecast
