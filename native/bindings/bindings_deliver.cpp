// Deliveries for Python: the native side of Index.render, render_many and render_part.
//
// Results leave as addresses of columns, which Python wraps as Arrow arrays without a copy.
#include "bindings/bindings.hpp"
#include "bindings/bindings_buffers.hpp"
#include "bindings/bindings_parcels.hpp"
#include "document/binary.hpp"
#include "index/index.hpp"
#include "render/escape.hpp"

#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <vector>

namespace treecast {

namespace {

nb::str id_of(const View& view, int32_t slot) {
    std::string_view id = view.id(static_cast<uint32_t>(slot));
    return nb::str(id.data(), id.size());
}

nb::object refusal(const DeliveryBatch& batch, size_t number) {
    const Failure& failure = batch.refusals[number];
    return to_python(failure, failure.family == Family::query ? std::string_view(batch.refusal_texts[number]) : std::string_view());
}

// Runs `make` without the GIL, and raises the first document that was not accepted. `first`: the number of the first document; none
// where there is only one.
template <class Make>
auto render(Make make, std::optional<int64_t> first = 0) {
    std::optional<Rejected> failed;
    decltype(make()) made;
    {
        Interruptible released;
        try {
            made = make();
        } catch (const BatchFailure& failure) {
            failed = failure.rejected;
        }
    }
    if (!failed) return made;
    if (!first) raise(failed->failure);
    raise_of_document(failed->failure, *first + static_cast<int64_t>(failed->document));
}

// (id, payload, error or None) of each delivery of one document. Equal payloads are one object.
nb::list render_one(Index& index, nb::handle document, const RenderLimits& limits, bool share) {
    Buffers buffers(document);
    DeliveryBatch batch = render([&] { return index.render_part(buffers.given(), {.limits = limits, .share = share}); }, std::nullopt);
    std::vector<nb::object> payloads, refusals;
    for (size_t i = 0; i + 1 < batch.payload_ends.size(); ++i)
        payloads.push_back(nb::bytes(batch.bytes.data() + batch.payload_ends[i], static_cast<size_t>(batch.payload_ends[i + 1] - batch.payload_ends[i])));
    for (size_t i = 0; i < batch.refusals.size(); ++i) refusals.push_back(refusal(batch, i));
    nb::bytes nothing("", 0);
    nb::list out;
    for (size_t i = 0; i < batch.slots.size(); ++i) {
        int64_t number = batch.payloads[i];
        out.append(nb::make_tuple(id_of(*batch.view, batch.slots[i]), number < 0 ? nothing : payloads[static_cast<size_t>(number)],
                                  number < 0 ? refusals[static_cast<size_t>(-1 - number)] : nb::none()));
    }
    return out;
}

using Texts = DeliveryOptions::Texts;

// As many documents as give about bytes_max bytes, as columns.
std::unique_ptr<DeliveryBatch> render_part(Index& index, nb::sequence documents, bool report, uint64_t bytes_max,
                                           const RenderLimits& limits, bool share, Texts texts) {
    Buffers buffers(documents);
    DeliveryOptions options{.report = report, .ids = true, .bytes_max = bytes_max, .limits = limits, .share = share, .texts = texts};
    return std::make_unique<DeliveryBatch>(render([&] { return index.render_part(buffers.given(), options); }));
}

// The same for parcels, from one of them on: each is read, and gone when the next one is; unless it was done when they were routed.
// PERF: bench/network_cpu.py. Keeping a document takes half as long as decoding it.
std::unique_ptr<DeliveryBatch> render_parcels(Index& index, const HeldParcels& parcels, size_t first,
                                              const std::optional<std::vector<nb::bytes>>& plain, bool is_text,
                                              const WireDictionary* dictionary, const Limits& form_limits, uint64_t bytes_max,
                                              const RenderLimits& limits) {
    const HeldParcels::Reading reading{is_text, dictionary, form_limits, plain};
    const std::vector<std::string_view> forms = parcels.forms(reading);
    if (first > forms.size()) throw std::invalid_argument("there is no such parcel");
    if (auto made = parcels.take_deliveries(index, first, form_limits, limits)) return made;
    const DeliveryOptions options = parcel_options(bytes_max, limits);
    LentReader reader(form_limits, nullptr);
    auto next = [&](size_t i) { return GivenDocument{{}, &look_at(*reader, forms[first + i], reading)}; };
    auto batch = std::make_unique<DeliveryBatch>(render([&] { return index.render_part(forms.size() - first, next, options); }));
    reader.keep();
    return batch;
}

// Documents that are published at the root of a tree: each is read once, rendered, routed, and written in the form of the links. Returns
// the deliveries, the forms, and the targets of each. `enough` 0: nothing is routed, and `found` are the targets of all.
nb::tuple render_published(Index& index, const std::vector<nb::bytes>& documents, const Limits& text_limits, uint64_t bytes_max,
                           const RenderLimits& limits, const WireDictionary* dictionary, Index& table, Targets& targets, uint64_t enough,
                           uint64_t found) {
    std::vector<std::string_view> texts;
    size_t bytes = 0;
    for (const nb::bytes& document : documents) bytes += texts.emplace_back(view(document)).size();
    auto forms = std::make_unique<PublishedForms>();
    std::vector<uint64_t> masks;
    DeliveryOptions options{.report = true, .ids = true, .bytes_max = bytes_max, .limits = limits, .texts = Texts::all};
    LentReader reader(text_limits, nullptr);
    BinaryEncoder encoder(dictionary);
    Index::Routing routing{targets, enough, found};
    const bool is_routed = enough && (found & enough) != enough;
    auto batch = std::make_unique<DeliveryBatch>(render([&] {
        forms->bytes.reserve(bytes);
        std::optional<Index::Router> router;
        if (is_routed) router.emplace(table, routing);
        auto next = [&](size_t i) {
            masks.resize(i + 1, found);
            forms->ends.resize(i + 1, forms->bytes.size());
            const Document& document = reader->look(texts[i]);
            if (router) {
                masks[i] = ~0ull;                // everybody, if there is too much work to tell
                try {
                    const uint64_t answer = router->route({{}, &document});
                    if ((answer & enough) != enough) masks[i] = answer;
                } catch (const Failure&) {}
            }
            encoder.encode(document, forms->bytes);
            return GivenDocument{{}, &document};
        };
        DeliveryBatch made = index.render_part(texts.size(), next, options);
        if (router) router->keep();
        return made;
    }));
    reader.keep();
    forms->ends.push_back(forms->bytes.size());
    return nb::make_tuple(std::move(batch), std::move(forms), masks);
}

// The same with several threads: (documents done, pieces, (piece, begin, end) of each run of deliveries by document).
// The limit counts what they hold in memory, not what they deliver. `bytes_max` 0: all documents.
nb::tuple render_many(Index& index, nb::sequence documents, size_t threads, bool report, uint64_t bytes_max, int64_t first,
                      const RenderLimits& limits) {
    Buffers buffers(documents);
    DeliveryOptions options{.report = report, .bytes_max = bytes_max ? bytes_max : ~0ull, .limits = limits,
                            .count = DeliveryOptions::Count::held, .threads = threads};
    RenderedPieces rendered = render([&] { return index.render_many(buffers.given(), options); }, first);
    nb::list pieces, runs;
    for (DeliveryBatch& piece : rendered.pieces) pieces.append(std::make_unique<DeliveryBatch>(std::move(piece)));
    for (const RenderedPieces::Run& run : rendered.runs) runs.append(nb::make_tuple(run.piece, run.begin, run.end));
    return nb::make_tuple(rendered.documents, pieces, runs);
}

// An address and a size in bytes. The memory belongs to the batch, which the caller keeps alive.
template <class T>
nb::tuple place_of(const T* data, size_t size) { return nb::make_tuple(reinterpret_cast<uintptr_t>(data), size * sizeof(T)); }

// The least work that any way of building these payloads needs: each byte is checked for escaping, and copied. Markup is masked
// beforehand, because it would not be escaped. The memory written to is as large as results are, `batch_bytes`, and reused.
class CopyFloor {
public:
    CopyFloor(const std::vector<nb::bytes>& payloads, size_t batch_bytes) : batch_bytes_(batch_bytes) {
        for (const nb::bytes& payload : payloads) {
            masked_.emplace_back(payload.c_str(), payload.size());
            for (char& c : masked_.back())
                if (c == '<' || c == '>' || c == '&') c = '.';
        }
    }
    size_t run() {
        size_t total = 0;
        out_.cut(0);
        for (const std::string& payload : masked_) {
            if (out_.size() > batch_bytes_) out_.cut(0);
            size_t before = out_.size();
            append_escaped_text(payload, out_);
            total += out_.size() - before;
        }
        return total;
    }

private:
    const size_t batch_bytes_;
    std::vector<std::string> masked_;
    Bytes out_;
};

}  // namespace

void bind_deliver(nb::module_& m, nb::module_& testing) {
    nb::class_<RenderLimits>(m, "RenderLimits")
        .def("__init__", [](RenderLimits* self, uint64_t payload, uint64_t document, uint64_t bindings) {
            new (self) RenderLimits{payload, document, bindings};
        }, nb::arg("payload_bytes_max"), nb::arg("document_payload_bytes_max"), nb::arg("bindings_max"));
    nb::enum_<Texts>(m, "Texts", "Of which documents a batch has the texts too.")
        .value("none", Texts::none)
        .value("matched", Texts::matched)
        .value("all", Texts::all);
    nb::class_<CopyFloor>(testing, "CopyFloor", "For measuring: the least that payloads of these bytes cost.")
        .def(nb::init<const std::vector<nb::bytes>&, size_t>(), nb::arg("payloads"), nb::arg("batch_bytes"))
        .def("run", &CopyFloor::run, "Bytes copied.");
    nb::class_<Buffers>(testing, "Buffers", "Documents as native code holds them while it reads.")
        .def(nb::init<nb::sequence>(), nb::arg("documents"))
        .def_prop_ro("copied", &Buffers::copied, "How many of them are copies.")
        .def("bytes", [](const Buffers& self, size_t document) {
            if (document >= self.given().size()) throw nb::index_error("no such document");
            return nb::bytes(self.given()[document].bytes.data(), self.given()[document].bytes.size());
        }, nb::arg("document"));
    nb::class_<DeliveryBatch>(m, "DeliveryBatch", "Columns by their addresses and bytes, which live as long as this; see treecast.index.rendering.")
        .def_prop_ro("numbers", [](const DeliveryBatch& b) { return place_of(b.numbers.data(), b.numbers.size()); },
                     "int64, by document: its number, of those that were given")
        .def_ro("documents", &DeliveryBatch::documents)
        .def_prop_ro("deliveries", [](const DeliveryBatch& b) { return b.slots.size(); })
        .def_prop_ro("ends", [](const DeliveryBatch& b) { return place_of(b.ends.data(), b.ends.size()); }, "int32, by document")
        .def_prop_ro("payloads", [](const DeliveryBatch& b) { return place_of(b.payloads.data(), b.payloads.size()); },
                     "int64, by delivery: the number of its payload, less than 0 where it was refused")
        .def_prop_ro("different", [](const DeliveryBatch& b) { return b.payload_ends.size() - 1; }, "payloads")
        .def_prop_ro("payload_ends", [](const DeliveryBatch& b) { return place_of(b.payload_ends.data(), b.payload_ends.size()); }, "int64")
        .def_prop_ro("bytes", [](DeliveryBatch& b) { return place_of(b.bytes.data(), b.bytes.size()); })
        .def_prop_ro("id_ends", [](const DeliveryBatch& b) { return place_of(b.id_ends.data(), b.id_ends.size()); }, "int32")
        .def_prop_ro("ids", [](const DeliveryBatch& b) { return place_of(b.ids.data(), b.ids.size()); }, "UTF-8")
        .def_prop_ro("nanoseconds", [](const DeliveryBatch& b) { return place_of(b.nanoseconds.data(), b.nanoseconds.size()); },
                     "int64, by document: what it took")
        .def_prop_ro("slots", [](const DeliveryBatch& b) { return place_of(b.slots.data(), b.slots.size()); },
                     "int32, by delivery: its subscription, of all that the index has")
        .def_prop_ro("subscriptions", [](const DeliveryBatch& b) { return b.view->slots; }, "how many the index has")
        .def_prop_ro("subscription_ends", [](const DeliveryBatch& b) { return place_of(b.view->id_ends.get(), b.view->slots ? b.view->slots + 1 : 0); },
                     "int32")
        .def_prop_ro("subscription_ids", [](const DeliveryBatch& b) {
            return place_of(b.view->id_bytes.get(), b.view->slots ? static_cast<size_t>(b.view->id_ends[b.view->slots]) : 0);
        }, "UTF-8")
        .def_prop_ro("refused", [](const DeliveryBatch& b) { return !b.refusals.empty(); }, "whether some deliveries are")
        .def_prop_ro("refusals", [](const DeliveryBatch& b) {
            nb::list errors;
            for (size_t i = 0; i < b.refusals.size(); ++i) errors.append(refusal(b, i));
            return errors;
        }, "errors; a delivery whose payload is -1 - n was refused for the one with the number n")
        .def_prop_ro("rejected", [](const DeliveryBatch& b) {
            nb::list rejected;
            for (const Rejected& r : b.rejected) rejected.append(nb::make_tuple(r.document, to_python(r.failure)));
            return rejected;
        });
    m.def("render_one", &render_one, nb::arg("index"), nb::arg("document"), nb::arg("limits"), nb::arg("share"),
          "(id, payload, error or None) of each delivery of one document.");
    m.def("render_part", &render_part, nb::arg("index"), nb::arg("documents"), nb::arg("report"), nb::arg("bytes_max"), nb::arg("limits"),
          nb::arg("share"), nb::arg("texts") = Texts::none,
          "The deliveries of the first documents of a batch, as columns: see Index.render_part.");
    m.def("render_parcels", &render_parcels, nb::arg("index"), nb::arg("parcels"), nb::arg("first"), nb::arg("plain").none(), nb::arg("is_text"),
          nb::arg("dictionary").none(), nb::arg("form_limits"), nb::arg("bytes_max"), nb::arg("limits"),
          nb::sig("def render_parcels(index: Index, parcels: Parcels, first: int, plain: Sequence[bytes] | None, is_text: bool, "
                  "dictionary: WireDictionary | None, form_limits: Limits, bytes_max: int, limits: RenderLimits) -> DeliveryBatch"),
          "The same for parcels, from one of them on. `plain` are their forms, where their bodies are compressed.");
    m.def("render_published", &render_published, nb::arg("index"), nb::arg("documents"), nb::arg("text_limits"), nb::arg("bytes_max"),
          nb::arg("limits"), nb::arg("dictionary").none(), nb::arg("table"), nb::arg("targets"), nb::arg("enough"), nb::arg("found"),
          nb::sig("def render_published(index: Index, documents: Sequence[bytes], text_limits: Limits, bytes_max: int, limits: RenderLimits, "
                  "dictionary: WireDictionary | None, table: Index, targets: Targets, enough: int, found: int) -> "
                  "tuple[DeliveryBatch, PublishedForms, list[int]]"),
          "Documents that are read once: their deliveries, their binary forms, and their targets by another index: see route.");
    m.def("render_many", &render_many, nb::arg("index"), nb::arg("documents"), nb::arg("threads"), nb::arg("report"), nb::arg("bytes_max"),
          nb::arg("first"), nb::arg("limits"),
          nb::sig("def render_many(index: Index, documents: Sequence, threads: int, report: bool, bytes_max: int, first: int, "
                  "limits: RenderLimits) -> tuple[int, list[DeliveryBatch], list[tuple[int, int, int]]]"),
          "The deliveries of the first documents of a batch, in pieces: how many documents, the pieces, and (piece, begin, end) of the "
          "deliveries of neighbouring documents, by document: see Index.render_many.");
}

}  // namespace treecast
