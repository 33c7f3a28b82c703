// Invariant: any bytes are a Transformation that prints and parses again to an equal one and has a matching part that is a query,
// or a Failure that says where and why. What it builds of a document can be read inside an element, and is the same whether
// results are shared or not.
#include "base/failure.hpp"
#include "document/reader.hpp"
#include "query/transformation.hpp"
#include "render/render.hpp"

#include <cstdint>
#include <cstdlib>
#include <string>

namespace {

void require(bool holds) {
    if (!holds) std::abort();
}

constexpr std::string_view document_text =
    "<a xmlns:p='urn:p' k='1'><!--c--><b p:q='2'>x&amp;y<c/>z</b><p:b k='3'>4<![CDATA[<5>]]></p:b>"
    "<d xmlns='urn:d'><b>6</b><?pi e?><b k='1'>7</b></d><b>1</b></a>";

// The payload, or nothing where there is none; refusals count as none.
std::string render(std::string_view text, const treecast::Bindings& bindings, bool share) {
    using namespace treecast;
    static Reader reader;
    const Document& document = reader.read(document_text);
    Renderer renderer(RenderLimits{1 << 16, 1 << 18, 1 << 14}, share);
    Bytes out;
    renderer.begin(document, out);
    Settings settings;
    settings.bindings = bindings;
    Rendered rendered = renderer.render(HeldQuery(text, settings));
    if (rendered.is != Rendered::Is::payload) return rendered.is == Rendered::Is::nothing ? "-" : renderer.refusal(rendered.number).code;
    return "<w>" + std::string(renderer.payload(rendered.number)) + "</w>";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace treecast;
    static const Bindings bindings = {{"p", "urn:p"}};
    static Transformation reused;
    std::string_view text(reinterpret_cast<const char*>(data), size);
    if (!is_transformation(text)) return 0;
    Matching matching;
    try {
        Query query;
        parse_matching(text, bindings, false, query);
        parse_transformation(text, bindings, reused);
        matching = matching_part(reused, bindings);
    } catch (const Failure& failure) {
        require(failure.family == Family::query && failure.code.size() == 5 && !failure.message.empty());
        require(failure.position <= size && failure.length <= size - failure.position);
        require(failure.limit == (failure.code[2] == '3'));
        return 0;
    }
    std::string canonical = reused.text();
    if (canonical.size() <= query_limits.text_bytes_max) {
        require(is_transformation(canonical));
        Transformation again;
        parse_transformation(canonical, bindings, again);
        require(again.text() == canonical && again.key() == reused.key());
        require(matching_part(again, bindings).text == matching.text);
    }
    std::string shared = render(text, bindings, true);
    require(shared == render(text, bindings, false));
    if (shared.starts_with("<")) {
        static Reader reader;
        reader.read(shared);
    }
    return 0;
}
