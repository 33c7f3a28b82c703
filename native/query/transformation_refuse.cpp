// The messages of refusals in a transformation: XQuery that is not in the language, and things in the wrong place.
#include "query/advice.hpp"
#include "query/transformation_parser.hpp"

namespace treecast {

namespace {

// Words of XQuery that begin an expression or a clause, and are not part of the language. Those of XPath 2.0: query_refuse.cpp.
constexpr Advice outside[] = {
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
};

}  // namespace

void TransformationParser::expect_word(const char* word, const char* hint) {
    if (read_word(word)) return;
    std::string quoted = "'";
    (quoted += word) += '\'';
    refuse_operator(quoted.c_str(), hint);
}

// Reports what follows a complete expression. Where an operator does, the expression is none that it could work on.
void TransformationParser::check_end(const char* expected) {
    const char c = scan_.peek();
    if (operator_follows())
        refuse_here(expected, "operators work on paths and values, and this is built or listed");
    refuse_operator(expected, c == ';' ? "leave it out: a query is one expression" : c == ',' ? "put a sequence into parentheses: ($n/a, $n/b)" : "");
}

void TransformationParser::refuse_if_outside(Slice word) {
    std::string hint = find_advice(outside, scan_.view(word));
    if (!hint.empty()) refuse("TC116", "'" + shown(word) + "' is not part of the language", word, hint);
}

// A word of XQuery where an expression should begin. `name` is no function of XPath 1.0.
void TransformationParser::check_word(Slice name) {
    const std::string_view word = scan_.view(name);
    const char next = scan_.peek();
    const bool named = (word == "element" || word == "declare" || word == "import" || word == "xquery") && scan_.peek_name().size;
    const bool choice = (word == "typeswitch" || word == "switch") && next == '(';
    if (next == '{' || next == '$' || named || choice) refuse_if_outside(name);
}

// The innermost variable.
std::string TransformationParser::context_free_item() const {
    if (!clauses_) return {};
    return "$" + (scope_variables_.size() > 1 ? shown(scope_variables_.back().name) : "msg");
}

// A keyword where a path should begin: something is missing before it.
void TransformationParser::check_reserved(Slice path) {
    for (std::string_view reserved : {"return", "then", "else", "where", "order", "ascending", "descending"}) {
        if (scan_.view(path) != reserved) continue;
        scan_.at = path.begin;
        refuse_here("an expression", "write " + context_free_item() + "/a");
    }
}

// Where only a pattern may stand, and none does. If it is no expression at all, that is what is refused.
void TransformationParser::refuse_no_pattern(const Mark& before, const Failure& failure) {
    if (failure.limit) throw failure;
    QueryParser::go_back(before);
    scan_.skip_space();
    const uint32_t begin = scan_.at, term = read_term();
    if (query_.term(term).uses_context) refuse_relative(term);
    if (!failure.code.empty()) throw failure;
    refuse(out_.list_ ? "TC117" : "TC116", "only a path that goes down can stand here", since(begin),
           "write steps to children, descendants, attributes or text(); other conditions stand in brackets");
}

}  // namespace treecast
