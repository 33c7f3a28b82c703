// Reads what surrounds the root element: white space, comments, processing instructions, the DOCTYPE.
//
// This part is short in every real document, so it is written for clarity, not speed. Nothing in it reaches the columns.
// The buffer ends with NULs, so looking a few bytes ahead never leaves it. unexpected() turns a NUL at the end into TC209.
#include "document/reader_state.hpp"

#include "document/encoding.hpp"

#include <algorithm>
#include <cstring>

namespace treecast {

// Returns where the root element starts.
const char* ReaderState::prolog() {
    std::string_view text(base, static_cast<size_t>(end - base));
    size_t skipped = has_utf8_bom(text) ? bom_bytes : 0;
    const char* at = base + skipped;
    // An empty document is incomplete, not wrong.
    if (at == end) unexpected(end, "");
    try {
        at += parse_xml_declaration(text.substr(skipped)).length;
    } catch (Failure& failure) {
        failure.position += skipped;
        throw;
    }
    bool seen_doctype = false;
    for (;;) {
        at = skip_spaces(at);
        if (*at != '<') unexpected(at, "expected '<'", "a document starts with markup");
        if (at[1] == '?') {
            at = instruction(at);
        } else if (at[1] == '!' && at[2] == '-') {
            at = comment(at);
        } else if (at[1] == '!') {
            if (seen_doctype) unexpected(at + 2 == end ? end : at, "a document may have one DOCTYPE only");
            at = doctype(at);
            seen_doctype = true;
        } else {
            return at;
        }
    }
}

// After the root element only white space, comments and instructions may follow.
void ReaderState::epilog(const char* at) {
    for (;;) {
        at = skip_spaces(at);
        if (at == end) return;
        if (*at == '<' && at[1] == '?') at = instruction(at);
        else if (*at == '<' && at[1] == '!') at = comment(at);
        else unexpected(at + (*at == '<' && at + 1 == end), "nothing but comments may follow the root element");
    }
}

// memchr finds candidates quickly. XML forbids two hyphens inside a comment, so the first pair must end it.
const char* ReaderState::comment(const char* at) {
    at = expect(at, "<!--", "expected a comment (<!--), or an element");
    document.has_marks = true;
    for (;;) {
        auto* dash = static_cast<const char*>(std::memchr(at, '-', static_cast<size_t>(end - at)));
        if (!dash) unexpected(end, "");
        if (dash[1] != '-') {
            at = dash + 1;
            continue;
        }
        if (dash[2] != '>') unexpected(dash + 2 < end ? dash : end, "'--' must not stand inside a comment");
        return dash + 3;
    }
}

// Checks the target, then skips to the end. The content of an instruction is never used.
const char* ReaderState::instruction(const char* at) {
    const char* target = at + 2;
    document.has_marks = true;
    const char* stop = scan_name(target, "expected a name after '<?'");
    std::string_view name(target, static_cast<size_t>(stop - target));
    if (stop == end) unexpected(end, "");
    // The target `xml`, in any case, is reserved for the declaration at the very start.
    if (name.size() == 3 && (name[0] | 32) == 'x' && (name[1] | 32) == 'm' && (name[2] | 32) == 'l')
        fail("TC201", at, "an XML declaration may stand only at the very start", "remove what comes before it");
    if (name.find(':') != std::string_view::npos) fail("TC207", target, "the name of a processing instruction has a colon");
    if (*stop == '?' && stop[1] == '>') return stop + 2;
    if (!is_space(*stop)) unexpected(stop + (*stop == '?'), "expected white space or '?>' in a processing instruction");
    for (;;) {
        auto* mark = static_cast<const char*>(std::memchr(stop, '?', static_cast<size_t>(end - stop)));
        if (!mark) unexpected(end, "");
        if (mark[1] == '>') return mark + 2;
        stop = mark + 1;
    }
}

// Only the shape is checked. Identifiers are not resolved, and nothing is fetched.
const char* ReaderState::doctype(const char* at) {
    at = expect(at, "<!DOCTYPE", "expected <!DOCTYPE, a comment or the root element");
    if (!is_space(*at)) unexpected(at, "expected white space after <!DOCTYPE");
    at = skip_spaces(at);
    const char* name = at;
    at = scan_name(at, "expected the name of the root element in the DOCTYPE");
    if (at == end) unexpected(end, "");
    check_qname({name, static_cast<size_t>(at - name)}, name);
    const char* spaced = skip_spaces(at);
    if (spaced > at && (*spaced == 'S' || *spaced == 'P')) {
        bool pubid = *spaced == 'P';
        at = expect(spaced, pubid ? "PUBLIC" : "SYSTEM", "expected SYSTEM, PUBLIC, '[' or '>' in the DOCTYPE");
        for (int i = 0; i < 1 + pubid; ++i) {
            if (!is_space(*at)) unexpected(at, "expected white space in the DOCTYPE");
            at = literal(skip_spaces(at), pubid && i == 0);
        }
        spaced = skip_spaces(at);
    }
    at = spaced;
    if (*at == '[') at = skip_spaces(internal_subset(at + 1));
    if (*at != '>') unexpected(at, "expected '>' at the end of the DOCTYPE");
    return at + 1;
}

// A system identifier may contain anything but its quote; a public identifier has its own small alphabet.
const char* ReaderState::literal(const char* at, bool pubid) {
    if (*at != '"' && *at != '\'') unexpected(at, "expected a quoted identifier in the DOCTYPE");
    char quote = *at++;
    auto* stop = static_cast<const char*>(std::memchr(at, quote, static_cast<size_t>(end - at)));
    if (!stop) stop = end;
    if (pubid)
        for (; at < stop; ++at)
            if (!character::is(*at, character::pubid)) fail("TC201", at, "a public identifier must not have this character");
    if (stop == end) unexpected(end, "");
    return stop + 1;
}

namespace {
// Whether the text ends where a comment or instruction may have been about to begin.
bool cut_note(std::string_view rest) { return rest == "" || rest == "<" || rest == "<!" || rest == "<!-"; }
}  // namespace

// Comments and instructions are harmless. Any declaration could change the document (entities, defaults), so it is refused.
const char* ReaderState::internal_subset(const char* at) {
    for (;;) {
        at = skip_spaces(at);
        if (*at == ']') return at + 1;
        if (*at == '<' && at[1] == '?') at = instruction(at);
        else if (*at == '<' && at[1] == '!' && at[2] == '-') at = comment(at);
        else if (cut_note({at, static_cast<size_t>(end - at)})) unexpected(end, "");
        else throw brings_dtd(static_cast<size_t>(at - base));
    }
}

Failure brings_dtd(size_t offset) {
    Failure failure(Family::document, "TC205", "the document brings its own DTD, which is never processed", offset);
    failure.hint = "remove the declarations between '[' and ']' of the DOCTYPE";
    return failure;
}

// Searches the prolog for a DTD without checking anything else.
// It runs after another error: if there is a DTD, that is the more useful message.
size_t find_dtd(std::string_view text) {
    auto starts = [&](size_t at, std::string_view what) { return text.substr(at, what.size()) == what; };
    // The offset right after the next `what`, or the end of the text.
    auto behind = [&](size_t at, std::string_view what) {
        size_t found = text.find(what, at);
        return found == std::string_view::npos ? text.size() : found + what.size();
    };
    // The end of a comment or instruction, or `at` if there is neither. Forgives an XML declaration that ends in '>'.
    auto skip_note = [&](size_t at) {
        if (starts(at, "<!--")) return behind(at, "-->");
        return starts(at, "<?") ? behind(at, starts(at, "<?xml ") ? ">" : "?>") : at;
    };
    // Skip notes until the DOCTYPE, then its identifiers, then notes inside the brackets.
    size_t at = text.find('<');
    while (at < text.size() && skip_note(at) != at) at = text.find('<', skip_note(at));
    if (at >= text.size() || !starts(at, "<!DOCTYPE")) return std::string_view::npos;
    for (++at; at < text.size() && text[at] != '['; ++at) {
        if (text[at] == '>') return std::string_view::npos;
        if (text[at] == '"' || text[at] == '\'') at = std::min(text.find(text[at], at + 1), text.size());
    }
    for (++at; at < text.size(); at = skip_note(at)) {
        while (at < text.size() && is_space(text[at])) ++at;
        if (at < text.size() && skip_note(at) == at) break;
    }
    return at < text.size() && text[at] != ']' && !cut_note(text.substr(at)) ? at : std::string_view::npos;
}

}  // namespace treecast
