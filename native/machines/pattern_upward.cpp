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

    bool read_predicate(uint32_t term, std::vector<std::string>& out) {
        while (query_.term(term).kind == TermKind::call && query_.term(term).function == TermFunction::boolean) term = query_.term(term).first;
        return read_predicate(query_.term(term), out);
    }

private:
    // (//b[…])[1] and //b[…]/parent::a[…]/c.
    std::optional<std::string> read_selection(const Term& term) {
        if (term.kind != TermKind::path || term.variable != no_term) return std::nullopt;
        if (term.first != no_term) {
            if (term.steps != no_term || !is_one(term.predicates)) return std::nullopt;
            return read_selection(query_.term(term.first));
        }
        if (!term.absolute || term.predicates != no_term || term.steps == no_term) return std::nullopt;
        const TermStep& below = query_.term_step(term.steps);
        PathStep test;
        std::vector<std::string> requirements;
        if (below.axis != TermAxis::descendant || !read_test(below, test) || !read_predicates(below, requirements)) return std::nullopt;
        if (below.next == no_term) return reach_requirement(Reach::descend, labels_.intern(test), std::move(requirements));
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
        const bool is_same = requirements.empty() && test.test == Test::name && above.test == Test::name && above.uri == test.uri && above.local == test.local;
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

    // The steps after the turn: at most one, to an attribute or a child.
    bool read_rest(uint32_t index, const std::optional<std::string>& goal, std::vector<std::string>& here) {
        if (index == no_term) {
            if (goal) here.push_back(*goal);
            return true;
        }
        const TermStep& step = query_.term_step(index);
        std::vector<std::string> inside;
        PathStep test;
        const bool down = step.axis == TermAxis::child || step.axis == TermAxis::attribute;
        if (!down || step.next != no_term || !read_test(step, test) || !read_predicates(step, inside)) return false;
        if (goal) inside.push_back(*goal);
        here.push_back(reach_requirement(Reach::child, labels_.intern(test), std::move(inside)));
        return true;
    }

    bool read_predicates(const TermStep& step, std::vector<std::string>& out) {
        if (step.positional) return false;
        for (uint32_t at = step.predicates; at != no_term; at = query_.term(at).next)
            if (!read_predicate(query_.term(at), out)) return false;
        return true;
    }

    // A relative path of one step, perhaps compared with a constant.
    bool read_predicate(const Term& term, std::vector<std::string>& out) {
        const Term* path = &term;
        std::optional<std::string> goal;
        if (term.kind == TermKind::comparison && !read_comparison(term, path, goal)) return false;
        if (path->kind != TermKind::path || path->absolute || path->first != no_term || path->variable != no_term ||
            path->predicates != no_term || path->steps == no_term)
            return false;
        return read_rest(path->steps, goal, out);
    }

    bool read_test(const TermStep& step, PathStep& out) const {
        out = PathStep();
        out.kind = step.axis == TermAxis::attribute ? StepKind::attribute : StepKind::element;
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
            default: return false;
        }
        return true;
    }

    const Query& query_;
    LabelTable& labels_;
};

}  // namespace

std::optional<std::string> upward_requirement(const Query& query, const PathEntry& branch, LabelTable& labels) {
    if (!query.has_terms() || branch.first == no_entry) return std::nullopt;
    return UpwardReader(query, labels).read(branch);
}

bool plain_requirements(const Query& query, uint32_t term, LabelTable& labels, std::vector<std::string>& out) {
    return UpwardReader(query, labels).read_predicate(term, out);
}

}  // namespace treecast
