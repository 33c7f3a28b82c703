// New names and their namespaces, and the declarations of elements that are unwrapped.
//
// Theory of operation. The elements are visited in document order. For each, two things are known: what is bound at its place in
// the source (scopes.hpp), and what is bound in the output around it. The latter is as in some scope of the source, except
// perhaps for the default namespace. Where the two agree, which is nearly everywhere, its own declarations are right as they
// are. Where they differ, because an element around it was unwrapped or has a new default namespace, its start tag gets what is
// missing. Prefixes that are bound in the output but not in the source do no harm and are not tracked.
#include "render/restructure_step.hpp"

#include "base/failure.hpp"
#include "render/copy.hpp"

#include <algorithm>

namespace treecast {

namespace {

// A name for a message, cut between characters.
std::string shown(std::string_view name) {
    constexpr size_t most = 80;
    if (name.size() <= most) return std::string(name);
    size_t cut = most;
    while ((static_cast<unsigned char>(name[cut]) & 0xC0) == 0x80) --cut;
    return std::string(name.substr(0, cut)) + "…";
}

}  // namespace

// Marks the items, then visits all elements, or only the items if nothing else can be affected.
bool RestructureStep::rename(const Transformation& list, const Change& change, const Items& items) {
    const Document& d = *document_;
    target_ = {list.view(change.name.prefix), list.view(change.name.local), list.view(change.name.uri)};
    marked_ = Fate::renamed;
    target_declared_ = target_at_root_ = spelt_ = false;
    for (size_t i = 0; i < d.declarations.size() && !target_declared_; ++i) {
        const NamespaceDeclaration& declared = d.declarations[i];
        target_declared_ = d.source.substr(declared.prefix_begin, declared.prefix_size) == target_.prefix;
    }
    element_marks_.assign(d.elements(), 0);
    attribute_marks_.assign(d.attribute_name.size(), 0);
    for (Evaluator::Item item : items) {
        if (item.kind == StepKind::element) element_marks_[item.index] = 1;
        if (item.kind == StepKind::attribute) attribute_marks_[item.index] = 1;
    }
    // In a document without declarations, only a new default namespace affects other elements.
    bool concerns_others = d.declarations.size() || (target_.prefix.empty() && !target_.uri.empty());
    bool fits = concerns_others ? walk() : rename_items(items);
    if (target_at_root_) {
        declarations_.clear();
        append_declaration({target_.prefix, target_.uri}, declarations_);
        edits_.insert(d.start[0] + 1 + static_cast<uint32_t>(element_qname(d, 0).size()), declarations_);
    }
    return fits;
}

bool RestructureStep::rename_items(const Items& items) {
    declarations_.clear();
    std::string_view name = spell(Scopes::outermost);
    uint32_t last = none;
    for (Evaluator::Item item : items) {
        if (item.kind == StepKind::text) continue;
        uint32_t element = item.kind == StepKind::element ? item.index : owner_of(*document_, item.index);
        if (element == last) continue;           // in document order an element and its attributes stand together
        last = element;
        put_names(element, element_marks_[element], has_marked_attributes(element), name);
        if (edits_.text_bytes() > size_max_) return false;
    }
    return true;
}

// Scopes are inherited from the parent unless the element declares something, so most elements need no search.
bool RestructureStep::walk() {
    const Document& d = *document_;
    auto count = static_cast<uint32_t>(d.elements());
    scopes_.begin(d);
    missing_ = Missing();
    scope_of_.resize(count);
    in_force_.resize(count);
    size_t declared = 0;
    for (uint32_t element = 0; element < count; ++element) {
        uint32_t parent = d.parent[element];
        bool opens = declared < d.declarations.size() && d.declarations[declared].element == element;
        while (declared < d.declarations.size() && d.declarations[declared].element == element) ++declared;
        scope_of_[element] = opens             ? scopes_.scope_of(element)
                             : parent == none ? Scopes::outermost
                                              : scope_of_[parent];
        bool attributes = !attribute_marks_.empty() && has_marked_attributes(element);
        visit(element, element_marks_[element] ? marked_ : Fate::stays, attributes);
        if (edits_.text_bytes() > size_max_) return false;
    }
    return true;
}

// Decides which declarations an element's start tag needs, given what is bound around it in the output.
void RestructureStep::visit(uint32_t element, Fate fate, bool attributes) {
    uint32_t parent = document_->parent[element], scope = scope_of_[element];
    InForce outer = parent == none ? InForce() : in_force_[parent];
    if (fate == Fate::unwrapped) {
        in_force_[element] = outer;
        return;
    }
    in_force_[element] = {scope, false, {}};
    bool agrees = !outer.other_default && outer.scope == (parent == none ? Scopes::outermost : scope_of_[parent]);
    bool renamed = fate == Fate::renamed;
    if (agrees && !renamed && !attributes) return;
    declarations_.clear();
    bool other_default = renamed && target_.prefix.empty() && bound(scope, "") != target_.uri;
    if (!agrees) declare_missing(element, outer, !other_default);
    if (other_default) declare_default(element, outer);
    put_names(element, renamed, attributes, renamed || attributes ? spell(scope) : std::string_view());
}

// Declares what others bound at the element in the source and what is not bound around it in the output.
// Siblings mostly need the same, so the last answer is kept.
void RestructureStep::declare_missing(uint32_t element, const InForce& outer, bool default_too) {
    Missing asked{outer, scope_of_[element], default_too};
    bool own = !scopes_.declared_at(element).empty();
    if (own || missing_ != asked) {
        missing_ = own ? Missing() : asked;
        missing_text_.clear();
        auto here = scopes_.bindings(scope_of_[element]);
        wanted_.assign(here.begin(), here.end());
        bool has_default = !wanted_.empty() && wanted_.front().prefix.empty();
        if (!has_default) wanted_.insert(wanted_.begin(), NamespaceBinding());
        auto there = scopes_.bindings(outer.scope);
        size_t at = 0;                           // both are sorted by prefix
        for (const NamespaceBinding& binding : wanted_) {
            while (at < there.size() && there[at].prefix < binding.prefix) ++at;
            bool found = at < there.size() && there[at].prefix == binding.prefix;
            std::string_view uri = found ? there[at].uri : std::string_view();
            if (binding.prefix.empty() && outer.other_default) uri = outer.default_uri;
            if (uri == binding.uri || (binding.prefix.empty() && !default_too)) continue;
            if (!own || !declares(element, binding.prefix)) append_declaration(binding, missing_text_);
        }
    }
    declarations_ += missing_text_;
}

// The new name has no prefix, and its namespace differs from the one that unprefixed names have here.
void RestructureStep::declare_default(uint32_t element, const InForce& outer) {
    in_force_[element].other_default = true;
    in_force_[element].default_uri = target_.uri;
    if (!declares(element, "")) {
        if (default_of(outer) != target_.uri) append_declaration({"", target_.uri}, declarations_);
        return;
    }
    read_start_tag(*document_, element, parts_);
    for (const TagPart& part : parts_) {
        if (document_->source.substr(part.name, part.name_end - part.name) != "xmlns") continue;
        append_declaration({"", target_.uri}, declarations_);
        edits_.remove(part.begin, part.end);
    }
}

bool RestructureStep::declares(uint32_t element, std::string_view prefix) {
    auto own = scopes_.declared_at(element);
    return std::any_of(own.begin(), own.end(),
                       [&](const NamespaceDeclaration& found) { return scopes_.binding(found).prefix == prefix; });
}

std::string_view RestructureStep::bound(uint32_t scope, std::string_view prefix) {
    auto bindings = scopes_.bindings(scope);
    auto less = [](const NamespaceBinding& binding, std::string_view wanted) { return binding.prefix < wanted; };
    auto found = std::lower_bound(bindings.begin(), bindings.end(), prefix, less);
    return found != bindings.end() && found->prefix == prefix ? found->uri : std::string_view();
}

std::string_view RestructureStep::default_of(const InForce& in_force) {
    return in_force.other_default ? in_force.default_uri : bound(in_force.scope, "");
}

// The new name as it must be written where `scope` is bound, with the declaration that it needs.
std::string_view RestructureStep::spell(uint32_t scope) {
    if (!spelt_ || spelt_scope_ != scope) {
        spelt_ = true;
        spelt_scope_ = scope;
        spelt_declaration_.clear();
        std::string prefix = choose_prefix(scope);
        spelt_name_ = prefix.empty() ? std::string() : prefix + ':';
        spelt_name_ += target_.local;
    }
    declarations_ += spelt_declaration_;
    return spelt_name_;
}

// Prefers the requested prefix. If it is taken here, uses another prefix of the same namespace, or makes one up.
std::string RestructureStep::choose_prefix(uint32_t scope) {
    std::string prefix(target_.prefix);
    if (prefix.empty() || prefix == "xml") return prefix;
    if (!target_declared_) {
        target_at_root_ = true;
        return prefix;
    }
    std::string_view taken = bound(scope, prefix);
    if (taken == target_.uri) return prefix;
    if (!taken.empty()) {
        for (const NamespaceBinding& binding : scopes_.bindings(scope))
            if (!binding.prefix.empty() && binding.uri == target_.uri) return std::string(binding.prefix);
        for (uint32_t number = 1; !bound(scope, prefix).empty(); ++number)
            prefix = std::string(target_.prefix) + std::to_string(number);
    }
    append_declaration({prefix, target_.uri}, spelt_declaration_);
    return prefix;
}

// An element's name occurs twice: in its start tag and, if there is one, in its end tag.
void RestructureStep::put_names(uint32_t element, bool element_too, bool attributes, std::string_view name) {
    const Document& d = *document_;
    auto name_size = static_cast<uint32_t>(element_qname(d, element).size());
    uint32_t name_at = d.start[element] + 1;
    if (element_too) edits_.replace(name_at, name_at + name_size, name);
    if (!declarations_.empty()) edits_.insert(name_at + name_size, declarations_);
    if (attributes) rename_attributes(element, name);
    if (element_too && has_end_tag(d, element)) {
        uint32_t end_name = end_tag_of(d, element) + 2;
        edits_.replace(end_name, end_name + name_size, name);
    }
}

// Two attributes with one expanded name are not well-formed, so the step is refused.
void RestructureStep::rename_attributes(uint32_t element, std::string_view name) {
    const Document& d = *document_;
    uint32_t target = d.names->find(target_.prefix.empty() ? std::string_view() : target_.uri, target_.local);
    read_start_tag(d, element, parts_);
    uint32_t attribute = d.attribute_begin[element], alike = 0;
    for (const TagPart& part : parts_) {
        if (part.declares) continue;
        bool marked = attribute_marks_[attribute];
        alike += marked || d.attribute_name[attribute] == target;
        if (marked) edits_.replace(part.name, part.name_end, name);
        ++attribute;
    }
    if (alike < 2) return;
    Failure failure(Family::query, "TC119",
                    "the step gives an element " + shown(element_qname(d, element)) + " two attributes " + shown(name),
                    change_->source.begin);
    failure.length = change_->source.size;
    failure.hint = "drop one of them in a step before";
    throw failure;
}

bool RestructureStep::has_marked_attributes(uint32_t element) const {
    const uint8_t* end = attribute_marks_.data() + document_->attribute_end(element);
    return std::find(attribute_marks_.data() + document_->attribute_begin[element], end, 1) != end;
}

}  // namespace treecast
