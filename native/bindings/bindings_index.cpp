// Index for Python. The border is crossed once per call, and the GIL is released while native code works.
#include "bindings/bindings.hpp"
#include "bindings/bindings_buffers.hpp"
#include "bindings/bindings_id_strings.hpp"
#include "engines/merge_credit.hpp"
#include "index/arrow.hpp"
#include "index/index.hpp"
#include "query/token.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <system_error>
#include <vector>

namespace treecast {

namespace {

// The text of a str without a copy: CPython caches its UTF-8, which is valid as long as the object.
std::string_view utf8(nb::handle text, const char* what) {
    if (!PyUnicode_Check(text.ptr())) {
        PyErr_Format(PyExc_TypeError, "%s is a str, not %.80s", what, nb::inst_name(text).c_str());
        throw nb::python_error();
    }
    Py_ssize_t size;
    const char* data = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
    if (!data) {
        PyErr_Clear();
        Failure failure(Family::query, "TC110", std::string(what) + " has a lone surrogate, which no text can hold");
        raise(failure);
    }
    return {data, static_cast<size_t>(size)};
}

// An Arrow array of large_string, as its two buffers.
struct ArrowTexts {
    const int64_t* ends;
    const char* bytes;
    std::string_view operator[](size_t i) const { return {bytes + ends[i], static_cast<size_t>(ends[i + 1] - ends[i])}; }
};

nb::list refusals(const std::vector<Refusal>& refused, std::span<const Item> items, size_t listed_max) {
    nb::list out;
    for (const Refusal& refusal : refused) {
        if (out.size() == listed_max) break;
        const Item& item = items[refusal.item];
        out.append(nb::make_tuple(refusal.item, nb::str(item.id.data(), item.id.size()), to_python(refusal.failure, item.text)));
    }
    return out;
}

// Views into the str objects stay valid: the list holds them during the call.
std::vector<Item> items_of(nb::list pairs, nb::list settings) {
    if (pairs.size() != settings.size()) throw nb::value_error("one Settings for each pair");
    std::vector<Item> items;
    items.reserve(pairs.size());
    for (nb::handle pair : pairs) {
        if (!PyTuple_Check(pair.ptr()) || tuple_size(pair.ptr()) != 2) throw nb::type_error("subscriptions are (id, query) pairs");
        items.push_back({utf8(tuple_item(pair.ptr(), 0), "an id"), utf8(tuple_item(pair.ptr(), 1), "a query"),
                         &nb::cast<const Settings&>(settings[items.size()])});
    }
    return items;
}

std::vector<std::string_view> ids_of(nb::list ids) {
    std::vector<std::string_view> views;
    views.reserve(ids.size());
    for (nb::handle id : ids) views.push_back(utf8(id, "an id"));
    return views;
}

// `change` gets the items, and a list for what it refuses. None if it refused nothing. Otherwise how many were refused, and the first
// of them as (number, id, error).
template <class Change>
nb::object change_items(std::span<const Item> items, size_t listed_max, Change&& change) {
    std::vector<Refusal> refused;
    {
        Interruptible released;
        change(items, refused);
    }
    if (refused.empty()) return nb::none();
    return nb::make_tuple(refused.size(), refusals(refused, items, listed_max));
}

nb::object add_items(Index& index, std::span<const Item> items, size_t listed_max) {
    return change_items(items, listed_max, [&](auto all, auto& refused) { index.store().add(all, refused); });
}

nb::object add_pairs(Index& index, nb::list pairs, nb::list settings, size_t listed_max) {
    return add_items(index, items_of(pairs, settings), listed_max);
}

nb::object catch_up(Index& index, nb::list gone, nb::list pairs, nb::list settings, size_t listed_max) {
    std::vector<std::string_view> ids = ids_of(gone);
    return change_items(items_of(pairs, settings), listed_max,
                        [&](auto all, auto& refused) { index.store().catch_up(ids, all, refused); });
}

// The columns of an Arrow table by their addresses. `numbers` are the settings by row; 0 means that all rows have the first.
nb::object add_arrow(Index& index, size_t count, uintptr_t id_ends, uintptr_t id_bytes, uintptr_t query_ends,
                     uintptr_t query_bytes, uintptr_t numbers, nb::list settings, size_t listed_max) {
    ArrowTexts ids{reinterpret_cast<const int64_t*>(id_ends), reinterpret_cast<const char*>(id_bytes)};
    ArrowTexts queries{reinterpret_cast<const int64_t*>(query_ends), reinterpret_cast<const char*>(query_bytes)};
    std::vector<const Settings*> all;
    for (nb::handle one : settings) all.push_back(&nb::cast<const Settings&>(one));
    std::vector<Item> items(count);
    const auto* of_row = reinterpret_cast<const uint32_t*>(numbers);
    for (size_t i = 0; i < count; ++i) items[i] = {ids[i], queries[i], all.at(of_row ? of_row[i] : 0)};
    return add_items(index, items, listed_max);
}

void add_one(Index& index, nb::handle id, nb::handle query, const Settings& settings) {
    Item item{utf8(id, "an id"), utf8(query, "a query"), &settings};
    std::vector<Refusal> refused;
    {
        Interruptible released;
        index.store().add({&item, 1}, refused);
    }
    if (!refused.empty()) raise(refused[0].failure, item.text);
}

IdStrings& id_strings(Index& index) {
    if (!index.companion) index.companion = std::make_shared<IdStrings>();
    return *static_cast<IdStrings*>(index.companion.get());
}

// (document, id, error) of what is undecided; `first` is the number of the first document.
nb::list undecided_list(const View& view, const std::vector<UndecidedMatch>& undecided, int64_t first) {
    nb::list out;
    for (const UndecidedMatch& one : undecided) {
        std::string_view id = view.id(static_cast<uint32_t>(one.slot));
        Failure failure = one.failure;
        failure.message = "the subscription '" + std::string(cut_text(id, 100)) + "' is undecided: " + failure.message;
        out.append(nb::make_tuple(first + static_cast<int64_t>(one.document), nb::str(id.data(), id.size()), to_python(failure)));
    }
    return out;
}

// The ids, and what is undecided if there is something.
nb::object match_one(Index& index, nb::handle document) {
    Buffers buffers(document);
    Output<int32_t> slots;
    std::shared_ptr<const View> view;
    std::vector<UndecidedMatch> undecided;
    {
        Interruptible released;
        view = index.match(buffers.given()[0], slots, undecided);
    }
    nb::list ids = id_strings(index).list(*view, slots.data(), slots.size());
    if (undecided.empty()) return ids;
    return nb::make_tuple(ids, undecided_list(*view, undecided, 0));
}

// What match_many returns: an Arrow stream, which can be taken once, and the rejected documents.
struct Matches {
    std::unique_ptr<ArrowArrayStream> stream;
    size_t documents = 0, matches = 0;
    std::vector<Rejected> rejected;
    std::shared_ptr<const View> view;
    std::vector<UndecidedMatch> undecided;
    std::vector<int64_t> ends{0}, nanoseconds;      // matches up to each document; time of each, if asked for
    ~Matches() {
        if (stream && stream->release) stream->release(stream.get());
    }
};

std::unique_ptr<Matches> match_many(Index& index, nb::sequence documents, size_t threads, bool report, uint64_t matches_max,
                                    int64_t first, bool timed, uint64_t id_bytes_max) {
    Buffers buffers(documents);
    auto out = std::make_unique<Matches>();
    out->stream = std::make_unique<ArrowArrayStream>();
    out->stream->release = nullptr;
    std::optional<Rejected> failed;
    {
        Interruptible released;
        try {
            Batch batch = index.match_many(buffers.given(), {threads, report, matches_max ? matches_max : ~0ull, timed, first,
                                                                id_bytes_max ? id_bytes_max : ~0ull});
            out->documents = batch.documents;
            out->matches = batch.matches();
            for (Chunk& chunk : batch.chunks) {
                for (Rejected& rejected : chunk.rejected) out->rejected.push_back(std::move(rejected));
                for (UndecidedMatch& one : chunk.undecided) out->undecided.push_back(std::move(one));
                for (uint32_t count : chunk.counts) out->ends.push_back(out->ends.back() + count);
                out->nanoseconds.insert(out->nanoseconds.end(), chunk.nanoseconds.begin(), chunk.nanoseconds.end());
            }
            if (!out->undecided.empty()) out->view = batch.view;
            export_matches(batch, out->stream.get());
        } catch (const BatchFailure& failure) {
            failed = failure.rejected;
        }
    }
    // The exception is made only here, because it needs the GIL.
    if (failed) raise_of_document(failed->failure, first + static_cast<int64_t>(failed->document));
    return out;
}

nb::bytes to_bytes(const std::vector<int64_t>& numbers) { return nb::bytes(numbers.data(), numbers.size() * sizeof(int64_t)); }

// Called when nobody imported the stream, or after the importer took it over.
void release_capsule(PyObject* capsule) {
    auto* stream = static_cast<ArrowArrayStream*>(PyCapsule_GetPointer(capsule, "arrow_array_stream"));
    if (stream->release) stream->release(stream);
    delete stream;
}

// Runs f without the GIL. What the operating system refuses becomes an OSError.
template <class F>
void without_gil(F&& f) {
    int refused = 0;
    std::string path;
    {
        Interruptible released;
        try {
            f();
        } catch (const std::system_error& error) {
            refused = error.code().value();
            path = error.what();
        }
    }
    if (!refused) return;
    errno = refused;
    PyErr_SetFromErrnoWithFilename(PyExc_OSError, path.substr(0, path.rfind(": ")).c_str());
    throw nb::python_error();
}

// Without the GIL, for everything that takes a lock of the Store: its holder may be waiting for the GIL.
template <class F>
auto ask_store(F&& f) {
    WithoutGil released;
    return f();
}

// Sorted, so that equal namespaces in different order are equal settings.
Bindings bindings_of(nb::dict namespaces) {
    Bindings bindings;
    for (auto [prefix, uri] : namespaces)
        bindings.emplace_back(utf8(prefix, "a prefix"), utf8(uri, "a namespace"));
    std::sort(bindings.begin(), bindings.end());
    check_bindings(bindings);
    return bindings;
}

nb::dict namespaces_of(const Settings& settings) {
    nb::dict namespaces;
    for (const auto& [prefix, uri] : settings.bindings) namespaces[nb::str(prefix.data(), prefix.size())] = nb::str(uri.data(), uri.size());
    return namespaces;
}

nb::tuple settings_tuple(const Settings& settings) {
    return nb::make_tuple(namespaces_of(settings), settings.ordered, settings.deliver == 1);
}

nb::tuple subscription_tuple(const Store::Subscription& s) {
    return nb::make_tuple(s.id, s.text, namespaces_of(s.settings), s.settings.ordered, s.settings.deliver == 1);
}

// All living subscriptions in their order: ids, texts, the number of the settings of each, and the settings.
nb::tuple all_subscriptions(Index& index) {
    std::shared_ptr<const View> view = index.store().view();
    std::vector<uint32_t> slots;
    for (uint32_t slot = 0; slot < view->slots; ++slot)
        if (view->is_alive(slot)) slots.push_back(slot);
    std::sort(slots.begin(), slots.end(), [&](uint32_t a, uint32_t b) { return view->order_of(a) < view->order_of(b); });
    nb::list ids, texts, numbers, settings;
    std::string room;
    for (uint32_t slot : slots) {
        std::string_view id = view->id(slot), text = view->text(slot, room);
        ids.append(nb::str(id.data(), id.size()));
        texts.append(nb::str(text.data(), text.size()));
        numbers.append(view->texts.settings(slot));
    }
    for (uint32_t number = 0; number < view->settings_size; ++number) settings.append(settings_tuple((*view->settings)[number]));
    return nb::make_tuple(ids, texts, numbers, settings);
}

}  // namespace

void bind_index(nb::module_& m, nb::module_& testing) {
    m.def("engine_names", [] {
        nb::list out;
        for (std::string_view name : engine_names()) out.append(nb::str(name.data(), name.size()));
        return out;
    }, "The engines that are built, in the order in which they are listed.");

    nb::class_<Matches>(m, "Matches")
        .def_ro("documents", &Matches::documents)
        .def_ro("matches", &Matches::matches)
        .def_prop_ro("ends", [](const Matches& m) { return to_bytes(m.ends); }, "int64: matches before each document, and in all.")
        .def_prop_ro("nanoseconds", [](const Matches& m) { return to_bytes(m.nanoseconds); }, "int64: what each document took.")
        .def_prop_ro("rejected", [](const Matches& matches) {
            nb::list out;
            for (const Rejected& r : matches.rejected) out.append(nb::make_tuple(r.document, to_python(r.failure)));
            return out;
        })
        .def_prop_ro("undecided", [](const Matches& m) {
            return m.undecided.empty() ? nb::list() : undecided_list(*m.view, m.undecided, 0);
        }, "(document, id, error) of subscriptions whose limit of work ended before their answer, by document.")
        .def("__arrow_c_stream__", [](Matches& matches, nb::object) {
            if (!matches.stream) throw nb::value_error("these matches were read already");
            return nb::steal(PyCapsule_New(matches.stream.release(), "arrow_array_stream", release_capsule));
        }, nb::arg("requested_schema") = nb::none());

    nb::class_<Settings>(m, "Settings")
        .def("__init__", [](Settings* self, nb::dict namespaces, bool ordered, bool elements) {
            new (self) Settings{bindings_of(namespaces), ordered, static_cast<uint8_t>(elements)};
        }, nb::arg("namespaces"), nb::arg("ordered"), nb::arg("elements"));

    nb::class_<Index>(m, "Index")
        .def("__init__", [](Index* self, const Limits& limits, const EntityTexts* entities, uint64_t cache_bytes_max, std::string_view engine,
                            std::optional<uint64_t> seed) {
            new (self) Index(limits, entities ? entities->texts : nullptr, cache_bytes_max, engine,
                             seed ? hash_seeds_from(*seed) : hash_seeds());
        }, nb::arg("limits"), nb::arg("entities").none(), nb::arg("cache_bytes_max"), nb::arg("engine"), nb::arg("seed").none())
        .def("add", &add_one, nb::arg("id"), nb::arg("query"), nb::arg("settings"))
        .def("add_pairs", &add_pairs, nb::arg("pairs"), nb::arg("settings"), nb::arg("listed_max"))
        .def("add_arrow", &add_arrow, nb::arg("count"), nb::arg("id_ends"), nb::arg("id_bytes"), nb::arg("query_ends"),
             nb::arg("query_bytes"), nb::arg("numbers"), nb::arg("settings"), nb::arg("listed_max"))
        .def("replace", [](Index& self, nb::handle id, nb::handle query, const Settings& settings) {
            std::string_view name = utf8(id, "an id"), text = utf8(query, "a query");
            std::optional<Failure> failed;
            {
                WithoutGil released;
                try {
                    self.store().replace(name, text, settings);
                } catch (const Failure& failure) {
                    failed = failure;
                }
            }
            if (failed) raise(*failed, failed->code == "TC143" ? std::string_view() : text);
        }, nb::arg("id"), nb::arg("query"), nb::arg("settings"))
        .def("remove", [](Index& self, nb::handle id) {
            std::string_view name = utf8(id, "an id");
            WithoutGil released;
            self.store().remove(name);
        }, nb::arg("id"))
        .def("remove_many", [](Index& self, nb::list ids) {
            std::vector<std::string_view> names = ids_of(ids);
            Interruptible released;
            return self.store().remove_many(names);
        }, nb::arg("ids"))
        .def("catch_up", &catch_up, nb::arg("gone"), nb::arg("pairs"), nb::arg("settings"), nb::arg("listed_max"))
        .def("unknown", [](Index& self, nb::list ids) {
            std::vector<std::string_view> names = ids_of(ids);
            std::vector<size_t> places = ask_store([&] { return self.store().unknown(names); });
            return places;
        }, nb::arg("ids"), "The places of those ids that no subscription has.")
        .def("contains", [](Index& self, nb::handle id) {
            Py_ssize_t size;
            const char* name = PyUnicode_AsUTF8AndSize(id.ptr(), &size);
            if (!name) {                // no text that an id could be
                PyErr_Clear();
                return false;
            }
            WithoutGil released;
            return self.store().contains({name, static_cast<size_t>(size)});
        }, nb::arg("id"))
        .def("size", [](Index& self) { return self.store().size(); }, nb::call_guard<WithoutGil>())
        .def("find", [](Index& self, nb::handle id) {
            std::string_view name = utf8(id, "an id");
            return subscription_tuple(ask_store([&] { return self.store().find(name); }));
        }, nb::arg("id"))
        .def("subscriptions", &all_subscriptions, "(ids, queries, numbers of settings, settings), in their order.")
        .def("match", &match_one, nb::arg("document"),
             nb::sig("def match(self, document: object) -> list[str] | tuple[list[str], list[tuple[int, str, Exception]]]"),
             "The ids; and, if there are any, what Matches.undecided has.")
        .def("match_many", &match_many, nb::arg("documents"), nb::arg("threads"), nb::arg("report"), nb::arg("matches_max"), nb::arg("first"),
             nb::arg("timed") = false, nb::arg("id_bytes_max") = 0)
        .def("save", [](Index& self, nb::bytes path, nb::bytes about) {     // a file name is bytes: it may be no UTF-8
            std::string_view text(about.c_str(), about.size());
            std::string name(path.c_str(), path.size());
            without_gil([&] {
                self.store().merge_if_due();            // those who load it match, and merge nothing
                self.store().save(name, text);
            });
        }, nb::arg("path"), nb::arg("about"))
        .def("load", [](Index& self, nb::bytes path, bool verify) {
            bool current = false;
            std::string name(path.c_str(), path.size());
            without_gil([&] { current = self.store().load(name, verify); });
            return current;
        }, nb::arg("path"), nb::arg("verify"), "Into an empty index. False: it was rebuilt from another format version.")
        .def_static("saved_about", [](nb::bytes path) {
            std::string about, name(path.c_str(), path.size());
            without_gil([&] { about = Store::saved_about(name); });
            return nb::bytes(about.data(), about.size());
        }, nb::arg("path"))
        .def("compact", [](Index& self) { self.store().compact(); }, nb::call_guard<Interruptible>())
        .def("drop_caches", [](Index& index) {
            id_strings(index).clear();
            WithoutGil released;
            index.drop_caches();
        })
        .def("stats", [](Index& self) {
            StoreStats stats = ask_store([&] { return self.store().stats(); });
            return nb::make_tuple(stats.subscriptions, stats.paths, stats.states, stats.machines, stats.bytes, self.cache_bytes());
        });
    testing.def("looked_at", [](const Index& index) { return index.looked_at(); }, nb::arg("index"),
                "Entries of tree patterns that were tested one by one, and steps of rechecks, since the caches were dropped.");
    testing.def("affordable_merge", [](const std::vector<uint32_t>& sizes, uint64_t added, uint64_t visits) {
        MergeCredit credit;
        credit.earn(added);
        credit.update(sizes);
        credit.walk(visits);
        return credit.is_due() ? credit.affordable(sizes) : 0;
    }, nb::arg("sizes"), nb::arg("added"), nb::arg("visits"), "How many machines of these sizes a match would merge.");
    testing.def("delta_rows", [](const Index& index) { return index.counts().delta_rows; }, nb::arg("index"),
                "Rows of names that were made for the delta, since the caches were dropped.");
    testing.def("delta_events", [](const Index& index) { return index.counts().delta_events; }, nb::arg("index"),
                "Elements, attributes and texts that the delta has walked over, since the caches were dropped.");
    testing.def("chains_walked", [](const Index& index) { return index.counts().chains_walked; }, nb::arg("index"),
                "Chains of subscriptions that were walked for what machines have found, since the caches were dropped.");
    testing.def("delta_chains_walked", [](const Index& index) { return index.counts().delta_chains_walked; }, nb::arg("index"),
                "The same for what the delta has found.");
    testing.def("views_made", [](Index& index) { return ask_store([&] { return index.store().views_made(); }); }, nb::arg("index"),
                "Views that were made from nothing: one that nobody holds any more is used again.");
    testing.def("merges", [](Index& index) {
        EngineStats stats = ask_store([&] { return index.store().engine_stats(); });
        return nb::make_tuple(stats.merges_begun, stats.merges_done, stats.paths_built);
    }, nb::arg("index"), "Merges in slices under way, those that are done, and the paths that the last change has built machines of.");
    testing.def("keys_compared", [](Index& index) { return ask_store([&] { return index.store().engine_stats().keys_compared; }); }, nb::arg("index"),
                "Keys of known paths that were compared with those of added queries.");
    testing.def("array_bytes_copied", [] { return array_bytes_copied(); }, "By arrays of this thread that have grown or shrunk.");
    testing.def("saved_tables", [](Index& index) {
        Store::SavedTables tables = ask_store([&] { return index.store().saved_tables(); });
        return nb::make_tuple(tables.exist, tables.added);
    }, nb::arg("index"), "Whether it has tables with the seeds of the file that it was loaded from, and how many ids were added to them.");
}

}  // namespace treecast
