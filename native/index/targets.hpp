// Which of a few targets a subscription stands for: what routing asks of an index instead of ids.
//
// Subscriptions that are routed by have numbers as ids. A target is a bit. Slots are what machines answer with, so the bits are
// kept by slot: new slots are entered when they are first seen, and all of them anew once slots were renumbered.
#pragma once

#include "base/fork.hpp"
#include "engines/subscriptions.hpp"

#include <cstdint>
#include <map>
#include <vector>

namespace treecast {

class Targets {
public:
    // The targets of the subscription with this number; 0 forgets it. What is unknown stands for no target.
    void set(uint64_t number, uint64_t targets);
    // By slot, as many as the View has. Valid until the next call; whoever uses it holds mutex().
    const std::vector<uint64_t>& of(const View& view);
    LastingMutex& mutex() { return mutex_; }

private:
    static constexpr uint32_t unseen = ~0u;
    struct Entry {
        uint64_t targets = 0;
        uint32_t slot = unseen;
    };
    LastingMutex mutex_;
    std::map<uint64_t, Entry> entries_;                 // by number
    std::vector<uint64_t> of_slot_;
    uint64_t serial_ = 0;                               // of the body that the slots belong to
};

}  // namespace treecast
