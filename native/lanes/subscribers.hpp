// Subscriptions that are on a lane, each with the deliveries that it waits for.
//
// Theory of operation. With many subscriptions nobody has looked at one since its last delivery: each line of the cache that is needed
// of it is a miss. So what a delivery that goes well needs is one line, `Subscriber`. It has room for an id that is short and for two
// documents. Of all others a `Rest` has the id, or all documents that wait; and how far things were done out of order, if any were.
// PERF: bench/network_frame.py, with 100,000 subscriptions in place of 2,000.
//
// A *slot* is the number of a subscription here, for as long as it is here.
#pragma once

#include "base/large_pages.hpp"
#include "base/recycled_ids.hpp"
#include "base/seeded_hash.hpp"

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace treecast {

class Subscribers {
public:
    static constexpr uint32_t nobody = ~0u;

    struct Joining {
        std::string_view id;
        uint32_t lane;
        uint64_t serial;                        // more than 0
        int64_t newest, acknowledge_ms;
    };
    // Who waits for nothing. Returns its slot; `nobody` if a subscription with this id is here.
    uint32_t join(const Joining& joining);

    struct Leaving {
        std::vector<int64_t> waiting;           // ascending
        size_t ready = 0;                       // the last so many were not sent
        int64_t upto = 0;                       // the last that is done, if it is after the first that waits
        int64_t newest = 0;
    };
    Leaving leave(uint32_t slot);

    static constexpr size_t few_max = 2, short_id_max = 13;
    struct alignas(64) Subscriber {
        uint64_t serial = 0;                    // 0: there is none
        int64_t newest = 0;                     // the last document that it had
        uint32_t lane = 0;
        uint32_t acknowledge_ms = 0;            // or as much as there is room for
        uint32_t waiting = 0;                   // deliveries that are not done
        uint32_t ready = 0;                     // the last so many of them were not sent
        int64_t few[few_max] = {};              // their documents, if there are so few
        bool has_done = false;                  // some that are after the first that waits
        bool is_changed = false;                // in the call that runs
        uint8_t id_size = 0;                    // more than `short_id_max`: the id is elsewhere
        char short_id[short_id_max] = {};
    };
    static_assert(sizeof(Subscriber) == 64);
    Subscriber& operator[](uint32_t slot) { return slots_[slot]; }
    const Subscriber& operator[](uint32_t slot) const { return slots_[slot]; }

    std::string_view id(uint32_t slot) const {
        const Subscriber& subscriber = slots_[slot];
        return subscriber.id_size <= short_id_max ? std::string_view(subscriber.short_id, subscriber.id_size) : rests_[slot].id;
    }
    // The number that an index has for a subscription. No two of those with one `serial` are the same; 0: there is no number.
    // PERF: bench/network_cpu.py. Who was found by it before is there still, or its place is somebody else's: no look at ids is needed.
    struct Number {
        uint64_t serial = 0;
        uint32_t slot = 0;
    };
    // The slot of a subscription, or `nobody`.
    uint32_t find(std::string_view id, Number number);
    // Where one with this slot of an index was found last.
    uint32_t hinted(int32_t slot) const {
        const auto place = static_cast<size_t>(slot);
        return place < hints_.size() ? hints_[place].slot : nobody;
    }

    // Documents of deliveries that are not done, ascending.
    std::span<const int64_t> waiting(uint32_t slot) const {
        const Subscriber& subscriber = slots_[slot];
        return subscriber.waiting <= few_max ? std::span(subscriber.few, subscriber.waiting) : std::span(rests_[slot].waiting);
    }
    std::span<const int64_t> sent(uint32_t slot) const { return waiting(slot).first(slots_[slot].waiting - slots_[slot].ready); }
    // The next delivery that is to be sent.
    bool is_next(uint32_t slot, int64_t document) const {
        const Subscriber& subscriber = slots_[slot];
        return subscriber.ready && waiting(slot)[subscriber.waiting - subscriber.ready] == document;
    }
    // Up to this document, which is after the first that waits, everything is done but what waits; 0: nothing after the first is done.
    int64_t upto(uint32_t slot) const { return slots_[slot].has_done ? rests_[slot].upto : 0; }
    // One more delivery, of a document after all that it had.
    void add(uint32_t slot, int64_t document);
    // One that was sent is done. False if it was before, or is not waited for.
    bool settle(uint32_t slot, int64_t document);
    size_t longest() const;

    // Looking ahead: what is asked for before it is needed, in this order. `prefetch_rest` reads what `prefetch` has asked for.
    void prefetch_hint(int32_t slot) const { if (static_cast<size_t>(slot) < hints_.size()) __builtin_prefetch(&hints_[static_cast<size_t>(slot)]); }
    void prefetch(uint32_t slot) const { if (slot < slots_.size()) __builtin_prefetch(&slots_[slot], 1); }
    void prefetch_rest(uint32_t slot) const {
        if (slot < slots_.size() && has_rest(slots_[slot])) __builtin_prefetch(&rests_[slot], 1);
    }
    void prefetch_lists(uint32_t slot) const {
        if (slot >= slots_.size() || !has_rest(slots_[slot])) return;
        __builtin_prefetch(rests_[slot].id.data());
        __builtin_prefetch(rests_[slot].waiting.data(), 1);
    }

private:
    struct Rest {
        std::string_view id;                    // that of `slot_of_`
        std::vector<int64_t> waiting;           // all of them, if there are more than a few
        int64_t upto = 0;                       // if something after the first that waits is done, the last of these
    };

    static bool has_rest(const Subscriber& subscriber) {
        return subscriber.waiting >= few_max || subscriber.id_size > short_id_max || subscriber.has_done;
    }
    void erase_waiting(uint32_t slot, size_t place);

    std::vector<Subscriber, LargePages<Subscriber>> slots_;
    std::vector<Rest, LargePages<Rest>> rests_; // by slot
    RecycledIds slot_numbers_;
    TextMap<uint32_t> slot_of_;
    struct Hint {                               // who was found by a Number, and where
        uint64_t number_serial = 0, serial = 0;
        uint32_t slot = nobody;
    };
    std::vector<Hint, LargePages<Hint>> hints_; // by the slot of an index
};

}  // namespace treecast
