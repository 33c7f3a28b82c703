// The lazily built deterministic machine (YFilter discusses it in section 2.1; Y8) over one Machine.
//
// A deterministic state is a pair of sets: the descend states alive and the states just reached. The answers are attached to
// the transitions, not to the states. Leaves are not states, so most elements that end paths lead to few distinct states, and
// fewer states mean fewer misses. Of an element without children only the answers are computed, and its state is *deferred*
// until one with children comes along. All sets are interned, so equal ones are stored once and compared by number.
//
// What is learned is shared by all threads that run the same Machine (lazy_cache.hpp); which of it a document has visited is each
// thread's own.
//
// Memory is bounded. When the limit is reached in the middle of a document, the rest of it is matched by stepping the NFA itself
// on a stack of sets. Before the next document, the states that at least two documents visited are kept and the others dropped.
// If that does not help (most steps still miss), the machine stops caching for a while: documents are stepped on the NFA, and
// what is cached is used but not extended.
//
// One Lazy belongs to one thread at a time.
#pragma once

#include "base/answer_bits.hpp"
#include "base/words.hpp"
#include "document/document.hpp"
#include "machines/lazy_cache.hpp"
#include "machines/machine.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace treecast {

// What a Lazy asks about the names of a document.
class NameResolver {
public:
    virtual ~NameResolver() = default;
    virtual const NameLabels& labels(uint32_t name) = 0;
    virtual uint32_t target_label(std::string_view target) = 0;      // of an instruction with this target, or none
};

// Who wants to know which paths end at which element, not only in which document.
class ElementVisitor {
public:
    virtual void visit(uint32_t element, WordsView accepts) = 0;      // the accept ids stay until finish() returns
    virtual void finish() = 0;                                        // comes after each visit, or after several

protected:
    ~ElementVisitor() = default;
};

class Lazy {
public:
    explicit Lazy(std::shared_ptr<LazyCache> cache);
    ~Lazy();
    Lazy(const Lazy&) = delete;

    const Machine& machine() const { return *machine_; }
    void set_bytes_max(uint64_t bytes) { bytes_max_ = bytes; }      // of the cache, whoever fills it
    void forget_names();        // the name table of the reader has started afresh
    // For one that is put aside: others may replace what is shared, and then the old is not to stay.
    void rest();

    // Adds the accept ids of all paths that the document satisfies to `out`.
    void run(const Document& document, const std::vector<uint8_t>& has_text, NameResolver& names, AnswerBits& out);
    // Calls the visitor for every element where some path ends, in document order. For machines of elements alone.
    void visit_elements(const Document& document, NameResolver& names, ElementVisitor& visitor);

private:
    struct State {
        LazyPair pair;
        uint32_t visits = 0;            // documents, halved at every clean-up
        uint64_t document = 0;          // the last that visited it
    };
    struct Set {
        WordsView words;
        uint64_t document = 0;          // likewise
    };
    struct Frame {                      // an open element, when stepping the NFA
        uint32_t state = 0;             // its deterministic state, or 0: then the sets are the frame's own
        bool dead = false;
        uint32_t symbol = none;         // the symbol this frame was computed for, from the frame above with that serial
        uint64_t serial = 0, above = 0;
        WordsView descend, fresh, accept;     // accept: where there is a visitor
        Words own_descend, own_fresh, own_accept;
    };
    struct Walk;
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

    static constexpr uint32_t dead = LazyStates::dead, deferred = LazyStates::deferred;

    // Of what is shared, a thread has copies of the sets' addresses and of the states' pairs, with marks of its own beside them.
    void adopt();                                            // what is present, unless it is what this thread has
    void catch_up();                                         // without the mutex
    void copy_rows();                                        // with it
    // A transition as it was found: another thread may have entered what it leads to.
    uint64_t follow(uint64_t transition) {
        if (transition >> 32 >= states_.size() || static_cast<uint32_t>(transition) >= sets_.size()) catch_up();
        return transition;
    }
    uint64_t find(uint32_t state, uint32_t symbol) { return follow(transitions_->find(state, symbol)); }
    WordsView words(uint32_t set) const { return sets_[set].words; }
    // A set of answers is added to a document's result once, however often its transition is taken.
    bool first_visit(uint32_t set) {
        if (sets_[set].document == document_) return false;
        sets_[set].document = document_;
        return true;
    }
    void expect_words(uint32_t set) const {
        __builtin_prefetch(sets_[set].words.index);
        __builtin_prefetch(sets_[set].words.mask);
    }
    bool is_full();
    uint64_t miss(uint32_t state, uint32_t symbol);          // 0: the cache is full
    uint64_t miss_childless(uint32_t state, uint32_t symbol);    // the same, where only the answers matter
    uint64_t learn(uint32_t state, uint32_t symbol, bool is_childless);    // one of them, unless somebody else was there
    // Visits count documents, not elements, so one large document cannot make a state look popular.
    void visit(uint32_t state) {
        State& s = states_[state];
        if (s.document != document_) {
            s.document = document_;
            ++s.visits;
        }
    }
    void accept(uint32_t set, AnswerBits& out) {
        if (set && first_visit(set)) out.add(words(set));
    }
    void accept_reached(size_t count, AnswerBits& out);
    size_t run_cached(const Document& document, const std::vector<uint8_t>& has_text, NameResolver& names, AnswerBits& out);
    void run_plain(const Document& document, size_t begin, const std::vector<uint8_t>& has_text, NameResolver& names,
                   AnswerBits& out);
    void enter(const Frame& above, Frame& frame, uint32_t symbol, AnswerBits& out);
    void peek(const Frame& frame, uint32_t symbol, AnswerBits& out);   // an attribute or text: answers only
    void tidy();
    std::shared_ptr<LazyStates> keep_visited(const LazyStates& old, uint32_t visits_min, std::vector<uint32_t>& visits) const;

    const std::shared_ptr<LazyCache> cache_;
    const Machine* const machine_;
    uint64_t bytes_max_ = 256ull << 20;
    std::shared_ptr<LazyStates> shared_;
    const LazyTransitions* transitions_ = nullptr;      // of shared_
    uint64_t generation_ = 0;               // of the cache, to which the copies belong
    std::vector<State> states_;             // copies of those of shared_, as far as this thread has met them
    std::vector<Set> sets_;                 // likewise
    uint64_t copies_bytes_ = 0;
    bool is_at_work_ = false;               // not resting
    uint32_t start_ = 0;

    std::vector<LazyCache::Symbol> symbols_;            // those of cache_, likewise
    std::vector<uint32_t> element_symbols_, attribute_symbols_;
    uint32_t text_symbol_ = none;

    uint64_t document_ = 0;
    ElementVisitor* visitor_ = nullptr;     // of the run in progress, if there is one
    bool full_ = false;
    uint64_t steps_ = 0, misses_ = 0;       // since the last clean-up
    uint32_t plain_left_ = 0, plain_length_ = 0;

    std::vector<uint32_t> state_of_;        // by element
    std::vector<uint32_t> reached_;         // room for sets of answers, with repetitions
    std::vector<Frame> frames_;
    uint64_t frame_serial_ = 0;
    Words fresh_, accept_, descend_, united_;
    std::vector<uint64_t> scratch_;
};

}  // namespace treecast
