// Deliveries for Python: what Index.render and Index.render_part are made of.
#include "bindings/bindings.hpp"
#include "bindings/bindings_buffers.hpp"
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

std::unique_ptr<DeliveryBatch> render(Index& index, std::span<const std::string_view> documents, const DeliveryOptions& options) {
    std::optional<Rejected> failed;
    std::unique_ptr<DeliveryBatch> batch;
    {
        Interruptible released;
        try {
            batch.reset(new DeliveryBatch(index.render_many(documents, options)));
        } catch (const BatchFailure& failure) {
            failed = failure.rejected;
        }
    }
    if (!failed) return batch;
    nb::object error = to_python(failed->failure);
    error.attr("document") = static_cast<int64_t>(failed->document);
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
    throw nb::python_error();
}

// (id, payload, error or None) of each delivery of one document; equal payloads are one object.
nb::list render_one(Index& index, nb::handle document, const RenderLimits& limits, bool share) {
    Buffers buffers(document);
    std::unique_ptr<DeliveryBatch> made = render(index, buffers.views(), {false, false, ~0ull, limits, share});
    DeliveryBatch& batch = *made;
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

// As many documents as give about bytes_max bytes, as columns.
std::unique_ptr<DeliveryBatch> render_part(Index& index, nb::sequence documents, bool report, uint64_t bytes_max,
                                           const RenderLimits& limits, bool share) {
    Buffers buffers(documents);
    return render(index, buffers.views(), {report, true, bytes_max, limits, share});
}

template <class T>
nb::tuple place_of(const T* data, size_t size) { return nb::make_tuple(reinterpret_cast<uintptr_t>(data), size * sizeof(T)); }

// What no way of building these payloads can do without: each byte is looked at, for characters to escape, and copied. Markup is
// masked beforehand, as it would not be escaped. The memory that is written to is as large as results are, `batch_bytes`, and used again.
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
    nb::class_<CopyFloor>(testing, "CopyFloor", "For measuring: the least that payloads of these bytes cost.")
        .def(nb::init<const std::vector<nb::bytes>&, size_t>(), nb::arg("payloads"), nb::arg("batch_bytes"))
        .def("run", &CopyFloor::run, "Bytes copied.");
    nb::class_<Buffers>(testing, "Buffers", "Documents as native code holds them while it reads.")
        .def(nb::init<nb::sequence>(), nb::arg("documents"))
        .def_prop_ro("copied", &Buffers::copied, "How many of them are copies.")
        .def("bytes", [](const Buffers& self, size_t document) {
            if (document >= self.views().size()) throw nb::index_error("no such document");
            return nb::bytes(self.views()[document].data(), self.views()[document].size());
        }, nb::arg("document"));
    nb::class_<DeliveryBatch>(m, "DeliveryBatch", "Columns by their addresses and bytes, which live as long as this; see Index.render_part.")
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
        .def("refused", [](const DeliveryBatch& b) {
            nb::list refused;
            for (size_t i = 0; i < b.payloads.size(); ++i)
                if (b.payloads[i] < 0) refused.append(nb::make_tuple(i, refusal(b, static_cast<size_t>(-1 - b.payloads[i]))));
            return refused;
        }, "(number of the delivery, error) of those that were refused")
        .def_prop_ro("rejected", [](const DeliveryBatch& b) {
            nb::list rejected;
            for (const Rejected& r : b.rejected) rejected.append(nb::make_tuple(r.document, to_python(r.failure)));
            return rejected;
        });
    m.def("render_one", &render_one, nb::arg("index"), nb::arg("document"), nb::arg("limits"), nb::arg("share"),
          "(id, payload, error or None) of each delivery of one document.");
    m.def("render_part", &render_part, nb::arg("index"), nb::arg("documents"), nb::arg("report"), nb::arg("bytes_max"), nb::arg("limits"),
          nb::arg("share"), "The deliveries of the first documents of a batch, as columns: see Index.render_part.");
}

}  // namespace treecast
