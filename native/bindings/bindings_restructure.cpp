// Lists of steps for Python: many on one document, as a renderer meets them. For tests and measurements.
#include "bindings/bindings.hpp"
#include "document/reader.hpp"
#include "render/restructure.hpp"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <utility>
#include <vector>

namespace treecast {

namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

std::string_view view(const nb::bytes& data) { return {data.c_str(), data.size()}; }

Transformation read_list(std::string_view text, const Pairs& namespaces) {
    Transformation list;
    try {
        check_bindings(namespaces);
        parse_transformation(text, namespaces, list);
    } catch (const Failure& failure) {
        raise(failure, text);
    }
    if (!list.is_list()) throw nb::value_error("not a list of steps");
    return list;
}

// (payloads, steps applied): a payload is bytes, an exception where the list cannot be applied, None where it is too
// long.
nb::tuple restructure(const nb::bytes& data, const std::vector<nb::bytes>& texts, const Pairs& namespaces,
                      const EntityTexts* entities, bool share, uint64_t bytes_max, uint64_t kept_bytes_max) {
    Reader reader({}, entities ? entities->texts : nullptr);
    const Document& document = reader.read(view(data));
    Evaluator evaluator;
    evaluator.begin(document);
    Restructurer restructurer(share, kept_bytes_max);
    restructurer.begin(document);
    nb::list payloads;
    Bytes out;
    for (const nb::bytes& text : texts) {
        Transformation list = read_list(view(text), namespaces);
        out.cut(0);
        try {
            bool fits = restructurer.restructure(list, evaluator, bytes_max, out);
            payloads.append(fits ? nb::object(nb::bytes(out.data(), out.size())) : nb::none());
        } catch (const Failure& failure) {
            payloads.append(to_python(failure, view(text)));
        }
    }
    return nb::make_tuple(payloads, restructurer.steps_applied());
}

}  // namespace

void bind_restructure(nb::module_& testing) {
    testing.def("restructure", &restructure, nb::arg("data"), nb::arg("lists"), nb::arg("namespaces") = Pairs(),
          nb::arg("entities").none() = nb::none(), nb::arg("share") = true, nb::arg("bytes_max") = 16u << 20,
          nb::arg("kept_bytes_max") = 32u << 20,
          "What lists of steps leave of a document, one after the other, and how many steps had to be applied.");
}

}  // namespace treecast
