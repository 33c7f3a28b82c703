// Shared by the binding files, the only native code that knows Python.
#pragma once

#include "base/failure.hpp"
#include "bindings/bindings_gil.hpp"
#include "bindings/bindings_python.hpp"
#include "document/reader.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <memory>
#include <string_view>

namespace treecast {

namespace nb = nanobind;

// Entity texts in a form that any number of Readers can share.
struct EntityTexts {
    std::shared_ptr<const Entities> texts;
};

inline std::string_view view(const nb::bytes& data) { return {data.c_str(), data.size()}; }

// The Python exception object for a Failure. `query` is the text that it is about, if any.
nb::object to_python(const Failure& failure, std::string_view query = {});
// Raises what is wrong with the document of this number in a batch.
[[noreturn]] void raise_of_document(const Failure& failure, int64_t document);
// Sets that exception and throws nb::python_error, so a binding may simply `raise(failure, text)`.
[[noreturn]] void raise(const Failure& failure, std::string_view query = {});

// Each binds what is in the file of its name. What only tests and measurements call goes into `testing`.
void bind_document(nb::module_& m);
void bind_query(nb::module_& m, nb::module_& testing);
void bind_index(nb::module_& m, nb::module_& testing);
void bind_explain(nb::module_& m, nb::module_& testing);
void bind_records(nb::module_& m);
void bind_xtrie(nb::module_& m);
void bind_path_replay(nb::module_& m);
void bind_render(nb::module_& testing);
void bind_deliver(nb::module_& m, nb::module_& testing);
void bind_restructure(nb::module_& m, nb::module_& testing);
void bind_transformation(nb::module_& m);
void bind_wire(nb::module_& m, nb::module_& testing);
void bind_routing(nb::module_& m, nb::module_& testing);
void bind_lines(nb::module_& m);
void bind_lanes(nb::module_& m);
void bind_parcels(nb::module_& m);
void bind_checksum(nb::module_& m, nb::module_& testing);

}  // namespace treecast
