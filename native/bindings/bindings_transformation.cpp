// Transformations for Python: parse, print, the syntax tree as tuples, the matching part.
#include "bindings/bindings.hpp"
#include "bindings/bindings_tree.hpp"
#include "query/transformation.hpp"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <utility>
#include <vector>

namespace treecast {

namespace {

// The tuples that src/treecast/query/shapes.py turns into its classes; field orders are the same there.
class ShapeMaker {
public:
    explicit ShapeMaker(const Transformation& transformation) : all_(transformation), tree_(transformation.query()) {}

    nb::tuple shape(uint32_t index) const {
        const Shape& shape = all_.shape(index);
        switch (shape.kind) {
            case ShapeKind::sequence: return nb::make_tuple("sequence", shapes(shape.first));
            case ShapeKind::flwr: return nb::make_tuple("flwr", clauses(shape.clauses), this->shape(shape.first));
            case ShapeKind::element:
                return nb::make_tuple("element", name(shape.name), declarations(shape.declarations), shapes(shape.other), shapes(shape.first));
            case ShapeKind::attribute: return nb::make_tuple("attribute", name(shape.name), shapes(shape.first));
            case ShapeKind::text: return nb::make_tuple("text", text(shape.text));
            case ShapeKind::enclosed: return nb::make_tuple("enclosed", shapes(shape.first));
            case ShapeKind::value: return nb::make_tuple("value", text(shape.text));
            case ShapeKind::items: return nb::make_tuple("items", tree_.paths(shape.paths));
            case ShapeKind::term: return nb::make_tuple("term", tree_.term(shape.term));
            case ShapeKind::string_of: return nb::make_tuple("string", this->shape(shape.first));
            case ShapeKind::count: return nb::make_tuple("count", tree_.paths(shape.paths));
            case ShapeKind::concat: return nb::make_tuple("concat", shapes(shape.first));
            case ShapeKind::name_of: return nb::make_tuple("name", tree_.paths(shape.paths));
            case ShapeKind::choice:
                return nb::make_tuple("choice", tree_.one_expr(all_.query().expr(shape.condition)), this->shape(shape.first), this->shape(shape.other));
            case ShapeKind::comment: return nb::make_tuple("comment", text(shape.text));
            case ShapeKind::instruction: return nb::make_tuple("instruction", text(shape.text));
        }
        return nb::make_tuple();
    }

    nb::tuple changes() const {
        static const char* const words[] = {"drop", "keep", "rename", "unwrap"};
        nb::list made;
        for (const Change& change : all_.changes())
            made.append(nb::make_tuple(words[static_cast<int>(change.kind)], tree_.paths(change.paths),
                                       change.kind == ChangeKind::rename ? nb::object(name(change.name)) : nb::none()));
        return nb::make_tuple(all_.from() == no_entry ? nb::none() : nb::object(tree_.paths(all_.from())), nb::tuple(made));
    }

private:
    nb::tuple shapes(uint32_t first) const {
        nb::list made;
        all_.each_shape(first, [&](uint32_t index, const Shape&) { made.append(shape(index)); });
        return nb::tuple(made);
    }

    nb::tuple clauses(uint32_t first) const {
        nb::list made;
        all_.each_clause(first, [&](uint32_t, const Clause& clause) {
            switch (clause.kind) {
                case ClauseKind::each:
                    if (clause.variable == no_entry) made.append(nb::make_tuple("for", nb::none(), "", tree_.paths(clause.paths)));
                    else made.append(nb::make_tuple("for", clause.variable, text_object(all_.variable(clause.variable)), tree_.paths(clause.paths)));
                    break;
                case ClauseKind::where:
                    made.append(nb::make_tuple("where", tree_.one_expr(all_.query().expr(clause.condition))));
                    break;
                case ClauseKind::order:
                    made.append(nb::make_tuple("order", tree_.paths(clause.paths), clause.counts, clause.strings, clause.descending,
                                               clause.empty_greatest, clause.term == no_term ? nb::none() : tree_.term(clause.term)));
                    break;
            }
        });
        return nb::tuple(made);
    }

    nb::tuple declarations(uint32_t first) const {
        nb::list made;
        for (uint32_t at = first; at != no_entry; at = all_.declared(at).next)
            made.append(nb::make_tuple(text(all_.declared(at).prefix), text(all_.declared(at).uri)));
        return nb::tuple(made);
    }

    nb::tuple name(const Name& name) const { return nb::make_tuple(text(name.prefix), text(name.uri), text(name.local)); }
    nb::object text(Slice slice) const { return text_object(all_.view(slice)); }

    const Transformation& all_;
    TreeMaker tree_;
};

// A transformation with what its matching part needs.
struct Parsed {
    Transformation transformation;
    Matching matching;
};

std::unique_ptr<Parsed> parse(nb::bytes text, const std::vector<std::pair<nb::bytes, nb::bytes>>& namespaces) {
    std::string_view view(text.c_str(), text.size());
    Bindings bindings = to_bindings(namespaces);
    auto out = std::make_unique<Parsed>();
    try {
        check_bindings(bindings);
        parse_transformation(view, bindings, out->transformation);
        Query matching;                                           // its limits are part of the answer
        out->matching = read_matching_part(out->transformation, bindings, matching);
    } catch (const Failure& failure) {
        raise(failure, view.substr(0, failure.position + failure.length + 512));
    }
    return out;
}

}  // namespace

void bind_transformation(nb::module_& m) {
    nb::class_<Parsed>(m, "Transformation", "A parsed transformation; treecast.query.Transformation is the class for users.")
        .def("text", [](const Parsed& self) { return self.transformation.text(); }, "The canonical text.")
        .def("key", [](const Parsed& self) { return self.transformation.key(); },
             "The canonical text with expanded names: equal for equal transformations.")
        .def_prop_ro("is_list", [](const Parsed& self) { return self.transformation.is_list(); })
        .def("tree", [](const Parsed& self) {
            ShapeMaker maker(self.transformation);
            return self.transformation.is_list() ? maker.changes() : maker.shape(self.transformation.root());
        }, "The syntax tree: of a FLWR its shape, of a list where it starts and its steps.")
        .def("matching", [](const Parsed& self) {
            nb::dict bindings;
            for (const auto& [prefix, uri] : self.matching.bindings) bindings[text_object(prefix)] = text_object(uri);
            return nb::make_tuple(text_object(self.matching.text), bindings);
        }, "The matching part: a path query, and the namespaces it is written with.");
    m.def("is_transformation", [](nb::bytes text) { return is_transformation({text.c_str(), text.size()}); }, nb::arg("text"),
          "Whether a subscription's text is a transformation rather than a path.");
    m.def("parse_transformation", &parse, nb::arg("text"), nb::arg("namespaces"), "UTF-8 text and (prefix, URI) pairs to a Transformation.");
}

}  // namespace treecast
