#include "lanes/lanes.hpp"

#include "lanes/message_pack.hpp"

#include <algorithm>
#include <cassert>
#include <limits>
#include <stdexcept>

namespace treecast {

namespace {

constexpr uint32_t nobody = ~0u;
constexpr int64_t hints_max = 1 << 24;
constexpr size_t stale_few = 64;                // not worth looking for
constexpr size_t done_stored_max = 1'000;       // in one row; what is not stored may come again after a restart

}  // namespace

void write_matches(const MatchColumns& columns, size_t document, std::string& subscriptions, std::string& bodies) {
    const auto begin = static_cast<size_t>(columns.ends[document]), end = static_cast<size_t>(columns.ends[document + 1]);
    size_t count = 0;
    for (size_t delivery = begin; delivery < end; ++delivery) count += columns.payloads[delivery] >= 0;
    message_pack::append_array(count, subscriptions);
    message_pack::append_array(count, bodies);
    for (size_t delivery = begin; delivery < end; ++delivery) {
        const int64_t payload = columns.payloads[delivery];
        if (payload < 0) continue;
        message_pack::append_text(columns.id(delivery), subscriptions);
        message_pack::append_number(static_cast<uint64_t>(columns.bodies[static_cast<size_t>(payload)]), bodies);
    }
}

uint32_t Lanes::open_lane() {
    uint32_t lane = lane_numbers_.take();
    if (lane == lanes_.size()) lanes_.emplace_back();
    return lane;
}

void Lanes::close_lane(uint32_t lane) {
    if (on_lane(lane) || !lanes_[lane].messages.empty()) throw std::logic_error("a lane is closed that has deliveries");
    lanes_[lane] = Lane();
    lane_numbers_.give_back(lane);
}

uint32_t Lanes::join(std::string_view id, uint32_t lane, uint64_t serial, int64_t newest, int64_t acknowledge_ms) {
    if (!serial || slot_of_.find(id) != slot_of_.end()) throw std::logic_error("a subscription joins a lane twice");
    uint32_t slot = slot_numbers_.take();
    if (slot == slots_.size()) slots_.emplace_back();
    Subscriber& subscriber = slots_[slot];
    subscriber.id = id;
    subscriber.serial = serial;
    subscriber.lane = lane;
    subscriber.newest = newest;
    subscriber.acknowledge_ms = acknowledge_ms;
    slot_of_.emplace(subscriber.id, slot);
    return slot;
}

Lanes::Leaving Lanes::leave(uint32_t slot) {
    Subscriber& subscriber = slots_[slot];
    assert(subscriber.serial);
    for (int64_t document : subscriber.waiting) finish(document);
    total_ -= subscriber.waiting.size();
    slot_of_.erase(slot_of_.find(std::string_view(subscriber.id)));
    Leaving left{std::move(subscriber.waiting), subscriber.ready, std::move(subscriber.done), subscriber.newest};
    Lane& lane = lanes_[subscriber.lane];
    lane.stale += subscriber.ready;
    subscriber = Subscriber();
    slot_numbers_.give_back(slot);
    if (lane.stale > stale_few && lane.stale * 2 > lane.line.size()) {
        // Of what is not stale each is the next of its subscription, or behind it.
        std::erase_if(lane.line, [&](const Entry& entry) {
            const Subscriber& owner = slots_[entry.slot];
            size_t first = owner.waiting.size() - owner.ready;
            return owner.serial != entry.serial ||
                   !std::binary_search(owner.waiting.begin() + static_cast<std::ptrdiff_t>(first), owner.waiting.end(), entry.document);
        });
        lane.stale = 0;
    }
    return left;
}

int64_t Lanes::floor(uint32_t slot) const {
    const Subscriber& subscriber = slots_[slot];
    return subscriber.waiting.empty() ? subscriber.newest : subscriber.waiting.front() - 1;
}

std::string Lanes::cursor(uint32_t slot) const {
    const Subscriber& subscriber = slots_[slot];
    std::string row;
    size_t count = std::min(subscriber.done.size(), done_stored_max);
    message_pack::append_array(2, row);
    message_pack::append_number(static_cast<uint64_t>(floor(slot)), row);
    message_pack::append_array(count, row);
    for (size_t i = 0; i < count; ++i) message_pack::append_number(static_cast<uint64_t>(subscriber.done[i]), row);
    return row;
}

// The slot of a subscription, or `nobody`.
// PERF: bench/network_frame.py. Looking where it was last time touches what is needed anyway; a table of texts is elsewhere.
uint32_t Lanes::slot_of(std::string_view id, int64_t hint) {
    const bool has_hint = hint >= 0 && hint < hints_max;
    const auto place = static_cast<size_t>(hint);
    if (has_hint && place < slot_hints_.size()) {
        const uint32_t slot = slot_hints_[place];
        if (slot < slots_.size() && slots_[slot].serial && slots_[slot].id == id) return slot;
    }
    auto known = slot_of_.find(id);
    if (known == slot_of_.end()) return nobody;
    if (has_hint) {
        if (place >= slot_hints_.size()) slot_hints_.resize(place + 1, nobody);
        slot_hints_[place] = known->second;
    }
    return known->second;
}

// Subscribers lie where nobody has looked since their last delivery: what will be needed of them is asked for some steps ahead.
// PERF: bench/network_cpu.py, delivers.
void Lanes::prefetch(uint32_t slot) const {
    if (slot >= slots_.size()) return;
    const char* subscriber = reinterpret_cast<const char*>(&slots_[slot]);
    for (size_t line = 0; line < sizeof(Subscriber); line += 64) __builtin_prefetch(subscriber + line);
}

void Lanes::prefetch_waiting(uint32_t slot) const {
    if (slot < slots_.size()) __builtin_prefetch(slots_[slot].waiting.data());
}

Lanes::Enqueued Lanes::enqueue(const MatchColumns& columns) {
    Enqueued made;
    const size_t deliveries = columns.hints.size();
    auto hinted = [&](size_t delivery) {
        const auto place = static_cast<size_t>(columns.hints[delivery]);
        return place < slot_hints_.size() ? slot_hints_[place] : nobody;
    };
    uint32_t origin = origin_of(columns.origin);
    for (size_t at = 0; at < columns.documents(); ++at) {
        const int64_t number = columns.numbers[at];
        if (!number) continue;
        uint32_t count = 0;
        for (auto delivery = static_cast<size_t>(columns.ends[at]); delivery < static_cast<size_t>(columns.ends[at + 1]); ++delivery) {
            if (delivery + subscribers_ahead < deliveries) prefetch(hinted(delivery + subscribers_ahead));
            if (delivery + waiting_ahead < deliveries) prefetch_waiting(hinted(delivery + waiting_ahead));
            const int64_t payload = columns.payloads[delivery];
            if (payload < 0) continue;          // refused
            const uint32_t slot = slot_of(columns.id(delivery), columns.hints.empty() ? -1 : columns.hints[delivery]);
            if (slot == nobody || slots_[slot].waiting.size() >= waiting_max_) {
                made.others.push_back(static_cast<uint32_t>(delivery));
                continue;
            }
            Subscriber& subscriber = slots_[slot];
            const auto place = static_cast<size_t>(payload);
            const int64_t bytes = columns.payload_ends[place + 1] - columns.payload_ends[place];
            subscriber.waiting.push_back(number);
            ++subscriber.ready;
            subscriber.newest = number;
            ++count;
            Lane& lane = lanes_[subscriber.lane];
            lane.line.push_back({slot, static_cast<uint32_t>(std::min<int64_t>(bytes, std::numeric_limits<uint32_t>::max())),
                                 subscriber.serial, number, columns.bodies[place]});
            if (!lane.is_new) made.lanes.push_back(subscriber.lane);
            lane.is_new = true;
        }
        if (!count) continue;
        total_ += count;
        documents_.emplace(number, WaitedFor{count, origin, columns.published_ms[at], columns.origin_numbers[at]});
        document_order_.push_back(number);
    }
    if (document_order_.size() > 2 * documents_.size() + stale_few)
        std::erase_if(document_order_, [&](int64_t number) { return !documents_.contains(number); });
    for (uint32_t lane : made.lanes) lanes_[lane].is_new = false;
    return made;
}

// Whether a delivery is still to be sent: its subscription may have left since, and come back.
bool Lanes::is_next(const Entry& entry) const {
    const Subscriber& subscriber = slots_[entry.slot];
    return subscriber.serial == entry.serial && subscriber.ready &&
           subscriber.waiting[subscriber.waiting.size() - subscriber.ready] == entry.document;
}

bool Lanes::is_sent(const Entry& entry) const {
    const Subscriber& subscriber = slots_[entry.slot];
    return subscriber.serial == entry.serial &&
           std::binary_search(subscriber.waiting.begin(), subscriber.waiting.end() - static_cast<std::ptrdiff_t>(subscriber.ready), entry.document);
}

Lanes::Message Lanes::take(uint32_t number_of_lane, uint64_t number, size_t items_max, size_t bytes_max) {
    Lane& lane = lanes_[number_of_lane];
    std::vector<Entry> entries;
    size_t bytes = 0;
    int64_t body = -1;                          // of the last delivery: those of a document come one after the other
    while (!lane.line.empty() && entries.size() < items_max && bytes < bytes_max) {
        Entry entry = lane.line.front();
        lane.line.pop_front();
        if (!is_next(entry)) {
            --lane.stale;
            continue;
        }
        --slots_[entry.slot].ready;
        if (entry.body != body) bytes += entry.bytes;
        body = entry.body;
        entries.push_back(entry);
    }
    if (entries.empty()) return {};
    Message message = write_message(entries);
    lane.messages.emplace(number, std::move(entries));
    return message;
}

Lanes::Message Lanes::take_again(uint32_t lane, uint64_t number) const {
    auto known = lanes_[lane].messages.find(number);
    if (known == lanes_[lane].messages.end()) return {};
    const std::vector<Entry>& entries = known->second;
    bool is_as_it_was = std::all_of(entries.begin(), entries.end(), [this](const Entry& entry) { return is_sent(entry); });
    return is_as_it_was ? write_message(entries) : Message();
}

Lanes::Message Lanes::write_message(std::span<const Entry> entries) const {
    Message message;
    NumberMap<int64_t, size_t> places;
    // Those of a document come one after the other, and mostly have one payload.
    int64_t body = -1, number = -1;
    size_t place = 0;
    const WaitedFor* document = nullptr;
    message.count = entries.size();
    message.acknowledge_ms = std::numeric_limits<int64_t>::max();
    message_pack::append_array(entries.size(), message.items);
    for (const Entry& entry : entries) {
        message.acknowledge_ms = std::min(message.acknowledge_ms, slots_[entry.slot].acknowledge_ms);
        if (entry.body != body) {
            body = entry.body;
            auto [known, is_first] = places.emplace(body, message.bodies.size());
            if (is_first) message.bodies.push_back(body);
            place = known->second;
        }
        if (entry.document != number) {
            number = entry.document;
            document = &documents_.find(number)->second;
        }
        write_item(entry, *document, place, message.items);
    }
    return message;
}

// [subscription, document, published_ms, attempt, payload, origin, origin_number]: `Item` of overlay/messages.py.
void Lanes::write_item(const Entry& entry, const WaitedFor& document, size_t place, std::string& out) const {
    message_pack::append_array(7, out);
    message_pack::append_text(slots_[entry.slot].id, out);
    message_pack::append_number(static_cast<uint64_t>(entry.document), out);
    message_pack::append_number(static_cast<uint64_t>(document.published_ms), out);
    message_pack::append_number(1, out);        // the first attempt: there is no second one on a lane
    message_pack::append_number(place, out);
    message_pack::append_text(origins_[document.origin], out);
    message_pack::append_number(static_cast<uint64_t>(document.origin_number), out);
}

Lanes::Acknowledged Lanes::acknowledge(uint32_t number_of_lane, std::span<const uint64_t> numbers) {
    Lane& lane = lanes_[number_of_lane];
    Acknowledged made;
    for (uint64_t number : numbers) {
        auto known = lane.messages.find(number);
        if (known == lane.messages.end()) continue;
        int64_t document = 0;                   // of the entry before, and how many deliveries of it are done
        uint32_t deliveries = 0;
        const std::vector<Entry>& entries = known->second;
        for (size_t at = 0; at < entries.size(); ++at) {
            if (at + subscribers_ahead < entries.size()) prefetch(entries[at + subscribers_ahead].slot);
            if (at + waiting_ahead < entries.size()) prefetch_waiting(entries[at + waiting_ahead].slot);
            const Entry& entry = entries[at];
            if (entry.document != document) {
                if (deliveries) finish(document, deliveries);
                document = entry.document;
                deliveries = 0;
            }
            Subscriber& subscriber = slots_[entry.slot];
            if (subscriber.serial != entry.serial) {
                made.strays.emplace_back(entry.serial, entry.document);
            } else if (settle(subscriber, entry.document)) {
                ++deliveries;
                if (!subscriber.is_changed) made.slots.push_back(entry.slot);
                subscriber.is_changed = true;
            }
        }
        if (deliveries) finish(document, deliveries);
        made.count += known->second.size();
        lane.messages.erase(known);
    }
    for (uint32_t slot : made.slots) slots_[slot].is_changed = false;
    return made;
}

// A delivery is done, which the caller tells `finish`. False if it was: its subscription may have left and come back since it was sent.
bool Lanes::settle(Subscriber& subscriber, int64_t document) {
    auto& waiting = subscriber.waiting;
    auto sent_end = waiting.end() - static_cast<std::ptrdiff_t>(subscriber.ready);
    auto at = std::lower_bound(waiting.begin(), sent_end, document);
    if (at == sent_end || *at != document) return false;
    const bool is_first = at == waiting.begin();
    waiting.erase(at);
    --total_;
    auto& done = subscriber.done;
    if (!is_first) {
        done.insert(std::lower_bound(done.begin(), done.end(), document), document);
    } else if (!done.empty()) {
        done.erase(done.begin(), waiting.empty() ? done.end() : std::lower_bound(done.begin(), done.end(), waiting.front()));
    }
    return true;
}

void Lanes::finish(int64_t document, uint32_t deliveries) {
    auto known = documents_.find(document);
    if (!(known->second.count -= deliveries)) documents_.erase(known);
}

std::vector<Lanes::Stray> Lanes::open_message(uint32_t lane, uint64_t number) {
    std::vector<Stray> deliveries;
    auto& messages = lanes_[lane].messages;
    auto known = messages.find(number);
    if (known == messages.end()) return deliveries;
    for (const Entry& entry : known->second) deliveries.emplace_back(entry.serial, entry.document);
    messages.erase(known);
    return deliveries;
}

int64_t Lanes::first_unfinished() {
    while (!document_order_.empty() && !documents_.contains(document_order_.front())) document_order_.pop_front();
    return document_order_.empty() ? 0 : document_order_.front();
}

size_t Lanes::longest() const {
    size_t most = 0;
    for (const Subscriber& subscriber : slots_) most = std::max(most, subscriber.waiting.size());
    return most;
}

uint32_t Lanes::origin_of(std::string_view origin) {
    auto known = origin_numbers_.find(origin);
    if (known != origin_numbers_.end()) return known->second;
    origins_.emplace_back(origin);
    return origin_numbers_.emplace(origin, static_cast<uint32_t>(origins_.size() - 1)).first->second;
}

}  // namespace treecast
