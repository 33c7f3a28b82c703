// The native module. Failures become Python exceptions here; the other files of this folder bind the classes.
#include "base/cpu.hpp"
#include "base/output.hpp"
#include "bindings/bindings.hpp"

namespace treecast {

// Python code builds the exception, so that the hierarchy of errors is written down once, in treecast/errors.py.
nb::object to_python(const Failure& failure, std::string_view query) {
    static const char* const families[] = {"query", "document", "snapshot"};
    return enter_python([&]() -> nb::object {
        nb::object make = nb::module_::import_("treecast.errors").attr("_raise_native");
        return make(families[static_cast<int>(failure.family)], failure.limit, failure.code, failure.message, failure.hint,
                    nb::bytes(query.data(), query.size()), failure.position, failure.length, failure.line);
    });
}

void raise(const Failure& failure, std::string_view query) {
    nb::object error = to_python(failure, query);
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
    throw nb::python_error();
}

void raise_of_document(const Failure& failure, int64_t document) {
    nb::object error = to_python(failure);
    error.attr("document") = document;
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
    throw nb::python_error();
}

}  // namespace treecast

NB_MODULE(_native, m) {
    using namespace treecast;
    nb::set_leak_warnings(false);        // results that others hold to the end of the process are no leak
    m.doc() = "The hot loops of treecast. Use the treecast package; names here change without notice.";
    nb::register_exception_translator(
        [](const std::exception_ptr& thrown, void*) {
            try {
                std::rethrow_exception(thrown);
            } catch (const Failure& failure) {
                nb::object error = to_python(failure);
                PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
            } catch (const Interrupted&) {
                if (!PyErr_Occurred()) PyErr_SetNone(PyExc_KeyboardInterrupt);       // it is: what the signal's handler raised
            }
        },
        nullptr);
    nb::module_ testing = m.def_submodule("testing", "What only tests and measurements call.");
    testing.def("simd_best", [] { return static_cast<int>(simd_best()); }, "0: scalar, 1: AVX2, 2: AVX-512.");
    testing.def("simd_level", [] { return static_cast<int>(simd_level()); });
    testing.def("spare_output_bytes", &spare_output_bytes, "What is kept of results that are gone, for the next ones.");
    testing.def("set_spare_output_bytes_max", &set_spare_output_bytes_max, nb::arg("bytes"), "How much of that is kept; never more than 512 MiB.");
    testing.def("fresh_outputs", &fresh_outputs, "How often the system was asked for memory for results.");
    testing.def("simd_force", &simd_force, nb::arg("level"), "0 scalar, 1 AVX2, 2 AVX-512, -1 automatic.");
    bind_document(m);
    bind_query(m, testing);
    bind_index(m, testing);
    bind_explain(m, testing);
    bind_records(m);
    bind_xtrie(m);
    bind_path_replay(m);
    bind_render(testing);
    bind_deliver(m, testing);
    bind_restructure(m, testing);
    bind_transformation(m);
    bind_wire(m, testing);
    bind_parcels(m);
    bind_routing(m, testing);
    bind_lines(m);
    bind_lanes(m);
    bind_checksum(m, testing);
}
