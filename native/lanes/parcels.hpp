// Documents on their way between two brokers, as they lie in a message: looked at once, and never copied.
//
// A parcel is an array of MessagePack, and a message has an array of these: [number, source, id, published_ms, format, body, early].
// `early` may be missing; fields of later versions may follow, and are passed over. `Parcel` of overlay/onyx/network_messages.py is
// the same for Python, and says what the fields mean.
// PERF: bench/network_frame.py. As objects of Python, the documents of a message cost more than finding out where they go.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace treecast {

struct Parcel {
    uint64_t number = 0, published_ms = 0;
    std::string_view source, id, format, body, early;
    std::string_view packed;             // all of it, as it travels
};

// Throws std::invalid_argument for what is something else, or more than `count_max`.
std::vector<Parcel> parse_parcels(std::string_view message, size_t count_max);

// The format of the first one; nothing if there is none.
std::string_view first_format(std::string_view message);

// The message of some parcels: as they came or, where nothing is packed, from their fields, without an `early` that is empty. It is
// written to as many bytes as `message_bytes` says.
size_t message_bytes(const std::vector<Parcel>& parcels);
void write_message(const std::vector<Parcel>& parcels, char* out);

}  // namespace treecast
