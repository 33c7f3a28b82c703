// The direct evaluator and its explanations for Python.
//
// Explanations become plain tuples. src/treecast/index/explain.py gives them classes and words.
#include "bindings/bindings_document.hpp"
#include "evaluate/evaluate.hpp"
#include "evaluate/explain.hpp"
#include "evaluate/terms.hpp"
#include "document/number.hpp"
#include "query/transformation.hpp"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <vector>

namespace treecast {

namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

// The query, or the matching part of a transformation, which is also stored in `matching` if wanted.
Query read_query(std::string_view text, const Pairs& namespaces, bool ordered, Matching* matching = nullptr) {
    Query query;
    try {
        check_bindings(namespaces);
        if (matching && !ordered && is_transformation(text)) {
            Transformation transformation;
            parse_transformation(text, namespaces, transformation);
            *matching = read_matching_part(transformation, namespaces, query);
        } else {
            parse_matching(text, namespaces, ordered, query);
        }
        if (ordered) check_ordered(query);
    } catch (const Failure& failure) {
        raise(failure, text);
    }
    return query;
}

// A document, read here unless it is read already.
class ReadDocument {
    Reader reader_;

public:
    ReadDocument(nb::handle given, const Limits& limits, const EntityTexts* entities = nullptr)
        : reader_(limits, entities ? entities->texts : nullptr),
          document(nb::isinstance<HeldDocument>(given) ? *nb::cast<const HeldDocument&>(given)
                                                       : reader_.read(view(nb::cast<nb::bytes>(given)))) {}

    const Document& document;
};

// The same with an evaluator that keeps to the limit of work.
class EvaluatedDocument : public ReadDocument {
public:
    EvaluatedDocument(nb::handle given, const Limits& limits, const EntityTexts* entities = nullptr) : ReadDocument(given, limits, entities) {
        evaluator.begin(document);
        evaluator.allow(work_max(document, limits.work_per_item_max));
    }

    Evaluator evaluator;
};

// (kind, path, line, column, start, end, value, namespace, tag line, tag column)
nb::tuple place_tuple(const Place& place, const std::string& value) {
    static const char* const kinds[] = {"document", "element", "attribute", "text", "comment", "instruction"};
    return nb::make_tuple(kinds[static_cast<int>(place.kind)], place.path, place.line, place.column, place.start, place.end,
                          nb::str(value.data(), value.size()), place.uri, place.tag_line, place.tag_column);
}

// The steps that deciding takes; fails if that is more than the limit allows.
uint64_t work(const nb::bytes& document, const nb::bytes& query, const Pairs& namespaces, bool ordered, const Limits& limits) {
    Query parsed = read_query(view(query), namespaces, ordered);
    EvaluatedDocument opened(document, limits);
    opened.evaluator.satisfies(parsed, ordered);
    return opened.evaluator.looked_at;
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
// again for every document, like queries that are kept only as text.
std::vector<std::vector<uint32_t>> satisfied_queries(const std::vector<nb::bytes>& documents, const std::vector<nb::bytes>& queries,
                                         const Pairs& namespaces, bool ordered, bool reparse) {
    std::vector<Query> parsed;
    std::vector<std::string_view> texts, sources;
    for (const nb::bytes& query : queries) {
        texts.push_back(view(query));
        parsed.push_back(read_query(texts.back(), namespaces, ordered));
    }
    for (const nb::bytes& document : documents) sources.push_back(view(document));
    std::vector<std::vector<uint32_t>> result(documents.size());
    Interruptible unlocked;
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

// The tuples that src/treecast/index/explain.py turns into its classes. The order of fields is the same there.
class ExplanationTuples {
public:
    // `origins` are those of a transformation's matching part, `text` is its text.
    ExplanationTuples(Explainer& explainer, const Document& document, const Query& written, const std::vector<Origin>& origins, std::string_view text)
        : explainer_(explainer), written_(written), origins_(origins), text_(text), places_(document) {}

    // (matched, why it is undecided, the branch, steps, miss, names of elements and of attributes if one is unknown)
    nb::tuple of(const Explanation& explanation) {
        nb::list steps;
        for (const StepReason& step : explanation.steps)
            steps.append(nb::make_tuple(step.step.size ? source(step.step) : nb::str("/*"), place(step.item), conditions(step.conditions)));
        nb::object stopped = miss(explanation.miss.get());
        nb::tuple names = is_unknown_ ? nb::make_tuple(this->names(false), this->names(true)) : nb::make_tuple(nb::tuple(), nb::tuple());
        return nb::make_tuple(truth(explanation.matched), str(explanation.undecided), source(explanation.branch), nb::tuple(steps), stopped, names);
    }

private:
    static nb::str str(std::string_view utf8) { return nb::str(utf8.data(), utf8.size()); }
    nb::str source(Slice slice) const { return str(written_.view(slice)); }
    static nb::object truth(Truth truth) { return truth == Truth::undecided ? nb::object(nb::none()) : nb::object(nb::bool_(truth == Truth::yes)); }

    nb::tuple names(bool attributes) const {
        nb::list made;
        for (std::string_view name : places_.names(attributes)) made.append(str(name));
        return nb::tuple(made);
    }

    // (kind, the step, how far it came, the condition, other, the namespace wanted, goes down, unknown name, of an attribute) or None
    nb::object miss(const Miss* miss) {
        static const char* const kinds[] = {"condition", "step", "namespace", "order"};
        if (!miss) return nb::none();
        is_unknown_ |= !miss->unknown.empty();
        return nb::make_tuple(kinds[static_cast<int>(miss->kind)], source(miss->step), place(miss->item),
                              miss->condition ? condition(*miss->condition) : nb::none(), place(miss->other), str(miss->uri),
                              miss->goes_down, str(miss->unknown), miss->is_attribute);
    }

    nb::tuple conditions(const std::vector<Reason>& reasons) {
        nb::list made;
        for (const Reason& reason : reasons) made.append(condition(reason));
        return nb::tuple(made);
    }

    // (text, holds, kind, operands, parts)
    nb::object condition(const Reason& reason) {
        static const char* const kinds[] = {"and", "or", "not", "position", "value"};
        nb::list operands;
        for (const Operand& one : reason.operands) operands.append(operand(one));
        return nb::make_tuple(written(reason.source), truth(reason.holds), kinds[static_cast<int>(reason.kind)], nb::tuple(operands),
                              conditions(reason.parts));
    }

    // (text, type, use, value, count, places, texts that are no numbers, miss)
    nb::tuple operand(const Operand& operand) {
        static const char* const types[] = {"items", "number", "string", "boolean", "undecided"};
        static const char* const uses[] = {"value", "exists", "any", "first", "all"};
        nb::list places, not_numbers;
        for (uint32_t item : operand.items) places.append(place(item));
        for (const std::string& text : operand.not_numbers) not_numbers.append(str(text));
        return nb::make_tuple(str(operand.text), types[static_cast<int>(operand.type)], uses[static_cast<int>(operand.use)], str(operand.value),
                              operand.count, nb::tuple(places), nb::tuple(not_numbers), miss(operand.miss.get()));
    }

    // A predicate as written; in a transformation, the condition that it came from.
    nb::object written(Slice predicate) const {
        for (const Origin& origin : origins_) {
            if (origin.matching.begin != predicate.begin || origin.matching.size != predicate.size) continue;
            std::string found(text_.substr(origin.written.begin, origin.written.size));
            return str(origin.negated ? "not(" + found + ")" : found);
        }
        return source(predicate);
    }

    nb::object place(uint32_t item) {
        if (item == none) return nb::none();
        return place_tuple(places_.find(explainer_.table(), item), explainer_.value(item));
    }

    Explainer& explainer_;
    const Query& written_;
    const std::vector<Origin>& origins_;
    const std::string_view text_;
    Places places_;
    bool is_unknown_ = false;
};

// A Document, or bytes that are read here.
nb::tuple explain(const nb::object& document, const nb::bytes& query, const Pairs& namespaces, bool ordered,
                  const Limits& limits, const EntityTexts* entities) {
    Matching matching{std::string(view(query)), namespaces, {}};
    Query parsed = read_query(view(query), namespaces, ordered, &matching), written;
    parse_as_written(matching.text, matching.bindings, written);
    ReadDocument opened(document, limits, entities);
    const uint64_t steps = work_max(opened.document, limits.work_per_item_max);
    Explainer explainer(opened.document, parsed, written, ordered, steps);
    const Explanation explanation = explainer.explain();
    return ExplanationTuples(explainer, opened.document, written, matching.origins, view(query)).of(explanation);
}

// Where everything is that a query selects, as far as `places_max`, with the strings of expressions there. Asked as a filter,
// (query)[string(expression)]…, so that items of all kinds are selected and the expressions stand in their context.
nb::list places(const nb::object& document, const nb::bytes& query, const std::vector<nb::bytes>& expressions, const Pairs& namespaces,
                size_t places_max, const Limits& limits, const EntityTexts* entities) {
    std::string text = "(";
    (text += view(query)) += ")[name()]";
    for (const nb::bytes& expression : expressions) ((text += "[string(") += view(expression)) += ")]";
    Query parsed = read_query(text, namespaces, false);
    if (parsed.selection() == no_term) raise(Failure(Family::query, "TC118", "a condition selects nothing"), view(query));
    const Term& filter = parsed.term(parsed.selection());
    EvaluatedDocument opened(document, limits, entities);
    Terms& terms = opened.evaluator.open_terms(parsed);
    Terms::Set items;
    terms.items(filter.first, {}, items);
    if (items.size() > places_max) items.resize(places_max);
    Places places(opened.document);
    nb::list found;
    for (uint32_t item : items) {
        std::string value;
        terms.append_string(item, value);
        nb::list values;
        uint32_t predicate = parsed.term(filter.predicates).next;
        for (; predicate != no_term; predicate = parsed.term(predicate).next) {
            std::string string;
            terms.string(predicate, {item, 1, 1}, string);
            values.append(nb::str(string.data(), string.size()));
        }
        found.append(nb::make_tuple(place_tuple(places.find(terms.table(), item), shortened(value)), nb::tuple(values)));
    }
    return found;
}

nb::str source_text(const nb::bytes& document, const Limits& limits, const EntityTexts* entities) {
    Reader reader(limits, entities ? entities->texts : nullptr);
    std::string_view source = reader.read(view(document)).source;
    if (source.starts_with("\xEF\xBB\xBF")) source.remove_prefix(3);
    return nb::str(source.data(), source.size());
}

}  // namespace

void bind_explain(nb::module_& m, nb::module_& testing) {
    testing.def("satisfies", &satisfies, nb::arg("document"), nb::arg("query"), nb::arg("namespaces") = Pairs(),
          nb::arg("ordered") = false, "Whether a document satisfies a query, evaluated directly.");
    testing.def("work", &work, nb::arg("document"), nb::arg("query"), nb::arg("namespaces"), nb::arg("ordered"), nb::arg("limits"),
          "The steps that deciding a query takes; raises DocumentLimitError (TC340) where they are too many.");
    m.def("select", &select, nb::arg("document"), nb::arg("query"), nb::arg("namespaces") = Pairs(),
          nb::arg("ordered") = false, "What a query selects: (0 element, 1 attribute, 2 text; its number), in document order.");
    m.def("explain", &explain, nb::arg("document"), nb::arg("query"), nb::arg("namespaces"), nb::arg("ordered"),
          nb::arg("limits"), nb::arg("entities").none() = nb::none(),
          nb::sig("def explain(document: bytes | Document, query: bytes, namespaces: Sequence[tuple[str, str]], ordered: bool, "
                  "limits: Limits, entities: Entities | None = None) -> tuple"),
          "Why a query matches: see treecast.explain.");
    m.def("places", &places, nb::arg("document"), nb::arg("query"), nb::arg("expressions"), nb::arg("namespaces"), nb::arg("places_max"),
          nb::arg("limits"), nb::arg("entities").none() = nb::none(),
          nb::sig("def places(document: bytes | Document, query: bytes, expressions: Sequence[bytes], namespaces: Sequence[tuple[str, str]], "
                  "places_max: int, limits: Limits, entities: Entities | None = None) -> list[tuple]"),
          "Where the items are that a query selects, and strings of expressions there: see treecast.index.explain.");
    m.def("source_text", &source_text, nb::arg("document"), nb::arg("limits"), nb::arg("entities").none() = nb::none(),
          "A document as text, without its byte order mark; lines and columns of explanations count in it.");
    testing.def("check_ordered", [](const Query& query) {
        try {
            check_ordered(query);
        } catch (const Failure& failure) {
            raise(failure, query.written());
        }
    }, nb::arg("query"), "Raises QueryError where a query is no ordered pattern.");
    m.def("to_number", [](const nb::bytes& text) { return to_number(view(text)); }, nb::arg("text"),
          "What XPath's number() makes of a text.");
    testing.def("satisfied_queries", &satisfied_queries, nb::arg("documents"), nb::arg("queries"), nb::arg("namespaces") = Pairs(),
          nb::arg("ordered") = false, nb::arg("reparse") = false,
          "For each document the numbers of the queries that it satisfies, evaluated one by one.");
}

}  // namespace treecast
