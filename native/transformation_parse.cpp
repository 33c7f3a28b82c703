// Clauses and expressions: what XQuery adds to paths, as far as it belongs to the language.
//
// A let is read once and then stands wherever its variable is used: paths are copied in front of the steps that follow, other
// expressions share their shape. So nothing of it is left in the clauses, and what a query depends on are its `for` variables.
#include "characters.hpp"
#include "query_print.hpp"
#include "transformation_parser.hpp"

namespace treecast {

namespace {

struct Word {
    std::string_view name, hint;
};

// What XQuery has and the language has not.
constexpr Word outside[] = {
    {"some", "a path in a condition holds where some item does: where $n/a = 1"},
    {"every", "write not() of the opposite: not($n/a != 1)"},
    {"typeswitch", "write if (…) then … else …"},
    {"switch", "write if (…) then … else …"},
    {"try", "leave it out: nothing here raises errors"},
    {"declare", "give prefixes as the subscription's namespaces"},
    {"import", "there are no modules"},
    {"element", "write a direct constructor: <name>{…}</name>"},
    {"text", "write the text in a constructor, or concat(…)"},
    {"comment", "write <!--…--> in a constructor"},
    {"document", "deliver elements: <name>{…}</name>"},
    {"ordered", "leave it out"},
    {"unordered", "leave it out"},
    {"group", "nest a for in the return"},
    {"count", "count(path) is the function"},
    {"data", "write string(path)"},
    {"distinct-values", "deliver all of them"},
    {"number", "write string(path)"},
    {"sum", "deliver the items: there is no arithmetic"},
    {"position", "positions stand in brackets: $n/a[1]"},
    {"not", "conditions stand in where and if (…)"},
    {"exists", "conditions stand in where and if (…)"},
    {"contains", "conditions stand in where and if (…)"},
    {"starts-with", "conditions stand in where and if (…)"},
    {"true", "conditions stand in where and if (…)"},
    {"false", "conditions stand in where and if (…)"},
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

bool is_transformation(std::string_view text) {
    size_t at = text.find_first_not_of(" \t\r\n");
    if (at == std::string_view::npos) return false;
    text.remove_prefix(at);
    if (text[0] == '<') return true;
    if (text[0] == '(' || text[0] == '{') {               // of something that begins so
        size_t inside = text.find_first_not_of("({ \t\r\n");
        if (inside == std::string_view::npos || text[inside] == ':') return false;
        std::string_view rest = text.substr(inside);
        for (std::string_view call : {"string", "count", "concat", "name", "attribute"})
            if (rest.starts_with(call)) return true;
        return rest[0] == '$' || rest[0] == '"' || rest[0] == '\'' || is_transformation(rest);
    }
    size_t size = text.find_first_of(" \t\r\n$(\"'<");
    if (size == std::string_view::npos) return false;
    std::string_view word = text.substr(0, size);
    if (word == "if") return true;
    if (word == "for" || word == "let") return text[size] == '$' || is_space(text[size]);
    bool step = word == "from" || word == "drop" || word == "keep" || word == "rename" || word == "unwrap";
    return step && is_space(text[size]);
}

void parse_transformation(std::string_view text, const Bindings& bindings, Transformation& out) {
    TransformationParser(out, bindings).parse(text);
}

void TransformationParser::parse(std::string_view text) {
    out_.texts_.clear();
    out_.shapes_.clear();
    out_.clauses_.clear();
    out_.declared_.clear();
    out_.variables_.clear();
    out_.changes_.clear();
    out_.root_ = out_.from_ = no_entry;
    begin(text);
    message_ = true;
    scan_.skip_space();
    std::string_view word = scan_.view(scan_.peek_name());
    out_.list_ = word == "from" || word == "drop" || word == "keep" || word == "rename" || word == "unwrap";
    if (out_.list_) {
        message_ = false;
        read_list();
        return;
    }
    bound_ = true;
    declare({}, Holds::message, no_entry);
    out_.root_ = read_expression();
    // Braces round the whole say nothing; in canonical texts they tell a path that is built from one that is only matched.
    while (out_.shapes_[out_.root_].kind == ShapeKind::enclosed && out_.shapes_[out_.root_].first != no_entry)
        out_.root_ = out_.shapes_[out_.root_].first;
    scan_.skip_space();
    if (!scan_.ended()) check_end("the end of the query");
    find_variables(out_.root_);
}

uint32_t TransformationParser::add_shape(const Shape& shape, Slice source) {
    if (out_.shapes_.size() >= transformation_limits.shapes_max)
        refuse_limit("TC327", "shapes in the transformation", "shapes_max", transformation_limits.shapes_max, source);
    // What a let stands for is shared by its uses: the size that counts is that of the whole, spelt out.
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

Slice TransformationParser::keep(std::string_view text) {
    auto begin = static_cast<uint32_t>(out_.texts_.size());
    out_.texts_.insert(out_.texts_.end(), text.begin(), text.end());
    return keep_since(begin);
}

void TransformationParser::chain(uint32_t& first, uint32_t& last, uint32_t shape) {
    if (last == no_entry) first = shape;
    else out_.shapes_[last].next = shape;
    last = shape;
}

// -- expressions

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

uint32_t TransformationParser::read_single() {
    scan_.skip_space();
    Nesting nesting(*this, scan_.at);
    char c = scan_.peek();
    if (c == '<') return read_constructor();
    if (c == '(') return read_parenthesis_expression();
    if (c == '{') return read_enclosed();                 // as the papers print it: return {$n/a}
    if (c == '$' || c == '/') return read_items();
    if (c == '"' || c == '\'' || is_digit(c) || c == '-' || (c == '.' && is_digit(scan_.peek(1)))) return read_literal();
    Slice name = scan_.peek_name();
    if (name.size) return read_word_expression(name);
    if (c == '@' || c == '*' || c == '.') refuse_unbound_path();
    refuse_here("an expression", "a path starts at a variable ($n/a), a constructor with '<'");
}

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
    if (word == "if" && after == '(') return read_choice();
    if (after == '(') {
        if (word == "string") return read_function(name, ShapeKind::string_of);
        if (word == "count") return read_function(name, ShapeKind::count);
        if (word == "concat") return read_function(name, ShapeKind::concat);
        if (word == "name") return read_function(name, ShapeKind::name_of);
    }
    if (word == "attribute" && (scan_.peek_name().size || after == '{')) return read_computed_attribute(begin);
    scan_.at = begin;
    refuse_word(name);
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
    uint32_t end = scan_.at;
    scan_.skip_space();
    if (scan_.peek() == '[' || scan_.peek() == '/')
        refuse("TC105", "nothing can follow a path in parentheses", {begin, scan_.at + 1 - begin},
               scan_.peek() == '/' ? "write ($n/a | $n/b)/c as $n/a/c | $n/b/c" : "bind it with 'for', and use 'where'");
    scan_.at = end;
    if (inside != no_entry && out_.shapes_[inside].kind == ShapeKind::sequence) return inside;
    Shape sequence;
    sequence.first = inside;
    return add_shape(sequence, since(begin));
}

uint32_t TransformationParser::read_items() {
    uint32_t begin = scan_.at;
    // A variable that holds a built value stands for it; whatever follows belongs to the language around it.
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
            return add_shape(copy, since(begin));
        }
        scan_.at = begin;
    }
    Shape items;
    items.kind = ShapeKind::items;
    items.paths = read_paths("an expression");
    Slice source = since(begin);
    Relation relation;
    scan_.skip_space();
    uint32_t at = scan_.at;
    if (read_relation(relation))
        refuse("TC116", "a comparison is a condition, and conditions are not delivered", since(at),
               "write if ($n/a = 1) then … else …, or put it into 'where'");
    scan_.at = source.end();
    return add_shape(items, source);
}

uint32_t TransformationParser::read_paths(const char* what) {
    scan_.skip_space();
    uint32_t begin = scan_.at;
    char c = scan_.peek();
    if (c != '$' && c != '/' && c != '(') {
        if (scan_.peek_name().size || c == '@' || c == '*' || c == '.') refuse_unbound_path();
        refuse_here(what);
    }
    Operand operand = read_union();
    if (operand.is != Is::paths)
        refuse("TC116", "only paths can stand here", since(begin), "write a path from a variable: $n/a");
    check_arithmetic();
    return operand.index;
}

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
            out_.texts_.push_back(scan_.peek());
            ++scan_.at;
        }
        ++scan_.at;
        shape.text = keep_since(kept);
    } else {
        const Value& value = query_.value(read_number().index);
        std::string digits;
        print_number(scan_.view(value.text), value.negative, digits);
        shape.text = keep(digits);
    }
    uint32_t made = add_shape(shape, since(begin));
    check_arithmetic();
    return made;
}

// string(), count(), concat(), name(); the parenthesis is next.
uint32_t TransformationParser::read_function(Slice name, ShapeKind kind) {
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
        shape.paths = read_paths("a path");
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
    uint32_t made = add_shape(shape, since(name.begin));
    check_arithmetic();
    return made;
}

// An argument or a part of a value: one string. Where it is not, the language says so before a document comes.
void TransformationParser::check_value(uint32_t index, const char* what) {
    const Shape& shape = out_.shapes_[index];
    switch (shape.kind) {
        case ShapeKind::items:
        case ShapeKind::value:
        case ShapeKind::string_of:
        case ShapeKind::count:
        case ShapeKind::concat:
        case ShapeKind::name_of: return;
        default:
            refuse("TC116", std::string("only a path, a literal or a function can be ") + what, shape.source,
                   "choose outside: if (…) then f(…) else f(…)");
    }
}

uint32_t TransformationParser::read_choice() {
    uint32_t begin = scan_.at;
    Nesting nesting(*this, begin);
    ++scan_.at;
    Shape shape;
    shape.kind = ShapeKind::choice;
    shape.condition = read_condition();
    close(')');
    expect_word("then");
    shape.first = read_single();
    expect_word("else");
    shape.other = read_single();
    return add_shape(shape, since(begin));
}

uint32_t TransformationParser::read_condition() {
    bool before = condition_;
    condition_ = true;
    uint32_t begin = scan_.at;
    Operand operand = as_condition(read_disjunction());
    if (operand.positional)
        refuse("TC106", "positions are counted in brackets only", since(begin), "write $n/a[1], or $n/a[last()]");
    condition_ = before;
    return operand.index;
}

// -- FLWR

uint32_t TransformationParser::read_flwr() {
    uint32_t begin = scan_.at;
    size_t outer = scope_variables_.size();
    std::vector<Clause> clauses;
    while (true) {
        scan_.skip_space();
        if (read_word("for")) read_for(clauses);
        else if (read_word("let")) read_let();
        else break;
    }
    if (read_word("where")) read_where(clauses);
    bool stable = read_word("stable");
    if (stable) expect_word("order");
    if (stable || read_word("order")) read_order(clauses);
    scan_.skip_space();
    Slice word = scan_.peek_name();
    if (scan_.view(word) != "return") {
        for (const Word& known : outside)
            if (known.name == scan_.view(word))
                refuse("TC116", "'" + shown(word) + "' is not part of the language", word, std::string(known.hint));
        refuse_here("'return'", "for $n in $msg/a where $n/b = 1 return $n");
    }
    scan_.at = word.end();
    Shape shape;
    shape.kind = ShapeKind::flwr;
    shape.first = read_single();
    scope_variables_.resize(outer);
    if (clauses.empty()) return shape.first;              // nothing but lets
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
        expect_word("in");
        Clause clause;
        clause.paths = read_paths("a path");
        clause.source = since(begin);
        const PathEntry& path = query_.path(clause.paths);
        bool alone = path.next == no_entry && path.first == no_entry;
        if (alone && !path.absolute) {                    // another name for the same item
            declare(name, Holds::item, path.variable);
        } else {
            // All from one place: so the matching part is a tree.
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

void TransformationParser::read_let() {
    do {
        scan_.skip_space();
        if (scan_.peek() != '$') refuse_here("a variable", "let $t := $n/title");
        Slice name = read_variable_name();
        scan_.skip_space();
        if (scan_.peek() != ':' || scan_.peek(1) != '=') refuse_here("':='", "let $t := $n/title");
        scan_.at += 2;
        uint32_t made = read_single();
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
        scan_.skip_space();
        if (scan_.peek() != ',') return;
        ++scan_.at;
    } while (true);
}

void TransformationParser::read_where(std::vector<Clause>& clauses) {
    scan_.skip_space();
    uint32_t begin = scan_.at;
    Clause clause;
    clause.kind = ClauseKind::where;
    clause.condition = read_condition();
    clause.source = since(begin);
    clauses.push_back(clause);
}

void TransformationParser::read_order(std::vector<Clause>& clauses) {
    expect_word("by");
    do {
        scan_.skip_space();
        uint32_t begin = scan_.at;
        Clause clause;
        clause.kind = ClauseKind::order;
        Slice name = scan_.peek_name();
        std::string_view function = scan_.view(name);
        bool call = function == "count" || function == "string";
        if (call) {
            clause.counts = function == "count";
            clause.strings = !clause.counts;
            scan_.at = name.end();
            scan_.skip_space();
            if (scan_.peek() != '(') refuse_here("'('");
            ++scan_.at;
        }
        clause.paths = read_paths("a path to order by");
        if (call) close(')');
        if (read_word("descending")) clause.descending = true;
        else read_word("ascending");
        if (read_word("empty")) {
            if (read_word("greatest")) clause.empty_greatest = true;
            else expect_word("least");
        }
        if (read_word("collation")) refuse("TC116", "there are no collations", since(begin), "strings are ordered by code point");
        clause.source = since(begin);
        clauses.push_back(clause);
        scan_.skip_space();
        if (scan_.peek() != ',') return;
        ++scan_.at;
    } while (true);
}

// -- words

void TransformationParser::expect_word(const char* word) {
    if (read_word(word)) return;
    std::string quoted = "'";
    (quoted += word) += '\'';
    refuse_here(quoted.c_str());
}

void TransformationParser::check_end(const char* expected) {
    char c = scan_.peek();
    if (c == '=' || c == '!' || c == '>')
        refuse("TC116", "a comparison is a condition, and conditions are not delivered", {scan_.at, 1},
               "write if ($n/a = 1) then … else …, or put it into 'where'");
    check_arithmetic();
    refuse_here(expected);
}

void TransformationParser::refuse_unbound_path() {
    uint32_t begin = scan_.at, end = begin;
    constexpr std::string_view stops = " \t\r\n,)}]=<>!";
    while (end < scan_.size() && stops.find(scan_.view(end, end + 1)) == std::string_view::npos) ++end;
    std::string own(shown({begin, end - begin}));
    std::string name = scope_variables_.size() > 1 ? shown(scope_variables_.back().name) : "msg";
    refuse("TC104", "the path is relative, and there is nothing that it could start from", {begin, end - begin},
           "write $" + name + "/" + own);
}

void TransformationParser::refuse_word(Slice name) {
    std::string_view word = scan_.view(name);
    scan_.at = name.end();
    scan_.skip_space();
    bool call = scan_.peek() == '(';
    for (const Word& known : outside)
        if (known.name == word && (call || word != "text"))
            refuse("TC116", "'" + shown(name) + "' is not part of the language", name, std::string(known.hint));
    if (call && word != "text" && word != "node")
        refuse("TC116", "the function " + shown(name) + "() is not part of the language", name,
               "the functions here are string(), count(), concat() and name()");
    scan_.at = name.begin;
    refuse_unbound_path();
}

}  // namespace treecast
