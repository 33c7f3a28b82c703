// The Renderer: finds the plan of a subscription, and builds its payload unless an equal one exists for this document.
//
// Failures refuse one delivery and leave the others intact. After any other exception the state may be half changed, so it is
// dropped and made again for the next document.
#include "render/render.hpp"

#include "render/render_build.hpp"
#include "render/render_memo.hpp"
#include "render/render_plan.hpp"
#include "render/restructure.hpp"

#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace treecast {

namespace {
constexpr uint64_t bytes_most = 1ull << 40;
}

void check_render_limits(const RenderLimits& limits) {
    auto demand = [](uint64_t value, const char* what) {
        if (!value || value > bytes_most) throw std::invalid_argument(std::string(what) + " must be from 1 to 1099511627776");
    };
    demand(limits.payload_bytes_max, "payload_bytes_max");
    demand(limits.document_payload_bytes_max, "document_payload_bytes_max");
    demand(limits.bindings_max, "bindings_max");
}

struct Renderer::Impl {
    struct Payload {
        uint64_t begin = 0, size = 0;
    };
    // The result for one key, valid if it was made for the current document.
    struct Known {
        uint64_t document = 0;                           // that it was rendered for
        Rendered rendered;
    };

    Impl(const RenderLimits& limits_, bool share_) : limits(limits_), share(share_) {
        builder.emplace(limits, share);
        restructurer.emplace(share);
    }

    const RenderLimits limits;
    const bool share;
    PlanCache plans;
    std::optional<Builder> builder;
    std::optional<Restructurer> restructurer;
    const Document* document = nullptr;
    uint64_t documents = 0, generation = 0, built = 0;
    std::vector<Payload> payloads;
    uint32_t whole = none;                               // of them: the document itself
    std::vector<Failure> refusals;
    std::vector<Known> known;                            // by key
    Memo filled;                                         // of this document: plans that subscriptions fill in
    std::vector<uint64_t> words;

    // Numbers of keys change their meaning when the cache is cleared, so everything that refers to them is dropped with it.
    Rendered render(const HeldQuery& query, Identity identity) {
        const Plan& plan = plans.find(query, identity);
        if (generation != plans.generation()) {
            generation = plans.generation();
            known.clear();
            filled.clear();
            builder->forget_keys();
        }
        if (!share) return make(plan, query);
        if (!plan.filled.empty()) return render_filled(plan, query);
        if (plan.key >= known.size()) known.resize(plans.keys().size());
        Known& before = known[plan.key];
        if (before.document != documents) before = {documents, make(plan, query)};
        return before.rendered;
    }

    // Payloads are equal if the plan and the literals that it is filled with are.
    Rendered render_filled(const Plan& plan, const HeldQuery& query) {
        words.assign(1, plan.key);
        words.insert(words.end(), plan.filled.begin(), plan.filled.end());
        uint64_t hash;
        if (const Memo::Made* made = filled.find(words, hash))
            return {static_cast<Rendered::Is>(made->flags), static_cast<uint32_t>(made->begin)};
        Rendered rendered = make(plan, query);
        filled.keep(words, hash, {rendered.number, 0, static_cast<uint8_t>(rendered.is)});
        return rendered;
    }

    // If there is not enough memory for a payload, there may be for the next one.
    Rendered make(const Plan& plan, const HeldQuery& query) {
        ++built;
        uint64_t begin = builder->out().size();
        try {
            return try_to_make(plan, query, begin);
        } catch (const std::bad_alloc&) {
            give_back_memory(begin);
            Failure failure(Family::document, "TC333", "there is not enough memory for this payload");
            failure.limit = true;
            failure.hint = "lower the limits, DeliveryLimits(bindings_max=…, payload_bytes_max=…), or deliver less";
            return refuse(failure);
        }
    }

    // What ran out of memory is not used again: it may be half changed.
    void give_back_memory(uint64_t begin) {
        Bytes& out = builder->out();
        uint64_t payloads_begin = builder->payloads_begin();
        out.cut(begin);
        builder.emplace(limits, share);
        restructurer.emplace(share);
        builder->begin(*document, out, payloads_begin);
        restructurer->begin(*document);
    }

    Rendered refuse(const Failure& failure) {
        refusals.push_back(failure);
        return {Rendered::Is::refused, static_cast<uint32_t>(refusals.size() - 1)};
    }

    // The document itself needs no building, and has its own limit.
    Rendered try_to_make(const Plan& plan, const HeldQuery& query, uint64_t begin) {
        if (plan.is == Plan::Is::document) {
            builder->add_original();
            Rendered rendered = add({begin, document->original.size()});
            whole = rendered.number;
            return rendered;
        }
        builder->start();
        try {
            if (!append(plan)) {
                builder->cut();
                return {};
            }
        } catch (const Failure& failure) {
            builder->cut();
            if (plan.is == Plan::Is::built && !binds(plan, query.text())) return {};
            return refuse(plan.is == Plan::Is::built ? located(failure, plan, query.text()) : failure);
        }
        return add({begin, builder->out().size() - begin});
    }

    // Whether there is something to refuse: building may fail before the clauses are reached, though nothing is bound.
    bool binds(const Plan& plan, std::string_view text) {
        Query matching;
        parse_matching(text, plan.settings.bindings, false, matching);
        builder->allow_deciding();
        try {
            return builder->evaluator.satisfies(matching, false);
        } catch (const OutOfWork&) {
            return true;                                 // it may: better a refusal too many than none
        }
    }

    // The failure with its position in this plan's text: the programs may have come from another text.
    Failure located(const Failure& failure, const Plan& plan, std::string_view text) {
        if (failure.family != Family::query) return failure;
        PlanCache alone;
        Failure found = failure;
        builder->forget_keys();                           // what was made goes by other numbers
        try {
            builder->start();
            builder->build(alone.find({text, plan.settings}), alone);
        } catch (const Failure& again) {
            found = again;
            found.position += text.size() - plan.text.size();    // literals of the clauses, which come before
        }
        builder->cut();
        builder->forget_keys();
        return found;
    }

    bool append(const Plan& plan) {
        switch (plan.is) {
            case Plan::Is::elements: return builder->copy_selected(plan);
            case Plan::Is::built: return builder->build(plan, plans);
            default: return append_list(*plan.list);
        }
    }

    // An empty result counts as a delivery if the list had something to start from.
    bool append_list(const Transformation& list) {
        uint64_t begin = builder->out().size();
        if (!restructurer->restructure(list, builder->evaluator, builder->room(), builder->out())) builder->refuse_size();
        if (builder->out().size() > begin || list.from() == no_entry) return true;
        Evaluator::Item first;                           // nothing is left, or there was nothing to start from
        builder->evaluator.enter(list.query());
        builder->evaluator.prepare(list.from());
        return builder->evaluator.first(list.from(), {}, first);
    }

    Rendered add(Payload payload) {
        payloads.push_back(payload);
        return {Rendered::Is::payload, static_cast<uint32_t>(payloads.size() - 1)};
    }
};

Renderer::Renderer(RenderLimits limits, bool share) : limits_(limits), share_(share) {
    check_render_limits(limits);
    impl_ = std::make_unique<Impl>(limits, share);
}

Renderer::~Renderer() = default;
Renderer::Renderer(Renderer&&) noexcept = default;
Renderer& Renderer::operator=(Renderer&&) noexcept = default;

void Renderer::begin(const Document& document, Bytes& out) {
    if (!impl_) impl_ = std::make_unique<Impl>(limits_, share_);
    Impl& r = *impl_;
    r.document = &document;
    ++r.documents;
    r.payloads.clear();
    r.whole = none;
    r.refusals.clear();
    r.filled.clear();
    r.builder->begin(document, out, out.size());
    r.restructurer->begin(document);
}

Rendered Renderer::render(const HeldQuery& query, Identity identity) {
    try {
        return impl_->render(query, identity);
    } catch (const Failure&) {
        throw;
    } catch (...) {
        impl_.reset();               // half done
        throw;
    }
}

std::string_view Renderer::payload(uint32_t number) const {
    const Impl::Payload& payload = impl_->payloads[number];
    return impl_->builder->out().view(payload.begin, payload.size);
}

void Renderer::prefetch(Identity identity, size_t stage) const {
    if (impl_) impl_->plans.prefetch(identity, stage);
}

uint32_t Renderer::whole() const { return impl_->whole; }

const Failure& Renderer::refusal(uint32_t number) const { return impl_->refusals[number]; }

Renderer::Work Renderer::work() const {
    return {impl_->plans.parsed(), impl_->built, impl_->builder->bound, impl_->builder->reused};
}

}  // namespace treecast
