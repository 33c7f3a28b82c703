// The machine of DHT-NFA by itself, for experiments: its states, and what documents would do to them.
#include "bindings/bindings.hpp"
#include "bindings/bindings_document.hpp"
#include "engines/path_replay.hpp"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
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

template <class T>
std::vector<T> numbers_of(const nb::bytes& data, size_t count, const char* what) {
    if (data.size() != count * sizeof(T)) throw nb::value_error(what);
    std::vector<T> numbers(count);
    std::memcpy(numbers.data(), data.c_str(), data.size());
    return numbers;
}

void place(PathReplay& replay, const nb::bytes& places, const nb::bytes& peers, const nb::bytes& hops) {
    auto by_state = numbers_of<uint32_t>(places, replay.nfa().capacity(), "one place for each state");
    size_t count = peers.size() / sizeof(uint32_t);
    auto by_place = numbers_of<uint32_t>(peers, count, "the peers are numbers of 32 bits");
    size_t peer_count = count ? size_t(*std::max_element(by_place.begin(), by_place.end())) + 1 : 0;
    for (uint32_t number : by_state)
        if (number >= count) throw nb::value_error("a state at a place that is none");
    replay.place(std::move(by_state), std::move(by_place),
                 numbers_of<uint8_t>(hops, peer_count * count, "a number of hops for each peer and place"));
}

// Six numbers for each document, one after the other.
nb::bytes run(PathReplay& replay, const std::vector<const HeldDocument*>& documents, const std::vector<uint32_t>& publishers,
              uint32_t length) {
    demand_documents(documents);
    if (documents.size() != publishers.size()) throw nb::value_error("one publisher for each document");
    for (uint32_t publisher : publishers)
        if (!replay.knows_peer(publisher)) throw nb::value_error("a publisher that is no peer");
    std::vector<PathReplay::Published> published;
    for (size_t at = 0; at < documents.size(); ++at) published.push_back({&**documents[at], publishers[at]});
    std::vector<uint64_t> numbers;
    {
        Interruptible unlocked;
        for (const PathReplay::Work& work : replay.replay(published, length))
            numbers.insert(numbers.end(), {work.messages, work.lookup_hops, work.visits, work.iterative_lookup_hops, work.chain,
                                           work.iterative_chain});
    }
    return bytes_of(numbers);
}

}  // namespace

void bind_path_replay(nb::module_& m) {
    nb::class_<PathReplay>(m, "PathReplay")
        .def(nb::init<>())
        .def("add_many", &add_many, nb::arg("texts"), nb::arg("namespaces"))
        .def("states", [](const PathReplay& replay) { return replay.nfa().states(); })
        .def("table", &table)
        .def("names", &names)
        .def("place", &place, nb::arg("places"), nb::arg("peers"), nb::arg("hops"))
        .def("replay", &run, nb::arg("documents"), nb::arg("publishers"), nb::arg("length"),
             "messages, lookup hops, visits, lookup hops of the iterative method, chain, chain of the iterative method")
        .def("label_paths", &PathReplay::label_paths)
        .def("received", [](const PathReplay& replay) { return bytes_of(replay.received()); })
        .def("visited", [](const PathReplay& replay) { return bytes_of(replay.visited()); })
        .def("documents", [](const PathReplay& replay) { return bytes_of(replay.documents()); })
        .def("clear", &PathReplay::clear);
}

}  // namespace treecast
