// The subscriptions of an index, and how they change while others match: ids, texts, settings and their order. Which of them a
// document satisfies is decided by an Engine (engines/engine.hpp), which the Store owns and drives.
//
// A change is all or nothing, whatever fails, including allocation. First everything that can fail is done where no reader looks:
// rows beyond the ends that Views know, and the engine's part up to Engine::prepare. If that fails, it is taken back. What is
// left is stores into memory that exists already, and cannot fail.
//
// A reader holds read() from before it takes its View until it is done.
#pragma once

#include "base/array.hpp"
#include "base/failure.hpp"
#include "base/fork.hpp"
#include "base/seeded_hash.hpp"
#include "base/snapshot.hpp"
#include "engines/engine.hpp"
#include "engines/subscriptions.hpp"
#include "query/query.hpp"
#include "query/settings.hpp"

#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
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

struct StoreStats {
    uint64_t subscriptions = 0, paths = 0, states = 0, machines = 0, bytes = 0;
};

class Store {
public:
    // `engine`: its name. `seeds`: of its tables; those that are saved have others.
    explicit Store(std::string_view engine = "auto", const HashSeeds& seeds = hash_seeds());
    ~Store();
    // All or nothing: either `refused` stays empty and all are added, or nothing changes.
    void add(std::span<const Item> items, std::vector<Refusal>& refused);
    void replace(std::string_view id, std::string_view text, const Settings& settings);
    void remove(std::string_view id);
    size_t remove_many(std::span<const std::string_view> ids);     // all or nothing; returns how many, where some are given twice
    // For a Store that was loaded, and has missed changes since: removes those of `gone` and of the items' ids that it has, and adds the
    // items, as one change. Machines are not merged for it, so it takes time for what has changed only. All or nothing, as add().
    void catch_up(std::span<const std::string_view> gone, std::span<const Item> items, std::vector<Refusal>& refused);
    // For those who are about to match or to save: merges machines if enough was earned for it (engines/merge_credit.hpp), and if nobody
    // changes the Store meanwhile. Readers see the same subscriptions before and after. Throws only if interrupted.
    void merge_if_due();
    // Makes everything as small and as fast as if all that live had just been added at once.
    void compact();

    // Saved indexes: see base/snapshot.hpp. `about` is stored as it is, for the caller that wraps the Store. The bytes depend
    // only on which calls were made, and in which order: they contain no random seed. Calls that match or save count too, as they
    // may merge machines, unless nothing was added since the Store was loaded.
    void save(const std::string& path, std::string_view about) const;
    static std::string saved_about(const std::string& path);
    bool load(const std::string& path, bool verify);   // into an empty Store; false: rebuilt from another format version

    bool contains(std::string_view id) const;
    std::vector<size_t> unknown(std::span<const std::string_view> ids) const;     // the places of those that no subscription has
    size_t size() const;
    std::shared_ptr<const View> view() const;
    std::shared_lock<LastingSharedMutex> read() const { return engine_->read(); }
    const Engine& engine() const { return *engine_; }
    StoreStats stats() const;
    EngineStats engine_stats() const;                   // for tests
    uint64_t views_made() const;                        // likewise: those that were not used again
    // For tests. Of the tables as they were loaded, which anybody can foresee: whether there are any, and how many ids that were
    // added since are in them.
    struct SavedTables { bool exist; size_t added; };
    SavedTables saved_tables() const;
    struct Subscription { std::string id, text; Settings settings; };
    Subscription find(std::string_view id) const;       // throws as remove() does

private:
    static constexpr size_t gaps_min = 1024;

    // Everything that is replaced at once when slots are renumbered.
    struct Body : Subscriptions {
        Array<uint32_t> id_table;                               // for probe()
        uint32_t tombs = 0;
        // A loaded id_table has seeds that anybody can compute. Looking something up in it does no harm. What is added goes into a
        // table of its own, with seeds that strangers do not know, until it is so large that one table for all is laid out.
        Array<uint32_t> added_table;
        uint32_t added_used = 0;                                // with tombs
        uint32_t loaded_slots = 0;
        const uint64_t serial;                                  // no two bodies of a process have the same
        std::shared_ptr<const char> views = std::make_shared<const char>('v');   // held by all its Views
        HashSeeds seeds;                                        // of id_table
        explicit Body(const HashSeeds& seeds);
        Array<uint32_t> lay_out_table(const HashSeeds& with) const;
        uint32_t* find(std::string_view id, const HashSeeds& own);          // its place in one of the tables, or null
        const uint32_t* find(std::string_view id, const HashSeeds& own) const { return const_cast<Body*>(this)->find(id, own); }
        Engine::StoreParts parts() { return {id_table, tombs, live, version, seeds}; }
    };
    struct Mark {                          // the ends of a body, to go back to
        explicit Mark(const Body& body);
        uint32_t settings, slots;
        size_t id_bytes;
        QueryTexts::Mark texts;
    };

    // A change, from begin() of the engine on. If it ends without commit(), the rows that were added are taken back, and all that the
    // engine has done.
    class Change {
    public:
        explicit Change(Store& store);
        ~Change();
        Change(const Change&) = delete;
        // Both cannot fail. `rows`: the body that is published, which may be a new one.
        void commit(const Body& rows, bool alone = false) noexcept;
        void publish() noexcept { store_.publish(std::move(view_)); }
        const Mark mark;

    private:
        Store& store_;
        Body& body_;
        std::shared_ptr<View> view_;
        bool is_committed_ = false;
    };

    void parse(std::span<const Item> items, std::vector<Refusal>& refused);
    void check_ids(std::span<const Item> items, std::vector<Refusal>& refused) const;
    static void check_id(std::string_view id);
    bool has_saved_table(const Body& body) const { return !(body.seeds == seeds_); }
    uint32_t find_slot(const Body& body, std::string_view id) const;           // none if absent
    void enter_id(Body& body, uint32_t slot) noexcept;
    void reserve_ids(Body& body, size_t count);
    static void check_room(const Body& body, std::span<const Item> items);
    static uint32_t add_slot(Body& body, const Item& item, uint32_t settings);
    void add_rows(Body& body, std::span<const Item> items, bool with_ids);
    void undo(Body& body, const Mark& mark) noexcept;
    void kill(Body& body, uint32_t slot) noexcept;
    void commit_removal(Body& body, std::span<const uint32_t> slots);
    std::vector<uint32_t> known_slots(std::span<const std::string_view> ids, std::span<const Item> items) const;    // ascending
    static void check_twice(std::span<const Item> items, std::vector<Refusal>& refused);
    static std::vector<uint32_t> live_slots(const Subscriptions& rows);        // in order
    void renumber_if_due();
    void renumber();
    bool adopt(std::unique_ptr<Body>& body, const std::vector<Settings>& all_settings, SnapshotReader& reader);
    void rebuild(const Subscriptions& saved, const std::vector<Settings>& all_settings);
    std::shared_ptr<View> new_view();
    void publish(std::shared_ptr<View> view) noexcept;
    void fill(View& view) const noexcept;
    void keep_spare(std::shared_ptr<View> view) noexcept;

    const HashSeeds seeds_;                  // of every table that something is added to
    std::unique_ptr<Engine> engine_;
    mutable LastingMutex write_mutex_;       // writers, one at a time
    mutable MomentaryMutex view_mutex_;      // only to copy or exchange the pointer
    std::unique_ptr<Body> body_;
    std::shared_ptr<View> view_;
    std::shared_ptr<View> spare_;            // for the next change, or null. As view_, so that it keeps no memory of before; without its token
    uint64_t views_made_ = 0;
    std::unique_ptr<Query> query_ = std::make_unique<Query>();     // reused from parse to parse
};

}  // namespace treecast
