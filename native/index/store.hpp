// The subscriptions of an index, and how they change while others match.
//
// Theory of operation. A subscription is a *slot*; slots are numbered in the order of addition and never reused. Its query is
// one or more *paths*: plain ones, or tree patterns where it has predicates. Equal paths are stored once, and a path has a
// chain of the subscriptions that ask for it. Paths live in one of several places, as in a log-structured merge tree:
//   - the Delta: a handful of plain ones, added in a microsecond;
//   - Machines (plain paths) and TreeMachines (patterns), each at least `merge_ratio` times larger than what was added after
//     it. A full Delta is merged with all machines that are not much larger, so a path is rebuilt O(log n) times in its life.
// A subscription whose patterns say less than its query (pattern.hpp) is flagged: the query itself is judged where they hold.
// Adding a subscription to a known path, or removing one, changes no machine: it changes the path's chain, and marks the
// path's accept id as *dirty*, so that its chain is walked when it matches. All other accept ids lead straight to one slot.
//
// Readers work on a View: an immutable list of places plus buffers that only grow. A View sees the slots below its
// `slots`, and of those the ones that did not die before its `version`; so a match in flight sees one consistent set,
// without a lock, while a writer goes on. Memory that a View needs stays alive with it.
//
// A change is all or nothing, whatever fails, memory included. First everything that can fail is done where no reader looks: rows
// behind the ends that Views know, machines that nobody has yet. If that fails, it is taken back (Store::undo). What is left is
// stores into memory that is there (Store::apply), and cannot fail.
//
// With an engine of the papers (published.hpp) in place of the machines there are no paths, and no such freedom: whoever matches
// holds read() from before it takes its View until it is done, and writers wait for that. An engine that ran out of memory half
// way is made anew from the texts.
#pragma once

#include "base/array.hpp"
#include "base/failure.hpp"
#include "base/fork.hpp"
#include "base/seeded_hash.hpp"
#include "engines/published.hpp"
#include "machines/delta.hpp"
#include "machines/label.hpp"
#include "machines/machine.hpp"
#include "machines/tree_machine.hpp"
#include "query/query.hpp"
#include "query/settings.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace treecast {

struct Item {                 // one subscription to add
    std::string_view id, text;
    const Settings* settings = nullptr;
};

struct Refusal {
    size_t item;
    Failure failure;
};

// A link of a path's chain: a slot, or with the high bit set an entry of `Extra` (subscriptions with several paths).
constexpr uint32_t extra_bit = 0x80000000u;
struct Extra {
    uint32_t slot, next;
};

// A machine of either kind, with what its accept ids stand for.
struct Placed {
    std::shared_ptr<const Machine> machine;
    std::shared_ptr<const TreeMachine> tree;
    uint32_t accepts() const { return machine ? machine->accepts() : tree->accepts(); }
    uint32_t states() const { return machine ? machine->states() : tree->entries(); }
    uint64_t serial() const { return machine ? machine->serial() : tree->serial(); }
    Array<uint32_t> path_of, slot_of;                 // by accept id; slot_of only where not dirty
    Array<uint64_t> dirty;                            // by word of accept ids; changed and read atomically
    uint64_t dirty_in(uint32_t word) const {
        return std::atomic_ref<uint64_t>(const_cast<uint64_t&>(dirty[word])).load(std::memory_order_relaxed);
    }
    void mark(uint32_t accept) {
        std::atomic_ref<uint64_t>(dirty[accept >> 6]).fetch_or(1ull << (accept & 63), std::memory_order_relaxed);
    }
    uint64_t bytes() const;
};

struct View {
    static constexpr size_t places_max = 16;                   // the first half for plain paths, the second for patterns
    std::shared_ptr<const LabelTable> labels;
    std::array<std::shared_ptr<Placed>, places_max> places;
    std::shared_ptr<const Delta> delta;
    std::shared_ptr<uint32_t[]> heads, next, deaths, order;    // order: empty unless something was replaced
    std::shared_ptr<Extra[]> extras;
    std::shared_ptr<int32_t[]> id_ends;                        // Arrow offsets: slots + 1 of them
    std::shared_ptr<char[]> id_bytes, text_bytes;
    std::shared_ptr<uint64_t[]> text_ends;
    std::shared_ptr<uint32_t[]> slot_settings;
    std::shared_ptr<uint8_t[]> judged;                         // by slot: its patterns say less than its query
    std::shared_ptr<const SettingsTable> settings;
    std::shared_ptr<const char> token;                         // counts the Views of one body
    std::shared_ptr<const PublishedEngine> published;          // instead of machines; changes in place, see Store::read
    uint32_t slots = 0, version = 0, settings_size = 0;
    uint64_t serial = 0;                                       // of the body: with a slot it names a text, once and for all

    std::string_view id(uint32_t slot) const {
        return {id_bytes.get() + id_ends[slot], size_t(id_ends[slot + 1] - id_ends[slot])};
    }
    std::string_view text(uint32_t slot) const {
        return {text_bytes.get() + text_ends[slot], text_ends[slot + 1] - text_ends[slot]};
    }
    uint32_t order_of(uint32_t slot) const { return order ? order[slot] : slot; }
    // Calls f(slot, several) for every live subscription of a path; `several`: it has other paths too, or must be judged.
    template <class F>
    void subscribers(uint32_t path, F&& f) const {
        uint32_t link = std::atomic_ref<uint32_t>(heads[path]).load(std::memory_order_acquire);
        while (link != none) {
            bool several = link & extra_bit;
            uint32_t slot = several ? extras[link & ~extra_bit].slot : link;
            uint32_t after = several ? extras[link & ~extra_bit].next : next[link];
            if (slot < slots) {
                uint32_t death = std::atomic_ref<uint32_t>(deaths[slot]).load(std::memory_order_relaxed);
                if (death == 0 || death > version) f(slot, several);
            }
            link = after;
        }
    }
};

struct StoreStats {
    uint64_t subscriptions = 0, paths = 0, states = 0, machines = 0, bytes = 0;
};

class Store {
public:
    // `engine`: the name of a published engine, or none. `seeds`: of its tables; those that are saved have others.
    explicit Store(std::string engine = "", const HashSeeds& seeds = hash_seeds());
    ~Store();
    // All or nothing: either `refused` stays empty and all are added, or nothing changes.
    void add(std::span<const Item> items, std::vector<Refusal>& refused);
    void replace(std::string_view id, std::string_view text, const Settings& settings);
    void remove(std::string_view id);

    // Saved indexes: see snapshot.hpp. `about` is kept as it is, for whoever wraps the Store. The bytes follow from what was added and
    // removed, and in which order: no seed is among them.
    void save(const std::string& path, std::string_view about) const;
    static std::string saved_about(const std::string& path);
    bool load(const std::string& path, bool verify);   // into an empty Store; false: rebuilt from another format version

    bool contains(std::string_view id) const;
    size_t size() const;
    std::shared_ptr<const View> view() const;
    std::shared_lock<LastingSharedMutex> read() const;  // keeps writers out; without a published engine it locks nothing
    StoreStats stats() const;
    bool has_saved_seeds() const;                       // see reseed(); for tests
    struct Subscription { std::string id, text; Settings settings; };
    Subscription find(std::string_view id) const;       // throws as remove() does

private:
    static constexpr uint8_t pending = 0xFD, in_delta = 0xFE, nowhere = 0xFF;
    static constexpr uint32_t several_bit = 0x80000000u;
    static constexpr size_t merge_ratio = 4, compact_slots_min = 1024, delta_paths_max = 256;
    static constexpr uint32_t links_walked_max = 32;

    // Everything that is replaced at once when slots are renumbered.
    struct Body {
        std::shared_ptr<LabelTable> labels = std::make_shared<LabelTable>();
        std::shared_ptr<SettingsTable> settings = std::make_shared<SettingsTable>();
        // slots
        Array<int32_t> id_ends;
        Array<char> id_bytes, text_bytes;
        Array<uint64_t> text_ends;
        Array<uint32_t> deaths, next, order;
        Array<uint32_t> slot_settings;
        Array<uint8_t> judged;
        Array<uint32_t> slot_paths;                             // a path, or several_bit | index into lists
        Array<uint32_t> lists;                                  // a count, and so many paths
        Array<uint32_t> id_table;
        uint32_t tombs = 0, live = 0;
        Array<Extra> extras;
        // paths
        Array<char> path_bytes;                                 // keys: see path_key.hpp
        Array<uint64_t> path_ends;
        Array<uint32_t> heads;
        Array<uint32_t> accept_of;
        Array<uint8_t> place_of;
        Array<uint32_t> path_table;
        std::array<std::shared_ptr<Placed>, View::places_max> places;
        std::shared_ptr<const Delta> delta = std::make_shared<Delta>();
        uint32_t version = 0;
        const uint64_t serial;                                  // no two bodies of a process have the same
        std::shared_ptr<const char> views = std::make_shared<const char>('v');   // held by all its Views
        HashSeeds seeds;                                        // of the two tables
        struct Chain { uint32_t dead, sweep_at; };              // links to the dead that a long chain has, and may have
        NumberMap<uint32_t, Chain> chains;                      // by path
        explicit Body(const HashSeeds& seeds);
        std::span<const uint32_t> paths_of(uint32_t slot) const;
    };
    struct Parsed {                        // the paths of a batch, before it is committed
        std::string bytes;                 // all paths, one after the other
        std::vector<size_t> path_ends;     // in `bytes`
        std::vector<size_t> item_ends;     // in `path_ends`
        std::vector<uint8_t> judged;       // by item
        std::string_view path(size_t p) const;
    };

    struct Tables {                        // of ids and of paths; a Body has them among its parts
        Array<uint32_t> ids, paths;
        uint32_t tombs = 0;                // places in the table of ids whose id is gone
        HashSeeds seeds{};
    };
    static Tables lay_out(const Body& body, const HashSeeds& seeds);
    void reseed(Body& body) const;

    struct Mark {                          // the ends of a body, to go back to
        explicit Mark(const Body& body);
        uint32_t labels, settings, slots, paths;
        size_t id_bytes, text_bytes, lists, path_bytes;
    };
    struct Placing {                       // where paths are to live
        struct Built {
            std::shared_ptr<Placed> placed;
            uint8_t home;
            std::vector<uint32_t> paths, accept_of;
        };
        std::array<std::shared_ptr<Placed>, View::places_max> places;
        std::vector<Built> built;
        std::shared_ptr<const Delta> delta;
        std::vector<uint32_t> delta_paths, homeless;
    };
    struct Change {                        // rows that have been added to a body, and are not in force yet
        std::vector<uint32_t> paths, fresh;
        std::vector<size_t> path_ends;     // by item, in `paths`
        std::vector<uint32_t> wanted;      // `paths` sorted, once somebody asked
        uint32_t first_slot = 0;
        Placing placing;
    };

    void parse(std::span<const Item> items, Parsed& parsed, std::vector<Refusal>& refused);
    void check_ids(std::span<const Item> items, std::vector<Refusal>& refused) const;
    static void check_id(std::string_view id);
    uint32_t find_slot(const Body& body, std::string_view id) const;           // none if absent
    size_t id_place(const Body& body, std::string_view id) const;
    static std::string_view id_of(const Body& body, uint32_t slot);
    void reserve_ids(Body& body, size_t count);
    void reserve_links(Body& body, size_t items, const Parsed& parsed);
    static void check_room(const Body& body, std::span<const Item> items);
    uint32_t add_slot(Body& body, const Item& item, uint32_t settings, bool judged);
    static void list_paths(Body& body, uint32_t slot, std::span<const uint32_t> paths);
    uint32_t add_path(Body& body, std::string_view key, std::vector<uint32_t>& fresh);
    void link(Body& body, uint32_t slot, std::span<const uint32_t> paths) noexcept;
    void prepare(Body& body, std::span<const Item> items, const Parsed& parsed, uint32_t replaced, Change& change);
    void undo(Body& body, const Mark& mark, const Change& change) noexcept;
    void apply(Body& body, uint32_t replaced, Change& change) noexcept;
    void kill(Body& body, uint32_t slot, bool unlink) noexcept;
    void unlink_one(Body& body, uint32_t path, uint32_t slot, bool alone) noexcept;
    void mark_dirty(Body& body, uint32_t path) noexcept;
    void place(const Body& body, Change& change) const;
    void build(const Body& body, std::vector<uint32_t> paths, bool trees, Change& change) const;
    void settle(Body& body, Placing& placing) noexcept;
    bool path_lives(const Body& body, uint32_t path) const;
    bool path_will_live(const Body& body, uint32_t path, Change& change) const;
    static std::string_view key_of(const Body& body, uint32_t path);
    std::vector<uint32_t> live_slots(const Body& body) const;                  // in order
    void compact_if_due();
    void compact();
    std::shared_ptr<PublishedEngine> populated(const Body& body);
    void rebuild(const Body& saved, const std::vector<Settings>& all_settings);
    void publish(std::shared_ptr<View> view) noexcept;
    std::unique_lock<LastingSharedMutex> write();
    void withdraw(size_t items, std::span<const Refusal> refused);
    void repair() noexcept;

    const std::string engine_;
    const HashSeeds seeds_;                  // of every table that something is added to
    std::shared_ptr<PublishedEngine> published_;
    mutable LastingSharedMutex published_mutex_;
    mutable LastingMutex write_mutex_;       // writers, one at a time
    mutable MomentaryMutex view_mutex_;      // only to copy or exchange the pointer
    std::unique_ptr<Body> body_;
    std::shared_ptr<View> view_;
    size_t withdrawn_ = 0;                   // queries that the published engine had to give back
    std::unique_ptr<Query> query_ = std::make_unique<Query>();     // reused from parse to parse
};

}  // namespace treecast
