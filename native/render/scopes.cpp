// Namespace scopes of a document; scopes.hpp has the theory.
#include "render/scopes.hpp"

#include "base/output.hpp"
#include "render/escape.hpp"

#include <algorithm>

namespace treecast {

namespace {
constexpr size_t gathered_max = 1u << 16;        // bindings kept for further questions
}

// Declarations are sorted by element, so one pass finds each scope's outer one: the nearest that still contains it.
void Scopes::begin(const Document& document) {
    document_ = &document;
    gathered_.clear();
    scopes_.assign(1, Scope{none, 0, 0, 0, 0, 0});
    const Document& d = document;
    for (uint32_t at = 0; at < d.declarations.size();) {
        uint32_t element = d.declarations[at].element, first = at;
        while (at < d.declarations.size() && d.declarations[at].element == element) ++at;
        uint32_t outer = static_cast<uint32_t>(scopes_.size() - 1);
        while (outer != outermost && scopes_[outer].element + d.size[scopes_[outer].element] <= element)
            outer = scopes_[outer].outer;
        scopes_.push_back({element, outer, first, at, none, 0});
    }
}

// The two common cases, no declarations and only those of the root, need no search.
uint32_t Scopes::scope_of(uint32_t element) const {
    if (scopes_.size() == 1) return outermost;
    if (scopes_.size() == 2 && scopes_[1].element == 0) return 1;
    auto behind = std::upper_bound(scopes_.begin() + 1, scopes_.end(), element,
                                   [](uint32_t wanted, const Scope& scope) { return wanted < scope.element; });
    auto scope = static_cast<uint32_t>(behind - scopes_.begin() - 1);
    while (scope != outermost && scopes_[scope].element + document_->size[scopes_[scope].element] <= element)
        scope = scopes_[scope].outer;
    return scope;
}

std::span<const NamespaceBinding> Scopes::bindings(uint32_t scope) {
    Scope& wanted = scopes_[scope];
    if (wanted.begin == none) gather(wanted);
    return {gathered_.data() + wanted.begin, wanted.end - wanted.begin};
}

// Inner declarations come first, so a stable sort by prefix puts the one in force before those it hides.
void Scopes::gather(Scope& scope) {
    if (gathered_.size() > gathered_max) {
        for (size_t i = 1; i < scopes_.size(); ++i) scopes_[i].begin = none;
        gathered_.clear();
    }
    size_t begin = gathered_.size();
    for (const Scope* at = &scope; at->element != none; at = &scopes_[at->outer])
        for (uint32_t i = at->declarations; i < at->declarations_end; ++i) {
            NamespaceBinding found = binding(document_->declarations[i]);
            if (found.prefix != "xml") gathered_.push_back(found);
        }
    auto first = gathered_.begin() + static_cast<std::ptrdiff_t>(begin);
    std::stable_sort(first, gathered_.end(), [](const auto& a, const auto& b) { return a.prefix < b.prefix; });
    gathered_.erase(std::unique(first, gathered_.end(), [](const auto& a, const auto& b) { return a.prefix == b.prefix; }),
                    gathered_.end());
    // An empty URI takes the default namespace back, which is the same as no binding.
    if (gathered_.size() > begin && gathered_[begin].uri.empty()) gathered_.erase(gathered_.begin() + static_cast<std::ptrdiff_t>(begin));
    scope.begin = static_cast<uint32_t>(begin);
    scope.end = static_cast<uint32_t>(gathered_.size());
}

std::span<const NamespaceDeclaration> Scopes::declared_at(uint32_t element) const {
    if (scopes_.size() == 1) return {};
    auto found = std::lower_bound(scopes_.begin() + 1, scopes_.end(), element,
                                  [](const Scope& scope, uint32_t wanted) { return scope.element < wanted; });
    if (found == scopes_.end() || found->element != element) return {};
    return {document_->declarations.data() + found->declarations, found->declarations_end - found->declarations};
}

NamespaceBinding Scopes::binding(const NamespaceDeclaration& declaration) const {
    return {document_->source.substr(declaration.prefix_begin, declaration.prefix_size), document_->names->uri_text(declaration.uri)};
}

template <class Out>
void append_declaration(NamespaceBinding binding, Out& out) {
    out += binding.prefix.empty() ? " xmlns" : " xmlns:";
    out += binding.prefix;
    out += "=\"";
    append_escaped_attribute(binding.uri, out);
    out += '"';
}

template void append_declaration(NamespaceBinding, std::string&);
template void append_declaration(NamespaceBinding, Bytes&);

}  // namespace treecast
