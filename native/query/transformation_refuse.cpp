// The messages of refusals in a transformation: XQuery that is not in the language, and things in the wrong place.
#include "query/advice.hpp"
#include "query/transformation_parser.hpp"

namespace treecast {

namespace {

// What XQuery has and the language does not.
constexpr Advice outside[] = {
    {"some", "a path in a condition holds where some item does: where $n/a = 1"},
    {"every", "write not() of the opposite: not($n/a != 1)"},
    {"typeswitch", "write if (…) then … else …"},
    {"switch", "write if (…) then … else …"},
    {"try", "leave it out: nothing here raises errors"},
    {"declare", "give prefixes as the subscription's namespaces"},
    {"import", "there are no modules"},
    {"xquery", "leave it out: a query has no prolog"},
    {"validate", "leave it out: nothing has a type here"},
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
    {"true", "conditions stand in where and if (…)"},
    {"false", "conditions stand in where and if (…)"},
};

}  // namespace

void TransformationParser::expect_word(const char* word, const char* hint) {
    if (read_word(word)) return;
    std::string quoted = "'";
    (quoted += word) += '\'';
    refuse_here(quoted.c_str(), hint);
}

// Reports what follows a complete expression, with advice for the usual cases.
void TransformationParser::check_end(const char* expected) {
    char c = scan_.peek();
    if (c == '=' || c == '!' || c == '>')
        refuse("TC116", "a comparison is a condition, and conditions are not delivered", {scan_.at, 1},
               "write if ($n/a = 1) then … else …, or put it into 'where'");
    check_arithmetic();
    std::string_view word = scan_.view(scan_.peek_name());
    if (word == "and" || word == "or")
        refuse("TC116", "conditions are not delivered", scan_.peek_name(),
               "write if ($n/a and $n/b) then … else …, or put it into 'where'");
    if (c == ';') refuse_here(expected, "leave it out: a query is one expression");
    refuse_here(expected, c == ',' ? "put a sequence into parentheses: ($n/a, $n/b)" : "");
}

void TransformationParser::refuse_if_outside(Slice word) {
    std::string hint = find_advice(outside, scan_.view(word));
    if (find_function(scan_.view(word))) hint = find_advice(outside, "not");    // conditions, too
    if (!hint.empty()) refuse("TC116", "'" + shown(word) + "' is not part of the language", word, hint);
}

// Something else is found where a path from a variable is expected.
void TransformationParser::refuse_unbound_path() {
    uint32_t begin = scan_.at;
    Slice name = scan_.peek_name();
    std::string_view word = scan_.view(name);
    for (std::string_view reserved : {"return", "then", "else", "where", "order", "ascending", "descending"})
        if (word == reserved) refuse_here("a path from a variable", "write $n/a");
    if (name.size) refuse_word(name);
    char c = scan_.peek();
    if (c != '@' && c != '*' && c != '.') refuse_here("a path from a variable", "write $n/a");
    refuse_relative(begin);
}

// The hint repeats the user's own path after the innermost variable.
void TransformationParser::refuse_relative(uint32_t begin) {
    uint32_t end = begin;
    constexpr std::string_view stops = " \t\r\n,)}]=<>!";
    while (end < scan_.size() && stops.find(scan_.view(end, end + 1)) == std::string_view::npos) ++end;
    std::string own(shown({begin, end - begin}));
    std::string name = scope_variables_.size() > 1 ? shown(scope_variables_.back().name) : "msg";
    std::string from = own == "." ? "$" + name : "$" + name + "/" + (own.starts_with("./") ? own.substr(2) : own);
    refuse("TC104", "the path is relative, and there is nothing that it could start from", {begin, end - begin},
           "write " + from);
}

// A word that starts no expression: a keyword of XQuery, an unknown function, or a relative path.
void TransformationParser::refuse_word(Slice name) {
    std::string_view word = scan_.view(name);
    scan_.at = name.end();
    bool prefixed = scan_.peek() == ':' && scan_.peek(1) != ':';
    if (prefixed) {
        ++scan_.at;
        scan_.name();
    }
    Slice whole = since(name.begin);
    scan_.skip_space();
    bool call = scan_.peek() == '(', braces = scan_.peek() == '{', variable = scan_.peek() == '$';
    bool named = (word == "element" || word == "declare" || word == "import" || word == "xquery") && scan_.peek_name().size;
    if (!prefixed && (braces || variable || named || (call && word != "text"))) refuse_if_outside(name);
    if (call && word != "text" && word != "node")
        refuse("TC116", "the function " + shown(whole) + "() is not part of the language", whole,
               word == "doc" || word == "collection" ? "the document is $msg"
                                                      : "the functions here are string(), count(), concat() and name()");
    refuse_relative(name.begin);
}

}  // namespace treecast
