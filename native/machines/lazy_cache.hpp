// What is known of one Machine: the states and transitions of its deterministic form, shared by all threads that run it.
//
// Theory of operation. A thread that meets a transition that nobody has met takes a step of the NFA, without a lock, and enters what
// came out under the mutex; from then on all threads have it. So a document is learned once, whichever thread it comes to, and
// the memory does not grow with the threads. Reading takes no lock:
//   - transitions are in a table whose entries are written once their key is looked for, value first. A larger table takes the place
//     of the old one, which stays, because somebody may be reading it;
//   - sets of words are in memory that never moves and never changes. Threads keep copies of their addresses (Lazy), which
//     they bring up to date under the mutex when they meet a number that they do not have.
//
// Nothing is ever taken out of LazyStates. When memory is full, one thread makes new ones of what it has visited, and puts them in
// place of the old ones, which the others leave before their next document.
#pragma once

#include "base/fork.hpp"
#include "base/id_slots.hpp"
#include "base/seeded_hash.hpp"
#include "base/words.hpp"
#include "machines/machine.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
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
    SetPool() : sets_(1), hashes_(1) {}
    uint32_t intern(WordsView words);
    WordsView view(uint32_t set) const { return sets_[set]; }
    size_t size() const { return sets_.size(); }
    uint64_t bytes() const;

private:
    std::vector<WordsView> sets_;
    std::vector<uint32_t> hashes_;
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
    LazyTransitions() { tables_.push_back(std::make_unique<Table>(first_size)), table_ = tables_.back().get(); }
    struct Entry {
        std::atomic<uint64_t> key{0}, value{0};                      // key 0: vacant, as no state has the number 0
    };
    // The table that was in use at a moment, for one who looks up many. It stays valid; what is entered later may not be in it.
    // PERF: bench/yfilter.py, later passes: held in registers, it saves two loads that each wait for the other.
    class Reading {
    public:
        // PERF: as above. The state has 64 bits: GCC kept one of 32 bits on the stack and read eight bytes there, for which a
        // processor waits until the four that were written before have left its store buffer.
        uint64_t find(uint64_t state, uint32_t symbol) const {       // 0: not known
            const uint64_t key = state << 32 | symbol;
            for (size_t at = place(key);; at = (at + 1) & mask_) {
                const uint64_t there = entries_[at].key.load(std::memory_order_acquire);
                if (there == key) return entries_[at].value.load(std::memory_order_acquire);
                if (!there) return 0;
            }
        }
        void expect(uint32_t state, uint32_t symbol) const { __builtin_prefetch(&entries_[place(key_of(state, symbol))]); }

        Reading() = default;

    private:
        friend class LazyTransitions;
        Reading(const Entry* entries, size_t mask, const HashSeeds& seeds) : entries_(entries), mask_(mask), seeds_(seeds) {}
        size_t place(uint64_t key) const { return static_cast<size_t>(hash_words(seeds_, key, 0)) & mask_; }
        const Entry* entries_ = nullptr;
        size_t mask_ = 0;
        HashSeeds seeds_{};
    };
    Reading reading() const { return reading_of(*table_.load(std::memory_order_acquire)); }
    uint64_t find(uint32_t state, uint32_t symbol) const { return reading().find(state, symbol); }
    void set(uint32_t state, uint32_t symbol, uint64_t value);       // by one thread at a time
    uint64_t bytes() const;
    template <class F>
    void each(F&& f) const {                                         // f(state, symbol, value)
        const Table& table = *table_.load(std::memory_order_acquire);
        for (size_t at = 0; at <= table.mask; ++at)
            if (uint64_t key = table.entries[at].key) f(static_cast<uint32_t>(key >> 32), static_cast<uint32_t>(key), table.entries[at].value.load());
    }

private:
    struct Table {
        explicit Table(size_t size) : entries(new Entry[size]), mask(size - 1) {}
        const std::unique_ptr<Entry[]> entries;
        const size_t mask;
    };
    static uint64_t key_of(uint32_t state, uint32_t symbol) { return uint64_t(state) << 32 | symbol; }
    Reading reading_of(const Table& table) const { return {table.entries.get(), table.mask, seeds_}; }
    size_t place(const Table& table, uint64_t key) const { return reading_of(table).place(key); }
    void enter(Table& table, uint64_t key, uint64_t value) const;
    static constexpr size_t first_size = 64;
    const HashSeeds seeds_ = hash_seeds();
    std::atomic<Table*> table_;
    std::vector<std::unique_ptr<Table>> tables_;                     // the last is the one in use
    size_t used_ = 0;
};

// A pair of sets: the descend states alive and the states just reached, by their numbers.
struct LazyPair {
    uint32_t descend = 0, fresh = 0;
};

// All but transitions() is for whoever holds the mutex of the LazyCache.
class LazyStates {
public:
    static constexpr uint32_t dead = 1, deferred = 2;    // state 0 is none; below 1 nothing can match; 2 is not known yet
    explicit LazyStates(const Machine& machine);

    const LazyTransitions& transitions() const { return transitions_; }
    SetPool& pool() { return pool_; }
    const SetPool& pool() const { return pool_; }
    uint32_t intern(LazyPair pair);
    void set(uint32_t state, uint32_t symbol, uint64_t value) { transitions_.set(state, symbol, value); }
    size_t size() const { return pairs_.size(); }
    LazyPair pair(uint32_t state) const { return pairs_[state]; }
    uint32_t start() const { return start_; }
    uint64_t bytes() const { return pool_.bytes() + transitions_.bytes() + pairs_.capacity() * sizeof(LazyPair) + slots_.bytes(); }

private:
    SetPool pool_;
    LazyTransitions transitions_;        // target state << 32 | accept set
    std::vector<LazyPair> pairs_;        // by state
    const HashSeeds seeds_ = hash_seeds();
    IdSlots slots_;
    uint32_t start_ = 0;
};

// What all threads know of a machine.
class LazyCache {
public:
    using Symbol = std::array<uint32_t, 5>;              // count, then local labels, ascending
    explicit LazyCache(std::shared_ptr<const Machine> machine);

    const std::shared_ptr<const Machine>& machine() const { return machine_; }
    // Guards what is entered. fork() waits for it, so nothing that has a lock is made or dropped while it is held.
    MomentaryMutex& mutex() { return mutex_; }
    uint64_t generation() const { return generation_.load(std::memory_order_acquire); }       // another one where states were replaced

    // With the mutex:
    const std::shared_ptr<LazyStates>& states() const { return states_; }
    void replace(std::shared_ptr<LazyStates>& states) {  // `states` gets the old ones, to be dropped without the mutex
        states_.swap(states);
        generation_.fetch_add(1, std::memory_order_release);
        count();
    }
    uint32_t symbol(const Symbol& key);                  // its number; the same for all threads, and for good
    const std::vector<Symbol>& symbols() const { return symbols_; }
    void count() { bytes_.store(states_->bytes(), std::memory_order_relaxed); }      // after a change

    uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed) + copies_bytes_.load(std::memory_order_relaxed); }
    // The same, where each of the threads that are at work has copies of so many bytes.
    uint64_t bytes_with(uint64_t copies) const {
        return bytes_.load(std::memory_order_relaxed) + copies * at_work_.load(std::memory_order_relaxed);
    }
    void count_at_work(int change) { at_work_.fetch_add(static_cast<uint32_t>(change), std::memory_order_relaxed); }
    // What a thread has of its own has changed by so much.
    void count_copies(int64_t bytes) { copies_bytes_.fetch_add(static_cast<uint64_t>(bytes), std::memory_order_relaxed); }

private:
    const std::shared_ptr<const Machine> machine_;
    MomentaryMutex mutex_{1};                            // matching holds no other one
    std::shared_ptr<LazyStates> states_;
    std::atomic<uint64_t> generation_{1};
    std::atomic<uint64_t> bytes_{0}, copies_bytes_{0};
    std::atomic<uint32_t> at_work_{0};                   // threads
    std::vector<Symbol> symbols_;
    std::map<Symbol, uint32_t> symbol_ids_;
};

// The caches of an engine's machines, each for as long as somebody runs it.
class LazyCaches {
public:
    std::shared_ptr<LazyCache> of(const std::shared_ptr<const Machine>& machine);
    uint64_t bytes() const;

private:
    mutable MomentaryMutex mutex_{1};
    std::map<uint64_t, std::weak_ptr<LazyCache>> caches_;    // by the serial of the machine
};

}  // namespace treecast
