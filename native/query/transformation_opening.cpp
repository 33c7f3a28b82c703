// How a subscription's text begins: with a transformation, or with a path or condition.
#include "document/characters.hpp"
#include "query/transformation.hpp"

#include <algorithm>

namespace treecast {

namespace {

// Whether a text that begins with parentheses lists things, as `("a", //b)` does: by a comma in one of them. Other commas are
// those of calls: `(concat("a", //b)) = "c"` is a condition.
bool is_list(std::string_view text) {
    size_t first = text.find_first_not_of("( \t\r\n"), leading = 0, depth = 0;
    for (size_t at = 0; at < text.size(); ++at) {
        char c = text[at];
        if (c == '"' || c == '\'') {
            at = std::min(text.find(c, at + 1), text.size());
        } else if (c == '(' || c == '[') {
            ++depth;
            if (at < first) leading = depth;
        } else if (c == ')' || c == ']') {
            if (depth) --depth;
            leading = std::min(leading, depth);
        } else if (c == '{' || (c == ',' && depth && depth == leading)) {
            return true;
        }
    }
    return false;
}

}  // namespace

// Decides by the first words, and within parentheses by whether they hold a list. A wrong guess would report errors of the
// wrong language, so each word needs proof that it is not the name of an element.
bool is_transformation(std::string_view text) {
    const std::string_view whole = text;
    bool inside = false;                                  // of parentheses or braces: only here a path may be built
    while (true) {
        size_t at = text.find_first_not_of(" \t\r\n");
        if (at == std::string_view::npos) return false;
        text.remove_prefix(at);
        size_t comment = comment_size(text);
        if (!comment && text[0] != '(' && text[0] != '{') break;
        inside = inside || !comment;
        text.remove_prefix(comment ? comment : 1);
    }
    if (text[0] == '<') return true;
    bool braces = inside && whole[whole.find_first_not_of(" \t\r\n(")] == '{';
    if (inside && text[0] == '$') return true;
    if (inside && (text[0] == '"' || text[0] == '\'')) return braces || is_list(whole);
    size_t size = std::min(text.find_first_of(" \t\r\n$({\"'<"), text.size());
    std::string_view word = text.substr(0, size), rest = text.substr(size);
    if (rest.empty()) return false;
    bool space = is_space(rest[0]), comment = comment_size(rest);
    rest.remove_prefix(std::min(rest.find_first_not_of(" \t\r\n"), rest.size()));
    if (word == "if") return true;
    if (word == "for" || word == "let") return space || comment || rest.starts_with('$');
    for (std::string_view step : {"from", "drop", "keep", "rename", "unwrap"})
        if (word == step) return space || comment;
    for (std::string_view call : {"string", "count", "concat", "name", "attribute"})
        if (inside && word == call) return braces || word == "attribute" || is_list(whole);
    // XQuery that the language refuses, but with its own messages.
    for (std::string_view other : {"declare", "import", "xquery", "element", "some", "every", "validate"})
        if (word == other) return space && !rest.empty();
    return false;
}

}  // namespace treecast
