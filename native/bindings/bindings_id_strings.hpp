// The ids of subscriptions as Python strings, each made once: those who match get the same objects again.
//
// A string takes longer to make than a match to find. Only with the GIL.
#pragma once

#include "bindings/bindings.hpp"
#include "engines/subscriptions.hpp"

#include <cstdint>
#include <string_view>
#include <vector>

namespace treecast {

class IdStrings {
public:
    // PERF: bench/stages.py. So many are kept, up to 80 bytes each with a short id; others are made each time.
    static constexpr size_t kept_max = 1u << 20;

    IdStrings() = default;
    IdStrings(const IdStrings&) = delete;
    ~IdStrings() { clear(); }

    nb::list list(const View& view, const int32_t* slots, size_t count) {
        PyObject* list = PyList_New(static_cast<Py_ssize_t>(count));      // first: a collection of garbage may call anything
        if (!list) throw nb::python_error();
        nb::list out = nb::steal<nb::list>(list);
        if (serial_ != view.serial) clear();
        serial_ = view.serial;
        if (strings_.size() < view.slots) strings_.resize(view.slots, nullptr);
        for (size_t i = 0; i < count; ++i) {
            constexpr size_t ahead = 16;
            if (i + ahead < count) __builtin_prefetch(strings_[static_cast<size_t>(slots[i + ahead])]);
            PyObject*& kept = strings_[static_cast<size_t>(slots[i])];
            PyObject* text = kept;
            if (text) {
                Py_INCREF(text);
            } else {
                std::string_view id = view.id(static_cast<uint32_t>(slots[i]));
                text = PyUnicode_DecodeUTF8(id.data(), static_cast<Py_ssize_t>(id.size()), nullptr);
                if (!text) throw nb::python_error();
                if (kept_ < kept_max) {
                    ++kept_;
                    Py_INCREF(kept = text);
                }
            }
            set_list_item(list, static_cast<Py_ssize_t>(i), text);
        }
        return out;
    }
    void clear() {
        for (PyObject* text : strings_) Py_XDECREF(text);
        std::vector<PyObject*>().swap(strings_);
        kept_ = 0;
    }
    size_t kept() const { return kept_; }

private:
    std::vector<PyObject*> strings_;             // by slot; null: not made yet, or not kept
    size_t kept_ = 0;
    uint64_t serial_ = 0;                        // of the View's body, in which a slot never gets another id
};

}  // namespace treecast
