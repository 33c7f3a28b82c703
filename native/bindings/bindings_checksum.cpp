// Checksums for Python, and what brokers write to disk with checksums: many records or rows by one call.
#include "base/checksum.hpp"
#include "bindings/bindings.hpp"

#include <nanobind/stl/vector.h>

#include <cstring>
#include <string>
#include <vector>

namespace treecast {

namespace {

void append_little_endian(uint64_t value, size_t bytes, std::string& out) {
    for (size_t i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> 8 * i));
}

// A view of a bytes-like object while this lives.
class Exported {
public:
    explicit Exported(nb::handle data) {
        if (PyObject_GetBuffer(data.ptr(), &buffer_, PyBUF_SIMPLE) != 0) throw nb::python_error();
    }
    ~Exported() { PyBuffer_Release(&buffer_); }
    Exported(const Exported&) = delete;
    std::string_view view() const { return {static_cast<const char*>(buffer_.buf), static_cast<size_t>(buffer_.len)}; }

private:
    Py_buffer buffer_{};
};

uint32_t checksum(nb::handle data, uint32_t before) { return crc32(Exported(data).view(), before); }

// Records of serve/store/segment.py, one behind the other: mark, number, length, checksum of these and the body, body. What is given
// has a head before each body, which no record has.
nb::tuple log_records(const nb::bytes& mark, uint64_t first, const nb::bytes& data, const std::vector<size_t>& ends, size_t head_bytes) {
    std::string_view bodies = view(data);
    if (!ends.empty() && ends.back() > bodies.size()) throw nb::value_error("bodies are missing");
    std::string out;
    out.reserve(bodies.size() + ends.size() * (mark.size() + 16));
    std::vector<size_t> offsets;
    offsets.reserve(ends.size());
    size_t begin = 0;
    for (size_t end : ends) {
        if (end < begin || end - begin < head_bytes) throw nb::value_error("a body ends before it begins");
        std::string_view body = bodies.substr(begin + head_bytes, end - begin - head_bytes);
        const size_t at = out.size();
        offsets.push_back(at);
        out += view(mark);
        append_little_endian(first++, 8, out);
        append_little_endian(body.size(), 4, out);
        append_little_endian(crc32(body, crc32(std::string_view(out).substr(at))), 4, out);
        out += body;
        begin = end;
    }
    return nb::make_tuple(nb::bytes(out.data(), out.size()), offsets);
}

// Rows of serve/store/tables.py: (key, value and checksum). Keys are integers or texts; a row without a value is left out.
nb::list checked_rows(uint32_t seed, const nb::dict& rows) {
    nb::list out;
    std::string stored;
    for (auto [key, value] : rows) {
        if (value.is_none()) continue;
        std::string_view name;
        char number[8];
        if (PyLong_Check(key.ptr())) {
            const long long signed_key = PyLong_AsLongLong(key.ptr());
            if (signed_key == -1 && PyErr_Occurred()) throw nb::python_error();
            std::string little;
            append_little_endian(static_cast<uint64_t>(signed_key), sizeof number, little);
            std::memcpy(number, little.data(), sizeof number);
            name = {number, sizeof number};
        } else {
            Py_ssize_t size = 0;
            const char* text = PyUnicode_AsUTF8AndSize(key.ptr(), &size);
            if (!text) throw nb::python_error();
            name = {text, static_cast<size_t>(size)};
        }
        if (!PyBytes_Check(value.ptr())) throw nb::type_error("a value is bytes");
        const std::string_view plain = view(nb::borrow<nb::bytes>(value));
        stored.assign(plain);
        append_little_endian(crc32(plain, crc32(name, seed)), 4, stored);
        out.append(nb::make_tuple(nb::borrow(key), nb::bytes(stored.data(), stored.size())));
    }
    return out;
}

}  // namespace

void bind_checksum(nb::module_& m, nb::module_& testing) {
    m.def("crc32", &checksum, nb::arg("data"), nb::arg("before") = 0, nb::sig("def crc32(data: bytes | bytearray | memoryview, before: int = 0) -> int"),
          "As zlib.crc32.");
    m.def("log_records", &log_records, nb::arg("mark"), nb::arg("first"), nb::arg("data"), nb::arg("ends"), nb::arg("head_bytes"),
          nb::sig("def log_records(mark: bytes, first: int, data: bytes, ends: Sequence[int], head_bytes: int) -> tuple[bytes, list[int]]"),
          "Bodies with consecutive numbers as records of a log, and where each begins: see treecast.serve.store.segment.");
    m.def("checked_rows", &checked_rows, nb::arg("seed"), nb::arg("rows"),
          nb::sig("def checked_rows(seed: int, rows: dict) -> list[tuple[int | str, bytes]]"),
          "Keys and values with checksums behind them, without those that are None: see treecast.serve.store.tables.");
    testing.def("crc32_scalar", [](const nb::bytes& data, uint32_t before) { return crc32_scalar(view(data), before); }, nb::arg("data"),
                nb::arg("before") = 0);
}

}  // namespace treecast
