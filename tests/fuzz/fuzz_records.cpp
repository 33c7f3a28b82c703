// Invariant: any bytes give rows whose columns are consistent, at most one of them about the file itself and that last;
// the same rows whether the bytes come whole, in pieces, or in parts cut by a planning run; each record that the reader
// accepts has its one root element at the start; and the rows of a file that the reader accepts are without errors.
#include "records/records.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

using namespace treecast;

namespace {

void demand(bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "the invariant is broken: %s\n", what);
    std::abort();
}

bool file_refused = false;

std::string account(RecordRows& rows) {
    std::string out;
    size_t begin = 0, next = 0;
    for (size_t row = 0; row < rows.ends.size(); ++row) {
        auto end = static_cast<size_t>(rows.ends[row]);
        demand(!file_refused, "what is wrong with the file comes last");
        file_refused = rows.ordinals[row] < 0;
        demand(begin <= end && end <= rows.data.size(), "ends");
        out += std::to_string(rows.offsets[row]) + " " + std::to_string(rows.ordinals[row]) + " ";
        out.append(rows.data, begin, end - begin).push_back('\x1F');
        if (next < rows.refused.size() && rows.refused[next].row == row) {
            const Failure& failure = rows.refused[next++].failure;
            out += failure.code + " " + failure.message + " " + std::to_string(failure.position) + "\n";
        } else {
            demand(rows.ordinals[row] >= 0 && end > begin && rows.data[begin] == '<', "a record");
        }
        begin = end;
    }
    demand(next == rows.refused.size() && begin == rows.data.size(), "all told");
    rows = {};
    return out;
}

std::string run(RecordSplitter splitter, std::string_view bytes, size_t piece, size_t rows_bytes) {
    std::string out;
    file_refused = false;
    for (size_t at = 0; at < bytes.size() && !splitter.done(); at += piece) {
        splitter.feed(bytes.substr(at, piece));
        while (splitter.scan(rows_bytes)) out += account(splitter.rows());
    }
    splitter.finish();
    while (splitter.scan(rows_bytes)) out += account(splitter.rows());
    demand(splitter.done(), "done");
    return out + account(splitter.rows());
}

std::string run_parts(const RecordOptions& options, std::string_view bytes, uint64_t part_bytes) {
    RecordSplitter planner = RecordSplitter::planning(options, part_bytes);
    planner.feed(bytes);
    planner.scan(1);
    planner.finish();
    planner.scan(1);
    demand(planner.rows().ends.empty(), "a plan has no rows");
    std::string out, state;
    uint64_t offset = 0;
    for (size_t part = 0; part <= planner.cuts().size(); ++part) {
        bool last = part == planner.cuts().size();
        uint64_t stop = last ? whole_file : planner.cuts()[part].offset;
        demand(last || stop <= bytes.size(), "a cut");
        out += run(RecordSplitter(options, state, stop), bytes.substr(offset), bytes.size() + 1, 1 << 20);
        if (!last) offset = stop, state = planner.cuts()[part].state;
    }
    return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size < 2) return 0;
    std::string_view bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
    static const auto entities = std::make_shared<const Entities>(Entities{{"x", "y\n<z>&\"'"}, {"none", ""}});
    RecordOptions options;
    if (data[0] & 1) options.names = {"a", "p:b"};
    if (data[0] & 2) options.entities = entities;
    if (data[0] & 4) options.record_bytes_max = 20;
    size_t piece = 1 + data[1] % 16;
    std::string whole = run(RecordSplitter(options), bytes, bytes.size() + 1, 1 << 20);
    demand(run(RecordSplitter(options), bytes, piece, 1 + data[1]) == whole, "pieces give the same");
    demand(run_parts(options, bytes, piece) == whole, "parts give the same");

    Reader reader({}, options.entities);
    try {
        reader.read(bytes);
    } catch (const Failure&) {
        return 0;
    }
    options.record_bytes_max = 1 << 20;
    whole = run(RecordSplitter(options), bytes, bytes.size() + 1, 1 << 20);
    demand(!file_refused || whole.find("TC303") != std::string::npos, "a good file has good records");
    return 0;
}
