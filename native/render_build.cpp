#include "render_build.hpp"

#include "escape.hpp"

#include <algorithm>
#include <charconv>

namespace treecast {

namespace {

constexpr size_t forces_max = 4096;
constexpr uint8_t made_bound = 1, made_delivered = 2;    // flags of what was made outside any `for`

}  // namespace

void Builder::begin(const Document& document) {
    document_ = &document;
    evaluator.begin(document);
    scopes_.begin(document);
    out.clear();
    made_.clear();
    bound_.clear();
    kept_.clear();
    if (forces_.size() > forces_max) forces_.clear();
}

void Builder::forget_keys() {
    made_.clear();
    bound_.clear();
    kept_.clear();
}

void Builder::start() {
    begin_ = out.size();
    end_max_ = std::min(begin_ + limits_.payload_bytes_max, limits_.document_payload_bytes_max);
    bindings_ = 0;
    elements_ = 0;
    entered_ = bound_any_ = delivered_any_ = tag_open_ = joins_ = in_value_ = false;
    in_force_.clear();
    force_ = 0;
    prefixes_.clear();
    stack_.clear();
    pool_used_ = 0;
}

void Builder::cut() {
    out.resize(begin_);
    made_.clear();
}

uint64_t Builder::room() const { return end_max_ > out.size() ? end_max_ - out.size() : 0; }

void Builder::refuse_size() const {
    bool own = begin_ + limits_.payload_bytes_max <= limits_.document_payload_bytes_max;
    uint64_t most = own ? limits_.payload_bytes_max : limits_.document_payload_bytes_max;
    const char* limit = own ? "payload_bytes_max" : "document_payload_bytes_max";
    Failure failure(Family::document, own ? "TC330" : "TC331",
                    std::string(own ? "the payload has" : "the payloads of this document have") + " more than " +
                        std::to_string(most) + " bytes, the limit " + limit);
    failure.limit = true;
    failure.hint = std::string("raise it with treecast.RenderLimits(") + limit + "=…), or deliver less";
    throw failure;
}

bool Builder::copy_selected(const Plan& plan) {
    std::vector<Item>& found = stack_;
    evaluator.select(plan.query, plan.settings.ordered, found);
    for (const Item& item : found) {
        if (item.kind == StepKind::element) {
            check_room(document_->end[item.index] - document_->start[item.index]);
            copy_element(*document_, scopes_, item.index, in_force_, out);
        } else {
            std::string_view text = evaluator.string_value(item);
            check_room(text.size());
            out += text;
        }
        check_room(0);
    }
    return !found.empty();
}

bool Builder::build(const Plan& plan, const Keys& keys) {
    plan_ = &plan;
    all_ = &plan.transformation;
    keys_ = &keys;
    covered_ = keys.uses(plan.key);
    shape(all_->root());
    check_room(0);
    return plan.binds ? bound_any_ : delivered_any_;
}

// Nothing is prepared for plans whose bytes are all there.
void Builder::ready() {
    if (entered_) return;
    entered_ = true;
    evaluator.enter(all_->query());
    for (uint32_t paths : plan_->paths) evaluator.prepare(paths);
    for (uint32_t condition : plan_->conditions) evaluator.prepare_condition(condition);
}

void Builder::shape(uint32_t index) {
    const Shape& shape = all_->shape(index);
    switch (shape.kind) {
        case ShapeKind::sequence:
            all_->each_shape(shape.first, [&](uint32_t child, const Shape&) { this->shape(child); });
            break;
        case ShapeKind::enclosed:
            if (shape.first != no_entry) this->shape(shape.first);
            break;
        case ShapeKind::choice:
            ready();
            this->shape(evaluator.holds(shape.condition, variables_) ? shape.first : shape.other);
            break;
        case ShapeKind::flwr: flwr(index, shape); break;
        case ShapeKind::element: element(index, shape); break;
        case ShapeKind::attribute: computed_attribute(shape); break;
        case ShapeKind::text:
            if (!in_value_) close_tag();
            out += plan_->literal(plan_->parts[index].opening);
            joins_ = false;
            break;
        case ShapeKind::items: items(shape); break;
        case ShapeKind::value:
        case ShapeKind::string_of:
        case ShapeKind::count:
        case ShapeKind::concat:
        case ShapeKind::name_of: value(shape); break;
        case ShapeKind::comment:
        case ShapeKind::instruction: {
            close_tag();
            bool comment = shape.kind == ShapeKind::comment;
            ((out += comment ? "<!--" : "<?") += all_->view(shape.text)) += comment ? "-->" : "?>";
            joins_ = false;
            break;
        }
    }
}

// Of a constructor: values of one part are never joined with those of the next.
void Builder::content(uint32_t first) {
    for (uint32_t at = first; at != no_entry; at = all_->shape(at).next) {
        joins_ = false;
        shape(at);
    }
    joins_ = false;
}

// --- elements

void Builder::element(uint32_t index, const Shape& shape) {
    const PartPlan& part = plan_->parts[index];
    close_tag();
    check_room(part.opening.size);
    uint64_t hash = 0;
    uint32_t covered = covered_;
    bool shared = share_ && part.key != no_entry && keys_->uses(part.key) > covered;
    uint8_t flags = static_cast<uint8_t>(bound_any_ * made_bound | delivered_any_ * made_delivered);
    if (shared) {
        if (reuse(part, hash)) return;
        covered_ = keys_->uses(part.key);
        bound_any_ = delivered_any_ = false;
    }
    uint64_t begin = out.size();
    size_t in_force = in_force_.size();
    uint32_t force = force_;
    open_force_ = in_force;
    open_tag(shape, part);
    tag_open_ = true;
    open_shape_ = index;
    added_.clear();
    ++elements_;
    content(shape.first);
    --elements_;
    if (tag_open_) {
        out += "/>";
        tag_open_ = false;
    } else {
        out += plan_->literal(part.closing);
    }
    if (in_force_.size() != in_force) {
        in_force_.cut(in_force);
        force_ = force;
    }
    if (!shared) return;
    covered_ = covered;
    auto made = static_cast<uint8_t>(bound_any_ * made_bound | delivered_any_ * made_delivered);
    bound_any_ = (made | flags) & made_bound;
    delivered_any_ = (made | flags) & made_delivered;
    key_words(part);             // once more: making it has used them
    made_.keep(words_, hash, {begin, out.size() - begin, made});
}

void Builder::key_words(const PartPlan& part) {
    words_.assign({part.key, force_});
    for (uint32_t i = part.outer; i < part.outer_end; ++i) {
        Item item = variables_[plan_->outer[i]];
        words_.push_back(static_cast<uint64_t>(item.kind) << 32 | item.index);
    }
}

bool Builder::reuse(const PartPlan& part, uint64_t& hash) {
    key_words(part);
    const Memo::Made* made = made_.find(words_, hash);
    if (!made) return false;
    check_room(made->size);
    out.append(out, made->begin, made->size);
    bound_any_ = bound_any_ || (made->flags & made_bound);
    delivered_any_ = delivered_any_ || (made->flags & made_delivered);
    joins_ = false;
    ++reused;
    return true;
}

void Builder::open_tag(const Shape& shape, const PartPlan& part) {
    out += plan_->literal(part.opening);
    if (!part.plain || in_force_.size()) {
        for (uint32_t at = shape.declarations; at != no_entry; at = all_->declared(at).next)
            declare(all_->view(all_->declared(at).prefix), all_->view(all_->declared(at).uri));
        declare(all_->view(shape.name.prefix), all_->view(shape.name.uri));
        all_->each_shape(shape.other, [&](uint32_t, const Shape& attribute) {
            if (attribute.name.prefix.size) declare(all_->view(attribute.name.prefix), all_->view(attribute.name.uri));
        });
    }
    all_->each_shape(shape.other, [&](uint32_t index, const Shape& attribute) { tag_attribute(index, attribute); });
}

void Builder::tag_attribute(uint32_t index, const Shape& attribute) {
    const PartPlan& part = plan_->parts[index];
    out += plan_->literal(part.opening);
    if (part.constant) return;
    in_value_ = true;
    content(attribute.first);
    in_value_ = false;
    out += '"';
}

void Builder::declare(std::string_view prefix, std::string_view uri) {
    if (in_force_.uri(prefix) == uri) return;
    append_declaration({prefix, uri}, out);
    bind(prefix, uri, false);
}

void Builder::bind(std::string_view prefix, std::string_view uri, bool of_item) {
    of_items_.resize(in_force_.size());
    of_items_.push_back(of_item);
    in_force_.bind(prefix, uri);
    std::string state(reinterpret_cast<const char*>(&force_), sizeof(force_));
    ((state += prefix) += '\0') += uri;
    force_ = forces_.try_emplace(std::move(state), static_cast<uint32_t>(forces_.size() + 1)).first->second;
}

// --- attributes that come with the content

void Builder::computed_attribute(const Shape& shape) {
    source_ = shape.source;
    open_attribute(all_->view(shape.name.prefix), all_->view(shape.name.local), all_->view(shape.name.uri));
    in_value_ = true;
    content(shape.first);
    in_value_ = false;
    out += '"';
}

void Builder::attribute_item(uint32_t attribute) {
    uint32_t name = document_->attribute_name[attribute];
    std::string_view prefix;
    if (document_->names->uri_id(name)) {
        std::string_view qname = attribute_qname(*document_, attribute);
        prefix = qname.substr(0, qname.find(':'));
    }
    open_attribute(prefix, document_->names->local(name), document_->names->uri(name));
    append_escaped_attribute(document_->value(document_->attribute_value[attribute]), out);
    out += '"';
    joins_ = false;
}

void Builder::open_attribute(std::string_view prefix, std::string_view local, std::string_view uri) {
    if (!tag_open_) {
        if (!elements_) refuse_attribute("an attribute stands outside any element", "put it into a constructor, or write string(…)");
        refuse_attribute("an attribute comes after the content of its element", "put attributes first");
    }
    const Shape& element = all_->shape(open_shape_);
    bool twice = std::any_of(added_.begin(), added_.end(), [&](const Attribute& a) { return a.local == local && a.uri == uri; });
    all_->each_shape(element.other, [&](uint32_t, const Shape& attribute) {
        twice = twice || (all_->view(attribute.name.local) == local && all_->view(attribute.name.uri) == uri);
    });
    if (twice) refuse_attribute("an element gets two attributes of one name", "leave one of them out");
    if (!prefix.empty()) prefix = prefix_for(prefix, uri);
    added_.push_back({local, uri});
    out += ' ';
    if (!prefix.empty()) (out += prefix) += ':';
    (out += local) += "=\"";
}

// The prefix asked for, declared if need be. Where a constructor has bound it to another namespace, or an attribute before this
// one, it gets a number, which counts the attributes, as Saxon's do.
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
    append_declaration({prefix, uri}, out);
    bind(prefix, uri, true);
    return prefix;
}

// What attribute items have bound further out does not count: it is no part of the query.
bool Builder::takes_prefix(std::string_view prefix) const {
    auto bindings = in_force_.bindings();
    for (size_t i = 0; i < bindings.size(); ++i)
        if (bindings[i].prefix == prefix && (i >= open_force_ || !of_items_[i])) return true;
    return false;
}

void Builder::refuse_attribute(const char* message, const char* hint) const {
    Failure failure(Family::query, "TC119", message, source_.begin);
    failure.length = source_.size;
    failure.hint = hint;
    throw failure;
}

// --- items and values

void Builder::items(const Shape& shape) {
    source_ = shape.source;
    const PathEntry& path = all_->query().path(shape.paths);
    if (path.first == no_entry && path.next == no_entry) {
        delivered_any_ = true;
        item(path.absolute ? Item{} : variables_[path.variable]);
        return;
    }
    ready();
    if (pool_used_ == pool_.size()) pool_.emplace_back();
    size_t at = pool_used_++;
    evaluator.select(shape.paths, variables_, pool_[at]);
    if (!pool_[at].empty()) delivered_any_ = true;
    for (const Item& found : pool_[at]) item(found);
    --pool_used_;
}

void Builder::item(Item item) {
    if (in_value_) {
        if (joins_) out += ' ';
        string_of(item);
        joins_ = true;
        return;
    }
    joins_ = false;
    switch (item.kind) {
        case StepKind::element:
            close_tag();
            check_room(item.index == none ? document_->source.size() : document_->end[item.index] - document_->start[item.index]);
            if (item.index == none) copy_document(*document_, scopes_, in_force_, out);
            else copy_element(*document_, scopes_, item.index, in_force_, out);
            break;
        case StepKind::attribute: attribute_item(item.index); break;
        case StepKind::text: characters(document_->value(document_->text[item.index])); break;
    }
}

void Builder::value(const Shape& shape) {
    if (joins_) {
        if (!in_value_) close_tag();
        out += ' ';
    }
    value_piece(shape);
    joins_ = true;
}

void Builder::value_piece(const Shape& shape) {
    switch (shape.kind) {
        case ShapeKind::value: characters(all_->view(shape.text)); break;
        case ShapeKind::items: {
            ready();
            Item found;
            if (!evaluator.first(shape.paths, variables_, found)) break;
            delivered_any_ = true;
            string_of(found);
            break;
        }
        case ShapeKind::name_of: {
            ready();
            Item found;
            if (!evaluator.first(shape.paths, variables_, found)) break;
            delivered_any_ = true;
            if (found.index == none || found.kind == StepKind::text) break;
            characters(found.kind == StepKind::element ? element_qname(*document_, found.index) : attribute_qname(*document_, found.index));
            break;
        }
        case ShapeKind::count: {
            ready();
            if (pool_used_ == pool_.size()) pool_.emplace_back();
            std::vector<Item>& found = pool_[pool_used_];
            evaluator.select(shape.paths, variables_, found);
            if (!found.empty()) delivered_any_ = true;
            char digits[24];
            auto end = std::to_chars(digits, digits + sizeof digits, found.size()).ptr;
            characters({digits, static_cast<size_t>(end - digits)});
            break;
        }
        default:                         // string(), concat(): of each argument
            all_->each_shape(shape.first, [&](uint32_t, const Shape& argument) { value_piece(argument); });
    }
}

void Builder::characters(std::string_view text) {
    if (text.empty()) return;
    check_room(text.size());
    if (in_value_) {
        append_escaped_attribute(text, out);
    } else {
        close_tag();
        append_escaped_text(text, out);
    }
}

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

}  // namespace treecast
