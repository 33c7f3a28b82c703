// Documents on their way between brokers, as Python holds them: one message or several that came together, and which of their
// documents are meant.
#pragma once

#include "bindings/bindings.hpp"
#include "index/index.hpp"
#include "lanes/parcels.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace treecast {

class HeldParcels {
public:
    // Each message: bytes that never change, or what shows such bytes. Throws std::invalid_argument.
    HeldParcels(const std::vector<nb::object>& messages, size_t count_max);

    size_t size() const { return parcels_.size(); }
    const Parcel& operator[](size_t at) const { return parcels_[at]; }
    const std::vector<Parcel>& all() const { return parcels_; }
    // The message that has these documents and no others, if there is one.
    const nb::object* message() const;

    // Some of them, by their places here.
    std::unique_ptr<HeldParcels> some(const std::vector<uint32_t>& places) const;

    // Reading them: `plain` are the forms, where the bodies are compressed; otherwise bodies are forms.
    struct Reading {
        bool is_text = false;
        const WireDictionary* dictionary = nullptr;
        const Limits& limits;
        const std::optional<std::vector<nb::bytes>>& plain;
    };
    std::vector<std::string_view> forms(const Reading& reading) const;

    // Deliveries of some of the documents, which were rendered while they were routed. They are looked at again soon: a broker
    // serves its own subscribers when what it passes on has left.
    struct Deliveries {
        const Index* index = nullptr;        // of these subscriptions
        Limits limits;                       // by which documents were read,
        RenderLimits render_limits;          // and rendered
        std::vector<uint32_t> places;        // of the documents, ascending
        std::unique_ptr<DeliveryBatch> batch;
    };
    // Of the documents at these places here.
    void keep_deliveries(Deliveries made) const;
    // Those of the documents here, from `first` on, if they were made, and would be made the same now; once. Null: they have to be made.
    std::unique_ptr<DeliveryBatch> take_deliveries(Index& index, size_t first, const Limits& limits, const RenderLimits& render_limits) const;

private:
    HeldParcels() = default;
    struct Message {
        nb::object owner;
        Py_buffer buffer{};
        uint32_t first = 0, end = 0;         // places of its documents
        explicit Message(nb::object owner_) : owner(std::move(owner_)) {
            if (PyObject_GetBuffer(owner.ptr(), &buffer, PyBUF_SIMPLE) != 0) throw nb::python_error();
        }
        Message(const Message&) = delete;
        Message& operator=(const Message&) = delete;
        ~Message() { PyBuffer_Release(&buffer); }
        std::string_view bytes() const { return {static_cast<const char*>(buffer.buf), static_cast<size_t>(buffer.len)}; }
    };
    struct Messages {
        std::deque<Message> all;
        Deliveries deliveries;               // by places in all messages
    };
    std::shared_ptr<Messages> messages_;     // of all that were chosen from them
    std::vector<Parcel> parcels_;
    std::vector<uint32_t> places_;           // of each in all messages
};

// How the deliveries of parcels are made: with the texts of those that somebody gets.
inline DeliveryOptions parcel_options(uint64_t bytes_max, const RenderLimits& limits) {
    return {.report = true, .ids = true, .bytes_max = bytes_max, .limits = limits, .texts = DeliveryOptions::Texts::matched};
}

// Documents as links take them, one behind the other.
struct PublishedForms {
    std::string bytes;
    std::vector<size_t> ends{0};             // nothing where a document was rejected
    std::string_view form(size_t place) const { return std::string_view(bytes).substr(ends[place], ends[place + 1] - ends[place]); }
};

inline const Document& look_at(KeptReader& reader, std::string_view form, const HeldParcels::Reading& reading) {
    return reading.is_text ? reader.look(form) : reader.look(form, reading.dictionary);
}

}  // namespace treecast
