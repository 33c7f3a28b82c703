// The Builder's main walk: programs, constructors and the reuse of what was built before. render_build.hpp has the theory.
#include "render/render_build.hpp"

#include "base/interrupt.hpp"

#include <algorithm>
#include <utility>

namespace treecast {

namespace {

constexpr size_t forces_max = 4096;
constexpr uint64_t looks_per_pause = 1u << 16, nanoseconds_per_look = 10;
constexpr uint8_t made_bound = 1, made_delivered = 2;    // flags of what was made

}  // namespace

// Limits count from `payloads_begin`, so a Builder that takes over continues the count.
void Builder::begin(const Document& document, Bytes& out, uint64_t payloads_begin) {
    document_ = &document;
    out_ = &out;
    document_begin_ = payloads_begin;
    evaluator.begin(document);
    scopes_.begin(document);
    forget_keys();
    if (forces_.size() > forces_max) forces_.clear();
}

void Builder::forget_keys() {
    made_.clear();
    bound_.clear();
    kept_.clear();
}

void Builder::add_original() {
    *out_ += document_->original;
    document_begin_ += document_->original.size();
}

// Everything that belongs to one payload starts from zero here.
void Builder::start() {
    begin_ = out_->size();
    end_max_ = std::min(begin_ + limits_.payload_bytes_max, document_begin_ + limits_.document_payload_bytes_max);
    bindings_ = 0;
    looked_max_ = evaluator.looked_at + looks_per_item * (limits_.bindings_max + document_->elements());
    allow_deciding();
    plan_ = nullptr;
    filled_ = {};
    pause_at_ = std::min(looked_max_, evaluator.looked_at + looks_per_pause);
    counted_.clear();
    elements_ = 0;
    entered_ = nullptr;
    bound_any_ = delivered_any_ = tag_open_ = joins_ = in_value_ = false;
    in_force_.clear();
    force_ = 0;
    if (!prefixes_.empty()) prefixes_.clear();
    stack_.clear();
    pool_used_ = 0;
}

// Ranges of out() that were made since are gone, so none of them may be reused.
void Builder::cut() {
    out_->cut(begin_);
    made_.clear();
}

// Called rarely; it enforces the limit of work and notices Ctrl-C.
void Builder::pause() {
    if (evaluator.looked_at > looked_max_) refuse_work();
    pause_at_ = std::min(looked_max_, evaluator.looked_at + looks_per_pause);
    Interrupt::check(looks_per_pause * nanoseconds_per_look);
}

// What is left of the smaller of the two limits.
uint64_t Builder::room() const { return end_max_ > out_->size() ? end_max_ - out_->size() : 0; }

// Two limits can be hit. The message names the one that was reached first.
void Builder::refuse_size() const {
    bool own = begin_ + limits_.payload_bytes_max <= document_begin_ + limits_.document_payload_bytes_max;
    uint64_t most = own ? limits_.payload_bytes_max : limits_.document_payload_bytes_max;
    const char* limit = own ? "payload_bytes_max" : "document_payload_bytes_max";
    Failure failure(Family::document, own ? "TC330" : "TC331",
                    std::string(own ? "the payload has" : "the payloads of this document have") + " more than " +
                        std::to_string(most) + " bytes, the limit " + limit);
    failure.limit = true;
    failure.hint = std::string("raise it with DeliveryLimits(") + limit + "=…), or deliver less";
    throw failure;
}

// A plain query delivers what it selects: elements as markup, values as they are, without escaping.
bool Builder::copy_selected(const Plan& plan) {
    std::vector<Item>& found = stack_;
    evaluator.select(*plan.query, plan.settings.ordered, found);
    for (const Item& item : found) {
        if (item.kind == StepKind::element) {
            check_room(document_->end[item.index] - document_->start[item.index]);
            copy_element(*document_, scopes_, item.index, in_force_, *out_);
        } else {
            std::string_view text = evaluator.string_value(item);
            check_room(text.size());
            *out_ += text;
        }
        check_room(0);
    }
    return !found.empty();
}

// Building binds as it goes, with a limit of its own.
bool Builder::build(const Plan& plan, PlanCache& plans) {
    evaluator.allow(looked_max_ - evaluator.looked_at);
    try {
        return build_payload(plan, plans);
    } catch (const OutOfWork&) {
        refuse_work();
    }
}

// Clauses are bound first, then the body is run once for each tuple.
bool Builder::build_payload(const Plan& plan, PlanCache& plans) {
    keys_ = &plans.keys();
    names_ = &plans.names();
    names_->begin(*document_->names);
    covered_ = 1;
    body_again_ = !plan.filled.empty() || keys_->uses(plan.body_key) > keys_->uses(plan.key);
    const Program& body = *plan.body;
    if (!plan.clauses) {
        use(body);
        run(0);
    } else {
        use(*plan.clauses);
        const Op& op = program_->ops[0];
        plan_ = &plan;
        filled_ = plan.filled;
        Tuples found = tuples(op);
        plan_ = nullptr;
        filled_ = {};
        if (found.count && op.binds) bound_any_ = true;
        use(body);
        for (size_t i = 0; i < found.count; ++i) {
            // Running the body may reallocate both arrays, so the tuple is found again each time.
            const Item* tuple = (found.kept ? kept_ : stack_).data() + found.begin + i * op.count;
            for (size_t place = 0; place < plan.places.size(); ++place) variables_[body.outer[place]] = tuple[plan.places[place]];
            run(0);
        }
    }
    check_room(0);
    return body.binds || (plan.clauses && plan.clauses->binds) ? bound_any_ : delivered_any_;
}

// Nothing is prepared for programs that need no answers from the evaluator.
void Builder::ready() {
    if (entered_ == program_) return;
    entered_ = program_;
    if (plan_) fill_clauses(*plan_);
    evaluator.enter(all_->query());
    for (uint32_t paths : program_->paths) evaluator.prepare(paths);
    for (uint32_t condition : program_->conditions) evaluator.prepare_condition(condition);
}

void Builder::run(uint32_t at) {
    const Op& op = program_->ops[at];
    switch (op.kind) {
        case OpKind::sequence: run_all(at + 1, op.end); break;
        case OpKind::flwr: flwr(at); break;
        case OpKind::element: element(at); break;
        case OpKind::attribute: computed_attribute(at); break;
        case OpKind::tag_attribute: tag_attribute(at); break;
        case OpKind::text:
        case OpKind::markup:
            escaped(program_->literal(op.literal));
            joins_ = false;
            break;
        case OpKind::items: items(op); break;
        case OpKind::term_items: term_items(op); break;
        // The choice's two parts follow each other; the end of the first is the start of the second.
        case OpKind::choice: {
            ready();
            uint32_t then = at + 1;
            bool holds = evaluator.holds(op.entry, variables_);
            check_work();
            run(holds ? then : program_->ops[then].end);
            break;
        }
        default: value(at);
    }
}

// The content of a constructor. Values of one part are never joined with those of the next.
void Builder::content(uint32_t at, uint32_t end) {
    for (; at < end; at = program_->ops[at].end) {
        joins_ = false;
        run(at);
    }
    joins_ = false;
}

// Looks the element up before building it, but only if another plan can ask for the same.
void Builder::element(uint32_t at) {
    const Op& op = program_->ops[at];
    close_tag();
    check_room(op.literal.size);
    // A shape that no more plans have than the one around it is reused with that one, so its own entry would never be found.
    bool wanted = share_ && op.key != no_entry && (keys_->uses(op.key) > covered_ || (at == 0 && body_again_));
    if (!wanted) {
        element_itself(at);
        return;
    }
    uint64_t hash = 0, begin = out_->size();
    KeyWords words;
    key_words(op, words);
    if (reuse(words.all(), hash)) return;
    uint32_t covered = std::exchange(covered_, keys_->uses(op.key));
    // Whether this element bound or delivered anything is kept with it, for those who only copy its bytes.
    bool bound_before = std::exchange(bound_any_, false), delivered_before = std::exchange(delivered_any_, false);
    element_itself(at);
    covered_ = covered;
    auto flags = static_cast<uint8_t>(bound_any_ * made_bound | delivered_any_ * made_delivered);
    bound_any_ |= bound_before;
    delivered_any_ |= delivered_before;
    made_.keep(words.all(), hash, {begin, out_->size() - begin, flags});
}

// Equal words give equal bytes: the shape, the namespaces in force, and the items of its variables.
void Builder::key_words(const Op& op, KeyWords& words) const {
    words.words[words.count++] = static_cast<uint64_t>(op.key) << 32 | force_;
    for (uint32_t i = op.first; i < op.first + op.count; ++i) {
        Item item = variables_[program_->variables[i]];
        words.words[words.count++] = static_cast<uint64_t>(item.kind) << 32 | item.index;
    }
}

bool Builder::reuse(std::span<const uint64_t> words, uint64_t& hash) {
    const Memo::Made* made = made_.find(words, hash);
    if (!made) return false;
    check_room(made->size);
    out_->append_own(made->begin, made->size);
    bound_any_ = bound_any_ || (made->flags & made_bound);
    delivered_any_ = delivered_any_ || (made->flags & made_delivered);
    joins_ = false;
    ++reused;
    return true;
}

// The tag stays open until the first content, so that attributes in the content can still go into it.
void Builder::element_itself(uint32_t at) {
    const Op& op = program_->ops[at];
    size_t in_force = in_force_.size();
    uint32_t force = force_;
    uint32_t inside = open_tag(at);
    tag_open_ = true;
    open_shape_ = op.shape;
    open_force_ = in_force;
    added_.clear();
    ++elements_;
    content(inside, op.end);
    --elements_;
    if (tag_open_) {
        *out_ += "/>";
        tag_open_ = false;
    } else {
        *out_ += "</";
        *out_ += program_->literal(op.literal).substr(1);
        *out_ += '>';
    }
    if (in_force_.size() == in_force) return;
    in_force_.cut(in_force);
    force_ = force;
}

// Writes the start tag up to its attributes. Returns where the content begins.
uint32_t Builder::open_tag(uint32_t at) {
    const Op& op = program_->ops[at];
    *out_ += program_->literal(op.literal);
    if (!op.plain || in_force_.size()) {
        const Shape& shape = all_->shape(op.shape);
        for (uint32_t each = shape.declarations; each != no_entry; each = all_->declared(each).next)
            declare(all_->view(all_->declared(each).prefix), all_->view(all_->declared(each).uri), true);
        declare(all_->view(shape.name.prefix), all_->view(shape.name.uri), false);
        all_->each_shape(shape.other, [&](uint32_t, const Shape& attribute) {
            if (attribute.name.prefix.size) declare(all_->view(attribute.name.prefix), all_->view(attribute.name.uri), false);
        });
    }
    uint32_t inside = at + 1;
    for (; inside < op.end && program_->ops[inside].kind == OpKind::tag_attribute; inside = program_->ops[inside].end) tag_attribute(inside);
    return inside;
}

// A constant attribute is a single literal, quotes included.
void Builder::tag_attribute(uint32_t at) {
    const Op& op = program_->ops[at];
    *out_ += program_->literal(op.literal);
    if (op.constant) return;
    in_value_ = true;
    content(at + 1, op.end);
    in_value_ = false;
    *out_ += '"';
}

// Nothing is declared that already holds here.
void Builder::declare(std::string_view prefix, std::string_view uri, bool written) {
    if (in_force_.uri(prefix) == uri) return;
    append_declaration({prefix, uri}, *out_);
    bind(prefix, uri, written);
}

// Numbers the states of the namespaces in force, so that a key needs one word for them.
void Builder::bind(std::string_view prefix, std::string_view uri, bool written) {
    written_.resize(in_force_.size());
    written_.push_back(written);
    in_force_.bind(prefix, uri);
    std::string state(reinterpret_cast<const char*>(&force_), sizeof(force_));
    ((state += prefix) += '\0') += uri;
    force_ = forces_.try_emplace(std::move(state), static_cast<uint32_t>(forces_.size() + 1)).first->second;
}

}  // namespace treecast
