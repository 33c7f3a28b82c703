// The query parser for Python: parse, the syntax tree as tuples, and a batch for measuring.
#include "bindings/bindings.hpp"
#include "bindings/bindings_tree.hpp"
#include "query/query.hpp"
#include "query/query_facts.hpp"
#include "query/transformation.hpp"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

namespace treecast {

namespace {

nb::tuple linear_paths(const Query& query) {
    std::vector<Path> paths;
    query.linear_paths(paths);
    nb::list made;
    for (const Path& path : paths) {
        nb::list steps;
        for (const PathStep& step : path) {
            bool has_uri = step.test == Test::name || step.test == Test::any_namespace;
            bool has_local = step.test == Test::name || step.test == Test::any_local;
            steps.append(nb::make_tuple(step.descendant, kind_name(step.kind),
                                        has_uri ? text_object(step.uri) : nb::none(),
                                        has_local ? text_object(step.local) : nb::none()));
        }
        made.append(nb::tuple(steps));
    }
    return nb::tuple(made);
}

Query parse_bytes(nb::bytes text, const std::vector<std::pair<nb::bytes, nb::bytes>>& namespaces) {
    std::string_view view(text.c_str(), text.size());
    Bindings bindings = to_bindings(namespaces);
    Query query;
    try {
        check_bindings(bindings);
        parse_query(view, bindings, query);
    } catch (const Failure& failure) {
        raise(failure, view.substr(0, failure.position + failure.length + 512));   // as much as the excerpt may show
    }
    return query;
}

// How many of the texts are queries. One Query is refilled over and over, as in an index; includes the normal form.
size_t parse_count(const std::vector<std::string>& texts) {
    Interruptible release;
    Query query;
    std::vector<Path> paths;
    size_t count = 0;
    for (const std::string& text : texts) {
        try {
            parse_query(text, {}, query);
            query.linear_paths(paths);
            ++count;
        } catch (const Failure&) {
        }
    }
    return count;
}

nb::list text_list(const NumberedTexts& texts) {
    nb::list out;
    for (const std::string* text : texts.texts()) out.append(text_object(*text));
    return out;
}

template <class T>
nb::bytes to_bytes(const std::vector<T>& numbers) { return nb::bytes(numbers.data(), numbers.size() * sizeof(T)); }

// The facts of an Arrow array of queries, given by its addresses (large_string), under the bindings that `codes` select:
// uint32, or 0 if all have the first. Returns the fields of QueryFacts, with numbers as bytes.
nb::tuple query_facts(size_t count, uintptr_t ends, uintptr_t bytes, uintptr_t codes,
                      const std::vector<std::vector<std::pair<std::string, std::string>>>& bindings) {
    const auto* places = reinterpret_cast<const int64_t*>(ends);
    const auto* texts = reinterpret_cast<const char*>(bytes);
    const auto* numbers = reinterpret_cast<const uint32_t*>(codes);
    QueryFacts facts;
    std::string_view text;
    try {
        Interruptible released;
        Query query;
        for (const Bindings& used : bindings) check_bindings(used);
        for (size_t i = 0; i < count; ++i) {
            text = {texts + places[i], static_cast<size_t>(places[i + 1] - places[i])};
            parse_matching(text, bindings.at(numbers ? numbers[i] : 0), false, query);
            facts.add(query);
        }
    } catch (const Failure& failure) {
        raise(failure, text.substr(0, failure.position + failure.length + 512));
    }
    return nb::make_tuple(text_list(facts.names), to_bytes(facts.roots), to_bytes(facts.required_ends), to_bytes(facts.required),
                          text_list(facts.skeletons), to_bytes(facts.skeleton_ends), to_bytes(facts.skeleton),
                          text_list(facts.patterns), text_list(facts.values), to_bytes(facts.pair_ends),
                          to_bytes(facts.pair_pattern), to_bytes(facts.pair_value));
}

nb::list function_rows() {
    nb::list out;
    for (const FunctionTraits& traits : functions) out.append(nb::make_tuple(text_object(traits.name), traits.before, traits.after));
    return out;
}

bool function_holds_by_name(std::string_view name, std::string_view value, std::string_view literal) {
    const FunctionTraits* traits = find_function(name);
    if (!traits) throw nb::key_error(std::string(name).c_str());
    return function_holds(traits->function, value, literal);
}

}  // namespace

void bind_query(nb::module_& m, nb::module_& testing) {
    nb::class_<Query>(m, "Query", "A parsed query; treecast.Query is the class for users.")
        .def_prop_ro("linear", &Query::linear)
        .def_prop_ro("selects_items", [](const Query& query) { return !query.is_condition() || query.selection() != no_term; },
                     "Whether it is a path, or an expression that selects items as paths do.")
        .def("text", &Query::text, "The canonical text.")
        .def("key", &Query::key, "The canonical text with expanded names: equal for equal queries.")
        .def("tree", [](const Query& query) { return TreeMaker(query).paths(query.branches()); })
        .def("linear_paths", &linear_paths, "The normal form: (descendant, kind, uri, local) of each step.");
    m.def("parse", &parse_bytes, nb::arg("text"), nb::arg("namespaces"),
          "UTF-8 text and (prefix, URI) pairs to a Query.");
    testing.def("parse_count", &parse_count, nb::arg("texts"), "How many of the texts parse: for measuring.");
    m.def("functions", &function_rows, "The functions of predicates: (name, before, after); see native/query/functions.hpp.");
    m.def("function_holds", &function_holds_by_name, nb::arg("name"), nb::arg("value"), nb::arg("literal"),
          "Whether the function holds of a value.");
    m.def("query_facts", &query_facts, nb::arg("count"), nb::arg("ends"), nb::arg("bytes"), nb::arg("codes"),
          nb::arg("bindings"), "What many queries say of the documents that they can match: see native/query/query_facts.hpp.");
}

}  // namespace treecast
