// The lazily built deterministic machine (YFilter discusses it in section 2.1; Y8) over one Machine.
//
// A deterministic state is a pair of sets: the descend states alive and the states just reached. The answers are attached to
// the transitions, not to the states. Leaves are not states, so most elements that end paths lead to few distinct states, and
// fewer states mean fewer misses. Of an element without children only the answers are computed, and its state is *deferred*
// until one with children comes along. All sets are interned, so equal ones are stored once and compared by number.
//
// Memory is bounded. When the limit is reached in the middle of a document, the rest of it is matched by stepping the NFA itself
// on a stack of sets. Before the next document, the states that at least two documents visited are kept and the others dropped.
// If that does not help (most steps still miss), the machine stops caching for a while: documents are stepped on the NFA, and
// what is cached is used but not extended.
//
// One Lazy belongs to one thread at a time.
#pragma once

#include "base/answer_bits.hpp"
#include "base/id_slots.hpp"
#include "base/seeded_hash.hpp"
#include "base/words.hpp"
#include "document/document.hpp"
#include "machines/machine.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

namespace treecast {

// Memory in pieces that never move; everything is freed at once.
template <class T>
class Arena {
public:
    T* take(size_t count) {
        if (count > left_) {
            size_t piece = std::max(count, std::min<size_t>(piece_max, total_ / 4 + 256));
            pieces_.emplace_back(new T[piece]);
            next_ = pieces_.back().get();
            left_ = piece;
            total_ += piece;
        }
        T* taken = next_;
        next_ += count;
        left_ -= count;
        return taken;
    }
    uint64_t bytes() const { return total_ * sizeof(T); }

private:
    static constexpr size_t piece_max = 1 << 16;
    std::vector<std::unique_ptr<T[]>> pieces_;
    T* next_ = nullptr;
    size_t left_ = 0, total_ = 0;
};

// Interned sets; number 0 is the empty one.
class SetPool {
public:
    SetPool() : sets_(1) {}
    uint32_t intern(WordsView words);
    WordsView view(uint32_t set) const { return {sets_[set].index, sets_[set].mask, sets_[set].size}; }
    // A set of answers is added to a document's result once, however often its transition is taken.
    bool first_visit(uint32_t set, uint64_t document) {
        if (sets_[set].document == document) return false;
        sets_[set].document = document;
        return true;
    }
    // What is asked for soon.
    void expect(uint32_t set) const { __builtin_prefetch(&sets_[set], 1); }
    void expect_words(uint32_t set) const {
        __builtin_prefetch(sets_[set].index);
        __builtin_prefetch(sets_[set].mask);
    }
    uint64_t bytes() const;

private:
    struct Set {
        const uint32_t* index = nullptr;
        const uint64_t* mask = nullptr;
        uint32_t size = 0, hash = 0;
        uint64_t document = 0;      // the last document that visited it
    };
    std::vector<Set> sets_;
    const HashSeeds seeds_ = hash_seeds();
    IdSlots slots_;
    Arena<uint32_t> indexes_;
    Arena<uint64_t> masks_;
};

// What follows a state on a symbol, where that is known: a target state and a set of answers, as one number. Nobody keeps rows by state:
// most states meet few of all symbols, and what is small stays in the caches of a core.
// PERF: bench/churn.py, bench/yfilter.py.
class LazyTransitions {
public:
    uint64_t find(uint32_t state, uint32_t symbol) const {           // 0: not known
        const uint64_t key = key_of(state, symbol);
        for (size_t at = place(key);; at = (at + 1) & mask_) {
            if (entries_[at].key == key) return entries_[at].value;
            if (!entries_[at].key) return 0;
        }
    }
    void expect(uint32_t state, uint32_t symbol) const { __builtin_prefetch(&entries_[place(key_of(state, symbol))]); }
    void set(uint32_t state, uint32_t symbol, uint64_t value);
    uint64_t bytes() const { return entries_.capacity() * sizeof(Entry); }
    template <class F>
    void each(F&& f) const {                                         // f(state, symbol, value)
        for (const Entry& entry : entries_)
            if (entry.key) f(static_cast<uint32_t>(entry.key >> 32), static_cast<uint32_t>(entry.key), entry.value);
    }

private:
    struct Entry {
        uint64_t key = 0, value = 0;                                 // key 0: vacant, as no state has the number 0
    };
    static uint64_t key_of(uint32_t state, uint32_t symbol) { return uint64_t(state) << 32 | symbol; }
    size_t place(uint64_t key) const { return static_cast<size_t>(hash_words(seeds_, key, 0)) & mask_; }
    static constexpr size_t first_size = 64;
    const HashSeeds seeds_ = hash_seeds();
    std::vector<Entry> entries_ = std::vector<Entry>(first_size);
    size_t mask_ = first_size - 1, used_ = 0;
};

// What a Lazy asks about the names of a document.
class NameResolver {
public:
    virtual ~NameResolver() = default;
    virtual const NameLabels& labels(uint32_t name) = 0;
};

// Who wants to know which paths end at which element, not only in which document.
class ElementVisitor {
public:
    virtual void visit(uint32_t element, WordsView accepts) = 0;      // the accept ids stay until it returns

protected:
    ~ElementVisitor() = default;
};

class Lazy {
public:
    explicit Lazy(std::shared_ptr<const Machine> machine);

    const Machine& machine() const { return *machine_; }
    void set_bytes_max(uint64_t bytes) { bytes_max_ = bytes; }
    uint64_t bytes() const;
    void forget_names();        // the name table of the reader has started afresh

    // Adds the accept ids of all paths that the document satisfies to `out`.
    void run(const Document& document, const std::vector<uint8_t>& has_text, NameResolver& names, AnswerBits& out);
    // Calls the visitor for every element where some path ends, in document order. For machines of elements alone.
    void visit_elements(const Document& document, NameResolver& names, ElementVisitor& visitor);

private:
    struct State {
        uint32_t descend = 0, fresh = 0;
        uint32_t visits = 0;            // documents, halved at every clean-up
        uint64_t document = 0;
    };
    struct Frame {                      // an open element, when stepping the NFA
        uint32_t state = 0;             // its deterministic state, or 0: then the sets are the frame's own
        bool dead = false;
        uint32_t symbol = none;         // the symbol this frame was computed for, from the frame above with that serial
        uint64_t serial = 0, above = 0;
        WordsView descend, fresh, accept;     // accept: where there is a visitor
        Words own_descend, own_fresh, own_accept;
    };
    static constexpr uint32_t unresolved = none - 1;

    // Symbols are looked up once per name, not once per element.
    uint32_t element_symbol(uint32_t name, NameResolver& names) {
        if (name >= element_symbols_.size()) element_symbols_.resize(name + 1 + name / 2, unresolved);
        uint32_t symbol = element_symbols_[name];
        return symbol != unresolved ? symbol : element_symbols_[name] = resolve(names.labels(name).element, label_element_any, true);
    }
    uint32_t attribute_symbol(uint32_t name, NameResolver& names) {
        if (name >= attribute_symbols_.size()) attribute_symbols_.resize(name + 1 + name / 2, unresolved);
        uint32_t symbol = attribute_symbols_[name];
        return symbol != unresolved ? symbol
                                    : attribute_symbols_[name] = resolve(names.labels(name).attribute, label_attribute_any, false);
    }
    uint32_t resolve(std::span<const uint32_t> labels, uint32_t any, bool element);
    std::span<const uint32_t> symbol_labels(uint32_t symbol) const {
        return {symbols_[symbol].data() + 1, symbols_[symbol][0]};
    }

    void reset();
    uint32_t intern_state(uint32_t descend, uint32_t fresh);
    uint64_t miss(uint32_t state, uint32_t symbol);          // 0: the cache is full
    uint64_t miss_childless(uint32_t state, uint32_t symbol);    // the same, where only the answers matter
    // Visits count documents, not elements, so one large document cannot make a state look popular.
    void visit(uint32_t state) {
        State& s = states_[state];
        if (s.document != document_) {
            s.document = document_;
            ++s.visits;
        }
    }
    void accept(uint32_t set, AnswerBits& out) {
        if (set && pool_->first_visit(set, document_)) out.add(pool_->view(set));
    }
    // The same, together with all others that a document has reached.
    void reach(uint32_t set) {
        if (set) reached_.push_back(set);
    }
    void accept_reached(AnswerBits& out);
    void expect(const Document& document, size_t element, size_t done) const;
    size_t run_cached(const Document& document, const std::vector<uint8_t>& has_text, NameResolver& names, AnswerBits& out);
    void run_plain(const Document& document, size_t begin, const std::vector<uint8_t>& has_text, NameResolver& names,
                   AnswerBits& out);
    void enter(const Frame& above, Frame& frame, uint32_t symbol, AnswerBits& out);
    void peek(const Frame& frame, uint32_t symbol, AnswerBits& out);   // an attribute or text: answers only
    void tidy();
    void keep_visited(uint32_t visits_min);

    std::shared_ptr<const Machine> machine_;
    uint64_t bytes_max_ = 256ull << 20;
    std::unique_ptr<SetPool> pool_;
    std::unique_ptr<LazyTransitions> transitions_;      // target state << 32 | accept set
    std::vector<State> states_;             // 0 is none, 1 is dead: nothing can match below; 2 is deferred: not known yet
    const HashSeeds seeds_ = hash_seeds();
    IdSlots state_slots_;
    uint32_t start_ = 0;

    std::vector<std::array<uint32_t, 5>> symbols_;      // count, then local labels, ascending
    std::map<std::array<uint32_t, 5>, uint32_t> symbol_ids_;
    std::vector<uint32_t> element_symbols_, attribute_symbols_;
    uint32_t text_symbol_ = none;

    uint64_t document_ = 0;
    ElementVisitor* visitor_ = nullptr;     // of the run in progress, if there is one
    bool full_ = false;
    uint64_t steps_ = 0, misses_ = 0;       // since the last clean-up
    uint32_t plain_left_ = 0, plain_length_ = 0;

    std::vector<uint32_t> state_of_;        // by element
    std::vector<uint32_t> reached_;         // sets of answers, with repetitions
    std::vector<Frame> frames_;
    uint64_t frame_serial_ = 0;
    Words fresh_, accept_, descend_, united_;
    std::vector<uint64_t> scratch_;
};

}  // namespace treecast
