// Query -> tree patterns. pattern.hpp says what a pattern is, and what it means that it is not exact.
//
// `or` becomes several alternatives, `not` is pushed down to single requirements. Where that would need too many alternatives,
// or where bits cannot say it (some positions, the first of several items), the pattern says less than the query and is marked so.
// A pattern may only be wider than its query, never narrower: the evaluator rechecks, but it cannot find what was lost.
#include "machines/pattern.hpp"

#include "machines/pattern_parts.hpp"
#include "machines/pattern_upward.hpp"
#include "query/derivation.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

namespace treecast {

namespace {

constexpr size_t alternatives_max = 64;
constexpr size_t operands_max = 16;         // of `and`, that are compared with each other
constexpr double place_max = 1 << 24;       // of `b[2]`: what is beyond is left to the evaluator

// What one way of satisfying a predicate requires of the context element and of the document.
struct Way {
    std::vector<PathStep> tests;            // all must hold for its name
    std::vector<std::string> here, document;
    std::vector<std::string> branches;      // of an ordered pattern: those of `here` that go to elements, as they are written
    std::string program;                    // of a Derivation: what `derived` is about
    std::vector<std::string> derived;       // tests of the value that it makes of the element
    bool exact = true;
    void add(const Way& other) {
        branches.insert(branches.end(), other.branches.begin(), other.branches.end());
        tests.insert(tests.end(), other.tests.begin(), other.tests.end());
        here.insert(here.end(), other.here.begin(), other.here.end());
        document.insert(document.end(), other.document.begin(), other.document.end());
        exact &= other.exact;
        if (other.derived.empty()) return;
        if (derived.empty()) program = other.program;
        if (program == other.program) derived.insert(derived.end(), other.derived.begin(), other.derived.end());
        else exact = false;                 // an element has one label, and that has one value
    }
};
using Ways = std::vector<Way>;              // or; empty is false

struct Target {                             // the final condition of a path: none is plain existence
    std::optional<std::string> requirement;        // a whole requirement
    bool first = false;                     // of the first item that the path selects
    std::string_view program = {};          // of a Derivation: the requirement is about the value that it makes
    void add_to(Way& way) const {
        if (!requirement) return;
        if (program.empty()) return way.here.push_back(*requirement);
        Way made;
        made.program = program;
        made.derived.push_back(*requirement);
        way.add(made);
    }
};

struct Reached {                            // a step from its context: how, and what holds there
    enum class How : uint8_t { child, descend, self } how;
    Way way;
};

Ways always(bool exact) {
    Way way;
    way.exact = exact;
    return {way};
}

// What the tree machine knows about a function. The evaluator rechecks a function that it does not know.
std::optional<ValueTest> test_of(Function function) {
    switch (function) {
        case Function::contains: return ValueTest::contains;
        case Function::starts_with: return ValueTest::starts_with;
        default: return std::nullopt;
    }
}

class Converter {
public:
    Converter(const Query& query, bool ordered, LabelTable& labels) : query_(query), labels_(labels), is_ordered_(ordered) {}

    Patterns convert() {
        Patterns out;
        query_.each_path(query_.branches(), [&](uint32_t, const PathEntry& path) {
            std::optional<std::string> upward;
            if (!is_ordered_) upward = upward_requirement(query_, path, labels_);
            if (upward) {
                out.patterns.push_back(pattern_entry(label_root, {*upward}));
                return;
            }
            for (Way& way : of_path(path, {})) {
                out.exact &= way.exact;
                out.patterns.push_back(pattern_entry(label_root, way.document));
            }
        });
        std::sort(out.patterns.begin(), out.patterns.end());
        out.patterns.erase(std::unique(out.patterns.begin(), out.patterns.end()), out.patterns.end());
        return out;
    }

private:
    // The test that holds where all do; none if there is none.
    static std::optional<PathStep> meet_of(const std::vector<PathStep>& tests) {
        PathStep meet = tests[0];
        for (size_t i = 1; i < tests.size(); ++i) {
            const PathStep& t = tests[i];
            if (t.kind != meet.kind) return std::nullopt;
            bool uri = t.test == Test::name || t.test == Test::any_namespace, local = t.test == Test::name || t.test == Test::any_local;
            bool had_uri = meet.test == Test::name || meet.test == Test::any_namespace;
            bool had_local = meet.test == Test::name || meet.test == Test::any_local;
            if (t.place && meet.place && t.place != meet.place) return std::nullopt;
            meet.place = std::max(meet.place, t.place);
            if ((uri && had_uri && t.uri != meet.uri) || (local && had_local && t.local != meet.local)) return std::nullopt;
            if (uri) meet.uri = t.uri;
            if (local) meet.local = t.local;
            uri |= had_uri;
            local |= had_local;
            meet.test = uri ? (local ? Test::name : Test::any_namespace) : (local ? Test::any_local : Test::any);
        }
        return meet;
    }

    // A label stands for one value. So tests of a derived value are dropped beside those of the value itself, and where the
    // machines could not make it for each element in a time that grows with the document alone.
    bool can_derive(const PathStep& meet, const Way& way) const {
        auto is_value = [](const std::string& requirement) { return (requirement[0] & 3) == static_cast<char>(Reach::value); };
        if (std::ranges::any_of(way.here, is_value)) return false;
        PathStep step = meet;
        step.program = way.program;
        return (meet.kind != StepKind::element || Derivation(way.program).suits_elements()) && labels_.can_derive(step);
    }

    // The conjunction of two disjunctions: every pair of ways.
    static Ways both(const Ways& a, const Ways& b) {
        if (a.size() * b.size() > alternatives_max) {
            // Too many: keep the side that has fewer, which still holds wherever the whole does.
            Ways fewer = a.size() <= b.size() ? a : b;
            for (Way& way : fewer) way.exact = false;
            return fewer;
        }
        Ways out;
        for (const Way& x : a)
            for (const Way& y : b) {
                out.push_back(x);
                out.back().add(y);
            }
        return out;
    }

    // Of two ways, one that requires all that the other does and more says nothing: [a][a or b] is [a]. So there are fewer patterns.
    static void drop_implied(Ways& ways) {
        if (ways.size() < 2) return;
        for (Way& way : ways)
            for (std::vector<std::string>* set : {&way.here, &way.document}) {
                std::sort(set->begin(), set->end());
                set->erase(std::unique(set->begin(), set->end()), set->end());
            }
        auto implies = [](const Way& more, const Way& less) {
            return (less.exact || !more.exact) && more.tests.empty() && less.tests.empty() && less.derived.empty() &&
                   more.branches == less.branches &&
                   std::ranges::includes(more.here, less.here) && std::ranges::includes(more.document, less.document);
        };
        Ways kept;
        for (Way& way : ways) {
            if (std::ranges::any_of(kept, [&](const Way& other) { return implies(way, other); })) continue;
            std::erase_if(kept, [&](const Way& other) { return implies(other, way); });
            kept.push_back(std::move(way));
        }
        ways = std::move(kept);
    }

    // Too many alternatives: the condition is dropped, which can only widen the pattern.
    static void either(Ways& a, Ways&& b) {
        if (a.size() + b.size() > alternatives_max) {
            a = always(false);
            return;
        }
        std::move(b.begin(), b.end(), std::back_inserter(a));
    }

    // Holds where none of the ways does. Exact only if each way is a single requirement.
    static Ways none_of(const Ways& ways) {
        Way out;
        for (const Way& way : ways) {
            const size_t count = way.here.size() + way.document.size() + way.derived.size();
            bool single = way.exact && way.tests.empty() && way.branches.empty() && count == 1;
            if (way.exact && way.tests.empty() && count == 0) return {};
            if (!single) {
                out.exact = false;
                continue;
            }
            if (!way.derived.empty()) {
                Way denied = way;
                denied.derived[0][0] = static_cast<char>(denied.derived[0][0] ^ negated_bit);
                out.add(denied);
                continue;
            }
            bool here = way.here.size() == 1;
            std::string requirement = here ? way.here[0] : way.document[0];
            requirement[0] = static_cast<char>(requirement[0] ^ negated_bit);
            (here ? out.here : out.document).push_back(std::move(requirement));
        }
        return {out};
    }

    // De Morgan: under a negation `and` and `or` change places. `counting`: the step whose first predicate this is part of.
    Ways of_expr(const Expr& expr, bool negated, const Step* counting = nullptr) {
        if (expr.derived == no_entry) return of_plain(expr, negated, counting);
        const Derived& derived = query_.derived(expr.derived);
        if (expr.kind == ExprKind::term && derived.is_exact) {
            Ways ways = of_derived(derived);
            if (std::ranges::all_of(ways, &Way::exact)) return negated ? none_of(ways) : ways;
        }
        if (negated) return of_plain(expr, true, counting);
        return both(of_plain(expr, false, counting), of_derived(derived));
    }

    // A test of a value that functions make: of the first item of its path, or of some item.
    Ways of_derived(const Derived& derived) {
        const Value& value = query_.value(derived.value);
        const PathEntry& path = query_.path(derived.path);
        std::optional<std::string> requirement;
        if (derived.is_call) requirement = value_requirement(*test_of(derived.function), query_.view(value.text), false);
        else requirement = comparison(derived.holds_without ? opposite(derived) : derived.relation, value);
        if (!requirement) return always(false);
        if (derived.holds_without && (derived.is_call || !is_turned(derived)))
            (*requirement)[0] = static_cast<char>((*requirement)[0] ^ negated_bit);
        Ways ways = of_path(path, Target{requirement, derived.is_exact, derived.program});
        if (derived.holds_without) return none_of(ways);         // no first item for which it does not hold
        if (!derived.is_exact)
            for (Way& way : ways) way.exact = false;
        return ways;
    }

    // Of a value that is always a number, `<` does not hold exactly where `>=` does.
    static bool is_turned(const Derived& derived) { return opposite(derived) != derived.relation; }
    static Relation opposite(const Derived& derived) {
        const bool is_length = Derivation(derived.program).is_length();
        switch (derived.relation) {
            case Relation::lt: return is_length ? Relation::ge : Relation::lt;
            case Relation::le: return is_length ? Relation::gt : Relation::le;
            case Relation::gt: return is_length ? Relation::le : Relation::gt;
            case Relation::ge: return is_length ? Relation::lt : Relation::ge;
            default: return derived.relation;
        }
    }

    Ways of_plain(const Expr& expr, bool negated, const Step* counting) {
        switch (expr.kind) {
        case ExprKind::conjunction:
        case ExprKind::disjunction: {
            bool all = (expr.kind == ExprKind::conjunction) != negated;
            Ways out = all ? always(true) : Ways{};
            query_.each_expr(expr.first, [&](uint32_t, const Expr& operand) {
                Ways ways = of_expr(operand, negated, counting);
                if (all) out = both(out, ways);
                else either(out, std::move(ways));
            });
            return all && !negated ? both(out, consequences(expr)) : out;
        }
        case ExprKind::negation: return of_expr(query_.expr(expr.first), !negated, counting);
        case ExprKind::position:
        case ExprKind::position_last:
        case ExprKind::last: {
            if (!counting || is_relaxed_ || !can_be_counted(*counting)) return always(false);
            Ways ways = of_count(*counting, expr);
            return negated ? none_of(ways) : ways;
        }
        case ExprKind::term: {
            const Term& term = query_.term(expr.first);
            if (term.kind == TermKind::call && (term.function == TermFunction::true_ || term.function == TermFunction::false_))
                return (term.function == TermFunction::true_) != negated ? always(true) : Ways{};
            Way way;
            const Reading reading = plain_requirements(query_, expr.first, labels_, way.here);
            if (reading == Reading::exact) return negated ? none_of({way}) : Ways{way};
            // Wherever a term is true, what it requires holds. Where it is false, nothing is known.
            if (negated) return always(false);
            way.exact = false;
            if (reading == Reading::nothing) way.here.clear();
            if (expr.value == no_entry) return {way};
            const bool was_relaxed = std::exchange(is_relaxed_, true);
            Ways ways = of_expr(query_.expr(expr.value), false);
            is_relaxed_ = was_relaxed;
            for (Way& each : ways) each.exact = false;
            return way.here.empty() ? ways : both({way}, ways);
        }
        default: break;
        }
        Ways ways = of_condition(expr);
        return negated ? none_of(ways) : ways;
    }

    // What operands of `and` say together, besides what each says.
    Ways consequences(const Expr& conjunction) {
        Way way;
        size_t operands = 0;
        query_.each_expr(conjunction.first, [&](uint32_t, const Expr&) { ++operands; });
        if (operands > operands_max) return {way};
        query_.each_expr(conjunction.first, [&](uint32_t, const Expr& known) {
            query_.each_expr(conjunction.first, [&](uint32_t, const Expr& comparison) {
                std::optional<Consequence> consequence;
                if (!is_ordered_) consequence = equal_consequence(query_, known, comparison, labels_);
                if (consequence) (consequence->is_here ? way.here : way.document).push_back(consequence->requirement);
            });
        });
        return {way};
    }

    // The first predicate of a step counts the children of a parent that pass its test: all, or those of one full name.
    static bool can_be_counted(const Step& step) {
        return step.kind == StepKind::element && step.axis == Axis::child && (step.test == Test::name || step.test == Test::any);
    }

    // A position, or how many there are, as what a counter of the element says.
    Ways of_count(const Step& step, const Expr& expr) {
        const bool is_last = expr.kind == ExprKind::position_last;
        Relation relation = expr.relation;
        if (is_last) {                      // nothing stands behind the last: of places from the last on, that is 1
            if (relation == Relation::le) return always(true);
            if (relation == Relation::gt) return {};
            relation = relation == Relation::ge ? Relation::eq : relation == Relation::lt ? Relation::gt : relation;
        }
        Value one;
        one.is_number = true;
        one.number = 1;
        std::optional<std::string> requirement = comparison(relation, is_last ? one : query_.value(expr.value));
        if (!requirement) return {};
        Counter counter = is_last ? Counter::end_name : expr.kind == ExprKind::last ? Counter::count_name : Counter::place_name;
        const uint32_t label = label_counter + static_cast<uint32_t>(counter) + (step.test == Test::any);
        Way way;
        way.here.push_back(reach_requirement(Reach::child, label, {*requirement}));
        return {way};
    }

    // A union of paths: any of them will do.
    Ways of_condition(const Expr& expr) {
        Ways out;
        if (expr.kind == ExprKind::call) return of_call(expr);
        Target target;
        if (expr.kind == ExprKind::compare) {
            std::optional<std::string> requirement = comparison(expr.relation, query_.value(expr.value));
            if (!requirement) return {};
            target.requirement = std::move(requirement);
        }
        query_.each_path(expr.first, [&](uint32_t, const PathEntry& path) { either(out, of_path(path, target)); });
        return out;
    }

    // A function of the first item of a path. If it holds, the path leads somewhere, unless the literal is empty.
    Ways of_call(const Expr& expr) {
        const PathEntry& path = query_.path(expr.first);
        std::string_view text = query_.view(query_.value(expr.value).text);
        if (text.empty()) return always(!is_ordered_);        // a branch has to lead somewhere
        std::optional<ValueTest> test = test_of(expr.function);
        const bool first = test && has_first(path);
        if (test && !first && !is_ordered_ && !is_relaxed_ && is_first_path(path)) {
            Way way;
            way.here.push_back(reach_requirement(Reach::child, first_label(path), {value_requirement(*test, text, false)}));
            return {way};
        }
        Ways out = of_path(path, test ? Target{value_requirement(*test, text, false), first} : Target{});
        if (!first)
            for (Way& way : out) way.exact = false;      // it is the first item that counts, and perhaps more than the path
        return out;
    }

    std::optional<std::string> comparison(Relation relation, const Value& value) const { return comparison_requirement(query_, relation, value); }

    // Whether labels can say which item of the path is the first. Each step has to lead to one item at most: `.`, a named
    // attribute, `b[2]`. The last one may be a plain `b` as well, of which the one in place 1 is meant.
    bool has_first(const PathEntry& path) const {
        bool one = !path.absolute;
        query_.each_step(path.first, [&](uint32_t, const Step& step) {
            bool attribute = step.kind == StepKind::attribute && step.test == Test::name;
            bool plain = step.next == no_entry && step.predicates == no_entry && can_have_place(step);
            one = one && !step.gap && (attribute || plain || place_of(step));
        });
        return one;
    }

    // Whether a label can stand for the first item of the path (label.hpp): no predicates, and `//` before the last step alone,
    // because of elements inside each other the outer one may lead to a later item.
    bool is_first_path(const PathEntry& path) const {
        bool fits = !path.absolute && path.variable == no_entry && path.first != no_entry;
        query_.each_step(path.first, [&](uint32_t, const Step& step) {
            const bool is_last = step.next == no_entry, is_below = step.gap || step.axis == Axis::descendant;
            const bool is_element = step.kind == StepKind::element && (step.axis == Axis::child || step.axis == Axis::descendant);
            const bool is_end = is_last && !step.gap && (step.kind == StepKind::text || step.test == Test::name) &&
                                (step.axis == Axis::child || step.axis == Axis::attribute);
            fits = fits && step.predicates == no_entry && (is_element ? is_last || !is_below : is_end);
        });
        return fits;
    }

    uint32_t first_label(const PathEntry& path) {
        std::vector<PathStep> steps;
        query_.each_step(path.first, [&](uint32_t, const Step& step) {
            steps.push_back(query_.path_step(step, step.gap || step.axis == Axis::descendant));
        });
        return labels_.intern_first(steps);
    }

    // Places are those among the children of one parent that have the same full name.
    static bool can_have_place(const Step& step) {
        return step.kind == StepKind::element && step.axis == Axis::child && step.test == Test::name;
    }

    // The place that the first predicate of a step asks for: `b[2]`. 0: it asks for none, or for one that labels cannot say.
    uint32_t place_of(const Step& step) const {
        if (!can_have_place(step) || step.predicates == no_entry) return 0;
        const Expr& first = query_.expr(step.predicates);
        if (first.kind != ExprKind::position || first.relation != Relation::eq) return 0;
        double number = query_.value(first.value).number;
        return number >= 1 && number <= place_max && number == std::floor(number) ? static_cast<uint32_t>(number) : 0;
    }

    // The ways in which a path leads to something that meets the target.
    Ways of_path(const PathEntry& path, const Target& target) {
        if (path.first == no_entry) {
            Way way;
            target.add_to(way);
            return {way};
        }
        Ways out;
        for (Reached& reached : of_step(path.first, target)) {
            Way context;
            attach(context, reached, out);
        }
        if (path.absolute) {
            std::erase_if(out, [](const Way& way) { return !way.tests.empty(); });   // the document has no name
            for (Way& way : out) {
                std::move(way.here.begin(), way.here.end(), std::back_inserter(way.document));
                way.here.clear();
            }
        }
        return out;
    }

    // Adds to `out` the ways in which `context` has what was reached.
    void attach(const Way& context, const Reached& reached, Ways& out) {
        Way way = context;
        if (reached.how == Reached::How::self) {
            way.add(reached.way);
        } else {
            std::optional<PathStep> meet = meet_of(reached.way.tests);
            if (!meet) return;
            Reach reach = reached.how == Reached::How::child ? Reach::child : Reach::descend;
            std::vector<std::string> requirements = reached.way.here;
            if (!reached.way.derived.empty()) {
                if (can_derive(*meet, reached.way)) {
                    meet->program = reached.way.program;
                    requirements.insert(requirements.end(), reached.way.derived.begin(), reached.way.derived.end());
                } else {
                    way.exact = false;
                }
            }
            std::string requirement = reach_requirement(reach, labels_.intern(*meet), std::move(requirements), reached.way.branches);
            if (is_ordered_ && meet->kind == StepKind::element) way.branches.push_back(requirement);
            way.here.push_back(std::move(requirement));
            way.document.insert(way.document.end(), reached.way.document.begin(), reached.way.document.end());
            way.exact &= reached.way.exact;
        }
        out.push_back(std::move(way));
    }

    // Where something is selected, there is a first one and a last one. So [1] and [last()] at the end of a path that only has to
    // exist say nothing: returns the first of such predicates.
    uint32_t end_of_predicates(const Step& step) const {
        uint32_t end = no_entry;
        query_.each_expr(step.predicates, [&](uint32_t index, const Expr& expr) {
            bool first = expr.kind == ExprKind::position && query_.value(expr.value).number == 1;
            bool either = expr.relation == Relation::eq && (first || expr.kind == ExprKind::position_last);
            end = !either ? no_entry : end == no_entry ? index : end;
        });
        return end;
    }

    // The rest of the path is converted first: what follows a step is a requirement of that step.
    std::vector<Reached> of_step(uint32_t index, const Target& target) {
        const Step& step = query_.step(index);
        Ways ways = always(true);
        const bool is_last = step.next == no_entry;
        const uint32_t end = is_last && !target.requirement ? end_of_predicates(step) : no_entry;
        uint32_t at = step.predicates;
        PathStep test = query_.path_step(step, false);
        if (is_last && target.first && at == no_entry && can_have_place(step)) test.place = 1;
        if (at != end && (test.place = place_of(step))) at = query_.expr(at).next;
        for (; at != end; at = query_.expr(at).next) {
            const bool is_first = at == step.predicates;
            ways = both(ways, of_expr(query_.expr(at), false, is_first ? &step : nullptr));
        }
        drop_implied(ways);
        for (Way& way : ways) way.tests.push_back(test);
        if (step.next == no_entry) {
            for (Way& way : ways) target.add_to(way);
        } else {
            std::vector<Reached> next = of_step(step.next, target);
            Ways out;
            for (const Way& way : ways)
                for (const Reached& reached : next) attach(way, reached, out);
            if (out.size() > alternatives_max) {
                // Too many: forget what follows, and keep only this step.
                for (Way& way : ways) way.exact = false;
            } else {
                ways = std::move(out);
            }
        }
        using How = Reached::How;
        std::vector<Reached> out;
        bool self = step.axis == Axis::self || step.axis == Axis::descendant_or_self;
        bool below = step.axis != Axis::self || step.gap;
        for (Way& way : ways) {
            if (self) out.push_back({How::self, way});
            if (below) {
                bool child = (step.axis == Axis::child || step.axis == Axis::attribute) && !step.gap;
                out.push_back({child ? How::child : How::descend, way});
            }
        }
        return out;
    }

    const Query& query_;
    LabelTable& labels_;
    const bool is_ordered_;
    bool is_relaxed_ = false;       // inside what a term requires: its steps may stand for more than was written, so nothing is counted
};

// The branches of an order are the same, but their requirements may have other numbers: as many as are less.
std::string renumber_order(const char*& at, const std::vector<std::string>& requirements) {
    std::string out(1, static_cast<char>(Reach::order));
    uint32_t count = take_varint(at);
    put_varint(out, count);
    for (; count > 0; --count) {
        const std::string& branch = requirements[take_varint(at)];
        put_varint(out, static_cast<uint32_t>(std::ranges::count_if(requirements, [&](const std::string& r) { return r < branch; })));
    }
    return out;
}

// Sorted again, because new labels change the order of the requirements.
void relabel_entry(const char*& at, const std::function<uint32_t(uint32_t)>& label, std::string& out) {
    put_varint(out, label(take_varint(at)));
    uint32_t count = take_varint(at);
    std::vector<std::string> requirements;
    std::string order;
    requirements.reserve(count);
    for (uint32_t i = 0; i < count; ++i) {
        uint8_t kind = static_cast<uint8_t>(*at++);
        if ((kind & 3) == static_cast<uint8_t>(Reach::order)) {
            order = renumber_order(at, requirements);
            continue;
        }
        std::string& requirement = requirements.emplace_back(1, static_cast<char>(kind));
        if ((kind & 3) == static_cast<uint8_t>(Reach::value)) {
            requirement.push_back(*at++);
            uint32_t size = take_varint(at);
            put_varint(requirement, size);
            requirement.append(at, size);
            at += size;
        } else {
            relabel_entry(at, label, requirement);
        }
    }
    std::sort(requirements.begin(), requirements.end());
    put_varint(out, count);
    for (const std::string& requirement : requirements) out += requirement;
    out += order;
}

}  // namespace

Patterns to_patterns(const Query& query, bool ordered, LabelTable& labels) {
    return Converter(query, ordered, labels).convert();
}

// The same pattern under the labels of another table.
std::string relabel(std::string_view pattern, const std::function<uint32_t(uint32_t)>& label) {
    std::string out;
    const char* at = pattern.data();
    relabel_entry(at, label, out);
    return out;
}

}  // namespace treecast
