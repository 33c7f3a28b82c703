// Finds the form of a transformation's text: the text without the literals of its clauses. render_form.hpp says why.
//
// It only looks at characters, because it runs for every subscription; a wrong guess costs time, never correctness.
// So it gives up at anything that could make a literal mean more than a value.
#include "render/render_form.hpp"

#include "document/characters.hpp"

namespace treecast {

namespace {

bool in_name(char c) { return character::is(c, character::name) || static_cast<unsigned char>(c) >= 0x80; }

// Whether `word` is here as a word: not part of a step, variable or attribute of that name.
bool word_at(std::string_view text, size_t at, std::string_view word) {
    if (text.compare(at, word.size(), word) != 0) return false;
    if (at + word.size() < text.size() && in_name(text[at + word.size()])) return false;
    if (at == 0) return true;
    char before = text[at - 1];
    return !in_name(before) && before != '/' && before != '$' && before != '@';
}

}  // namespace

void find_form(std::string_view text, Form& form) {
    form.text.clear();
    form.literals.clear();
    form.head = 0;
    size_t at = text.find_first_not_of(" \t\r\n"), copied = 0;
    bool plain = at != std::string_view::npos && word_at(text, at, "for");
    while (plain && at < text.size()) {
        char c = text[at];
        if (c == '"' || c == '\'') {
            size_t end = text.find(c, at + 1);
            if (end == std::string_view::npos) break;
            form.text.append(text, copied, at + 1 - copied);
            form.literals.push_back(text.substr(at + 1, end - at - 1));
            copied = end;
            at = end + 1;
            continue;
        }
        // A `let` may carry a literal into what is built. A constructor and a comment have quotes of their own.
        // A tested name is not a value. And string() is read differently depending on whether its literal is empty.
        bool comment = c == '(' && text.substr(at).starts_with("(:"), string = c == 's' && word_at(text, at, "string");
        if (c == '{' || comment || string || (c == 'l' && (word_at(text, at, "let") || word_at(text, at, "local-name")))) break;
        if (c == 'r' && word_at(text, at, "return")) {
            form.text.append(text, copied, at - copied);
            form.head = form.text.size();
            form.text.append(text, at, std::string_view::npos);
            return;
        }
        ++at;
    }
    form.text = text;
    form.literals.clear();
}

}  // namespace treecast
