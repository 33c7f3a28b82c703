// The machine of DHT-NFA by itself, for experiments: its states, and what documents would do to them.
#include "bindings/bindings.hpp"
#include "bindings/bindings_document.hpp"
#include "engines/path_replay.hpp"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace treecast {

namespace {

using Prefixes = std::vector<std::pair<nb::bytes, nb::bytes>>;

template <class T>
nb::bytes bytes_of(const std::vector<T>& values) {
    return nb::bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

void add_many(PathReplay& replay, const std::vector<nb::bytes>& texts, const Prefixes& namespaces) {
    Bindings bindings;
    for (const auto& [prefix, uri] : namespaces)
        bindings.emplace_back(std::string(prefix.c_str(), prefix.size()), std::string(uri.c_str(), uri.size()));
    Query query;
    for (const nb::bytes& each : texts) {
        std::string_view text(each.c_str(), each.size());
        try {
            check_bindings(bindings);
            parse_query(text, bindings, query);
            replay.add(query);
        } catch (const Failure& failure) {
            raise(failure, text.substr(0, failure.position + failure.length + 512));   // as the excerpt may show
        }
    }
}

// Columns by state: parent, label, holders, children. A state that was removed has itself as its parent.
nb::tuple table(const PathReplay& replay) {
    const PathNfa& nfa = replay.nfa();
    std::vector<uint32_t> parents, labels, holders, children;
    for (uint32_t state = 0; state < nfa.capacity(); ++state) {
        parents.push_back(nfa.alive(state) && state ? nfa.parent(state) : state);
        labels.push_back(nfa.label(state));
        holders.push_back(nfa.holders(state));
        children.push_back(nfa.children(state));
    }
    return nb::make_tuple(bytes_of(parents), bytes_of(labels), bytes_of(holders), bytes_of(children));
}

// By label: (uri, local), where None stands for any; None for `//` and for labels that no element has.
nb::list names(const PathReplay& replay) {
    nb::list out;
    for (uint32_t label = 0; label < replay.labels().size(); ++label) {
        if (label < label_first && label != label_element_any) {
            out.append(nb::none());
            continue;
        }
        PathStep step = replay.labels().step_of(label);
        bool has_uri = step.test == Test::name || step.test == Test::any_namespace;
        bool has_local = step.test == Test::name || step.test == Test::any_local;
        out.append(nb::make_tuple(has_uri ? nb::object(nb::str(step.uri.data(), step.uri.size())) : nb::none(),
                                  has_local ? nb::object(nb::str(step.local.data(), step.local.size())) : nb::none()));
    }
    return out;
}

void place(PathReplay& replay, const nb::bytes& owners, const nb::bytes& hops, uint32_t peers) {
    if (owners.size() != replay.nfa().capacity() * sizeof(uint32_t) || hops.size() != size_t(peers) * peers)
        throw nb::value_error("one owner for each state, and a number of hops for each two peers");
    std::vector<uint32_t> numbers(replay.nfa().capacity());
    std::memcpy(numbers.data(), owners.c_str(), owners.size());
    for (uint32_t number : numbers)
        if (number >= peers) throw nb::value_error("an owner that is no peer");
    const auto* first = reinterpret_cast<const uint8_t*>(hops.c_str());
    replay.place(std::move(numbers), std::vector<uint8_t>(first, first + hops.size()), peers);
}

nb::tuple run(PathReplay& replay, const HeldDocument& document, uint32_t length, uint32_t publisher) {
    PathReplay::Work work;
    {
        Interruptible unlocked;
        work = replay.replay(*document, length, publisher);
    }
    return nb::make_tuple(work.messages, work.lookup_hops, work.visits, work.iterative_lookup_hops, work.chain,
                          work.iterative_chain);
}

}  // namespace

void bind_path_replay(nb::module_& m) {
    nb::class_<PathReplay>(m, "PathReplay")
        .def(nb::init<>())
        .def("add_many", &add_many, nb::arg("texts"), nb::arg("namespaces"))
        .def("states", [](const PathReplay& replay) { return replay.nfa().states(); })
        .def("table", &table)
        .def("names", &names)
        .def("place", &place, nb::arg("owners"), nb::arg("hops"), nb::arg("peers"))
        .def("replay", &run, nb::arg("document"), nb::arg("length"), nb::arg("publisher"),
             "messages, lookup hops, visits, lookup hops of the iterative method, chain, chain of the iterative method")
        .def("received", [](const PathReplay& replay) { return bytes_of(replay.received()); })
        .def("visited", [](const PathReplay& replay) { return bytes_of(replay.visited()); })
        .def("documents", [](const PathReplay& replay) { return bytes_of(replay.documents()); })
        .def("clear", &PathReplay::clear);
}

}  // namespace treecast
