// The lazy DFA: transitions of the NFA, cached as they occur. lazy.hpp has the theory.
//
// The cache has a byte limit. When it is full, the document continues on the NFA; afterwards the states that documents
// return to are kept. If even that does not pay off, the cache is left alone for a while.
#include "machines/lazy.hpp"

#include "base/interrupt.hpp"
#include "base/seeded_hash.hpp"

#include <algorithm>
#include <utility>

namespace treecast {

namespace {

constexpr uint64_t nanoseconds_per_step = 10'000;     // of a large machine
constexpr size_t expected_ahead = 4;                  // elements
constexpr uint32_t plain_documents_min = 8, plain_documents_max = 1024;

}  // namespace

Lazy::Lazy(std::shared_ptr<LazyCache> cache) : cache_(std::move(cache)), machine_(cache_->machine().get()) {
    resolve({}, none, true);                    // symbol 0: fires nothing
    if (machine_->has_text()) text_symbol_ = resolve({}, label_text, false);
    adopt();
}

Lazy::~Lazy() {
    rest();
    cache_->count_copies(-static_cast<int64_t>(copies_bytes_));
}

void Lazy::rest() {
    if (std::exchange(is_at_work_, false)) cache_->count_at_work(-1);
    shared_ = nullptr;
}

void Lazy::adopt() {
    std::shared_ptr<LazyStates> old = std::move(shared_);        // dropped without the mutex
    std::lock_guard lock(cache_->mutex());
    shared_ = cache_->states();
    if (generation_ != cache_->generation()) {
        generation_ = cache_->generation();
        transitions_ = &shared_->transitions();
        std::vector<State>().swap(states_);
        std::vector<Set>().swap(sets_);
        copy_rows();
        full_ = false;
        steps_ = misses_ = 0;
    }
    if (!std::exchange(is_at_work_, true)) cache_->count_at_work(1);
}

void Lazy::catch_up() {
    std::lock_guard lock(cache_->mutex());
    copy_rows();
}

void Lazy::copy_rows() {
    // A vector that doubles would take more than the limit foresees, and in all threads at about the same time.
    auto make_room = [](auto& rows, size_t wanted) {
        if (wanted > rows.capacity()) rows.reserve(wanted + wanted / 4);
    };
    make_room(states_, shared_->size());
    make_room(sets_, shared_->pool().size());
    start_ = shared_->start();
    for (auto state = static_cast<uint32_t>(states_.size()); state < shared_->size(); ++state) states_.push_back({shared_->pair(state), 0, 0});
    for (auto set = static_cast<uint32_t>(sets_.size()); set < shared_->pool().size(); ++set) sets_.push_back({shared_->pool().view(set), 0});
    const uint64_t bytes = states_.capacity() * sizeof(State) + sets_.capacity() * sizeof(Set);
    cache_->count_copies(static_cast<int64_t>(bytes - copies_bytes_));
    copies_bytes_ = bytes;
}

// Symbols themselves stay: they consist of labels, which do not depend on the numbers that a reader gives to names.
void Lazy::forget_names() {
    element_symbols_.clear();
    attribute_symbols_.clear();
}

// The symbol that fires `any` and the named labels, as far as the machine has them. Attributes that fire nothing have none.
uint32_t Lazy::resolve(std::span<const uint32_t> labels, uint32_t any, bool element) {
    LazyCache::Symbol key{};
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
    std::lock_guard lock(cache_->mutex());
    const uint32_t symbol = cache_->symbol(key);
    for (size_t known = symbols_.size(); known < cache_->symbols().size(); ++known) symbols_.push_back(cache_->symbols()[known]);
    return symbol;
}

bool Lazy::is_full() { return full_ = full_ || cache_->bytes_with(copies_bytes_) > bytes_max_; }

// Takes one step of the NFA, and remembers it as a transition. Returns 0 if the cache is full.
uint64_t Lazy::miss(uint32_t state, uint32_t symbol) {
    if (is_full()) return 0;
    ++misses_;
    Interrupt::check(nanoseconds_per_step);
    const LazyPair source = states_[state].pair;
    machine_->step(words(source.descend), words(source.fresh), symbol_labels(symbol), fresh_, accept_, descend_, scratch_);
    if (!descend_.empty()) {
        // Descend states stay alive below: the target has those of the source and the new ones. Mostly none is new, and then the
        // set of the source is used as it is.
        subtract(descend_, words(source.descend));
        if (!descend_.empty()) unite(words(source.descend), descend_.view(), united_);
    }
    std::lock_guard lock(cache_->mutex());
    uint64_t value = transitions_->find(state, symbol);
    if (!value || value >> 32 == deferred) {            // no other thread was here meanwhile
        const uint32_t descend = descend_.empty() ? source.descend : shared_->pool().intern(united_.view());
        const uint32_t target = shared_->intern({descend, shared_->pool().intern(fresh_.view())});
        value = uint64_t(target) << 32 | shared_->pool().intern(accept_.view());
        shared_->set(state, symbol, value);
        cache_->count();
    }
    copy_rows();
    return value;
}

// PERF: bench/million.py, unseen: most misses are at elements without children, and take half the time this way.
uint64_t Lazy::miss_childless(uint32_t state, uint32_t symbol) {
    if (is_full()) return 0;
    ++misses_;
    Interrupt::check(nanoseconds_per_step);
    const LazyPair source = states_[state].pair;
    machine_->answers(words(source.descend), words(source.fresh), symbol_labels(symbol), accept_, scratch_);
    std::lock_guard lock(cache_->mutex());
    uint64_t value = transitions_->find(state, symbol);
    if (!value) {
        value = uint64_t(deferred) << 32 | shared_->pool().intern(accept_.view());
        shared_->set(state, symbol, value);
        cache_->count();
    }
    copy_rows();
    return value;
}

// Chooses how to process a document: by the cache, by the NFA alone, or by the cache as far as it goes.
void Lazy::run(const Document& document, const std::vector<uint8_t>& has_text, NameResolver& names, AnswerBits& out) {
    ++document_;
    if (!shared_ || generation_ != cache_->generation()) adopt();
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
    if (visitor_) visitor_->finish();
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

// What was looked at may have been the table of a moment ago, so it is looked at again first.
uint64_t Lazy::learn(uint32_t state, uint32_t symbol, bool is_childless) {
    const uint64_t known = find(state, symbol);
    if (known && (is_childless || known >> 32 != deferred)) return known;
    return is_childless ? miss_childless(state, symbol) : miss(state, symbol);
}

// What the loop over a document looks at for every element, in local variables. PERF: bench/yfilter.py, later passes: a look at what
// is shared makes the compiler read all members again, as another thread might have changed them.
struct Lazy::Walk {
    Walk(Lazy& lazy, const Document& document)
        : of(lazy), parent(document.parent.data()), name(document.name.data()), elements(document.elements()) {
        renew();
    }
    void renew() {
        table = of.transitions_->reading();
        states = of.states_.size(), sets = of.sets_.size(), symbols = of.element_symbols_.size();
        element_symbols = of.element_symbols_.data();
    }
    uint64_t find(uint64_t state, uint32_t symbol) {
        const uint64_t transition = table.find(state, symbol);
        if (transition >> 32 < states && static_cast<uint32_t>(transition) < sets) return transition;
        of.catch_up();
        renew();
        return transition;
    }
    uint64_t learn(uint32_t state, uint32_t symbol, bool is_childless) {
        const uint64_t transition = of.learn(state, symbol, is_childless);
        renew();
        return transition;
    }
    uint32_t symbol(uint32_t of_name, NameResolver& names) {
        if (of_name < symbols && element_symbols[of_name] != unresolved) return element_symbols[of_name];
        const uint32_t symbol = of.element_symbol(of_name, names);
        renew();
        return symbol;
    }
    // PERF: bench/yfilter.py, later passes; bench/churn.py: a transition is somewhere in memory, and the answers behind it are
    // somewhere else. So the transition of an element some way ahead is on its way while this one is looked at, if the state of
    // its parent is known. Below what was skipped the state is that of another document, which does no harm.
    void expect(size_t element, size_t done, const uint32_t* state_of) const {
        if (element < elements && parent[element] < done && name[element] < symbols)
            table.expect(state_of[parent[element]], element_symbols[name[element]]);
    }

    Lazy& of;
    const uint32_t *parent, *name;
    size_t elements;
    LazyTransitions::Reading table;
    size_t states, sets, symbols;
    const uint32_t* element_symbols;
};

// Returns the first element that was not processed: past the last one, unless the cache is full.
size_t Lazy::run_cached(const Document& document, const std::vector<uint8_t>& has_text, NameResolver& names,
                        AnswerBits& out) {
    const size_t count = document.elements();
    if (state_of_.size() < count) state_of_.resize(count + count / 2);
    const bool attributes = machine_->has_attributes(), texts = text_symbol_ != none;
    // A set for every element, attribute and text at most; and one more, which is written and not counted.
    const size_t reached_max = count + (attributes ? document.attribute_name.size() : 0) + (texts ? count : 0) + 1;
    if (reached_.size() < reached_max) reached_.resize(reached_max + reached_max / 2);
    uint32_t *const state_of = state_of_.data(), *reached = reached_.data();
    auto reach = [&](uint64_t transition) { reached += (*reached = static_cast<uint32_t>(transition)) != 0; };
    auto accept_all = [&] { accept_reached(static_cast<size_t>(reached - reached_.data()), out); };
    Walk walk(*this, document);
    visit(start_);
    for (size_t i = 0; i < count; ++i) {
        walk.expect(i + expected_ahead, i, state_of);
        // No stack: the state of the parent is looked up by its number, so skipping a subtree needs no popping.
        const uint64_t state = i ? state_of[walk.parent[i]] : start_;
        const uint32_t symbol = walk.symbol(walk.name[i], names);
        ++steps_;
        uint64_t transition = walk.find(state, symbol);
        const bool is_childless = document.size[i] == 1 && !attributes && !texts;
        if (!transition || (!is_childless && transition >> 32 == deferred))
            if (!(transition = walk.learn(static_cast<uint32_t>(state), symbol, is_childless))) return accept_all(), i;
        const auto target = static_cast<uint32_t>(transition >> 32);
        state_of[i] = target;
        if (!visitor_)
            reach(transition);
        else if (auto set = static_cast<uint32_t>(transition))
            visitor_->visit(static_cast<uint32_t>(i), words(set));
        if (is_childless) continue;
        if (target == dead) {             // nothing can match below: the whole subtree is skipped
            i += document.size[i] - 1;
            continue;
        }
        visit(target);
        if (attributes)
            for (size_t a = document.attribute_begin[i]; a < document.attribute_end(i); ++a) {
                const uint32_t attribute = attribute_symbol(document.attribute_name[a], names);
                if (attribute == none) continue;
                transition = walk.find(target, attribute);
                if (!transition && !(transition = walk.learn(target, attribute, false))) return accept_all(), i;
                reach(transition);
            }
        if (texts && has_text[i]) {
            transition = walk.find(target, text_symbol_);
            if (!transition && !(transition = walk.learn(target, text_symbol_, false))) return accept_all(), i;
            reach(transition);
        }
    }
    accept_all();
    return count;
}

// Adds the first `count` sets that were reached to what is found. PERF: as above. A set is far from the one before, and its words are
// far from it.
void Lazy::accept_reached(size_t count, AnswerBits& out) {
    constexpr size_t ahead = 8;
    size_t fresh = 0;
    for (size_t i = 0; i < count; ++i) {
        if (i + ahead < count) __builtin_prefetch(&sets_[reached_[i + ahead]], 1);
        if (!first_visit(reached_[i])) continue;
        expect_words(reached_[i]);
        reached_[fresh++] = reached_[i];
    }
    for (size_t i = 0; i < fresh; ++i) out.add(words(reached_[i]));
}

// Computes the frame of an element from the frame above it. Used where the cache is full or off.
void Lazy::enter(const Frame& above, Frame& frame, uint32_t symbol, AnswerBits& out) {
    if (frame.symbol == symbol && frame.above == above.serial) return;   // as its elder sibling: nothing new
    frame.symbol = symbol;
    frame.above = above.serial;
    frame.serial = ++frame_serial_;
    // Cached transitions are still used. From such an entry on, the frame is in a known state again.
    if (above.state) {
        if (uint64_t found = find(above.state, symbol); found && found >> 32 != deferred) {
            frame.state = static_cast<uint32_t>(found >> 32);
            frame.descend = words(states_[frame.state].pair.descend);
            frame.fresh = words(states_[frame.state].pair.fresh);
            frame.dead = frame.state == dead;
            frame.accept = words(static_cast<uint32_t>(found));
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
        if (uint64_t found = find(frame.state, symbol)) return accept(static_cast<uint32_t>(found), out);
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
        frame.descend = words(states_[state].pair.descend);
        frame.fresh = words(states_[state].pair.fresh);
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
        if (visitor_ && frame.accept.size) {
            visitor_->visit(static_cast<uint32_t>(i), frame.accept);
            visitor_->finish();
        }
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

// Keeps the states that documents keep returning to, in at most half of the memory; unless another thread has done so already.
// Which states those are, each thread knows of its own documents.
void Lazy::tidy() {
    std::vector<uint32_t> visits;
    std::shared_ptr<LazyStates> next = shared_;         // later the old ones, to be dropped without the mutex
    {
        std::lock_guard lock(cache_->mutex());
        if (generation_ == cache_->generation()) {
            for (const State& state : states_) visits.push_back(state.visits);
            for (uint32_t visits_min = 2; next == shared_ || next->bytes() > bytes_max_ / 2; visits_min *= 2) {
                const bool is_last = visits_min > 1u << 20;
                if (is_last) visits.clear();            // nothing is left but where everything begins
                next = keep_visited(*next, visits_min, visits);
                if (is_last) break;
            }
            cache_->replace(next);
        }
    }
    adopt();
    for (size_t state = 0; state < std::min(states_.size(), visits.size()); ++state) states_[state].visits = visits[state] / 2;
}

// Copies the states that were visited often enough, with the transitions between them. `visits`: by state, of the old ones; then of
// the new ones.
std::shared_ptr<LazyStates> Lazy::keep_visited(const LazyStates& old, uint32_t visits_min, std::vector<uint32_t>& visits) const {
    auto next = std::make_shared<LazyStates>(*machine_);
    std::vector<uint32_t> next_visits;
    // Old number -> new number; 0: dropped. Two passes, because a transition may lead to a state with a higher number.
    std::vector<uint32_t> kept(old.size(), 0);
    kept[deferred] = deferred;
    for (uint32_t s = 1; s < old.size(); ++s) {
        const uint32_t visited = s < visits.size() ? visits[s] : 0;      // a state that this thread has not met
        if (s == deferred || (visited < visits_min && s != dead)) continue;
        const uint32_t descend = next->pool().intern(old.pool().view(old.pair(s).descend));
        kept[s] = next->intern({descend, next->pool().intern(old.pool().view(old.pair(s).fresh))});
        if (next_visits.size() <= kept[s]) next_visits.resize(kept[s] + 1, 0);
        next_visits[kept[s]] = visited;
    }
    old.transitions().each([&](uint32_t state, uint32_t symbol, uint64_t value) {
        if (!kept[state] || !kept[value >> 32]) return;
        const uint32_t answers = next->pool().intern(old.pool().view(static_cast<uint32_t>(value)));
        next->set(kept[state], symbol, uint64_t(kept[value >> 32]) << 32 | answers);
    });
    visits = std::move(next_visits);
    return next;
}

}  // namespace treecast
