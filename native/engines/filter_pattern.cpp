// Query -> FilterPattern: the conversion for the engines of the papers.
//
// It walks the syntax tree once. Whatever the papers' language lacks is refused with TC150 and its place in the text,
// so that an experiment never silently measures a different query.
#include "engines/filter_pattern.hpp"

#include "document/number.hpp"

namespace treecast {

namespace {

// Builds one pattern at a time in `pattern_`; path 0 is the main path, nested paths follow.
class FilterConverter {
public:
    FilterConverter(const Query& query, bool ordered, const FilterLanguage& language)
        : query_(query), ordered_(ordered), language_(language) {}

    std::vector<FilterPattern> convert() {
        query_.each_path(query_.branches(), [&](uint32_t, const PathEntry& path) { main_path(path); });
        return std::move(out_);
    }

private:
    [[noreturn]] void refuse(std::string_view what, Slice where) const { refuse_published(language_.engine, what, where); }

    // A union needs one pattern per branch. A final attribute or text() step turns into a condition of the element before it.
    void main_path(const PathEntry& path) {
        const Step& first = query_.step(path.first);
        bool never = first.kind != StepKind::element && !first.gap;       // the document has no attributes and no text
        pattern_.assign(1, {});
        const Step* value = steps(path, 0);
        if (value && !never) {
            if (value->gap && pattern_[0].steps.empty()) {
                add_any(0);
            } else if (value->gap) {
                FilterPattern deeper = pattern_;                          // of the element itself, or of one below it
                last(0).conditions.push_back(value_step(*value));
                out_.push_back(std::move(pattern_));
                pattern_ = std::move(deeper);
                add_any(0);
            }
            last(0).conditions.push_back(value_step(*value));
        } else if (value) {
            value_step(*value);                                           // refuses what it would refuse elsewhere
        }
        if (!never) out_.push_back(std::move(pattern_));
    }

    FilterStep& last(uint32_t path) { return pattern_[path].steps.back(); }

    // A step `//*`: the element below, at any depth, that has the attribute or text.
    void add_any(uint32_t path) {
        FilterStep any;
        any.step.descendant = true;
        pattern_[path].steps.push_back(std::move(any));
    }

    // Appends the element steps and returns the final attribute or text() step, if there is one.
    const Step* steps(const PathEntry& path, uint32_t to) {
        const Step* value = nullptr;
        query_.each_step(path.first, [&](uint32_t, const Step& step) {
            if (step.axis == Axis::self || step.axis == Axis::descendant_or_self)
                refuse("the axes self:: and descendant-or-self::", step.source);
            if (step.axis == Axis::descendant) refuse("positions on the axis descendant::", step.source);
            if (step.kind != StepKind::element) {
                value = &step;
                return;
            }
            FilterStep made;
            made.test = query_.path_step(step, false);
            made.step.descendant = step.gap;
            pattern_[to].steps.push_back(std::move(made));
            bool first = true;
            query_.each_expr(step.predicates, [&](uint32_t, const Expr& expr) {
                predicate(expr, to, first);
                first = false;
            });
        });
        return value;
    }

    // A predicate of the last step that the path `to` has so far.
    void predicate(const Expr& expr, uint32_t to, bool first) {
        switch (expr.kind) {
            case ExprKind::conjunction:
                query_.each_expr(expr.first, [&](uint32_t, const Expr& operand) { predicate(operand, to, first); });
                return;
            case ExprKind::disjunction: refuse("'or'", expr.source);
            case ExprKind::term: refuse("expressions of XPath other than paths and values", expr.source);
            case ExprKind::negation: refuse("not()", expr.source);
            case ExprKind::call: refuse(function_text(expr.function), expr.source);
            case ExprKind::position_last:
            case ExprKind::last: refuse("last()", expr.source);
            // Counting by siblings is only exact on the first predicate, and for elements that all share one test.
            case ExprKind::position:
                if (!first) refuse("a position that counts what another predicate has left", expr.source);
                if (last(to).test.test != Test::name && last(to).test.test != Test::any)
                    refuse("a position among elements of several names that are not all", expr.source);
                last(to).conditions.push_back(condition(ValueCondition::Target::position, last(to).test));
                last(to).conditions.back().comparisons.push_back(comparison(expr));
                return;
            case ExprKind::exists:
            case ExprKind::compare: break;
        }
        const PathEntry& path = query_.path(expr.first);
        if (path.next != no_entry) refuse("'|' in a predicate", expr.source);
        if (path.absolute) refuse("a path from the document in a predicate", path.source);
        nested(expr, path, to);
    }

    // A path in a predicate becomes a condition of the element itself, or a nested path.
    void nested(const Expr& expr, const PathEntry& path, uint32_t to) {
        using Target = ValueCondition::Target;
        bool compares = expr.kind == ExprKind::compare;
        if (path.first == no_entry) {
            if (!compares) return;           // [.] always holds
            last(to).conditions.push_back(condition(Target::element, {}));
            last(to).conditions.back().comparisons.push_back(comparison(expr));
            return;
        }
        uint32_t where = to;
        if (query_.step(path.first).kind == StepKind::element) {
            if (!language_.nested) refuse("nested paths", path.source);
            if (ordered_) refuse("ordered patterns with branches", path.source);
            where = static_cast<uint32_t>(pattern_.size());
            pattern_.push_back({to, static_cast<uint32_t>(pattern_[to].steps.size() - 1), {}});
        }
        const Step* value = steps(path, where);
        if (value && value->gap) refuse("attributes and text() below any element in a predicate", path.source);
        if (value)
            last(where).conditions.push_back(value_step(*value));
        else if (compares)
            last(where).conditions.push_back(condition(Target::element, {}));
        if (compares) last(where).conditions.back().comparisons.push_back(comparison(expr));
    }

    // An attribute or text() step, with predicates on its value.
    ValueCondition value_step(const Step& step) {
        using Target = ValueCondition::Target;
        bool attribute = step.kind == StepKind::attribute;
        ValueCondition made = condition(attribute ? Target::attribute : Target::text, query_.path_step(step, false));
        query_.each_expr(step.predicates, [&](uint32_t, const Expr& expr) { value_predicate(expr, made); });
        return made;
    }

    // Several comparisons of one item stay together: the same item must satisfy all of them.
    void value_predicate(const Expr& expr, ValueCondition& made) {
        if (expr.kind == ExprKind::conjunction) {
            query_.each_expr(expr.first, [&](uint32_t, const Expr& operand) { value_predicate(operand, made); });
            return;
        }
        bool plain = expr.kind == ExprKind::exists || expr.kind == ExprKind::compare;
        if (!plain || query_.path(expr.first).first != no_entry || query_.path(expr.first).next != no_entry ||
            query_.path(expr.first).absolute)
            refuse("a predicate of an attribute or text() that is no comparison of its value", expr.source);
        if (expr.kind == ExprKind::compare) made.comparisons.push_back(comparison(expr));
    }

    static ValueCondition condition(ValueCondition::Target target, PathStep test) {
        ValueCondition made;
        made.target = target;
        made.test = test;
        return made;
    }

    // The string is converted here, once, not for every element that it is compared with.
    Comparison comparison(const Expr& expr) const {
        const Value& value = query_.value(expr.value);
        Comparison made;
        made.relation = expr.relation;
        made.as_text = !value.is_number && (expr.relation == Relation::eq || expr.relation == Relation::ne);
        if (made.as_text)
            made.text = query_.view(value.text);
        else
            made.number = value.is_number ? value.number : to_number(query_.view(value.text));
        return made;
    }

    const Query& query_;
    const bool ordered_;
    const FilterLanguage& language_;
    FilterPattern pattern_;
    std::vector<FilterPattern> out_;
};

}  // namespace

std::vector<FilterPattern> to_filter_patterns(const Query& query, bool ordered, const FilterLanguage& language) {
    return FilterConverter(query, ordered, language).convert();
}

// Labels are interned only after the whole query was accepted, so a refused query leaves no trace in the table.
void intern_labels(std::vector<FilterPattern>& patterns, LabelTable& labels) {
    for (FilterPattern& pattern : patterns)
        for (FilterPath& path : pattern)
            for (FilterStep& step : path.steps) {
                step.step.label = labels.intern(step.test);
                step.test = {};
                for (ValueCondition& condition : step.conditions) {
                    condition.label = labels.intern(condition.test);
                    condition.test = {};
                }
            }
}

// Lengths come before variable parts, so that no two different paths have the same key.
std::string path_key(const FilterPath& path) {
    std::string key;
    auto put = [&](const auto& value) { key.append(reinterpret_cast<const char*>(&value), sizeof value); };
    for (const FilterStep& step : path.steps) {
        put(step.step.label);
        key.push_back(step.step.descendant ? 'd' : 'c');
        put(static_cast<uint32_t>(step.conditions.size()));
        for (const ValueCondition& condition : step.conditions) {
            put(condition.target);
            put(condition.label);
            put(static_cast<uint32_t>(condition.comparisons.size()));
            for (const Comparison& comparison : condition.comparisons) {
                put(comparison.relation);
                key.push_back(comparison.as_text ? 't' : 'n');
                put(comparison.number);
                put(static_cast<uint32_t>(comparison.text.size()));
                key += comparison.text;
            }
        }
    }
    return key;
}

}  // namespace treecast
