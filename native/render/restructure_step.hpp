// One step of a list on one tree: from what it selects to the bytes that it leaves. Private to restructure.cpp.
#pragma once

#include "document/document.hpp"
#include "evaluate/evaluate.hpp"
#include "query/transformation.hpp"
#include "render/markup.hpp"
#include "render/scopes.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace treecast {

// Keeps scratch between calls.
class RestructureStep {
public:
    using Items = std::vector<Evaluator::Item>;

    // Appends to `out` what the step leaves of the document's root, given the items that its paths select, in document order.
    // Returns false, with `out` in an undefined state, if `out` would have more than `size_max` bytes.
    // The document has no references to entities that the caller gave. Throws Failure (TC119).
    bool apply(const Transformation& list, const Change& change, const Document& document, const Items& items,
               uint64_t size_max, std::string& out);

private:
    void drop(const Items& items);
    void keep(const Items& items);
    bool unwrap(const Items& items);
    bool rename(const Transformation& list, const Change& change, const Items& items);
    void place_items(const Items& items);                  // the texts among them, into places_

    // -- names and namespaces; restructure_names.cpp
    enum class Fate : uint8_t { stays, unwrapped, renamed };
    struct Target {                                        // the new name
        std::string_view prefix, local, uri;
    };
    struct InForce {                                       // what is bound in the output inside an element
        uint32_t scope = Scopes::outermost;                // as in this scope of the source,
        bool other_default = false;                        // but for the default namespace
        std::string_view default_uri;
        bool operator==(const InForce&) const = default;
    };
    struct Missing {                                       // what was asked last of declare_missing()
        InForce outer;
        uint32_t scope = none;
        bool default_too = false;
        bool operator==(const Missing&) const = default;
    };
    bool rename_items(const Items& items);
    bool walk();
    void visit(uint32_t element, Fate fate, bool attributes);
    void declare_missing(uint32_t element, const InForce& outer, bool default_too);
    void declare_default(uint32_t element, const InForce& outer);
    bool declares(uint32_t element, std::string_view prefix);
    std::string_view bound(uint32_t scope, std::string_view prefix);
    std::string_view default_of(const InForce& in_force);
    std::string_view spell(uint32_t scope);
    std::string choose_prefix(uint32_t scope);
    void put_names(uint32_t element, bool element_too, bool attributes, std::string_view name);
    void rename_attributes(uint32_t element, std::string_view name);
    bool has_marked_attributes(uint32_t element) const;

    const Document* document_ = nullptr;
    const Change* change_ = nullptr;
    uint64_t size_max_ = 0;
    Edits edits_;
    std::vector<uint8_t> element_marks_, attribute_marks_, text_marks_;
    std::vector<TagPart> parts_;
    std::vector<TextPlace> places_, child_texts_;
    std::vector<std::pair<uint32_t, uint32_t>> kept_;      // ranges of bytes

    Scopes scopes_;
    Target target_;
    Fate marked_ = Fate::stays;                            // what happens to marked elements
    bool target_declared_ = false;                         // some start tag declares its prefix
    bool target_at_root_ = false;                          // none does, so the root has to
    std::vector<uint32_t> scope_of_;                       // by element
    std::vector<InForce> in_force_;                        // by element
    std::vector<NamespaceBinding> wanted_;
    Missing missing_;
    std::string missing_text_;
    bool spelt_ = false;                                   // the new name, for one scope
    uint32_t spelt_scope_ = 0;
    std::string spelt_name_, spelt_declaration_;
    std::string declarations_;                             // to be put into the start tag at hand
};

}  // namespace treecast
