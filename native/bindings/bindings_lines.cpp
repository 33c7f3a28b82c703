// Matches as lines of text, for Python: columns come by their addresses, text leaves by a function that writes.
#include "bindings/bindings.hpp"
#include "bindings/bindings_gil.hpp"
#include "index/match_lines.hpp"

#include <nanobind/stl/vector.h>

#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include <nanobind/stl/tuple.h>

namespace treecast {

namespace {

// Addresses of offsets and bytes, the number of strings, and whether offsets have 64 bits.
using ColumnAddresses = std::tuple<uintptr_t, uintptr_t, size_t, bool>;

TextColumn column_of(const ColumnAddresses& column) {
    auto [offsets, bytes, size, is_wide] = column;
    return {reinterpret_cast<const void*>(offsets), reinterpret_cast<const char*>(bytes), size, is_wide};
}

// The view is released before the memory is used again: who writes must not keep it.
void write_text(nb::handle write, const Bytes& text) {
    if (!text.size()) return;
    nb::object view = nb::steal(PyMemoryView_FromMemory(const_cast<char*>(text.data()), static_cast<Py_ssize_t>(text.size()), PyBUF_READ));
    if (!view.is_valid()) throw nb::python_error();
    write(view);
    view.attr("release")();
}

// Text is handed over once there are so many bytes of it. `pieces`: of matches, by document: addresses of document numbers (int64) and of subscription numbers (int32), and how many.
void write_lines(const std::vector<std::tuple<uintptr_t, uintptr_t, size_t>>& pieces, const ColumnAddresses& starts, const ColumnAddresses& ends,
                 size_t bytes, nb::callable write) {
    MatchLines lines(column_of(starts), column_of(ends));
    Bytes text;
    for (auto [documents, subscriptions, count] : pieces) {
        lines.give({reinterpret_cast<const int64_t*>(documents), count}, {reinterpret_cast<const int32_t*>(subscriptions), count});
        for (bool is_left = true; is_left;) {
            {
                WithoutGil released;
                is_left = lines.append(bytes, text);
            }
            if (text.size() < bytes) continue;
            write_text(write, text);
            text.cut(0);
        }
    }
    write_text(write, text);
}

}  // namespace

void bind_lines(nb::module_& module) {
    module.def("write_lines", &write_lines, nb::arg("pieces"), nb::arg("starts"), nb::arg("ends"), nb::arg("bytes"), nb::arg("write"),
               "Calls write() with lines of matches, in their order; with so many bytes, or a little more.");
}

}  // namespace treecast
