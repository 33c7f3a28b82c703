// The messages of all refusals: what is wrong, where, and how to write it in the language if there is a way.
//
// Most users know full XPath or another language. So the tables below map what they tried to what works here.
#include "query/advice.hpp"
#include "query/query_parser.hpp"

namespace treecast {

namespace {

// For paths that can only go down: what a list of steps changes, and what a `for` ranges over.
constexpr Advice axis_advice[] = {
    {"parent", "write //*[a] for //a/.."},
    {"ancestor", "write //b[.//a] for //a/ancestor::b"},
    {"ancestor-or-self", "write //b[descendant-or-self::a] for //a/ancestor-or-self::b"},
    {"following", "write //b[preceding::a] for //a/following::b"},
    {"following-sibling", "write //b[preceding-sibling::a] for //a/following-sibling::b"},
    {"preceding", "write //b[following::a] for //a/preceding::b"},
    {"preceding-sibling", "write //b[following-sibling::a] for //a/preceding-sibling::b"},
};

// Functions of XPath 2.0 and of XSLT that have a replacement. Prefixes that are usual for them are cut off before the search.
constexpr Advice function_advice[] = {
    {"ends-with", "use substring(x, string-length(x) - 2) = \"…\", which is for three characters"},
    {"lower-case", "use translate(x, \"ABC\", \"abc\") with all letters that may occur"},
    {"upper-case", "use translate(x, \"abc\", \"ABC\") with all letters that may occur"},
    {"exists", "write the path itself, or boolean(path)"},
    {"empty", "write not(path)"},
    {"data", "write the path itself, or string(path)"},
    {"id", "test the attribute: //*[@id = \"…\"]"},
    {"test", "write matches(x, \"…\")"},
    {"avg", "write sum(x) div count(x)"},
    {"max", "compare with the path: x > 3 holds where some x is greater than 3"},
    {"min", "compare with the path: x < 3 holds where some x is less than 3"},
    {"abs", "compare with both: x > 3 or x < -3"},
    {"string-join", "write concat(x, \"…\", y)"},
    {"replace", "write translate(x, \"a\", \"b\") for single characters"},
    {"doc", "the document is the one that is matched: $msg"},
    {"document", "the document is the one that is matched: $msg"},
    {"collection", "the document is the one that is matched: $msg"},
    {"decimal", "write number(x)"},
    {"integer", "write number(x)"},
    {"int", "write number(x)"},
    {"long", "write number(x)"},
    {"double", "write number(x)"},
    {"float", "write number(x)"},
};

// Words that begin an expression of XPath 2.0 and XQuery.
constexpr Advice opening_advice[] = {
    {"if", "write (a and b) or (not(a) and c) for the condition if (a) then b else c"},
    {"for", "leave it out: a condition on a path holds where some item of the path satisfies it"},
    {"some", "leave it out: a condition on a path holds where some item of the path satisfies it, as in b = 1"},
    {"every", "write not() of the opposite: not(b != 1)"},
    {"let", "write the value in place of the variable"},
};

// Operators that XPath 1.0 does not have.
constexpr Advice operator_advice[] = {
    {"eq", "write '='"},
    {"ne", "write '!='"},
    {"lt", "write '<'"},
    {"le", "write '<='"},
    {"gt", "write '>'"},
    {"ge", "write '>='"},
    {"is", "write count(a | b) = 1 for two paths that select one item each"},
    {"to", "compare with both ends: x >= 1 and x <= 3"},
    {"idiv", "write floor(a div b)"},
    {"union", "write '|'"},
    {"intersect", "write one path with both conditions: //a[b][c]"},
    {"except", "write one path with a condition: //a[not(b)]"},
    {"instance", "leave it out: the values of a document have no types"},
    {"castable", "write number(x) = number(x), which holds where x is a number"},
    {"cast", "write number(x) or string(x)"},
    {"treat", "leave it out: the values of a document have no types"},
    {"&&", "write 'and'"},
    {"&", "write 'and'"},
    {"||", "write 'or', or concat(a, b) to join texts"},
    {"==", "write '='"},
    {"=>", "write the call itself: f(x) for x => f()"},
    {"<<", "write a path with following::"},
    {">>", "write a path with preceding::"},
    {"!", "write not(…), or '!=' to compare"},
};

// Built from the table of functions, so that the hint never lags behind the language.
std::string function_hint() {
    std::string list = "the functions are ";
    for (const TermFunctionTraits& traits : term_functions) ((list += traits.name) += "()") += traits.function == term_functions.back().function ? "" : ", ";
    return list;
}

constexpr const char* relative_message = "the path is relative, and there is nothing that it could start from";

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

// The prefixes that functions of XPath 2.0, the types of XML Schema and EXSLT usually have.
bool is_usual_prefix(std::string_view prefix) {
    for (std::string_view usual : {"fn", "xs", "xsd", "re", "math", "str", "set", "exsl", "date"})
        if (prefix == usual) return true;
    return false;
}

// The word with which the user meant to open a list of steps or a FLWR query; empty if it is none of them.
std::string_view nearest_opening(std::string_view word) {
    for (std::string_view opening : {"drop", "keep", "rename", "unwrap", "from", "for"})
        if (differs_by_a_slip(word, opening)) return opening;
    return {};
}

}  // namespace

// A text that is no pattern. Whether it is a query all the same, and if not why, is known when it has been read as a term.
void QueryParser::no_pattern() { throw Failure(Family::query, "", "", scan_.at); }

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
    if (word == "$" && !clauses_) {
        ++scan_.at;
        found = {found.begin, 1 + scan_.name().size};
        refuse_variable(found);
    }
    if (word == "(" && next == ':') refuse_comment(found.begin);
    if (word == "(" && std::string_view(expected) == "a step")
        refuse("TC105", "parentheses cannot stand in place of a step", found, "write a/(b | c) as a/b | a/c");
    for (std::string_view quote : typographic_quotes)
        if (word == quote) hint = "write literals in plain quotes, \"…\" or '…'";
    if (word == "!") hint = "write not(…)";
    if (word == "/") hint = "one '/' for children, '//' for descendants";
    refuse("TC101", wanted + ", found '" + shown(found) + "'", found, std::move(hint));
}

// What follows a complete operand is no operator of XPath 1.0, or cannot stand there at all.
void QueryParser::refuse_operator(const char* expected, std::string hint) {
    scan_.skip_space();
    Slice found = scan_.peek_name();
    std::string_view rest = scan_.view(scan_.at, scan_.size());
    for (std::string_view sign : {"&&", "||", "&", "!"})
        if (!found.size && rest.starts_with(sign)) found = {scan_.at, static_cast<uint32_t>(sign.size())};
    refuse_foreign_operator(found);
    refuse_here(expected, std::move(hint));
}

void QueryParser::refuse_foreign_operator(Slice sign) {
    std::string hint = find_advice(operator_advice, scan_.view(sign));
    if (!hint.empty()) refuse("TC101", "'" + shown(sign) + "' is not an operator", sign, std::move(hint));
}

// A word that begins an expression of XQuery and XPath 2.0, as in if (…) and some $x, or a misspelt one.
void QueryParser::check_opening(Slice name) {
    const char next = scan_.peek();
    if (next != '$' && next != '(') return;
    const std::string_view word = scan_.view(name);
    if (std::string hint = find_advice(opening_advice, word); !hint.empty() && (word == "if") == (next == '('))
        refuse("TC116", "'" + std::string(word) + "' is not part of the language", name, std::move(hint));
    if (next == '$') check_slip(name);
}

// A text that begins with a word and then a path or a variable: the first word of a list of steps or a FLWR query, misspelt.
void QueryParser::check_slip(Slice name) {
    const std::string_view before = scan_.view(0, name.begin);
    if (before.find_first_not_of(" \t\r\n") != std::string_view::npos) return;
    if (std::string_view opening = nearest_opening(scan_.view(name)); !opening.empty())
        refuse("TC104", relative_message, name, "did you mean " + std::string(opening) + "?");
}

// An axis that exists in XPath gets advice; any other word gets the list of axes.
void QueryParser::refuse_axis(Slice name) {
    Slice where{name.begin, scan_.at + 2 - name.begin};
    if (scan_.view(name) == "namespace")
        refuse("TC102", "the axis namespace:: is not part of the language", where, "bind a prefix, and name elements and attributes with it: p:*");
    refuse("TC102", "there is no axis '" + shown(name) + "'", where, "the axes are those of XPath 1.0 without namespace::");
}

// In a path that goes down only.
void QueryParser::refuse_direction(std::string_view axis, Slice where) {
    refuse("TC102", "this path goes down only, and '" + shown(where) + "' does not", where, find_advice(axis_advice, axis));
}

// `step` means that the call was found where a step belongs. `name` may have a prefix.
void QueryParser::refuse_function(Slice name, bool step) {
    scan_.at = name.end();
    scan_.skip_space();
    if (scan_.peek(1) == ':') refuse_comment(scan_.at);
    Slice where{name.begin, scan_.at + 1 - name.begin};
    std::string_view function = scan_.view(name), prefix;
    if (size_t colon = function.find(':'); colon != std::string_view::npos) {
        prefix = function.substr(0, colon);
        function.remove_prefix(colon + 1);
    }
    const TermFunctionTraits* known = find_term_function(function);
    const std::string spelt(cut_text(function, 60));
    if (known && prefix.empty() && step)
        refuse("TC103", spelt + "() cannot stand in place of a step", where,
               known->arguments_max && known->arguments_min < 2 && known->type != TermType::boolean
                   ? "the function stands round the path: " + spelt + "(//a)"
                   : "write it in brackets behind the step");
    std::string hint;
    if (known) hint = "write " + spelt + "(…), without a prefix";
    else if (prefix.empty() || is_usual_prefix(prefix)) hint = find_advice(function_advice, function);
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
    std::string hint = "this path selects elements, attributes and text()";
    if (kind == "node" && axis == Axis::attribute) hint = "write @*";
    if (kind == "node" && axis == Axis::child) hint = "write *, or text()";
    if (kind == "node" && axis == Axis::descendant) hint = "write //*";
    if (kind == "text") hint = "text() stands below an element: a/text() or a//text()";
    refuse("TC103", "the test " + shown(name) + "() cannot stand here", where, hint);
}

void QueryParser::refuse_variable(Slice where) {
    if (clauses_)
        refuse("TC105", "in brackets paths start at the step, or at $msg", where,
               "put a condition on another variable into 'where'");
    refuse("TC105", "variables are not part of the language, '$msg' at the front of a path excepted", where,
           "$msg/a means /a");
}

// A term that depends on a context, where there is none: names the first path or function in it that does.
void QueryParser::refuse_relative(uint32_t term) {
    const Term* found = &query_.terms_[term];
    while (true) {
        const bool call = found->kind == TermKind::call;
        if (found->kind == TermKind::path && found->first == no_term) refuse_relative_path(without_parentheses(found->source));
        if (call && (found->first == no_term || found->function == TermFunction::lang)) refuse_context(*found);
        const Term* operand = &query_.terms_[found->first];
        while (!operand->uses_context) operand = &query_.terms_[operand->next];
        found = operand;
    }
}

// The source of a term in parentheses holds these too.
Slice QueryParser::without_parentheses(Slice source) const {
    constexpr std::string_view space = " \t\r\n";
    while (scan_.view(source).starts_with('(')) {
        const std::string_view inside = scan_.view({source.begin + 1, source.size - 2});
        const auto skipped = static_cast<uint32_t>(inside.find_first_not_of(space));
        source = {source.begin + 1 + skipped, static_cast<uint32_t>(inside.find_last_not_of(space)) + 1 - skipped};
    }
    return source;
}

// position(), name() and others that ask for the context.
void QueryParser::refuse_context(const Term& call) {
    const Slice source = without_parentheses(call.source);
    const std::string name(traits_of(call.function).name), own = shown(source), item = context_free_item();
    std::string hint = "write " + name + "(" + (item.empty() ? "/*" : item) + ")";
    if (call.function == TermFunction::lang)
        hint = "write it in brackets: " + (item.empty() ? "//*" : item) + "[" + own + "]";
    if (call.function == TermFunction::position || call.function == TermFunction::last)
        hint = "write it in brackets, behind a step: " + (item.empty() ? "//a" : item + "/a") + "[" + own + " = 1]";
    refuse("TC104", name + "() depends on a context, and there is none here", source, hint);
}

// The hint repeats the user's own path, behind something that it can start from.
void QueryParser::refuse_relative_path(Slice path) {
    scan_.at = path.begin;
    const Slice word = scan_.name();
    const uint32_t word_end = scan_.at;
    scan_.skip_space();
    if (scan_.at > word_end && scan_.peek() == '/') check_slip(word);
    auto starts = [&](std::string_view text) { return scan_.view(path).starts_with(text); };
    auto skip = [&](uint32_t bytes) { path = {path.begin + bytes, path.size - bytes}; };
    const Slice whole = path;
    std::string start = context_free_item(), hint;
    while (starts("./") && !starts(".//")) skip(2);
    const bool itself = scan_.view(path) == ".";
    if (!start.empty()) {
        check_reserved(whole);
        if (starts(".//")) skip(1);
        refuse("TC104", relative_message, whole, "write " + start + (itself ? "" : (starts("//") ? "" : "/") + shown(path, 120)));
    }
    if (starts(".//")) skip(3);
    scan_.at = path.begin;
    const std::string_view first = scan_.view(scan_.name());
    scan_.skip_space();
    const bool axis = scan_.peek() == ':' && scan_.peek(1) == ':';
    const std::string own = shown(path, 120);
    if (itself) hint = "write /* for the root element, or //* for any";
    else if (starts("@") || (first == "text" && scan_.peek() == '(')) hint = "write //" + own;
    else if (axis && first.starts_with("descendant")) hint = "write /" + own;
    else if ((axis && first != "child") || starts("..")) hint = "write //*/" + own;
    else hint = "write /" + own + " from the root element, or //" + own + " anywhere";
    refuse("TC104", relative_message, whole, hint);
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
