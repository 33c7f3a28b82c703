// Writes items and values: walks paths, copies elements, escapes strings, puts attributes into the open tag.
#include "render/escape.hpp"
#include "render/render_build.hpp"

#include <algorithm>
#include <charconv>

namespace treecast {

// --- direct paths

// Walks a path that only goes down by name. Calls visit(item) in document order until it returns true.
// A name that the document lacks ends it at once.
template <class Visit>
bool Builder::walk(const DirectStep* step, const DirectStep* end, Item from, Visit&& visit) {
    if (step == end) return visit(from);
    if (from.kind != StepKind::element) return false;
    const Document& d = *document_;
    uint32_t context = from.index, name = step->any ? none : names_->resolve(step->name);
    if (!step->any && name == none) return false;
    auto last = static_cast<uint32_t>(context == none ? d.elements() : context + d.size[context]);
    switch (step->kind) {
        case StepKind::element:
            for (uint32_t at = context == none ? 0 : context + 1; at < last; at += d.size[at], ++evaluator.looked_at)
                if ((step->any || d.name[at] == name) && walk(step + 1, end, {StepKind::element, at}, visit)) return true;
            return false;
        case StepKind::attribute: {
            if (context == none) return false;
            auto behind = static_cast<uint32_t>(d.attribute_end(context));
            for (uint32_t at = d.attribute_begin[context]; at < behind; ++at)
                if ((step->any || d.attribute_name[at] == name) && visit(Item{StepKind::attribute, at})) return true;
            return false;
        }
        case StepKind::text:
            if (context == none) return false;
            for (uint32_t at = d.text_begin[context]; at < d.text_end[context];) {
                uint32_t parent = d.text_parent[at];
                ++evaluator.looked_at;
                if (parent == context && visit(Item{StepKind::text, at})) return true;
                // If a text is further down, everything its parent holds is further down too.
                at = parent == context ? at + 1 : d.text_end[parent];
            }
            return false;
        case StepKind::comment:
        case StepKind::instruction: return false;        // refused when the query was added
    }
    return false;
}

// The first entry of a direct path is its variable, so the steps begin after it.
template <class Visit>
bool Builder::walk_path(const Op& op, Visit&& visit) {
    const DirectStep* steps = program_->steps.data() + op.first + 1;
    return walk(steps, steps + op.count, start_of(op), visit);
}

// Without a direct path the evaluator selects into a vector of the pool, because items may nest.
void Builder::items(const Op& op) {
    source_op_ = &op;
    if (op.first != no_entry) {
        walk_path(op, [&](Item found) {
            delivered_any_ = true;
            item(found);
            return false;
        });
        check_work();
        return;
    }
    ready();
    if (pool_used_ == pool_.size()) pool_.emplace_back();
    size_t at = pool_used_++;
    evaluator.select(op.entry, variables_, pool_[at]);
    check_work();
    if (!pool_[at].empty()) delivered_any_ = true;
    for (const Item& found : pool_[at]) item(found);
    --pool_used_;
}

// What a term selects; it is not what decides whether there is a delivery.
void Builder::term_items(const Op& op) {
    source_op_ = &op;
    ready();
    if (pool_used_ == pool_.size()) pool_.emplace_back();
    size_t at = pool_used_++;
    evaluator.select_items(op.entry, variables_, pool_[at]);
    check_work();
    for (const Item& found : pool_[at]) item(found);
    --pool_used_;
}

// Functions need only the first item, so the walk stops there.
bool Builder::first_of(const Op& op, Item& found) {
    bool any;
    if (op.first != no_entry) {
        any = walk_path(op, [&](Item item) {
            found = item;
            return true;
        });
    } else {
        ready();
        any = evaluator.first(op.entry, variables_, found);
    }
    check_work();
    delivered_any_ |= any;
    return any;
}

// A count that is the same for all bindings is taken once.
uint64_t Builder::count_of(const Op& op) {
    for (const auto& [known, count] : counted_)
        if (known == &op) return count;
    bool same = true;
    all_->query().each_path(op.entry, [&](uint32_t, const PathEntry& path) { same = same && path.absolute; });
    uint64_t count = 0;
    if (op.first != no_entry) {
        walk_path(op, [&](Item) {
            ++count;
            return false;
        });
    } else {
        ready();
        if (pool_used_ == pool_.size()) pool_.emplace_back();
        evaluator.select(op.entry, variables_, pool_[pool_used_]);
        count = pool_[pool_used_].size();
    }
    check_work();
    if (same) counted_.emplace_back(&op, count);
    return count;
}

// In an attribute's value items become strings, joined with spaces. Elsewhere they are copied.
void Builder::item(Item item) {
    if (in_value_) {
        if (joins_) *out_ += ' ';
        string_of(item);
        joins_ = true;
        return;
    }
    joins_ = false;
    switch (item.kind) {
        case StepKind::element:
            close_tag();
            check_room(item.index == none ? document_->source.size() : document_->end[item.index] - document_->start[item.index]);
            if (item.index == none) copy_document(*document_, scopes_, in_force_, *out_);
            else copy_element(*document_, scopes_, item.index, in_force_, *out_);
            break;
        case StepKind::attribute: attribute_item(item.index); break;
        case StepKind::text: characters(document_->value(document_->text[item.index])); break;
        case StepKind::comment:
        case StepKind::instruction: break;               // refused when the query was added
    }
}

// --- values

// Two values in a row are separated by a space (XQuery).
void Builder::value(uint32_t at) {
    if (joins_) escaped(" ");
    value_piece(at);
    joins_ = true;
}

void Builder::value_piece(uint32_t at) {
    const Op& op = program_->ops[at];
    Item found;
    switch (op.kind) {
        case OpKind::value: escaped(program_->literal(op.literal)); break;
        case OpKind::string_of:
            if (first_of(op, found)) string_of(found);
            break;
        case OpKind::name_of:
            if (!first_of(op, found) || found.index == none || found.kind == StepKind::text) break;
            characters(found.kind == StepKind::element ? element_qname(*document_, found.index)
                                                       : attribute_qname(*document_, found.index));
            break;
        case OpKind::term: {
            ready();
            std::string text;
            evaluator.append_text(op.entry, variables_, text);
            check_work();
            characters(text);
            break;
        }
        case OpKind::count: {
            uint64_t count = count_of(op);
            delivered_any_ |= count > 0;
            char digits[24];
            escaped({digits, static_cast<size_t>(std::to_chars(digits, digits + sizeof digits, count).ptr - digits)});
            break;
        }
        default:
            for (uint32_t part = at + 1; part < op.end; part = program_->ops[part].end) value_piece(part);
    }
}

// Text that is escaped already.
void Builder::escaped(std::string_view text) {
    if (text.empty()) return;
    check_room(text.size());
    if (!in_value_) close_tag();
    *out_ += text;
}

void Builder::characters(std::string_view text) {
    if (text.empty()) return;
    check_room(text.size());
    if (in_value_) {
        append_escaped_attribute(text, *out_);
    } else {
        close_tag();
        append_escaped_text(text, *out_);
    }
}

// The string of an element is written text by text, without joining it first.
void Builder::string_of(Item item) {
    const Document& d = *document_;
    if (item.kind == StepKind::attribute) {
        characters(d.value(d.attribute_value[item.index]));
    } else if (item.kind == StepKind::text) {
        characters(d.value(d.text[item.index]));
    } else {
        auto text = item.index == none ? 0 : d.text_begin[item.index];
        auto end = item.index == none ? static_cast<uint32_t>(d.text.size()) : d.text_end[item.index];
        for (; text < end; ++text) characters(d.value(d.text[text]));
    }
}

// --- attributes that come with the content

// The value is written straight into the open tag.
void Builder::computed_attribute(uint32_t at) {
    const Op& op = program_->ops[at];
    source_op_ = &op;
    const Name& name = all_->shape(op.shape).name;
    open_attribute(all_->view(name.prefix), all_->view(name.local), all_->view(name.uri));
    in_value_ = true;
    content(at + 1, op.end);
    in_value_ = false;
    *out_ += '"';
}

// A copied attribute keeps its prefix if possible; its namespace is what counts.
void Builder::attribute_item(uint32_t attribute) {
    uint32_t name = document_->attribute_name[attribute];
    std::string_view prefix;
    if (document_->names->uri_id(name)) {
        std::string_view qname = attribute_qname(*document_, attribute);
        prefix = qname.substr(0, qname.find(':'));
    }
    open_attribute(prefix, document_->names->local(name), document_->names->uri(name));
    append_escaped_attribute(document_->value(document_->attribute_value[attribute]), *out_);
    *out_ += '"';
    check_room(0);
}

// Attributes of an element must differ in their expanded names, whatever their prefixes are.
void Builder::open_attribute(std::string_view prefix, std::string_view local, std::string_view uri) {
    if (!elements_) refuse_attribute("an attribute stands outside any element", "put it into a constructor, or write string(…)");
    if (!tag_open_) refuse_attribute("an attribute comes after the content of its element", "put attributes first");
    bool twice = std::any_of(added_.begin(), added_.end(), [&](const Attribute& a) { return a.local == local && a.uri == uri; });
    all_->each_shape(all_->shape(open_shape_).other, [&](uint32_t, const Shape& attribute) {
        twice = twice || (all_->view(attribute.name.local) == local && all_->view(attribute.name.uri) == uri);
    });
    if (twice) refuse_attribute("an element gets two attributes of one name", "leave one of them out");
    if (!prefix.empty()) prefix = prefix_for(prefix, uri);
    added_.push_back({prefix, local, uri});
    *out_ += ' ';
    if (!prefix.empty()) (*out_ += prefix) += ':';
    (*out_ += local) += "=\"";
}

// The requested prefix, declared if necessary. If a constructor or an earlier attribute has bound it to another
// namespace, it gets a number, which counts the attributes, as Saxon's do.
std::string_view Builder::prefix_for(std::string_view prefix, std::string_view uri) {
    if (in_force_.uri(prefix) == uri) return prefix;
    if (takes_prefix(prefix)) {
        size_t number = added_.size() + 1;
        all_->each_shape(all_->shape(open_shape_).other, [&](uint32_t, const Shape&) { ++number; });
        std::string made;
        do made = std::string(prefix) + "_" + std::to_string(number++);
        while (!in_force_.uri(made).empty());
        prefixes_.push_back(std::move(made));
        prefix = prefixes_.back();
    }
    append_declaration({prefix, uri}, *out_);
    bind(prefix, uri, false);
    return prefix;
}

// Further out, only what an xmlns attribute of the query has bound counts: its scope is what is written inside.
// A prefix that an element or attribute merely has is bound on that element. On those inside it may mean something else,
// unless these use it themselves.
bool Builder::takes_prefix(std::string_view prefix) const {
    auto bindings = in_force_.bindings();
    for (size_t i = 0; i < bindings.size(); ++i)
        if (bindings[i].prefix == prefix && (i >= open_force_ || written_[i])) return true;
    const Shape& shape = all_->shape(open_shape_);
    bool used = all_->view(shape.name.prefix) == prefix;
    all_->each_shape(shape.other, [&](uint32_t, const Shape& attribute) { used = used || all_->view(attribute.name.prefix) == prefix; });
    return used || std::any_of(added_.begin(), added_.end(), [&](const Attribute& attribute) { return attribute.prefix == prefix; });
}

// Only a document shows this mistake, but it is one of the query: so it has a place in its text.
void Builder::refuse_attribute(const char* message, const char* hint) const {
    Slice source = all_->shape(source_op_->shape).source;
    Failure failure(Family::query, "TC119", message, source.begin);
    failure.length = source.size;
    failure.hint = hint;
    throw failure;
}

}  // namespace treecast
