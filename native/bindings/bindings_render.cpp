// Rendering for Python: what tests and treecast.transform call for one document at a time.
#include "bindings/bindings.hpp"
#include "document/reader.hpp"
#include "render/copy.hpp"
#include "render/render.hpp"
#include "render/scopes.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <utility>
#include <vector>

namespace treecast {

namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

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

// Reads documents and renders subscriptions that are given as texts, whether they match or not.
class TextRenderer {
public:
    TextRenderer(uint64_t payload_bytes_max, uint64_t document_payload_bytes_max, uint64_t bindings_max, bool share,
                 const EntityTexts* entities)
        : reader_({}, entities ? entities->texts : nullptr),
          renderer_({payload_bytes_max, document_payload_bytes_max, bindings_max}, share) {}

    // For each: its number among the payloads and bytes, None (nothing to deliver), or the error that refuses it.
    nb::list render(const nb::bytes& data, const std::vector<std::string>& texts, const Pairs& namespaces, bool ordered, bool elements) {
        Settings settings{namespaces, ordered, static_cast<uint8_t>(elements)};
        std::vector<Rendered> rendered;
        {
            Interruptible unlocked;
            out_ = {};
            renderer_.begin(reader_.read(view(data)), out_);
            for (const std::string& text : texts) rendered.push_back(renderer_.render({text, settings}));
        }
        nb::list result;
        for (size_t i = 0; i < rendered.size(); ++i) {
            if (rendered[i].is == Rendered::Is::nothing) {
                result.append(nb::none());
            } else if (rendered[i].is == Rendered::Is::refused) {
                result.append(to_python(renderer_.refusal(rendered[i].number), texts[i]));
            } else {
                std::string_view payload = renderer_.payload(rendered[i].number);
                result.append(nb::make_tuple(rendered[i].number, nb::bytes(payload.data(), payload.size())));
            }
        }
        return result;
    }
    std::tuple<uint64_t, uint64_t, uint64_t, uint64_t> work() const {
        Renderer::Work done = renderer_.work();
        return {done.parsed, done.built, done.bound, done.reused};
    }

private:
    Reader reader_;
    Renderer renderer_;
    Bytes out_;
};

}  // namespace

void bind_render(nb::module_& testing) {
    testing.def("copy_element", &copy_one, nb::arg("data"), nb::arg("element"), nb::arg("in_force") = Pairs(),
          nb::arg("entities").none() = nb::none(),
          "An element as it is copied into an output where the prefixes of in_force are bound; -1 is the document itself.");
    RenderLimits limits;
    nb::class_<TextRenderer>(testing, "TextRenderer")
        .def(nb::init<uint64_t, uint64_t, uint64_t, bool, const EntityTexts*>(),
             nb::arg("payload_bytes_max") = limits.payload_bytes_max,
             nb::arg("document_payload_bytes_max") = limits.document_payload_bytes_max,
             nb::arg("bindings_max") = limits.bindings_max, nb::arg("share") = true, nb::arg("entities").none() = nb::none())
        .def("render", &TextRenderer::render, nb::arg("data"), nb::arg("texts"), nb::arg("namespaces") = Pairs(),
             nb::arg("ordered") = false, nb::arg("elements") = true,
             nb::sig("def render(self, data: bytes, texts: Sequence[str], namespaces: Sequence[tuple[str, str]] = [], "
                     "ordered: bool = False, elements: bool = True) -> list[tuple[int, bytes] | Exception | None]"))
        .def("work", &TextRenderer::work, "Texts read, payloads built, clauses evaluated, constructors reused; since it was made.");
}

}  // namespace treecast
