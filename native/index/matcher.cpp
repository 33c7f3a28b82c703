// A Matcher: one reader, one engine run and the renderers of one thread, kept from document to document.
#include "index/matcher.hpp"

namespace treecast {

void Matcher::adopt(const View& view) {
    if (!run_) run_ = engine_.make_run(work_per_item_max_);
    run_->adopt(view, cache_bytes_max_);
}

const Document& Matcher::match(const View& view, const GivenDocument& given, Output<int32_t>& out, bool to_render) {
    undecided_.clear();
    const Document& document = given.read ? *given.read : reader_.read(given.bytes);
    if (!run_) adopt(view);
    try {
        run_->match(view, document, to_render, out, undecided_);
    } catch (...) {             // out of memory: leave nothing half done
        run_.reset();
        throw;
    }
    return document;
}

uint64_t Matcher::route(const View& view, const GivenDocument& given, const RouteQuestion& question, uint64_t found) {
    const Document& document = given.read ? *given.read : reader_.read(given.bytes);
    found = question.values.find(document, question.enough, found);
    if (question.is_answered(found) || !question.values.is_open(found)) return found;
    if (!run_) adopt(view);
    try {
        return run_->route(view, document, question, found);
    } catch (...) {             // as above
        run_.reset();
        throw;
    }
}

// Sharing and not sharing have their own renderers, so that measuring one does not disturb the other.
Renderer& Matcher::renderer(const RenderLimits& limits, bool share) {
    auto same = [&](const RenderLimits& other) {
        return limits.payload_bytes_max == other.payload_bytes_max && limits.bindings_max == other.bindings_max &&
               limits.document_payload_bytes_max == other.document_payload_bytes_max &&
               limits.work_per_item_max == other.work_per_item_max;
    };
    std::unique_ptr<Rendering>& rendering = renderings_[share];
    if (!rendering || !same(rendering->limits)) rendering.reset(new Rendering{limits, Renderer(limits, share)});
    return rendering->renderer;
}

}  // namespace treecast
