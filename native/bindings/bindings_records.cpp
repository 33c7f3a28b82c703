// The record splitter for Python: bytes in, the columns of records out, once a batch.
#include "bindings/bindings.hpp"
#include "records/records.hpp"

#include <nanobind/stl/vector.h>

#include <utility>
#include <vector>

namespace treecast {

namespace {

struct RecordPlanner {
    RecordSplitter splitter;
};

template <class T>
nb::bytes raw(const std::vector<T>& column) {
    return nb::bytes(reinterpret_cast<const char*>(column.data()), column.size() * sizeof(T));
}

RecordOptions make_options(std::vector<std::string> names, uint64_t record_bytes_max, const EntityTexts* entities) {
    return {std::move(names), record_bytes_max, entities ? entities->texts : nullptr};
}

// (documents, their ends, offsets, ordinals, [(row, exception)]); the ends begin with the 0 that Arrow wants.
nb::object take(RecordSplitter& splitter) {
    RecordRows rows = std::exchange(splitter.rows(), {});
    if (rows.ends.empty()) return nb::none();
    rows.ends.insert(rows.ends.begin(), 0);
    nb::list refused;
    for (auto& [row, failure] : rows.refused) refused.append(nb::make_tuple(row, to_python(failure)));
    nb::bytes documents(rows.data.data(), rows.data.size());
    return nb::make_tuple(documents, raw(rows.ends), raw(rows.offsets), raw(rows.ordinals), refused);
}

}  // namespace

void bind_records(nb::module_& m) {
    nb::class_<RecordSplitter>(m, "RecordSplitter")
        .def("__init__", [](RecordSplitter* self, std::vector<std::string> names, uint64_t record_bytes_max,
                            const EntityTexts* entities, const nb::bytes& state, uint64_t stop) {
                new (self) RecordSplitter(make_options(std::move(names), record_bytes_max, entities),
                                          {state.c_str(), state.size()}, stop);
            }, nb::arg("names"), nb::arg("record_bytes_max"), nb::arg("entities").none(), nb::arg("state"), nb::arg("stop"))
        .def("feed", [](RecordSplitter& self, const nb::bytes& bytes) {
                std::string_view view(bytes.c_str(), bytes.size());
                WithoutGil unlocked;
                self.feed(view);
            }, nb::arg("data"))
        .def("finish", &RecordSplitter::finish)
        .def("take", [](RecordSplitter& self, size_t rows_bytes, bool flush) -> nb::object {
                bool full;
                {
                    WithoutGil unlocked;
                    full = self.scan(rows_bytes);
                }
                return full || flush ? take(self) : nb::none();
            }, nb::arg("rows_bytes"), nb::arg("flush"),
            nb::sig("def take(self, rows_bytes: int, flush: bool) "
                    "-> tuple[bytes, bytes, bytes, bytes, list[tuple[int, Exception]]] | None"),
            "Scans what was fed; gives rows once there are so many bytes of them, or, to flush, any there are.")
        .def_prop_ro("done", &RecordSplitter::done);
    nb::class_<RecordPlanner>(m, "RecordPlanner")
        .def("__init__", [](RecordPlanner* self, std::vector<std::string> names, uint64_t record_bytes_max,
                            const EntityTexts* entities, uint64_t part_bytes) {
                auto options = make_options(std::move(names), record_bytes_max, entities);
                new (self) RecordPlanner{RecordSplitter::planning(std::move(options), part_bytes)};
            }, nb::arg("names"), nb::arg("record_bytes_max"), nb::arg("entities").none(), nb::arg("part_bytes"))
        .def("feed", [](RecordPlanner& self, const nb::bytes& bytes) {
                std::string_view view(bytes.c_str(), bytes.size());
                WithoutGil unlocked;
                self.splitter.feed(view);
                self.splitter.scan(1);
            }, nb::arg("data"))
        .def("cuts", [](const RecordPlanner& self) {
                nb::list result;
                for (auto& [offset, ordinal, state] : self.splitter.cuts())
                    result.append(nb::make_tuple(offset, ordinal, nb::bytes(state.data(), state.size())));
                return result;
            }, nb::sig("def cuts(self) -> list[tuple[int, int, bytes]]"))
        .def_prop_ro("done", [](const RecordPlanner& self) { return self.splitter.done(); });
}

}  // namespace treecast
