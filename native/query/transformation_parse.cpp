// Clauses and expressions: the part of XQuery that the language adds to paths.
//
// A `let` is read once, and then its meaning replaces each use of its variable. Paths are copied in front of the steps that
// follow; other expressions share their shape. So no `let` is left in the clauses, and only `for` variables remain.
#include "document/characters.hpp"
#include "query/query_print.hpp"
#include "query/transformation_parser.hpp"

#include <algorithm>

namespace treecast {

void parse_transformation(std::string_view text, const Bindings& bindings, Transformation& out) {
    TransformationParser(out, bindings).parse(text);
}

// Two languages share this parser: lists of steps, whose paths are absolute, and FLWR, whose paths start at variables.
void TransformationParser::parse(std::string_view text) {
    out_.texts_.clear();
    out_.shapes_.clear();
    out_.clauses_.clear();
    out_.declared_.clear();
    out_.variables_.clear();
    out_.changes_.clear();
    out_.root_ = out_.from_ = no_entry;
    begin(text);
    message_ = scan_.comments = true;
    scan_.skip_space();
    std::string_view word = scan_.view(scan_.peek_name());
    out_.list_ = word == "from" || word == "drop" || word == "keep" || word == "rename" || word == "unwrap";
    if (out_.list_) {
        message_ = false;
        usual_hint_ = "drop //a; keep //b; unwrap //c; rename //d to e";
        read_list();
        return;
    }
    usual_hint_ = "for $n in $msg/a where $n/b = 1 return <c>{$n/d}</c>";
    bound_ = clauses_ = true;
    declare({}, Holds::message, no_entry);
    out_.root_ = read_expression();
    // Braces around the whole mean nothing. In canonical texts they mark a path that is built, not only matched.
    while (out_.shapes_[out_.root_].kind == ShapeKind::enclosed && out_.shapes_[out_.root_].first != no_entry)
        out_.root_ = out_.shapes_[out_.root_].first;
    scan_.skip_space();
    if (!scan_.ended()) check_end("the end of the query");
    // Which variables each shape depends on. The renderer uses it to build shared parts once.
    find_variables(out_.root_);
}

// All shapes are created here, so that the limit holds everywhere.
uint32_t TransformationParser::add_shape(const Shape& shape, Slice source) {
    if (out_.shapes_.size() >= transformation_limits.shapes_max)
        refuse_limit("TC327", "shapes in the transformation", "shapes_max", transformation_limits.shapes_max, source);
    // Uses of a `let` share one shape, so the size that counts is that of the whole text with every `let` written out.
    uint32_t weight = 1;
    for (uint32_t child : {shape.first, shape.other})
        out_.each_shape(child, [&](uint32_t index, const Shape&) { weight += weights_[index]; });
    if (weight > transformation_limits.shapes_max)
        refuse_limit("TC327", "shapes in the transformation", "shapes_max", transformation_limits.shapes_max, source);
    weights_.push_back(weight);
    out_.shapes_.push_back(shape);
    out_.shapes_.back().source = source;
    return static_cast<uint32_t>(out_.shapes_.size() - 1);
}

// Decoded characters get a store of their own: they differ from the text as written.
Slice TransformationParser::keep(std::string_view text) {
    auto begin = static_cast<uint32_t>(out_.texts_.size());
    out_.texts_.insert(out_.texts_.end(), text.begin(), text.end());
    return keep_since(begin);
}

// Appends to a linked list of shapes.
void TransformationParser::chain(uint32_t& first, uint32_t& last, uint32_t shape) {
    if (last == no_entry) first = shape;
    else out_.shapes_[last].next = shape;
    last = shape;
}

// -- expressions

// Commas separate the members of a sequence. A single member stays as it is.
uint32_t TransformationParser::read_expression() {
    scan_.skip_space();
    uint32_t begin = scan_.at, one = read_single(), first = no_entry, last = no_entry;
    scan_.skip_space();
    if (scan_.peek() != ',') return one;
    chain(first, last, one);
    while (scan_.peek() == ',') {
        ++scan_.at;
        chain(first, last, read_single());
        scan_.skip_space();
    }
    Shape sequence;
    sequence.first = first;
    return add_shape(sequence, since(begin));
}

// Decides by the first character, and for names by the word and what follows it.
uint32_t TransformationParser::read_single() {
    scan_.skip_space();
    Nesting nesting(*this, scan_.at);
    char c = scan_.peek();
    if (c == '<') return read_constructor();
    if (c == '{') return read_enclosed();                 // as the papers print it: return {$n/a}
    Slice name = scan_.peek_name();
    const bool literal = c == '"' || c == '\'' || is_digit(c) || c == '-' || (c == '.' && is_digit(scan_.peek(1)));
    if (name.size || literal || c == '(' || c == '$' || c == '/') return read_value_or_term(c, name);
    if (c == '@' || c == '*' || c == '.') return read_term_shape();
    refuse_here("an expression", "a path starts at a variable ($n/a), a constructor with '<'");
}

// Words are only reserved where their context fits, so elements may be called `for` or `if`. Any other word begins a term.
uint32_t TransformationParser::read_word_expression(Slice name) {
    std::string_view word = scan_.view(name);
    uint32_t begin = scan_.at;
    scan_.at = name.end();
    scan_.skip_space();
    char after = scan_.peek();
    if ((word == "for" || word == "let") && after == '$') {
        scan_.at = begin;
        return read_flwr();
    }
    if ((word == "for" || word == "let") && scan_.peek_name().size)
        refuse_here("a variable", word == "for" ? "for $n in $msg/a" : "let $t := $n/title");
    if (word == "if" && after == '(') return read_choice(begin);
    if (word == "if" && after == '$') refuse_here("'('", "if ($n/a = 1) then … else …");
    if (word == "attribute" && (scan_.peek_name().size || after == '{')) return read_computed_attribute(begin);
    check_word(name);
    scan_.at = begin;
    return after == '(' ? read_call_or_term(name) : read_term_shape();
}

// `(`, a list of expressions or nothing, `)`.
uint32_t TransformationParser::read_parenthesis_expression() {
    uint32_t begin = scan_.at++;
    if (scan_.peek() == ':') refuse_comment(begin);
    scan_.skip_space();
    uint32_t inside = no_entry;
    if (scan_.peek() != ')') inside = read_expression();
    scan_.skip_space();
    if (scan_.peek() != ')') check_end("')'");
    ++scan_.at;
    if (inside != no_entry && out_.shapes_[inside].kind == ShapeKind::sequence) return inside;
    Shape sequence;
    sequence.first = inside;
    return add_shape(sequence, since(begin));
}

// A path that is delivered, or a variable.
uint32_t TransformationParser::read_items() {
    uint32_t begin = scan_.at;
    // A variable that holds a built value stands for it. A path cannot continue from there.
    if (scan_.peek() == '$') {
        Slice name = read_variable_name();
        const Variable& variable = find_variable(name);
        if (variable.holds == Holds::shape) {
            Shape copy = out_.shapes_[variable.index];
            copy.next = no_entry;
            uint32_t end = scan_.at;
            scan_.skip_space();
            if (scan_.peek() == '/' || scan_.peek() == '[' || scan_.peek() == '|')
                refuse("TC113", "$" + shown(name) + " holds something built, and paths lead through documents only",
                       since(begin), "use the paths that it was built from");
            scan_.at = end;
            // A literal keeps its position in the text: conditions read it there again.
            return add_shape(copy, copy.kind == ShapeKind::value ? copy.source : since(begin));
        }
        scan_.at = begin;
    }
    Shape items;
    items.kind = ShapeKind::items;
    items.paths = read_paths();
    Slice source = since(begin);
    scan_.skip_space();
    if (scan_.peek() == '<' && scan_.peek(1) == '/') refuse_here("'}'", "close the braces before the end tag");
    scan_.at = source.end();
    return add_shape(items, source);
}

// A union of paths from variables.
uint32_t TransformationParser::read_paths() {
    scan_.skip_space();
    Operand operand = read_union();
    if (operand.is != Is::paths) no_pattern();
    return operand.index;
}

// A literal of XQuery: quotes are doubled, and references are decoded.
uint32_t TransformationParser::read_literal() {
    uint32_t begin = scan_.at;
    Shape shape;
    shape.kind = ShapeKind::value;
    char c = scan_.peek();
    if (c == '"' || c == '\'') {
        ++scan_.at;
        auto kept = static_cast<uint32_t>(out_.texts_.size());
        while (true) {
            if (scan_.ended())
                refuse("TC101", "the literal is not closed", {begin, scan_.size() - begin}, std::string("end it with ") + c);
            if (scan_.peek() == c && scan_.peek(1) != c) break;
            if (scan_.peek() == '&') {
                read_reference();
                continue;
            }
            if (scan_.peek() == c) ++scan_.at;            // doubled: one of them
            read_character();
        }
        ++scan_.at;
        shape.text = keep_since(kept);
    } else {
        const Value& value = query_.value(read_number().index);
        std::string digits;
        print_number(scan_.view(value.text), value.negative, digits);
        shape.text = keep(digits);
    }
    return add_shape(shape, since(begin));
}

// Reads string(), count(), concat() or name().
uint32_t TransformationParser::read_function(Slice name, ShapeKind kind) {
    scan_.at = name.end();
    scan_.skip_space();
    Nesting nesting(*this, scan_.at);
    ++scan_.at;
    scan_.skip_space();
    Shape shape;
    shape.kind = kind;
    if (scan_.peek() == ')')
        refuse("TC116", shown(name) + "() needs something to work on: there is no current item here", since(name.begin),
               "write " + shown(name) + "($n)");
    bool of_paths = kind == ShapeKind::count || kind == ShapeKind::name_of;
    uint32_t first = no_entry, last = no_entry, arguments = 0;
    if (of_paths) {
        shape.paths = read_paths();
    } else {
        while (true) {
            uint32_t argument = read_single();
            check_value(argument, "an argument");
            chain(first, last, argument);
            ++arguments;
            scan_.skip_space();
            if (kind != ShapeKind::concat || scan_.peek() != ',') break;
            ++scan_.at;
        }
        shape.first = first;
    }
    close(')');
    if (kind == ShapeKind::concat && arguments < 2)
        refuse("TC116", "concat() takes two values or more", since(name.begin), "write string(…) for one");
    return add_shape(shape, since(name.begin));
}

bool TransformationParser::is_value(ShapeKind kind) {
    switch (kind) {
        case ShapeKind::items:
        case ShapeKind::value:
        case ShapeKind::string_of:
        case ShapeKind::count:
        case ShapeKind::concat:
        case ShapeKind::term:
        case ShapeKind::name_of: return true;
        default: return false;
    }
}

// An argument or a part of a value must be one string. This is refused at parse time, before any document arrives.
void TransformationParser::check_value(uint32_t index, const char* what) {
    const Shape& shape = out_.shapes_[index];
    if (!is_value(shape.kind))
        refuse("TC116", std::string("only a path, a literal or a function can be ") + what, shape.source,
               "choose outside: if (…) then f(…) else f(…)");
}

// The parts of `if` are single expressions, so a comma ends them.
uint32_t TransformationParser::read_choice(uint32_t begin) {
    ++scan_.at;
    Shape shape;
    shape.kind = ShapeKind::choice;
    shape.condition = read_condition();
    close(')');
    expect_word("then", "if ($n/a = 1) then … else …");
    shape.first = read_single();
    expect_word("else", "write else () for nothing");
    shape.other = read_single();
    return add_shape(shape, since(begin));
}

// The flag makes a bare document an error: as a condition it would always be true.
uint32_t TransformationParser::read_condition() {
    bool before = condition_;
    condition_ = true;
    Operand operand = as_condition(read_disjunction());
    condition_ = before;
    return operand.index;
}

// -- FLWR

// Variables are visible from their clause to the end of this expression.
uint32_t TransformationParser::read_flwr() {
    uint32_t begin = scan_.at;
    size_t outer = scope_variables_.size();
    std::vector<Clause> clauses;
    while (true) {
        scan_.skip_space();
        if (read_word("for")) read_for(clauses);
        else if (read_word("let")) read_let();
        else if (read_word("where")) read_where(clauses);
        else break;
    }
    bool stable = read_word("stable");
    if (stable) expect_word("order", "stable order by $n/a");
    if (stable || read_word("order")) read_order(clauses);
    scan_.skip_space();
    Slice word = scan_.peek_name();
    if (scan_.view(word) != "return") {
        refuse_if_outside(word);
        refuse_operator("'return'", "for $n in $msg/a where $n/b = 1 return $n");
    }
    scan_.at = word.end();
    Shape shape;
    shape.kind = ShapeKind::flwr;
    shape.first = read_single();
    scope_variables_.resize(outer);
    // Without a `for` nothing is repeated, so the clauses reduce to conditions.
    bool binds = std::any_of(clauses.begin(), clauses.end(), [](const Clause& c) { return c.kind == ClauseKind::each; });
    if (!binds) return conditioned(clauses, shape.first, since(begin));
    uint32_t last = no_entry;
    for (const Clause& clause : clauses) {
        out_.clauses_.push_back(clause);
        auto index = static_cast<uint32_t>(out_.clauses_.size() - 1);
        if (last == no_entry) shape.clauses = index;
        else out_.clauses_[last].next = index;
        last = index;
    }
    return add_shape(shape, since(begin));
}

// Only lets and conditions: returns the body if the conditions hold. There is nothing to order.
uint32_t TransformationParser::conditioned(const std::vector<Clause>& clauses, uint32_t body, Slice source) {
    for (auto clause = clauses.rbegin(); clause != clauses.rend(); ++clause) {
        if (clause->kind != ClauseKind::where) continue;
        Shape choice;
        choice.kind = ShapeKind::choice;
        choice.condition = clause->condition;
        choice.first = body;
        choice.other = add_shape(Shape(), source);        // ()
        body = add_shape(choice, source);
    }
    return body;
}

// Each variable is a clause of its own, even if several follow one `for`.
void TransformationParser::read_for(std::vector<Clause>& clauses) {
    do {
        scan_.skip_space();
        uint32_t begin = scan_.at;
        if (scan_.peek() != '$') refuse_here("a variable", "for $n in $msg/a");
        Slice name = read_variable_name();
        scan_.skip_space();
        Slice word = scan_.peek_name();
        if (scan_.view(word) == "at" || scan_.view(word) == "as")
            refuse("TC116", "'" + shown(word) + "' is not part of the language", word,
                   scan_.view(word) == "at" ? "positions stand in brackets: $n/a[1]" : "nothing has a type here: leave it out");
        expect_word("in", "for $n in $msg/a, or let $t := $n/a");
        Clause clause;
        const Mark before = mark();
        try {
            clause.paths = read_paths();
        } catch (const Failure& failure) {
            refuse_no_pattern(before, failure);
        }
        clause.source = since(begin);
        const PathEntry& path = query_.path(clause.paths);
        bool alone = path.next == no_entry && path.first == no_entry;
        // A plain variable in `for` is another name for the same item, so no loop is needed.
        if (alone && !path.absolute) {                    // another name for the same item
            declare(name, Holds::item, path.variable);
        } else {
            // All paths must start at the same variable. Then the matching part is a tree.
            for (uint32_t at = clause.paths; at != no_entry; at = query_.path(at).next) {
                const PathEntry& branch = query_.path(at);
                if (branch.variable != path.variable || branch.absolute != path.absolute || (!alone && branch.first == no_entry))
                    refuse("TC116", "one 'for' ranges over paths from one variable", clause.source,
                           "write a for of its own for each");
            }
            if (alone) {
                declare(name, Holds::message, no_entry);
            } else {
                if (out_.variables_.size() >= transformation_limits.variables_max)
                    refuse_limit("TC327", "variables", "variables_max", transformation_limits.variables_max, clause.source);
                clause.variable = static_cast<uint32_t>(out_.variables_.size());
                out_.variables_.push_back(name);
                kinds_.push_back(kind_of(clause.paths));
                declare(name, Holds::item, clause.variable);
            }
            clauses.push_back(clause);
        }
        scan_.skip_space();
        if (scan_.peek() != ',') return;
        ++scan_.at;
    } while (true);
}

// A `let` never reaches the clauses: it is only recorded what its name stands for.
void TransformationParser::read_let() {
    do {
        scan_.skip_space();
        if (scan_.peek() != '$') refuse_here("a variable", "let $t := $n/title");
        Slice name = read_variable_name();
        scan_.skip_space();
        if (scan_.peek() != ':' || scan_.peek(1) != '=') refuse_here("':='", "let $t := $n/title");
        scan_.at += 2;
        scan_.skip_space();
        const uint32_t begin = scan_.at;
        uint32_t made = unparenthesised(read_single());
        const Slice source = since(begin);
        const Shape& shape = out_.shapes_[made];
        if (shape.kind == ShapeKind::items) {
            const PathEntry& path = query_.path(shape.paths);
            bool alone = path.next == no_entry && path.first == no_entry;
            if (alone && path.absolute) declare(name, Holds::message, no_entry);
            else if (alone) declare(name, Holds::item, path.variable);
            else declare(name, Holds::paths, shape.paths);
        } else {
            declare(name, Holds::shape, made);
        }
        Variable& declared = scope_variables_.back();
        declared.source = source;
        declared.scope = scope_variables_.size() - 1;
        declared.bindings = scope_.size();
        declared.default_bound = default_bound_;
        declared.default_uri = default_uri_;
        scan_.skip_space();
        if (scan_.peek() != ',') return;
        ++scan_.at;
    } while (true);
}

// Several `where` clauses are allowed; all must hold.
void TransformationParser::read_where(std::vector<Clause>& clauses) {
    scan_.skip_space();
    uint32_t begin = scan_.at;
    Clause clause;
    clause.kind = ClauseKind::where;
    clause.condition = read_condition();
    clause.source = since(begin);
    clauses.push_back(clause);
}

// Reads a key to order by: a path, count(…) or string(…), or a variable that holds one of them.
void TransformationParser::read_key(Clause& clause) {
    if (scan_.peek() == '$') {
        uint32_t begin = scan_.at;
        const Variable& variable = find_variable(read_variable_name());
        const Shape* held = variable.holds == Holds::shape ? &out_.shapes_[variable.index] : nullptr;
        if (held && held->kind == ShapeKind::string_of && out_.shapes_[held->first].kind == ShapeKind::items) {
            clause.strings = true;
            clause.paths = copy_paths(out_.shapes_[held->first].paths);
        } else if (held && held->kind == ShapeKind::count) {
            clause.counts = true;
            clause.paths = copy_paths(held->paths);
        }
        if (clause.paths != no_entry) return;
        scan_.at = begin;
    }
    Slice name = scan_.peek_name();
    std::string_view function = scan_.view(name);
    bool call = function == "count" || function == "string";
    if (call) {
        clause.counts = function == "count";
        clause.strings = !clause.counts;
        scan_.at = name.end();
        scan_.skip_space();
        if (scan_.peek() != '(') refuse_here("'('", "order by count($n/a)");
        ++scan_.at;
    }
    clause.paths = read_paths();
    if (call) close(')');
}

// A single expression in parentheses is the same without them.
uint32_t TransformationParser::unparenthesised(uint32_t shape) const {
    while (true) {
        const Shape& found = out_.shapes_[shape];
        bool empty = found.kind != ShapeKind::sequence || found.first == no_entry;
        if (empty || out_.shapes_[found.first].next != no_entry) return shape;
        shape = found.first;
    }
}

// Several keys form several clauses, the first of which matters most.
void TransformationParser::read_order(std::vector<Clause>& clauses) {
    expect_word("by", "order by $n/a, $n/b descending");
    do {
        scan_.skip_space();
        uint32_t begin = scan_.at;
        Clause clause;
        clause.kind = ClauseKind::order;
        read_key_or_term(clause);
        if (read_word("descending")) clause.descending = true;
        else read_word("ascending");
        if (read_word("empty")) {
            if (read_word("greatest")) clause.empty_greatest = true;
            else expect_word("least", "empty least, or empty greatest");
        }
        if (read_word("collation")) refuse("TC116", "there are no collations", since(begin), "strings are ordered by code point");
        clause.source = since(begin);
        clauses.push_back(clause);
        scan_.skip_space();
        if (scan_.peek() != ',') return;
        ++scan_.at;
    } while (true);
}

}  // namespace treecast
