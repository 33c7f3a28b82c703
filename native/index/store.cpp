// Adds, replaces and removes subscriptions: ids, slots, views. store.hpp explains how a change is all or nothing.
#include "index/store.hpp"

#include "base/id_slots.hpp"
#include "base/interrupt.hpp"
#include "base/seeded_hash.hpp"
#include "query/transformation.hpp"

#include <algorithm>
#include <new>

namespace treecast {

namespace {

constexpr size_t id_bytes_max = 1024;
constexpr size_t many_items = 1000;          // as many take longer than asking for signals
constexpr uint32_t tomb = none - 1;
constexpr uint32_t slots_limit = 0x7FFFFFF0u;

uint64_t next_serial() {
    static std::atomic<uint64_t> last{0};
    return ++last;
}

Failure id_failure(const char* code, std::string message, std::string hint) {
    Failure failure(Family::query, code, std::move(message));
    failure.hint = std::move(hint);
    return failure;
}

std::string shown(std::string_view id) {
    size_t size = std::min<size_t>(id.size(), 80);
    while (size < id.size() && (static_cast<unsigned char>(id[size]) & 0xC0) == 0x80) --size;      // not inside a character
    std::string text = "'";
    text += id.substr(0, size);
    return text += size < id.size() ? "…'" : "'";
}

}  // namespace

Store::Body::Body(const HashSeeds& seeds_) : serial(next_serial()), seeds(seeds_) {
    id_ends.push(0);
}

Store::Mark::Mark(const Body& body)
    : settings(body.settings->size()), slots(body.slots()), id_bytes(body.id_bytes.size()), texts(body.texts.mark()) {}

// The View is made first: when everything else is done, nothing may fail any more.
Store::Change::Change(Store& store) : mark(*store.body_), store_(store), body_(*store.body_), view_(store.new_view()) {
    store_.engine_->begin(body_);
}

Store::Change::~Change() {
    if (is_committed_) return;
    store_.undo(body_, mark);
    store_.engine_->rollback(body_);
}

void Store::Change::commit(const Body& rows, bool alone) noexcept {
    store_.engine_->commit(rows, alone);
    is_committed_ = true;
}

Store::Store(std::string_view engine, const HashSeeds& seeds)
    : seeds_(seeds), engine_(make_engine(engine, seeds)), body_(std::make_unique<Body>(seeds_)) {
    publish(new_view());
}

// After a fork in the middle of a change nothing of it can be trusted, not even to be destroyed.
Store::~Store() {
    if (!write_mutex_.orphaned()) return;
    [[maybe_unused]] auto* lost = body_.release();
    [[maybe_unused]] auto* half_changed = engine_.release();
    [[maybe_unused]] auto* half_read = query_.release();
    [[maybe_unused]] auto* half_filled = new (std::nothrow) std::shared_ptr<View>(std::move(spare_));
}

// Ids are columns of results, so their size is limited.
void Store::check_id(std::string_view id) {
    if (id.empty()) throw id_failure("TC142", "a subscription needs an id that is not empty", "give it any string of up to 1 KiB");
    if (id.size() > id_bytes_max) {
        Failure failure = id_failure("TC308", "the id " + shown(id) + " has " + std::to_string(id.size()) + " bytes, more than 1024",
                                     "use a shorter id and keep the long one beside it");
        failure.limit = true;
        throw failure;
    }
}

// Gives the queries to the engine, as the next slots. Refusals are collected, so that the caller sees all of them at once.
void Store::parse(std::span<const Item> items, std::vector<Refusal>& refused) {
    uint32_t first_slot = body_->slots();
    for (size_t i = 0; i < items.size(); ++i) {
        Interrupt::check(2000);
        try {
            check_id(items[i].id);
            const Settings& settings = *items[i].settings;
            parse_matching(items[i].text, settings.bindings, settings.ordered, *query_);
            if (settings.deliver && !is_transformation(items[i].text)) check_delivered(*query_);
            engine_->add(static_cast<uint32_t>(first_slot + i), *query_, settings.ordered);
        } catch (const Failure& failure) {
            refused.push_back({i, failure});
        }
    }
}

// Removed ids leave a tomb, which keeps probe sequences intact.
uint32_t* Store::Body::find(std::string_view wanted, const HashSeeds& own) {
    auto look = [&](Array<uint32_t>& table, const HashSeeds& with) -> uint32_t* {
        if (table.empty()) return nullptr;
        uint32_t* place = &table[probe(table, hash_bytes(wanted, 0, with), [&](uint32_t slot) { return slot != tomb && id(slot) == wanted; })];
        return *place == none ? nullptr : place;
    };
    uint32_t* place = look(added_table, own);
    return place ? place : look(id_table, seeds);
}

uint32_t Store::find_slot(const Body& body, std::string_view id) const {
    const uint32_t* place = body.find(id, seeds_);
    return place ? *place : none;
}

// Of a slot whose id is in no table. There is room: see reserve_ids().
void Store::enter_id(Body& body, uint32_t slot) noexcept {
    bool is_apart = has_saved_table(body);
    Array<uint32_t>& table = is_apart ? body.added_table : body.id_table;
    table[probe_vacancy(table, hash_bytes(body.id(slot), 0, seeds_))] = slot;
    body.added_used += is_apart;
    ++body.live;
}

// A table of the living ids, laid out as if all of them had just been added.
Array<uint32_t> Store::Body::lay_out_table(const HashSeeds& with) const {
    return lay_out(live, slots(), [&](uint32_t slot) { return hash_bytes(id(slot), 0, with); }, [&](uint32_t slot) { return deaths[slot] == 0; });
}

Store::SavedTables Store::saved_tables() const {
    std::lock_guard lock(write_mutex_);
    if (!has_saved_table(*body_)) return {false, 0};
    size_t added = 0;
    for (uint32_t slot : body_->id_table) added += slot < tomb && slot >= body_->loaded_slots;
    return {true, added};
}

// Makes room for `count` more ids, before the first is entered. So undo() finds each where it was put.
void Store::reserve_ids(Body& body, size_t count) {
    // What was added since loading has a table of its own while it is less than half of what was loaded.
    if (has_saved_table(body) && 2 * (body.added_used + count) > body.loaded_slots) {
        body.id_table = body.lay_out_table(seeds_);
        body.tombs = 0;
        body.added_table = {};
        body.added_used = 0;
        body.seeds = seeds_;
    }
    bool is_apart = has_saved_table(body);
    Array<uint32_t>& table = is_apart ? body.added_table : body.id_table;
    size_t used = is_apart ? body.added_used : size_t(body.live) + body.tombs;
    if (4 * (used + count) <= 3 * table.size()) return;
    size_t living = is_apart ? body.added_used : body.live, size = 64;
    while (2 * size < 3 * (living + count)) size *= 2;
    Array<uint32_t> old;
    old.assign(size, none);
    std::swap(old, table);
    (is_apart ? body.added_used : body.tombs) = 0;
    for (uint32_t slot : old) {
        if (slot >= tomb) continue;
        table[probe_vacancy(table, hash_bytes(body.id(slot), 0, seeds_))] = slot;
        body.added_used += is_apart;
    }
}

// Ends of ids have 32 bits, as Arrow requires.
void Store::check_room(const Body& body, std::span<const Item> items) {
    size_t bytes = body.id_bytes.size();
    for (const Item& item : items) bytes += item.id.size();
    if (body.deaths.size() + items.size() <= slots_limit && bytes <= 0x7FFFFFF0u) return;
    Failure failure(Family::query, "TC307", "this index is full: ids take more than 2 GiB");
    failure.limit = true;
    failure.hint = "split the subscriptions over several indexes";
    throw failure;
}

// All columns grow together; a slot is the same index in each.
uint32_t Store::add_slot(Body& body, const Item& item, uint32_t settings) {
    uint32_t slot = body.slots();
    body.id_bytes.append(item.id.data(), item.id.size());
    body.id_ends.push(static_cast<int32_t>(body.id_bytes.size()));
    body.texts.add(item.text, settings);
    if (body.order.size()) body.order.push(slot);
    body.deaths.push(0);
    return slot;
}

// Adds the rows of the items, which no reader sees before publish(). May fail: see undo().
// `with_ids`: under their ids, which are free. Otherwise the caller enters them.
void Store::add_rows(Body& body, std::span<const Item> items, bool with_ids) {
    reserve_ids(body, items.size());
    const Settings* settings = nullptr;
    uint32_t number = 0;
    InterruptTicks ticks(300);
    for (const Item& item : items) {
        ticks.tick();
        if (item.settings != settings) number = body.settings->intern(*(settings = item.settings));
        uint32_t slot = add_slot(body, item, number);
        if (with_ids) enter_id(body, slot);
    }
}

// Takes back what add_rows() has added.
void Store::undo(Body& body, const Mark& mark) noexcept {
    for (uint32_t slot = body.slots(); slot-- > mark.slots;) {
        uint32_t* place = body.find(body.id(slot), seeds_);
        if (!place || *place != slot) continue;
        *place = none;
        body.added_used -= has_saved_table(body);
        --body.live;
    }
    body.id_bytes.cut(mark.id_bytes), body.id_ends.cut(mark.slots + 1);
    body.texts.cut(mark.texts);
    body.deaths.cut(mark.slots);
    if (body.order.size()) body.order.cut(mark.slots);
    body.settings->cut(mark.settings);
}

namespace {

// The ids of one call, to notice one that is given twice.
class GivenIds {
    auto hasher() const {
        return [items = items_](uint32_t item) { return hash_bytes(items[item].id); };
    }

public:
    explicit GivenIds(std::span<const Item> items) : items_(items) {
        if (items.size() > 1) places_.reserve(items.size(), hasher());
    }

    // Whether the id of this item was that of an earlier one.
    bool repeats(uint32_t item) {
        if (items_.size() < 2) return false;
        uint64_t hash = hasher()(item);
        if (places_.find(hash, [&](uint32_t other) { return items_[other].id == items_[item].id; }) != IdSlots::empty) return true;
        places_.add(hash, item, hasher());
        return false;
    }

private:
    std::span<const Item> items_;
    IdSlots places_;
};

}    // namespace

// An id may be taken already, or given twice in the same call.
void Store::check_ids(std::span<const Item> items, std::vector<Refusal>& refused) const {
    GivenIds given(items);
    for (uint32_t i = 0; i < items.size(); ++i) {
        bool twice = given.repeats(i);
        if (!twice && find_slot(*body_, items[i].id) == none) continue;
        refused.push_back({i, id_failure("TC141", "the id " + shown(items[i].id) + (twice ? " is given twice" : " exists already"),
                                         "use replace() to change a subscription, or another id")});
    }
}

void Store::add(std::span<const Item> items, std::vector<Refusal>& refused) {
    auto alone = engine_->write();
    std::lock_guard lock(write_mutex_);
    Body& body = *body_;
    check_room(body, items);
    Change change(*this);
    parse(items, refused);
    // A single item with an invalid id or query needs no second refusal.
    if (items.size() > 1 || refused.empty()) check_ids(items, refused);
    if (!refused.empty()) return;
    add_rows(body, items, true);
    engine_->prepare(body, true);
    // The last chance to stop: after commit() the change is in force.
    if (items.size() >= many_items) Interrupt::check_now();
    change.commit(body);
    change.publish();
}

// A new slot takes over the id and the place in the order; the old slot dies in the same version.
void Store::replace(std::string_view id, std::string_view text, const Settings& settings) {
    auto alone = engine_->write();
    std::lock_guard lock(write_mutex_);
    Body& body = *body_;
    uint32_t old_slot = find_slot(body, id);
    if (old_slot == none) throw id_failure("TC143", "no subscription has the id " + shown(id), "add it first");
    Item item{id, text, &settings};
    check_room(body, {&item, 1});
    Change change(*this);
    std::vector<Refusal> refused;
    parse({&item, 1}, refused);
    if (!refused.empty()) throw refused[0].failure;
    // A replaced subscription keeps its place, so from now on the order must be stored.
    if (!body.order.size()) {
        Array<uint32_t> order;
        order.reserve(body.deaths.size() + 1);
        for (uint32_t s = 0; s < body.deaths.size(); ++s) order.push(s);
        body.order = std::move(order);
    }
    add_rows(body, {&item, 1}, false);
    engine_->prepare(body, true);
    engine_->remove(old_slot);
    kill(body, old_slot);
    uint32_t slot = change.mark.slots;
    enter_id(body, slot);
    body.order[slot] = body.order[old_slot];
    // Not alone: a reader that arrived now would find neither the old nor the new one.
    change.commit(body);
    change.publish();
    renumber_if_due();
}

void Store::remove(std::string_view id) {
    auto alone = engine_->write();
    std::lock_guard lock(write_mutex_);
    uint32_t slot = find_slot(*body_, id);
    if (slot == none) throw id_failure("TC143", "no subscription has the id " + shown(id), "");
    commit_removal(*body_, {&slot, 1});
}

size_t Store::remove_many(std::span<const std::string_view> ids) {
    auto alone = engine_->write();
    std::lock_guard lock(write_mutex_);
    for (std::string_view id : ids)
        if (find_slot(*body_, id) == none) throw id_failure("TC143", "no subscription has the id " + shown(id), "");
    std::vector<uint32_t> slots = known_slots(ids, {});
    if (!slots.empty()) commit_removal(*body_, slots);
    return slots.size();
}

std::vector<uint32_t> Store::known_slots(std::span<const std::string_view> ids, std::span<const Item> items) const {
    std::vector<uint32_t> slots;
    slots.reserve(ids.size() + items.size());
    InterruptTicks ticks(300);
    auto add = [&](std::string_view id) {
        ticks.tick();
        if (uint32_t slot = find_slot(*body_, id); slot != none) slots.push_back(slot);
    };
    for (std::string_view id : ids) add(id);
    for (const Item& item : items) add(item.id);
    // By slot: neighbours are on the same pages.
    std::sort(slots.begin(), slots.end());
    slots.erase(std::unique(slots.begin(), slots.end()), slots.end());
    return slots;
}

void Store::check_twice(std::span<const Item> items, std::vector<Refusal>& refused) {
    GivenIds given(items);
    for (uint32_t i = 0; i < items.size(); ++i)
        if (given.repeats(i))
            refused.push_back({i, id_failure("TC141", "the id " + shown(items[i].id) + " is given twice", "give each id once")});
}

// As replace(), for many: what is new has rows before something dies, and ids afterwards.
void Store::catch_up(std::span<const std::string_view> gone, std::span<const Item> items, std::vector<Refusal>& refused) {
    auto alone = engine_->write();
    std::lock_guard lock(write_mutex_);
    Body& body = *body_;
    check_room(body, items);
    std::vector<uint32_t> slots = known_slots(gone, items);
    Change change(*this);
    parse(items, refused);
    check_twice(items, refused);
    if (!refused.empty()) return;
    add_rows(body, items, false);
    engine_->prepare(body, false);
    Interrupt::check_now();          // the last chance to stop
    for (uint32_t slot : slots) engine_->remove(slot);
    for (uint32_t slot : slots) kill(body, slot);
    for (uint32_t slot = change.mark.slots; slot < body.slots(); ++slot) enter_id(body, slot);
    change.commit(body);
    change.publish();
    renumber_if_due();
}

// If no reader is in any View, the engine may tidy up at once.
void Store::commit_removal(Body& body, std::span<const uint32_t> slots) {
    Change change(*this);
    for (uint32_t slot : slots) engine_->remove(slot);
    for (uint32_t slot : slots) kill(body, slot);
    {
        // Every View holds the token of its body. Two holders are the body itself and the present View, which only we have; ours
        // here are the third, and the second of the View. Copying them lets the thread sanitizer see what the fence orders: it
        // does not know fences.
        std::lock_guard hold(view_mutex_);
        auto token = body.views;
        auto present = view_;
        bool is_unread = token.use_count() == 3 && present.use_count() == 2;
        // Pairs with the release of those readers, so that their reads happen before our changes.
        std::atomic_thread_fence(std::memory_order_acquire);
        change.commit(body, is_unread);
    }
    change.publish();
    renumber_if_due();
}

// Takes a subscription out of the set that the next View sees.
void Store::kill(Body& body, uint32_t slot) noexcept {
    uint32_t* place = body.find(body.id(slot), seeds_);
    bool is_added = !body.added_table.empty() && place >= body.added_table.begin() && place < body.added_table.end();
    *place = tomb;
    body.tombs += !is_added;          // those of the other table are among its added_used
    --body.live;
    ++body.version;
    std::atomic_ref<uint32_t>(body.deaths[slot]).store(body.version, std::memory_order_relaxed);
}

bool Store::contains(std::string_view id) const {
    std::lock_guard lock(write_mutex_);
    return find_slot(*body_, id) != none;
}

std::vector<size_t> Store::unknown(std::span<const std::string_view> ids) const {
    std::lock_guard lock(write_mutex_);
    std::vector<size_t> places;
    for (size_t i = 0; i < ids.size(); ++i)
        if (find_slot(*body_, ids[i]) == none) places.push_back(i);
    return places;
}

size_t Store::size() const {
    std::lock_guard lock(write_mutex_);
    return body_->live;
}

Store::Subscription Store::find(std::string_view id) const {
    std::lock_guard lock(write_mutex_);
    uint32_t slot = find_slot(*body_, id);
    if (slot == none) throw id_failure("TC143", "no subscription has the id " + shown(id), "");
    std::string room;
    return {std::string(id), std::string(body_->text(slot, room)), body_->settings_of(slot)};
}

EngineStats Store::engine_stats() const {
    std::lock_guard lock(write_mutex_);
    return engine_->stats();
}

uint64_t Store::views_made() const {
    std::lock_guard lock(write_mutex_);
    return views_made_;
}

StoreStats Store::stats() const {
    std::lock_guard lock(write_mutex_);
    const Body& b = *body_;
    EngineStats engine = engine_->stats();
    StoreStats stats;
    stats.subscriptions = b.live;
    stats.paths = engine.paths;
    stats.states = engine.states;
    stats.machines = engine.machines;
    stats.bytes = engine.bytes + b.settings->bytes() + b.id_ends.bytes() + b.id_bytes.bytes() + b.texts.bytes() +
                  b.deaths.bytes() + b.order.bytes() + b.id_table.bytes() + b.added_table.bytes();
    return stats;
}

// In the order of addition, where a replacement counts as its original.
std::vector<uint32_t> Store::live_slots(const Subscriptions& rows) {
    std::vector<uint32_t> slots;
    slots.reserve(rows.live);
    for (uint32_t s = 0; s < rows.slots(); ++s)
        if (rows.deaths[s] == 0) slots.push_back(s);
    if (rows.order.size())
        std::sort(slots.begin(), slots.end(), [&](uint32_t a, uint32_t b) { return rows.order[a] < rows.order[b]; });
    return slots;
}

// Without memory for it, it is tried again after the next change.
void Store::renumber_if_due() {
    if (body_->deaths.size() <= 2 * size_t(body_->live) + gaps_min) return;
    try {
        renumber();
    } catch (const std::bad_alloc&) {
    }
}

// A failure to allocate is nothing that whoever matches should hear of.
void Store::merge_if_due() {
    if (!engine_->is_merge_due()) return;
    std::unique_lock lock(write_mutex_, std::try_to_lock);
    if (!lock) return;
    try {
        Change change(*this);
        engine_->merge(*body_);
        change.commit(*body_);
        change.publish();
    } catch (const std::bad_alloc&) {
    }
}

void Store::compact() {
    auto alone = engine_->write();
    std::lock_guard lock(write_mutex_);
    if (body_->live < body_->slots() || !engine_->is_compact()) renumber();
}

// Renumbers: copies everything that lives into a new Body, so that removed subscriptions give their memory back.
void Store::renumber() {
    auto body = std::make_unique<Body>(seeds_);
    std::vector<uint32_t> slots = live_slots(*body_);
    reserve_ids(*body, slots.size());
    InterruptTicks ticks(300);
    std::string room;
    for (uint32_t s : slots) {
        ticks.tick();
        Item item{body_->id(s), body_->text(s, room), &body_->settings_of(s)};
        enter_id(*body, add_slot(*body, item, body->settings->intern(*item.settings)));
    }
    Change change(*this);
    engine_->renumber(slots, *body);
    change.commit(*body);
    std::swap(body_, body);          // the old one lives a little longer: the View takes the place of one that looks into it
    change.publish();
}

}  // namespace treecast
