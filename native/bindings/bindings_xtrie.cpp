// What an XTrie contains, for inspection: the substring table and the trie.
#include "bindings/bindings.hpp"
#include "document/reader.hpp"
#include "engines/xtrie.hpp"
#include "engines/xtrie_run.hpp"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace treecast {

namespace {

std::string label_text(const LabelTable& labels, uint32_t label) {
    PathStep step = labels.step_of(label);
    if (step.kind == StepKind::text) return "text()";
    std::string text = step.kind == StepKind::attribute ? "@" : "";
    if (step.test == Test::any_namespace || (step.test == Test::name && !step.uri.empty()))
        text.append("{").append(step.uri).append("}");
    if (step.test == Test::any_local) text += "*:";
    return text.append(step.test == Test::name || step.test == Test::any_local ? step.local : "*");
}

// The string of a state is read from its parents, so it comes out reversed.
nb::tuple string_of(const XTrie& engine, uint32_t state) {
    std::vector<std::string> labels;
    for (; state != SubstringTrie::root; state = engine.trie().parent(state))
        labels.push_back(label_text(engine.labels(), engine.trie().label(state)));
    std::reverse(labels.begin(), labels.end());
    nb::list out;
    for (const std::string& label : labels) out.append(nb::str(label.data(), label.size()));
    return nb::tuple(out);
}

// The rows in the order in which they were added. Parents are numbers of rows in this list.
nb::list rows_of(const XTrie& engine) {
    std::vector<std::vector<uint32_t>> by_slot;
    for (const XTrie::Filter& filter : engine.filters()) {
        if (filter.slot == none) continue;
        if (filter.slot >= by_slot.size()) by_slot.resize(filter.slot + 1);
        for (uint32_t row = filter.first_row; row != none; row = engine.rows()[row].next)
            by_slot[filter.slot].push_back(row);
    }
    std::vector<uint32_t> numbers(engine.rows().size(), none);
    nb::list out;
    for (std::vector<uint32_t>& rows : by_slot)
        for (auto at = rows.rbegin(); at != rows.rend(); ++at) {
            const XTrie::Row& row = engine.rows()[*at];
            numbers[*at] = static_cast<uint32_t>(out.size());
            nb::object parent = row.parent == none ? nb::none() : nb::object(nb::int_(numbers[row.parent]));
            size_t tests = row.tests == none ? 0 : engine.tests(row.tests).size();
            out.append(nb::make_tuple(engine.filters()[row.filter].slot, string_of(engine, row.state), parent,
                                      row.distance, row.open, row.rank, row.children, row.order, tests));
        }
    return out;
}

nb::list states_of(const XTrie& engine) {
    nb::list out;
    const SubstringTrie& trie = engine.trie();
    for (uint32_t state = 1; state < trie.capacity(); ++state)
        if (trie.alive(state))
            out.append(nb::make_tuple(string_of(engine, state), string_of(engine, trie.suffix(state))));
    return out;
}

using QueryTexts = std::vector<nb::bytes>;
using Prefixes = std::vector<std::pair<nb::bytes, nb::bytes>>;

// Fills an engine with the queries, each under its number.
void fill(XTrie& engine, const QueryTexts& texts, const Prefixes& namespaces, bool ordered) {
    Bindings bindings;
    for (const auto& [prefix, uri] : namespaces)
        bindings.emplace_back(std::string(prefix.c_str(), prefix.size()), std::string(uri.c_str(), uri.size()));
    Query query;
    for (uint32_t slot = 0; slot < texts.size(); ++slot) {
        std::string_view text(texts[slot].c_str(), texts[slot].size());
        try {
            check_bindings(bindings);
            parse_query(text, bindings, query);
            if (ordered) check_ordered(query);
            engine.add(slot, query, ordered);
        } catch (const Failure& failure) {
            raise(failure, text.substr(0, failure.position + failure.length + 512));   // as the excerpt may show
        }
    }
}

XTrie::Variant variant(bool single_path) { return single_path ? XTrie::Variant::single_path : XTrie::Variant::tree; }

nb::tuple xtrie_tables(const QueryTexts& texts, const Prefixes& namespaces, bool ordered, bool single_path,
                 const std::vector<uint32_t>& removed) {
    XTrie engine(variant(single_path));
    fill(engine, texts, namespaces, ordered);
    for (uint32_t slot : removed) {
        if (slot >= texts.size()) throw nb::index_error("there is no query of the number to be removed");
        engine.remove(slot);
    }
    return nb::make_tuple(rows_of(engine), states_of(engine));
}

nb::tuple xtrie_work(const QueryTexts& texts, const nb::bytes& document, const Prefixes& namespaces, bool ordered,
               bool single_path) {
    XTrie engine(variant(single_path));
    fill(engine, texts, namespaces, ordered);
    XTrieRun run;
    std::vector<uint32_t> slots;
    Reader reader;
    run.run(engine, reader.read({document.c_str(), document.size()}), slots);
    std::sort(slots.begin(), slots.end());
    return nb::make_tuple(slots, run.work().remembered, run.work().told);
}

}  // namespace

void bind_xtrie(nb::module_& m) {
    m.def("xtrie_tables", &xtrie_tables, nb::arg("texts"), nb::arg("namespaces"), nb::arg("ordered"), nb::arg("single_path"),
          nb::arg("removed"),
          "The rows (query, substring, parent row, distance, open, rank, children, order, tests) and the states "
          "(string, max-suffix) of an XTrie after these queries were added and some of them, by number, removed.");
    m.def("xtrie_work", &xtrie_work, nb::arg("texts"), nb::arg("document"), nb::arg("namespaces"), nb::arg("ordered"),
          nb::arg("single_path"),
          "The queries that a document matches, by number, and what that takes: occurrences of substrings that are "
          "remembered, and rows found matched with all that hangs on them.");
}

}  // namespace treecast
