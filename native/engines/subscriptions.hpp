// The subscriptions of an index by slot, as a Store writes them and as engines and readers see them.
//
// A subscription is a *slot*. Slots are numbered in the order of addition and never reused. What is here is the same whichever
// engine matches: ids, query texts, settings, the order of addition, and when each was removed. What an engine makes of the
// texts is its own (engine.hpp).
//
// Readers work on a View: buffers that only grow. A View sees the slots below its `slots`, except those that died before its
// `version`. So a match in progress sees one consistent set, without a lock, while a writer continues. Memory that a View needs
// stays alive with it.
#pragma once

#include "base/array.hpp"
#include "query/settings.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>

namespace treecast {

class EngineState;

// The writer's data about all subscriptions.
struct Subscriptions {
    std::shared_ptr<SettingsTable> settings = std::make_shared<SettingsTable>();
    Array<int32_t> id_ends;                                 // Arrow offsets: slots + 1 of them
    Array<char> id_bytes, text_bytes;
    Array<uint64_t> text_ends;
    Array<uint32_t> deaths;                                 // the first version without it; 0: it lives
    Array<uint32_t> order;                                  // empty unless something was replaced
    Array<uint32_t> slot_settings;
    uint32_t live = 0, version = 0;

    uint32_t slots() const { return static_cast<uint32_t>(deaths.size()); }
    std::string_view id(uint32_t slot) const { return {id_bytes.data() + id_ends[slot], size_t(id_ends[slot + 1] - id_ends[slot])}; }
    std::string_view text(uint32_t slot) const {
        return {text_bytes.data() + text_ends[slot], size_t(text_ends[slot + 1] - text_ends[slot])};
    }
    const Settings& settings_of(uint32_t slot) const { return (*settings)[slot_settings[slot]]; }
};

// The reader's data about them.
struct View {
    std::shared_ptr<uint32_t[]> deaths, order;                 // order: empty unless something was replaced
    std::shared_ptr<int32_t[]> id_ends;
    std::shared_ptr<char[]> id_bytes, text_bytes;
    std::shared_ptr<uint64_t[]> text_ends;
    std::shared_ptr<uint32_t[]> slot_settings;
    std::shared_ptr<const SettingsTable> settings;
    std::shared_ptr<const char> token;                         // counts the Views of one body
    std::shared_ptr<EngineState> engine_state;                 // null where the engine keeps none
    uint32_t slots = 0, version = 0, settings_size = 0;
    uint64_t serial = 0;                                       // of the body: with a slot it names a text, once and for all

    std::string_view id(uint32_t slot) const {
        return {id_bytes.get() + id_ends[slot], size_t(id_ends[slot + 1] - id_ends[slot])};
    }
    std::string_view text(uint32_t slot) const {
        return {text_bytes.get() + text_ends[slot], text_ends[slot + 1] - text_ends[slot]};
    }
    uint32_t order_of(uint32_t slot) const { return order ? order[slot] : slot; }
    bool is_alive(uint32_t slot) const {
        uint32_t death = std::atomic_ref<uint32_t>(deaths[slot]).load(std::memory_order_relaxed);
        return death == 0 || death > version;
    }
};

}  // namespace treecast
