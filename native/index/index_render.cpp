// Documents -> deliveries: matching, and a payload for everything that matches.
#include "base/interrupt.hpp"
#include "base/seeded_hash.hpp"
#include "index/index.hpp"
#include "index/index_lease.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace treecast {

namespace {

constexpr size_t room_bytes_max = 32u << 20;    // at first
constexpr size_t id_bytes_max = 0x7FFFFFFFu;    // their ends have 32 bits

// What is known of a subscription lies in memory that has not been touched for long. PERF: bench/rendering.py
void prefetch(const View& view, const Renderer& renderer, std::span<const int32_t> slots, size_t at) {
    constexpr size_t apart = 3;
    for (size_t stage = 0; stage < Renderer::prefetch_stages; ++stage) {
        size_t coming = at + (Renderer::prefetch_stages - stage) * apart;
        if (coming >= slots.size()) continue;
        auto slot = static_cast<uint32_t>(slots[coming]);
        renderer.prefetch({view.serial, slot}, stage);
        if (stage) continue;
        __builtin_prefetch(&view.text_ends[slot]);
        __builtin_prefetch(&view.slot_settings[slot]);
        __builtin_prefetch(&view.id_ends[slot]);
    }
}

// Appends the deliveries of one document; the document has been matched. What could not be decided is refused.
void deliver(const View& view, const Document& document, Matcher& matcher, std::span<const int32_t> slots,
             const DeliveryOptions& options, DeliveryBatch& batch, uint64_t& bytes) {
    Renderer& renderer = matcher.renderer(options.limits, options.share);
    NumberMap<uint32_t, const Failure*> undecided;
    for (const Matcher::Undecided& one : matcher.undecided()) undecided.emplace(one.slot, &one.failure);
    renderer.begin(document, batch.bytes);
    size_t payloads_before = batch.payload_ends.size() - 1;
    NumberMap<uint32_t, size_t> refusals;       // by their number here; all that is undecided has one
    constexpr uint32_t undecided_refusal = none;
    for (size_t at = 0; at < slots.size(); ++at) {
        prefetch(view, renderer, slots, at);
        Interrupt::check(200);
        auto slot = static_cast<uint32_t>(slots[at]);
        const Failure* failure = nullptr;
        Rendered rendered{Rendered::Is::refused, 0};
        if (auto one = undecided.find(slot); one != undecided.end()) failure = one->second;
        else rendered = renderer.render(view.text(slot), (*view.settings)[view.slot_settings[slot]], {view.serial, slot});
        if (rendered.is == Rendered::Is::nothing) continue;
        bool built = rendered.is == Rendered::Is::payload;
        size_t number = rendered.number + payloads_before;
        if (built) {
            if (number + 1 == batch.payload_ends.size()) batch.payload_ends.push_back(static_cast<int64_t>(batch.bytes.size()));
            bytes += static_cast<uint64_t>(batch.payload_ends[number + 1] - batch.payload_ends[number]);
        } else {
            auto [known, fresh] = refusals.try_emplace(failure ? undecided_refusal : rendered.number, batch.refusals.size());
            if (fresh) {
                batch.refusals.push_back(failure ? *failure : renderer.refusal(rendered.number));
                batch.refusal_texts.emplace_back(view.text(slot));
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
}

}  // namespace

DeliveryBatch Index::render_many(std::span<const std::string_view> documents, const DeliveryOptions& given) {
    DeliveryOptions options = given;
    options.limits.work_per_item_max = limits_.work_per_item_max;
    DeliveryBatch batch;
    auto reading = store_.read();
    batch.view = store_.view();
    Lease matcher(*this);
    matcher->adopt(*batch.view);
    std::vector<uint64_t> scratch;
    uint64_t bytes = 0;
    batch.bytes.room(std::min(payload_bytes_.load(), room_bytes_max));
    size_t document_id_bytes = batch.view->slots ? static_cast<size_t>(batch.view->id_ends[batch.view->slots]) : 0;     // at most
    auto room = [&] { return bytes < options.bytes_max && batch.ids.size() + document_id_bytes <= id_bytes_max; };
    for (; batch.documents < documents.size() && (!batch.documents || room()); ++batch.documents) {
        Output<int32_t> slots;
        auto begin = std::chrono::steady_clock::now();
        try {
            const Document& document = matcher->match(*batch.view, documents[batch.documents], slots, true);
            sort_slots(*batch.view, slots.data(), slots.size(), scratch);
            deliver(*batch.view, document, *matcher, {slots.data(), slots.size()}, options, batch, bytes);
        } catch (const Failure& failure) {
            if (!options.report) {
                matcher.keep();
                throw BatchFailure{{batch.documents, failure}};
            }
            batch.rejected.push_back({batch.documents, failure});
        }
        batch.ends.push_back(static_cast<int32_t>(batch.slots.size()));
        batch.nanoseconds.push_back(std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count());
    }
    matcher.keep();
    payload_bytes_ = std::max(batch.bytes.size(), payload_bytes_.load() / 2);
    return batch;
}

}  // namespace treecast
