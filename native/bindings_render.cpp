// Rendering for Python: what tests and treecast.transform call for one document at a time.
#include "bindings.hpp"
#include "copy.hpp"
#include "reader.hpp"
#include "scopes.hpp"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <utility>
#include <vector>

namespace treecast {

namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

std::string_view view(const nb::bytes& data) { return {data.c_str(), data.size()}; }

nb::bytes copy_one(const nb::bytes& data, int64_t element, const Pairs& in_force, const EntityTexts* entities) {
    Reader reader({}, entities ? entities->texts : nullptr);
    const Document& document = reader.read(view(data));
    if (element >= static_cast<int64_t>(document.elements())) throw nb::index_error("no such element");
    Scopes scopes;
    scopes.begin(document);
    NamespacesInForce bound;
    for (const auto& [prefix, uri] : in_force) bound.bind(prefix, uri);
    std::string out;
    if (element < 0) copy_document(document, scopes, bound, out);
    else copy_element(document, scopes, static_cast<uint32_t>(element), bound, out);
    return nb::bytes(out.data(), out.size());
}

}  // namespace

void bind_render(nb::module_& m) {
    m.def("copy_element", &copy_one, nb::arg("data"), nb::arg("element"), nb::arg("in_force") = Pairs(),
          nb::arg("entities").none() = nb::none(),
          "An element as it is copied into an output where the prefixes of in_force are bound; -1 is the document itself.");
}

}  // namespace treecast
