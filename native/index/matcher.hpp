// Document -> subscriptions: what one thread needs to match, kept from document to document.
#pragma once

#include "base/output.hpp"
#include "document/kept.hpp"
#include "engines/engine.hpp"
#include "index/slot_order.hpp"
#include "render/render.hpp"

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace treecast {

class Matcher {
public:
    Matcher(const Engine& engine, Limits limits, std::shared_ptr<const Entities> entities, uint64_t cache_bytes_max)
        : engine_(engine), reader_(limits, std::move(entities)), work_per_item_max_(limits.work_per_item_max), cache_bytes_max_(cache_bytes_max) {}

    // Makes ready for a View; to be called before match() whenever the View is another one.
    void adopt(const View& view);

    // Appends the slots of all subscriptions that the document satisfies, each once and in any order, and answers with the document, which stays
    // until the next call, unless it was given. Throws Failure for a bad document and then appends nothing. For whoever renders what it finds, a
    // transformation that needs a recheck counts as satisfied, because building its payload checks it.
    // A subscription that would take more work than its limit is in undecided(), and among what is appended only for whoever
    // renders.
    const Document& match(const View& view, const GivenDocument& given, Output<int32_t>& out, bool to_render = false);
    // Puts what match() appended into the order of addition.
    void sort(const View& view, Output<int32_t>& slots) { slot_order_.sort(view, slots); }
    // The targets that the document is for: see EngineRun. Throws Failure for a bad document.
    uint64_t route(const View& view, const GivenDocument& given, const RouteQuestion& question, uint64_t found);
    using Undecided = treecast::Undecided;
    const std::vector<Undecided>& undecided() const { return undecided_; }   // by the last match()
    Renderer& renderer(const RenderLimits& limits, bool share);

    void rest() {                                                            // see EngineRun
        if (run_) run_->rest();
    }
    RunCounts counts() const { return run_ ? run_->counts() : RunCounts{}; }
    uint64_t looked_at() const { return run_ ? run_->looked_at() : 0; }      // see TreeRun

private:
    const Engine& engine_;
    Reader reader_;
    const uint32_t work_per_item_max_;
    const uint64_t cache_bytes_max_;
    std::unique_ptr<EngineRun> run_;
    std::vector<Undecided> undecided_;
    SlotOrder slot_order_;
    struct Rendering { RenderLimits limits; Renderer renderer; };
    std::unique_ptr<Rendering> renderings_[2];  // by whether they share; made when they are first asked for
};

}  // namespace treecast
