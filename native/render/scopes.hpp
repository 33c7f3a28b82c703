// The namespaces in scope: in the document, at an element; and in the output, where something is being written.
//
// Theory of operation. The elements that declare namespaces are listed in document order, each with the nearest one around it.
// The scope of an element is that of the last of them which starts at or before it and still contains it. It is found by binary
// search, then outward. In documents that declare nothing, or nothing below the root, no search is needed. The bindings of a
// scope are gathered when first needed, and all dropped together when there are too many.
#pragma once

#include "document/document.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace treecast {

// Of the prefix "", the default namespace. The prefix xml is always bound and never listed.
struct NamespaceBinding {
    std::string_view prefix, uri;
    bool operator==(const NamespaceBinding&) const = default;
};

class Scopes {
public:
    static constexpr uint32_t outermost = 0;     // the scope in which nothing is bound

    // Call it before the first question about a document; cheap if it declares nothing. The document must not change meanwhile.
    void begin(const Document& document);

    // The number of the scope inside an element's start tag: equal for elements with the same bindings in force.
    uint32_t scope_of(uint32_t element) const;

    // Its bindings, sorted by prefix, each prefix once. A default namespace that was taken back is not among them.
    // The span is valid until the next call, the strings as long as the document.
    std::span<const NamespaceBinding> bindings(uint32_t scope);
    std::span<const NamespaceBinding> at(uint32_t element) { return bindings(scope_of(element)); }

    // What an element's own start tag declares.
    std::span<const NamespaceDeclaration> declared_at(uint32_t element) const;
    NamespaceBinding binding(const NamespaceDeclaration& declaration) const;

private:
    struct Scope {
        uint32_t element = none;                 // that opens it
        uint32_t outer = 0;                      // Scope
        uint32_t declarations = 0, declarations_end = 0;
        uint32_t begin = none, end = 0;          // of gathered_; `none`: not gathered yet
    };
    void gather(Scope& scope);

    const Document* document_ = nullptr;
    std::vector<Scope> scopes_;                  // the first is `outermost`
    std::vector<NamespaceBinding> gathered_;
};

// What is bound in the output at the place that is being written. Start tags push, end tags pop: remember size() before a
// start tag, and cut() back to it after the end tag.
class NamespacesInForce {
public:
    size_t size() const { return bindings_.size(); }
    void cut(size_t size) { bindings_.resize(size); }
    void clear() { bindings_.clear(); }
    // The URI of a prefix; "" if it is not bound.
    std::string_view uri(std::string_view prefix) const {
        for (size_t i = bindings_.size(); i--;)
            if (bindings_[i].prefix == prefix) return bindings_[i].uri;
        return prefix == "xml" ? "http://www.w3.org/XML/1998/namespace" : std::string_view();
    }
    // Strings are not copied: they must stay valid as long as the binding is in force.
    void bind(std::string_view prefix, std::string_view uri) { bindings_.push_back({prefix, uri}); }
    std::span<const NamespaceBinding> bindings() const { return bindings_; }

private:
    std::vector<NamespaceBinding> bindings_;     // later ones hide earlier ones
};

// Appends ` xmlns:prefix="uri"`, or for the prefix "" ` xmlns="uri"`.
template <class Out> void append_declaration(NamespaceBinding binding, Out& out);     // std::string or Bytes

}  // namespace treecast
