// Enters sets, states and transitions, for all threads. lazy_cache.hpp has the theory.
#include "machines/lazy_cache.hpp"

#include <cstring>

namespace treecast {

namespace {

// Queries and documents together decide which sets exist, so their hashes are seeded like those of names.
uint32_t hash_set(const HashSeeds& seeds, WordsView words) {
    uint64_t hash = words.size ^ seeds.c;
    for (uint32_t i = 0; i < words.size; ++i) hash = hash_words(seeds, hash + words.index[i], words.mask[i]);
    return static_cast<uint32_t>(hash ^ hash >> 32);
}

uint32_t hash_pair(const HashSeeds& seeds, LazyPair pair) { return static_cast<uint32_t>(hash_words(seeds, pair.descend, pair.fresh)); }

}  // namespace

// The number of a set. Sets are immutable from here on, so states with equal sets share their memory.
// If memory runs out, a set may be there that nobody finds: it does no harm.
uint32_t SetPool::intern(WordsView words) {
    if (words.size == 0) return 0;
    uint32_t hash = hash_set(seeds_, words);
    uint32_t known = slots_.find(hash, [&](uint32_t s) {
        const WordsView& set = sets_[s];
        return hashes_[s] == hash && set.size == words.size &&
               std::memcmp(set.index, words.index, words.size * sizeof(uint32_t)) == 0 &&
               std::memcmp(set.mask, words.mask, words.size * sizeof(uint64_t)) == 0;
    });
    if (known != IdSlots::empty) return known;
    uint32_t* index = indexes_.take(words.size);
    uint64_t* mask = masks_.take(words.size);
    std::memcpy(index, words.index, words.size * sizeof(uint32_t));
    std::memcpy(mask, words.mask, words.size * sizeof(uint64_t));
    auto number = static_cast<uint32_t>(sets_.size());
    hashes_.resize(number);                     // one of them may have been left without a set
    hashes_.push_back(hash);
    sets_.push_back({index, mask, words.size});
    slots_.add(hash, number, [&](uint32_t s) { return hashes_[s]; });
    return number;
}

uint64_t SetPool::bytes() const {
    return sets_.capacity() * sizeof(WordsView) + hashes_.capacity() * sizeof(uint32_t) + slots_.bytes() + indexes_.bytes() + masks_.bytes();
}

// The value before the key: who finds the key finds the value.
void LazyTransitions::enter(Table& table, uint64_t key, uint64_t value) const {
    size_t at = place(table, key);
    while (table.entries[at].key.load(std::memory_order_relaxed)) at = (at + 1) & table.mask;
    table.entries[at].value.store(value, std::memory_order_relaxed);
    table.entries[at].key.store(key, std::memory_order_release);
}

// At most half of the table is used: what is not there is noticed at once.
void LazyTransitions::set(uint32_t state, uint32_t symbol, uint64_t value) {
    const uint64_t key = key_of(state, symbol);
    Table* table = table_.load(std::memory_order_relaxed);
    for (size_t at = place(*table, key); uint64_t there = table->entries[at].key.load(std::memory_order_relaxed); at = (at + 1) & table->mask)
        if (there == key) return table->entries[at].value.store(value, std::memory_order_release);
    if (2 * (used_ + 1) > table->mask + 1) {
        tables_.reserve(tables_.size() + 1);
        auto larger = std::make_unique<Table>(2 * (table->mask + 1));
        each([&](uint32_t s, uint32_t by, uint64_t known) { enter(*larger, key_of(s, by), known); });
        table = larger.get();
        tables_.push_back(std::move(larger));
        table_.store(table, std::memory_order_release);
    }
    ++used_;
    enter(*table, key, value);
}

uint64_t LazyTransitions::bytes() const {
    uint64_t total = 0;
    for (const auto& table : tables_) total += (table->mask + 1) * sizeof(Entry);
    return total;
}

LazyStates::LazyStates(const Machine& machine) : pairs_(1) {
    intern({});                                 // number 1: dead
    pairs_.push_back({none, none});             // number 2: deferred; no pair of sets leads to it
    Words fresh, descend;
    machine.start(fresh, descend);
    const uint32_t alive = pool_.intern(descend.view());
    start_ = intern({alive, pool_.intern(fresh.view())});
}

// The number of the state for a pair of sets. Sets are numbers themselves, so comparing states compares two pairs.
uint32_t LazyStates::intern(LazyPair pair) {
    uint32_t hash = hash_pair(seeds_, pair);
    uint32_t known = slots_.find(hash, [&](uint32_t s) { return pairs_[s].descend == pair.descend && pairs_[s].fresh == pair.fresh; });
    if (known != IdSlots::empty) return known;
    auto number = static_cast<uint32_t>(pairs_.size());
    pairs_.push_back(pair);
    slots_.add(hash, number, [&](uint32_t s) { return hash_pair(seeds_, pairs_[s]); });
    return number;
}

LazyCache::LazyCache(std::shared_ptr<const Machine> machine)
    : machine_(std::move(machine)), states_(std::make_shared<LazyStates>(*machine_)) {
    count();
}

uint32_t LazyCache::symbol(const Symbol& key) {
    if (auto known = symbol_ids_.find(key); known != symbol_ids_.end()) return known->second;
    if (symbols_.size() == symbols_.capacity()) symbols_.reserve(2 * symbols_.size() + 8);
    const auto number = static_cast<uint32_t>(symbols_.size());
    symbol_ids_.emplace(key, number);
    symbols_.push_back(key);
    return number;
}

// Made first, and dropped again if there is one: a cache has a lock of its own.
std::shared_ptr<LazyCache> LazyCaches::of(const std::shared_ptr<const Machine>& machine) {
    auto fresh = std::make_shared<LazyCache>(machine);
    std::lock_guard lock(mutex_);
    std::erase_if(caches_, [](const auto& entry) { return entry.second.expired(); });
    std::weak_ptr<LazyCache>& known = caches_[machine->serial()];
    if (auto cache = known.lock()) return cache;
    known = fresh;
    return fresh;
}

uint64_t LazyCaches::bytes() const {
    std::vector<std::shared_ptr<LazyCache>> alive;         // dropped after the lock is
    std::lock_guard lock(mutex_);
    alive.reserve(caches_.size());
    uint64_t total = 0;
    for (const auto& [serial, cache] : caches_)
        if (auto one = cache.lock()) {
            total += one->bytes();
            alive.push_back(std::move(one));
        }
    return total;
}

}  // namespace treecast
