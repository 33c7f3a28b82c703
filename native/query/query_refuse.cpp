// The messages of all refusals: what is wrong, where, and how to write it in the language if there is a way.
//
// Most users know full XPath or another language. So the tables below map what they tried to what works here.
#include "query/advice.hpp"
#include "query/query_parser.hpp"

namespace treecast {

namespace {

constexpr Advice axis_advice[] = {
    {"parent", "write the condition as a predicate: /a[b]/c for /a/b/../c"},
    {"ancestor", "start at the ancestor: //a[@x]//b for //b[ancestor::a[@x]]"},
    {"ancestor-or-self", "start at the ancestor: //a[@x]//b for //b[ancestor::a[@x]]"},
    {"following", "test both from a common ancestor: //c[a][b], or a subscription with ordered=True"},
    {"following-sibling", "test both from their parent: /p[a][b], or a subscription with ordered=True"},
    {"preceding", "test both from a common ancestor: //c[a][b], or a subscription with ordered=True"},
    {"preceding-sibling", "test both from their parent: /p[a][b], or a subscription with ordered=True"},
    {"namespace", "bind a prefix and test names with it: p:*"},
};

constexpr Advice function_advice[] = {
    {"count", "[x] tests for one x, [x[3]] for three"},
    {"boolean", "write the path itself: [x]"},
    {"string", "write the path itself: [x = \"…\"]"},
    {"number", "compare with a number: [x = 1]"},
    {"true", "leave it out"},
    {"false", "leave it out"},
    {"name", "write p:x, or *[local-name()='x']"},
    {"namespace-uri", "bind a prefix and write p:x or p:*"},
    {"normalize-space", "compare the text as it stands, or use contains(x, \"…\")"},
    {"string-length", "[x != \"\"] tests for text"},
    {"substring", "use starts-with(x, \"…\") or contains(x, \"…\")"},
    {"substring-before", "use contains(x, \"…\")"},
    {"substring-after", "use contains(x, \"…\")"},
    {"ends-with", "use substring(x, string-length(x) - 2) = \"…\", which is for three characters"},
    {"lower-case", "use translate(x, \"ABC\", \"abc\") with all letters that may occur"},
    {"upper-case", "use translate(x, \"abc\", \"ABC\") with all letters that may occur"},
    {"concat", "compare the parts one by one"},
    {"exists", "write the path itself: [x]"},
    {"empty", "write not(x)"},
    {"id", "test the attribute: //*[@id = \"…\"]"},
    {"lang", "test the attribute: [@xml:lang = \"en\"]"},
};

// For `where` and `if (…)`: there are no brackets, and paths start at variables.
constexpr Advice clause_advice[] = {
    {"boolean", "write the path itself: where $n/a"},
    {"exists", "write the path itself: where $n/a"},
    {"empty", "write not($n/a)"},
    {"data", "write the path itself: $n/a = \"…\""},
    {"number", "compare with a number: $n/a = 1"},
    {"name", "write $n/self::a"},
    {"local-name", "write $n/self::a, or $n/self::*[local-name()='a']"},
    {"string-length", "$n/a != \"\" tests for text"},
    {"lower-case", "compare with each spelling: $n/a = \"x\" or $n/a = \"X\""},
    {"upper-case", "compare with each spelling: $n/a = \"x\" or $n/a = \"X\""},
    {"id", "test the attribute: $n/a[@id = \"…\"]"},
    {"lang", "test the attribute: $n/@xml:lang = \"en\""},
};

// Built from the table of functions, so that the hint never lags behind the language.
std::string function_hint() {
    std::string list = "the functions are those of XPath 1.0: ";
    for (const TermFunctionTraits& traits : term_functions) ((list += traits.name) += "()") += traits.function == term_functions.back().function ? "" : ", ";
    return list;
}

// The characters that word processors put in place of quotes.
constexpr std::string_view typographic_quotes[] = {"\u201C", "\u201D", "\u201E", "\u2018", "\u2019", "\u00B4"};

// Whether one letter more, less or other, or two in the wrong order, make one word of the other.
bool differs_by_a_slip(std::string_view a, std::string_view b) {
    if (a.size() < b.size()) std::swap(a, b);
    size_t same = 0;
    while (same < b.size() && a[same] == b[same]) ++same;
    std::string_view rest_a = a.substr(same), rest_b = b.substr(same);
    if (a.size() == b.size() + 1) return rest_a.substr(1) == rest_b;
    if (a.size() != b.size() || rest_a.empty()) return false;
    bool swapped = rest_a.size() > 1 && rest_a[0] == rest_b[1] && rest_a[1] == rest_b[0] && rest_a.substr(2) == rest_b.substr(2);
    return swapped || rest_a.substr(1) == rest_b.substr(1);
}

// The word with which the user meant to open a list of steps or a FLWR query; empty if it is none of them.
std::string_view nearest_opening(std::string_view word) {
    for (std::string_view opening : {"drop", "keep", "rename", "unwrap", "from", "for"})
        if (differs_by_a_slip(word, opening)) return opening;
    return {};
}

}  // namespace

// Text of strangers may be long; messages show its beginning.
std::string QueryParser::shown(Slice slice, size_t bytes_max) const {
    std::string_view text = scan_.view(slice), cut = cut_text(text, bytes_max);
    return std::string(cut) + (cut.size() < text.size() ? "…" : "");
}

void QueryParser::refuse(const char* code, std::string message, Slice where, std::string hint) {
    Failure failure(Family::query, code, std::move(message), where.begin);
    failure.length = where.size;
    failure.hint = std::move(hint);
    throw failure;
}

// Limits of queries are fixed, so the hint says how to do without.
void QueryParser::refuse_limit(const char* code, const char* what, const char* name, uint32_t limit, Slice where) {
    std::string message = "more than " + std::to_string(limit) + " " + what + ", the limit (" + name + ")";
    Failure failure(Family::query, code, std::move(message), where.begin);
    failure.limit = true;
    failure.length = where.size;
    failure.hint = "split it into several queries; this limit is fixed";
    throw failure;
}

void QueryParser::refuse_depth(Slice where) {
    refuse_limit("TC322", "brackets and parentheses inside each other", "depth_max", query_limits.depth_max, where);
}

// Something other than `expected` comes next. Common mistakes get their own hint.
void QueryParser::refuse_here(const char* expected, std::string hint) {
    scan_.skip_space();
    std::string wanted = std::string("expected ") + expected;
    if (hint.empty()) hint = usual_hint_;
    if (scan_.ended()) refuse("TC101", wanted + ", but the query ends here", {scan_.at, 0}, std::move(hint));
    Slice found = scan_.peek_name();
    if (!found.size) found = {scan_.at, scan_.character_size(scan_.at)};
    std::string_view word = scan_.view(found);
    char next = scan_.peek(1);
    if (word == "$" && !bound_) {
        ++scan_.at;
        found = {found.begin, 1 + scan_.name().size};
        refuse_variable(found);
    }
    if (word == "(" && next == ':') refuse_comment(found.begin);
    if (word == "(" && !bound_)
        refuse("TC105", "parentheses cannot stand in place of a step", found, "write a/(b | c) as a/b | a/c");
    for (std::string_view quote : typographic_quotes)
        if (word == quote) hint = "write literals in plain quotes, \"…\" or '…'";
    if (word == "&") hint = "write 'and'";
    if (word == "|" && next == '|') hint = "write 'or'";
    if (word == "!") hint = "write not(…)";
    if (word == "eq") hint = "write '='";
    if (word == "ne") hint = "write '!='";
    if (word == "lt" || word == "le" || word == "gt" || word == "ge") hint = "write '<', '<=', '>' or '>='";
    if (word == "/" && !bound_) hint = "one '/' for children, '//' for descendants";
    refuse("TC101", wanted + ", found '" + shown(found) + "'", found, std::move(hint));
}

// An axis that exists in XPath gets advice; any other word gets the list of axes.
void QueryParser::refuse_axis(Slice name) {
    std::string_view axis = scan_.view(name);
    std::string hint = find_advice(axis_advice, axis);
    Slice where{name.begin, scan_.at + 2 - name.begin};
    if (hint.empty())
        refuse("TC102", "there is no axis '" + shown(name) + "'", where,
               "the axes are those of XPath 1.0 without namespace::");
    refuse("TC102", "unsupported axis: '" + shown(name) + "' cannot be matched on a stream", where, hint);
}

void QueryParser::refuse_parent(uint32_t at) {
    refuse("TC102", "unsupported axis: '..' cannot be matched on a stream", {at, 2},
           find_advice(axis_advice, "parent"));
}

// `step` means that the call was found where a step belongs, which changes the advice.
void QueryParser::refuse_function(Slice name, bool step) {
    scan_.at = name.end();
    scan_.skip_space();
    if (scan_.peek(1) == ':') refuse_comment(scan_.at);
    Slice where{name.begin, scan_.at + 1 - name.begin};
    std::string_view function = scan_.view(name);
    bool known = find_function(function) != nullptr;
    for (std::string_view other : {"not", "position", "last", "local-name"}) known = known || function == other;
    if (known || (step && !clauses_ && find_term_function(function)))
        refuse("TC103", shown(name) + "() cannot stand in place of a step", where, "write it as a predicate, in brackets");
    std::string hint = find_advice(function_advice, function);
    if (clauses_ && function == "count") hint = "count($n/a) stands in where and if (…), outside brackets";
    if (std::string clause = find_advice(clause_advice, function); bound_ && !clause.empty()) hint = clause;
    if (step && clauses_ && (function == "string" || function == "name" || function == "data"))
        hint = "the function stands round the path: " + std::string(function == "name" ? "name" : "string") + "($n/a)";
    if (hint.empty()) hint = function_hint();
    refuse("TC103", "the function " + shown(name) + "() is not part of the language", where, hint);
}

void QueryParser::refuse_comment(uint32_t at) {
    if (scan_.comments) refuse("TC101", "the comment is not closed", {at, 2}, "end it with :)");
    refuse("TC105", "comments are not part of the language", {at, 2}, "leave it out");
}

// The hint depends on the axis, because each has its own replacement.
void QueryParser::refuse_kind_test(Slice name, Axis axis) {
    scan_.at = name.end();
    scan_.skip_space();
    Slice where{name.begin, scan_.at + 1 - name.begin};
    std::string_view kind = scan_.view(name);
    std::string hint = "paths select elements, attributes and text()";
    if (kind == "node" && axis == Axis::attribute) hint = "write @*";
    if (kind == "node" && axis == Axis::child) hint = "write *, or text()";
    if (kind == "node" && axis == Axis::descendant) hint = "write //*";
    if (kind == "text") hint = "text() stands below an element: a/text() or a//text()";
    refuse("TC103", "the test " + shown(name) + "() cannot be matched here", where, hint);
}

// A branch that does not start with '/'. The hint repeats the user's own path with a slash in front.
void QueryParser::refuse_start() {
    uint32_t begin = scan_.at;
    if (scan_.ended())
        refuse("TC101", begin ? "expected a path, but the query ends here" : "the query is empty", {begin, 0},
               absolute_hint);
    char c = scan_.peek();
    if (c == '(') {
        if (scan_.peek(1) == ':') refuse_comment(begin);
        refuse("TC105", "a path at the top level takes no parentheses", {begin, 1},
               "(//a)[1] is /descendant::a[1]; (/a | /b)/c is /a/c | /b/c");
    }
    if (c == '<') refuse("TC105", "constructors are not paths", {begin, 1}, absolute_hint);
    bool dot = c == '.';
    if (dot && scan_.peek(1) == '.') refuse_parent(begin);
    Slice name = scan_.peek_name();
    if (!name.size && !dot && c != '*' && c != '@') refuse_here("a path", absolute_hint);
    if (name.size) {
        scan_.at = name.end();
        scan_.skip_space();
        std::string_view word = scan_.view(name);
        if (scan_.peek() == '(' && word != "text") refuse_function(name);
        if (word == "for" && scan_.peek() == '$')
            refuse("TC105", "FLWR expressions are not paths", name, absolute_hint);
        if (scan_.peek() == ':' && scan_.peek(1) == ':' && word != "child" && word != "descendant" && word != "self" &&
            word != "descendant-or-self" && word != "attribute")
            refuse_axis(name);
    }
    // A word and then a path: a list of steps or a FLWR query whose first word is misspelt.
    if (name.size && scan_.at > name.end() && (scan_.peek() == '/' || scan_.peek() == '$'))
        if (std::string_view step = nearest_opening(scan_.view(name)); !step.empty())
            refuse("TC104", "the path is relative, and there is nothing that it could start from", name,
                   "did you mean " + std::string(step) + "?");
    // The user's own path, up to the next '|' and without './'.
    std::string_view rest = scan_.view(begin, scan_.size());
    rest = rest.substr(0, rest.find('|'));
    while (rest.substr(0, 2) == "./" && rest.substr(0, 3) != ".//") rest.remove_prefix(2);
    if (rest.substr(0, 3) == ".//") rest.remove_prefix(3);
    while (!rest.empty() && (rest.back() == ' ' || rest.back() == '\n' || rest.back() == '\t')) rest.remove_suffix(1);
    std::string own(cut_text(rest, 120));
    if (own.size() < rest.size()) own += "…";
    std::string hint = "write /" + own + " from the root element, or //" + own + " anywhere";
    if (c == '@' || rest.substr(0, 4) == "text") hint = "write //" + own;
    if (own.empty() || own == ".") hint = "write /* for the root element, or //* for any";
    uint32_t end = begin;
    constexpr std::string_view stops = "/[| \t\r\n";
    while (end < scan_.size() && stops.find(scan_.view(end, end + 1)) == std::string_view::npos) ++end;
    refuse("TC104", "the path is relative, and there is nothing that it could start from", {begin, end - begin}, hint);
}

// Something follows a complete path at the top level.
void QueryParser::refuse_rest() {
    char c = scan_.peek();
    Slice word = scan_.peek_name();
    std::string_view text = scan_.view(word);
    if (c == '=' || c == '!' || c == '<' || c == '>')
        refuse("TC106", "a path at the top level cannot be compared", {scan_.at, 1},
               "write the comparison as a predicate: /a[. = \"x\"]");
    if (text == "and" || text == "or")
        refuse("TC105", "'" + shown(word) + "' cannot join paths at the top level", word,
               text == "or" ? "write '|'" : "write it as a predicate: /*[a and b]");
    check_arithmetic();
    if (c == ']' || c == ')')
        refuse("TC101", std::string("nothing is open that '") + c + "' could close", {scan_.at, 1}, "leave it out");
    refuse_here("'/', '[', '|' or the end of the query",
                c == ',' ? "write '|', or put what is to be built into parentheses: ($msg/a, $msg/b)" : "");
}

// The order of the tests matters: the most specific message comes first.
void QueryParser::refuse_comparison(const Operand& left, const Operand& right) {
    Slice where = since(left.source.begin);
    auto constant = [](const Operand& o) { return o.is == Is::literal || o.is == Is::number; };
    auto has = [&](Is is) { return left.is == is || right.is == is; };
    auto path = [](const Operand& o) { return o.is == Is::paths || o.is == Is::string; };
    if (path(left) && path(right))
        refuse("TC106", "a path is compared with a path", where, "one side of a comparison is a literal or a number");
    if (constant(left) && constant(right))
        refuse("TC106", "two constants are compared", where,
               "leave it out: it is the same for every document");
    if (has(Is::condition) || has(Is::name_test))
        refuse("TC106", "a condition is compared", where, "write the condition itself, or not(…)");
    if (has(Is::local_name))
        refuse("TC106", "local-name() is compared with = or != to a literal only", where, "write *[local-name()='x']");
    if (has(Is::count))
        refuse("TC106", "count() is compared with a number only", where, "write a number, as in count($n/a) > 1");
    if (has(Is::literal))
        refuse("TC106", "a position is compared with a literal", where, "write the number without quotes");
    refuse("TC106", "a position is compared with a number or with last() only", where,
           "write a number, as in [position() < 3]");
}

// A constant as a condition is legal XPath but always true or always false, so it is a mistake here.
void QueryParser::refuse_constant(const Operand& operand) {
    std::string hint;
    if (operand.is == Is::number) hint = "write position() = " + shown(operand.source);
    if (operand.is == Is::last) hint = "write position() = last()";
    if (operand.is == Is::position) hint = "write position() = 1, or any other number";
    if (operand.is == Is::local_name) hint = "write local-name()='x'";
    if (operand.is == Is::string) hint = "compare it: " + shown(operand.source) + " != \"\"";
    if (operand.is == Is::literal) hint = "compare it with a path: [. = " + shown(operand.source) + "]";
    if (bound_ && (operand.is == Is::literal || operand.is == Is::number))
        hint = "compare it with a path: $n/a = " + shown(operand.source);
    refuse("TC106", shown(operand.source) + " is no condition", operand.source, hint);
}

void QueryParser::refuse_variable(Slice where) {
    if (clauses_)
        refuse("TC105", "in brackets paths start at the step, or at $msg", where,
               "put a condition on another variable into 'where'");
    refuse("TC105", "variables are not part of the language, '$msg' at the front of a path excepted", where,
           "$msg/a means /a");
}

// A term that depends on where it is asked.
void QueryParser::refuse_relative(uint32_t term) {
    refuse("TC104", "the expression depends on a context, and at the top there is none", query_.terms_[term].source,
           "start its paths at the document: count(//a) for count(a)");
}

// The hint shows the binding in Python and on the command line.
void QueryParser::refuse_unbound(std::string_view prefix, Slice where) {
    std::string own(cut_text(prefix, 60));
    refuse("TC109", "the prefix '" + own + "' is not bound to a namespace", where,
           "bind it: namespaces={\"" + own + "\": \"…\"}, or --namespace " + own + "=… on the command line");
}

// Such a query would match every document, which is never what was meant.
void QueryParser::refuse_everything(Slice where) {
    refuse("TC107", "the path selects the document itself, or everything in it", where,
           "write /* for the root element, //* for all elements");
}

}  // namespace treecast
