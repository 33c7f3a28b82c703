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
#include "query/query_texts.hpp"
#include "query/settings.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace treecast {

class EngineState;

// The writer's data about all subscriptions.
struct Subscriptions {
    std::shared_ptr<SettingsTable> settings = std::make_shared<SettingsTable>();
    Array<int32_t> id_ends;                                 // Arrow offsets: slots + 1 of them
    Array<char> id_bytes;
    QueryTexts texts;                                       // with the numbers of settings
    Array<uint32_t> deaths;                                 // the first version without it; 0: it lives
    Array<uint32_t> order;                                  // empty unless something was replaced
    uint32_t live = 0, version = 0;

    uint32_t slots() const { return static_cast<uint32_t>(deaths.size()); }
    std::string_view id(uint32_t slot) const { return {id_bytes.data() + id_ends[slot], size_t(id_ends[slot + 1] - id_ends[slot])}; }
    std::string_view text(uint32_t slot, std::string& room) const { return texts.text(slot, room); }
    const Settings& settings_of(uint32_t slot) const { return (*settings)[texts.settings(slot)]; }
};

// The reader's data about them.
struct View {
    std::shared_ptr<uint32_t[]> deaths, order;                 // order: empty unless something was replaced
    std::shared_ptr<int32_t[]> id_ends;
    std::shared_ptr<char[]> id_bytes;
    SharedTexts texts;
    std::shared_ptr<const SettingsTable> settings;
    std::shared_ptr<const char> token;                         // counts the Views of one body
    std::shared_ptr<EngineState> engine_state;                 // null where the engine keeps none
    uint32_t slots = 0, version = 0, settings_size = 0;
    uint64_t serial = 0;                                       // of the body: with a slot it names a text, once and for all

    std::string_view id(uint32_t slot) const {
        return {id_bytes.get() + id_ends[slot], size_t(id_ends[slot + 1] - id_ends[slot])};
    }
    std::string_view text(uint32_t slot, std::string& room) const { return texts.text(slot, room); }       // see SharedTexts
    const Settings& settings_of(uint32_t slot) const { return (*settings)[texts.settings(slot)]; }
    uint32_t order_of(uint32_t slot) const { return order ? order[slot] : slot; }
    bool is_alive(uint32_t slot) const {
        uint32_t death = std::atomic_ref<uint32_t>(deaths[slot]).load(std::memory_order_relaxed);
        return death == 0 || death > version;
    }
};

// A query that somebody holds: its text and settings are looked up once they are asked for.
class HeldQuery {
public:
    HeldQuery(std::string_view text, const Settings& settings) : text_(text), settings_(&settings) {}
    HeldQuery(const View& view, uint32_t slot, std::string& room) : view_(&view), slot_(slot), room_(&room) {}
    std::string_view text() const { return view_ ? view_->text(slot_, *room_) : text_; }
    const Settings& settings() const { return view_ ? view_->settings_of(slot_) : *settings_; }

private:
    std::string_view text_;
    const Settings* settings_ = nullptr;
    const View* view_ = nullptr;
    uint32_t slot_ = 0;
    std::string* room_ = nullptr;
};

}  // namespace treecast
