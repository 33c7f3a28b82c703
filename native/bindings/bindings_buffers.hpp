// Documents that Python hands over: bytes that cannot change while native code reads them, or Documents that have been read.
#pragma once

#include "bindings/bindings.hpp"
#include "bindings/bindings_document.hpp"

#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace treecast {

// Bytes-like objects and Documents, held while native code uses them without the GIL.
//
// A document is read more than once, and later passes rely on what the first one found. So bytes that another thread may change
// meanwhile (a bytearray, a mapped file, a numpy array, whether exported as read-only or not) are copied, and the object is
// released at once. What cannot change is not copied: bytes, views of bytes, and Arrow buffers, which by Arrow's rules never
// change; arrow_views() in src/treecast/document.py exports these as read-only.
class Buffers {
public:
    explicit Buffers(nb::sequence documents) {
        // A tuple of its own: the sequence may change while buffers are requested.
        given_ = nb::steal(PySequence_Tuple(documents.ptr()));
        if (!given_.is_valid()) throw nb::python_error();
        Py_ssize_t count = tuple_size(given_.ptr());
        views_.reserve(static_cast<size_t>(count));
        for (Py_ssize_t i = 0; i < count; ++i) add(tuple_item(given_.ptr(), i));
    }
    explicit Buffers(nb::handle document) : given_(nb::borrow(document)) { add(document.ptr()); }
    Buffers(const Buffers&) = delete;
    Buffers& operator=(const Buffers&) = delete;

    std::span<const GivenDocument> given() const { return views_; }
    size_t copied() const { return copies_.size(); }

private:
    // An exported buffer, released at the end.
    class Export {
    public:
        explicit Export(PyObject* document) {
            if (PyObject_GetBuffer(document, &buffer_, PyBUF_SIMPLE) != 0) throw nb::python_error();
        }
        Export(Export&& other) noexcept : buffer_(std::exchange(other.buffer_, {})) {}
        Export& operator=(Export&&) = delete;
        ~Export() {
            if (buffer_.obj) PyBuffer_Release(&buffer_);
        }
        std::string_view view() const { return {static_cast<const char*>(buffer_.buf), static_cast<size_t>(buffer_.len)}; }
        bool never_changes() const {
            PyObject* owner = buffer_.obj;
            if (PyMemoryView_Check(owner)) owner = memoryview_owner(owner);
            if (!owner) return false;                    // memory that no object owns
            return PyBytes_Check(owner) || (buffer_.readonly && has_type(owner, "pyarrow.lib", "Buffer"));
        }

    private:
        Py_buffer buffer_{};
    };

    void add(PyObject* document) {
        if (PyBytes_Check(document)) {                   // held by given_
            views_.push_back({bytes_view(document)});
            return;
        }
        if (nb::isinstance<HeldDocument>(nb::handle(document))) {     // likewise, and it never changes
            views_.push_back({{}, &*nb::cast<const HeldDocument&>(nb::handle(document))});
            return;
        }
        if (PyUnicode_Check(document)) {
            PyErr_SetString(PyExc_TypeError, "a document is bytes, not str: encode it (text.encode()), so that its encoding is certain");
            throw nb::python_error();
        }
        if (!PyObject_CheckBuffer(document)) {
            const std::string kind = nb::cast<std::string>(nb::handle(document).type().attr("__name__"));
            PyErr_Format(PyExc_TypeError, "a document is bytes, not %.100s", kind.c_str());
            throw nb::python_error();
        }
        Export given(document);
        std::string_view bytes = given.view();
        if (given.never_changes()) {
            if (exports_.empty()) exports_.reserve(views_.capacity() - views_.size());
            exports_.push_back(std::move(given));
        } else {
            copies_.push_back(std::make_unique_for_overwrite<char[]>(bytes.size()));
            std::memcpy(copies_.back().get(), bytes.data(), bytes.size());
            bytes = {copies_.back().get(), bytes.size()};
        }
        views_.push_back({bytes});
    }

    nb::object given_;
    std::vector<GivenDocument> views_;
    std::vector<Export> exports_;
    std::vector<std::unique_ptr<char[]>> copies_;
};

}  // namespace treecast
