// Documents that Python hands over.
#pragma once

#include "bindings.hpp"

#include <span>
#include <string_view>
#include <vector>

namespace treecast {

// Bytes-like objects, held while native code reads them.
class Buffers {
public:
    explicit Buffers(nb::sequence documents) {
        nb::object fast = nb::steal(PySequence_Fast(documents.ptr(), "documents must be a sequence of bytes"));
        if (!fast.is_valid()) throw nb::python_error();
        Py_ssize_t count = PySequence_Fast_GET_SIZE(fast.ptr());
        views_.reserve(count);
        held_.reserve(count);
        for (Py_ssize_t i = 0; i < count; ++i) add(PySequence_Fast_GET_ITEM(fast.ptr(), i));
        keep_ = std::move(fast);
    }
    explicit Buffers(nb::handle document) { add(document.ptr()); }
    Buffers(const Buffers&) = delete;
    ~Buffers() {
        for (Py_buffer& buffer : held_) PyBuffer_Release(&buffer);
    }
    std::span<const std::string_view> views() const { return views_; }

private:
    void add(PyObject* document) {
        Py_buffer buffer;
        if (PyUnicode_Check(document)) {
            PyErr_SetString(PyExc_TypeError, "a document is bytes, not str: encode it (text.encode()), so that its encoding is certain");
            throw nb::python_error();
        }
        if (PyObject_GetBuffer(document, &buffer, PyBUF_SIMPLE) != 0) throw nb::python_error();
        held_.push_back(buffer);
        views_.emplace_back(static_cast<const char*>(buffer.buf), static_cast<size_t>(buffer.len));
    }
    std::vector<std::string_view> views_;
    std::vector<Py_buffer> held_;
    nb::object keep_;
};

}  // namespace treecast
