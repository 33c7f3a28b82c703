// Our own engine: the shared machines, for plain paths and for tree patterns, and how they change while others match.
//
// Theory of operation. The query of a subscription is one or more *paths*: plain ones, or tree patterns if it has predicates.
// Equal paths are stored once, and a path has a chain of the subscriptions that ask for it. Paths live in one of several
// places, as in a log-structured merge tree:
//   - the Delta: up to 1,500 plain ones, each added in a microsecond;
//   - Machines (plain paths) and TreeMachines (patterns), each at least `merge_ratio` or `tree_merge_ratio` times larger than
//     what was added after it. A full Delta is merged with all machines that are not much larger, so a path is rebuilt
//     O(log n) times in its life. TreeMachines are also merged by those who match (merge_credit.hpp). Large Machines are merged
//     in slices, a little with every addition (path_merge.hpp), so that nobody waits for them.
//
// A subscription whose patterns say less than its query (pattern.hpp) is flagged: where they hold, the query itself is evaluated.
//
// Adding a subscription to a known path, or removing one, changes no machine. It changes the path's chain and marks the path's
// accept id as *dirty*, so that the chain is walked when it matches. All other accept ids lead straight to one slot. A path that had
// several subscriptions when its machine was built is dirty too, and has a *list* of their slots, which is read instead of the chain
// until one of them goes or another comes.
//
// Readers work without a lock while a writer writes: a View has an immutable list of places, plus buffers that only grow.
// A change first does everything that can fail where no reader looks: rows beyond the ends that Views know, and machines that
// nobody has yet. What is left for commit() is stores into memory that is already there.
#pragma once

#include "base/array.hpp"
#include "base/packed_rows.hpp"
#include "base/seeded_hash.hpp"
#include "engines/engine.hpp"
#include "engines/merge_credit.hpp"
#include "machines/delta.hpp"
#include "machines/label.hpp"
#include "machines/lazy_cache.hpp"
#include "machines/machine.hpp"
#include "machines/tree_machine.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace treecast {

// A link of a path's chain: a slot, or with the high bit set an entry of `Extra` (subscriptions with several paths).
constexpr uint32_t extra_bit = 0x80000000u;
struct Extra {
    uint32_t slot, next;
};

// Where paths live: a machine of either kind, and what its accept ids stand for.
struct MachinePlace {
    std::shared_ptr<const Machine> machine;
    std::shared_ptr<const TreeMachine> tree;
    uint32_t accepts() const { return machine ? machine->accepts() : tree->accepts(); }
    uint32_t states() const { return machine ? machine->states() : tree->entries(); }
    uint64_t serial() const { return machine ? machine->serial() : tree->serial(); }
    // By accept id; slot_of where it is not dirty. Where it is, a list may begin there: list_bit | its place further down in slot_of, where
    // there are a count and so many slots, each with extra_bit if it has several paths, the count too if one has.
    Array<uint32_t> path_of, slot_of;
    static constexpr uint32_t list_bit = 0x80000000u;
    const uint32_t* list_of(uint32_t accept) const {                  // null: the chain has to be walked
        const uint32_t link = std::atomic_ref(const_cast<uint32_t&>(slot_of[accept])).load(std::memory_order_relaxed);
        return link != none && link & list_bit ? &slot_of[link & ~list_bit] : nullptr;
    }
    // By word of accept ids; changed and read atomically. PERF: bench/churn.py. A vacant one is dirty too, and its chain was seen to be
    // empty: after many removals it is not walked in vain. Not all that are empty need be known: a file has none of them.
    Array<uint64_t> dirty, vacant;
    void clear_marks(size_t accepts) {
        dirty.assign((accepts + 63) / 64, 0);
        vacant.assign(dirty.size(), 0);
    }
    uint64_t dirty_in(uint32_t word) const { return std::atomic_ref(const_cast<uint64_t&>(dirty[word])).load(std::memory_order_relaxed); }
    uint64_t vacant_in(uint32_t word) const { return std::atomic_ref(const_cast<uint64_t&>(vacant[word])).load(std::memory_order_relaxed); }
    void mark(uint32_t accept) {
        std::atomic_ref(dirty[accept >> 6]).fetch_or(1ull << (accept & 63), std::memory_order_relaxed);
        if (list_of(accept)) std::atomic_ref(slot_of[accept]).store(none, std::memory_order_relaxed);
    }
    void set_vacant(uint32_t accept, bool is_vacant) {
        std::atomic_ref word(vacant[accept >> 6]);
        const uint64_t bit = 1ull << (accept & 63);
        is_vacant ? word.fetch_or(bit, std::memory_order_relaxed) : word.fetch_and(~bit, std::memory_order_relaxed);
    }
    uint64_t bytes() const;
};

constexpr size_t plain_places_max = 24, tree_places_max = 8, places_max = plain_places_max + tree_places_max;      // plain paths come first
using Places = std::array<std::shared_ptr<MachinePlace>, places_max>;

// What a View holds of the engine.
class LazyDfaState final : public EngineState {
public:
    std::shared_ptr<const LabelTable> labels;
    Places places;
    std::shared_ptr<const Delta> delta;
    std::shared_ptr<uint32_t[]> heads, next;
    std::shared_ptr<Extra[]> extras;
    std::shared_ptr<uint8_t[]> needs_recheck;         // by slot: its patterns say less than its query

    // Calls f(slot, several) for every live subscription of a path. `several`: it has other paths too, or needs a recheck.
    template <class F>
    void subscribers(const View& view, uint32_t path, F&& f) const {
        uint32_t link = std::atomic_ref<uint32_t>(heads[path]).load(std::memory_order_acquire);
        while (link != none) {
            bool several = link & extra_bit;
            uint32_t slot = several ? extras[link & ~extra_bit].slot : link;
            uint32_t after = several ? extras[link & ~extra_bit].next : next[link];
            if (slot < view.slots && view.is_alive(slot)) f(slot, several);
            link = after;
        }
    }
};

class PathMerge;

class LazyDfaEngine final : public Engine {
public:
    explicit LazyDfaEngine(const HashSeeds& seeds);
    ~LazyDfaEngine() override;

    std::unique_ptr<EngineRun> make_run(uint32_t work_per_item_max) const override;
    void begin(const Subscriptions& rows) override;
    void add(uint32_t slot, const Query& query, bool ordered) override;
    void remove(uint32_t slot) override { removed_slots_.push_back(slot); }
    void prepare(const Subscriptions& rows, bool merges) override;
    void renumber(std::span<const uint32_t> slots, const Subscriptions& rows) override;
    bool is_merge_due() const override { return credit_.is_due(); }
    void merge(const Subscriptions& rows) override;
    bool is_compact() const override;
    void commit(const Subscriptions& rows, bool alone) noexcept override;
    void rollback(const Subscriptions& rows) noexcept override;
    std::shared_ptr<EngineState> make_state() const override { return std::make_shared<LazyDfaState>(); }
    void fill(EngineState& state) const noexcept override;
    EngineStats stats() const override;
    uint64_t cache_bytes() const override { return caches_.bytes(); }
    void add_to(Digest& digest) const override;
    void save(SnapshotWriter& writer, const StoreParts& store) const override;
    bool load(SnapshotReader& reader, const StoreParts& store, uint32_t slots) override;

private:
    static constexpr uint8_t pending = 0xFD, in_delta = 0xFE, nowhere = 0xFF;
    static constexpr uint32_t several_bit = 0x80000000u;
    // PERF: bench/shapes.py. Every machine walks over the document, and a walk for patterns costs more than one for plain paths:
    // so they are merged sooner, and there are fewer of them, although an addition then takes a third longer. That holds up to
    // MergeCredit::patterns_max: larger ones take seconds to merge, during which nothing can be added.
    static constexpr size_t merge_ratio = 4, tree_merge_ratio = 16, delta_paths_max = 256;
    // PERF: bench/churn.py, slowest addition. As many paths may be merged at once; what is more is merged in slices, a slice of each
    // merge with every path that is added. A path takes some 200 units, and a merge has to be done before there are as many paths
    // again as the smaller half of it: that takes about 2,000 units a path.
    static constexpr size_t merged_at_once_max = 2048;
    static_assert(merged_at_once_max >= Delta::paths_max + delta_paths_max);
    static constexpr uint64_t units_per_addition = 2500;
    static constexpr uint32_t links_walked_max = 32;

    // Everything that is replaced at once when slots are renumbered.
    struct Paths {
        std::shared_ptr<LabelTable> labels = std::make_shared<LabelTable>();
        // by slot
        Array<uint32_t> next;
        Array<uint8_t> needs_recheck;
        Array<uint32_t> slot_paths;                             // a path, or several_bit | index into lists
        Array<uint32_t> lists;                                  // a count, and so many paths
        Array<Extra> extras;
        // by path
        PackedRows keys;                                        // see path_key.hpp
        Array<uint32_t> heads;
        Array<uint32_t> accept_of;                              // in its machine, or its bit in the delta
        Array<uint8_t> place_of;
        Array<uint32_t> path_table;                             // for probe_marked(); that of a file for probe()
        Array<uint32_t> added_table;                            // of paths from `loaded` on, while path_table is that of a file
        uint32_t loaded = 0;
        uint64_t keys_compared = 0;                             // see EngineStats
        Places places;
        std::shared_ptr<const Delta> delta = std::make_shared<Delta>();
        HashSeeds own, seeds;                                   // of whatever is added, and of path_table
        struct Chain { uint32_t dead, sweep_at; };              // links to the dead that a long chain has, and may have
        NumberMap<uint32_t, Chain> chains;                      // by path
        std::vector<std::unique_ptr<PathMerge>> merges;         // under way

        explicit Paths(const HashSeeds& seeds_);
        ~Paths();
        uint32_t slots() const { return static_cast<uint32_t>(slot_paths.size()); }
        std::span<const uint32_t> of_slot(uint32_t slot) const;
        std::string_view key(uint32_t path) const { return keys[path]; }
        // A loaded table has seeds that anybody can compute. Looking something up in it does no harm, and nothing is added to it.
        bool has_saved_table() const { return !(seeds == own); }
        Array<uint32_t> lay_out_table(const HashSeeds& with) const;
    };
    static constexpr size_t kept_max = 1 << 16;          // of memory that is kept from one small change to the next
    struct NewQueries {                    // what add() was given, until prepare() makes rows of it
        std::string bytes;                 // the keys of all paths, one after the other
        std::vector<size_t> path_ends;     // in `bytes`
        std::vector<size_t> item_ends;     // in `path_ends`
        std::vector<uint8_t> needs_recheck;       // by item
        size_t size() const { return item_ends.size(); }
        std::string_view key(size_t p) const {
            size_t begin = p ? path_ends[p - 1] : 0;
            return {bytes.data() + begin, path_ends[p] - begin};
        }
        void clear() noexcept {
            if (bytes.capacity() > kept_max || needs_recheck.capacity() > kept_max) *this = {};
            bytes.clear(), path_ends.clear(), item_ends.clear(), needs_recheck.clear();
        }
        void end_path() { path_ends.push_back(bytes.size()); }
        void end_item(bool recheck) {
            item_ends.push_back(path_ends.size());
            needs_recheck.push_back(recheck);
        }
    };
    struct Mark {                          // the ends of the rows, to go back to
        Mark() = default;
        explicit Mark(const Paths& paths);
        uint32_t labels = 0, slots = 0, paths = 0;
        size_t lists = 0;
        uint64_t keys = 0;                 // bytes of them
    };
    struct Placing {                       // where paths are to live
        struct NewPlace {
            std::shared_ptr<MachinePlace> place;
            uint8_t home;
            std::vector<uint32_t> paths, accept_of;
        };
        Places places;
        std::vector<NewPlace> built;
        std::shared_ptr<const Delta> delta;              // null: nothing is to move
        std::vector<uint32_t> delta_paths, delta_bits, homeless;
        std::vector<PathMerge*> done;                    // merges that are in force with this change
        size_t fresh_trees = 0;
    };
    struct TreePlaces {                    // those with a TreeMachine, ascending by its size
        explicit TreePlaces(const Places& places);
        std::array<uint8_t, tree_places_max> place;
        std::array<uint32_t, tree_places_max> size;
        size_t count = 0;
        std::span<const uint32_t> sizes() const { return std::span(size).first(count); }
    };
    struct Change {                        // rows that have been added, and are not in force yet
        std::vector<uint32_t> paths, fresh;
        std::vector<size_t> path_ends;     // by item, in `paths`
        std::vector<uint32_t> wanted;      // `paths` sorted, once somebody asked
        uint32_t first_slot = 0;
        bool merges = true;                // machines with others that are not much larger
        Placing placing;
        void clear() noexcept {
            if (paths.capacity() + path_ends.capacity() > kept_max || placing.homeless.capacity() > kept_max || !placing.built.empty()) {
                *this = {};
                return;
            }
            paths.clear(), fresh.clear(), path_ends.clear(), wanted.clear();
            first_slot = 0, merges = true;
            for (auto& place : placing.places) place = nullptr;
            placing.delta = nullptr;
            placing.delta_paths.clear(), placing.delta_bits.clear(), placing.homeless.clear(), placing.done.clear();
            placing.fresh_trees = 0;
        }
    };

    // lazydfa.cpp
    static void reserve_links(Paths& paths, const NewQueries& queries);
    static void list_paths(Paths& paths, uint32_t slot, std::span<const uint32_t> numbers);
    void add_rows(Paths& paths, const Subscriptions& rows, const NewQueries& queries, Change& change);
    static void link(Paths& paths, uint32_t slot, std::span<const uint32_t> numbers) noexcept;
    static void unlink(Paths& paths, const Subscriptions& rows, uint32_t path, uint32_t slot, bool alone) noexcept;
    void end_change() noexcept;
    // lazydfa_places.cpp
    static void reserve_path(Paths& paths);
    static uint32_t add_path(Paths& paths, std::string_view key, std::vector<uint32_t>& fresh);
    static void forget_path(Paths& paths, uint32_t path) noexcept;
    static void mark_dirty(Paths& paths, uint32_t path) noexcept;
    static void set_vacant(Paths& paths, uint32_t path, bool is_vacant) noexcept;
    static bool is_wanted(const Paths& paths, const Subscriptions& rows, uint32_t path);
    static bool will_be_wanted(const Paths& paths, const Subscriptions& rows, uint32_t path, Change& change);
    void place(Paths& paths, const Subscriptions& rows, Change& change) const;
    void build(Paths& paths, const Subscriptions& rows, std::vector<uint32_t> numbers, bool trees, Change& change) const;
    static void absorb(const Paths& paths, const Subscriptions& rows, uint8_t place, std::vector<uint32_t>& numbers, Change& change);
    void build_place(Paths& paths, std::vector<uint32_t> numbers, bool trees, Placing& placing) const;
    static void settle(Paths& paths, const Subscriptions& rows, Placing& placing) noexcept;
    static void make_lists(const Paths& paths, const Subscriptions& rows, const Placing::NewPlace& built);
    // lazydfa_merge.cpp
    void advance_merges(Paths& paths, const Subscriptions& rows, Change& change);
    static void end_merges(Paths& paths) noexcept;
    static void end_moves(Paths& paths) noexcept;
    static uint32_t merging_places(const Paths& paths);
    void begin_merge(Paths& paths, Placing& placing) const;
    // lazydfa_saved.cpp
    template <class Visit>
    static void visit_parts(Paths& paths, Array<char>& labels, Array<uint32_t>& delta, Array<uint32_t>& path_table, const StoreParts& store,
                            Visit& visit);

    const HashSeeds seeds_;                  // of every table that something is added to
    std::unique_ptr<Paths> paths_;
    mutable MergeCredit credit_;             // runs report to it
    mutable LazyCaches caches_;              // and share these
    // of the change under way
    Mark mark_;
    NewQueries queries_;
    std::vector<Path> linear_paths_;         // of the query that is being added. PERF: bench/million.py, build: its memory is kept
    Change change_;
    std::vector<uint32_t> removed_slots_;
    uint64_t merges_done_ = 0, paths_built_ = 0;       // see EngineStats
    std::unique_ptr<Paths> next_paths_;      // renumbered or loaded: takes the place of paths_ with commit()
};

}  // namespace treecast
