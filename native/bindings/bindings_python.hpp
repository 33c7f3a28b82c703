// What CPython offers as macros and its stable ABI as functions, under one name for both. A wheel for Python 3.12 and later is
// built for the stable ABI; a build for one version takes the macros.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <string_view>

namespace treecast {

namespace nb = nanobind;

#ifdef Py_LIMITED_API

inline char* bytes_data(PyObject* bytes) { return PyBytes_AsString(bytes); }
inline Py_ssize_t bytes_size(PyObject* bytes) { return PyBytes_Size(bytes); }
inline Py_ssize_t tuple_size(PyObject* tuple) { return PyTuple_Size(tuple); }
inline PyObject* tuple_item(PyObject* tuple, Py_ssize_t at) { return PyTuple_GetItem(tuple, at); }
inline void set_list_item(PyObject* list, Py_ssize_t at, PyObject* item) { PyList_SetItem(list, at, item); }

// What a memoryview shows, or null. The view holds it.
inline PyObject* memoryview_owner(PyObject* view) {
    nb::object owner = nb::getattr(nb::handle(view), "obj");
    return owner.is_none() ? nullptr : owner.ptr();
}

inline bool has_type(PyObject* object, std::string_view module, std::string_view name) {
    nb::handle type = nb::handle(object).type();
    auto is = [&](const char* attribute, std::string_view text) {
        nb::object value = nb::getattr(type, attribute);
        return nb::isinstance<nb::str>(value) && nb::cast<std::string>(value) == text;
    };
    return is("__name__", name) && is("__module__", module);
}

#else

inline char* bytes_data(PyObject* bytes) { return PyBytes_AS_STRING(bytes); }
inline Py_ssize_t bytes_size(PyObject* bytes) { return PyBytes_GET_SIZE(bytes); }
inline Py_ssize_t tuple_size(PyObject* tuple) { return PyTuple_GET_SIZE(tuple); }
inline PyObject* tuple_item(PyObject* tuple, Py_ssize_t at) { return PyTuple_GET_ITEM(tuple, at); }
inline void set_list_item(PyObject* list, Py_ssize_t at, PyObject* item) { PyList_SET_ITEM(list, at, item); }
inline PyObject* memoryview_owner(PyObject* view) { return PyMemoryView_GET_BASE(view); }

// Of a type written in C: its full name is in one string.
inline bool has_type(PyObject* object, std::string_view module, std::string_view name) {
    std::string_view full = Py_TYPE(object)->tp_name;
    return full.size() == module.size() + 1 + name.size() && full.starts_with(module) && full.ends_with(name);
}

#endif

inline std::string_view bytes_view(PyObject* bytes) { return {bytes_data(bytes), static_cast<size_t>(bytes_size(bytes))}; }

}  // namespace treecast
