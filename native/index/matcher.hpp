// Document -> subscriptions: what one thread needs to match, kept from document to document.
#pragma once

#include "base/output.hpp"
#include "document/reader.hpp"
#include "evaluate/evaluate.hpp"
#include "index/store.hpp"
#include "machines/delta.hpp"
#include "machines/lazy.hpp"
#include "machines/tree_run.hpp"
#include "render/render.hpp"

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace treecast {

class Matcher : private NameResolver {
public:
    Matcher(Limits limits, std::shared_ptr<const Entities> entities)
        : reader_(limits, std::move(entities)), work_per_item_max_(limits.work_per_item_max) {}

    // Makes ready for a View; to be called before match() whenever the View is another one.
    void adopt(const View& view);

    // Appends the slots of all subscriptions that the document satisfies, each once, and answers with the document, which stays
    // until the next call. Throws Failure for a bad document and then appends nothing. For whoever renders what it finds, a
    // transformation that has to be judged counts as satisfied, because building its payload judges it.
    // A subscription that would take more work than its limit is in undecided(), and among what is appended only for whoever
    // renders.
    const Document& match(const View& view, std::string_view bytes, Output<int32_t>& out, bool to_render = false);
    struct Undecided {
        uint32_t slot;
        Failure failure;
    };
    const std::vector<Undecided>& undecided() const { return undecided_; }   // by the last match()
    Renderer& renderer(const RenderLimits& limits, bool share);

    void set_cache_bytes_max(uint64_t bytes) { cache_bytes_max_ = bytes; }
    uint64_t cache_bytes() const;
    uint64_t looked_at() const;              // see TreeRun

private:
    struct Cached {
        uint64_t serial;
        std::unique_ptr<Lazy> lazy;          // for a Machine
        std::unique_ptr<TreeRun> tree;       // for a TreeMachine
        AcceptBits bits;
        bool used;
    };
    const NameLabels& labels(uint32_t name) override;
    Cached& cached(const std::shared_ptr<Placed>& placed);
    void run(const View& view, const Document& document, Output<int32_t>& out);
    void run_published(const std::shared_ptr<const PublishedEngine>& engine, const Document& document, Output<int32_t>& out);
    void find_texts(const View& view, const Document& document);
    void emit(const View& view, const Document& document, const Placed& placed, AcceptBits& bits, Output<int32_t>& out);
    void emit_path(const View& view, const Document& document, uint32_t path, Output<int32_t>& out);
    bool judge(const View& view, const Document& document, uint32_t slot);

    Reader reader_;
    const uint32_t work_per_item_max_;
    uint64_t cache_bytes_max_ = 256ull << 20;
    std::vector<Cached> lazies_;
    Delta::Run delta_run_;
    // names of the reader, resolved against the labels of the View
    std::shared_ptr<const LabelTable> table_;
    uint32_t table_changes_ = 0;
    const NameTable* names_ = nullptr;
    uint64_t names_generation_ = 0;
    std::vector<NameLabels> name_labels_;
    std::vector<uint8_t> has_text_;             // by element: it has a text node child
    std::vector<uint64_t> seen_;                // by slot: subscriptions with several paths, this document
    std::vector<uint32_t> seen_slots_;
    Evaluator evaluator_;                       // judges what patterns cannot say
    const Document* document_ = nullptr;        // the one it was told of
    Query query_;
    std::vector<Undecided> undecided_;
    bool rendering_ = false;                    // of the document that is being matched
    struct Rendering { RenderLimits limits; Renderer renderer; };
    std::unique_ptr<Rendering> renderings_[2];  // by whether they share; made when they are first asked for
    // with a published engine: what it needs, and what it found
    std::weak_ptr<const PublishedEngine> published_;
    std::unique_ptr<PublishedEngine::Scratch> scratch_;
    std::vector<uint32_t> found_;
};

}  // namespace treecast
