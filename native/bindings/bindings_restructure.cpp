// Lists of steps for Python: one on many documents, as a link applies it; and many on one document, as a renderer meets them,
// for tests and measurements.
#include "bindings/bindings_document.hpp"
#include "document/reader.hpp"
#include "render/restructure.hpp"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace treecast {

namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

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

// A list that was read once, for any number of documents and threads.
class Restructuring {
public:
    Restructuring(std::string text, const Pairs& namespaces) : text_(std::move(text)), list_(read_list(text_, namespaces)) {}

    // For each document what the list leaves of it: a Document, None where nothing is left, or the error that refuses it.
    nb::list apply(const std::vector<const HeldDocument*>& documents, const Limits& limits, uint64_t bytes_max) const {
        demand_documents(documents);
        std::vector<std::string> left(documents.size());
        std::vector<std::optional<Failure>> failed(documents.size());
        {
            Interruptible unlocked;
            Evaluator evaluator;
            Restructurer restructurer;
            Bytes out;
            for (size_t i = 0; i < documents.size(); ++i) {
                out.cut(0);
                try {
                    apply_one(**documents[i], evaluator, restructurer, limits, bytes_max, out);
                    left[i].assign(out.data(), out.size());
                } catch (const Failure& failure) {
                    failed[i] = failure;
                }
            }
        }
        nb::list made;
        for (size_t i = 0; i < documents.size(); ++i) {
            if (failed[i]) made.append(to_python(*failed[i], failed[i]->family == Family::query ? text_ : std::string()));
            else if (left[i].empty()) made.append(nb::none());
            else made.append(read(left[i], limits));
        }
        return made;
    }

private:
    void apply_one(const Document& document, Evaluator& evaluator, Restructurer& restructurer, const Limits& limits,
                   uint64_t bytes_max, Bytes& out) const {
        evaluator.begin(document);
        evaluator.allow(work_max(document, limits.work_per_item_max));
        restructurer.begin(document);
        if (restructurer.restructure(list_, evaluator, bytes_max, out)) return;
        Failure failure(Family::document, "TC301", "what is left of a document has more than " + std::to_string(bytes_max) +
                                                       " bytes, the limit document_bytes_max");
        failure.limit = true;
        throw failure;
    }
    static nb::object read(const std::string& text, const Limits& limits) {
        try {
            return nb::cast(std::make_unique<HeldDocument>(nb::bytes(text.data(), text.size()), limits, nullptr));
        } catch (const Failure& failure) {         // several trees, or more than the limits allow
            return to_python(failure);
        }
    }

    const std::string text_;
    const Transformation list_;
};

}  // namespace

void bind_restructure(nb::module_& m, nb::module_& testing) {
    nb::class_<Restructuring>(m, "Restructuring")
        .def(nb::init<std::string, const Pairs&>(), nb::arg("text"), nb::arg("namespaces"))
        .def("apply", &Restructuring::apply, nb::arg("documents"), nb::arg("limits"), nb::arg("bytes_max"),
             nb::sig("def apply(self, documents: Sequence[Document], limits: Limits, bytes_max: int) -> "
                     "list[Document | Exception | None]"),
             "What the list leaves of each document.");
    testing.def("restructure", &restructure, nb::arg("data"), nb::arg("lists"), nb::arg("namespaces") = Pairs(),
          nb::arg("entities").none() = nb::none(), nb::arg("share") = true, nb::arg("bytes_max") = 16u << 20,
          nb::arg("kept_bytes_max") = 32u << 20,
          "What lists of steps leave of a document, one after the other, and how many steps had to be applied.");
}

}  // namespace treecast
