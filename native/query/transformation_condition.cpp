// Values in conditions: counts, strings, and variables that hold one of them, a literal or a number.
//
// A count becomes a position, which every machine knows: count($n/a) > 2 holds where $n/a[position() > 2] selects something,
// and count($n/a) = 2 where $n/a[last() = 2] does. So only one step can be counted, or the comparison must be between none
// and some. The number stays as written; nothing is computed.
//
// The string of a path is that of its first item, $n/a[1], or empty. Where "empty" decides, the opposite is negated.
#include "query/transformation_parser.hpp"

namespace treecast {

namespace {

// What a comparison with a count depends on: whether there are any items, on nothing at all, or on the number.
enum class Decides : uint8_t { some, none, always, number };

// A count is a whole number of at least 0, so for example "at least 0.5" means "some".
Decides decides(Relation relation, double number) {
    switch (relation) {
        case Relation::eq: return number == 0 ? Decides::none : Decides::number;
        case Relation::ne: return number == 0 ? Decides::some : Decides::number;
        case Relation::gt: return number < 0 ? Decides::always : number < 1 ? Decides::some : Decides::number;
        case Relation::ge: return number <= 0 ? Decides::always : number <= 1 ? Decides::some : Decides::number;
        case Relation::lt: return number <= 0 ? Decides::always : number <= 1 ? Decides::none : Decides::number;
        case Relation::le: return number < 0 ? Decides::always : number < 1 ? Decides::none : Decides::number;
    }
    return Decides::number;
}

}  // namespace

// A variable that a `let` bound to a literal, a number or a count stands for it, in brackets too.
bool TransformationParser::read_held(Operand& held) {
    if (!clauses_) return false;
    uint32_t begin = scan_.at;
    Slice name = read_variable_name();
    const Variable& variable = find_variable(name);
    const Shape* shape = variable.holds == Holds::shape ? &out_.shapes_[variable.index] : nullptr;
    uint32_t end = scan_.at;
    if (shape && shape->kind == ShapeKind::value) {
        Slice written = shape->source;
        scan_.at = written.begin;
        bool literal = scan_.peek() == '"' || scan_.peek() == '\'';
        // XPath reads the literal again as written, so references and doubled quotes would change their meaning.
        if (literal && scan_.view({written.begin + 1, written.size - 2}) != out_.view(shape->text))
            refuse("TC113", "$" + shown(name) + " holds a literal with references or doubled quotes", {begin, end - begin},
                   "write the characters themselves");
        held = read_operand();
    } else if (shape && shape->kind == ShapeKind::count && bound_) {
        held = {Is::count, false, Relation::eq, copy_paths(shape->paths), {}};
    } else if (shape && shape->kind == ShapeKind::string_of && out_.shapes_[shape->first].kind == ShapeKind::items && bound_) {
        held = {Is::string, false, Relation::eq, copy_paths(out_.shapes_[shape->first].paths), {}};
    } else {
        scan_.at = begin;
        return false;
    }
    scan_.at = end;
    held.source = since(begin);
    return true;
}

// Reads count(…) or string(…). The name has been read; the parenthesis is next.
QueryParser::Operand TransformationParser::read_value(Slice name, Is is) {
    Nesting nesting(*this, scan_.at);
    ++scan_.at;
    uint32_t paths = read_paths();
    if (!closes(')')) no_pattern();
    return {is, false, Relation::eq, paths, since(name.begin)};
}

QueryParser::Operand TransformationParser::compare_count(const Operand& counted, Relation relation, const Operand& number,
                                                         Slice source) {
    if (number.is != Is::number) no_pattern();
    Decides by = decides(relation, query_.value(number.index).number);
    if (by == Decides::always) no_pattern();
    Expr found;                                   // exists
    found.first = counted.index;
    bool deny = by == Decides::none;
    if (by == Decides::number) {
        if (!count_by_position(counted.index)) no_pattern();
        // "Fewer than n" has no item to show for it, so it is the negation of "at least n".
        deny = relation == Relation::lt || relation == Relation::le || relation == Relation::ne;
        bool exactly = relation == Relation::eq || relation == Relation::ne;
        Relation position = relation == Relation::lt ? Relation::ge : relation == Relation::le ? Relation::gt : relation;
        found.first = positioned(counted.index, exactly ? ExprKind::last : ExprKind::position,
                                 exactly ? Relation::eq : position, number.index, source);
    }
    Operand some = make_condition(found, false, source);
    return deny ? negated(some, source) : some;
}

QueryParser::Operand TransformationParser::compare_string(const Operand& string, Relation relation, const Operand& value,
                                                          Slice source) {
    if (value.is != Is::literal && value.is != Is::number) no_pattern();
    uint32_t path = string.index;
    if (!one_at_most(path)) {
        if (!count_by_position(path)) no_pattern();
        Value first;
        first.is_number = true;
        first.number = 1;
        path = positioned(path, ExprKind::position, Relation::eq, append(query_.values_, first, source), source);
    }
    // Without any item the string is empty: it equals only "", and as a number it is NaN.
    // So where an empty string would satisfy the condition, the opposite is tested and negated.
    bool empty = value.is == Is::literal && !query_.value(value.index).text.size;
    bool equality = relation == Relation::eq || relation == Relation::ne;
    bool deny = equality && (relation == Relation::ne) != empty;
    Expr compared;
    compared.kind = ExprKind::compare;
    compared.first = path;
    compared.relation = equality ? (empty ? Relation::ne : Relation::eq) : relation;
    compared.value = value.index;
    Operand made = make_condition(compared, false, source);
    return deny ? negated(made, source) : made;
}

QueryParser::Operand TransformationParser::negated(const Operand& condition, Slice source) {
    Expr negation;
    negation.kind = ExprKind::negation;
    negation.first = condition.index;
    return make_condition(negation, false, source);
}

// Whether the path clearly selects at most one item: an attribute by its name, or the variable itself.
bool TransformationParser::one_at_most(uint32_t index) const {
    const PathEntry& path = query_.path(index);
    if (path.next != no_entry) return false;
    if (path.first == no_entry) return true;
    const Step& step = query_.step(path.first);
    return step.next == no_entry && step.kind == StepKind::attribute && !step.gap && step.test == Test::name;
}

// Whether a position on the last step counts everything that the path selects: the steps before it lead to one
// element at most.
bool TransformationParser::count_by_position(uint32_t index) const {
    const PathEntry& path = query_.path(index);
    if (path.next != no_entry || path.first == no_entry) return false;
    uint32_t at = path.first;
    bool root = path.absolute && query_.step(at).axis == Axis::child && !query_.step(at).gap;
    if (root && query_.step(at).next != no_entry) at = query_.step(at).next;
    const Step& step = query_.step(at);
    if (step.gap && (step.positional || step.axis != Axis::child)) return false;
    return step.next == no_entry && step.kind != StepKind::attribute;
}

// Adds a predicate that counts positions to the last step of the path.
uint32_t TransformationParser::positioned(uint32_t path, ExprKind kind, Relation relation, uint32_t value, Slice source) {
    uint32_t at = query_.path(path).first;
    while (query_.step(at).next != no_entry) at = query_.step(at).next;
    Expr counts;
    counts.kind = kind;
    counts.relation = relation;
    counts.value = value;
    uint32_t added = append(query_.exprs_, counts, source);
    query_.exprs_[added].source = source;
    Step& step = query_.steps_[at];
    if (step.gap) {                               // not of each parent by itself, but all together
        step.gap = false;
        step.axis = Axis::descendant;
    }
    step.positional = true;
    uint32_t last = step.predicates;
    if (last == no_entry) {
        step.predicates = added;
        return path;
    }
    while (query_.exprs_[last].next != no_entry) last = query_.exprs_[last].next;
    query_.exprs_[last].next = added;
    return path;
}

}  // namespace treecast
