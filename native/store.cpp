// Subscriptions in and out: ids, slots, chains, views. Where paths live is in store_places.cpp.
#include "store.hpp"

#include "evaluate.hpp"
#include "interrupt.hpp"
#include "path_key.hpp"
#include "seeded_hash.hpp"
#include "transformation.hpp"

#include <algorithm>
#include <stdexcept>
#include <unordered_set>

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

Store::Body::Body() : serial(next_serial()) {
    id_ends.push(0);
    text_ends.push(0);
    path_ends.push(0);
}

// The paths of a slot.
std::span<const uint32_t> Store::Body::paths_of(uint32_t slot) const {
    uint32_t packed = slot_paths[slot];
    if (packed == none) return {};
    if (!(packed & several_bit)) return {&slot_paths[slot], 1};
    const uint32_t* list = &lists[packed & ~several_bit];
    return {list + 1, *list};
}

Store::Store(std::string engine) : engine_(std::move(engine)), published_(make_published(engine_)), body_(std::make_unique<Body>()) {
    if (!engine_.empty() && !published_) throw std::invalid_argument("no published engine is called " + engine_);
    publish();
}

// After a fork in the middle of a change nothing of it can be relied on, not even to be destroyed.
Store::~Store() {
    if (!write_mutex_.orphaned()) return;
    [[maybe_unused]] auto* lost = body_.release();
    [[maybe_unused]] auto* half_read = query_.release();
    if (published_) new std::shared_ptr<PublishedEngine>(published_);
}

// The name is asked, not the engine: compact() exchanges that while others come in.
std::shared_lock<LastingSharedMutex> Store::read() const {
    if (engine_.empty()) return {};
    return std::shared_lock(published_mutex_);
}

// To be taken before write_mutex_: who only wants to know something must not wait for those who match.
std::unique_lock<LastingSharedMutex> Store::write() {
    if (engine_.empty()) return {};
    return std::unique_lock(published_mutex_);
}

void Store::check_id(std::string_view id) {
    if (id.empty()) throw id_failure("TC142", "a subscription needs an id that is not empty", "give it any string of up to 1 KiB");
    if (id.size() > id_bytes_max) {
        Failure failure = id_failure("TC308", "the id " + shown(id) + " has " + std::to_string(id.size()) + " bytes, more than 1024",
                                     "use a shorter id and keep the long one beside it");
        failure.limit = true;
        throw failure;
    }
}

uint32_t Store::settings(const Settings& settings) {
    std::lock_guard lock(write_mutex_);
    auto found = std::find(settings_->begin(), settings_->end(), settings);
    uint32_t number = static_cast<uint32_t>(found - settings_->begin());
    if (found == settings_->end()) {
        auto more = std::make_shared<std::vector<Settings>>(*settings_);     // readers have the old one
        more->push_back(settings);
        settings_ = std::move(more);
    }
    return number;
}

Settings Store::settings_of(uint32_t number) const {
    std::lock_guard lock(write_mutex_);
    return (*settings_)[number];
}

std::string_view Store::Parsed::path(size_t p) const {
    size_t begin = p ? path_ends[p - 1] : 0;
    return {bytes.data() + begin, path_ends[p] - begin};
}

// With a published engine, what is accepted is added to it at once; withdraw() takes it back.
void Store::parse(std::span<const Item> items, Parsed& parsed, std::vector<Refusal>& refused) {
    std::vector<Path> paths;
    uint32_t first_slot = static_cast<uint32_t>(body_->deaths.size());
    for (size_t i = 0; i < items.size(); ++i) {
        Interrupt::check(2000);
        bool judged = false;
        try {
            check_id(items[i].id);
            const Settings& settings = (*settings_)[items[i].settings];
            parse_matching(items[i].text, settings.bindings, settings.ordered, *query_);
            if (settings.deliver && !is_transformation(items[i].text)) check_delivered(*query_);
            if (published_) {
                if (settings.ordered) check_ordered(*query_);
                published_->add(static_cast<uint32_t>(first_slot + i), *query_, settings.ordered);
            } else if (query_->linear()) {
                query_->linear_paths(paths);
                for (const Path& path : paths) {
                    parsed.bytes.push_back(plain_key);
                    for (const PathStep& step : path) {
                        if (step.descendant) put_varint(parsed.bytes, label_descend);
                        put_varint(parsed.bytes, body_->labels->intern(step));
                    }
                    parsed.path_ends.push_back(parsed.bytes.size());
                }
            } else {
                if (settings.ordered) check_ordered(*query_);
                Patterns patterns = to_patterns(*query_, settings.ordered, *body_->labels);
                for (const std::string& pattern : patterns.patterns) {
                    parsed.bytes.push_back(tree_key);
                    parsed.bytes += pattern;
                    parsed.path_ends.push_back(parsed.bytes.size());
                }
                judged = !patterns.exact;
            }
        } catch (const Failure& failure) {
            refused.push_back({i, failure});
        }
        parsed.item_ends.push_back(parsed.path_ends.size());
        parsed.judged.push_back(judged);
    }
}

// Takes back what parse() gave to the published engine: all items but those that it refused.
void Store::withdraw(size_t items, std::span<const Refusal> refused) {
    if (!published_) return;
    std::vector<uint8_t> added(items, 1);
    for (const Refusal& refusal : refused) added[refusal.item] = 0;
    for (size_t i = 0; i < items; ++i)
        if (added[i]) published_->remove(static_cast<uint32_t>(body_->deaths.size() + i));
}

size_t Store::id_place(const Body& body, std::string_view id) const {
    size_t mask = body.id_table.size() - 1, at = hash_bytes(id, 0, body.seeds) & mask;
    while (body.id_table[at] != none) {
        uint32_t slot = body.id_table[at];
        if (slot != tomb) {
            size_t begin = body.id_ends[slot], size = body.id_ends[slot + 1] - begin;
            if (size == id.size() && std::memcmp(body.id_bytes.data() + begin, id.data(), size) == 0) return at;
        }
        at = (at + 1) & mask;
    }
    return at;
}

uint32_t Store::find_slot(const Body& body, std::string_view id) const {
    return body.id_table.empty() ? none : body.id_table[id_place(body, id)];
}

void Store::enter_id(Body& body, uint32_t slot) {
    size_t used = body.live + body.tombs;
    if (4 * (used + 1) > 3 * body.id_table.size()) {
        size_t size = 64;
        while (2 * size < 3 * (size_t(body.live) + 1)) size *= 2;
        Array<uint32_t> old;
        old.assign(size, none);
        std::swap(old, body.id_table);
        body.tombs = 0;
        for (uint32_t s : old)
            if (s < tomb) {
                std::string_view id(body.id_bytes.data() + body.id_ends[s], body.id_ends[s + 1] - body.id_ends[s]);
                body.id_table[id_place(body, id)] = s;
            }
    }
    std::string_view id(body.id_bytes.data() + body.id_ends[slot], body.id_ends[slot + 1] - body.id_ends[slot]);
    body.id_table[id_place(body, id)] = slot;
    ++body.live;
}

uint32_t Store::add_slot(Body& body, const Item& item, bool judged) {
    uint32_t slot = static_cast<uint32_t>(body.deaths.size());
    if (slot >= slots_limit || body.id_bytes.size() + item.id.size() > 0x7FFFFFF0u) {
        Failure failure(Family::query, "TC307", "this index is full: ids take more than 2 GiB");
        failure.limit = true;
        failure.hint = "split the subscriptions over several indexes";
        throw failure;
    }
    body.id_bytes.append(item.id.data(), item.id.size());
    body.id_ends.push(static_cast<int32_t>(body.id_bytes.size()));
    body.text_bytes.append(item.text.data(), item.text.size());
    body.text_ends.push(body.text_bytes.size());
    body.deaths.push(0);
    body.next.push(none);
    if (body.order.size()) body.order.push(slot);
    body.slot_paths.push(none);
    body.slot_settings.push(item.settings);
    body.judged.push(judged);
    return slot;
}

// Puts the slot into the chains of its paths.
void Store::link(Body& body, uint32_t slot, std::span<const uint32_t> paths) {
    auto head = [&](uint32_t path) { return std::atomic_ref<uint32_t>(body.heads[path]); };
    if (paths.size() == 1 && !body.judged[slot]) {
        body.slot_paths[slot] = paths[0];
        body.next[slot] = head(paths[0]).load(std::memory_order_relaxed);
        head(paths[0]).store(slot, std::memory_order_release);
        mark_dirty(body, paths[0]);
        return;
    }
    body.slot_paths[slot] = several_bit | static_cast<uint32_t>(body.lists.size());
    body.lists.push(static_cast<uint32_t>(paths.size()));
    body.lists.append(paths.data(), paths.size());
    for (uint32_t path : paths) {
        uint32_t extra = static_cast<uint32_t>(body.extras.size());
        body.extras.push({slot, head(path).load(std::memory_order_relaxed)});
        head(path).store(extra | extra_bit, std::memory_order_release);
        mark_dirty(body, path);
    }
}

void Store::commit(Body& body, std::span<const Item> items, const Parsed& parsed) {
    // Readers follow links through buffers as large as those of their View. When one of these moves, the heads move too, so
    // that no old reader meets a link that leads beyond its buffers.
    const void *next = body.next.data(), *extras = body.extras.data();
    size_t several = 0;
    for (size_t i = 0; i < items.size(); ++i) {
        size_t count = parsed.item_ends[i] - (i ? parsed.item_ends[i - 1] : 0);
        several += count > 1 || parsed.judged[i] ? count : 0;
    }
    body.next.reserve(body.next.size() + items.size());
    body.extras.reserve(body.extras.size() + several);
    if (next != body.next.data() || extras != body.extras.data()) body.heads.move();
    std::vector<uint32_t> fresh, paths;
    size_t p = 0;
    InterruptTicks ticks(1000);
    for (size_t i = 0; i < items.size(); ++i) {
        ticks.tick();
        uint32_t slot = add_slot(body, items[i], parsed.judged[i]);
        enter_id(body, slot);
        paths.clear();
        for (; p < parsed.item_ends[i]; ++p) paths.push_back(add_path(body, parsed.path(p), fresh));
        if (paths.size() > 1) {
            std::sort(paths.begin(), paths.end());
            paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
        }
        if (!paths.empty()) link(body, slot, paths);
    }
    place(body, fresh);
}

// After commit() has thrown: what it has added is as if it had been removed. Slots are not used again, as readers may have met them.
void Store::undo(Body& body, size_t first, size_t items) {
    size_t slots = body.judged.size();          // the last of a slot's entries: what has not got so far is cut off
    body.id_ends.resize(slots + 1, 0);
    body.id_bytes.resize(static_cast<size_t>(body.id_ends[slots]), 0);
    body.text_ends.resize(slots + 1, 0);
    body.text_bytes.resize(body.text_ends[slots], 0);
    for (Array<uint32_t>* column : {&body.deaths, &body.next, &body.slot_paths, &body.slot_settings}) column->resize(slots, 0);
    if (body.order.size()) body.order.resize(slots, 0);
    ++body.version;
    for (size_t slot = first; slot < slots; ++slot) {
        std::string_view id(body.id_bytes.data() + body.id_ends[slot], body.id_ends[slot + 1] - body.id_ends[slot]);
        if (find_slot(body, id) == slot) {
            body.id_table[id_place(body, id)] = tomb;
            ++body.tombs;
            --body.live;
        }
        std::atomic_ref<uint32_t>(body.deaths[slot]).store(body.version, std::memory_order_relaxed);
        for (uint32_t path : body.paths_of(static_cast<uint32_t>(slot))) mark_dirty(body, path);
    }
    size_t paths = body.place_of.size();
    body.path_ends.resize(paths + 1, 0);
    body.path_bytes.resize(body.path_ends[paths], 0);
    body.heads.resize(paths, none);
    body.accept_of.resize(paths, none);
    // Paths that have found no place are known, but live nowhere.
    for (uint8_t& place : body.place_of)
        if (place == pending) place = nowhere;
    if (published_)
        for (size_t slot = first; slot < first + items; ++slot) published_->remove(static_cast<uint32_t>(slot));
}

void Store::add(std::span<const Item> items, std::vector<Refusal>& refused) {
    auto alone = write();
    std::lock_guard lock(write_mutex_);
    Parsed parsed;
    try {
        parse(items, parsed, refused);
    } catch (...) {
        withdraw(parsed.item_ends.size(), refused);
        throw;
    }
    size_t unparsed = refused.size();
    if (items.size() == 1) {
        if (refused.empty() && find_slot(*body_, items[0].id) != none)
            refused.push_back({0, id_failure("TC141", "the id " + shown(items[0].id) + " exists already",
                                             "use replace() to change a subscription, or another id")});
    } else {
        std::unordered_set<std::string_view> seen;
        seen.reserve(items.size());
        for (size_t i = 0; i < items.size(); ++i) {
            bool twice = !seen.insert(items[i].id).second;
            if (!twice && find_slot(*body_, items[i].id) == none) continue;
            refused.push_back({i, id_failure("TC141", "the id " + shown(items[i].id) + (twice ? " is given twice" : " exists already"),
                                             "use replace() to change a subscription, or another id")});
        }
    }
    if (!refused.empty()) {
        withdraw(items.size(), std::span(refused).first(unparsed));
        return;
    }
    size_t first = body_->deaths.size();
    try {
        commit(*body_, items, parsed);
        if (items.size() >= many_items) Interrupt::check_now();
    } catch (...) {
        undo(*body_, first, items.size());
        throw;
    }
    publish();
}

void Store::replace(std::string_view id, std::string_view text, uint32_t settings) {
    auto alone = write();
    std::lock_guard lock(write_mutex_);
    uint32_t slot = find_slot(*body_, id);
    if (slot == none) throw id_failure("TC143", "no subscription has the id " + shown(id), "add it first");
    Item item{id, text, settings};
    Parsed parsed;
    std::vector<Refusal> refused;
    parse({&item, 1}, parsed, refused);
    if (!refused.empty()) throw refused[0].failure;
    Body& body = *body_;
    if (!body.order.size()) {
        body.order.reserve(body.deaths.size() + 1);
        for (uint32_t s = 0; s < body.deaths.size(); ++s) body.order.push(s);
    }
    uint32_t order = body.order[slot];
    kill(body, slot, false);
    uint32_t renewed = static_cast<uint32_t>(body.deaths.size());
    commit(body, {&item, 1}, parsed);
    body.order[renewed] = order;
    publish();
    if (body.deaths.size() > 2 * size_t(body.live) + compact_slots_min) compact();
}

void Store::remove(std::string_view id) {
    auto alone = write();
    std::lock_guard lock(write_mutex_);
    Body& body = *body_;
    uint32_t slot = find_slot(body, id);
    if (slot == none) throw id_failure("TC143", "no subscription has the id " + shown(id), "");
    kill(body, slot, true);
    publish();
    if (body.deaths.size() > 2 * size_t(body.live) + compact_slots_min) compact();
}

// Takes a subscription out of the set of the next View. `unlink` takes it off its chains at once, if no reader is there; a
// reader that comes between this and publish() misses it, which is right for a removal and wrong for a replacement.
void Store::kill(Body& body, uint32_t slot, bool unlink) {
    std::string_view id(body.id_bytes.data() + body.id_ends[slot], body.id_ends[slot + 1] - body.id_ends[slot]);
    body.id_table[id_place(body, id)] = tomb;
    ++body.tombs;
    --body.live;
    ++body.version;
    if (published_) published_->remove(slot);
    std::atomic_ref<uint32_t>(body.deaths[slot]).store(body.version, std::memory_order_relaxed);
    std::unique_lock<MomentaryMutex> hold(view_mutex_, std::defer_lock);
    if (unlink) {
        // Every View holds the token of its body: two holders are the body itself and the present View, which only we have.
        hold.lock();
        unlink = body.views.use_count() == 2 && view_.use_count() == 1;
        std::atomic_thread_fence(std::memory_order_acquire);       // what readers that are gone have read is over
    }
    for (uint32_t path : body.paths_of(slot)) {
        mark_dirty(body, path);
        if (!unlink) continue;
        for (uint32_t* at = &body.heads[path]; *at != none;) {
            bool extra = *at & extra_bit;
            uint32_t there = extra ? body.extras[*at & ~extra_bit].slot : *at;
            uint32_t* after = extra ? &body.extras[*at & ~extra_bit].next : &body.next[*at];
            if (there == slot)
                *at = *after;
            else
                at = after;
        }
    }
}

bool Store::contains(std::string_view id) const {
    std::lock_guard lock(write_mutex_);
    return find_slot(*body_, id) != none;
}

size_t Store::size() const {
    std::lock_guard lock(write_mutex_);
    return body_->live;
}

Store::Subscription Store::find(std::string_view id) const {
    std::lock_guard lock(write_mutex_);
    uint32_t slot = find_slot(*body_, id);
    if (slot == none) throw id_failure("TC143", "no subscription has the id " + shown(id), "");
    uint64_t begin = body_->text_ends[slot];
    return {std::string(id), std::string(body_->text_bytes.data() + begin, body_->text_ends[slot + 1] - begin),
            body_->slot_settings[slot]};
}

std::vector<uint32_t> Store::live_slots(const Body& body) const {
    std::vector<uint32_t> slots;
    slots.reserve(body.live);
    for (uint32_t s = 0; s < body.deaths.size(); ++s)
        if (body.deaths[s] == 0) slots.push_back(s);
    if (body.order.size())
        std::sort(slots.begin(), slots.end(), [&](uint32_t a, uint32_t b) { return body.order[a] < body.order[b]; });
    return slots;
}

// Renumbers: everything that lives is copied into a new Body, so that what was removed gives its memory back.
void Store::compact() {
    auto body = std::make_unique<Body>();
    std::vector<Item> items;
    Parsed parsed;
    auto relabelled = [&](uint32_t label) {
        return label < label_first ? label : body->labels->intern(body_->labels->step_of(label));
    };
    for (uint32_t s : live_slots(*body_)) {
        size_t id = body_->id_ends[s], text = body_->text_ends[s];
        items.push_back({{body_->id_bytes.data() + id, size_t(body_->id_ends[s + 1] - id)},
                         {body_->text_bytes.data() + text, size_t(body_->text_ends[s + 1] - text)}, body_->slot_settings[s]});
        for (uint32_t path : body_->paths_of(s)) {
            parsed.bytes += relabel_key(key_of(*body_, path), relabelled);
            parsed.path_ends.push_back(parsed.bytes.size());
        }
        parsed.judged.push_back(body_->judged[s]);
        parsed.item_ends.push_back(parsed.path_ends.size());
    }
    commit(*body, items, parsed);
    body_ = std::move(body);
    if (published_) repopulate();
    publish();
}

// The published engine anew, under the slots of the present body.
void Store::repopulate() {
    published_ = make_published(engine_);
    for (uint32_t slot = 0; slot < body_->deaths.size(); ++slot) {
        const Settings& settings = (*settings_)[body_->slot_settings[slot]];
        uint64_t begin = body_->text_ends[slot];
        parse_matching({body_->text_bytes.data() + begin, body_->text_ends[slot + 1] - begin}, settings.bindings, settings.ordered, *query_);
        published_->add(slot, *query_, settings.ordered);
    }
}

void Store::publish() {
    auto view = std::make_shared<View>();
    const Body& body = *body_;
    view->token = body.views;
    view->published = published_;
    view->labels = body.labels;
    view->places = body.places;
    view->delta = body.delta;
    view->heads = body.heads.share();
    view->next = body.next.share();
    view->deaths = body.deaths.share();
    view->order = body.order.share();
    view->extras = body.extras.share();
    view->id_ends = body.id_ends.share();
    view->id_bytes = body.id_bytes.share();
    view->text_bytes = body.text_bytes.share();
    view->text_ends = body.text_ends.share();
    view->slot_settings = body.slot_settings.share();
    view->judged = body.judged.share();
    view->settings = settings_;
    view->slots = static_cast<uint32_t>(body.deaths.size());
    view->version = body.version;
    view->serial = body.serial;
    std::shared_ptr<const View> old;      // freed after the lock
    std::lock_guard lock(view_mutex_);
    old = std::move(view_);
    view_ = std::move(view);
}

std::shared_ptr<const View> Store::view() const {
    std::lock_guard lock(view_mutex_);
    return view_;
}

}  // namespace treecast
