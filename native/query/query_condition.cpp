// Reads predicates.
//
// Expressions are read with XPath's precedence, and every operand says what it is. Only then is it decided whether the
// combination is a pattern: a path against a literal or number, a position against a number, and what `and`,
// `or` and `not()` make of those.
#include "document/characters.hpp"
#include "document/number.hpp"
#include "query/query_parser.hpp"
#include "query/relation.hpp"

namespace treecast {

// Reads one or more predicates of a step, starting at the first '['.
void QueryParser::read_predicates(uint32_t step) {
    // Predicates nest, so the surrounding context is saved here and restored at the end.
    StepKind context = context_;
    bool in_branch = in_branch_, bound = bound_;
    context_ = query_.steps_[step].kind;
    in_branch_ = bound_ = false;
    uint32_t last = query_.steps_[step].predicates, end = scan_.at;
    // x/[p] appends to predicates that were read before.
    while (last != no_entry && query_.exprs_[last].next != no_entry) last = query_.exprs_[last].next;
    do {
        uint32_t begin = scan_.at;
        Nesting nesting(*this, begin);
        ++scan_.at;
        scan_.skip_space();
        if (scan_.peek() == ']') no_pattern();
        Operand operand = read_disjunction();
        if (!closes(']')) no_pattern();
        end = scan_.at;
        if (!merge_name_test(step, operand)) {
            Operand predicate = as_predicate(operand);
            // XPath leaves the order of attributes open, so a position would select by chance. As a term it follows the document.
            if (predicate.positional && context_ == StepKind::attribute)
                refuse("TC106", "attributes have no order, so they have no positions", since(begin),
                       "test the attribute by name, or its value with '.'");
            query_.exprs_[predicate.index].source = since(begin);
            if (last == no_entry) query_.steps_[step].predicates = predicate.index;
            else query_.exprs_[last].next = predicate.index;
            last = predicate.index;
            if (predicate.positional) query_.steps_[step].positional = true;
        }
        scan_.skip_space();
    } while (scan_.peek() == '[');
    scan_.at = end;
    context_ = context;
    in_branch_ = in_branch;
    bound_ = bound;
}

QueryParser::Operand QueryParser::read_disjunction() {
    return read_joined(ExprKind::disjunction, "or", [this] { return read_conjunction(); });
}

QueryParser::Operand QueryParser::read_conjunction() {
    return read_joined(ExprKind::conjunction, "and", [this] { return read_comparison(); });
}

// Operands joined by one word. Operands of the same kind inside parentheses join the same list.
// So (a and b) and c has the same key as a and b and c.
template <class Read>
QueryParser::Operand QueryParser::read_joined(ExprKind kind, std::string_view word, Read read) {
    Operand first = read();
    if (!read_word(word)) return first;
    Expr joined;
    joined.kind = kind;
    bool positional = false;
    uint32_t last = no_entry;
    auto take = [&](const Operand& operand) {
        Operand condition = as_condition(operand);
        positional = positional || condition.positional;
        uint32_t head = condition.index;
        if (query_.exprs_[head].kind == kind) head = query_.exprs_[head].first;
        if (last == no_entry) joined.first = head;
        else query_.exprs_[last].next = head;
        for (last = head; query_.exprs_[last].next != no_entry;) last = query_.exprs_[last].next;
    };
    take(first);
    do take(read());
    while (read_word(word));
    return make_condition(joined, positional, since(first.source.begin));
}

// Consumes an operator that is spelled like a name, if it comes next.
bool QueryParser::read_word(std::string_view word) {
    uint32_t before = scan_.at;
    scan_.skip_space();
    if (scan_.view(scan_.name()) == word) return true;
    scan_.at = before;
    return false;
}

// Patterns compare a path with a constant. What else XPath allows, a = b = c among it, is read as a term.
QueryParser::Operand QueryParser::read_plain_comparison() {
    Operand left = read_union();
    if (arithmetic_follows()) no_pattern();
    Relation relation, again;
    if (!read_relation(relation)) return left;
    Operand right = read_union();
    if (arithmetic_follows()) no_pattern();
    Operand made = compare(left, relation, right);
    if (read_relation(again)) no_pattern();
    return made;
}

// Also recognizes operators of other languages, in order to suggest the right one.
bool QueryParser::read_relation(Relation& relation) {
    uint32_t before = scan_.at;
    scan_.skip_space();
    uint32_t at = scan_.at;
    char c = scan_.peek(), next = scan_.peek(1);
    uint32_t size = c == '<' || c == '>' || c == '!' ? (next == '=' || (c == '<' && next == '>') ? 2 : 1) : 1;
    if ((c == '=' && next == '>') || (c == next && (c == '=' || c == '<' || c == '>'))) refuse_foreign_operator({at, 2});
    if (c == '=') {
        relation = Relation::eq;
    } else if (c == '!') {
        if (size == 1) refuse_foreign_operator({at, 1});
        relation = Relation::ne;
    } else if (c == '<') {
        relation = next == '>' ? Relation::ne : size == 2 ? Relation::le : Relation::lt;
    } else if (c == '>') {
        relation = size == 2 ? Relation::ge : Relation::gt;
    } else {
        scan_.at = before;
        return false;
    }
    scan_.at = at + size;
    return true;
}

// Arithmetic binds closer than comparison, so it can only follow an operand directly.
bool QueryParser::arithmetic_follows() {
    const uint32_t before = scan_.at;
    scan_.skip_space();
    const char c = scan_.peek();
    const std::string_view word = scan_.view(scan_.peek_name());
    scan_.at = before;
    return c == '+' || c == '-' || c == '*' || word == "div" || word == "mod";
}

// Branches of both sides are linked into one list; a side may be a union in parentheses itself.
QueryParser::Operand QueryParser::read_union() {
    Operand left = read_operand();
    uint32_t last = left.index, branches = 1;
    while (true) {
        uint32_t before = scan_.at;
        scan_.skip_space();
        if (scan_.peek() != '|' || scan_.peek(1) == '|') {
            scan_.at = before;
            return left;
        }
        ++scan_.at;
        Operand right = read_operand();
        if (left.is != Is::paths || right.is != Is::paths) no_pattern();
        auto to_end = [&] {
            for (; query_.paths_[last].next != no_entry; ++branches) last = query_.paths_[last].next;
        };
        to_end();
        query_.paths_[last].next = right.index;
        to_end();
        left.source = since(left.source.begin);
        if (branches > query_limits.branches_max)
            refuse_limit("TC325", "paths in one union", "branches_max", query_limits.branches_max, right.source);
    }
}

// Decides by the first character, and for names by what follows them.
QueryParser::Operand QueryParser::read_operand() {
    scan_.skip_space();
    uint32_t begin = scan_.at;
    char c = scan_.peek();
    if (c == '(') return read_parenthesis();
    if (is_digit(c) || c == '-' || (c == '.' && is_digit(scan_.peek(1)))) return read_number();
    if (c == '$') {
        Operand held;
        if (read_held(held)) return held;
    }
    if (c == '"' || c == '\'') {
        Value value;
        if (!scan_.literal(value.text) || scan_.peek() == c) no_pattern();
        check_literal(value.text);
        Slice source = since(begin);
        return {Is::literal, false, Relation::eq, append(query_.values_, value, source), source};
    }
    Slice name = scan_.peek_name();
    if (name.size) {
        scan_.at = name.end();
        scan_.skip_space();
        std::string_view word = scan_.view(name);
        bool kind_test = word == "text" || word == "node" || word == "comment" || word == "processing-instruction";
        if (scan_.peek() == '(' && !kind_test) return read_call(name);
        // Not a call: read the name again as the first step of a path.
        scan_.at = begin;
    }
    return bound_ ? read_bound_path() : read_inner_path();
}

// A path inside a predicate. After $msg a leading slash starts at the step (ONYX, section 2.1).
// Elsewhere it starts at the document, as XPath says.
QueryParser::Operand QueryParser::read_inner_path() {
    uint32_t begin = scan_.at;
    bool absolute = false, gap = false;
    if (scan_.peek() == '$') {
        absolute = read_variable();
        if (scan_.peek() != '/') refuse_everything(since(begin));
    }
    if (scan_.peek() == '/') {
        absolute = absolute || !message_;
        ++scan_.at;
        gap = scan_.peek() == '/';
        if (gap) ++scan_.at;
        scan_.skip_space();
        char c = scan_.peek();
        if (c != '.' && c != '@' && c != '*' && !scan_.peek_name().size && !gap) refuse_everything(since(begin));
    }
    uint32_t path = read_path(absolute, gap, begin);
    return {Is::paths, false, Relation::eq, path, query_.paths_[path].source};
}

// Parentheses only group conditions. What follows a path in parentheses would need sets, which a step cannot express.
QueryParser::Operand QueryParser::read_parenthesis() {
    uint32_t begin = scan_.at;
    Nesting nesting(*this, begin);
    ++scan_.at;
    Operand inside = read_disjunction();
    if (!closes(')')) no_pattern();
    uint32_t end = scan_.at;
    scan_.skip_space();
    if (scan_.peek() == '[' || scan_.peek() == '/')
        refuse("TC105", "nothing can follow a path in parentheses", {begin, scan_.at + 1 - begin},
               scan_.peek() == '/' ? "write (a | b)/c as a/c | b/c" : "write (a | b)[c] as a[c] | b[c]");
    scan_.at = end;
    inside.source = since(begin);
    return inside;
}

// Several minus signs are legal XPath; they cancel in pairs.
QueryParser::Operand QueryParser::read_number() {
    uint32_t begin = scan_.at;
    Value value;
    value.is_number = true;
    while (scan_.peek() == '-') {
        value.negative = !value.negative;
        ++scan_.at;
        scan_.skip_space();
    }
    value.text = scan_.number();
    if (!value.text.size || scan_.peek_name().size) no_pattern();
    double size = number_value(scan_.view(value.text));
    value.number = value.negative ? -size : size;
    Slice source = since(begin);
    return {Is::number, false, Relation::eq, append(query_.values_, value, source), source};
}

// Reads a function call. Its name has been read; the parenthesis is next.
QueryParser::Operand QueryParser::read_call(Slice name) {
    std::string_view function = scan_.view(name);
    if (const FunctionTraits* found = find_function(function)) return read_function(name, found->function);
    if (bound_ && function == "count") return read_value(name, Is::count);
    if (bound_ && function == "string") return read_value(name, Is::string);
    bool negation = function == "not", local_name = function == "local-name";
    if (!negation && !local_name && function != "position" && function != "last") no_pattern();
    Nesting nesting(*this, scan_.at);
    ++scan_.at;
    if (negation) {
        Expr expr;
        expr.kind = ExprKind::negation;
        Operand inside = as_condition(read_disjunction());
        expr.first = inside.index;
        if (!closes(')')) no_pattern();
        return make_condition(expr, inside.positional, since(name.begin));
    }
    scan_.skip_space();
    if (local_name && scan_.peek() == '.' && scan_.peek(1) != '.') ++scan_.at;
    if (!closes(')')) no_pattern();
    Is is = local_name ? Is::local_name : function == "last" ? Is::last : Is::position;
    return {is, false, Relation::eq, no_entry, since(name.begin)};
}

// Reads function(path, literal) after its name.
QueryParser::Operand QueryParser::read_function(Slice name, Function function) {
    Nesting nesting(*this, scan_.at);
    ++scan_.at;
    Operand path = read_union();
    if (path.is == Is::string) path.is = Is::paths;      // of the first item, either way
    if (path.is != Is::paths || query_.paths_[path.index].next != no_entry) no_pattern();
    scan_.skip_space();
    if (scan_.peek() != ',') no_pattern();
    ++scan_.at;
    Operand text = read_union();
    if (text.is != Is::literal || !closes(')')) no_pattern();
    Expr expr;
    expr.kind = ExprKind::call;
    expr.function = function;
    expr.first = path.index;
    expr.value = text.index;
    return make_condition(expr, false, since(name.begin));
}

bool QueryParser::closes(char bracket) {
    scan_.skip_space();
    if (scan_.peek() != bracket) return false;
    ++scan_.at;
    return true;
}

void QueryParser::close(char bracket) {
    if (!closes(bracket))
        refuse_operator(bracket == ']' ? "']'" : "')'",
                        scan_.peek() == ',' ? "join paths with '|', and conditions with 'or'" : std::string("close it with ") + bracket);
}

QueryParser::Operand QueryParser::make_condition(const Expr& expr, bool positional, Slice source) {
    uint32_t index = append(query_.exprs_, expr, source);
    query_.exprs_[index].source = source;
    return {Is::condition, positional, Relation::eq, index, source};
}

// Brings the path or position to the left, then checks which pairs the language has.
QueryParser::Operand QueryParser::compare(const Operand& left, Relation relation, const Operand& right) {
    auto constant = [](const Operand& o) { return o.is == Is::literal || o.is == Is::number; };
    bool turn = (constant(left) && !constant(right)) || (left.is == Is::last && right.is == Is::position);
    const Operand& subject = turn ? right : left;
    const Operand& object = turn ? left : right;
    if (turn) relation = mirrored(relation);
    Slice source = since(left.source.begin);
    if (bound_ && (subject.is == Is::position || subject.is == Is::last)) no_pattern();      // there is no context
    if (subject.is == Is::count) return compare_count(subject, relation, object, source);
    if (subject.is == Is::string) return compare_string(subject, relation, object, source);
    Expr expr;
    expr.relation = relation;
    if (subject.is == Is::paths && constant(object)) {
        expr.kind = ExprKind::compare;
        expr.first = subject.index;
    } else if (subject.is == Is::position && object.is == Is::number) {
        expr.kind = ExprKind::position;
    } else if (subject.is == Is::position && object.is == Is::last) {
        expr.kind = ExprKind::position_last;
    } else if (subject.is == Is::last && object.is == Is::number) {
        expr.kind = ExprKind::last;
    } else if (subject.is == Is::local_name && object.is == Is::literal &&
               (relation == Relation::eq || relation == Relation::ne)) {
        return {Is::name_test, false, relation, object.index, source};
    } else {
        no_pattern();
    }
    expr.value = object.index;
    return make_condition(expr, expr.kind != ExprKind::compare, source);
}

// Turns an operand into a truth value. A path is true if it selects something.
QueryParser::Operand QueryParser::as_condition(const Operand& operand) {
    if (operand.is == Is::condition) return operand;
    if (operand.is == Is::term) return term_condition(operand.index, operand.source);
    bool other = operand.is != Is::paths && operand.is != Is::count && operand.is != Is::name_test;
    bool name = operand.is == Is::name_test && context_ != StepKind::element;
    if (other || name) return as_condition(as_term(operand));
    Expr expr;
    if (operand.is == Is::paths || operand.is == Is::count) {       // a number is true where it is not 0
        expr.first = operand.index;
        return make_condition(expr, false, operand.source);
    }
    // local-name() = "x" becomes a path: self::*[local-name()="x"], or not() of that.
    // It will be printed like this, and the printed text must not be nested too deeply to be read again.
    uint32_t deeper = operand.relation == Relation::eq ? 2 : 3;
    if (depth_ + deeper > query_limits.depth_max) refuse_depth(operand.source);
    Step step;
    step.axis = Axis::self;
    step.test = Test::any_local;
    step.local = query_.values_[operand.index].text;
    step.source = operand.source;
    PathEntry path;
    path.first = append(query_.steps_, step, operand.source);
    path.steps = 1;
    path.source = operand.source;
    expr.first = append(query_.paths_, path, operand.source);
    Operand found = make_condition(expr, false, operand.source);
    if (operand.relation == Relation::eq) return found;
    Expr negation;
    negation.kind = ExprKind::negation;
    negation.first = found.index;
    return make_condition(negation, false, operand.source);
}

// A whole predicate: a number or last() there is a position.
QueryParser::Operand QueryParser::as_predicate(const Operand& operand) {
    Expr expr;
    if (operand.is == Is::position) return as_predicate(as_term(operand));
    if (operand.is == Is::term && query_.terms_[operand.index].type == TermType::number) {
        Term position, equal;                            // [n] is [position() = n]
        position.kind = TermKind::call;
        position.function = TermFunction::position;
        position.uses_context = position.uses_position = true;
        query_.terms_[operand.index].relation = static_cast<uint8_t>(Relation::eq);
        position.next = operand.index;
        equal.kind = TermKind::comparison;
        equal.type = TermType::boolean;
        equal.uses_context = equal.uses_position = true;
        position.source = equal.source = operand.source;
        equal.first = append(query_.terms_, position, operand.source);
        return term_condition(append(query_.terms_, equal, operand.source), operand.source);
    }
    expr.kind = operand.is == Is::last ? ExprKind::position_last : ExprKind::position;
    expr.value = operand.is == Is::last ? no_entry : operand.index;
    if (operand.is == Is::number || operand.is == Is::last) return make_condition(expr, true, operand.source);
    return as_condition(operand);
}

// *[local-name()='x'] becomes a test of its own, `*:x`, unless positions were counted among all elements before.
bool QueryParser::merge_name_test(uint32_t index, const Operand& operand) {
    Step& step = query_.steps_[index];
    if (operand.is != Is::name_test || operand.relation != Relation::eq) return false;
    if (step.positional || step.kind == StepKind::text) return false;
    Slice local = query_.values_[operand.index].text;
    bool any = step.test == Test::any;
    if (!any && !(step.test == Test::any_namespace && is_ncname(scan_.view(local)))) return false;
    step.test = any ? Test::any_local : Test::name;
    step.local = local;
    return true;
}

}  // namespace treecast
