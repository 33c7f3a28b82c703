// Lanes for Python: a broker's deliveries that go well. The border is crossed once a batch of documents, a message, an acknowledgement.
#include "base/large_pages.hpp"
#include "bindings/bindings.hpp"
#include "bindings/bindings_parcels.hpp"
#include "index/index.hpp"
#include "lanes/batch_rows.hpp"
#include "lanes/lanes.hpp"
#include "lanes/message_pack.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

namespace treecast {

namespace {

nb::bytes bytes_of(const std::string& text) { return nb::bytes(text.data(), text.size()); }
nb::str text_of(std::string_view text) { return nb::str(text.data(), text.size()); }

void check(bool is_right, const char* message) {
    if (!is_right) throw nb::value_error(message);
}

// By document: its payloads, each once; None in place of one that is the document itself.
nb::list distinct_payloads(const DeliveryBatch& batch, const std::vector<nb::bytes>& documents) {
    check(documents.size() >= batch.documents, "a document is missing");
    nb::list all;
    int64_t next = 0;                       // payloads of a document are a run, behind those of the document before it
    for (size_t at = 0; at < batch.documents; ++at) {
        int64_t end = next;
        for (auto i = static_cast<size_t>(batch.ends[at]); i < static_cast<size_t>(batch.ends[at + 1]); ++i) end = std::max(end, batch.payloads[i] + 1);
        nb::list own;
        for (; next < end; ++next) {
            const int64_t begin = batch.payload_ends[static_cast<size_t>(next)];
            std::string_view payload(batch.bytes.data() + begin, static_cast<size_t>(batch.payload_ends[static_cast<size_t>(next) + 1] - begin));
            if (payload == view(documents[at])) own.append(nb::none());
            else own.append(nb::bytes(payload.data(), payload.size()));
        }
        all.append(own);
    }
    return all;
}

// By document: how many deliveries it has, refused ones too.
std::vector<int32_t> delivery_counts(const DeliveryBatch& batch) {
    std::vector<int32_t> counts(batch.documents);
    for (size_t at = 0; at < batch.documents; ++at) counts[at] = batch.ends[at + 1] - batch.ends[at];
    return counts;
}

// By delivery: its subscription and the number of its payload, less than 0 where it was refused.
nb::tuple delivery_lists(const DeliveryBatch& batch) {
    check(batch.id_ends.size() == batch.slots.size() + 1, "ids were not asked for");
    nb::list ids;
    for (size_t i = 0; i < batch.slots.size(); ++i) {
        const auto begin = static_cast<size_t>(batch.id_ends[i]), end = static_cast<size_t>(batch.id_ends[i + 1]);
        ids.append(nb::str(batch.ids.data() + begin, end - begin));
    }
    return nb::make_tuple(ids, batch.payloads);
}

std::string_view text_view(nb::handle text) {
    Py_ssize_t size = 0;
    const char* data = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
    if (!data) throw nb::python_error();
    return {data, static_cast<size_t>(size)};
}

// Lanes, and the ids of their subscriptions as Python has them: an object that exists has a hash already.
struct NamedLanes : Lanes {
    using Lanes::Lanes;
    std::vector<nb::object, LargePages<nb::object>> names;              // by slot

    uint32_t join_named(nb::str id, uint32_t lane, uint64_t serial, int64_t newest, int64_t acknowledge_ms) {
        const uint32_t slot = join(text_view(id), lane, serial, newest, acknowledge_ms);
        if (slot >= names.size()) names.resize(slot + 1);
        names[slot] = id;
        return slot;
    }
    nb::tuple leave_named(uint32_t slot) {
        Lanes::Leaving left = leave(slot);
        names[slot].reset();
        return nb::make_tuple(left.waiting, left.ready, left.upto, left.newest);
    }
};

// What is known of the documents of a batch, by document.
struct KnownOfBatch {
    std::vector<std::string_view> sources, ids;
    std::vector<int64_t> published_ms, origin_numbers;
    std::string_view origin;
    nb::dict early;                         // by place: a field in MessagePack, of few

    bool covers(size_t documents) const {
        return std::min({sources.size(), ids.size(), published_ms.size(), origin_numbers.size()}) >= documents;
    }
};

std::vector<std::string_view> text_views(nb::list texts) {
    std::vector<std::string_view> views;
    views.reserve(texts.size());
    for (nb::handle text : texts) views.push_back(text_view(text));
    return views;
}

RenderedColumns rendered_columns(const DeliveryBatch& batch) {
    return {batch.ends, batch.payloads, batch.payload_ends, {batch.bytes.data(), batch.bytes.size()},
            batch.own_payloads, batch.text_ends, {batch.texts.data(), batch.texts.size()}};
}

// All bodies as one object, each with its head (AppendMany of overlay/storage.py), and where each of them ends.
nb::tuple join_bodies(const BatchBodies& made) {
    constexpr size_t head = message_pack::long_binary_head;
    nb::object data = nb::steal(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(made.bytes + head * made.bodies.size())));
    if (!data.is_valid()) throw nb::python_error();
    char* to = bytes_data(data.ptr());
    std::vector<size_t> ends;
    size_t size = 0;
    for (std::string_view body : made.bodies) {
        message_pack::write_long_binary_head(body.size(), to + size);
        size += head;
        if (!body.empty()) std::memcpy(to + size, body.data(), body.size());
        ends.push_back(size += body.size());
    }
    return nb::make_tuple(data, ends);
}

// The rows of the documents that are stored, each with its number.
nb::tuple document_rows(const MatchColumns& columns, const RenderedColumns& rendered, const BatchBodies& made, const KnownOfBatch& given) {
    nb::list keys, rows;
    std::string row;
    for (size_t at = 0; at < made.numbers.size(); ++at) {
        if (!made.numbers[at]) continue;
        row.clear();
        DocumentFields fields{given.sources[at], given.ids[at], {}};
        nb::object early = given.early.size() ? nb::object(given.early.attr("get")(at)) : nb::none();
        if (!early.is_none()) fields.early = view(nb::borrow<nb::bytes>(early));
        write_row(columns, at, fields, made.own[at], rendered.text(at).size(), row);
        keys.append(made.numbers[at]);
        rows.append(bytes_of(row));
    }
    return nb::make_tuple(keys, rows);
}

// Numbers documents and bodies, writes rows, and puts deliveries onto their lanes. Returns the numbers by document, 0 where it is
// not stored; (numbers, rows); (all bodies in one, their ends); (document, subscription) of what is on no lane; and the lanes that
// have something new.
nb::tuple store_known(NamedLanes& lanes, const DeliveryBatch& batch, std::optional<std::vector<bool>> accepted, const KnownOfBatch& given,
                      int64_t last_document, int64_t last_body) {
    check(batch.own_payloads.size() == batch.documents && batch.id_ends.size() == batch.slots.size() + 1, "columns are missing");
    check(given.covers(batch.documents) && (!accepted || accepted->size() == batch.documents), "columns of different lengths");
    std::vector<bool> is_stored;
    if (accepted) {
        is_stored = std::move(*accepted);
    } else {
        for (size_t at = 0; at < batch.documents; ++at) is_stored.push_back(batch.ends[at + 1] > batch.ends[at]);
        for (const Rejected& rejected : batch.rejected) is_stored[rejected.document] = false;
    }
    RenderedColumns rendered = rendered_columns(batch);
    BatchBodies made = number_bodies(rendered, is_stored, last_document, last_body);
    MatchColumns columns{made.numbers, std::span(given.published_ms).first(batch.documents), std::span(given.origin_numbers).first(batch.documents),
                         given.origin, batch.ends, batch.payloads, batch.payload_ends, made.of_payloads, batch.id_ends, batch.ids, batch.slots,
                         batch.view ? batch.view->serial : 0};
    Lanes::Enqueued enqueued = lanes.enqueue(columns);
    nb::list others;
    size_t document = 0;
    for (uint32_t delivery : enqueued.others) {
        while (static_cast<uint32_t>(batch.ends[document + 1]) <= delivery) ++document;
        others.append(nb::make_tuple(document, text_of(columns.id(delivery))));
    }
    return nb::make_tuple(made.numbers, document_rows(columns, rendered, made, given), join_bodies(made), others, enqueued.lanes);
}

nb::tuple store_batch(NamedLanes& lanes, const DeliveryBatch& batch, std::optional<std::vector<bool>> accepted, nb::list sources, nb::list ids,
                      std::vector<int64_t> published_ms, std::string_view origin, std::vector<int64_t> origin_numbers, int64_t last_document,
                      int64_t last_body, nb::dict early) {
    KnownOfBatch given{text_views(sources), text_views(ids), std::move(published_ms), std::move(origin_numbers), origin, std::move(early)};
    return store_known(lanes, batch, std::move(accepted), given, last_document, last_body);
}

// The same for parcels, from one of them on, which nothing was done to on the way.
nb::tuple store_parcels(NamedLanes& lanes, const DeliveryBatch& batch, const HeldParcels& parcels, size_t first, std::string_view origin,
                        int64_t last_document, int64_t last_body) {
    KnownOfBatch given;
    given.origin = origin;
    for (size_t at = first; at < parcels.size() && at - first < batch.documents; ++at) {
        given.sources.push_back(parcels[at].source);
        given.ids.push_back(parcels[at].id);
        given.published_ms.push_back(static_cast<int64_t>(parcels[at].published_ms));
        given.origin_numbers.push_back(static_cast<int64_t>(parcels[at].number));
    }
    return store_known(lanes, batch, std::nullopt, given, last_document, last_body);
}

// Mostly they are neighbours.
nb::list ranges_of(const std::vector<int64_t>& numbers) {
    nb::list ranges;
    for (size_t begin = 0, end = 0; begin < numbers.size(); begin = end) {
        do ++end;
        while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1);
        ranges.append(nb::make_tuple(numbers[begin], numbers[end - 1]));
    }
    return ranges;
}

nb::object object_of(const Lanes::Message& message) {
    if (!message.count) return nb::none();
    return nb::make_tuple(bytes_of(message.items), message.bodies.size(), ranges_of(message.bodies), message.count, message.acknowledge_ms);
}

nb::object take(NamedLanes& lanes, uint32_t lane, uint64_t number, size_t items_max, size_t bytes_max) {
    return object_of(lanes.take(lane, number, items_max, bytes_max));
}

nb::tuple acknowledge(NamedLanes& lanes, uint32_t lane, const std::vector<uint64_t>& numbers) {
    constexpr size_t names_ahead = 16, objects_ahead = 8;   // what is asked for before it is needed: see Subscribers::prefetch
    Lanes::Acknowledged made = lanes.acknowledge(lane, numbers);
    nb::list ids, cursors;
    std::string last;                       // Subscriptions of one document mostly come equally far: they share an object.
    nb::bytes object(nullptr, 0);
    for (size_t at = 0; at < made.slots.size(); ++at) {
        if (at + names_ahead < made.slots.size()) {
            __builtin_prefetch(&lanes.names[made.slots[at + names_ahead]]);
            __builtin_prefetch(lanes.names[made.slots[at + objects_ahead]].ptr(), 1);
        }
        const uint32_t slot = made.slots[at];
        ids.append(lanes.names[slot]);
        std::string cursor = lanes.cursor(slot);
        if (cursor != last) {
            object = bytes_of(cursor);
            last = std::move(cursor);
        }
        cursors.append(object);
    }
    return nb::make_tuple(made.count, ids, cursors, made.strays);
}

}  // namespace

void bind_lanes(nb::module_& m) {
    m.def("delivery_counts", &delivery_counts, nb::arg("batch"), "By document: how many deliveries it has, refused ones too.");
    m.def("delivery_lists", &delivery_lists, nb::arg("batch"), nb::sig("def delivery_lists(batch: DeliveryBatch) -> tuple[list[str], list[int]]"),
          "By delivery: its subscription, and the number of its payload, less than 0 where it was refused.");
    m.def("distinct_payloads", &distinct_payloads, nb::arg("batch"), nb::arg("documents"),
          nb::sig("def distinct_payloads(batch: DeliveryBatch, documents: Sequence[bytes]) -> list[list[bytes | None]]"),
          "By document: its payloads, each once; None in place of one that is the document itself.");
    nb::class_<NamedLanes>(m, "Lanes", "Deliveries that go well, from a match to its acknowledgement: see treecast.overlay.broker.lanes.")
        .def(nb::init<size_t>(), nb::arg("waiting_max"))
        .def("open_lane", &NamedLanes::open_lane)
        .def("close_lane", &NamedLanes::close_lane, nb::arg("lane"))
        .def("join", &NamedLanes::join_named, nb::arg("id"), nb::arg("lane"), nb::arg("serial"), nb::arg("newest"), nb::arg("acknowledge_ms"))
        .def("leave", &NamedLanes::leave_named, nb::arg("slot"), nb::sig("def leave(self, slot: int) -> tuple[list[int], int, int, int]"),
           "What it waits for, how many of these were not sent, the last document that is done if it is after the first of them, else 0, "
           "and its newest document.")
        .def("depth", [](const NamedLanes& self, uint32_t slot) { return nb::make_tuple(self.waiting(slot), self.ready(slot)); }, nb::arg("slot"),
             nb::sig("def depth(self, slot: int) -> tuple[int, int]"), "How many deliveries wait, and how many of these were not sent.")
        .def("floor", &NamedLanes::floor, nb::arg("slot"))
        .def("out_of_order", [](const NamedLanes& self, uint32_t slot) {
                 const std::span<const int64_t> open = self.open(slot);
                 return nb::make_tuple(self.upto(slot), std::vector<int64_t>(open.begin(), open.end()));
             }, nb::arg("slot"), nb::sig("def out_of_order(self, slot: int) -> tuple[int, list[int]]"),
             "The last document that is done, if it is after the first that waits, else 0; and what waits before it.")
        .def("store", &store_batch, nb::arg("batch"), nb::arg("accepted").none(), nb::arg("sources"), nb::arg("ids"), nb::arg("published_ms"),
             nb::arg("origin"), nb::arg("origin_numbers"), nb::arg("last_document"), nb::arg("last_body"), nb::arg("early"),
             nb::sig("def store(self, batch: DeliveryBatch, accepted: Sequence[bool] | None, sources: list[str], ids: list[str], "
                     "published_ms: Sequence[int], origin: str, origin_numbers: Sequence[int], last_document: int, last_body: int, "
                     "early: dict[int, bytes]) -> tuple[list[int], tuple[list[int], list[bytes]], tuple[bytes, list[int]], "
                     "list[tuple[int, str]], list[int]]"),
             "Documents that were rendered, with their texts: numbers, rows, bodies, what is on no lane, and lanes that have more.")
        .def("store_parcels", &store_parcels, nb::arg("batch"), nb::arg("parcels"), nb::arg("first"), nb::arg("origin"), nb::arg("last_document"),
             nb::arg("last_body"),
             nb::sig("def store_parcels(self, batch: DeliveryBatch, parcels: Parcels, first: int, origin: str, last_document: int, "
                     "last_body: int) -> tuple[list[int], tuple[list[int], list[bytes]], tuple[bytes, list[int]], "
                     "list[tuple[int, str]], list[int]]"),
             "The same for parcels, from one of them on: what is known of a document stands in it.")
        .def("take", &take, nb::arg("lane"), nb::arg("number"), nb::arg("items_max"), nb::arg("bytes_max"),
             nb::sig("def take(self, lane: int, number: int, items_max: int, bytes_max: int) -> "
                     "tuple[bytes, int, list[tuple[int, int]], int, int] | None"),
             "The next message: its items, how many payloads, from which body to which they are, how many items, and the least time to "
             "acknowledge.")
        .def("take_again", [](const NamedLanes& self, uint32_t lane, uint64_t number) { return object_of(self.take_again(lane, number)); },
             nb::arg("lane"), nb::arg("number"),
             nb::sig("def take_again(self, lane: int, number: int) -> tuple[bytes, int, list[tuple[int, int]], int, int] | None"),
             "The same message once more; None if one of its deliveries is done, or its subscription has left.")
        .def("acknowledge", &acknowledge, nb::arg("lane"), nb::arg("numbers"),
             nb::sig("def acknowledge(self, lane: int, numbers: Sequence[int]) -> "
                     "tuple[int, list[str], list[bytes], list[tuple[int, int]]]"),
             "How many deliveries, the cursors of their subscriptions, and those of subscriptions that have left.")
        .def("open_message", &NamedLanes::open_message, nb::arg("lane"), nb::arg("number"))
        .def("on_lane", &NamedLanes::on_lane, nb::arg("lane"))
        .def("first_unfinished", &NamedLanes::first_unfinished)
        .def_prop_ro("unfinished", &NamedLanes::unfinished)
        .def_prop_ro("total", &NamedLanes::total)
        .def("longest", &NamedLanes::longest);
}

}  // namespace treecast
