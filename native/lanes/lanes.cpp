#include "lanes/lanes.hpp"

#include "lanes/message_pack.hpp"

#include <algorithm>
#include <cassert>
#include <limits>
#include <stdexcept>

namespace treecast {

namespace {

// How many deliveries ahead something is asked for: see Subscribers::prefetch.
constexpr size_t hints_ahead = 36, subscribers_ahead = 26, rests_ahead = 18, lists_ahead = 10;
constexpr size_t stale_few = 64;                // not worth looking for

// Bodies of a message, each once, and their places. They mostly ascend, and then nothing has to be looked for.
class BodyPlaces {
public:
    explicit BodyPlaces(std::vector<int64_t>& bodies) : bodies_(bodies) {}
    size_t of(int64_t body) {
        if (body == last_) return place_;
        last_ = body;
        if (body > highest_) {
            highest_ = body;
            place_ = bodies_.size();
            bodies_.push_back(body);
            return place_;
        }
        for (; known_ < bodies_.size(); ++known_) places_.emplace(bodies_[known_], known_);
        auto [known, is_first] = places_.emplace(body, bodies_.size());
        if (is_first) bodies_.push_back(body);
        return place_ = known->second;
    }

private:
    std::vector<int64_t>& bodies_;
    int64_t last_ = -1, highest_ = -1;
    size_t place_ = 0;                          // of the last one
    NumberMap<int64_t, size_t> places_;         // of the first `known_`, and later ones that did not ascend
    size_t known_ = 0;
};

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
    const uint32_t slot = serial ? subscribers_.join({id, lane, serial, newest, acknowledge_ms}) : Subscribers::nobody;
    if (slot == Subscribers::nobody) throw std::logic_error("a subscription joins a lane twice");
    return slot;
}

Lanes::Leaving Lanes::leave(uint32_t slot) {
    Lane& lane = lanes_[subscribers_[slot].lane];
    Leaving left = subscribers_.leave(slot);
    for (int64_t document : left.waiting) documents_.finish(document, 1);
    total_ -= left.waiting.size();
    lane.stale += left.ready;
    if (lane.stale > stale_few && lane.stale * 2 > lane.line.size()) {
        // Of what is not stale each is the next of its subscription, or behind it.
        std::erase_if(lane.line, [&](const Entry& entry) {
            const Subscribers::Subscriber& owner = subscribers_[entry.slot];
            const std::span<const int64_t> ready = subscribers_.waiting(entry.slot).last(owner.ready);
            return owner.serial != entry.serial || !std::binary_search(ready.begin(), ready.end(), entry.document);
        });
        lane.stale = 0;
    }
    return left;
}

int64_t Lanes::floor(uint32_t slot) const {
    const std::span<const int64_t> waiting = subscribers_.waiting(slot);
    return waiting.empty() ? subscribers_[slot].newest : waiting.front() - 1;
}

std::string Lanes::cursor(uint32_t slot) const {
    std::string row;
    const int64_t last = upto(slot);
    message_pack::append_array(last ? 4 : 2, row);
    message_pack::append_number(static_cast<uint64_t>(floor(slot)), row);
    message_pack::append_array(0, row);
    if (!last) return row;
    message_pack::append_number(static_cast<uint64_t>(last), row);
    const std::span<const int64_t> left = open(slot);
    message_pack::append_array(left.size(), row);
    for (int64_t document : left) message_pack::append_number(static_cast<uint64_t>(document), row);
    return row;
}

std::span<const int64_t> Lanes::open(uint32_t slot) const {
    const std::span<const int64_t> waiting = subscribers_.waiting(slot);
    const auto end = std::lower_bound(waiting.begin(), waiting.end(), upto(slot));
    return waiting.first(static_cast<size_t>(end - waiting.begin()));
}

Lanes::Enqueued Lanes::enqueue(const MatchColumns& columns) {
    Enqueued made;
    const size_t deliveries = columns.slots.size();
    uint32_t origin = origin_of(columns.origin);
    for (size_t at = 0; at < columns.documents(); ++at) {
        const int64_t number = columns.numbers[at];
        if (!number) continue;
        uint32_t count = 0;
        for (auto delivery = static_cast<size_t>(columns.ends[at]); delivery < static_cast<size_t>(columns.ends[at + 1]); ++delivery) {
            if (delivery + hints_ahead < deliveries) {
                subscribers_.prefetch_hint(columns.slots[delivery + hints_ahead]);
                subscribers_.prefetch(subscribers_.hinted(columns.slots[delivery + subscribers_ahead]));
                subscribers_.prefetch_rest(subscribers_.hinted(columns.slots[delivery + rests_ahead]));
                subscribers_.prefetch_lists(subscribers_.hinted(columns.slots[delivery + lists_ahead]));
            }
            const int64_t payload = columns.payloads[delivery];
            if (payload < 0) continue;          // refused
            const Subscribers::Number in_index{columns.slots_serial, deliveries ? static_cast<uint32_t>(columns.slots[delivery]) : 0};
            const uint32_t slot = subscribers_.find(columns.id(delivery), in_index);
            if (slot == Subscribers::nobody || waiting(slot) >= waiting_max_) {
                made.others.push_back(static_cast<uint32_t>(delivery));
                continue;
            }
            subscribers_.add(slot, number);
            const Subscribers::Subscriber& subscriber = subscribers_[slot];
            const auto place = static_cast<size_t>(payload);
            const int64_t bytes = columns.payload_ends[place + 1] - columns.payload_ends[place];
            ++count;
            Lane& lane = lanes_[subscriber.lane];
            lane.line.push_back({slot, static_cast<uint32_t>(std::min<int64_t>(bytes, std::numeric_limits<uint32_t>::max())),
                                 subscriber.serial, number, columns.bodies[place]});
            if (!lane.is_new) made.lanes.push_back(subscriber.lane);
            lane.is_new = true;
        }
        if (!count) continue;
        total_ += count;
        documents_.add({number, count, origin, columns.published_ms[at], columns.origin_numbers[at]});
    }
    for (uint32_t lane : made.lanes) lanes_[lane].is_new = false;
    return made;
}

// Whether a delivery is still to be sent: its subscription may have left since, and come back.
bool Lanes::is_next(const Entry& entry) const {
    return subscribers_[entry.slot].serial == entry.serial && subscribers_.is_next(entry.slot, entry.document);
}

bool Lanes::is_sent(const Entry& entry) const {
    if (subscribers_[entry.slot].serial != entry.serial) return false;
    const std::span<const int64_t> sent = subscribers_.sent(entry.slot);
    return std::binary_search(sent.begin(), sent.end(), entry.document);
}

Lanes::Message Lanes::take(uint32_t number_of_lane, uint64_t number, size_t items_max, size_t bytes_max) {
    Lane& lane = lanes_[number_of_lane];
    std::vector<Entry> entries;
    entries.reserve(std::min(items_max, lane.line.size()));
    size_t bytes = 0;
    int64_t body = -1;                          // of the last delivery: those of a document come one after the other
    while (!lane.line.empty() && entries.size() < items_max && bytes < bytes_max) {
        Entry entry = lane.line.front();
        lane.line.pop_front();
        if (!is_next(entry)) {
            --lane.stale;
            continue;
        }
        --subscribers_[entry.slot].ready;
        if (entry.body != body) bytes += entry.bytes;
        body = entry.body;
        entries.push_back(entry);
    }
    if (entries.empty()) return {};
    if (entries.size() * 2 < entries.capacity()) entries.shrink_to_fit();      // it may be a while until it is acknowledged
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
    BodyPlaces places(message.bodies);
    const UnfinishedDocuments::Document* document = nullptr;    // those of one come one after the other
    message.count = entries.size();
    message.acknowledge_ms = std::numeric_limits<int64_t>::max();
    message_pack::append_array(entries.size(), message.items);
    for (const Entry& entry : entries) {
        message.acknowledge_ms = std::min<int64_t>(message.acknowledge_ms, subscribers_[entry.slot].acknowledge_ms);
        if (!document || document->number != entry.document) document = &documents_[entry.document];
        write_item(entry, *document, places.of(entry.body), message.items);
    }
    return message;
}

// [subscription, document, published_ms, attempt, payload, origin, origin_number]: `Item` of overlay/messages.py.
void Lanes::write_item(const Entry& entry, const UnfinishedDocuments::Document& document, size_t place, std::string& out) const {
    message_pack::append_array(7, out);
    message_pack::append_text(subscribers_.id(entry.slot), out);
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
            if (at + subscribers_ahead < entries.size()) {
                subscribers_.prefetch(entries[at + subscribers_ahead].slot);
                subscribers_.prefetch_rest(entries[at + rests_ahead].slot);
                subscribers_.prefetch_lists(entries[at + lists_ahead].slot);
            }
            const Entry& entry = entries[at];
            if (entry.document != document) {
                if (deliveries) documents_.finish(document, deliveries);
                document = entry.document;
                deliveries = 0;
            }
            Subscribers::Subscriber& subscriber = subscribers_[entry.slot];
            if (subscriber.serial != entry.serial) {
                made.strays.emplace_back(entry.serial, entry.document);
            } else if (subscribers_.settle(entry.slot, entry.document)) {
                ++deliveries;
                --total_;
                if (!subscriber.is_changed) made.slots.push_back(entry.slot);
                subscriber.is_changed = true;
            }
        }
        if (deliveries) documents_.finish(document, deliveries);
        made.count += known->second.size();
        lane.messages.erase(known);
    }
    for (uint32_t slot : made.slots) subscribers_[slot].is_changed = false;
    return made;
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

uint32_t Lanes::origin_of(std::string_view origin) {
    auto known = origin_numbers_.find(origin);
    if (known != origin_numbers_.end()) return known->second;
    origins_.emplace_back(origin);
    return origin_numbers_.emplace(origin, static_cast<uint32_t>(origins_.size() - 1)).first->second;
}

}  // namespace treecast
