// Deliveries for Python: what Index.render and Index.render_part are made of.
#include "bindings.hpp"
#include "bindings_buffers.hpp"
#include "escape.hpp"
#include "index.hpp"

#include <nanobind/stl/vector.h>

#include <optional>
#include <vector>

namespace treecast {

namespace {

template <class T>
nb::bytes to_bytes(const std::vector<T>& numbers) { return nb::bytes(numbers.data(), numbers.size() * sizeof(T)); }

nb::str id_of(const View& view, int32_t slot) {
    std::string_view id = view.id(static_cast<uint32_t>(slot));
    return nb::str(id.data(), id.size());
}

DeliveryBatch render(Index& index, std::span<const std::string_view> documents, const DeliveryOptions& options) {
    std::optional<Rejected> failed;
    DeliveryBatch batch;
    {
        nb::gil_scoped_release released;
        try {
            batch = index.render_many(documents, options);
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
    DeliveryBatch batch = render(index, buffers.views(), {false, ~0ull, limits, share});
    std::vector<nb::object> payloads, refusals;
    for (size_t i = 0; i + 1 < batch.payload_ends.size(); ++i)
        payloads.push_back(nb::bytes(batch.bytes.data() + batch.payload_ends[i], static_cast<size_t>(batch.payload_ends[i + 1] - batch.payload_ends[i])));
    for (const Failure& failure : batch.refusals) refusals.push_back(to_python(failure));
    nb::bytes nothing("", 0);
    nb::list out;
    for (size_t i = 0; i < batch.slots.size(); ++i) {
        int64_t number = batch.payloads[i];
        out.append(nb::make_tuple(id_of(*batch.view, batch.slots[i]), number < 0 ? nothing : payloads[static_cast<size_t>(number)],
                                  number < 0 ? refusals[static_cast<size_t>(-1 - number)] : nb::none()));
    }
    return out;
}

// As many documents as give about bytes_max bytes: (documents done, ends, ids, numbers, payload ends, payload bytes, refusals,
// rejected). Numbers are int64 by delivery: of its payload, or -1 - n for the n-th refusal.
nb::tuple render_part(Index& index, nb::sequence documents, bool report, uint64_t bytes_max, const RenderLimits& limits, bool share) {
    Buffers buffers(documents);
    DeliveryBatch batch = render(index, buffers.views(), {report, bytes_max, limits, share});
    nb::list ids, refusals, rejected;
    for (int32_t slot : batch.slots) ids.append(id_of(*batch.view, slot));
    for (const Failure& failure : batch.refusals) refusals.append(to_python(failure));
    for (const Rejected& r : batch.rejected) rejected.append(nb::make_tuple(r.document, to_python(r.failure)));
    return nb::make_tuple(batch.documents, to_bytes(batch.ends), ids, to_bytes(batch.payloads), to_bytes(batch.payload_ends),
                          nb::bytes(batch.bytes.data(), batch.bytes.size()), refusals, rejected);
}

// What no way of building these payloads can do without: each byte is looked at, for characters to escape, and copied. Markup is
// masked beforehand, as it would not be escaped.
class CopyFloor {
public:
    explicit CopyFloor(const std::vector<nb::bytes>& payloads) {
        for (const nb::bytes& payload : payloads) {
            masked_.emplace_back(payload.c_str(), payload.size());
            for (char& c : masked_.back())
                if (c == '<' || c == '>' || c == '&') c = '.';
        }
    }
    size_t run() {
        size_t total = 0;
        out_.clear();
        for (const std::string& payload : masked_) {
            if (out_.size() > 1u << 20) out_.clear();
            size_t before = out_.size();
            append_escaped_text(payload, out_);
            total += out_.size() - before;
        }
        return total;
    }

private:
    std::vector<std::string> masked_;
    std::string out_;
};

}  // namespace

void bind_deliver(nb::module_& m) {
    nb::class_<RenderLimits>(m, "RenderLimits")
        .def("__init__", [](RenderLimits* self, uint64_t payload, uint64_t document, uint64_t bindings) {
            new (self) RenderLimits{payload, document, bindings};
        }, nb::arg("payload_bytes_max"), nb::arg("document_payload_bytes_max"), nb::arg("bindings_max"));
    nb::class_<CopyFloor>(m, "CopyFloor", "For measuring: the least that payloads of these bytes cost.")
        .def(nb::init<const std::vector<nb::bytes>&>(), nb::arg("payloads"))
        .def("run", &CopyFloor::run, "Bytes copied.");
    m.def("render_one", &render_one, nb::arg("index"), nb::arg("document"), nb::arg("limits"), nb::arg("share"),
          "(id, payload, error or None) of each delivery of one document.");
    m.def("render_part", &render_part, nb::arg("index"), nb::arg("documents"), nb::arg("report"), nb::arg("bytes_max"), nb::arg("limits"),
          nb::arg("share"), "The deliveries of the first documents of a batch, as columns: see Index.render_part.");
}

}  // namespace treecast
