// Parcels for Python: which there are, some of them, and the bytes in which they travel. None of them becomes an object.
#include "bindings/bindings_parcels.hpp"

#include "document/binary.hpp"
#include "index/index.hpp"

#include <nanobind/stl/string_view.h>
#include <nanobind/stl/unique_ptr.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace treecast {

HeldParcels::HeldParcels(const std::vector<nb::object>& messages, size_t count_max) : messages_(std::make_shared<Messages>()) {
    for (const nb::object& given : messages) {
        Message& message = messages_->all.emplace_back(given);
        message.first = static_cast<uint32_t>(parcels_.size());
        std::vector<Parcel> parcels = parse_parcels(message.bytes(), count_max);
        if (parcels_.empty()) parcels_ = std::move(parcels);
        else parcels_.insert(parcels_.end(), parcels.begin(), parcels.end());
        message.end = static_cast<uint32_t>(parcels_.size());
    }
    places_.resize(parcels_.size());
    std::iota(places_.begin(), places_.end(), 0u);
}

const nb::object* HeldParcels::message() const {
    // Places ascend, so the first, the last and their number say which they are.
    const uint32_t first = places_.empty() ? 0 : places_.front();
    const uint32_t end = places_.empty() ? 0 : places_.back() + 1;
    if (end - first != places_.size()) return nullptr;
    for (const Message& message : messages_->all)
        if (message.first == first && message.end == end) return &message.owner;
    return nullptr;
}

std::unique_ptr<HeldParcels> HeldParcels::some(const std::vector<uint32_t>& places) const {
    std::unique_ptr<HeldParcels> chosen(new HeldParcels);
    chosen->messages_ = messages_;
    for (uint32_t place : places) {
        chosen->parcels_.push_back(parcels_[place]);
        chosen->places_.push_back(places_[place]);
    }
    return chosen;
}

std::vector<std::string_view> HeldParcels::forms(const Reading& reading) const {
    std::vector<std::string_view> forms;
    forms.reserve(size());
    if (reading.plain && reading.plain->size() != size()) throw std::invalid_argument("a form is missing");
    for (size_t at = 0; at < size(); ++at) forms.push_back(reading.plain ? view((*reading.plain)[at]) : parcels_[at].body);
    return forms;
}

void HeldParcels::keep_deliveries(Deliveries made) const {
    for (uint32_t& place : made.places) place = places_[place];
    messages_->deliveries = std::move(made);
}

std::unique_ptr<DeliveryBatch> HeldParcels::take_deliveries(Index& index, size_t first, const Limits& limits,
                                                            const RenderLimits& render_limits) const {
    Deliveries made = std::move(messages_->deliveries);
    if (!made.batch || made.index != &index || made.limits != limits || made.render_limits != render_limits) return nullptr;
    const auto wanted = places_.begin() + static_cast<ptrdiff_t>(first);
    const size_t count = made.places.size();
    const bool has_places = count <= size() - first && std::equal(made.places.begin(), made.places.end(), wanted);
    if (!has_places || !index.is_current(*made.batch)) return nullptr;
    return std::move(made.batch);
}

namespace {

using Held = std::unique_ptr<HeldParcels>;

nb::object common_format(const HeldParcels& parcels) {
    if (!parcels.size()) return nb::none();
    std::string_view format = parcels[0].format;
    for (const Parcel& parcel : parcels.all())
        if (parcel.format != format) return nb::none();
    return nb::str(format.data(), format.size());
}

size_t body_bytes(const HeldParcels& parcels) {
    size_t bytes = 0;
    for (const Parcel& parcel : parcels.all()) bytes += parcel.body.size();
    return bytes;
}

bool is_unchanged(const HeldParcels& parcels) {
    return std::all_of(parcels.all().begin(), parcels.all().end(), [](const Parcel& parcel) { return parcel.early.empty(); });
}

template <class Is>
Held those(const HeldParcels& parcels, Is is) {
    std::vector<uint32_t> places;
    for (size_t at = 0; at < parcels.size(); ++at)
        if (is(at)) places.push_back(static_cast<uint32_t>(at));
    return parcels.some(places);
}

Held having(const HeldParcels& parcels, const std::vector<uint64_t>& masks, uint64_t bit) {
    if (masks.size() != parcels.size()) throw std::invalid_argument("a mask is missing");
    return those(parcels, [&](size_t at) { return (masks[at] & bit) != 0; });
}

// One after the other: of one format, and within the limits, where a parcel takes `bytes_each` besides its body. (parcels, bytes) each.
nb::list parts(const HeldParcels& parcels, size_t count_max, size_t bytes_max, size_t bytes_each) {
    nb::list out;
    std::vector<uint32_t> places;
    size_t bytes = 0;
    auto end_part = [&] {
        if (!places.empty()) out.append(nb::make_tuple(parcels.some(places), bytes));
        places.clear();
        bytes = 0;
    };
    for (size_t at = 0; at < parcels.size(); ++at) {
        const size_t cost = parcels[at].body.size() + bytes_each;
        const bool is_other = !places.empty() && parcels[at].format != parcels[places[0]].format;
        if (places.size() >= count_max || bytes + cost > bytes_max || is_other) end_part();
        places.push_back(static_cast<uint32_t>(at));
        bytes += cost;
    }
    end_part();
    return out;
}

nb::object message_of(const std::vector<Parcel>& parcels) {
    nb::object bytes = nb::steal(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(message_bytes(parcels))));
    if (!bytes.is_valid()) throw nb::python_error();
    write_message(parcels, bytes_data(bytes.ptr()));
    return bytes;
}

nb::object packed(const HeldParcels& parcels) {
    const nb::object* message = parcels.message();
    return message ? *message : message_of(parcels.all());
}

nb::list bodies(const HeldParcels& parcels) {
    nb::list out;
    for (const Parcel& parcel : parcels.all()) out.append(nb::bytes(parcel.body.data(), parcel.body.size()));
    return out;
}

nb::bytes body(const HeldParcels& parcels, size_t place) {
    if (place >= parcels.size()) throw nb::index_error("there is no such parcel");
    return nb::bytes(parcels[place].body.data(), parcels[place].body.size());
}

nb::bytes pack(const PublishedForms& forms, const std::vector<size_t>& places, const std::vector<uint64_t>& numbers,
               const std::vector<std::string_view>& sources, const std::vector<std::string_view>& ids, uint64_t published_ms, std::string_view format) {
    if (numbers.size() != places.size() || sources.size() != places.size() || ids.size() != places.size())
        throw std::invalid_argument("columns of different lengths");
    std::vector<Parcel> parcels;
    for (size_t at = 0; at < places.size(); ++at) {
        if (places[at] + 1 >= forms.ends.size()) throw std::invalid_argument("there is no such form");
        parcels.push_back({numbers[at], published_ms, sources[at], ids[at], format, forms.form(places[at]), {}, {}});
    }
    return nb::borrow<nb::bytes>(message_of(parcels));
}

nb::str format_of(nb::object message) {
    Py_buffer buffer;
    if (PyObject_GetBuffer(message.ptr(), &buffer, PyBUF_SIMPLE) != 0) throw nb::python_error();
    struct Release {
        Py_buffer& buffer;
        ~Release() { PyBuffer_Release(&buffer); }
    } release{buffer};
    std::string_view format = first_format({static_cast<const char*>(buffer.buf), static_cast<size_t>(buffer.len)});
    return nb::str(format.data(), format.size());
}

}  // namespace

void bind_parcels(nb::module_& m) {
    nb::class_<HeldParcels>(m, "Parcels", "Documents of messages between brokers: see treecast.overlay.onyx.parcels.")
        .def(nb::init<const std::vector<nb::object>&, size_t>(), nb::arg("messages"), nb::arg("count_max"),
             nb::sig("def __init__(self, messages: Sequence[object], count_max: int) -> None"), "At most so many in each message.")
        .def("__len__", &HeldParcels::size)
        .def_prop_ro("first", [](const HeldParcels& self) { return self.size() ? self[0].number : 0; }, "The first number; 0: there is none.")
        .def_prop_ro("last", [](const HeldParcels& self) { return self.size() ? self[self.size() - 1].number : 0; })
        .def_prop_ro("body_bytes", &body_bytes)
        .def_prop_ro("format", &common_format, nb::sig("def format(self) -> str | None"), "Of all of them, if it is one.")
        .def_prop_ro("is_unchanged", &is_unchanged, "Nothing was done to any of them on the way.")
        .def("after", [](const HeldParcels& self, uint64_t number) { return those(self, [&](size_t at) { return self[at].number > number; }); },
             nb::arg("number"), "Those with higher numbers.")
        .def("having", &having, nb::arg("masks"), nb::arg("bit"), "Those whose mask has a bit.")
        .def("parts", &parts, nb::arg("count_max"), nb::arg("bytes_max"), nb::arg("bytes_each"),
             nb::sig("def parts(self, count_max: int, bytes_max: int, bytes_each: int) -> list[tuple[Parcels, int]]"),
             "One after the other, each of one format and within the limits, and how many bytes it has.")
        .def("packed", &packed, nb::sig("def packed(self) -> object"), "As they travel: the message that has them and no others, or bytes.")
        .def("bodies", &bodies, nb::sig("def bodies(self) -> list[bytes]"))
        .def("body", &body, nb::arg("place"));
    nb::class_<PublishedForms>(m, "PublishedForms", "Documents in the form of a link, by their places in what was published.")
        .def("__len__", [](const PublishedForms& self) { return self.ends.size() - 1; })
        .def("pack", &pack, nb::arg("places"), nb::arg("numbers"), nb::arg("sources"), nb::arg("ids"), nb::arg("published_ms"), nb::arg("format"),
             "Some of them as parcels, in the bytes of a message.");
    m.def("parcel_format", &format_of, nb::arg("message"), "The format of the first document of a message.");
}

}  // namespace treecast
