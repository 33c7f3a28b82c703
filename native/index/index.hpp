// The index as native code sees it: a Store, and Matchers that are lent to the threads that match.
#pragma once

#include "index/match_blocks.hpp"
#include "index/matcher.hpp"
#include "index/store.hpp"
#include "index/targets.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace treecast {

struct Rejected {                      // a document that was not accepted
    size_t document;
    Failure failure;
};

struct BatchFailure {                  // thrown by match_many and render_many: the first document that was not accepted
    Rejected rejected;
};

struct UndecidedMatch {                // a subscription whose limit of work ended before its answer
    size_t document;
    int32_t slot;
    Failure failure;
};

struct Chunk {                         // the matches of some neighbouring documents
    size_t first = 0;                  // number of its first document
    std::vector<uint32_t> counts;      // matches by document
    std::vector<int64_t> nanoseconds;  // spent on each document; empty unless asked for
    std::vector<MatchPiece> pieces;
    std::vector<Rejected> rejected;
    std::vector<UndecidedMatch> undecided;
};

struct Batch {
    std::shared_ptr<const View> view;
    std::vector<Chunk> chunks;
    size_t documents = 0;              // done; fewer than given only where matches_max stopped it
    size_t matches() const;
    std::vector<MatchPiece> pieces() const;    // of all chunks
};

struct BatchOptions {
    size_t threads = 1;
    bool report = false;               // collect rejected documents instead of throwing the first
    uint64_t matches_max = ~0ull;      // begin no further documents after so many matches
    bool timed = false;                // measure each document
    int64_t first = 0;                 // the number of the first document, in the answers
    uint64_t id_bytes_max = ~0ull;     // begin no further document whose ids may not fit; where there is one thread
};

// What subscribers get from some documents. Equal payloads of one document are stored once.
struct DeliveryBatch {
    std::shared_ptr<const View> view;
    size_t documents = 0;                  // done; fewer than given only where bytes_max stopped it
    std::vector<int64_t> numbers;          // by document: its number, of those that were given
    std::vector<int32_t> ends{0};          // deliveries up to each document
    std::vector<int32_t> slots;            // by delivery, in the order of addition within a document
    std::vector<int64_t> payloads;         // by delivery: the number of its payload; -1 - n where refusals[n] says why there is none
    std::vector<int64_t> payload_ends{0};
    Bytes bytes;                           // of the payloads, one after the other
    std::vector<int32_t> id_ends{0};       // by delivery, if asked for
    std::string ids;
    std::vector<Failure> refusals;
    std::vector<std::string> refusal_texts;    // the first subscription that each is about
    std::vector<Rejected> rejected;        // by their numbers of those that were given
    std::vector<int64_t> nanoseconds;      // spent on each document
    // The documents themselves, if asked for: by document the payload that is the document, or -1; then its text, else nothing.
    std::vector<int64_t> own_payloads;
    std::vector<int64_t> text_ends{0};
    Bytes texts;
};

// What several threads made of a batch. A thread has few pieces, each with documents from all over the batch.
struct RenderedPieces {
    struct Run {                           // neighbouring documents, one after the other in a piece
        size_t first;                      // the number of the first of them
        size_t piece, begin, end;          // deliveries of that piece
    };
    size_t documents = 0;                  // done: those up to this number
    std::vector<DeliveryBatch> pieces;
    std::vector<Run> runs;                 // by document; a piece may have more than they say
};

struct DeliveryOptions {
    bool report = false;                   // collect rejected documents instead of throwing the first
    bool ids = false;                      // those of the deliveries too, as a column
    uint64_t bytes_max = ~0ull;            // begin no further document after so many bytes
    RenderLimits limits;
    bool share = true;
    enum class Count : uint8_t {
        delivered,                         // of payloads, once for each delivery: what writing them out takes
        held,                              // of memory: equal payloads of a document count once
    } count = Count::delivered;
    size_t threads = 1;
    enum class Texts : uint8_t { none, matched, all } texts = Texts::none;      // of which documents; those that were read
};

class Index {
public:
    // `engine`: its name, see engine_names().
    Index(Limits limits, std::shared_ptr<const Entities> entities, uint64_t cache_bytes_max, std::string_view engine = "auto",
          const HashSeeds& seeds = hash_seeds())
        : store_(engine, seeds), limits_(limits), entities_(std::move(entities)), cache_bytes_max_(cache_bytes_max) {}

    Store& store() { return store_; }
    // The slots of the subscriptions that the document satisfies, in the order of addition, and the View they belong to.
    // Undecided ones are returned in the same order.
    std::shared_ptr<const View> match(const GivenDocument& document, Output<int32_t>& out, std::vector<UndecidedMatch>& undecided);
    // The same of each document.
    Batch match_many(std::span<const GivenDocument> documents, const BatchOptions& options);
    // Asks `next` for as many documents as that, one after the other, and tells `answer` the targets that each is for, besides
    // `found`. One that throws a Failure is left out; `rejected` gets its number.
    struct Routing {
        Targets& targets;
        uint64_t enough = 0, found = 0;
        std::vector<std::pair<size_t, Failure>> rejected{};
    };
    // The same, one document after the other, as long as it lives. keep(): it went well, so that what was learnt stays.
    class Router {
    public:
        Router(Index& index, Routing& routing);
        ~Router();
        uint64_t route(const GivenDocument& document);       // throws Failure; it may be called again
        void keep();

    private:
        struct Run;
        Routing& routing_;
        std::unique_ptr<Run> run_;
    };
    void route(size_t count, const std::function<GivenDocument(size_t)>& next,
               const std::function<void(size_t, const GivenDocument&, uint64_t)>& answer, Routing& routing);
    // Renders one document after the other, as long as it lives, for whoever looks at them for something else as well.
    class Rendering {
    public:
        Rendering(Index& index, const DeliveryOptions& options);
        ~Rendering();
        bool has_room() const;                               // for another document; for the first one always
        void render(const GivenDocument& document);          // what it throws as a Failure is noted: the document is rejected
        DeliveryBatch finish();                              // all that was rendered. Nothing is called afterwards

    private:
        friend class Index;
        template <class Next>
        void add(const Next& next);
        struct Run;
        std::unique_ptr<Run> run_;
    };
    // Whether a batch was rendered with the subscriptions that there are now.
    bool is_current(const DeliveryBatch& batch) { return batch.view == store_.view(); }
    // Renders as many of the documents as fit, in one piece, in this thread.
    DeliveryBatch render_part(std::span<const GivenDocument> documents, const DeliveryOptions& options) {
        return render_part(documents.size(), [documents](size_t i) { return documents[i]; }, options);
    }
    // The same, asking `next` for as many documents as that: each is valid until it is asked for another one, or throws a Failure.
    DeliveryBatch render_part(size_t count, const std::function<GivenDocument(size_t)>& next, const DeliveryOptions& options);
    // The same with several threads.
    RenderedPieces render_many(std::span<const GivenDocument> documents, const DeliveryOptions& options);
    uint64_t cache_bytes() const { return store_.engine().cache_bytes(); }
    uint64_t looked_at() const;        // see TreeRun; of Matchers that nobody uses at the moment
    RunCounts counts() const;          // likewise
    void drop_caches();
    std::shared_ptr<void> companion;   // what whoever lends the index out keeps with it; null at first

private:
    class Lease;
    std::unique_ptr<Matcher> borrow();
    void give_back(std::unique_ptr<Matcher> matcher) noexcept;

    Store store_;
    Limits limits_;
    std::shared_ptr<const Entities> entities_;
    uint64_t cache_bytes_max_;
    mutable MomentaryMutex pool_mutex_;
    std::vector<std::unique_ptr<Matcher>> pool_;
    std::atomic<uint64_t> matches_expected_ = 0; // by a thousand documents, as in the batch before
    std::atomic<size_t> payload_bytes_ = 0;      // of the batch before: room for as many more
    std::atomic<size_t> text_bytes_{0};             // likewise, texts
};

}  // namespace treecast
