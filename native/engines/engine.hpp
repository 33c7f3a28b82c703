// The one interface of all engines: ours (lazydfa.hpp) and those of the papers (published.hpp).
//
// An Engine decides which slots a document satisfies. The Store (index/store.hpp) keeps everything that does not depend on the
// engine, and drives it. Two sides use it:
//
// Readers. Each thread has an EngineRun, made once and kept from document to document. A reader holds read() from before it takes
// its View until it is done. An engine whose readers can work while a writer writes locks nothing there; one that changes in
// place keeps writers out.
//
// The writer, one at a time, with write() held. A change is a transaction:
//
//     begin()  ->  add() ... remove() ...  ->  prepare()  ->  commit() | rollback()
//
// Everything that can fail, including allocation, is done before commit(), which cannot fail. rollback() undoes all of it.
// So a change is all or nothing, for engines as for the Store around them.
//
// Virtual calls are made once per change, query, document or batch, never once per event or match.
#pragma once

#include "base/digest.hpp"
#include "base/failure.hpp"
#include "base/fork.hpp"
#include "base/output.hpp"
#include "base/seeded_hash.hpp"
#include "base/snapshot.hpp"
#include "document/document.hpp"
#include "engines/subscriptions.hpp"
#include "query/query.hpp"

#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <string_view>
#include <vector>

namespace treecast {

// A subscription whose limit of work ended before its answer.
struct Undecided {
    uint32_t slot;
    Failure failure;
};

// The targets of slots that want a document only if some of its values are in sets of theirs.
class ValueTargets {
public:
    static constexpr uint64_t marker = 1ull << 63;      // of such slots, beside the targets that may be theirs
    // First of all for each document: more targets that want it, as far as its values tell without a machine. is_open(): afterwards,
    // whether machines may find others.
    virtual uint64_t find(const Document& document, uint64_t enough, uint64_t found) = 0;
    virtual bool is_open(uint64_t found) const = 0;
    virtual uint64_t targets_of(uint32_t slot, const Document& document, uint64_t found) = 0;

protected:
    ~ValueTargets() = default;
};

// What routing wants to know of a document: which targets it is for. `of_slot`: the targets that each slot stands for, as bits.
// Once all of `enough` are found, nothing more is looked for; none: everything is.
struct RouteQuestion {
    const std::vector<uint64_t>& of_slot;
    ValueTargets& values;
    uint64_t enough = 0;
    // Of a slot that was matched; as far as they are not found yet.
    uint64_t targets_of(uint32_t slot, const Document& document, uint64_t found) const {
        uint64_t targets = of_slot[slot];
        return targets & ValueTargets::marker ? values.targets_of(slot, document, found) : targets;
    }
    bool is_answered(uint64_t found) const { return enough && (found & enough) == enough; }
};

struct EngineStats {
    uint64_t paths = 0, states = 0, machines = 0, bytes = 0;
    // For tests: merges that are done in slices, under way and finished, and the paths that the last change has built machines of.
    uint64_t merges_begun = 0, merges_done = 0, paths_built = 0;
    uint64_t keys_compared = 0;        // likewise: of known paths, with those of queries that were added
};

// What a View holds of an engine that does not change in place. Each engine has its own kind; only its runs look into it.
class EngineState {
public:
    virtual ~EngineState() = default;
};

// Work that was done, for tests.
struct RunCounts {
    uint64_t delta_rows = 0, delta_events = 0;           // see Delta::Run
    uint64_t chains_walked = 0;        // of paths that a machine has found; see LazyDfaEngine
    uint64_t delta_chains_walked = 0;  // of paths that the delta has found
    uint64_t routed = 0;               // documents that machines were run for, to route them
};

// What one thread needs to match. After an exception it is not used again.
class EngineRun {
public:
    virtual ~EngineRun() = default;
    // Makes ready for a View; to be called before match() whenever the View is another one.
    virtual void adopt(const View& view, uint64_t cache_bytes_max) = 0;
    // Appends every slot that the document satisfies, each once, in any order. `to_render`: a transformation that would have to be
    // checked again counts as satisfied, because building its payload checks it; and what is undecided is appended too.
    virtual void match(const View& view, const Document& document, bool to_render, Output<int32_t>& out,
                       std::vector<Undecided>& undecided) = 0;
    // The targets of what match() would append, and of what is undecided: a superset of `found`, which are known already.
    virtual uint64_t route(const View& view, const Document& document, const RouteQuestion& question, uint64_t found);
    // For one that is put aside until the next adopt(): lets go of what others may replace meanwhile.
    virtual void rest() {}
    virtual uint64_t looked_at() const { return 0; }        // see TreeRun
    virtual RunCounts counts() const { return {}; }
};

class Engine {
public:
    Engine() = default;
    Engine(const Engine&) = delete;
    virtual ~Engine() = default;

    // For readers. Runs must not outlive the engine.
    virtual std::shared_lock<LastingSharedMutex> read() const { return {}; }
    virtual std::unique_ptr<EngineRun> make_run(uint32_t work_per_item_max) const = 0;

    // For the writer. write() is taken before the Store's own lock: who only asks the Store must not wait for those who match.
    virtual std::unique_lock<LastingSharedMutex> write() { return {}; }
    virtual void begin(const Subscriptions& rows) = 0;
    // Slots are added in order, from the number of rows on; each once. Throws a Failure for a query that the engine cannot match;
    // others may be tried after it, to see what else is refused, but then the change has to be rolled back.
    virtual void add(uint32_t slot, const Query& query, bool ordered) = 0;
    virtual void remove(uint32_t slot) = 0;
    // After the rows of all that was added are there. `merges`: whether this is a good moment to tidy up, which takes longer.
    virtual void prepare(const Subscriptions& rows, bool merges) = 0;
    // In place of add() and prepare(): what was in `slots` is from now on in 0, 1, 2, ... of `rows`.
    virtual void renumber(std::span<const uint32_t> slots, const Subscriptions& rows) = 0;
    // Also in place of them: changes nothing but how fast the engine matches. Only engines whose readers lock nothing do so.
    // is_merge_due() is for readers too: whether merge() would do something.
    virtual bool is_merge_due() const { return false; }
    virtual void merge(const Subscriptions&) {}
    // Whether renumber() would improve nothing but gaps between slots.
    virtual bool is_compact() const { return true; }
    // After rows that die have died. `alone`: no reader is in any View, nor comes before this returns.
    virtual void commit(const Subscriptions& rows, bool alone) noexcept = 0;
    // After the rows of all that was added are gone again.
    virtual void rollback(const Subscriptions& rows) noexcept = 0;

    // What the next View is to hold: made while something may still fail, filled after commit().
    virtual std::shared_ptr<EngineState> make_state() const { return nullptr; }
    virtual void fill(EngineState&) const noexcept {}
    virtual EngineStats stats() const = 0;
    virtual uint64_t cache_bytes() const { return 0; }      // of what runs have learned, and share

    // Saved indexes. What is saved follows from what was added: its tables have seeds from a digest of everything that decides what
    // is in them, to which the engine adds its part (see base/seeded_hash.hpp).
    virtual void add_to(Digest&) const {}
    // The arrays of the Store lie between those of the engine in the file. load() is part of a change: what it has
    // read is in force after commit(). False: this engine saves nothing, and wants all queries added again.
    struct StoreParts {
        Array<uint32_t>& id_table;
        uint32_t &tombs, &live, &version;
        HashSeeds& seeds;
    };
    virtual void save(SnapshotWriter&, const StoreParts&) const {}
    virtual bool load(SnapshotReader&, const StoreParts&, uint32_t slots) { return static_cast<void>(slots), false; }
};

// The engine of this name; throws std::invalid_argument where there is none. `seeds`: of its tables; those that are saved have others.
std::unique_ptr<Engine> make_engine(std::string_view name, const HashSeeds& seeds);
std::vector<std::string_view> engine_names();           // in the order in which they are best tried

}  // namespace treecast
