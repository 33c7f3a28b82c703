// What a broker stores of a batch of documents that was rendered: bodies for its log, and a row for each document.
//
// A document has a number, and a body of its own. A payload that is the document itself has the same body; each of the others has
// one behind it, however many subscriptions get it. Numbers of documents and of bodies ascend without gaps.
#pragma once

#include "lanes/lanes.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace treecast {

// Columns of a batch, as Index::render_part makes them with the texts of documents.
struct RenderedColumns {
    std::span<const int32_t> ends;              // deliveries up to each document
    std::span<const int64_t> payloads;          // by delivery; less than 0: it was refused
    std::span<const int64_t> payload_ends;
    std::string_view payload_bytes;
    std::span<const int64_t> own_payloads;      // by document; -1: its text is among `texts`
    std::span<const int64_t> text_ends;
    std::string_view texts;

    size_t documents() const { return own_payloads.size(); }
    std::string_view payload(size_t number) const { return part(payload_bytes, payload_ends, number); }
    std::string_view text(size_t document) const {
        const int64_t own = own_payloads[document];
        return own < 0 ? part(texts, text_ends, document) : payload(static_cast<size_t>(own));
    }

private:
    static std::string_view part(std::string_view bytes, std::span<const int64_t> ends, size_t at) {
        return bytes.substr(static_cast<size_t>(ends[at]), static_cast<size_t>(ends[at + 1] - ends[at]));
    }
};

struct BatchBodies {
    std::vector<int64_t> numbers;               // by document; 0: it is not stored
    std::vector<int64_t> own;                   // by document: its body
    std::vector<int64_t> of_payloads;           // by payload: its body; 0 where the document is not stored
    std::vector<std::string_view> bodies;       // one after the other
    size_t bytes = 0;                           // of all of them
};

// `is_stored`: by document. `last_document`, `last_body`: the numbers before.
BatchBodies number_bodies(const RenderedColumns& columns, const std::vector<bool>& is_stored, int64_t last_document, int64_t last_body);

// What a row has besides.
struct DocumentFields {
    std::string_view source, id, early;         // `early` is in MessagePack; empty: nothing
};

// `DocumentRow` of overlay/broker/rows.py, in MessagePack.
void write_row(const MatchColumns& columns, size_t document, const DocumentFields& fields, int64_t own_body, size_t bytes, std::string& out);

}  // namespace treecast
