// Documents -> deliveries: matching, and a payload for everything that matches.
#include "index.hpp"
#include "index_lease.hpp"

#include <cstring>

namespace treecast {

namespace {

constexpr size_t id_bytes_max = 1u << 30;       // 32-bit ends: a document's ids are at most as many again

void append(DeliveryBatch& batch, std::string_view payload) {
    if (!payload.empty()) std::memcpy(batch.bytes.room(payload.size()), payload.data(), payload.size());
    batch.bytes.added(payload.size());
    batch.payload_ends.push_back(static_cast<int64_t>(batch.bytes.size()));
}

// Appends the deliveries of one document; the document has been matched.
void deliver(const View& view, const Document& document, Renderer& renderer, std::span<const int32_t> slots, bool ids,
             DeliveryBatch& batch, uint64_t& bytes) {
    renderer.begin(document);
    constexpr int64_t unknown = -1;
    std::vector<int64_t> numbers, refusals;             // of this document's payloads and refusals in the batch
    for (int32_t found : slots) {
        auto slot = static_cast<uint32_t>(found);
        Rendered rendered = renderer.render(view.text(slot), (*view.settings)[view.slot_settings[slot]], {view.serial, slot});
        if (rendered.is == Rendered::Is::nothing) continue;
        bool built = rendered.is == Rendered::Is::payload;
        std::vector<int64_t>& known = built ? numbers : refusals;
        if (known.size() <= rendered.number) known.resize(rendered.number + 1, unknown);
        int64_t& number = known[rendered.number];
        std::string_view payload = built ? renderer.payload(rendered.number) : std::string_view();
        if (built && number == unknown) {
            number = static_cast<int64_t>(batch.payload_ends.size()) - 1;
            append(batch, payload);
        } else if (!built && number == unknown) {
            number = static_cast<int64_t>(batch.refusals.size());
            batch.refusals.push_back(renderer.refusal(rendered.number));
            batch.refusal_texts.emplace_back(view.text(slot));
        }
        if (ids) {
            batch.ids += view.id(slot);
            batch.id_ends.push_back(static_cast<int32_t>(batch.ids.size()));
        }
        bytes += payload.size();
        batch.slots.push_back(static_cast<int32_t>(slot));
        batch.payloads.push_back(built ? number : -1 - number);
    }
}

}  // namespace

DeliveryBatch Index::render_many(std::span<const std::string_view> documents, const DeliveryOptions& options) {
    DeliveryBatch batch;
    auto reading = store_.read();
    batch.view = store_.view();
    Lease matcher(*this);
    matcher->adopt(*batch.view);
    std::vector<uint64_t> scratch;
    uint64_t bytes = 0;
    auto room = [&] { return bytes < options.bytes_max && batch.ids.size() < id_bytes_max; };
    for (; batch.documents < documents.size() && (!batch.documents || room()); ++batch.documents) {
        Output<int32_t> slots;
        try {
            const Document& document = matcher->match(*batch.view, documents[batch.documents], slots, true);
            sort_slots(*batch.view, slots.data(), slots.size(), scratch);
            deliver(*batch.view, document, matcher->renderer(options.limits, options.share),
                    {slots.data(), slots.size()}, options.ids, batch, bytes);
        } catch (const Failure& failure) {
            if (!options.report) throw BatchFailure{{batch.documents, failure}};
            batch.rejected.push_back({batch.documents, failure});
        }
        batch.ends.push_back(static_cast<int64_t>(batch.slots.size()));
    }
    return batch;
}

}  // namespace treecast
