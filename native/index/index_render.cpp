// Documents -> deliveries: matches a document, and builds a payload for every subscription that matches.
#include "base/interrupt.hpp"
#include "base/seeded_hash.hpp"
#include "index/index.hpp"
#include "index/index_lease.hpp"
#include "index/workers.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace treecast {

namespace {

constexpr size_t room_bytes_max = 32u << 20;    // at first
constexpr size_t all_ids_bytes_max = 0x7FFFFFFFu;    // their ends have 32 bits

constexpr size_t apart = 3;         // deliveries

// What is known of a subscription lies in memory that has not been touched for long. What is read once the payload is there is
// asked for later than the plan: payloads would displace it again. PERF: bench/rendering.py
void prefetch(const View& view, const Renderer& renderer, std::span<const int32_t> slots, size_t at) {
    for (size_t stage = 0; stage < Renderer::prefetch_stages; ++stage) {
        size_t coming = at + (Renderer::prefetch_stages - stage) * apart;
        if (coming < slots.size()) renderer.prefetch({view.serial, static_cast<uint32_t>(slots[coming])}, stage);
    }
    if (at + 2 * apart < slots.size()) {
        auto slot = static_cast<uint32_t>(slots[at + 2 * apart]);
        __builtin_prefetch(&view.id_ends[slot]);
    }
    if (at + apart < slots.size()) __builtin_prefetch(&view.id_bytes[view.id_ends[slots[at + apart]]]);
}

// prefetch() looks some deliveries ahead, so it never asks for the first ones. These two do: the first stage before slots are sorted,
// the others after that.
void prefetch_begin(const View& view, const Renderer& renderer, std::span<const int32_t> slots) {
    for (int32_t slot : slots.first(std::min(slots.size(), Renderer::prefetch_stages * apart))) {
        renderer.prefetch({view.serial, static_cast<uint32_t>(slot)}, 0);
        __builtin_prefetch(&view.id_ends[static_cast<uint32_t>(slot)]);
    }
}

void prefetch_first(const View& view, const Renderer& renderer, std::span<const int32_t> slots) {
    auto first = [slots](size_t count) { return slots.first(std::min(slots.size(), count)); };
    for (size_t stage = 1; stage < Renderer::prefetch_stages; ++stage)
        for (int32_t slot : first((Renderer::prefetch_stages - stage) * apart)) renderer.prefetch({view.serial, static_cast<uint32_t>(slot)}, stage);
    for (int32_t slot : first(apart)) __builtin_prefetch(&view.id_bytes[view.id_ends[static_cast<uint32_t>(slot)]]);
}

// Appends the deliveries of one document that has been matched. What could not be decided is refused. Returns the number of the payload
// that is the document itself, or none.
uint32_t deliver(const View& view, const Document& document, Matcher& matcher, std::span<const int32_t> slots,
                 const DeliveryOptions& options, DeliveryBatch& batch, uint64_t& bytes) {
    Renderer& renderer = matcher.renderer(options.limits, options.share);
    NumberMap<uint32_t, const Failure*> undecided;
    for (const Matcher::Undecided& one : matcher.undecided()) undecided.emplace(one.slot, &one.failure);
    renderer.begin(document, batch.bytes);
    size_t payloads_before = batch.payload_ends.size() - 1;
    NumberMap<uint32_t, size_t> refusals;       // by their number here; all that is undecided has one
    constexpr uint32_t undecided_refusal = none;
    std::string room;
    prefetch_first(view, renderer, slots);
    for (size_t at = 0; at < slots.size(); ++at) {
        prefetch(view, renderer, slots, at);
        Interrupt::check(200);
        auto slot = static_cast<uint32_t>(slots[at]);
        const Failure* failure = nullptr;
        Rendered rendered{Rendered::Is::refused, 0};
        if (auto one = undecided.find(slot); one != undecided.end()) failure = one->second;
        else rendered = renderer.render({view, slot, room}, {view.serial, slot});
        if (rendered.is == Rendered::Is::nothing) continue;
        bool built = rendered.is == Rendered::Is::payload;
        size_t number = rendered.number + payloads_before;
        if (built) {
            if (number + 1 == batch.payload_ends.size()) batch.payload_ends.push_back(static_cast<int64_t>(batch.bytes.size()));
            bytes += static_cast<uint64_t>(batch.payload_ends[number + 1] - batch.payload_ends[number]);
        } else {
            // Equal refusals of one document are stored once.
            auto [known, fresh] = refusals.try_emplace(failure ? undecided_refusal : rendered.number, batch.refusals.size());
            if (fresh) {
                batch.refusals.push_back(failure ? *failure : renderer.refusal(rendered.number));
                batch.refusal_texts.emplace_back(view.text(slot, room));
            }
            number = known->second;
        }
        if (options.ids) {
            batch.ids += view.id(slot);
            batch.id_ends.push_back(static_cast<int32_t>(batch.ids.size()));
        }
        batch.slots.push_back(static_cast<int32_t>(slot));
        batch.payloads.push_back(built ? static_cast<int64_t>(number) : -1 - static_cast<int64_t>(number));
    }
    return renderer.whole();
}

// Appends the text of a document, unless one of its payloads is the same. `first` is its first payload; `whole`: see deliver().
void append_text(const Document& document, size_t first, uint32_t whole, DeliveryBatch& batch) {
    if (whole != none) {
        batch.own_payloads.back() = static_cast<int64_t>(first + whole);
        return;
    }
    for (size_t number = first; number + 1 < batch.payload_ends.size(); ++number) {
        auto begin = static_cast<size_t>(batch.payload_ends[number]), end = static_cast<size_t>(batch.payload_ends[number + 1]);
        if (batch.bytes.view(begin, end - begin) != document.original) continue;
        batch.own_payloads.back() = static_cast<int64_t>(number);
        return;
    }
    batch.texts += document.original;
}

// Appends what a document yields, or that it was not accepted. `bytes` grows by what `options.count` says.
template <class Next>
void render_document(Matcher& matcher, const Next& next, size_t number, const DeliveryOptions& options, DeliveryBatch& batch,
                     uint64_t& bytes) {
    constexpr uint64_t delivery_bytes = sizeof(int32_t) + sizeof(int64_t);      // its slot and the number of its payload
    auto begin = std::chrono::steady_clock::now();
    size_t deliveries_before = batch.slots.size(), bytes_before = batch.bytes.size(), payloads_before = batch.payload_ends.size() - 1;
    uint64_t delivered = 0;
    const bool has_text = options.texts != DeliveryOptions::Texts::none;
    if (has_text) batch.own_payloads.push_back(-1);
    try {
        Output<int32_t> slots;
        const Document& read = matcher.match(*batch.view, next(number), slots, true);
        prefetch_begin(*batch.view, matcher.renderer(options.limits, options.share), {slots.data(), slots.size()});
        matcher.sort(*batch.view, slots);
        const std::span<const int32_t> matches(slots.data(), slots.size());
        const uint32_t whole = deliver(*batch.view, read, matcher, matches, options, batch, delivered);
        if (options.texts == DeliveryOptions::Texts::all || (has_text && batch.slots.size() > deliveries_before))
            append_text(read, payloads_before, whole, batch);
    } catch (const Failure& failure) {
        batch.rejected.push_back({number, failure});
    }
    uint64_t held = batch.bytes.size() - bytes_before + (batch.slots.size() - deliveries_before) * delivery_bytes;
    bytes += options.count == DeliveryOptions::Count::held ? held : delivered;
    batch.ends.push_back(static_cast<int32_t>(batch.slots.size()));
    if (has_text) batch.text_ends.push_back(static_cast<int64_t>(batch.texts.size()));
    batch.nanoseconds.push_back(std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count());
    batch.numbers.push_back(static_cast<int64_t>(number));
    ++batch.documents;
}

// Runs of neighbouring documents, handed out to threads one after the other.
//
// Theory of operation. The answer must be the documents up to some number, without a gap. If the bytes are used up in the middle
// of a run, the answer ends there, and what other threads have made of later runs is thrown away. To keep that small, a run is
// only so long that each thread gets a part of the remaining room, estimated from the bytes that documents have taken so far.
class Runs {
public:
    Runs(size_t documents, size_t threads, uint64_t bytes_max) : documents_(documents), threads_(threads), bytes_max_(bytes_max) {}

    struct Run {
        size_t first, end;
    };
    // The next run. An empty one means that there is nothing left to begin.
    Run next() {
        std::lock_guard lock(mutex_);
        size_t first = next_;
        if (first == documents_ || first >= end_.load() || !has_room()) return {first, first};
        size_t left = documents_ - first;
        size_t count = std::clamp<size_t>(threads_ == 1 ? left : left / (threads_ * runs_per_thread), 1, documents_max);
        if (bytes_max_ != ~0ull) {
            uint64_t each = done_ ? bytes_ / done_ + 1 : 0;         // 0: nothing is known yet
            uint64_t room = (bytes_max_ - bytes_.load()) / (threads_ * runs_per_thread);
            count = each ? std::clamp<size_t>(room / each, 1, count) : 1;
        }
        next_ = first + count;
        return {first, next_};
    }
    void add(uint64_t bytes) {
        bytes_.fetch_add(bytes, std::memory_order_relaxed);
        done_.fetch_add(1, std::memory_order_relaxed);
    }
    bool has_room() const { return bytes_.load(std::memory_order_relaxed) < bytes_max_; }
    // The answer has no document from this one on.
    void end_before(size_t document) {
        size_t end = end_.load();
        while (document < end && !end_.compare_exchange_weak(end, document)) {}
    }
    size_t end() const { return end_.load(std::memory_order_relaxed); }
    size_t begun() const { return next_; }      // once all threads are done

private:
    static constexpr size_t documents_max = 256, runs_per_thread = 4;
    const size_t documents_, threads_;
    const uint64_t bytes_max_;
    std::mutex mutex_;
    size_t next_ = 0;
    std::atomic<uint64_t> bytes_{0}, done_{0};
    std::atomic<size_t> end_{~size_t(0)};
};

DeliveryBatch begin_piece(const std::shared_ptr<const View>& view, size_t bytes) {
    DeliveryBatch piece;
    piece.view = view;
    piece.bytes.room(bytes);
    return piece;
}

// What one thread has made. It writes one run after the other, because memory that was never touched costs more than rendering
// does, and begins another piece before the numbers of one become too large for it. PERF: bench/rendering.py, render_many
class ThreadPieces {
public:
    void begin(const std::shared_ptr<const View>& view, size_t first, size_t bytes) {
        if (pieces_.empty()) pieces_.push_back(begin_piece(view, bytes));
        runs_.push_back({first, pieces_.size() - 1, piece().slots.size(), piece().slots.size()});
    }
    // The piece for the document with this number, the next of its run.
    DeliveryBatch& for_document(size_t number) {
        if (piece().bytes.size() > piece_bytes_max || piece().slots.size() > piece_deliveries_max) {
            pieces_.push_back(begin_piece(piece().view, 0));
            runs_.push_back({number, pieces_.size() - 1, 0, 0});
        }
        return piece();
    }
    void end_document() { runs_.back().end = piece().slots.size(); }
    // Moves everything into `out`, except what belongs to documents from `end` on.
    void move_to(RenderedPieces& out, size_t end) {
        for (RenderedPieces::Run run : runs_) {
            run.piece += out.pieces.size();
            if (run.first < end && run.begin < run.end) out.runs.push_back(run);
        }
        for (DeliveryBatch& piece : pieces_) {
            std::erase_if(piece.rejected, [end](const Rejected& rejected) { return rejected.document >= end; });
            out.pieces.push_back(std::move(piece));
        }
    }
    size_t bytes() const {
        size_t bytes = 0;
        for (const DeliveryBatch& piece : pieces_) bytes += piece.bytes.size();
        return bytes;
    }

private:
    static constexpr size_t piece_bytes_max = 256u << 20, piece_deliveries_max = 1u << 24;
    DeliveryBatch& piece() { return pieces_.back(); }
    std::vector<DeliveryBatch> pieces_;
    std::vector<RenderedPieces::Run> runs_;
};

}  // namespace

// Everything that the documents of a call have in common.
struct Index::Rendering::Run {
    Run(Index& index, const DeliveryOptions& given) : index(index), options(given), reading(index.store_.read()), matcher(index) {
        options.limits.work_per_item_max = index.limits_.work_per_item_max;
        batch = begin_piece(index.store_.view(), std::min(index.payload_bytes_.load(), room_bytes_max));
        if (options.texts != DeliveryOptions::Texts::none) batch.texts.room(std::min(index.text_bytes_.load(), room_bytes_max));
        matcher->adopt(*batch.view);
        document_id_bytes = batch.view->slots ? static_cast<size_t>(batch.view->id_ends[batch.view->slots]) : 0;
    }
    Index& index;
    DeliveryOptions options;
    std::shared_lock<LastingSharedMutex> reading;
    Lease matcher;
    DeliveryBatch batch;
    uint64_t bytes = 0;
    size_t document_id_bytes = 0;      // of one document, at most
};

Index::Rendering::Rendering(Index& index, const DeliveryOptions& options) {
    index.store_.merge_if_due();
    run_ = std::make_unique<Run>(index, options);
}

Index::Rendering::~Rendering() = default;

bool Index::Rendering::has_room() const {
    const DeliveryBatch& batch = run_->batch;
    return !batch.documents || (run_->bytes < run_->options.bytes_max && batch.ids.size() + run_->document_id_bytes <= all_ids_bytes_max);
}

template <class Next>
void Index::Rendering::add(const Next& next) {
    Run& run = *run_;
    render_document(*run.matcher, next, run.batch.documents, run.options, run.batch, run.bytes);
}

void Index::Rendering::render(const GivenDocument& document) {
    add([&](size_t) -> const GivenDocument& { return document; });
}

DeliveryBatch Index::Rendering::finish() {
    Run& run = *run_;
    run.matcher.keep();
    // A running estimate that shrinks slowly, so that one small batch does not make the next one reallocate.
    run.index.payload_bytes_ = std::max(run.batch.bytes.size(), run.index.payload_bytes_.load() / 2);
    run.index.text_bytes_ = std::max(run.batch.texts.size(), run.index.text_bytes_.load() / 2);
    return std::move(run.batch);
}

DeliveryBatch Index::render_part(size_t count, const std::function<GivenDocument(size_t)>& next, const DeliveryOptions& options) {
    Rendering rendering(*this, options);
    const DeliveryBatch& batch = rendering.run_->batch;
    while (batch.documents < count && rendering.has_room()) {
        rendering.add(next);
        if (options.report || batch.rejected.empty()) continue;
        rendering.run_->matcher.keep();
        throw BatchFailure{batch.rejected[0]};
    }
    return rendering.finish();
}

// Threads take runs of documents until nothing is left, or until the answer is full.
RenderedPieces Index::render_many(std::span<const GivenDocument> documents, const DeliveryOptions& given) {
    DeliveryOptions options = given;
    options.limits.work_per_item_max = limits_.work_per_item_max;
    store_.merge_if_due();
    auto reading = store_.read();      // for all threads
    std::shared_ptr<const View> view = store_.view();
    size_t threads = std::max<size_t>(1, std::min(options.threads, documents.size()));
    size_t room = std::min(payload_bytes_.load() / threads, room_bytes_max);
    Runs runs(documents.size(), threads, options.bytes_max);
    std::vector<ThreadPieces> made(threads);
    auto work = [&](size_t thread) {
        Lease matcher(*this);
        matcher->adopt(*view);
        for (Runs::Run run = runs.next(); run.first < run.end; run = runs.next()) {
            made[thread].begin(view, run.first, room);
            for (size_t d = run.first; d < run.end && d < runs.end(); ++d) {
                Interrupt::check(1000);
                if (d > run.first && !runs.has_room()) {
                    runs.end_before(d);
                    break;
                }
                DeliveryBatch& piece = made[thread].for_document(d);
                uint64_t bytes = 0;
                render_document(*matcher, [&](size_t i) -> const GivenDocument& { return documents[i]; }, d, options, piece, bytes);
                made[thread].end_document();
                runs.add(bytes);
                if (!options.report && !piece.rejected.empty()) runs.end_before(d + 1);
            }
        }
        matcher.keep();
    };
    run_in_threads(threads, work, [&] { runs.end_before(0); });
    RenderedPieces rendered;
    rendered.documents = std::min(runs.end(), runs.begun());
    size_t bytes = 0;
    for (ThreadPieces& pieces : made) {
        bytes += pieces.bytes();
        pieces.move_to(rendered, rendered.documents);
    }
    payload_bytes_ = std::max(bytes, payload_bytes_.load() / 2);
    std::sort(rendered.runs.begin(), rendered.runs.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    if (!options.report) {
        const Rejected* first = nullptr;
        for (const DeliveryBatch& piece : rendered.pieces)
            if (!piece.rejected.empty() && (!first || piece.rejected[0].document < first->document)) first = &piece.rejected[0];
        if (first) throw BatchFailure{*first};
    }
    return rendered;
}

}  // namespace treecast
