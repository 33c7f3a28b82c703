// The direct evaluator and its explanations for Python.
#include "bindings.hpp"
#include "evaluate.hpp"
#include "number.hpp"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <vector>

namespace treecast {

namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

std::string_view view(const nb::bytes& data) { return {data.c_str(), data.size()}; }

Query read_query(std::string_view text, const Pairs& namespaces, bool ordered) {
    Query query;
    try {
        check_bindings(namespaces);
        parse_query(text, namespaces, query);
        if (ordered) check_ordered(query);
    } catch (const Failure& failure) {
        raise(failure, text);
    }
    return query;
}

bool satisfies(const nb::bytes& document, const nb::bytes& query, const Pairs& namespaces, bool ordered) {
    Query parsed = read_query(view(query), namespaces, ordered);
    Reader reader;
    Evaluator evaluator;
    evaluator.begin(reader.read(view(document)));
    return evaluator.satisfies(parsed, ordered);
}

// (kind, index) of each item; the kinds are those of StepKind.
nb::list select(const nb::bytes& document, const nb::bytes& query, const Pairs& namespaces, bool ordered) {
    Query parsed = read_query(view(query), namespaces, ordered);
    Reader reader;
    Evaluator evaluator;
    evaluator.begin(reader.read(view(document)));
    std::vector<Evaluator::Item> items;
    evaluator.select(parsed, ordered, items);
    nb::list result;
    for (const Evaluator::Item& item : items) result.append(nb::make_tuple(static_cast<int>(item.kind), item.index));
    return result;
}

// One Evaluator for all: for each document, the numbers of the queries it satisfies. With `reparse` each query is parsed
// again for every document, as those are that are kept as text only.
std::vector<std::vector<uint32_t>> judge(const std::vector<nb::bytes>& documents, const std::vector<nb::bytes>& queries,
                                         const Pairs& namespaces, bool ordered, bool reparse) {
    std::vector<Query> parsed;
    std::vector<std::string_view> texts, sources;
    for (const nb::bytes& query : queries) {
        texts.push_back(view(query));
        parsed.push_back(read_query(texts.back(), namespaces, ordered));
    }
    for (const nb::bytes& document : documents) sources.push_back(view(document));
    std::vector<std::vector<uint32_t>> result(documents.size());
    nb::gil_scoped_release unlocked;
    Reader reader;
    Evaluator evaluator;
    Query again;
    for (size_t d = 0; d < sources.size(); ++d) {
        evaluator.begin(reader.read(sources[d]));
        for (uint32_t q = 0; q < parsed.size(); ++q) {
            if (reparse) parse_query(texts[q], namespaces, again);
            if (evaluator.satisfies(reparse ? again : parsed[q], ordered)) result[d].push_back(q);
        }
    }
    return result;
}

}  // namespace

void bind_explain(nb::module_& m) {
    m.def("satisfies", &satisfies, nb::arg("document"), nb::arg("query"), nb::arg("namespaces") = Pairs(),
          nb::arg("ordered") = false, "Whether a document satisfies a query, judged directly.");
    m.def("select", &select, nb::arg("document"), nb::arg("query"), nb::arg("namespaces") = Pairs(),
          nb::arg("ordered") = false, "What a query selects: (0 element, 1 attribute, 2 text; its number), in document order.");
    m.def("check_ordered", [](const Query& query) {
        try {
            check_ordered(query);
        } catch (const Failure& failure) {
            raise(failure, query.written());
        }
    }, nb::arg("query"), "Raises QueryError where a query is no ordered pattern.");
    m.def("to_number", [](const nb::bytes& text) { return to_number(view(text)); }, nb::arg("text"),
          "What XPath's number() makes of a text.");
    m.def("judge", &judge, nb::arg("documents"), nb::arg("queries"), nb::arg("namespaces") = Pairs(),
          nb::arg("ordered") = false, nb::arg("reparse") = false,
          "For each document the numbers of the queries that it satisfies, judged one by one.");
}

}  // namespace treecast
