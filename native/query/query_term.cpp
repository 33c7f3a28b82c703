// Reads terms: all of XPath 1.0 but the namespace axis, variables, and functions that need more than the document; and the three
// spellings of the papers that patterns know.
//
// One function per level of the grammar (XPath 1.0, section 3), weakest operator first. The scanner needs no token list: after an
// operand `*` and `and` are operators, before one they are names (section 3.7).
//
// Types are known while reading, so what XPath 1.0 refuses at run time (count(1), "a" | "b") is refused here.
#include "document/characters.hpp"
#include "document/number.hpp"
#include "query/query_parser.hpp"

#include <algorithm>

namespace treecast {

namespace {

constexpr std::pair<std::string_view, TermAxis> axis_names[] = {
    {"child", TermAxis::child}, {"descendant", TermAxis::descendant}, {"descendant-or-self", TermAxis::descendant_or_self},
    {"self", TermAxis::self}, {"attribute", TermAxis::attribute}, {"parent", TermAxis::parent},
    {"ancestor", TermAxis::ancestor}, {"ancestor-or-self", TermAxis::ancestor_or_self}, {"following", TermAxis::following},
    {"following-sibling", TermAxis::following_sibling}, {"preceding", TermAxis::preceding},
    {"preceding-sibling", TermAxis::preceding_sibling}};

// Every text that is a pattern is a term, too.
static_assert(std::ranges::all_of(functions, [](const FunctionTraits& pattern) {
    return std::ranges::any_of(term_functions, [&](const TermFunctionTraits& term) { return term.name == pattern.name; });
}));

bool is_kind_test(std::string_view name) {
    return name == "text" || name == "node" || name == "comment" || name == "processing-instruction";
}

}  // namespace

// A list of operands under one Term; a single operand stays what it is.
uint32_t QueryParser::join_terms(TermKind kind, TermType type, const std::vector<uint32_t>& operands, uint32_t begin) {
    if (operands.size() == 1) return operands[0];
    Term joined;
    joined.kind = kind;
    joined.type = type;
    joined.first = operands[0];
    for (size_t i = 0; i < operands.size(); ++i) {
        const Term& operand = query_.terms_[operands[i]];
        joined.uses_context |= operand.uses_context;
        joined.uses_position |= operand.uses_position;
        joined.variables |= operand.variables;
        if (i + 1 < operands.size()) query_.terms_[operands[i]].next = operands[i + 1];
    }
    return append_term(joined, begin);
}

uint32_t QueryParser::append_term(Term term, uint32_t begin) {
    term.source = since(begin);
    return append(query_.terms_, term, term.source);
}

uint32_t QueryParser::read_term() {
    scan_.skip_space();
    uint32_t begin = scan_.at;
    std::vector<uint32_t> operands{read_term_conjunction()};
    while (read_word("or")) operands.push_back(read_term_conjunction());
    return join_terms(TermKind::disjunction, TermType::boolean, operands, begin);
}

uint32_t QueryParser::read_term_conjunction() {
    scan_.skip_space();
    uint32_t begin = scan_.at;
    std::vector<uint32_t> operands{read_term_equality()};
    while (read_word("and")) operands.push_back(read_term_equality());
    return join_terms(TermKind::conjunction, TermType::boolean, operands, begin);
}

// `=` and `!=` bind weaker than `<` and the like; both from the left.
uint32_t QueryParser::read_term_equality() { return read_term_comparison(true); }

uint32_t QueryParser::read_term_comparison(bool equality) {
    scan_.skip_space();
    uint32_t begin = scan_.at;
    auto operand = [&] { return equality ? read_term_comparison(false) : read_term_sum(); };
    std::vector<uint32_t> operands{operand()};
    while (true) {
        uint32_t before = scan_.at;
        Relation relation;
        if (!read_relation(relation)) break;
        if (equality != (relation == Relation::eq || relation == Relation::ne)) {
            scan_.at = before;
            break;
        }
        operands.push_back(operand());
        query_.terms_[operands.back()].relation = static_cast<uint8_t>(relation);
    }
    return join_terms(TermKind::comparison, TermType::boolean, operands, begin);
}

uint32_t QueryParser::read_term_sum() {
    scan_.skip_space();
    uint32_t begin = scan_.at;
    std::vector<uint32_t> operands{read_term_product()};
    while (true) {
        uint32_t before = scan_.at;
        scan_.skip_space();
        char c = scan_.peek();
        if (c != '+' && c != '-') {
            scan_.at = before;
            return join_terms(TermKind::arithmetic, TermType::number, operands, begin);
        }
        ++scan_.at;
        operands.push_back(read_term_product());
        query_.terms_[operands.back()].sign = c == '+' ? Sign::plus : Sign::minus;
    }
}

uint32_t QueryParser::read_term_product() {
    scan_.skip_space();
    uint32_t begin = scan_.at;
    std::vector<uint32_t> operands{read_term_unary()};
    while (true) {
        uint32_t before = scan_.at;
        scan_.skip_space();
        Sign sign;
        if (scan_.peek() == '*') {
            ++scan_.at;
            sign = Sign::times;
        } else if (read_word("div")) {
            sign = Sign::div;
        } else if (read_word("mod")) {
            sign = Sign::mod;
        } else {
            scan_.at = before;
            return join_terms(TermKind::arithmetic, TermType::number, operands, begin);
        }
        operands.push_back(read_term_unary());
        query_.terms_[operands.back()].sign = sign;
    }
}

// Minus signs cancel in pairs, but even two of them make a number of what they stand before.
uint32_t QueryParser::read_term_unary() {
    scan_.skip_space();
    uint32_t begin = scan_.at, signs = 0;
    for (; scan_.peek() == '-'; scan_.skip_space()) ++signs, ++scan_.at;
    uint32_t operand = read_term_union();
    if (!signs) return operand;
    Term made;
    made.first = operand;
    made.kind = signs % 2 ? TermKind::negative : TermKind::call;
    made.function = TermFunction::number;
    made.uses_context = query_.terms_[operand].uses_context;
    made.uses_position = query_.terms_[operand].uses_position;
    made.variables = query_.terms_[operand].variables;
    return append_term(made, begin);
}

uint32_t QueryParser::read_term_union() {
    scan_.skip_space();
    uint32_t begin = scan_.at;
    std::vector<uint32_t> operands{read_term_path()};
    while (true) {
        uint32_t before = scan_.at;
        scan_.skip_space();
        if (scan_.peek() != '|' || scan_.peek(1) == '|') {
            scan_.at = before;
            break;
        }
        ++scan_.at;
        operands.push_back(read_term_path());
        if (operands.size() > query_limits.branches_max)
            refuse_limit("TC325", "paths in one union", "branches_max", query_limits.branches_max, query_.terms_[operands.back()].source);
    }
    if (operands.size() > 1)
        for (uint32_t operand : operands)
            if (query_.terms_[operand].type != TermType::items)
                refuse("TC106", "'|' joins paths", query_.terms_[operand].source, "join conditions with 'or'");
    return join_terms(TermKind::union_, TermType::items, operands, begin);
}

// A location path, or a primary expression with what may follow it: predicates, then steps.
uint32_t QueryParser::read_term_path() {
    scan_.skip_space();
    uint32_t begin = scan_.at;
    Term path;
    path.kind = TermKind::path;
    path.type = TermType::items;
    const bool message = message_;
    char c = scan_.peek();
    bool document = false;
    if (c == '$') {
        document = read_term_variable(path);
        if (document && !in_term_predicate_) message_ = true;
        uint32_t end = scan_.at;
        scan_.skip_space();
        c = scan_.peek();
        if (path.first != no_term && c != '/' && c != '[') {       // a variable that stands for a term
            scan_.at = end;
            message_ = message;
            return path.first;
        }
        if (path.first != no_term && query_.terms_[path.first].type != TermType::items)
            refuse("TC113", "this variable holds a value, and paths lead through documents only", since(begin),
                   "use the paths that it was made from");
        if (c != '/') {
            path.absolute = document;
            scan_.at = end;
            if (c == '[') {
                scan_.skip_space();
                read_term_predicates(path.predicates);
            }
        }
    } else if (c != '/') {
        if (uint32_t primary = read_term_primary(); primary != no_term) {
            uint32_t end = scan_.at;
            scan_.skip_space();
            c = scan_.peek();
            bool follows = c == '[' || (c == '/');
            if (!follows) {
                scan_.at = end;
                return primary;
            }
            if (query_.terms_[primary].type != TermType::items)
                refuse("TC106", "only a path can be followed by predicates and steps", query_.terms_[primary].source,
                       query_.terms_[primary].type == TermType::number && c == '/' ? "numbers are divided with 'div'" : "join conditions with 'and'");
            path.first = primary;
            path.uses_context = query_.terms_[primary].uses_context;
            path.uses_position = query_.terms_[primary].uses_position;
            path.variables = query_.terms_[primary].variables;
            if (c == '[') read_term_predicates(path.predicates);
        } else {
            path.uses_context = true;
            read_term_steps(path, false);
            message_ = message;
            return append_term(path, begin);
        }
    }
    uint32_t end = scan_.at;
    scan_.skip_space();
    if (scan_.peek() != '/') {
        scan_.at = end;
    } else {
        bool free_start = path.first == no_term && path.variable == no_term && !path.absolute;
        ++scan_.at;
        bool gap = scan_.peek() == '/';
        if (gap) ++scan_.at;
        end = scan_.at;
        scan_.skip_space();
        if (free_start) {
            path.absolute = document || !message_ || (bound_ && !in_term_predicate_);
            path.uses_context = !path.absolute;
        }
        char next = scan_.peek();
        bool step = next == '.' || next == '@' || next == '*' || next == '[' || next == '(' || is_digit(next) || scan_.peek_name().size;
        if (step || gap || !free_start) read_term_steps(path, gap);
        else scan_.at = end;
    }
    message_ = message;
    return append_term(path, begin);
}

// `$msg` is the document. Returns whether it was; a transformation knows other variables.
bool QueryParser::read_term_variable(Term&) {
    read_variable();
    return true;
}

// Literals, numbers, calls and parentheses; no_term where a step follows.
uint32_t QueryParser::read_term_primary() {
    uint32_t begin = scan_.at;
    char c = scan_.peek();
    if (c == '(') {
        if (scan_.peek(1) == ':') refuse_comment(begin);
        Nesting nesting(*this, begin);
        ++scan_.at;
        uint32_t inside = read_term();
        close(')');
        // In parentheses a list is one operand: (a - b) - c is not a - (b - c), and neither joins the list around it.
        query_.terms_[inside].source = since(begin);
        return inside;
    }
    if (c == '"' || c == '\'') {
        Value value;
        if (!scan_.literal(value.text)) refuse("TC101", "the literal is not closed", {begin, scan_.size() - begin}, std::string("end it with ") + c);
        if (scan_.peek() == c)
            refuse("TC101", "a quote cannot be doubled in this literal", {scan_.at - 1, 2}, "write it between quotes of the other kind");
        check_literal(value.text);
        Term literal;
        literal.kind = TermKind::literal;
        literal.type = TermType::string;
        literal.value = append(query_.values_, value, since(begin));
        return append_term(literal, begin);
    }
    if (is_digit(c) || (c == '.' && is_digit(scan_.peek(1)))) {
        Value value;
        value.is_number = true;
        value.text = scan_.number();
        Slice rest = scan_.peek_name();
        if (rest.size && (scan_.peek() == 'e' || scan_.peek() == 'E'))
            refuse("TC101", "XPath numbers have no exponent", since(begin), "write all the digits");
        value.number = number_value(scan_.view(value.text));
        Term number;
        number.value = append(query_.values_, value, since(begin));
        return append_term(number, begin);
    }
    Slice name = scan_.name();
    if (!name.size && c != '/' && c != '.' && c != '@' && c != '*') refuse_here("an expression");
    scan_.skip_space();
    if (name.size) check_opening(name);
    if (name.size && scan_.peek() == '(' && !is_kind_test(scan_.view(name))) return read_term_call(name);
    scan_.at = begin;
    return no_term;
}

uint32_t QueryParser::read_term_call(Slice name) {
    const TermFunctionTraits* traits = find_term_function(scan_.view(name));
    if (!traits) refuse_function(name);
    Nesting nesting(*this, scan_.at);
    ++scan_.at;
    scan_.skip_space();
    std::vector<uint32_t> arguments;
    while (scan_.peek() != ')') {
        arguments.push_back(read_term());
        scan_.skip_space();
        if (scan_.peek() != ',') break;
        ++scan_.at;
        scan_.skip_space();
        if (scan_.peek() == ')') refuse_here("an argument");
    }
    close(')');
    if (arguments.size() < traits->arguments_min || (traits->arguments_max != any_number && arguments.size() > traits->arguments_max))
        refuse("TC103", shown(name) + "() takes " + argument_words(*traits), since(name.begin), {});
    Term call;
    call.kind = TermKind::call;
    call.type = traits->type;
    call.function = traits->function;
    call.uses_context = traits->context && (arguments.empty() || traits->function == TermFunction::lang);
    call.uses_position = traits->function == TermFunction::position || traits->function == TermFunction::last;
    for (size_t i = 0; i < arguments.size(); ++i) {
        Term& argument = query_.terms_[arguments[i]];
        if (traits->items && argument.type != TermType::items)
            refuse("TC106", "the argument of " + shown(name) + "() is a path", argument.source, "as in " + shown(name) + "(a/b)");
        call.uses_context |= argument.uses_context;
        call.uses_position |= argument.uses_position;
        call.variables |= argument.variables;
        if (i + 1 < arguments.size()) argument.next = arguments[i + 1];
    }
    if (!arguments.empty()) call.first = arguments[0];
    if (traits->function == TermFunction::matches) read_regex(call);
    return append_term(call, name.begin);
}

// The regular expression of a call of matches(). Refused where it is malformed, at its place in the text.
Regex QueryParser::read_regex(const Term& call) {
    const Term& pattern = query_.terms_[query_.terms_[call.first].next];
    const uint32_t flags = pattern.next;
    for (uint32_t argument : {query_.terms_[call.first].next, flags})
        if (argument != no_term && query_.terms_[argument].kind != TermKind::literal)
            refuse("TC106", argument == flags ? "the flags of matches() are a literal" : "the pattern of matches() is a literal",
                   query_.terms_[argument].source, "as in matches(@a, \"^x+$\", \"i\")");
    const Slice text = query_.values_[pattern.value].text;
    const Slice flags_text = flags == no_term ? Slice{text.end(), 0} : query_.values_[query_.terms_[flags].value].text;
    try {
        return Regex(query_.view(text), query_.view(flags_text));
    } catch (Failure& failure) {
        if (failure.position > text.size || (failure.position == text.size && failure.length == 0 && flags_text.size)) {
            failure.position += flags_text.begin - text.size;            // of the flags
            failure.length = 1;
        } else {
            failure.position += text.begin;
        }
        throw;
    }
}

std::string QueryParser::argument_words(const TermFunctionTraits& traits) {
    auto words = [](unsigned count) { return count == 0 ? "no argument" : count == 1 ? "1 argument" : std::to_string(count) + " arguments"; };
    if (traits.arguments_max == any_number) return "at least " + words(traits.arguments_min);
    if (traits.arguments_min == traits.arguments_max) return std::string(words(traits.arguments_min));
    return std::to_string(traits.arguments_min) + " or " + words(traits.arguments_max);
}

// Predicates of a step or of what is filtered, from the first '[' on. `first` is the head of their list, which may have some already.
bool QueryParser::read_term_predicates(uint32_t& first) {
    const bool outer = in_term_predicate_, bound = bound_;
    bool positional = false;
    in_term_predicate_ = true;
    bound_ = false;
    uint32_t last = first, end = scan_.at;
    while (last != no_term && query_.terms_[last].next != no_term) last = query_.terms_[last].next;
    do {
        const uint32_t begin = scan_.at;
        Nesting nesting(*this, begin);
        ++scan_.at;
        scan_.skip_space();
        if (scan_.peek() == ']') refuse("TC101", "the predicate is empty", {begin, scan_.at + 1 - begin}, "leave it out, or write a condition");
        uint32_t predicate = read_term();
        close(']');
        end = scan_.at;
        const Term& term = query_.terms_[predicate];
        positional |= term.type == TermType::number || term.uses_position;
        if (last == no_term) first = predicate;
        else query_.terms_[last].next = predicate;
        last = predicate;
        scan_.skip_space();
    } while (scan_.peek() == '[');
    scan_.at = end;
    in_term_predicate_ = outer;
    bound_ = bound;
    return positional;
}

// The steps after a slash, or the first ones of a relative path.
void QueryParser::read_term_steps(Term& path, bool gap) {
    uint32_t last = no_term, steps = 0;
    auto link = [&](const TermStep& step, uint32_t begin) {
        // a//b is a/descendant::b where nobody counts.
        bool down = step.axis == TermAxis::child || step.axis == TermAxis::descendant;
        if (last != no_term && down && !step.positional) {
            TermStep& before = query_.term_steps_[last];
            if (before.axis == TermAxis::descendant_or_self && before.test == TermTest::any_item && before.predicates == no_term) {
                before = step;
                before.axis = TermAxis::descendant;
                return;
            }
        }
        if (++steps > query_limits.steps_max && !is_accepted_)
            refuse_limit("TC323", "steps in one path", "steps_max", query_limits.steps_max, since(begin));
        uint32_t index = append(query_.term_steps_, step, since(begin));
        if (last == no_term) path.steps = index;
        else query_.term_steps_[last].next = index;
        last = index;
    };
    while (true) {
        scan_.skip_space();
        uint32_t begin = scan_.at;
        TermStep step;
        read_term_step(step);
        if (gap) {
            TermStep all;
            all.axis = TermAxis::descendant_or_self;
            all.test = TermTest::any_item;
            link(all, begin);
        }
        link(step, begin);
        uint32_t end = scan_.at;
        scan_.skip_space();
        if (scan_.peek() != '/') {
            scan_.at = end;
            return;
        }
        ++scan_.at;
        gap = scan_.peek() == '/';
        if (gap) ++scan_.at;
    }
}

void QueryParser::read_term_step(TermStep& step) {
    uint32_t begin = scan_.at;
    if (scan_.peek() == '.') {
        step.test = TermTest::any_item;
        step.axis = scan_.peek(1) == '.' ? TermAxis::parent : TermAxis::self;
        scan_.at += step.axis == TermAxis::parent ? 2 : 1;
        step.source = since(begin);
        scan_.skip_space();
        if (scan_.peek() == '[')
            refuse("TC105", "'" + shown(step.source) + "' takes no predicate", {scan_.at, 1},
                   step.axis == TermAxis::parent ? "write parent::*[…]" : "put it on the step before, or write self::*[…]");
        scan_.at = step.source.end();
        return;
    }
    if (scan_.peek() == '@') {
        ++scan_.at;
        scan_.skip_space();
        step.axis = TermAxis::attribute;
    } else {
        Slice name = scan_.name();
        scan_.skip_space();
        if (name.size && scan_.peek() == ':' && scan_.peek(1) == ':') {
            bool known = false;
            for (const auto& [spelling, axis] : axis_names)
                if (scan_.view(name) == spelling) {
                    step.axis = axis;
                    known = true;
                }
            if (!known) refuse_axis(name);
            scan_.at += 2;
            scan_.skip_space();
        } else {
            scan_.at = begin;
        }
    }
    read_term_test(step);
    step.source = since(begin);
    while (predicate_follows()) step.positional |= read_term_predicates(step.predicates);
}

// At a '[', or at a '/' before one: x/[p] means x[p].
bool QueryParser::predicate_follows() {
    const uint32_t before = scan_.at;
    scan_.skip_space();
    if (scan_.peek() == '/') {
        ++scan_.at;
        scan_.skip_space();
    }
    if (scan_.peek() == '[') return true;
    scan_.at = before;
    return false;
}

void QueryParser::read_term_test(TermStep& step) {
    if (scan_.peek() == '*') {
        ++scan_.at;
        if (scan_.peek() == ':')
            refuse("TC101", "'*:' is not XPath 1.0", {scan_.at - 1, 2}, "write *[local-name()='x'] for x in any namespace");
        return;
    }
    uint32_t begin = scan_.at;
    Slice name = scan_.name();
    if (!name.size && scan_.peek() == '[')
        refuse("TC101", "there is no step before this predicate", {scan_.at, 1}, "write '*[…]' for any element");
    if (!name.size) refuse_here("a step", is_digit(scan_.peek()) ? "'/' leads to a step; numbers are divided with 'div'" : "");
    uint32_t end = scan_.at;
    scan_.skip_space();
    if (scan_.peek() == '(') {
        std::string_view kind = scan_.view(name);
        if (!is_kind_test(kind)) refuse_function(name, true);
        step.test = kind == "text" ? TermTest::text : kind == "node" ? TermTest::any_item
                    : kind == "comment" ? TermTest::comment : TermTest::instruction;
        ++scan_.at;
        scan_.skip_space();
        char quote = scan_.peek();
        if (step.test == TermTest::instruction && (quote == '"' || quote == '\'')) {
            if (!scan_.literal(step.local)) refuse("TC101", "the literal is not closed", {scan_.at, 1}, std::string("end it with ") + quote);
            step.has_target = true;
        }
        close(')');
        return;
    }
    scan_.at = end;
    if (scan_.peek() == ':') {                                   // a call of p:f(): that the prefix is unbound is not the point
        ++scan_.at;
        const bool named = scan_.name().size;
        const Slice function = since(begin);
        scan_.skip_space();
        if (named && scan_.peek() == '(') refuse_function(function);
        scan_.at = end;
    }
    Step named;
    named.kind = step.axis == TermAxis::attribute ? StepKind::attribute : StepKind::element;
    read_name(named, name);
    step.test = named.test == Test::any_namespace ? TermTest::any_namespace : TermTest::name;
    step.prefix = named.prefix;
    step.local = named.local;
    step.uri = named.uri;
}

}  // namespace treecast
