// The Index: lends Matchers, matches single documents and batches, and sorts the answers.
//
// Matchers are expensive because of their caches, so they are pooled. Batches are cut into chunks that threads take in turn.
#include "index/index.hpp"

#include "base/interrupt.hpp"
#include "index/index_lease.hpp"
#include "index/workers.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <mutex>

namespace treecast {

namespace {

constexpr size_t pool_max = 64, chunk_documents_max = 512;

// Reading the clock costs more than a small document, so it is done only if asked for.
class Stopwatch {
public:
    explicit Stopwatch(bool running) {
        if (running) begin_ = std::chrono::steady_clock::now();
    }
    int64_t nanoseconds() const {
        return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - begin_).count();
    }

private:
    std::chrono::steady_clock::time_point begin_;
};

// Whether the ids of one more document fit; at most all ids there are. An id has up to 1 KiB, so as long as there is plenty
// of room none has to be looked at.
class IdRoom {
public:
    IdRoom(const View& view, uint64_t bytes_max)
        : view_(view), bytes_max_(bytes_max), document_bytes_(static_cast<uint64_t>(view.slots ? view.id_ends[view.slots] : 0)) {}
    // The pieces of a chunk, when it is done or while it is not; `matches` are those of its last document.
    void add(const MatchPiece& piece, size_t matches) {
        if (bytes_max_ == ~0ull || !matches) return;
        add_piece(uncounted_, {piece.block, piece.end - matches, piece.end});
        matches_ += matches;
    }
    bool fits() {
        if (within(bytes_ + matches_ * id_bytes_max)) return true;
        for (const MatchPiece& piece : uncounted_)
            for (int32_t slot : piece.slots()) bytes_ += view_.id(static_cast<uint32_t>(slot)).size();
        uncounted_.clear();
        matches_ = 0;
        return within(bytes_);
    }

private:
    bool within(uint64_t bytes) const { return bytes_max_ == ~0ull || bytes + document_bytes_ <= bytes_max_; }
    static constexpr uint64_t id_bytes_max = 1024;
    const View& view_;
    const uint64_t bytes_max_, document_bytes_;
    uint64_t bytes_ = 0;                    // of the answers that have been counted
    std::vector<MatchPiece> uncounted_;
    size_t matches_ = 0;                    // of these
};

}  // namespace

size_t Batch::matches() const {
    size_t total = 0;
    for (const Chunk& chunk : chunks)
        for (const MatchPiece& piece : chunk.pieces) total += piece.size();
    return total;
}

std::vector<MatchPiece> Batch::pieces() const {
    std::vector<MatchPiece> all;
    for (const Chunk& chunk : chunks)
        for (const MatchPiece& piece : chunk.pieces) add_piece(all, piece);
    return all;
}

std::unique_ptr<Matcher> Index::borrow() {
    std::lock_guard lock(pool_mutex_);
    std::unique_ptr<Matcher> matcher;
    pool_.reserve(pool_max);                // giving back must not fail
    if (pool_.empty()) {
        matcher = std::make_unique<Matcher>(store_.engine(), limits_, entities_, cache_bytes_max_);
    } else {
        matcher = std::move(pool_.back());
        pool_.pop_back();
    }
    return matcher;
}

void Index::give_back(std::unique_ptr<Matcher> matcher) noexcept {
    matcher->rest();
    std::lock_guard lock(pool_mutex_);
    if (pool_.size() < pool_max) pool_.push_back(std::move(matcher));
}

// Lent Matchers are not counted: only their threads may look at them.
uint64_t Index::looked_at() const {
    std::lock_guard lock(pool_mutex_);
    uint64_t total = 0;
    for (const auto& matcher : pool_) total += matcher->looked_at();
    return total;
}

RunCounts Index::counts() const {
    std::lock_guard lock(pool_mutex_);
    RunCounts total;
    for (const auto& matcher : pool_) {
        const RunCounts counts = matcher->counts();
        total.delta_rows += counts.delta_rows, total.delta_events += counts.delta_events;
        total.chains_walked += counts.chains_walked;
        total.delta_chains_walked += counts.delta_chains_walked;
        total.routed += counts.routed;
    }
    return total;
}

void Index::drop_caches() {
    drop_spare_outputs();
    std::vector<std::unique_ptr<Matcher>> dropped;       // without the lock: they have locks of their own
    std::lock_guard lock(pool_mutex_);
    dropped.swap(pool_);
}

namespace {

// What the last match() of a Matcher left undecided, in the order of addition.
void add_undecided(const View& view, const Matcher& matcher, size_t document, std::vector<UndecidedMatch>& out) {
    if (matcher.undecided().empty()) return;
    auto begin = static_cast<std::ptrdiff_t>(out.size());
    for (const Matcher::Undecided& one : matcher.undecided()) out.push_back({document, static_cast<int32_t>(one.slot), one.failure});
    std::sort(out.begin() + begin, out.end(), [&](const UndecidedMatch& a, const UndecidedMatch& b) {
        return view.order_of(static_cast<uint32_t>(a.slot)) < view.order_of(static_cast<uint32_t>(b.slot));
    });
}

}  // namespace

// A Failure is about the document, and leaves the Matcher intact. After other exceptions it is not used again.
std::shared_ptr<const View> Index::match(const GivenDocument& document, Output<int32_t>& out, std::vector<UndecidedMatch>& undecided) {
    store_.merge_if_due();
    auto reading = store_.read();
    std::shared_ptr<const View> view = store_.view();
    Lease matcher(*this);
    matcher->adopt(*view);
    try {
        matcher->match(*view, document, out);
        matcher->sort(*view, out);
    } catch (const Failure&) {
        matcher.keep();
        throw;
    }
    matcher.keep();
    add_undecided(*view, *matcher, 0, undecided);
    return view;
}

// Everything that the documents of a call have in common.
struct Index::Router::Run {
    Run(Index& index, Routing& routing)
        : reading(index.store_.read()), view(index.store_.view()), lock(routing.targets.mutex()),
          question{routing.targets.of(*view), routing.targets, routing.enough}, matcher(index) {
        matcher->adopt(*view);
    }
    std::shared_lock<LastingSharedMutex> reading;
    std::shared_ptr<const View> view;
    std::unique_lock<LastingMutex> lock;
    RouteQuestion question;
    Lease matcher;
};

Index::Router::Router(Index& index, Routing& routing) : routing_(routing) {
    index.store_.merge_if_due();
    run_ = std::make_unique<Run>(index, routing);
}

Index::Router::~Router() = default;

void Index::Router::keep() { run_->matcher.keep(); }

uint64_t Index::Router::route(const GivenDocument& given) {
    Interrupt::check(1000);
    return run_->matcher->route(*run_->view, given, run_->question, routing_.found);
}

void Index::route(size_t count, const std::function<GivenDocument(size_t)>& next,
                  const std::function<void(size_t, const GivenDocument&, uint64_t)>& answer, Routing& routing) {
    Router router(*this, routing);
    for (size_t i = 0; i < count; ++i) {
        try {
            GivenDocument given = next(i);
            answer(i, given, router.route(given));
        } catch (const Failure& failure) {
            routing.rejected.emplace_back(i, failure);
        }
    }
    router.keep();
}

namespace {

// The chunks of a batch, divided among threads: each takes those of a range of its own, one after the other, so that its documents are
// neighbours, and then what is left of the others' ranges.
class ChunkRanges {
public:
    ChunkRanges(size_t chunks, size_t ranges) : chunks_(chunks), next_(ranges) {
        for (size_t r = 0; r < ranges; ++r) next_[r].chunk = begin(r);
    }
    size_t count() const { return next_.size(); }
    size_t end(size_t range) const { return begin(range + 1); }
    size_t take(size_t range) { return next_[range].chunk.fetch_add(1); }       // end() or more: there is none left
    size_t taken_first() const { return std::min(next_[0].chunk.load(), chunks_); }    // where there is one range

private:
    size_t begin(size_t range) const { return chunks_ * range / next_.size(); }
    struct alignas(64) Next {                    // a cache line each
        std::atomic<size_t> chunk;
    };
    const size_t chunks_;
    std::vector<Next> next_;
};

constexpr size_t block_bytes_max = 8u << 20;

}  // namespace

Batch Index::match_many(std::span<const GivenDocument> documents, const BatchOptions& options) {
    store_.merge_if_due();
    Batch batch;
    auto reading = store_.read();      // for all threads
    batch.view = store_.view();
    size_t threads = std::max<size_t>(1, std::min(options.threads, documents.size()));
    IdRoom room(*batch.view, threads == 1 ? options.id_bytes_max : ~0ull);
    size_t begun = documents.size();   // fewer where there was no more room
    bool stoppable = options.matches_max != ~0ull;
    // Small chunks let threads finish at about the same time; one thread without limits needs only one chunk.
    size_t per_chunk = threads == 1 && !stoppable ? documents.size()
                                                  : std::clamp<size_t>(documents.size() / (threads * 8), 1, chunk_documents_max);
    size_t chunks = per_chunk ? (documents.size() + per_chunk - 1) / per_chunk : 0;
    batch.chunks.resize(chunks);
    ChunkRanges ranges(chunks, stoppable ? 1 : threads);    // what may stop early has to be done in order
    std::atomic<size_t> failed{~size_t(0)};
    std::atomic<uint64_t> matches{0};
    // A little more than in the batch before, so that a block mostly is enough; some hundred a document where nothing is known.
    const uint64_t by_thousand = matches_expected_.load(std::memory_order_relaxed);
    const size_t expected = documents.size() * (by_thousand ? by_thousand : 250'000) / 900 / threads;
    auto fill = [&](size_t c, Matcher& matcher, MatchWriter& writer) {       // false: there was no more room
        Chunk& chunk = batch.chunks[c];
        chunk.first = c * per_chunk;
        uint64_t found = 0;
        for (size_t d = chunk.first; d < std::min(documents.size(), chunk.first + per_chunk); ++d) {
            Interrupt::check(1000);
            if (threads == 1 && d && !room.fits()) {
                begun = d;
                return false;
            }
            size_t count = 0;
            Stopwatch stopwatch(options.timed);
            try {
                Output<int32_t>& slots = writer.begin();
                matcher.match(*batch.view, documents[d], slots);
                matcher.sort(*batch.view, slots);
                count = writer.end(options.first + static_cast<int64_t>(d), chunk.pieces);
                if (count) room.add(chunk.pieces.back(), count);
                add_undecided(*batch.view, matcher, d, chunk.undecided);
            } catch (const Failure& failure) {
                chunk.rejected.push_back({d, failure});
                if (!options.report) {
                    // Keeps the smallest failed chunk, so that the first rejected document is reported, whatever the threads' timing.
                    size_t least = failed.load();
                    while (c < least && !failed.compare_exchange_weak(least, c)) {}
                    break;
                }
            }
            found += count;
            chunk.counts.push_back(static_cast<uint32_t>(count));
            if (options.timed) chunk.nanoseconds.push_back(stopwatch.nanoseconds());
        }
        matches.fetch_add(found, std::memory_order_relaxed);
        return true;
    };
    auto work = [&](size_t thread) {
        Lease matcher(*this);
        matcher->adopt(*batch.view);
        MatchWriter writer(expected, threads == 1 ? 1 : 4, block_bytes_max);
        for (size_t r = 0; r < ranges.count(); ++r) {
            size_t range = (thread + r) % ranges.count();
            for (;;) {
                if (matches.load(std::memory_order_relaxed) >= options.matches_max) return matcher.keep();
                size_t c = ranges.take(range);
                if (c >= ranges.end(range) || c > failed.load()) break;
                if (!fill(c, *matcher, writer)) return matcher.keep();
            }
        }
        matcher.keep();
    };
    run_in_threads(threads, work, [&] { failed.store(0); });
    // All chunks before the failed one are complete, so this is the first document that was not accepted.
    if (failed.load() != ~size_t(0)) throw BatchFailure{batch.chunks[failed.load()].rejected[0]};
    size_t done = stoppable ? ranges.taken_first() : chunks;
    batch.chunks.resize(done);
    batch.documents = std::min(begun, done * per_chunk);
    if (batch.documents) matches_expected_.store(1000 * matches.load() / batch.documents, std::memory_order_relaxed);
    return batch;
}

}  // namespace treecast
