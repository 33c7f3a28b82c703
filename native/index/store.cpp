// Subscriptions in and out: ids, slots, chains, views. Where paths live is in store_places.cpp.
#include "index/store.hpp"

#include "base/interrupt.hpp"
#include "base/seeded_hash.hpp"
#include "evaluate/evaluate.hpp"
#include "machines/path_key.hpp"
#include "query/transformation.hpp"

#include <algorithm>
#include <stdexcept>

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

Store::Mark::Mark(const Body& body)
    : labels(body.labels->size()), settings(body.settings->size()), slots(static_cast<uint32_t>(body.deaths.size())),
      paths(static_cast<uint32_t>(body.place_of.size())), id_bytes(body.id_bytes.size()), text_bytes(body.text_bytes.size()),
      lists(body.lists.size()), path_bytes(body.path_bytes.size()) {}

Store::Store(std::string engine, const HashSeeds& seeds)
    : engine_(std::move(engine)), seeds_(seeds), published_(make_published(engine_)), body_(std::make_unique<Body>(seeds_)) {
    if (!engine_.empty() && !published_) throw std::invalid_argument("no published engine is called " + engine_);
    publish(std::make_shared<View>());
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
    std::shared_lock reading(published_mutex_);
    if (!published_) throw std::bad_alloc();       // it could not be repaired
    return reading;
}

// To be taken before write_mutex_: who only wants to know something must not wait for those who match.
std::unique_lock<LastingSharedMutex> Store::write() {
    if (engine_.empty()) return {};
    std::unique_lock alone(published_mutex_);
    if (!published_) {
        std::lock_guard lock(write_mutex_);
        repair();
        if (!published_) throw std::bad_alloc();
    }
    return alone;
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
            const Settings& settings = *items[i].settings;
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
    withdrawn_ += items - refused.size();
    if (withdrawn_ > body_->live + compact_slots_min) repair();      // an engine keeps the names of what it gives back
}

// Makes the published engine anew, from what the body holds. Without the memory for that there is none until somebody writes.
void Store::repair() noexcept {
    published_ = nullptr;
    try {
        auto view = std::make_shared<View>();
        published_ = populated(*body_);
        withdrawn_ = 0;
        publish(std::move(view));
    } catch (const std::exception&) {
        published_ = nullptr;
    }
}

std::string_view Store::id_of(const Body& body, uint32_t slot) {
    return {body.id_bytes.data() + body.id_ends[slot], size_t(body.id_ends[slot + 1] - body.id_ends[slot])};
}

size_t Store::id_place(const Body& body, std::string_view id) const {
    size_t mask = body.id_table.size() - 1, at = hash_bytes(id, 0, body.seeds) & mask;
    for (; body.id_table[at] != none; at = (at + 1) & mask)
        if (body.id_table[at] != tomb && id_of(body, body.id_table[at]) == id) return at;
    return at;
}

uint32_t Store::find_slot(const Body& body, std::string_view id) const {
    return body.id_table.empty() ? none : body.id_table[id_place(body, id)];
}

// Makes room for so many more ids. It is made before the first is entered, so that undo() finds each where it was put.
void Store::reserve_ids(Body& body, size_t count) {
    size_t used = size_t(body.live) + body.tombs;
    if (4 * (used + count) <= 3 * body.id_table.size()) return;
    size_t size = 64;
    while (2 * size < 3 * (size_t(body.live) + count)) size *= 2;
    Array<uint32_t> old;
    old.assign(size, none);
    std::swap(old, body.id_table);
    body.tombs = 0;
    for (uint32_t slot : old)
        if (slot < tomb) body.id_table[id_place(body, id_of(body, slot))] = slot;
}

// Readers follow links through buffers as large as those of their View. When one of these moves, the heads move too, and before
// it, so that no old reader meets a link that leads beyond its buffers.
void Store::reserve_links(Body& body, size_t items, const Parsed& parsed) {
    size_t several = 0;
    for (size_t i = 0; i < items; ++i) {
        size_t count = parsed.item_ends[i] - (i ? parsed.item_ends[i - 1] : 0);
        several += count > 1 || parsed.judged[i] ? count : 0;
    }
    size_t next = body.next.size() + items, extras = body.extras.size() + several;
    if (!body.next.has_room(next) || !body.extras.has_room(extras)) body.heads.move();
    body.next.reserve(next);
    body.extras.reserve(extras);
}

void Store::check_room(const Body& body, std::span<const Item> items) {
    size_t bytes = body.id_bytes.size();
    for (const Item& item : items) bytes += item.id.size();
    if (body.deaths.size() + items.size() <= slots_limit && bytes <= 0x7FFFFFF0u) return;
    Failure failure(Family::query, "TC307", "this index is full: ids take more than 2 GiB");
    failure.limit = true;
    failure.hint = "split the subscriptions over several indexes";
    throw failure;
}

uint32_t Store::add_slot(Body& body, const Item& item, uint32_t settings, bool judged) {
    uint32_t slot = static_cast<uint32_t>(body.deaths.size());
    body.id_bytes.append(item.id.data(), item.id.size());
    body.id_ends.push(static_cast<int32_t>(body.id_bytes.size()));
    body.text_bytes.append(item.text.data(), item.text.size());
    body.text_ends.push(body.text_bytes.size());
    body.next.push(none);
    if (body.order.size()) body.order.push(slot);
    body.slot_paths.push(none);
    body.slot_settings.push(settings);
    body.judged.push(judged);
    body.deaths.push(0);
    return slot;
}

void Store::list_paths(Body& body, uint32_t slot, std::span<const uint32_t> paths) {
    if (paths.empty()) return;
    if (paths.size() == 1 && !body.judged[slot]) {
        body.slot_paths[slot] = paths[0];
        return;
    }
    uint32_t list = static_cast<uint32_t>(body.lists.size());
    body.lists.push(static_cast<uint32_t>(paths.size()));
    body.lists.append(paths.data(), paths.size());
    body.slot_paths[slot] = several_bit | list;
}

// Puts the slot into the chains of its paths. There is room.
void Store::link(Body& body, uint32_t slot, std::span<const uint32_t> paths) noexcept {
    auto head = [&](uint32_t path) { return std::atomic_ref<uint32_t>(body.heads[path]); };
    bool several = body.slot_paths[slot] & several_bit;
    for (uint32_t path : paths) {
        uint32_t link = several ? static_cast<uint32_t>(body.extras.size()) | extra_bit : slot;
        uint32_t after = head(path).load(std::memory_order_relaxed);
        if (several)
            body.extras.push({slot, after});
        else
            body.next[slot] = after;
        head(path).store(link, std::memory_order_release);
        mark_dirty(body, path);
    }
}

// Adds the rows of the items, which no reader sees before apply(), and builds what their paths need. May fail: see undo().
void Store::prepare(Body& body, std::span<const Item> items, const Parsed& parsed, uint32_t replaced, Change& change) {
    reseed(body);
    reserve_links(body, items.size(), parsed);
    reserve_ids(body, items.size());
    change.first_slot = static_cast<uint32_t>(body.deaths.size());
    change.path_ends.reserve(items.size());
    std::vector<uint32_t> paths;
    const Settings* settings = nullptr;
    uint32_t number = 0;
    InterruptTicks ticks(1000);
    for (size_t i = 0, p = 0; i < items.size(); ++i) {
        ticks.tick();
        if (items[i].settings != settings) number = body.settings->intern(*(settings = items[i].settings));
        uint32_t slot = add_slot(body, items[i], number, parsed.judged[i]);
        if (replaced == none) {
            body.id_table[id_place(body, items[i].id)] = slot;
            ++body.live;
        }
        paths.clear();
        for (; p < parsed.item_ends[i]; ++p) paths.push_back(add_path(body, parsed.path(p), change.fresh));
        if (paths.size() > 1) {
            std::sort(paths.begin(), paths.end());
            paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
        }
        list_paths(body, slot, paths);
        change.paths.insert(change.paths.end(), paths.begin(), paths.end());
        change.path_ends.push_back(change.paths.size());
    }
    place(body, change);
}

// Takes back what prepare() has added, and parse() before it.
void Store::undo(Body& body, const Mark& mark, const Change& change) noexcept {
    for (uint32_t slot = static_cast<uint32_t>(body.deaths.size()); slot-- > mark.slots;) {
        size_t at = id_place(body, id_of(body, slot));
        if (body.id_table[at] != slot) continue;
        body.id_table[at] = none;
        --body.live;
    }
    for (uint32_t path : change.fresh)
        if (path < mark.paths) body.place_of[path] = nowhere;
    for (uint32_t path = static_cast<uint32_t>(body.place_of.size()); path-- > mark.paths;) {
        size_t mask = body.path_table.size() - 1, at = hash_bytes(key_of(body, path), 0, body.seeds) & mask;
        while (body.path_table[at] != path) at = (at + 1) & mask;
        body.path_table[at] = none;
    }
    body.id_bytes.cut(mark.id_bytes), body.id_ends.cut(mark.slots + 1);
    body.text_bytes.cut(mark.text_bytes), body.text_ends.cut(mark.slots + 1);
    body.deaths.cut(mark.slots), body.next.cut(mark.slots), body.slot_paths.cut(mark.slots);
    if (body.order.size()) body.order.cut(mark.slots);
    body.slot_settings.cut(mark.slots), body.judged.cut(mark.slots), body.lists.cut(mark.lists);
    body.path_bytes.cut(mark.path_bytes), body.path_ends.cut(mark.paths + 1);
    body.heads.cut(mark.paths), body.accept_of.cut(mark.paths), body.place_of.cut(mark.paths);
    body.labels->cut(mark.labels);
    body.settings->cut(mark.settings);
}

// Puts into force what prepare() has added; in place of the slot `replaced`, if there is one.
void Store::apply(Body& body, uint32_t replaced, Change& change) noexcept {
    if (replaced != none) {
        kill(body, replaced, false);
        body.id_table[id_place(body, id_of(body, change.first_slot))] = change.first_slot;
        ++body.live;
        body.order[change.first_slot] = body.order[replaced];
    }
    for (size_t i = 0, begin = 0; i < change.path_ends.size(); begin = change.path_ends[i++])
        link(body, static_cast<uint32_t>(change.first_slot + i), std::span(change.paths).subspan(begin, change.path_ends[i] - begin));
    settle(body, change.placing);
}

void Store::check_ids(std::span<const Item> items, std::vector<Refusal>& refused) const {
    TextViewSet seen;
    if (items.size() > 1) seen.reserve(items.size());
    for (size_t i = 0; i < items.size(); ++i) {
        bool twice = items.size() > 1 && !seen.insert(items[i].id).second;
        if (!twice && find_slot(*body_, items[i].id) == none) continue;
        refused.push_back({i, id_failure("TC141", "the id " + shown(items[i].id) + (twice ? " is given twice" : " exists already"),
                                         "use replace() to change a subscription, or another id")});
    }
}

void Store::add(std::span<const Item> items, std::vector<Refusal>& refused) {
    auto alone = write();
    std::lock_guard lock(write_mutex_);
    Body& body = *body_;
    check_room(body, items);
    Mark mark(body);
    Change change;
    try {
        Parsed parsed;
        parse(items, parsed, refused);
        size_t unparsed = refused.size();
        if (items.size() > 1 || !unparsed) check_ids(items, refused);
        if (!refused.empty()) {
            undo(body, mark, change);
            withdraw(items.size(), std::span(refused).first(unparsed));
            return;
        }
        auto view = std::make_shared<View>();
        prepare(body, items, parsed, none, change);
        if (items.size() >= many_items) Interrupt::check_now();
        apply(body, none, change);
        publish(std::move(view));
    } catch (...) {
        undo(body, mark, change);
        if (published_) repair();
        throw;
    }
}

void Store::replace(std::string_view id, std::string_view text, const Settings& settings) {
    auto alone = write();
    std::lock_guard lock(write_mutex_);
    Body& body = *body_;
    uint32_t slot = find_slot(body, id);
    if (slot == none) throw id_failure("TC143", "no subscription has the id " + shown(id), "add it first");
    Item item{id, text, &settings};
    check_room(body, {&item, 1});
    Mark mark(body);
    Change change;
    try {
        Parsed parsed;
        std::vector<Refusal> refused;
        parse({&item, 1}, parsed, refused);
        if (!refused.empty()) throw refused[0].failure;
        if (!body.order.size()) {
            Array<uint32_t> order;
            order.reserve(body.deaths.size() + 1);
            for (uint32_t s = 0; s < body.deaths.size(); ++s) order.push(s);
            body.order = std::move(order);
        }
        auto view = std::make_shared<View>();
        prepare(body, {&item, 1}, parsed, slot, change);
        if (published_) published_->remove(slot);
        apply(body, slot, change);
        publish(std::move(view));
    } catch (const Failure&) {
        undo(body, mark, change);
        throw;
    } catch (...) {
        undo(body, mark, change);
        if (published_) repair();
        throw;
    }
    compact_if_due();
}

void Store::remove(std::string_view id) {
    auto alone = write();
    std::lock_guard lock(write_mutex_);
    Body& body = *body_;
    uint32_t slot = find_slot(body, id);
    if (slot == none) throw id_failure("TC143", "no subscription has the id " + shown(id), "");
    auto view = std::make_shared<View>();
    if (published_) {
        try {
            published_->remove(slot);
        } catch (...) {
            repair();
            throw;
        }
    }
    kill(body, slot, true);
    publish(std::move(view));
    compact_if_due();
}

// Takes a subscription out of the set of the next View. `unlink` takes it off its chains too, if no reader is there; a reader
// that comes between this and publish() misses it, which is right for a removal and wrong for a replacement.
void Store::kill(Body& body, uint32_t slot, bool unlink) noexcept {
    body.id_table[id_place(body, id_of(body, slot))] = tomb;
    ++body.tombs;
    --body.live;
    ++body.version;
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
        unlink_one(body, path, slot, unlink);
    }
}

// Takes a dead slot off the chain of a path, now or later. A slot near the head is found at once. Further down the dead stay
// until they are half of the chain, and then all go in one walk: so removing costs the same however long the chain is.
void Store::unlink_one(Body& body, uint32_t path, uint32_t slot, bool alone) noexcept {
    auto walk = [&](uint32_t links_max, auto&& gone) {
        uint32_t left = 0;
        for (uint32_t* at = &body.heads[path]; *at != none && left < links_max;) {
            bool extra = *at & extra_bit;
            uint32_t there = extra ? body.extras[*at & ~extra_bit].slot : *at;
            uint32_t* after = extra ? &body.extras[*at & ~extra_bit].next : &body.next[*at];
            if (gone(there))
                *at = *after;
            else
                at = after, ++left;
        }
        return left;
    };
    auto chain = body.chains.find(path);
    if (chain == body.chains.end()) {
        bool done = false;
        if (alone) walk(links_walked_max, [&](uint32_t there) { return there == slot && (done = true); });
        if (done) return;
        try {
            chain = body.chains.emplace(path, Body::Chain{0, 2 * links_walked_max}).first;
        } catch (const std::bad_alloc&) {
            return;              // readers pass over it
        }
    }
    if (++chain->second.dead < chain->second.sweep_at || !alone) return;
    uint32_t left = walk(none, [&](uint32_t there) { return body.deaths[there] != 0; });
    if (left <= links_walked_max)
        body.chains.erase(chain);
    else
        chain->second = {0, std::max(2 * links_walked_max, left / 2)};
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
            (*body_->settings)[body_->slot_settings[slot]]};
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

// Where there is no memory for it, it is tried again after the next change.
void Store::compact_if_due() {
    if (body_->deaths.size() <= 2 * size_t(body_->live) + compact_slots_min) return;
    try {
        compact();
    } catch (const std::bad_alloc&) {
    }
}

// Renumbers: everything that lives is copied into a new Body, so that what was removed gives its memory back.
void Store::compact() {
    auto body = std::make_unique<Body>(seeds_);
    std::vector<Item> items;
    Parsed parsed;
    auto relabelled = [&](uint32_t label) {
        return label < label_first ? label : body->labels->intern(body_->labels->step_of(label));
    };
    for (uint32_t s : live_slots(*body_)) {
        size_t text = body_->text_ends[s];
        items.push_back({id_of(*body_, s), {body_->text_bytes.data() + text, size_t(body_->text_ends[s + 1] - text)},
                         &(*body_->settings)[body_->slot_settings[s]]});
        for (uint32_t path : body_->paths_of(s)) {
            parsed.bytes += relabel_key(key_of(*body_, path), relabelled);
            parsed.path_ends.push_back(parsed.bytes.size());
        }
        parsed.judged.push_back(body_->judged[s]);
        parsed.item_ends.push_back(parsed.path_ends.size());
    }
    Change change;
    prepare(*body, items, parsed, none, change);
    auto view = std::make_shared<View>();
    std::shared_ptr<PublishedEngine> engine = published_ ? populated(*body) : nullptr;
    apply(*body, none, change);
    std::swap(body_, body);          // the old one lives a little longer: `view` takes the place of one that looks into it
    published_ = std::move(engine);
    publish(std::move(view));
}

// A published engine that holds what lives in the body, under its slots.
std::shared_ptr<PublishedEngine> Store::populated(const Body& body) {
    std::shared_ptr<PublishedEngine> engine = make_published(engine_);
    for (uint32_t slot = 0; slot < body.deaths.size(); ++slot) {
        if (body.deaths[slot]) continue;
        const Settings& settings = (*body.settings)[body.slot_settings[slot]];
        uint64_t begin = body.text_ends[slot];
        parse_matching({body.text_bytes.data() + begin, body.text_ends[slot + 1] - begin}, settings.bindings, settings.ordered, *query_);
        engine->add(slot, *query_, settings.ordered);
    }
    return engine;
}

}  // namespace treecast
