#include "lanes/batch_rows.hpp"

#include "lanes/message_pack.hpp"

#include <algorithm>

namespace treecast {

namespace {

constexpr size_t row_fields = 10;
constexpr char nil = static_cast<char>(0xC0);

}  // namespace

BatchBodies number_bodies(const RenderedColumns& columns, const std::vector<bool>& is_stored, int64_t last_document, int64_t last_body) {
    BatchBodies made;
    const size_t documents = columns.documents();
    made.numbers.reserve(documents);
    made.own.reserve(documents);
    made.of_payloads.reserve(columns.payload_ends.size() - 1);
    auto add = [&](std::string_view body) {
        made.bodies.push_back(body);
        made.bytes += body.size();
        return ++last_body;
    };
    for (size_t at = 0; at < documents; ++at) {
        const bool stored = is_stored[at];
        made.numbers.push_back(stored ? ++last_document : 0);
        made.own.push_back(stored ? add(columns.text(at)) : 0);
        // The payloads of a document are a run, behind those of the document before it.
        auto end = static_cast<int64_t>(made.of_payloads.size());
        for (auto i = static_cast<size_t>(columns.ends[at]); i < static_cast<size_t>(columns.ends[at + 1]); ++i)
            end = std::max(end, columns.payloads[i] + 1);
        for (auto payload = static_cast<int64_t>(made.of_payloads.size()); payload < end; ++payload) {
            if (!stored) made.of_payloads.push_back(0);
            else if (payload == columns.own_payloads[at]) made.of_payloads.push_back(made.own[at]);
            else made.of_payloads.push_back(add(columns.payload(static_cast<size_t>(payload))));
        }
    }
    return made;
}

void write_row(const MatchColumns& columns, size_t document, const DocumentFields& fields, int64_t own_body, size_t bytes, std::string& out) {
    message_pack::append_array(row_fields, out);
    message_pack::append_text(fields.source, out);
    message_pack::append_text(fields.id, out);
    message_pack::append_number(static_cast<uint64_t>(columns.published_ms[document]), out);
    message_pack::append_number(static_cast<uint64_t>(own_body), out);
    message_pack::append_number(bytes, out);
    std::string payloads;
    write_matches(columns, document, out, payloads);
    out += payloads;
    message_pack::append_text(columns.origin, out);
    message_pack::append_number(static_cast<uint64_t>(columns.origin_numbers[document]), out);
    if (fields.early.empty()) out.push_back(nil);
    else out += fields.early;
}

}  // namespace treecast
