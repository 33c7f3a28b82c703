// Reads branches that go up or sideways once. pattern_upward.hpp lists the forms.
#include "machines/pattern_upward.hpp"

#include "machines/pattern_parts.hpp"
#include "query/relation.hpp"

#include <utility>
#include <vector>

namespace treecast {

namespace {

class UpwardReader {
public:
    UpwardReader(const Query& query, LabelTable& labels) : query_(query), labels_(labels) {}

    std::optional<std::string> read(const PathEntry& branch) {
        if (query_.is_condition()) {
            if (query_.selection() == no_term) return std::nullopt;
            return read_selection(query_.term(query_.selection()));
        }
        // //b[…], with one predicate.
        const Step& step = query_.step(branch.first);
        const bool anywhere = (step.axis == Axis::child && step.gap) || step.axis == Axis::descendant;
        if (!branch.absolute || step.next != no_entry || !anywhere || step.positional || step.kind != StepKind::element) return std::nullopt;
        if (step.predicates == no_entry || query_.expr(step.predicates).next != no_entry) return std::nullopt;
        const Expr& predicate = query_.expr(step.predicates);
        if (predicate.kind != ExprKind::term) return std::nullopt;
        return read_condition(query_.path_step(step, false), query_.term(predicate.first));
    }

    bool is_exact() const { return is_exact_; }

    bool read_predicate(uint32_t term, std::vector<std::string>& out) {
        while (query_.term(term).kind == TermKind::call && query_.term(term).function == TermFunction::boolean) term = query_.term(term).first;
        return read_predicate(query_.term(term), out);
    }

    // The path that is compared with the attribute, as far as it goes down.
    std::optional<Consequence> read_equal(const Step& attribute, const Term& comparison, const std::string& goal) {
        const Term *left = &query_.term(comparison.first), *right = &query_.term(left->next);
        if (right->next != no_term || static_cast<Relation>(right->relation) != Relation::eq) return std::nullopt;
        if (!is_plain_attribute(*left)) std::swap(left, right);
        if (!is_plain_attribute(*left) || right->kind != TermKind::path || right->first != no_term || right->variable != no_term ||
            right->predicates != no_term)
            return std::nullopt;
        const TermStep& own = query_.term_step(left->steps);
        if (attribute.test != Test::name || query_.view(own.local) != query_.view(attribute.local) || query_.uri(own) != query_.uri(attribute))
            return std::nullopt;
        auto goes_down = [](TermAxis axis) { return axis == TermAxis::child || axis == TermAxis::attribute || axis == TermAxis::descendant; };
        uint32_t at = right->steps, turn = no_term;                  // where it has gone up or sideways, it may be anywhere
        for (uint32_t step = at; step != no_term; step = query_.term_step(step).next)
            if (!goes_down(query_.term_step(step).axis)) turn = step;
        if (turn != no_term) at = query_.term_step(turn).next;
        std::vector<std::string> requirements;
        if (at == no_term || !read_rest(at, goal, requirements)) return std::nullopt;
        if (turn != no_term) requirements[0][0] = static_cast<char>(Reach::descend);
        return Consequence{requirements[0], turn == no_term && !right->absolute};
    }

private:
    // (//b[…])[1], //b[…]/parent::a[…]/c, and paths that only go down: //b[…]/node(), /comment().
    std::optional<std::string> read_selection(const Term& term) {
        if (term.kind != TermKind::path || term.variable != no_term) return std::nullopt;
        if (term.first != no_term) {
            if (term.steps != no_term || !is_one(term.predicates)) return std::nullopt;
            return read_selection(query_.term(term.first));
        }
        if (!term.absolute || term.predicates != no_term || term.steps == no_term) return std::nullopt;
        const TermStep& below = query_.term_step(term.steps);
        std::vector<std::string> requirements;
        if (below.test != TermTest::any_item && read_rest(term.steps, std::nullopt, requirements)) return requirements[0];
        PathStep test;
        requirements.clear();
        if (below.axis != TermAxis::descendant || !read_test(below, test) || !read_predicates(below, requirements)) return std::nullopt;
        if (below.next == no_term) return std::nullopt;
        return turn(test, std::move(requirements), below.next, std::nullopt);
    }

    // [1]
    bool is_one(uint32_t predicate) const {
        if (predicate == no_term || query_.term(predicate).next != no_term || query_.term(predicate).kind != TermKind::number) return false;
        return query_.value(query_.term(predicate).value).number == 1;
    }

    // A path that begins by going up, perhaps compared with a constant.
    std::optional<std::string> read_condition(const PathStep& test, const Term& term) {
        const Term* path = &term;
        std::optional<std::string> goal;
        if (term.kind == TermKind::comparison && !read_comparison(term, path, goal)) return std::nullopt;
        if (path->kind != TermKind::path || path->absolute || path->first != no_term || path->variable != no_term ||
            path->predicates != no_term || path->steps == no_term)
            return std::nullopt;
        return turn(test, {}, path->steps, goal);
    }

    bool read_comparison(const Term& comparison, const Term*& path, std::optional<std::string>& goal) {
        const Term *left = &query_.term(comparison.first), *right = &query_.term(left->next);
        if (right->next != no_term) return false;
        auto relation = static_cast<Relation>(right->relation);
        if (left->type != TermType::items) {
            std::swap(left, right);
            relation = mirrored(relation);
        }
        if (left->type != TermType::items || (right->kind != TermKind::literal && right->kind != TermKind::number)) return false;
        path = left;
        goal = comparison_requirement(query_, relation, query_.value(right->value));
        return goal.has_value();
    }

    // From an element with this test to the step `up` and on.
    std::optional<std::string> turn(const PathStep& test, std::vector<std::string> requirements, uint32_t up, const std::optional<std::string>& goal) {
        const TermStep& step = query_.term_step(up);
        PathStep above;
        std::vector<std::string> here;
        // A parent that is any item may be the document, which has no attributes.
        const bool is_any_item = step.test == TermTest::any_item && step.axis == TermAxis::parent && step.next != no_term &&
                                 query_.term_step(step.next).axis == TermAxis::attribute;
        if (!is_any_item && !read_test(step, above)) return std::nullopt;
        if (!read_predicates(step, here) || !read_rest(step.next, goal, here)) return std::nullopt;
        auto add_counter = [&](Counter counter) {
            const Value one{.is_number = true, .number = 1, .text = {}};
            here.push_back(reach_requirement(Reach::child, label_counter + static_cast<uint32_t>(counter),
                                             {*comparison_requirement(query_, Relation::gt, one)}));
        };
        const bool is_same = requirements.empty() && test.kind == StepKind::element && test.test == Test::name && above.test == Test::name && above.uri == test.uri && above.local == test.local;
        switch (step.axis) {
            case TermAxis::parent: here.push_back(reach_requirement(Reach::child, labels_.intern(test), std::move(requirements))); break;
            case TermAxis::ancestor: here.push_back(reach_requirement(Reach::descend, labels_.intern(test), std::move(requirements))); break;
            case TermAxis::preceding_sibling:
            case TermAxis::following_sibling:
                if (!is_same) return std::nullopt;
                add_counter(step.axis == TermAxis::preceding_sibling ? Counter::end_name : Counter::place_name);
                break;
            default: return std::nullopt;
        }
        return reach_requirement(Reach::descend, labels_.intern(above), std::move(here));
    }

    // Steps that go down, as one requirement of where they start. node() at their end: that there are children at all.
    bool read_rest(uint32_t index, const std::optional<std::string>& goal, std::vector<std::string>& here) {
        if (index == no_term) {
            if (goal) here.push_back(*goal);
            return true;
        }
        const TermStep& step = query_.term_step(index);
        std::vector<std::string> inside;
        PathStep test;
        const bool is_here = step.axis == TermAxis::self && step.test == TermTest::any_item && step.predicates == no_term;
        if (is_here) return read_rest(step.next, goal, here);
        const bool deep = step.axis == TermAxis::descendant;
        if (!deep && step.axis != TermAxis::child && step.axis != TermAxis::attribute) return false;
        if (step.test == TermTest::any_item) return read_content(step, goal, here);
        if (!read_test(step, test) || !read_predicates(step, inside)) return false;
        if (step.next != no_term && test.kind != StepKind::element) return false;
        if (!read_rest(step.next, goal, inside)) return false;
        here.push_back(reach_requirement(deep ? Reach::descend : Reach::child, labels_.intern(test), std::move(inside)));
        return true;
    }

    // Where there is something below, there is a child.
    bool read_content(const TermStep& step, const std::optional<std::string>& goal, std::vector<std::string>& here) {
        if (step.axis == TermAxis::attribute || step.next != no_term || step.predicates != no_term || goal) return false;
        const Value one{.is_number = true, .number = 1, .text = {}};
        here.push_back(reach_requirement(Reach::child, label_counter + static_cast<uint32_t>(Counter::content),
                                         {*comparison_requirement(query_, Relation::eq, one)}));
        return true;
    }

    bool read_predicates(const TermStep& step, std::vector<std::string>& out) {
        if (step.positional) return false;
        for (uint32_t at = step.predicates; at != no_term; at = query_.term(at).next)
            if (!read_predicate(at, out)) return false;
        return true;
    }

    // A relative path that goes down, or the context itself, perhaps compared with a constant.
    bool read_predicate(const Term& term, std::vector<std::string>& out) {
        if (term.kind == TermKind::conjunction) {
            for (uint32_t at = term.first; at != no_term; at = query_.term(at).next)
                if (!read_predicate(at, out)) return false;
            return true;
        }
        if (term.kind == TermKind::comparison && read_concat(term, out)) return true;
        const Term* path = &term;
        std::optional<std::string> goal;
        if (term.kind == TermKind::comparison && !read_comparison(term, path, goal)) return false;
        if (term.kind == TermKind::call && !read_call(term, path, goal)) return false;
        if (path->kind != TermKind::path || path->absolute || path->first != no_term || path->variable != no_term ||
            path->predicates != no_term || path->steps == no_term)
            return false;
        if (is_context(*path)) return read_rest(no_term, goal, out);
        if (term.kind == TermKind::call && !is_attribute(*path)) is_exact_ = false;         // it is about the first item
        return read_rest(path->steps, goal, out);
    }

    // concat(@x, "-", @y) = "a-b": that @x is "a" and @y is "b", where there is one way to divide the literal.
    bool read_concat(const Term& comparison, std::vector<std::string>& out) {
        const Term *concat = &query_.term(comparison.first), *literal = &query_.term(concat->next);
        if (literal->next != no_term || static_cast<Relation>(literal->relation) != Relation::eq) return false;
        if (concat->kind == TermKind::literal) std::swap(concat, literal);
        if (concat->kind != TermKind::call || concat->function != TermFunction::concat || literal->kind != TermKind::literal) return false;
        std::string_view rest = text_of(*literal);
        std::vector<std::string> attributes;
        uint32_t attribute = no_term;                // the one before, whose part is not known yet
        auto end_part = [&](std::string_view part) {
            std::optional<std::string> goal = value_requirement(ValueTest::equal_text, part, false);
            return !part.empty() && read_rest(query_.term(attribute).steps, goal, attributes);       // one that is not there is empty
        };
        for (uint32_t at = concat->first; at != no_term; at = query_.term(at).next) {
            const Term& part = query_.term(at);
            if (part.kind != TermKind::literal) {
                if (attribute != no_term || !is_plain_attribute(part)) return false;
                attribute = at;
                continue;
            }
            const std::string_view text = text_of(part);
            const size_t found = attribute == no_term ? 0 : rest.find(text);
            if (text.empty() || found == std::string_view::npos || rest.substr(found, text.size()) != text) return false;
            if (attribute != no_term && (rest.find(text, found + 1) != std::string_view::npos || !end_part(rest.substr(0, found)))) return false;
            attribute = no_term;
            rest.remove_prefix(found + text.size());
        }
        if (attribute != no_term ? !end_part(rest) : !rest.empty()) return false;
        out.insert(out.end(), attributes.begin(), attributes.end());
        return true;
    }

    std::string_view text_of(const Term& literal) const { return query_.view(query_.value(literal.value).text); }

    bool is_plain_attribute(const Term& path) const {
        return path.kind == TermKind::path && !path.absolute && path.first == no_term && path.variable == no_term &&
               path.predicates == no_term && path.steps != no_term && is_attribute(path) && query_.term_step(path.steps).predicates == no_term;
    }

    // contains() and starts-with() of a path and a literal.
    bool read_call(const Term& call, const Term*& path, std::optional<std::string>& goal) {
        if (call.function != TermFunction::contains && call.function != TermFunction::starts_with) return false;
        path = &query_.term(call.first);
        const Term& literal = query_.term(path->next);
        if (literal.kind != TermKind::literal || query_.value(literal.value).text.size == 0) return false;
        const ValueTest test = call.function == TermFunction::contains ? ValueTest::contains : ValueTest::starts_with;
        goal = value_requirement(test, query_.view(query_.value(literal.value).text), false);
        return true;
    }

    // `.`
    bool is_context(const Term& path) const {
        const TermStep& step = query_.term_step(path.steps);
        return step.axis == TermAxis::self && step.test == TermTest::any_item && step.next == no_term && step.predicates == no_term;
    }

    // @x, which leads to one item at most.
    bool is_attribute(const Term& path) const {
        const TermStep& step = query_.term_step(path.steps);
        return step.axis == TermAxis::attribute && step.test == TermTest::name && step.next == no_term;
    }

    bool read_test(const TermStep& step, PathStep& out) const {
        out = PathStep();
        out.kind = step.axis == TermAxis::attribute ? StepKind::attribute : StepKind::element;
        if (step.axis == TermAxis::attribute && step.test > TermTest::any_namespace) return false;
        switch (step.test) {
            case TermTest::any: out.test = Test::any; break;
            case TermTest::name:
                out.test = Test::name;
                out.uri = query_.uri(step);
                out.local = query_.view(step.local);
                break;
            case TermTest::any_namespace:
                out.test = Test::any_namespace;
                out.uri = query_.uri(step);
                break;
            case TermTest::text: out.kind = StepKind::text; break;
            case TermTest::comment: out.kind = StepKind::comment; break;
            case TermTest::instruction:
                out.kind = StepKind::instruction;
                out.test = step.has_target ? Test::name : Test::any;
                if (step.has_target) out.local = query_.view(step.local);
                break;
            default: return false;
        }
        return true;
    }

    bool is_exact_ = true;          // else what was read holds wherever the term does, and elsewhere too
    const Query& query_;
    LabelTable& labels_;
};

}  // namespace

std::optional<std::string> upward_requirement(const Query& query, const PathEntry& branch, LabelTable& labels) {
    if (!query.has_terms() || branch.first == no_entry) return std::nullopt;
    UpwardReader reader(query, labels);
    std::optional<std::string> requirement = reader.read(branch);
    return reader.is_exact() ? requirement : std::nullopt;
}

std::optional<Consequence> equal_consequence(const Query& query, const Expr& known, const Expr& comparison, LabelTable& labels) {
    if (known.kind != ExprKind::compare || known.relation != Relation::eq || query.value(known.value).is_number) return std::nullopt;
    if (comparison.kind != ExprKind::term || query.term(comparison.first).kind != TermKind::comparison) return std::nullopt;
    const PathEntry& path = query.path(known.first);
    if (path.next != no_entry || path.absolute || path.steps != 1 || path.variable != no_entry) return std::nullopt;
    const Step& attribute = query.step(path.first);
    if (attribute.kind != StepKind::attribute || attribute.gap || attribute.predicates != no_entry) return std::nullopt;
    UpwardReader reader(query, labels);
    const std::string goal = value_requirement(ValueTest::equal_text, query.view(query.value(known.value).text), false);
    return reader.read_equal(attribute, query.term(comparison.first), goal);
}

Reading plain_requirements(const Query& query, uint32_t term, LabelTable& labels, std::vector<std::string>& out) {
    UpwardReader reader(query, labels);
    if (!reader.read_predicate(term, out)) return Reading::nothing;
    return reader.is_exact() ? Reading::exact : Reading::wider;
}

}  // namespace treecast
