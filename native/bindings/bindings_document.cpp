// Limits, Entities, Document and read() for Python.
#include "bindings/bindings_document.hpp"
#include "document/document.hpp"
#include "document/reader.hpp"
#include "render/copy.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/unordered_map.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <vector>

namespace treecast {

namespace {

nb::str text(std::string_view utf8) { return nb::str(utf8.data(), utf8.size()); }

// A column as a memoryview, without a copy. It keeps `self` alive.
template <class T, class S = T>
nb::object column(nb::handle self, const Column<T>& items) {
    static_assert(sizeof(T) == sizeof(S));
    return nb::ndarray<nb::memview, const S, nb::ndim<1>>(reinterpret_cast<const S*>(items.data()), {items.size()}, self).cast();
}

// Offsets into the bytes as given. Only a transcoded document needs new numbers.
nb::object offsets(nb::handle self, const Document& document, const Column<uint32_t>& items) {
    if (document.source.data() == document.original.data()) return column(self, items);
    auto mapped = std::make_unique<std::vector<uint32_t>>(items.size());
    for (size_t i = 0; i < items.size(); ++i) (*mapped)[i] = static_cast<uint32_t>(document.original_offset(items[i]));
    std::vector<uint32_t>* values = mapped.release();
    nb::capsule owner(values, [](void* memory) noexcept { delete static_cast<std::vector<uint32_t>*>(memory); });
    return nb::ndarray<nb::memview, const uint32_t, nb::ndim<1>>(values->data(), {values->size()}, owner).cast();
}

// Each expanded name becomes one tuple, however often it occurs.
class NameTuples {
public:
    explicit NameTuples(const NameTable& names) : names_(names), made_(names.size()) {}
    nb::object operator[](uint32_t id) {
        if (!made_[id].is_valid()) made_[id] = nb::make_tuple(text(names_.uri(id)), text(names_.local(id)));
        return made_[id];
    }

private:
    const NameTable& names_;
    std::vector<nb::object> made_;
};

nb::list element_names(const HeldDocument& held) {
    NameTuples tuples(*held->names);
    nb::list result;
    for (size_t i = 0; i < held->elements(); ++i) result.append(tuples[held->name[i]]);
    return result;
}

nb::list all_attributes(const HeldDocument& held) {
    NameTuples tuples(*held->names);
    nb::list result;
    for (size_t i = 0; i < held->elements(); ++i)
        for (size_t a = held->attribute_begin[i]; a < held->attribute_end(i); ++a)
            result.append(nb::make_tuple(i, tuples[held->attribute_name[a]], text(held->value(held->attribute_value[a]))));
    return result;
}

nb::list all_texts(const HeldDocument& held) {
    nb::list result;
    for (size_t t = 0; t < held->text.size(); ++t)
        result.append(nb::make_tuple(held->text_parent[t], text(held->value(held->text[t]))));
    return result;
}

std::string string_value(const HeldDocument& held, size_t element) {
    held.checked(element);
    std::string result;
    for (size_t t = held->text_begin[element]; t < held->text_end[element]; ++t) result += held->value(held->text[t]);
    return result;
}

nb::bytes element_bytes(const HeldDocument& held, size_t element) {
    std::string copy;
    copy_element(*held, held.scopes(), static_cast<uint32_t>(held.checked(element)), NamespacesInForce(), copy);
    return nb::bytes(copy.data(), copy.size());
}

// Reads a batch one after the other and keeps nothing; for measuring.
size_t read_many(const nb::list& documents, const Limits& limits, const EntityTexts* entities) {
    std::vector<nb::bytes> held;
    std::vector<std::string_view> views;
    for (nb::handle document : documents) {
        held.push_back(nb::cast<nb::bytes>(document));
        views.push_back(view(held.back()));
    }
    Interruptible unlocked;
    Reader reader(limits, entities ? entities->texts : nullptr);
    size_t elements = 0;
    for (std::string_view bytes : views) elements += reader.read(bytes).elements();
    return elements;
}

Limits make_limits(uint64_t document_bytes_max, uint32_t depth_max, uint32_t attributes_max, uint32_t name_bytes_max,
                   uint32_t attribute_bytes_max, uint32_t names_max, uint32_t work_per_item_max) {
    Limits limits{document_bytes_max, depth_max, attributes_max, name_bytes_max, attribute_bytes_max, names_max, work_per_item_max};
    check_limits(limits);
    return limits;
}

}  // namespace

void bind_document(nb::module_& m) {
    nb::class_<Limits>(m, "Limits")
        .def("__init__", [](Limits* self, uint64_t document_bytes_max, uint32_t depth_max, uint32_t attributes_max,
                            uint32_t name_bytes_max, uint32_t attribute_bytes_max, uint32_t names_max, uint32_t work_per_item_max) {
                new (self) Limits(make_limits(document_bytes_max, depth_max, attributes_max, name_bytes_max, attribute_bytes_max,
                                              names_max, work_per_item_max));
            }, nb::arg("document_bytes_max"), nb::arg("depth_max"), nb::arg("attributes_max"), nb::arg("name_bytes_max"),
            nb::arg("attribute_bytes_max"), nb::arg("names_max"), nb::arg("work_per_item_max"));
    nb::class_<EntityTexts>(m, "Entities")
        .def("__init__", [](EntityTexts* self, Entities texts) {
                check_entities(texts);
                new (self) EntityTexts{std::make_shared<const Entities>(std::move(texts))};
            }, nb::arg("texts"));
    nb::class_<HeldDocument>(m, "Document")
        .def(nb::init<nb::bytes, const Limits&, const EntityTexts*>(), nb::arg("data"), nb::arg("limits"),
             nb::arg("entities").none() = nb::none())
        .def("__len__", [](const HeldDocument& held) { return held->elements(); })
        .def_prop_ro("data", [](const HeldDocument& held) { return held.data(); })
        .def_prop_ro("size", [](const HeldDocument& held) { return held->original.size(); }, "in bytes")
        .def("names", &element_names, nb::sig("def names(self) -> list[tuple[str, str]]"))
        .def("parents", [](nb::handle self) { return column<uint32_t, int32_t>(self, nb::cast<HeldDocument&>(self)->parent); },
             nb::sig("def parents(self) -> memoryview"))
        .def("depths", [](nb::handle self) { return column(self, nb::cast<HeldDocument&>(self)->depth); },
             nb::sig("def depths(self) -> memoryview"))
        .def("sizes", [](nb::handle self) { return column(self, nb::cast<HeldDocument&>(self)->size); },
             nb::sig("def sizes(self) -> memoryview"))
        .def("starts", [](nb::handle self) {
            auto& held = nb::cast<HeldDocument&>(self);
            return offsets(self, *held, held->start);
        }, nb::sig("def starts(self) -> memoryview"))
        .def("ends", [](nb::handle self) {
            auto& held = nb::cast<HeldDocument&>(self);
            return offsets(self, *held, held->end);
        }, nb::sig("def ends(self) -> memoryview"))
        .def("attributes", &all_attributes, nb::sig("def attributes(self) -> list[tuple[int, tuple[str, str], str]]"))
        .def("texts", &all_texts, nb::sig("def texts(self) -> list[tuple[int, str]]"))
        .def("string_value", &string_value, nb::arg("element"))
        .def("slice", &element_bytes, nb::arg("element"));
    m.def("read_many", &read_many, nb::arg("documents"), nb::arg("limits"), nb::arg("entities").none() = nb::none(),
          "Reads each document, keeps nothing, returns how many elements there were.");
    m.def("refuse_length", [](const Limits& limits) { throw document_too_long(limits); }, nb::arg("limits"),
          "Raises what read() raises for a document that is too long.");
}

}  // namespace treecast
