// The lazy DFA: transitions of the NFA, cached as they occur. lazy.hpp has the theory.
//
// The cache has a byte limit. When it is full, the document continues on the NFA; afterwards the states that documents
// return to are kept. If even that does not pay off, the cache is left alone for a while.
#include "machines/lazy.hpp"

#include "base/interrupt.hpp"
#include "base/seeded_hash.hpp"

#include <algorithm>

namespace treecast {

namespace {

constexpr uint32_t dead = 1, deferred = 2;
constexpr uint64_t nanoseconds_per_step = 10'000;     // of a large machine
constexpr size_t expected_ahead = 4;                  // elements
constexpr uint32_t plain_documents_min = 8, plain_documents_max = 1024;

// Queries and documents together decide which sets exist, so their hashes are seeded like those of names.
uint32_t hash_set(const HashSeeds& seeds, WordsView words) {
    uint64_t hash = words.size ^ seeds.c;
    for (uint32_t i = 0; i < words.size; ++i) hash = hash_words(seeds, hash + words.index[i], words.mask[i]);
    return static_cast<uint32_t>(hash ^ hash >> 32);
}

uint32_t hash_pair(const HashSeeds& seeds, uint32_t a, uint32_t b) { return static_cast<uint32_t>(hash_words(seeds, a, b)); }

}  // namespace

// The number of a set. Sets are immutable from here on, so states with equal sets share their memory.
uint32_t SetPool::intern(WordsView words) {
    if (words.size == 0) return 0;
    uint32_t hash = hash_set(seeds_, words);
    uint32_t known = slots_.find(hash, [&](uint32_t s) {
        const Set& set = sets_[s];
        return set.hash == hash && set.size == words.size &&
               std::memcmp(set.index, words.index, words.size * sizeof(uint32_t)) == 0 &&
               std::memcmp(set.mask, words.mask, words.size * sizeof(uint64_t)) == 0;
    });
    if (known != IdSlots::empty) return known;
    uint32_t* index = indexes_.take(words.size);
    uint64_t* mask = masks_.take(words.size);
    std::memcpy(index, words.index, words.size * sizeof(uint32_t));
    std::memcpy(mask, words.mask, words.size * sizeof(uint64_t));
    auto number = static_cast<uint32_t>(sets_.size());
    sets_.push_back({index, mask, words.size, hash, 0});
    slots_.add(hash, number, [&](uint32_t s) { return sets_[s].hash; });
    return number;
}

uint64_t SetPool::bytes() const {
    return sets_.capacity() * sizeof(Set) + slots_.bytes() + indexes_.bytes() + masks_.bytes();
}

// At most half of the table is used: what is not there is noticed at once.
void LazyTransitions::set(uint32_t state, uint32_t symbol, uint64_t value) {
    if (2 * (used_ + 1) > entries_.size()) {
        std::vector<Entry> old(2 * entries_.size());
        old.swap(entries_);
        mask_ = entries_.size() - 1;
        for (const Entry& entry : old) {
            if (!entry.key) continue;
            size_t at = place(entry.key);
            while (entries_[at].key) at = (at + 1) & mask_;
            entries_[at] = entry;
        }
    }
    const uint64_t key = key_of(state, symbol);
    size_t at = place(key);
    while (entries_[at].key && entries_[at].key != key) at = (at + 1) & mask_;
    used_ += !entries_[at].key;
    entries_[at] = {key, value};
}

Lazy::Lazy(std::shared_ptr<const Machine> machine) : machine_(std::move(machine)) {
    resolve({}, none, true);                    // symbol 0: fires nothing
    if (machine_->has_text()) text_symbol_ = resolve({}, label_text, false);
    reset();
}

// What the limit counts: sets, transitions, states and the table of states.
uint64_t Lazy::bytes() const {
    return pool_->bytes() + transitions_->bytes() + states_.capacity() * sizeof(State) + state_slots_.bytes();
}

// Symbols themselves stay: they consist of labels, which do not depend on the numbers that a reader gives to names.
void Lazy::forget_names() {
    element_symbols_.clear();
    attribute_symbols_.clear();
}

// The symbol that fires `any` and the named labels, as far as the machine has them. Attributes that fire nothing have none.
uint32_t Lazy::resolve(std::span<const uint32_t> labels, uint32_t any, bool element) {
    std::array<uint32_t, 5> key{};
    auto fire = [&](uint32_t label) {
        uint32_t local = label == none ? none : machine_->local(label);
        if (local == none) return;
        uint32_t at = ++key[0];
        for (; at > 1 && key[at - 1] > local; --at) key[at] = key[at - 1];
        key[at] = local;
    };
    fire(any);
    for (uint32_t label : labels) fire(label);
    if (key[0] == 0 && !element) return none;
    auto [found, added] = symbol_ids_.try_emplace(key, static_cast<uint32_t>(symbols_.size()));
    if (added) symbols_.push_back(key);
    return found->second;
}

// Drops everything that was learned. Sets are in arenas, so this frees a few large pieces, not many small ones.
void Lazy::reset() {
    pool_ = std::make_unique<SetPool>();
    transitions_ = std::make_unique<LazyTransitions>();
    states_.assign(1, State{});
    state_slots_.reset();
    intern_state(0, 0);                         // number 1: dead
    states_.push_back(State{});                 // number 2: deferred; no pair of sets leads to it
    states_.back().descend = states_.back().fresh = none;
    machine_->start(fresh_, descend_);
    start_ = intern_state(pool_->intern(descend_.view()), pool_->intern(fresh_.view()));
    full_ = false;
    steps_ = misses_ = 0;
}

// The number of the state for a pair of sets. Sets are numbers themselves, so comparing states compares two pairs.
uint32_t Lazy::intern_state(uint32_t descend, uint32_t fresh) {
    uint32_t hash = hash_pair(seeds_, descend, fresh);
    uint32_t known = state_slots_.find(hash, [&](uint32_t s) { return states_[s].descend == descend && states_[s].fresh == fresh; });
    if (known != IdSlots::empty) return known;
    auto number = static_cast<uint32_t>(states_.size());
    State state;
    state.descend = descend;
    state.fresh = fresh;
    states_.push_back(state);
    state_slots_.add(hash, number, [&](uint32_t s) { return hash_pair(seeds_, states_[s].descend, states_[s].fresh); });
    return number;
}

// Takes one step of the NFA, and remembers it as a transition. Returns 0 if the cache is full.
uint64_t Lazy::miss(uint32_t state, uint32_t symbol) {
    if (full_ || bytes() > bytes_max_) {
        full_ = true;
        return 0;
    }
    ++misses_;
    Interrupt::check(nanoseconds_per_step);
    uint32_t descend = states_[state].descend;
    machine_->step(pool_->view(descend), pool_->view(states_[state].fresh), symbol_labels(symbol), fresh_, accept_,
                   descend_, scratch_);
    if (!descend_.empty()) {
        // Descend states stay alive below: the target has those of the source and the new ones. Mostly none is new, and then the
        // set of the source is used as it is.
        subtract(descend_, pool_->view(descend));
        if (!descend_.empty()) {
            unite(pool_->view(descend), descend_.view(), united_);
            descend = pool_->intern(united_.view());
        }
    }
    uint32_t target = intern_state(descend, pool_->intern(fresh_.view()));
    uint64_t value = uint64_t(target) << 32 | pool_->intern(accept_.view());
    transitions_->set(state, symbol, value);
    return value;
}

// PERF: bench/million.py, unseen: most misses are at elements without children, and take half the time this way.
uint64_t Lazy::miss_childless(uint32_t state, uint32_t symbol) {
    if (full_ || bytes() > bytes_max_) {
        full_ = true;
        return 0;
    }
    ++misses_;
    Interrupt::check(nanoseconds_per_step);
    machine_->answers(pool_->view(states_[state].descend), pool_->view(states_[state].fresh), symbol_labels(symbol), accept_, scratch_);
    uint64_t value = uint64_t(deferred) << 32 | pool_->intern(accept_.view());
    transitions_->set(state, symbol, value);
    return value;
}

// Chooses how to process a document: by the cache, by the NFA alone, or by the cache as far as it goes.
void Lazy::run(const Document& document, const std::vector<uint8_t>& has_text, NameResolver& names, AnswerBits& out) {
    ++document_;
    if (bytes_max_ == 0) return run_plain(document, 0, has_text, names, out);
    // Waiting: the cache did not pay off lately, so it is not even tried.
    if (plain_left_) {
        if (--plain_left_ == 0) tidy();
        return run_plain(document, 0, has_text, names, out);
    }
    if (full_) {
        // Every fifth step still misses although the cache is full: it costs more than it saves.
        if (misses_ * 5 > steps_) {
            // Each time it fails again the wait doubles, so that documents which never repeat cost next to nothing.
            plain_length_ = std::clamp(plain_length_ * 2, plain_documents_min, plain_documents_max);
            plain_left_ = plain_length_;
            return run_plain(document, 0, has_text, names, out);
        }
        plain_length_ = 0;
        tidy();
    }
    size_t done = run_cached(document, has_text, names, out);
    if (done < document.elements()) run_plain(document, done, has_text, names, out);
}

void Lazy::visit_elements(const Document& document, NameResolver& names, ElementVisitor& visitor) {
    struct Visiting {                             // whatever happens, the next run is without it
        ElementVisitor*& visitor;
        ~Visiting() { visitor = nullptr; }
    } visiting{visitor_};
    visitor_ = &visitor;
    AnswerBits nowhere;
    run(document, {}, names, nowhere);
}

// PERF: bench/yfilter.py, later passes; bench/churn.py: a transition is somewhere in memory, and the answers behind it are somewhere
// else. So the transition of an element some way ahead is on its way while this one is looked at, if the state of its parent is known.
void Lazy::expect(const Document& document, size_t element, size_t done) const {
    if (element >= document.elements() || document.parent[element] >= done) return;
    // Below what was skipped the state is that of another document, which does no harm.
    if (const uint32_t name = document.name[element]; name < element_symbols_.size())
        transitions_->expect(state_of_[document.parent[element]], element_symbols_[name]);
}

// Returns the first element that was not processed: past the last one, unless the cache is full.
size_t Lazy::run_cached(const Document& document, const std::vector<uint8_t>& has_text, NameResolver& names,
                        AnswerBits& out) {
    size_t count = document.elements();
    if (state_of_.size() < count) state_of_.resize(count + count / 2);
    reached_.clear();
    visit(start_);
    bool attributes = machine_->has_attributes(), texts = text_symbol_ != none;
    for (size_t i = 0; i < count; ++i) {
        expect(document, i + expected_ahead, i);
        // No stack: the state of the parent is looked up by its number, so skipping a subtree needs no popping.
        uint32_t state = i ? state_of_[document.parent[i]] : start_;
        uint32_t symbol = element_symbol(document.name[i], names);
        ++steps_;
        uint64_t transition = transitions_->find(state, symbol);
        const bool is_childless = document.size[i] == 1 && !attributes && !texts;
        if (is_childless) {
            if (!transition && !(transition = miss_childless(state, symbol))) return accept_reached(out), i;
        } else if (!transition || transition >> 32 == deferred) {
            if (!(transition = miss(state, symbol))) return accept_reached(out), i;
        }
        uint32_t target = static_cast<uint32_t>(transition >> 32);
        state_of_[i] = target;
        if (auto set = static_cast<uint32_t>(transition); !visitor_)
            reach(set);
        else if (set)
            visitor_->visit(static_cast<uint32_t>(i), pool_->view(set));
        if (is_childless) continue;
        if (target == dead) {             // nothing can match below: the whole subtree is skipped
            i += document.size[i] - 1;
            continue;
        }
        visit(target);
        if (attributes)
            for (size_t a = document.attribute_begin[i]; a < document.attribute_end(i); ++a) {
                uint32_t attribute = attribute_symbol(document.attribute_name[a], names);
                if (attribute == none) continue;
                transition = transitions_->find(target, attribute);
                if (!transition && !(transition = miss(target, attribute))) return accept_reached(out), i;
                reach(static_cast<uint32_t>(transition));
            }
        if (texts && has_text[i]) {
            transition = transitions_->find(target, text_symbol_);
            if (!transition && !(transition = miss(target, text_symbol_))) return accept_reached(out), i;
            reach(static_cast<uint32_t>(transition));
        }
    }
    accept_reached(out);
    return count;
}

// Adds the sets that were reached to what is found. PERF: as above. A set is far from the one before, and its words are far from it.
void Lazy::accept_reached(AnswerBits& out) {
    constexpr size_t ahead = 8;
    size_t fresh = 0;
    for (size_t i = 0; i < reached_.size(); ++i) {
        if (i + ahead < reached_.size()) pool_->expect(reached_[i + ahead]);
        if (!pool_->first_visit(reached_[i], document_)) continue;
        pool_->expect_words(reached_[i]);
        reached_[fresh++] = reached_[i];
    }
    for (size_t i = 0; i < fresh; ++i) out.add(pool_->view(reached_[i]));
    reached_.clear();
}

// Computes the frame of an element from the frame above it. Used where the cache is full or off.
void Lazy::enter(const Frame& above, Frame& frame, uint32_t symbol, AnswerBits& out) {
    if (frame.symbol == symbol && frame.above == above.serial) return;   // as its elder sibling: nothing new
    frame.symbol = symbol;
    frame.above = above.serial;
    frame.serial = ++frame_serial_;
    // Cached transitions are still used. From such an entry on, the frame is in a known state again.
    if (above.state) {
        if (uint64_t found = transitions_->find(above.state, symbol); found && found >> 32 != deferred) {
            frame.state = static_cast<uint32_t>(found >> 32);
            frame.descend = pool_->view(states_[frame.state].descend);
            frame.fresh = pool_->view(states_[frame.state].fresh);
            frame.dead = frame.state == dead;
            frame.accept = pool_->view(static_cast<uint32_t>(found));
            if (!visitor_) accept(static_cast<uint32_t>(found), out);
            return;
        }
    }
    Interrupt::check(nanoseconds_per_step);
    machine_->step(above.descend, above.fresh, symbol_labels(symbol), frame.own_fresh, frame.own_accept, descend_, scratch_);
    frame.accept = frame.own_accept.view();
    if (!visitor_) out.add(frame.accept);
    frame.state = 0;
    frame.fresh = frame.own_fresh.view();
    frame.descend = above.descend;
    if (!descend_.empty()) {
        subtract(descend_, above.descend);
        if (!descend_.empty()) {
            unite(above.descend, descend_.view(), frame.own_descend);
            frame.descend = frame.own_descend.view();
        }
    }
    frame.dead = frame.fresh.size == 0 && frame.descend.size == 0;
}

// Attributes and texts have nothing below them, so only what they accept matters.
void Lazy::peek(const Frame& frame, uint32_t symbol, AnswerBits& out) {
    if (frame.state)
        if (uint64_t found = transitions_->find(frame.state, symbol)) return accept(static_cast<uint32_t>(found), out);
    machine_->step(frame.descend, frame.fresh, symbol_labels(symbol), fresh_, accept_, descend_, scratch_);
    out.add(accept_.view());
}

// Steps the NFA from the element `begin` on. The elements before it were processed by the cache: the frames of those that are
// still open are rebuilt from their states.
void Lazy::run_plain(const Document& document, size_t begin, const std::vector<uint8_t>& has_text, NameResolver& names,
                     AnswerBits& out) {
    if (frames_.size() < 2) frames_.resize(16);
    auto adopt = [&](Frame& frame, uint32_t state) {
        frame.state = state;
        frame.descend = pool_->view(states_[state].descend);
        frame.fresh = pool_->view(states_[state].fresh);
        frame.dead = state == dead;
        frame.symbol = none;
        frame.serial = ++frame_serial_;
    };
    adopt(frames_[0], start_);
    if (begin > 0 && begin < document.elements()) {
        size_t depth = document.depth[begin];
        if (frames_.size() < depth + 2) frames_.resize(depth + 16);
        for (size_t at = document.parent[begin]; depth > 0; --depth, at = document.parent[at])
            adopt(frames_[depth], state_of_[at]);
    }
    bool attributes = machine_->has_attributes(), texts = text_symbol_ != none;
    for (size_t i = begin; i < document.elements(); ++i) {
        size_t depth = document.depth[i];
        if (frames_.size() < depth + 2) frames_.resize(2 * depth + 2);
        Frame& frame = frames_[depth + 1];
        enter(frames_[depth], frame, element_symbol(document.name[i], names), out);
        if (visitor_ && frame.accept.size) visitor_->visit(static_cast<uint32_t>(i), frame.accept);
        if (frame.dead) {
            i += document.size[i] - 1;
            continue;
        }
        if (attributes)
            for (size_t a = document.attribute_begin[i]; a < document.attribute_end(i); ++a) {
                uint32_t attribute = attribute_symbol(document.attribute_name[a], names);
                if (attribute != none) peek(frame, attribute, out);
            }
        if (texts && has_text[i]) peek(frame, text_symbol_, out);
    }
}

// Keeps the states that documents keep returning to, in at most half of the memory.
void Lazy::tidy() {
    for (uint32_t visits = 2; ; visits *= 2) {
        keep_visited(visits);
        if (bytes() <= bytes_max_ / 2) break;
        if (visits > 1u << 20) {
            reset();
            break;
        }
    }
    for (State& state : states_) state.visits /= 2;
    full_ = false;
    steps_ = misses_ = 0;
}

// Copies the states that were visited often enough into a new cache, with the transitions between them.
void Lazy::keep_visited(uint32_t visits_min) {
    std::unique_ptr<SetPool> old_pool = std::move(pool_);
    std::unique_ptr<LazyTransitions> old_transitions = std::move(transitions_);
    std::vector<State> old_states = std::move(states_);
    reset();
    // Old number -> new number; 0: dropped. Two passes, because a transition may lead to a state with a higher number.
    std::vector<uint32_t> kept(old_states.size(), 0);
    kept[deferred] = deferred;
    for (uint32_t s = 1; s < old_states.size(); ++s) {
        const State& state = old_states[s];
        if (s == deferred || (state.visits < visits_min && s != dead)) continue;
        kept[s] = intern_state(pool_->intern(old_pool->view(state.descend)), pool_->intern(old_pool->view(state.fresh)));
        states_[kept[s]].visits = state.visits;
        states_[kept[s]].document = 0;
    }
    old_transitions->each([&](uint32_t state, uint32_t symbol, uint64_t value) {
        if (!kept[state] || !kept[value >> 32]) return;
        uint32_t answers = pool_->intern(old_pool->view(static_cast<uint32_t>(value)));
        transitions_->set(kept[state], symbol, uint64_t(kept[value >> 32]) << 32 | answers);
    });
}

}  // namespace treecast
