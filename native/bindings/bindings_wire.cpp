// Batches of documents for Python: read, encoded and decoded in one call. The native side of src/treecast/wire/.
#include "bindings/bindings_document.hpp"
#include "document/binary.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace treecast {

namespace {

using Kept = std::unique_ptr<KeptDocument>;

// Makes a document of each item without the GIL. A Document, or the error that refuses it.
template <class Make>
nb::list make_each(size_t count, const Limits& limits, const EntityTexts* entities, Make make,
                   const std::vector<nb::object>& data) {
    std::vector<Kept> made(count);
    std::vector<std::pair<size_t, Failure>> failed;
    LentReader reader(limits, entities ? entities->texts : nullptr);
    {
        Interruptible unlocked;
        for (size_t i = 0; i < count; ++i) {
            try {
                made[i] = make(*reader.operator->(), i);
            } catch (const Failure& failure) {
                failed.emplace_back(i, failure);
            }
        }
    }
    reader.keep();
    nb::list out;
    auto next = failed.begin();
    for (size_t i = 0; i < count; ++i) {
        if (next != failed.end() && next->first == i) out.append(to_python((next++)->second));
        else out.append(nb::cast(std::make_unique<HeldDocument>(data[i], std::move(made[i]))));
    }
    return out;
}

nb::list read_documents(const std::vector<nb::bytes>& documents, const Limits& limits, const EntityTexts* entities) {
    std::vector<nb::object> data(documents.begin(), documents.end());
    std::vector<std::string_view> views;
    for (const nb::bytes& document : documents) views.push_back(view(document));
    return make_each(documents.size(), limits, entities, [&](KeptReader& reader, size_t i) { return reader.read(views[i]); }, data);
}

// Forms that hold a document as it was given are read from a copy of it, which the Document keeps.
nb::list decode_documents(const std::vector<nb::bytes>& forms, const WireDictionary* dictionary, const Limits& limits,
                          const EntityTexts* entities) {
    std::vector<nb::object> data(forms.size());
    std::vector<std::string_view> views;
    for (size_t i = 0; i < forms.size(); ++i) {
        views.push_back(view(forms[i]));
        if (views[i].empty() || views[i][0] != static_cast<char>(BinaryKind::original)) continue;
        data[i] = nb::bytes(views[i].data() + 1, views[i].size() - 1);
    }
    std::vector<std::string_view> originals(forms.size());
    for (size_t i = 0; i < forms.size(); ++i)
        if (data[i].is_valid()) originals[i] = view(nb::borrow<nb::bytes>(data[i]));
    return make_each(forms.size(), limits, entities, [&](KeptReader& reader, size_t i) {
        bool is_original = !views[i].empty() && views[i][0] == static_cast<char>(BinaryKind::original);
        return is_original ? reader.read(originals[i]) : reader.decode(views[i], dictionary);
    }, data);
}

nb::list encode_documents(const std::vector<const HeldDocument*>& documents, const WireDictionary* dictionary) {
    demand_documents(documents);
    std::string all;
    std::vector<size_t> ends;
    {
        Interruptible unlocked;
        BinaryEncoder encoder(dictionary);
        size_t bytes = 0;
        for (const HeldDocument* document : documents) bytes += (**document).source.size();
        all.reserve(bytes);
        for (const HeldDocument* document : documents) {
            encoder.encode(**document, all);
            ends.push_back(all.size());
        }
    }
    nb::list out;
    size_t begin = 0;
    for (size_t end : ends) {
        out.append(nb::bytes(all.data() + begin, end - begin));
        begin = end;
    }
    return out;
}

// (names as spelled, values of attributes), each with how often it occurs.
nb::tuple spelled_counts(const HeldDocument& held) {
    WireCounts counts;
    count_spelled(*held, counts);
    nb::dict names, values;
    auto fill = [](nb::dict& out, const TextMap<uint32_t>& from) {
        for (const auto& [text, count] : from) out[nb::str(text.data(), text.size())] = count;
    };
    fill(names, counts.names);
    fill(values, counts.values);
    return nb::make_tuple(names, values);
}

// For tests: everything that two documents say, column by column.
std::string differing_column(const Document& a, const Document& b) {
    auto differ = [](const auto& one, const auto& other, auto same) {
        if (one.size() != other.size()) return true;
        for (size_t i = 0; i < one.size(); ++i)
            if (!same(one[i], other[i])) return true;
        return false;
    };
    auto equal = [](uint32_t one, uint32_t other) { return one == other; };
    auto same_name = [&](uint32_t one, uint32_t other) {
        return a.names->uri(one) == b.names->uri(other) && a.names->local(one) == b.names->local(other);
    };
    auto same_value = [&](const Span& one, const Span& other) {
        bool same_place = one.in_decoded == other.in_decoded && one.begin == other.begin && one.end == other.end;
        return same_place && a.value(one) == b.value(other);
    };
    auto same_declaration = [&](const NamespaceDeclaration& one, const NamespaceDeclaration& other) {
        return one.element == other.element && one.prefix_begin == other.prefix_begin && one.prefix_size == other.prefix_size &&
               a.names->uri_text(one.uri) == b.names->uri_text(other.uri);
    };
    auto same_reference = [](const EntityReference& one, const EntityReference& other) {
        return one.begin == other.begin && one.end == other.end && one.text_begin == other.text_begin &&
               one.text_end == other.text_end && one.in_attribute == other.in_attribute;
    };
    if (a.source != b.source || a.original != b.original || a.encoding != b.encoding) return "source";
    if (differ(a.name, b.name, same_name)) return "name";
    if (differ(a.parent, b.parent, equal) || differ(a.size, b.size, equal) || differ(a.depth, b.depth, equal)) return "tree";
    if (differ(a.start, b.start, equal) || differ(a.content, b.content, equal) || differ(a.end, b.end, equal)) return "range";
    if (differ(a.attribute_begin, b.attribute_begin, equal) || differ(a.attribute_name, b.attribute_name, same_name)) return "attribute";
    if (differ(a.attribute_value, b.attribute_value, same_value)) return "value";
    if (differ(a.text_begin, b.text_begin, equal) || differ(a.text_end, b.text_end, equal)) return "texts";
    if (differ(a.text, b.text, same_value) || differ(a.text_parent, b.text_parent, equal)) return "text";
    if (differ(a.declarations, b.declarations, same_declaration)) return "declaration";
    return differ(a.references, b.references, same_reference) ? "reference" : "";
}

}  // namespace

void bind_wire(nb::module_& m, nb::module_& testing) {
    nb::class_<WireDictionary>(m, "WireDictionary")
        .def(nb::init<std::vector<std::string>, std::vector<std::string>, uint32_t>(), nb::arg("names"), nb::arg("values"),
             nb::arg("fingerprint"))
        .def_prop_ro("fingerprint", &WireDictionary::fingerprint);
    m.def("read_documents", &read_documents, nb::arg("documents"), nb::arg("limits"), nb::arg("entities").none() = nb::none(),
          nb::sig("def read_documents(documents: Sequence[bytes], limits: Limits, entities: Entities | None = None) -> "
                  "list[Document | Exception]"),
          "A Document for each, or why it was refused.");
    m.def("decode_documents", &decode_documents, nb::arg("forms"), nb::arg("dictionary").none(), nb::arg("limits"),
          nb::arg("entities").none() = nb::none(),
          nb::sig("def decode_documents(forms: Sequence[bytes], dictionary: WireDictionary | None, limits: Limits, "
                  "entities: Entities | None = None) -> list[Document | Exception]"),
          "A Document for each binary form, or why it was refused.");
    m.def("encode_documents", &encode_documents, nb::arg("documents"), nb::arg("dictionary").none(),
          nb::sig("def encode_documents(documents: Sequence[Document], dictionary: WireDictionary | None) -> list[bytes]"),
          "The binary form of each.");
    m.def("spelled_counts", &spelled_counts, nb::arg("document"),
          nb::sig("def spelled_counts(document: Document) -> tuple[dict[str, int], dict[str, int]]"),
          "Names as the document spells them, and plain values of attributes, with how often they occur.");
    testing.def("same_columns", [](const HeldDocument& one, const HeldDocument& other) { return differing_column(*one, *other); },
                nb::arg("one"), nb::arg("other"), "The name of a column in which two documents differ; empty if there is none.");
}

}  // namespace treecast
