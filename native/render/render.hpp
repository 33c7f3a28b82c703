// Document + subscriptions that match it -> payloads: what each subscriber gets.
//
// Theory of operation. A subscription is read once into a Plan (render_plan.hpp), which stays in a cache across documents.
// A plan is built at the end of the caller's buffer (render_build.hpp): copied elements are slices of the source, values are
// escaped on the way, and nothing is stored in between. Nothing is evaluated twice for one document:
//   - plans with the same key have the same payload, which is built once;
//   - what `for` and `where` bind is found once for all plans that bind the same;
//   - a constructor that several plans have in common is built once for the same items; the others copy its bytes.
// Keys are canonical texts with expanded names, interned. Everything that is kept has a limit.
//
//   TC119  a payload that cannot be: an attribute after content, an attribute twice, an attribute outside any element
//   TC330  a payload of more than payload_bytes_max
//   TC331  payloads of one document of more than document_payload_bytes_max together
//   TC332  more than bindings_max items bound for one payload, or far more looked at or held
//   TC333  not enough memory for a payload: what was taken for it is given back
//   (TC340 belongs to the evaluator.)
//   Each refuses one delivery, not the document.
#pragma once

#include "base/failure.hpp"
#include "base/output.hpp"
#include "document/document.hpp"
#include "engines/subscriptions.hpp"
#include "query/settings.hpp"

#include <cstdint>
#include <memory>
#include <string_view>

namespace treecast {

struct RenderLimits {
    uint64_t payload_bytes_max = 16ull << 20;
    uint64_t document_payload_bytes_max = 256ull << 20;
    uint64_t bindings_max = 1'000'000;
    uint32_t work_per_item_max = Limits().work_per_item_max;     // of deciding and selecting: see evaluate.hpp
    bool operator==(const RenderLimits&) const = default;
};

// Throws std::invalid_argument if a limit is out of range.
void check_render_limits(const RenderLimits& limits);

struct Rendered {
    enum class Is : uint8_t {
        nothing,        // the transformation binds nothing, the query selects nothing: no delivery
        payload,
        refused,
    };
    Is is = Is::nothing;
    uint32_t number = 0;             // of the payload or the refusal, within this document
};

// Names a text and its settings for good, if `serial` is not 0: what is known of it is found without looking at it.
struct Identity {
    uint64_t serial = 0;
    uint32_t slot = 0;
};

// One per thread; keeps plans and scratch from document to document.
class Renderer {
public:
    // Without `share` every subscription is built by itself; for measuring what sharing saves.
    explicit Renderer(RenderLimits limits = {}, bool share = true);
    ~Renderer();
    Renderer(Renderer&&) noexcept;
    Renderer& operator=(Renderer&&) noexcept;

    // Forgets the payloads of the document before. This one must stay as it is until the next call, and what is put at the
    // end of `out` too.
    void begin(const Document& document, Bytes& out);

    // Asks the processor for what is known of a subscription that is about to be rendered. PERF: bench/rendering.py
    // Stage after stage, with some time between.
    static constexpr size_t prefetch_stages = 4;
    void prefetch(Identity identity, size_t stage) const;

    // Any subscription: a transformation, or a query, which delivers as its settings say. One that delivers the document must
    // match it: it is not evaluated again. A payload that was not there before is now at the end of `out`, and nothing else.
    // Throws Failure where the text cannot be read, which a store has checked before.
    Rendered render(const HeldQuery& query, Identity identity = {});

    // Of this document: the payload that is the document itself, or none.
    uint32_t whole() const;
    // Likewise. The view lives until the next render().
    std::string_view payload(uint32_t number) const;
    const Failure& refusal(uint32_t number) const;

    struct Work {                    // since the Renderer was made
        uint64_t parsed = 0;         // texts read
        uint64_t built = 0;          // payloads and refusals made, not shared
        uint64_t bound = 0;          // times that clauses were evaluated
        uint64_t reused = 0;         // constructors whose bytes were copied
    };
    Work work() const;

private:
    struct Impl;
    RenderLimits limits_;
    bool share_;
    std::unique_ptr<Impl> impl_;     // none after an exception that is not a Failure
};

}  // namespace treecast
