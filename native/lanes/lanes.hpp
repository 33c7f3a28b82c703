// Deliveries that go well, from a match to a message to its acknowledgement, in arrays.
//
// Theory of operation. A *lane* belongs to a session of a client: deliveries wait on it in the order of their documents, and leave
// in messages. A subscription that one session receives from, and whose earlier deliveries are done, *joins* the lane of that
// session. From then on nothing of its deliveries exists outside these arrays: what matches goes onto the lane, `take` makes a
// message of what is first there, and `acknowledge` ends a whole message and says how far each of its subscriptions has come.
//
// Whatever else may happen to a delivery (a failed attempt, a lost message, a pause, a replay, an end of the session, an
// acknowledgement of a part) is rare, and not known here: the subscription *leaves* with what it waits for, or a message is opened,
// and the caller goes on with that one by one. A message may have deliveries of a subscription that has left since: these come
// back from `acknowledge` as strays.
//
// Within a subscription deliveries are sent in order, each once. So what it waits for is one ascending list: first what was sent,
// then `ready` numbers that were not.
#pragma once

#include "base/recycled_ids.hpp"
#include "base/seeded_hash.hpp"
#include "lanes/subscribers.hpp"
#include "lanes/unfinished_documents.hpp"

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace treecast {

// What some documents matched, as columns; those of DeliveryBatch, and what the caller knows of the documents.
struct MatchColumns {
    std::span<const int64_t> numbers;           // by document; 0: it was not accepted
    std::span<const int64_t> published_ms;      // by document
    std::span<const int64_t> origin_numbers;    // by document
    std::string_view origin;
    std::span<const int32_t> ends;              // deliveries up to each document
    std::span<const int64_t> payloads;          // by delivery: the number of its payload; less than 0: there is none
    std::span<const int64_t> payload_ends;
    std::span<const int64_t> bodies;            // by payload: its number in the log
    std::span<const int32_t> id_ends;           // by delivery
    std::string_view ids;
    std::span<const int32_t> slots;             // by delivery: that of its subscription in the index; or nothing
    uint64_t slots_serial = 0;                  // see Subscribers::Number

    size_t documents() const { return numbers.size(); }
    std::string_view id(size_t delivery) const {
        auto begin = static_cast<size_t>(id_ends[delivery]);
        return ids.substr(begin, static_cast<size_t>(id_ends[delivery + 1]) - begin);
    }
};

// Who gets a document, and which bodies of the log: two fields of its row, in MessagePack.
void write_matches(const MatchColumns& columns, size_t document, std::string& subscriptions, std::string& bodies);

class Lanes {
public:
    // `waiting_max`: deliveries of one subscription.
    explicit Lanes(size_t waiting_max) : waiting_max_(waiting_max) {}

    uint32_t open_lane();
    // Everybody has left it, and its messages have been opened.
    void close_lane(uint32_t lane);

    // --- subscriptions ---

    // A subscription that waits for nothing. `serial` is the caller's name for it, which no other ever has; `newest` the last document
    // that it had. Returns its slot.
    uint32_t join(std::string_view id, uint32_t lane, uint64_t serial, int64_t newest, int64_t acknowledge_ms);

    using Leaving = Subscribers::Leaving;
    Leaving leave(uint32_t slot);

    size_t waiting(uint32_t slot) const { return subscribers_[slot].waiting; }
    size_t ready(uint32_t slot) const { return subscribers_[slot].ready; }
    // All deliveries up to this document are done,
    int64_t floor(uint32_t slot) const;
    // and after it all up to this one,
    int64_t upto(uint32_t slot) const { return subscribers_.upto(slot); }
    // but these.
    std::span<const int64_t> open(uint32_t slot) const;
    // All of it, as a row to store: [floor, [], upto, [open, ...]] in MessagePack, or [floor, []] if nothing was done out of order.
    std::string cursor(uint32_t slot) const;

    // --- deliveries ---

    struct Enqueued {
        std::vector<uint32_t> others;           // deliveries that are not on a lane: their subscription is on none, or has no room
        std::vector<uint32_t> lanes;            // that have something new
    };
    Enqueued enqueue(const MatchColumns& columns);

    struct Message {
        std::string items;                      // MessagePack
        std::vector<int64_t> bodies;            // of its payloads, each once
        size_t count = 0;                       // of deliveries; 0: there are none
        int64_t acknowledge_ms = 0;             // the least of its subscriptions
    };
    // The next message of a lane, which gets this number.
    Message take(uint32_t lane, uint64_t number, size_t items_max, size_t bytes_max);
    // The same message once more; without deliveries if one of them is done, or its subscription has left: then open it.
    Message take_again(uint32_t lane, uint64_t number) const;
    size_t on_lane(uint32_t lane) const { return lanes_[lane].line.size() - lanes_[lane].stale; }

    using Stray = std::pair<uint64_t, int64_t>;     // the serial of a subscription, and a document
    struct Acknowledged {
        size_t count = 0;                       // of deliveries
        std::vector<uint32_t> slots;            // of subscriptions that have come further
        std::vector<Stray> strays;              // of subscriptions that have left
    };
    // Messages that are dealt with; numbers of others are passed over.
    Acknowledged acknowledge(uint32_t lane, std::span<const uint64_t> numbers);
    // The deliveries of a message, which is forgotten.
    std::vector<Stray> open_message(uint32_t lane, uint64_t number);

    // --- of all of them ---

    int64_t first_unfinished() const { return documents_.first(); }     // the first document that somebody waits for; 0: there is none
    size_t unfinished() const { return documents_.size(); }
    size_t total() const { return total_; }
    size_t longest() const { return subscribers_.longest(); }

private:
    struct Entry {
        uint32_t slot;
        uint32_t bytes;                         // of its payload
        uint64_t serial;
        int64_t document, body;
    };
    struct Lane {
        std::deque<Entry> line;
        size_t stale = 0;                       // entries of the line whose subscriptions have left since
        NumberMap<uint64_t, std::vector<Entry>> messages;
        bool is_new = false;                    // in the call that runs
    };
    bool is_next(const Entry& entry) const;
    bool is_sent(const Entry& entry) const;
    Message write_message(std::span<const Entry> entries) const;
    uint32_t origin_of(std::string_view origin);
    void write_item(const Entry& entry, const UnfinishedDocuments::Document& document, size_t place, std::string& out) const;

    const size_t waiting_max_;
    size_t total_ = 0;
    std::vector<Lane> lanes_;
    RecycledIds lane_numbers_;
    Subscribers subscribers_;
    UnfinishedDocuments documents_;
    std::vector<std::string> origins_;          // as many as there are stores of root brokers
    TextMap<uint32_t> origin_numbers_;
};

}  // namespace treecast
