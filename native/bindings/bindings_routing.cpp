// Routing for Python: which targets documents are for. Documents that were read, or forms of a link, which are read only to be
// routed; of those, the documents that somebody here needs are kept.
#include "bindings/bindings_buffers.hpp"
#include "bindings/bindings_document.hpp"
#include "bindings/bindings_parcels.hpp"
#include "document/binary.hpp"
#include "index/index.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace treecast {

namespace {

nb::list refusals(const Index::Routing& routing) {
    nb::list out;
    for (const auto& [place, failure] : routing.rejected) out.append(nb::make_tuple(place, to_python(failure)));
    return out;
}

// (the targets of each document, and (place, error) of those that cannot be read, which have those that were found before).
nb::tuple route(Index& index, nb::sequence documents, Targets& targets, uint64_t enough, uint64_t found) {
    Buffers buffers(documents);
    std::span<const GivenDocument> given = buffers.given();
    std::vector<uint64_t> answers(given.size(), found);
    Index::Routing routing{targets, enough, found};
    {
        Interruptible released;
        index.route(given.size(), [&](size_t i) { return given[i]; },
                    [&](size_t i, const GivenDocument&, uint64_t answer) { answers[i] = answer; }, routing);
    }
    return nb::make_tuple(nb::cast(answers), refusals(routing));
}

// A form as it came on a link, and the text that it is, or holds as it was given.
struct Form {
    std::string_view bytes, text;
    bool is_text = false;
};

// The same for forms of a link, which are text or binary. Of each that is for one of `kept`, or for all of `enough`, the Document
// is answered too; the others are None.
// PERF: bench/network_cpu.py. Keeping a document takes half as long as decoding it, and one that is passed on is not needed again.
nb::tuple route_forms(Index& index, const std::vector<nb::bytes>& forms, bool is_text, const WireDictionary* dictionary,
                      const Limits& limits, Targets& targets, uint64_t enough, uint64_t found, uint64_t kept) {
    std::vector<nb::object> data(forms.size());       // of what is text, which a Document refers to
    std::vector<Form> views(forms.size());
    for (size_t i = 0; i < forms.size(); ++i) {
        Form& form = views[i];
        form.bytes = {forms[i].c_str(), forms[i].size()};
        bool is_original = !is_text && !form.bytes.empty() && form.bytes[0] == static_cast<char>(BinaryKind::original);
        form.is_text = is_text || is_original;
        if (is_text) data[i] = forms[i];
        if (is_original) data[i] = nb::bytes(form.bytes.data() + 1, form.bytes.size() - 1);
        if (form.is_text) form.text = bytes_view(data[i].ptr());
    }
    std::vector<uint64_t> answers(forms.size(), found);
    std::vector<std::unique_ptr<KeptDocument>> documents(forms.size());
    Index::Routing routing{targets, enough, found};
    LentReader reader(limits, nullptr);
    {
        Interruptible released;
        index.route(
            forms.size(),
            [&](size_t i) {
                const Form& form = views[i];
                return GivenDocument{{}, form.is_text ? &reader->look(form.text) : &reader->look(form.bytes, dictionary)};
            },
            [&](size_t i, const GivenDocument& given, uint64_t answer) {
                answers[i] = answer;
                bool is_needed = (answer & kept) || (enough && (answer & enough) == enough && kept);
                if (is_needed) documents[i] = reader->keep(*given.read, !views[i].is_text);
            },
            routing);
    }
    reader.keep();
    nb::list out;
    for (size_t i = 0; i < forms.size(); ++i) {
        if (documents[i]) out.append(nb::cast(std::make_unique<HeldDocument>(data[i], std::move(documents[i]))));
        else out.append(nb::none());
    }
    return nb::make_tuple(nb::cast(answers), out, refusals(routing));
}

// The same for parcels, without Documents. What is for all of `enough` is for everybody.
// With `own` (an index, bytes_max, limits), what is for `own_bit` is rendered as well, as long as there is room: `render_parcels` returns it.
// PERF: bench/network_cpu.py, passes on and delivers. To keep documents until then takes longer: they displace each other from the caches.
nb::tuple route_parcels(Index& index, const HeldParcels& parcels, const std::optional<std::vector<nb::bytes>>& plain, bool is_text,
                        const WireDictionary* dictionary, const Limits& limits, Targets& targets, uint64_t enough, uint64_t found,
                        uint64_t own_bit, const std::optional<std::tuple<Index*, uint64_t, RenderLimits>>& own) {
    const HeldParcels::Reading reading{is_text, dictionary, limits, plain};
    const std::vector<std::string_view> forms = parcels.forms(reading);
    std::vector<uint64_t> answers(forms.size(), found);
    Index::Routing routing{targets, enough, found};
    HeldParcels::Deliveries deliveries;
    LentReader reader(limits, nullptr);
    {
        Interruptible released;
        Index::Router router(index, routing);
        std::optional<Index::Rendering> rendering;
        if (own) {
            const auto& [own_index, bytes_max, render_limits] = *own;
            rendering.emplace(*own_index, parcel_options(bytes_max, render_limits));
            deliveries = {own_index, limits, render_limits, {}, nullptr};
        }
        bool has_room = own.has_value();
        for (size_t i = 0; i < forms.size(); ++i) {
            try {
                const GivenDocument given{{}, &look_at(*reader, forms[i], reading)};
                const uint64_t answer = router.route(given);
                // Once enough are found, nobody knows who else wants it.
                answers[i] = (answer & enough) == enough ? ~0ull : answer;
                has_room = has_room && rendering->has_room();
                if (!has_room || !(answers[i] & own_bit)) continue;
                rendering->render(given);
                deliveries.places.push_back(static_cast<uint32_t>(i));
            } catch (const Failure& failure) {
                routing.rejected.emplace_back(i, failure);
            }
        }
        router.keep();
        if (rendering && !deliveries.places.empty()) deliveries.batch = std::make_unique<DeliveryBatch>(rendering->finish());
    }
    reader.keep();
    if (deliveries.batch) parcels.keep_deliveries(std::move(deliveries));
    return nb::make_tuple(nb::cast(answers), refusals(routing));
}

std::string_view view_of(const nb::bytes& bytes) { return {bytes.c_str(), bytes.size()}; }
nb::bytes to_python(const std::string& bytes) { return nb::bytes(bytes.data(), bytes.size()); }

nb::bytes hashes_of(const std::vector<std::string>& values) {
    std::string out;
    out.reserve(values.size() * ValueSet::hash_bytes_each);
    for (const std::string& value : values) ValueSet::append(out, ValueSet::hash(value));
    return to_python(out);
}

using PlaceAndSet = std::tuple<std::string, std::string, std::string, std::string, std::shared_ptr<ValueSet>>;

using GivenStep = std::tuple<bool, std::string, std::string>;

void set_values(Targets& targets, uint64_t number, uint64_t bits, const std::vector<PlaceAndSet>& given, const std::vector<GivenStep>& steps) {
    Targets::Sets sets;
    std::vector<ValueStep> path;
    for (const auto& [element_uri, element, attribute_uri, attribute, set] : given)
        sets.emplace_back(ValuePlace{element_uri, element, attribute_uri, attribute}, set);
    for (const auto& [is_anywhere, uri, name] : steps) path.push_back({is_anywhere, uri, name});
    WithoutGil released;
    targets.set(number, bits, sets, path);
}

void bind_value_set(nb::module_& m) {
    auto with = [](auto change) {
        return [change](ValueSet& set, uint64_t bit, const nb::bytes& hashes) {
            std::lock_guard lock(ValueSet::mutex());
            return to_python((set.*change)(bit, view_of(hashes)));
        };
    };
    auto counting = [](auto change) {
        return [change](ValueSet& set, const nb::bytes& hashes) {
            std::lock_guard lock(ValueSet::mutex());
            return to_python((set.*change)(view_of(hashes)));
        };
    };
    nb::class_<ValueSet>(m, "ValueSet")
        .def(nb::init<>())
        .def("add", with(&ValueSet::add), nb::arg("bit"), nb::arg("hashes"), "Give values a bit; those that had none are returned.")
        .def("remove", with(&ValueSet::remove), nb::arg("bit"), nb::arg("hashes"), "Take a bit; those that have none left are returned.")
        .def("count", counting(&ValueSet::count), nb::arg("hashes"), "Add values once more; those that are new are returned.")
        .def("uncount", counting(&ValueSet::uncount), nb::arg("hashes"), "Remove values once; those that are gone are returned.")
        .def("having", [](const ValueSet& set, uint64_t bit, const nb::bytes& hashes) { return set.having(bit, view_of(hashes)); },
             nb::arg("bit"), nb::arg("hashes"), "How many of the values have the bit.")
        .def("values", [](const ValueSet& set, uint64_t bits) { return to_python(set.values(bits)); }, nb::arg("bits") = ~0ull,
             "The values that have one of the bits, in order.")
        .def("__len__", &ValueSet::size)
        .def_prop_ro("bytes", &ValueSet::bytes, "The memory that it takes.");
    m.def("value_hashes", &hashes_of, nb::arg("values"), "Five bytes for each value, the same in every process.");
    m.def("value_difference", [](const nb::bytes& hashes, const nb::bytes& others) {
            return to_python(value_difference(view_of(hashes), view_of(others)));
        }, nb::arg("hashes"), nb::arg("others"), "The hashes that are in the first list and not in the second; both in order.");
    m.def("sorted_values", [](const nb::bytes& hashes) { return to_python(sorted_values(view_of(hashes))); }, nb::arg("hashes"),
          "The hashes in order.");
}

}  // namespace

void bind_routing(nb::module_& m, nb::module_& testing) {
    bind_value_set(m);
    nb::class_<Targets>(m, "Targets")
        .def(nb::init<>())
        .def("set", [](Targets& targets, uint64_t number, uint64_t bits) { targets.set(number, bits); }, nb::arg("number"),
             nb::arg("targets"), nb::call_guard<WithoutGil>(), "The targets, as bits, of the subscription whose id is this number.")
        .def("set_values", &set_values, nb::arg("number"), nb::arg("targets"), nb::arg("sets"),
             nb::arg("path"),
             "The same where a target wants only documents with a value of its set: (URI, name of elements or \"\", URI, name of an "
             "attribute or \"\" for the text, set), for each of the places. With a path, (whether it is a descendant, URI, name or \"\") "
             "of each step, that is all it says: such a value, of an element that the path leads to.");
    m.def("route", &route, nb::arg("index"), nb::arg("documents"), nb::arg("targets"), nb::arg("enough"), nb::arg("found"),
          nb::sig("def route(index: Index, documents: Sequence[object], targets: Targets, enough: int, found: int) -> "
                  "tuple[list[int], list[tuple[int, Exception]]]"),
          "The targets of each document, and the places of those that cannot be read.");
    m.def("route_forms", &route_forms, nb::arg("index"), nb::arg("forms"), nb::arg("is_text"), nb::arg("dictionary").none(),
          nb::arg("limits"), nb::arg("targets"), nb::arg("enough"), nb::arg("found"), nb::arg("kept"),
          nb::sig("def route_forms(index: Index, forms: Sequence[bytes], is_text: bool, dictionary: WireDictionary | None, "
                  "limits: Limits, targets: Targets, enough: int, found: int, kept: int) -> "
                  "tuple[list[int], list[Document | None], list[tuple[int, Exception]]]"),
          "The same for forms of a link, with the documents that one of the targets `kept` needs.");
    m.def("route_parcels", &route_parcels, nb::arg("index"), nb::arg("parcels"), nb::arg("plain").none(), nb::arg("is_text"),
          nb::arg("dictionary").none(), nb::arg("limits"), nb::arg("targets"), nb::arg("enough"), nb::arg("found"), nb::arg("own_bit"),
          nb::arg("own").none(),
          nb::sig("def route_parcels(index: Index, parcels: Parcels, plain: Sequence[bytes] | None, is_text: bool, "
                  "dictionary: WireDictionary | None, limits: Limits, targets: Targets, enough: int, found: int, own_bit: int, "
                  "own: tuple[Index, int, RenderLimits] | None) -> tuple[list[int], list[tuple[int, Exception]]]"),
          "The same for parcels. With `own` (an index, its `bytes_max` and limits), what the target `own_bit` gets is rendered too, for "
          "`render_parcels`.");
    testing.def("routed", [](const Index& index) { return index.counts().routed; }, nb::arg("index"),
                "Documents that machines were run for, to route them, since the caches were dropped.");
    testing.def("values_hashed", [](const Targets& targets) { return targets.places().hashed(); }, nb::arg("targets"),
                "Values of documents that were hashed.");
    testing.def("values_passed", [](const Targets& targets) { return targets.places().passed(); }, nb::arg("targets"),
                "Attributes and elements that were gone through for their values.");
}

}  // namespace treecast
