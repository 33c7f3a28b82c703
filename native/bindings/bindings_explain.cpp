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

// A document, read here unless it is read already, and an evaluator of it that keeps to the limit of work.
class EvaluatedDocument {
    Reader reader_;

public:
    EvaluatedDocument(nb::handle given, const Limits& limits, const EntityTexts* entities = nullptr)
        : reader_(limits, entities ? entities->texts : nullptr),
          document(nb::isinstance<HeldDocument>(given) ? *nb::cast<const HeldDocument&>(given)
                                                       : reader_.read(view(nb::cast<nb::bytes>(given)))) {
        evaluator.begin(document);
        evaluator.allow(work_max(document, limits.work_per_item_max));
    }

    const Document& document;
    Evaluator evaluator;
};

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
class Teller {
public:
    // `origins` are those of a transformation's matching part, `written` is its text.
    Teller(const Document& document, const Query& query, const std::vector<Origin>& origins, std::string_view written)
        : document_(document), query_(query), origins_(origins), written_(written), places_(document) {}

    static constexpr size_t value_bytes_max = 200;

    // (the branch, steps, miss)
    nb::tuple tell(const Explanation& explanation) const {
        nb::list steps;
        for (const StepReason& step : explanation.steps)
            steps.append(nb::make_tuple(written(query_.step(step.step)), place(step.item), conditions(step.conditions)));
        return nb::make_tuple(text(query_.view(query_.path(explanation.branch).source)), nb::tuple(steps), miss(explanation));
    }

private:
    static nb::object text(std::string_view utf8) { return nb::str(utf8.data(), utf8.size()); }

    // (kind, the step as written, other, the namespace wanted) or None
    nb::object miss(const Explanation& explanation) const {
        static const char* const kinds[] = {"", "condition", "step", "namespace", "order"};
        if (explanation.miss == Explanation::Miss::nothing) return nb::none();
        const char* kind = kinds[static_cast<int>(explanation.miss)];
        if (explanation.next == no_entry)
            return nb::make_tuple(kind, written(query_.step(explanation.steps.back().step)), nb::none(), "");
        const Step& step = query_.step(explanation.next);
        return nb::make_tuple(kind, written(step), place(explanation.other), text(query_.uri(step)));
    }

    nb::tuple conditions(const std::vector<Reason>& reasons) const {
        nb::list made;
        for (const Reason& reason : reasons) made.append(condition(reason));
        return nb::tuple(made);
    }

    // (text, holds, kind, places, parts, position, last, out of order, other, the namespace wanted)
    nb::tuple condition(const Reason& reason) const {
        static constexpr std::string_view kinds[] = {"and", "or", "not", "exists", "compare", "", "position", "position", "position", "term"};
        const Expr& expr = query_.expr(reason.expr);
        std::string_view kind = expr.kind == ExprKind::call ? traits_of(expr.function).name : kinds[static_cast<int>(expr.kind)];
        nb::list found;
        for (const Evaluator::Item& item : reason.items) found.append(place(item));
        std::string_view wanted = reason.wanting == no_entry ? std::string_view() : query_.uri(query_.step(reason.wanting));
        return nb::make_tuple(source(expr), reason.holds, text(kind),
                              nb::tuple(found), conditions(reason.parts), reason.position, reason.last,
                              reason.out_of_order, place(reason.other_namespace), text(wanted));
    }

    // A predicate as written; in a transformation, the condition that it came from.
    nb::object source(const Expr& expr) const {
        for (const Origin& origin : origins_) {
            if (origin.matching.begin != expr.source.begin || origin.matching.size != expr.source.size) continue;
            std::string_view found = written_.substr(origin.written.begin, origin.written.size);
            return origin.negated ? nb::object(nb::str(("not(" + std::string(found) + ")").c_str())) : text(found);
        }
        return text(query_.view(expr.source));
    }

    // (kind, path, line, column, start, end, value, namespace, tag line, tag column) or None
    nb::object place(Evaluator::Item item) const {
        static const char* const kinds[] = {"element", "attribute", "text"};
        if (item.index == none) return nb::none();
        Place found = places_.find(item, value(item));
        return nb::make_tuple(kinds[static_cast<int>(found.kind)], text(found.path), found.line, found.column, found.start,
                              found.end, text(found.value), text(found.uri), found.tag_line, found.tag_column);
    }

    // The string value, or its beginning: values may be as long as the document.
    std::string value(Evaluator::Item item) const {
        const Document& d = document_;
        std::string found;
        if (item.kind == StepKind::attribute) found = cut_text(d.value(d.attribute_value[item.index]), value_bytes_max + 1);
        if (item.kind == StepKind::text) found = cut_text(d.value(d.text[item.index]), value_bytes_max + 1);
        if (item.kind == StepKind::element)
            for (uint32_t at = d.text_begin[item.index]; at < d.text_end[item.index] && found.size() <= value_bytes_max; ++at)
                found += cut_text(d.value(d.text[at]), value_bytes_max + 4);
        if (found.size() <= value_bytes_max) return found;
        return std::string(cut_text(found, value_bytes_max)) + "…";
    }

    // The step with the slashes before it, and with the brackets that became part of its name test.
    nb::object written(const Step& step) const {
        std::string_view all = query_.written();
        size_t begin = step.source.begin, end = step.source.end();
        while (begin > 0 && (all[begin - 1] == '/' || all[begin - 1] == ' ')) --begin;
        while (all[begin] == ' ') ++begin;
        size_t bracket = all.find_first_not_of(" \t\r\n", end);
        bool merged = bracket != std::string_view::npos && all[bracket] == '[' &&
                      (step.predicates == no_entry || query_.expr(step.predicates).source.begin != bracket);
        if (merged) {
            size_t quote = all.find_first_of("\"'", bracket);
            size_t closed = quote == std::string_view::npos ? quote : all.find(all[quote], quote + 1);
            if (closed != std::string_view::npos) end = all.find(']', closed) + 1;
        }
        return text(all.substr(begin, end - begin));
    }

    const Document& document_;
    const Query& query_;
    const std::vector<Origin>& origins_;
    const std::string_view written_;
    Places places_;
};

// A Document, or bytes that are read here.
nb::tuple explain(const nb::object& document, const nb::bytes& query, const Pairs& namespaces, bool ordered,
                  const Limits& limits, const EntityTexts* entities) {
    Matching matching;
    Query parsed = read_query(view(query), namespaces, ordered, &matching);
    EvaluatedDocument opened(document, limits, entities);
    Explanation explanation = Explainer(opened.evaluator).explain(parsed, ordered);
    return Teller(opened.document, parsed, matching.origins, view(query)).tell(explanation);
}

// Where everything is that a query selects, as far as `places_max`, with the strings of expressions there. Asked as a filter,
// (query)[string(expression)]…, so that items of all kinds are selected and the expressions stand in their context.
nb::list places(const nb::object& document, const nb::bytes& query, const std::vector<nb::bytes>& expressions, const Pairs& namespaces,
                size_t places_max, const Limits& limits, const EntityTexts* entities) {
    static const char* const kinds[] = {"document", "element", "attribute", "text", "comment", "instruction"};
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
        Place place = places.find(terms.table(), item);
        std::string value;
        terms.append_string(item, value);
        if (value.size() > Teller::value_bytes_max) value = std::string(cut_text(value, Teller::value_bytes_max)) + "…";
        nb::list values;
        uint32_t predicate = parsed.term(filter.predicates).next;
        for (; predicate != no_term; predicate = parsed.term(predicate).next) {
            std::string string;
            terms.string(predicate, {item, 1, 1}, string);
            values.append(nb::str(string.data(), string.size()));
        }
        found.append(nb::make_tuple(
            nb::make_tuple(kinds[static_cast<int>(terms.table().kind(item))], place.path, place.line, place.column, place.start, place.end,
                           nb::str(value.data(), value.size()), place.uri, place.tag_line, place.tag_column),
            nb::tuple(values)));
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
