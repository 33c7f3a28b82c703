// Expressions of XPath 1.0 in a transformation, where neither paths nor its own functions do: in `where`, `return` and `order by`.
//
// What can be a path or a function of its own stays one, because paths are walked directly and shared. So a text is read in that way
// first, and as a term if that fails or an operator follows.
//
// A `let` is read again where its variable stands in a term, with the variables and namespaces that were in force there.
#include "document/characters.hpp"
#include "query/transformation_parser.hpp"

#include <utility>

namespace treecast {

TransformationParser::ShapeMark TransformationParser::mark_shapes() const {
    return {mark(), out_.shapes_.size(), out_.clauses_.size(), out_.declared_.size(), out_.variables_.size(), out_.texts_.size(),
            scope_variables_.size(), kinds_.size(), scope_.size(), depth_, condition_, default_bound_, default_uri_};
}

void TransformationParser::go_back(const ShapeMark& mark) {
    QueryParser::go_back(mark.query);
    out_.shapes_.resize(mark.shapes);
    weights_.resize(mark.shapes);
    out_.clauses_.resize(mark.clauses);
    out_.declared_.resize(mark.declared);
    out_.variables_.resize(mark.variables);
    out_.texts_.resize(mark.texts);
    scope_variables_.resize(mark.scope_variables);
    kinds_.resize(mark.kinds);
    scope_.resize(mark.scope);
    depth_ = mark.depth;
    condition_ = mark.condition;
    default_bound_ = mark.default_bound;
    default_uri_ = mark.default_uri;
}

// Whether what was read goes on as a term does.
bool TransformationParser::operator_follows() {
    const uint32_t before = scan_.at;
    scan_.skip_space();
    const char c = scan_.peek();
    const std::string_view word = scan_.view(scan_.peek_name());
    const bool closing = c == '<' && scan_.peek(1) == '/';
    const bool follows = (std::string_view("+-*=!<>[/").find(c) != std::string_view::npos && c && !closing) || word == "div" || word == "mod" ||
                         word == "and" || word == "or";
    scan_.at = before;
    return follows;
}

// Whether no term could stand there either: a limit, everything, what lies below an attribute, an end tag.
bool TransformationParser::is_final(const Failure& failure) const {
    const auto at = static_cast<uint32_t>(failure.position);
    const bool end_tag = at + 2 <= scan_.size() && scan_.view(at, at + 2) == "</";
    return failure.limit || failure.code == "TC107" || failure.code == "TC108" || end_tag;
}

// What is a part of terms that can be walked directly: paths, literals, count() and name() of paths. What it cannot say is decided by
// the term, which says what is wrong; but not of a variable.
template <class Plain>
uint32_t TransformationParser::read_part_or_term(Plain plain) {
    const ShapeMark before = mark_shapes();
    Failure first(Family::query, "", "");
    try {
        uint32_t made = plain();
        if (!operator_follows()) return made;
    } catch (const Failure& failure) {
        if (is_final(failure)) throw;
        first = failure;
    }
    go_back(before);
    try {
        return read_term_shape();
    } catch (const Failure&) {
        if (first.code != "TC113") throw;
    }
    throw first;
}

// A list or a call, in which something may be built, which no term can say. If it is neither that nor a term, the reading that came
// further says why.
template <class Plain>
uint32_t TransformationParser::read_shape_or_term(Plain plain) {
    const ShapeMark before = mark_shapes();
    Failure first(Family::query, "", "");
    bool built = false;                    // and an operator follows, which works on values only
    try {
        uint32_t shape = plain();
        if (!operator_follows()) return shape;
        built = !is_value(out_.shapes_[unparenthesised(shape)].kind);
    } catch (const Failure& failure) {
        if (is_final(failure)) throw;
        first = failure;
    }
    go_back(before);
    try {
        return read_term_shape();
    } catch (const Failure& failure) {
        const bool further = first.code.empty() || failure.position > first.position;
        if (failure.limit || (further && !built)) throw;
    }
    if (!built) throw first;
    go_back(before);
    return plain();                        // the caller refuses the operator
}

// string(), count(), concat() and name().
uint32_t TransformationParser::read_call_or_term(Slice name) {
    const std::string_view word = scan_.view(name);
    if (word == "count") return read_part_or_term([&] { return read_function(name, ShapeKind::count); });
    if (word == "name") return read_part_or_term([&] { return read_function(name, ShapeKind::name_of); });
    if (word == "string") return read_shape_or_term([&] { return read_function(name, ShapeKind::string_of); });
    if (word == "concat") return read_shape_or_term([&] { return read_function(name, ShapeKind::concat); });
    return read_term_shape();
}

uint32_t TransformationParser::read_value_or_term(char c, Slice name) {
    if (name.size) return read_word_expression(name);
    if (c == '(') return read_shape_or_term([&] { return read_parenthesis_expression(); });
    if (c == '$' || c == '/') return read_part_or_term([&] { return read_items(); });
    return read_part_or_term([&] { return read_literal(); });
}

uint32_t TransformationParser::read_term_shape() {
    scan_.skip_space();
    const uint32_t begin = scan_.at;
    Shape shape;
    shape.kind = ShapeKind::term;
    shape.term = read_bound_term();
    const Term& term = query_.term(shape.term);
    if (term.type == TermType::items && may_select_marks(query_, shape.term))
        refuse("TC116", "elements, attributes and texts can be delivered, and nothing else", since(begin),
               "end the path with a name, @name or text()");
    return add_shape(shape, since(begin));
}

uint32_t TransformationParser::read_bound_term() {
    uint32_t term = read_term();
    check_bound(term);
    return term;
}

// A variable at the start of a path, or alone.
bool TransformationParser::read_term_variable(Term& path) {
    if (!clauses_) return QueryParser::read_term_variable(path);
    const uint32_t begin = scan_.at;
    Slice name = read_variable_name();
    const Variable variable = find_variable(name);
    if (variable.holds == Holds::message) return true;
    if (variable.holds == Holds::item) {
        path.variable = variable.index;
        path.variables = 1ull << variable.index;
    } else {
        path.first = read_held_term(variable, since(begin));
        path.variables = query_.term(path.first).variables;
    }
    if (!bound_ && path.variables)
        refuse("TC113", "$" + shown(name) + " in brackets", since(begin), "there the item itself is '.': put the condition into 'where'");
    return false;
}

uint32_t TransformationParser::read_held_term(const Variable& variable, Slice where) {
    if (variable.holds == Holds::shape) check_value(variable.index, "part of an expression");
    Nesting nesting(*this, where.begin);
    const uint32_t at = scan_.at;
    std::vector<Variable> inner(scope_variables_.begin() + static_cast<std::ptrdiff_t>(variable.scope), scope_variables_.end());
    Bindings bindings(scope_.begin() + static_cast<std::ptrdiff_t>(variable.bindings), scope_.end());
    const bool in_predicate = std::exchange(in_term_predicate_, false), bound = std::exchange(bound_, true);
    const bool default_bound = std::exchange(default_bound_, variable.default_bound);
    const Slice default_uri = std::exchange(default_uri_, variable.default_uri);
    scope_variables_.resize(variable.scope);
    scope_.resize(variable.bindings);
    scan_.at = variable.source.begin;
    uint32_t term = read_bound_term();
    scope_variables_.insert(scope_variables_.end(), inner.begin(), inner.end());
    scope_.insert(scope_.end(), bindings.begin(), bindings.end());
    in_term_predicate_ = in_predicate;
    bound_ = bound;
    default_bound_ = default_bound;
    default_uri_ = default_uri;
    scan_.at = at;
    return term;
}

// A key to order by: a path, or a number or a text of any term.
void TransformationParser::read_key_or_term(Clause& clause) {
    const ShapeMark before = mark_shapes();
    const Clause untouched = clause;
    Failure first(Family::query, "", "");
    try {
        read_key(clause);
        if (!operator_follows()) return;
    } catch (const Failure& failure) {
        if (is_final(failure)) throw;
        first = failure;
    }
    go_back(before);
    clause = untouched;
    try {
        clause.term = read_bound_term();
        return;
    } catch (const Failure&) {
        if (first.code != "TC113") throw;
    }
    throw first;
}

}  // namespace treecast
