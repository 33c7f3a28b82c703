#include "lanes/parcels.hpp"

#include "document/characters.hpp"
#include "lanes/message_pack.hpp"

#include <stdexcept>

namespace treecast {

namespace {

constexpr uint64_t number_max = ~0ull >> 1;
constexpr size_t name_characters_max = 1000;        // NAME_CHARS_MAX of overlay/messages.py
constexpr size_t fields_min = 6;

// A text in UTF-8 of at most so many characters.
std::string_view checked_text(std::string_view text, size_t characters_max) {
    size_t characters = 0;
    for (const char *at = text.data(), *end = at + text.size(); at < end; ++characters) {
        const uint32_t length = static_cast<signed char>(*at) >= 0 ? 1 : decode_utf8(at, end).length;
        if (!length) throw std::invalid_argument("a text is no UTF-8");
        at += length;
    }
    if (characters > characters_max) throw std::invalid_argument("a name is too long");
    return text;
}

std::string_view name_at(message_pack::Cursor& cursor) { return checked_text(cursor.text(), name_characters_max); }

uint64_t number_at(message_pack::Cursor& cursor) {
    const uint64_t number = cursor.number();
    if (number > number_max) throw std::invalid_argument("a number is too large");
    return number;
}

Parcel parcel_at(message_pack::Cursor& cursor) {
    Parcel parcel;
    const char* begin = cursor.at;
    const size_t fields = cursor.array();
    if (fields < fields_min) throw std::invalid_argument("a document lacks fields");
    parcel.number = number_at(cursor);
    parcel.source = name_at(cursor);
    parcel.id = name_at(cursor);
    parcel.published_ms = number_at(cursor);
    parcel.format = name_at(cursor);
    parcel.body = cursor.binary();
    if (fields > fields_min) parcel.early = checked_text(cursor.text(), ~size_t(0));
    if (fields > fields_min + 1) cursor.skip(fields - fields_min - 1);
    parcel.packed = {begin, static_cast<size_t>(cursor.at - begin)};
    return parcel;
}

template <class Out>
void append_parcel(const Parcel& parcel, Out& out) {
    message_pack::append_array(fields_min + !parcel.early.empty(), out);
    message_pack::append_number(parcel.number, out);
    message_pack::append_text(parcel.source, out);
    message_pack::append_text(parcel.id, out);
    message_pack::append_number(parcel.published_ms, out);
    message_pack::append_text(parcel.format, out);
    message_pack::append_binary(parcel.body, out);
    if (!parcel.early.empty()) message_pack::append_text(parcel.early, out);
}

// As it came, or, if it never was in a message, from its fields.
template <class Out>
void write_parcels(const std::vector<Parcel>& parcels, Out& out) {
    message_pack::append_array(parcels.size(), out);
    for (const Parcel& parcel : parcels) {
        if (parcel.packed.empty()) append_parcel(parcel, out);
        else out.append(parcel.packed);
    }
}

}  // namespace

std::vector<Parcel> parse_parcels(std::string_view message, size_t count_max) {
    message_pack::Cursor cursor(message);
    const size_t count = cursor.array();
    // Each takes more bytes than one, so this is no more than was received.
    if (count > count_max || count > message.size()) throw std::invalid_argument("there are too many documents");
    std::vector<Parcel> parcels;
    parcels.reserve(count);
    for (size_t i = 0; i < count; ++i) parcels.push_back(parcel_at(cursor));
    if (cursor.at != cursor.end) throw std::invalid_argument("something follows the documents");
    return parcels;
}

std::string_view first_format(std::string_view message) {
    message_pack::Cursor cursor(message);
    return cursor.array() ? parcel_at(cursor).format : std::string_view();
}

size_t message_bytes(const std::vector<Parcel>& parcels) {
    message_pack::ByteCount count;
    write_parcels(parcels, count);
    return count.size;
}

void write_message(const std::vector<Parcel>& parcels, char* out) {
    message_pack::Room room{out};
    write_parcels(parcels, room);
}

}  // namespace treecast
