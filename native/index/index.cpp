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
    // `chunks`: the answers so far.
    bool fits(std::span<const Chunk> chunks) {
        if (bytes_max_ == ~0ull) return true;
        uint64_t uncounted = 0;
        for (size_t c = chunk_; c < chunks.size(); ++c) uncounted += chunks[c].slots.size() - (c == chunk_ ? at_ : 0);
        if (within(bytes_ + uncounted * id_bytes_max)) return true;
        for (;; ++chunk_, at_ = 0) {
            const Output<int32_t>& slots = chunks[chunk_].slots;
            for (; at_ < slots.size(); ++at_) bytes_ += view_.id(slots.data()[at_]).size();
            if (chunk_ + 1 == chunks.size()) return within(bytes_);
        }
    }

private:
    bool within(uint64_t bytes) const { return bytes + document_bytes_ <= bytes_max_; }
    static constexpr uint64_t id_bytes_max = 1024;
    const View& view_;
    const uint64_t bytes_max_, document_bytes_;
    uint64_t bytes_ = 0;                    // of the answers that have been counted,
    size_t chunk_ = 0, at_ = 0;             // which are those before this one
};

}  // namespace

size_t Batch::matches() const {
    size_t total = 0;
    for (const Chunk& chunk : chunks) total += chunk.slots.size();
    return total;
}

// The memory limit holds for all Matchers together: each gets an equal part.
std::unique_ptr<Matcher> Index::borrow() {
    std::lock_guard lock(pool_mutex_);
    if (forks_ != forks_survived()) lent_ = 0;          // those that had them are in another process
    forks_ = forks_survived();
    std::unique_ptr<Matcher> matcher;
    pool_.reserve(pool_max);                // giving back must not fail
    if (pool_.empty()) {
        matcher = std::make_unique<Matcher>(store_.engine(), limits_, entities_);
    } else {
        matcher = std::move(pool_.back());
        pool_.pop_back();
    }
    ++lent_;
    matcher->set_cache_bytes_max(cache_bytes_max_ / (lent_ + pool_.size()));
    return matcher;
}

// A null Matcher was broken by an exception. It only stops counting as lent.
void Index::give_back(std::unique_ptr<Matcher> matcher) noexcept {
    std::lock_guard lock(pool_mutex_);
    --lent_;
    if (matcher && pool_.size() < pool_max) pool_.push_back(std::move(matcher));
}

// Lent Matchers are not counted: only their threads may look at them.
uint64_t Index::cache_bytes() const {
    std::lock_guard lock(pool_mutex_);
    uint64_t total = 0;
    for (const auto& matcher : pool_) total += matcher->cache_bytes();
    return total;
}

uint64_t Index::looked_at() const {
    std::lock_guard lock(pool_mutex_);
    uint64_t total = 0;
    for (const auto& matcher : pool_) total += matcher->looked_at();
    return total;
}

void Index::drop_caches() {
    drop_spare_outputs();
    std::lock_guard lock(pool_mutex_);
    pool_.clear();
}

// Few slots are sorted directly. Many are put into a bit set, which yields them sorted in linear time.
void sort_slots(const View& view, int32_t* slots, size_t count, std::vector<uint64_t>& scratch) {
    if (view.order) {
        std::sort(slots, slots + count, [&](int32_t a, int32_t b) { return view.order_of(a) < view.order_of(b); });
    } else if (count * 32 < view.slots) {
        std::sort(slots, slots + count);
    } else {
        scratch.assign(view.slots / 64 + 1, 0);
        for (size_t i = 0; i < count; ++i) scratch[slots[i] >> 6] |= 1ull << (slots[i] & 63);
        for (size_t word = 0; word < scratch.size(); ++word)
            for (uint64_t rest = scratch[word]; rest; rest &= rest - 1)
                *slots++ = static_cast<int32_t>(word * 64 + std::countr_zero(rest));
    }
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
    } catch (const Failure&) {
        matcher.keep();
        throw;
    }
    matcher.keep();
    add_undecided(*view, *matcher, 0, undecided);
    std::vector<uint64_t> scratch;
    sort_slots(*view, out.data(), out.size(), scratch);
    return view;
}

void Index::route(size_t count, const std::function<GivenDocument(size_t)>& next,
                  const std::function<void(size_t, const GivenDocument&, uint64_t)>& answer, Routing& routing) {
    store_.merge_if_due();
    auto reading = store_.read();
    std::shared_ptr<const View> view = store_.view();
    std::lock_guard lock(routing.targets.mutex());
    RouteQuestion question{routing.targets.of(*view), routing.targets, routing.enough};
    Lease matcher(*this);
    matcher->adopt(*view);
    for (size_t i = 0; i < count; ++i) {
        Interrupt::check(1000);
        try {
            GivenDocument given = next(i);
            routing.targets.begin_document();
            answer(i, given, matcher->route(*view, given, question, routing.found));
        } catch (const Failure& failure) {
            routing.rejected.emplace_back(i, failure);
        }
    }
    matcher.keep();
}

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
    std::atomic<size_t> next{0}, failed{~size_t(0)};
    std::atomic<uint64_t> matches{0};
    auto work = [&](size_t) {
        Lease matcher(*this);
        matcher->adopt(*batch.view);
        for (;;) {
            if (matches.load(std::memory_order_relaxed) >= options.matches_max) return matcher.keep();
            size_t c = next.fetch_add(1);
            if (c >= chunks || c > failed.load()) return matcher.keep();
            Chunk& chunk = batch.chunks[c];
            chunk.first = c * per_chunk;
            for (size_t d = chunk.first; d < std::min(documents.size(), chunk.first + per_chunk); ++d) {
                Interrupt::check(1000);
                if (threads == 1 && d && !room.fits(std::span(batch.chunks).first(c + 1))) {
                    begun = d;
                    return matcher.keep();
                }
                size_t before = chunk.slots.size();
                Stopwatch stopwatch(options.timed);
                try {
                    matcher->match(*batch.view, documents[d], chunk.slots);
                    add_undecided(*batch.view, *matcher, d, chunk.undecided);
                } catch (const Failure& failure) {
                    chunk.rejected.push_back({d, failure});
                    if (!options.report) {
                        // Keeps the smallest failed chunk, so that the first rejected document is reported, whatever the threads'
                        // timing.
                        size_t least = failed.load();
                        while (c < least && !failed.compare_exchange_weak(least, c)) {}
                        break;
                    }
                }
                chunk.counts.push_back(static_cast<uint32_t>(chunk.slots.size() - before));
                if (options.timed) chunk.nanoseconds.push_back(stopwatch.nanoseconds());
            }
            matches.fetch_add(chunk.slots.size(), std::memory_order_relaxed);
        }
    };
    run_in_threads(threads, work, [&] { failed.store(0); });
    // All chunks before the failed one are complete, so this is the first document that was not accepted.
    if (failed.load() != ~size_t(0)) throw BatchFailure{batch.chunks[failed.load()].rejected[0]};
    size_t done = std::min(next.load(), chunks);
    batch.chunks.resize(done);
    batch.documents = std::min(begun, done * per_chunk);
    return batch;
}

}  // namespace treecast
