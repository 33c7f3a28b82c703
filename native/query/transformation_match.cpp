// The matching part of a transformation: a path query that a document satisfies exactly where something is bound.
//
// The outermost `for`s bind; without any, the paths that are delivered do. The variables of one FLWR form a forest:
// each ranges over paths from another one, or from the document. The matching part has the same form:
//
//   for $a in $msg/x, $b in $a/y where $a/@k = 1 and $b/z   ->   /x[@k=1][y[z]]
//
// A second tree of the forest becomes a predicate with an absolute path.
// A condition on one variable becomes a predicate of that variable, as a whole; `and` is split.
// A condition that mixes variables is first put into disjunctive form. Each of its alternatives gives a path of the union.
// `not` is pushed down to single conditions, so that each of them is about one variable.
#include "base/failure.hpp"
#include "query/query_print.hpp"
#include "query/transformation.hpp"

#include <algorithm>
#include <bit>

namespace treecast {

namespace {

struct Literal {                  // a condition or its opposite
    uint32_t expr = no_entry;
    bool negated = false;
    uint32_t path = no_entry;     // only this one of its paths
};

using Alternative = std::vector<Literal>;

// Prints paths relative to variables, with prefixes that the matching part's bindings have.
class MatchPrinter : public QueryPrinter {
public:
    MatchPrinter(const Query& query, Bindings& bindings, std::string& out) : QueryPrinter(query, false, out), bindings_(bindings) {}
private:
    // Prefers the prefix as written, then any prefix for the same namespace, and finally makes a new one.
    void prefix(const Step& step) override {
        std::string_view uri = query_.uri(step), written = query_.view(step.prefix);
        if (uri.empty() && written.empty()) return;         // the default is not bound then: see matching_part
        if (written == "xml") {
            out_ += "xml:";
            return;
        }
        for (const auto& [bound, to] : bindings_)
            if (bound == written && to == uri) {
                if (!bound.empty()) (out_ += bound) += ':';
                return;
            }
        for (const auto& [bound, to] : bindings_)
            if (to == uri && !bound.empty()) {
                (out_ += bound) += ':';
                return;
            }
        std::string made;
        auto taken = [&] { return std::any_of(bindings_.begin(), bindings_.end(), [&](const auto& b) { return b.first == made; }); };
        for (size_t number = bindings_.size(); made.empty() || taken(); ++number) made = "n" + std::to_string(number);
        bindings_.emplace_back(made, std::string(uri));
        (out_ += made) += ':';
    }

    Bindings& bindings_;
};

// Writes the matching part as text, which is then parsed like any query. So it needs no rules of its own.
class MatchMaker {
public:
    MatchMaker(const Transformation& transformation, Matching& out)
        : all_(transformation), query_(transformation.query()), out_(out), printer_(query_, out.bindings, out.text) {}

    void make() {
        if (all_.is_list()) {
            if (all_.from() == no_entry) out_.text += "/*";
            else printer_.paths(all_.from());
            return;
        }
        // Without a `for`, what is delivered must exist.
        collect(all_.root(), true);
        if (!branches_) collect(all_.root(), false);
        if (!branches_) {
            Failure failure(Family::query, "TC115", "nothing is bound in this transformation, so it would never be delivered");
            failure.hint = "begin with for $n in $msg/…, or deliver a path";
            throw failure;
        }
    }

private:
    // Adds the paths of the shape's outermost FLWRs, or, if not `flwrs`, those of what it delivers.
    void collect(uint32_t index, bool flwrs) {
        if (index == no_entry) return;
        const Shape& shape = all_.shape(index);
        // Inside `then` the condition holds, inside `else` its opposite does.
        if (shape.kind == ShapeKind::choice) {
            given_.push_back({shape.condition, false, no_entry});
            collect(shape.first, flwrs);
            given_.back().negated = true;
            collect(shape.other, flwrs);
            given_.pop_back();
            return;
        }
        if (shape.kind == ShapeKind::flwr) {
            bool binds = false;
            size_t before = given_.size();
            all_.each_clause(shape.clauses, [&](uint32_t, const Clause& clause) {
                binds = binds || clause.kind == ClauseKind::each;
                if (clause.kind == ClauseKind::where) given_.push_back({clause.condition, false, no_entry});
            });
            if (!binds) collect(shape.first, flwrs);
            else if (flwrs) add(shape.clauses, no_entry);
            given_.resize(before);
            return;
        }
        if (!flwrs && shape.paths != no_entry) add(no_entry, shape.paths);
        for (uint32_t child : {shape.other, shape.first})
            all_.each_shape(child, [&](uint32_t at, const Shape&) { collect(at, flwrs); });
    }

    // Adds the paths of one FLWR, or of delivered `paths`, under the conditions given.
    // Each alternative of the conditions becomes a copy of the whole tree.
    void add(uint32_t clauses, uint32_t paths) {
        eaches_.clear();
        roots_.clear();
        all_.each_clause(clauses, [&](uint32_t index, const Clause& clause) {
            if (clause.kind != ClauseKind::each || clause.variable == no_entry) return;
            eaches_.push_back(index);
            if (query_.path(clause.paths).absolute) roots_.push_back(index);
        });
        std::vector<Alternative> alternatives(1);
        std::vector<Alternative> expanded;
        for (const Literal& literal : given_) {
            refusing_ = query_.expr(literal.expr).source;
            expand(literal, expanded);
            multiply(alternatives, expanded);
        }
        for (const Alternative& alternative : alternatives) {
            alternative_ = &alternative;
            // No tree starts at the document, so any root element will do.
            if (roots_.empty() && paths == no_entry) {
                separate();
                out_.text += "/*";
                loose();
                continue;
            }
            uint32_t variable = roots_.empty() ? no_entry : all_.clause(roots_[0]).variable;
            query_.each_path(roots_.empty() ? paths : all_.clause(roots_[0]).paths, [&](uint32_t, const PathEntry& path) {
                separate();
                if (path.first == no_entry) out_.text += "/*";       // the document
                else printer_.path(path);
                if (variable != no_entry) about(variable);
                for (size_t root = 1; root < roots_.size(); ++root) predicate_of(roots_[root]);
                loose();
            });
        }
    }

    void separate() {
        if (branches_++) out_.text += " | ";
        if (branches_ > query_limits.branches_max || out_.text.size() > query_limits.text_bytes_max) refuse_alternatives();
    }

    // Writes the conditions on a variable, then the variables that range over paths from it.
    void about(uint32_t variable) {
        for (const Literal& literal : *alternative_)
            if (variables_of(literal) == 1ull << variable) predicate(literal);
        for (uint32_t each : eaches_)
            if (query_.path(all_.clause(each).paths).variable == variable) predicate_of(each);
    }

    // Writes conditions on the document alone.
    void loose() {
        for (const Literal& literal : *alternative_)
            if (!variables_of(literal)) predicate(literal);
    }

    // The origin lets an explanation point to the clause that the user wrote.
    void predicate_of(uint32_t each) {
        const Clause& clause = all_.clause(each);
        auto begin = static_cast<uint32_t>(out_.text.size());
        out_.text += '[';
        query_.each_path(clause.paths, [&](uint32_t index, const PathEntry& path) {
            if (index != clause.paths) out_.text += " | ";
            printer_.path(path);
            about(clause.variable);
        });
        out_.text += ']';
        out_.origins.push_back({{begin, static_cast<uint32_t>(out_.text.size()) - begin}, clause.source, false});
    }

    void predicate(const Literal& literal) {
        auto begin = static_cast<uint32_t>(out_.text.size());
        out_.text += '[';
        print(literal);
        out_.text += ']';
        out_.origins.push_back({{begin, static_cast<uint32_t>(out_.text.size()) - begin}, query_.expr(literal.expr).source, literal.negated});
    }

    void print(const Literal& literal) {
        const Expr& expr = query_.expr(literal.expr);
        if (literal.negated) out_.text += "not(";
        if (literal.path == no_entry) printer_.condition(expr);
        else printer_.path(query_.path(literal.path));          // one of a union, in exists or compare
        if (literal.path != no_entry && expr.kind == ExprKind::compare) printer_.relation(expr);
        if (literal.negated) out_.text += ')';
    }

    // -- disjunctive form

    // Puts a condition into disjunctive form. One about at most one variable stays as it is.
    void expand(const Literal& literal, std::vector<Alternative>& out) {
        if (std::popcount(variables_of(literal)) <= 1 && !splits(literal)) {
            out.assign(1, {literal});
            return;
        }
        const Expr& expr = query_.expr(literal.expr);
        if (expr.kind == ExprKind::term) refuse_term(expr);
        if (expr.kind == ExprKind::negation) {
            expand({expr.first, !literal.negated, no_entry}, out);
            return;
        }
        std::vector<Literal> operands;
        if (expr.kind == ExprKind::conjunction || expr.kind == ExprKind::disjunction)
            query_.each_expr(expr.first, [&](uint32_t operand, const Expr&) { operands.push_back({operand, literal.negated, no_entry}); });
        else
            query_.each_path(expr.first, [&](uint32_t path, const PathEntry&) { operands.push_back({literal.expr, literal.negated, path}); });
        // De Morgan: under a negation `and` and `or` change places.
        bool all = (expr.kind == ExprKind::conjunction) != literal.negated;
        std::vector<Alternative> one;
        out.assign(all ? 1 : 0, {});
        for (const Literal& operand : operands) {
            expand(operand, one);
            if (all) multiply(out, one);
            else out.insert(out.end(), one.begin(), one.end());
        }
        if (out.size() > transformation_limits.alternatives_max) refuse_alternatives();
    }

    // A conjunction splits even if it is about one variable. Its parts become predicates that an explanation can name.
    bool splits(const Literal& literal) const {
        ExprKind kind = query_.expr(literal.expr).kind;
        return literal.path == no_entry && !literal.negated && kind == ExprKind::conjunction;
    }

    // The product of two disjunctions. Sizes multiply, so the limit is checked before anything is built.
    void multiply(std::vector<Alternative>& by, const std::vector<Alternative>& with) {
        std::vector<Alternative> product;
        if (by.size() * with.size() > transformation_limits.alternatives_max) refuse_alternatives();
        for (const Alternative& left : by)
            for (const Alternative& right : with) {
                product.push_back(left);
                product.back().insert(product.back().end(), right.begin(), right.end());
            }
        by = std::move(product);
    }

    // The variables of a condition, as bits.
    uint64_t variables_of(const Literal& literal) const {
        if (literal.path != no_entry) return variable_of(query_.path(literal.path));
        uint64_t found = 0;
        const Expr& expr = query_.expr(literal.expr);
        switch (expr.kind) {
            case ExprKind::conjunction:
            case ExprKind::disjunction:
            case ExprKind::negation:
                query_.each_expr(expr.first, [&](uint32_t operand, const Expr&) { found |= variables_of({operand, false, no_entry}); });
                break;
            case ExprKind::exists:
            case ExprKind::compare:
            case ExprKind::call:
                query_.each_path(expr.first, [&](uint32_t, const PathEntry& path) { found |= variable_of(path); });
                break;
            case ExprKind::term: found = query_.term(expr.first).variables; break;
            default: break;
        }
        return found;
    }
    static uint64_t variable_of(const PathEntry& path) { return path.variable == no_entry ? 0 : 1ull << path.variable; }

    // What is matched is a path with predicates, and these are about one item.
    [[noreturn]] static void refuse_term(const Expr& expr) {
        Failure failure(Family::query, "TC116", "this expression is about two variables", expr.source.begin);
        failure.length = expr.source.size;
        failure.hint = "write it about one of them: $n/a = $n/b/c for $n/a = $m/c";
        throw failure;
    }

    [[noreturn]] void refuse_alternatives() const {
        Failure failure(Family::query, "TC328", "the conditions stand for more than " +
                            std::to_string(transformation_limits.alternatives_max) + " alternatives, the limit (alternatives_max)");
        failure.limit = true;
        failure.position = refusing_.begin;
        failure.length = refusing_.size;
        failure.hint = "split it into several subscriptions; this limit is fixed";
        throw failure;
    }

    const Transformation& all_;
    const Query& query_;
    Matching& out_;
    MatchPrinter printer_;
    std::vector<Literal> given_;               // conditions of the shapes and clauses round the one looked at
    std::vector<uint32_t> eaches_, roots_;     // clauses
    const Alternative* alternative_ = nullptr;
    Slice refusing_;                           // the condition that has too many alternatives, if one has
    uint32_t branches_ = 0;
};

}  // namespace

Matching matching_part(const Transformation& transformation, const Bindings& bindings) {
    Matching matching;
    matching.bindings = bindings;
    // A name without namespace can be written only if no default is bound.
    const Query& query = transformation.query();
    bool bare = false;
    query.each_of_all_steps([&](const Step& step) {
        bare = bare || (step.kind == StepKind::element && step.test == Test::name && !step.prefix.size && !step.uri.size);
    });
    for (uint32_t at = 0; at < query.term_steps(); ++at) {
        const TermStep& step = query.term_step(at);
        bare = bare || (step.axis != TermAxis::attribute && step.test == TermTest::name && !step.prefix.size && !step.uri.size);
    }
    if (bare) std::erase_if(matching.bindings, [](const auto& binding) { return binding.first.empty(); });
    MatchMaker(transformation, matching).make();
    return matching;
}

// The text was made from parts that have been read, so only a limit can fail here. Its position means nothing to the user.
Matching read_matching_part(const Transformation& transformation, const Bindings& bindings, Query& out) {
    Matching matching = matching_part(transformation, bindings);
    try {
        parse_query(matching.text, matching.bindings, out);
    } catch (Failure& failure) {           // a limit: everything else has been read already
        failure.position = 0;
        failure.length = 0;
        failure.message += " (in the matching part of this transformation)";
        throw;
    }
    return matching;
}

void parse_matching(std::string_view text, const Bindings& bindings, bool ordered, Query& out) {
    if (!is_transformation(text)) {
        parse_query(text, bindings, out);
        return;
    }
    Transformation transformation;
    parse_transformation(text, bindings, transformation);
    if (ordered) {
        Failure failure(Family::query, "TC118", "a transformation has no order of branches");
        failure.hint = "leave ordered out";
        throw failure;
    }
    read_matching_part(transformation, bindings, out);
}

// Markup and plain text in one payload could not be told apart.
namespace {

enum : unsigned { delivers_elements = 1, delivers_values = 2, delivers_neither = 4 };

// What a term may select. Of an item's parents the document is left out, which is no element.
unsigned kinds_of(const Query& query, uint32_t index) {
    const Term& term = query.term(index);
    unsigned kinds = term.variable == no_term ? delivers_neither : delivers_elements;
    if (term.kind == TermKind::union_ || term.first != no_term) {
        kinds = 0;
        for (uint32_t at = term.first; at != no_term; at = term.kind == TermKind::union_ ? query.term(at).next : no_term) kinds |= kinds_of(query, at);
    }
    query.each_term_step(term.steps, [&](uint32_t, const TermStep& step) {
        const bool up = step.axis == TermAxis::parent || step.axis == TermAxis::ancestor;
        switch (step.test) {
            case TermTest::any_item:
                if (step.axis == TermAxis::self) break;
                kinds = step.axis == TermAxis::attribute ? delivers_values : up ? delivers_elements : delivers_elements | delivers_values | delivers_neither;
                break;
            case TermTest::text: kinds = delivers_values; break;
            case TermTest::comment:
            case TermTest::instruction: kinds = delivers_neither; break;
            default: kinds = step.axis == TermAxis::attribute ? delivers_values : delivers_elements;
        }
    });
    return kinds;
}

[[noreturn]] void refuse_delivery(const char* message, Slice where, const char* hint) {
    Failure failure(Family::query, "TC118", message, where.begin);
    failure.length = where.size;
    failure.hint = hint;
    throw failure;
}

}  // namespace

bool may_select_marks(const Query& query, uint32_t term) { return kinds_of(query, term) & delivers_neither; }

void check_delivered(const Query& query) {
    const char* both = "add a subscription for each, or a transformation, which escapes texts: for $i in $msg/a | $msg/a/text() return $i";
    const char* mixed = "elements are delivered as markup, attributes and texts as plain text: not both together";
    const Slice whole{0, static_cast<uint32_t>(query.written().size())};
    if (query.is_condition() && query.selection() == no_term)
        refuse_delivery("a condition selects nothing that could be delivered", whole, "deliver the document, or write a path");
    if (query.selection() != no_term) {
        unsigned kinds = kinds_of(query, query.selection());
        if (kinds & delivers_neither)
            refuse_delivery("elements, attributes and texts can be delivered, and nothing else", whole, "end the path with a name, @name or text()");
        if (kinds == (delivers_elements | delivers_values)) refuse_delivery(mixed, whole, both);
        return;
    }
    auto is_element = [&](const PathEntry& path) {
        StepKind kind = StepKind::element;
        query.each_step(path.first, [&](uint32_t, const Step& step) { kind = step.kind; });
        return kind == StepKind::element;
    };
    bool first = is_element(query.path(query.branches()));
    query.each_path(query.branches(), [&](uint32_t, const PathEntry& path) {
        if (is_element(path) != first) refuse_delivery(mixed, path.source, both);
    });
}

}  // namespace treecast
