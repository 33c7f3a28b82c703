// Copies elements and whole documents into the output, with the namespace declarations that they need there.
//
// A copy is a slice of the source, so it costs one memcpy. Only the start tag of the copied element may need additions.
#include "render/copy.hpp"

#include "base/output.hpp"
#include "document/characters.hpp"
#include "render/escape.hpp"

#include <algorithm>

namespace treecast {

namespace {

// The size of a document type declaration. Its internal subset, if any, has only comments and instructions.
size_t doctype_size(std::string_view text) {
    char quote = 0;
    size_t at = 2;
    for (; quote || text[at] != '>'; ++at) {
        if (quote) quote = text[at] == quote ? 0 : quote;
        else if (text[at] == '"' || text[at] == '\'') quote = text[at];
        else if (text.substr(at).starts_with("<!--")) at = text.find("-->", at + 4) + 2;
        else if (text.substr(at).starts_with("<?")) at = text.find("?>", at + 2) + 1;
    }
    return at + 1;
}

// Copies the comments and instructions before or after the root. The XML declaration and the DOCTYPE are left out.
template <class Out>
void copy_misc(std::string_view text, Out& out) {
    for (size_t open = text.find('<'); open != std::string_view::npos; open = text.find('<')) {
        text.remove_prefix(open);
        bool kept = !(text.starts_with("<?xml") && is_space(text[5]));
        size_t size;
        if (text.starts_with("<!--")) {
            size = text.find("-->", 4) + 3;
        } else if (text.starts_with("<?")) {
            size = text.find("?>", 2) + 2;
        } else {
            size = doctype_size(text);
            kept = false;
        }
        if (kept) out += text.substr(0, size);
        text.remove_prefix(size);
    }
}

// Copies bytes of the source as they are, except for references to entities that the caller gave.
// Those are replaced by their text, escaped, because nobody else knows these entities.
template <class Out>
void copy_source(const Document& document, uint32_t begin, uint32_t end, Out& out) {
    const char* source = document.source.data();
    if (document.references.size()) {
        const EntityReference* all = document.references.data();
        const EntityReference* last = all + document.references.size();
        const EntityReference* at = std::lower_bound(
            all, last, begin, [](const EntityReference& reference, uint32_t wanted) { return reference.begin < wanted; });
        for (; at != last && at->begin < end; ++at) {
            out.append(source + begin, at->begin - begin);
            std::string_view text(document.decoded.data() + at->text_begin, at->text_end - at->text_begin);
            if (!at->in_attribute) {
                append_escaped_text(text, out);
            } else {
                // The value may be between quotes of either kind.
                for (size_t from = 0;;) {
                    size_t stop = std::min(text.find('\'', from), text.size());
                    append_escaped_attribute(text.substr(from, stop - from), out);
                    if (stop == text.size()) break;
                    out += "&apos;";
                    from = stop + 1;
                }
            }
            begin = at->end;
        }
    }
    out.append(source + begin, end - begin);
}

// The declarations that a copied start tag needs in addition to its own: every namespace in scope at the element that is not
// in force in the output, as XQuery copies (preserve, inherit). Also xmlns="" where the output has a default namespace and
// the source has none.
template <class Out>
void append_missing_declarations(Scopes& scopes, uint32_t element, const NamespacesInForce& in_force, Out& out) {
    auto bindings = scopes.at(element);
    bool takes_back = in_force.size() && !in_force.uri("").empty();
    if (bindings.empty() && !takes_back) return;
    auto own = scopes.declared_at(element);
    auto declares = [&](std::string_view prefix) {
        return std::any_of(own.begin(), own.end(), [&](const auto& found) { return scopes.binding(found).prefix == prefix; });
    };
    for (const NamespaceBinding& binding : bindings) {
        if (binding.prefix.empty()) takes_back = false;
        if ((own.empty() || !declares(binding.prefix)) && (!in_force.size() || in_force.uri(binding.prefix) != binding.uri))
            append_declaration(binding, out);
    }
    if (takes_back && !declares("")) append_declaration({}, out);
}

}  // namespace

// Without any declarations on either side there is nothing to add, which is the usual case.
template <class Out>
void copy_element(const Document& document, Scopes& scopes, uint32_t element, const NamespacesInForce& in_force,
                  Out& out) {
    uint32_t begin = document.start[element], end = document.end[element];
    if (document.declarations.size() || in_force.size()) {
        uint32_t behind_name = begin + 1 + static_cast<uint32_t>(element_qname(document, element).size());
        out.append(document.source.data() + begin, behind_name - begin);
        append_missing_declarations(scopes, element, in_force, out);
        begin = behind_name;
    }
    copy_source(document, begin, end, out);
}

template <class Out>
void copy_document(const Document& document, Scopes& scopes, const NamespacesInForce& in_force, Out& out) {
    copy_misc(document.source.substr(0, document.start[0]), out);
    copy_element(document, scopes, 0, in_force, out);
    copy_misc(document.source.substr(document.end[0]), out);
}

template void copy_element(const Document&, Scopes&, uint32_t, const NamespacesInForce&, std::string&);
template void copy_element(const Document&, Scopes&, uint32_t, const NamespacesInForce&, Bytes&);
template void copy_document(const Document&, Scopes&, const NamespacesInForce&, std::string&);
template void copy_document(const Document&, Scopes&, const NamespacesInForce&, Bytes&);

}  // namespace treecast
