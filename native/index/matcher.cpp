#include "index/matcher.hpp"

#include "query/transformation.hpp"

#include <algorithm>
#include <bit>

namespace treecast {

const NameLabels& Matcher::labels(uint32_t name) {
    if (name >= name_labels_.size()) name_labels_.resize(name + 1 + name / 2);
    NameLabels& labels = name_labels_[name];
    if (labels.resolved_at != table_changes_) {
        labels = table_->resolve(names_->uri(name), names_->local(name));
        labels.resolved_at = table_changes_;
    }
    return labels;
}

uint64_t Matcher::cache_bytes() const {
    uint64_t total = 0;
    for (const Cached& cached : lazies_)
        if (cached.lazy) total += cached.lazy->bytes();
    return total;
}

uint64_t Matcher::looked_at() const {
    uint64_t total = 0;
    for (const Cached& cached : lazies_)
        if (cached.tree) total += cached.tree->looked_at();
    return total;
}

// Makes ready for a View: caches of machines that are gone are dropped, the others share the memory by their size.
void Matcher::adopt(const View& view) {
    if (table_ != view.labels) {
        table_ = view.labels;
        name_labels_.clear();
    }
    table_changes_ = table_->changes();
    uint64_t states = 0, machines = 0;
    for (Cached& cached : lazies_) cached.used = false;
    for (const auto& placed : view.places) {
        if (!placed) continue;
        cached(placed).used = true;
        if (!placed->machine) continue;
        states += placed->states();
        ++machines;
    }
    std::erase_if(lazies_, [](const Cached& c) { return !c.used; });
    for (Cached& c : lazies_) {
        if (!c.lazy) continue;
        double share = 0.5 * c.lazy->machine().states() / states + 0.5 / machines;
        c.lazy->set_bytes_max(static_cast<uint64_t>(cache_bytes_max_ * share));
    }
}

Matcher::Cached& Matcher::cached(const std::shared_ptr<Placed>& placed) {
    for (Cached& c : lazies_)
        if (c.serial == placed->serial() && (c.lazy != nullptr) == (placed->machine != nullptr)) return c;
    Cached& c = lazies_.emplace_back();
    c.serial = placed->serial();
    if (placed->machine)
        c.lazy = std::make_unique<Lazy>(placed->machine);
    else
        c.tree = std::make_unique<TreeRun>(placed->tree);
    c.bits.resize(placed->accepts());
    return c;
}

void Matcher::find_texts(const View& view, const Document& document) {
    bool wanted = view.delta->has_text();
    for (const auto& placed : view.places) wanted |= placed && placed->machine && placed->machine->has_text();
    if (!wanted) return;
    has_text_.assign(document.elements(), 0);
    for (size_t t = 0; t < document.text_parent.size(); ++t) has_text_[document.text_parent[t]] = 1;
}

const Document& Matcher::match(const View& view, std::string_view bytes, Output<int32_t>& out, bool to_render) {
    undecided_.clear();
    const Document& document = reader_.read(bytes);
    rendering_ = to_render;
    try {
        if (view.published)
            run_published(view.published, document, out);
        else
            run(view, document, out);
    } catch (...) {             // out of memory: leave nothing half done behind
        lazies_.clear();
        seen_.clear();
        seen_slots_.clear();
        scratch_.reset();
        adopt(view);
        throw;
    }
    return document;
}

Renderer& Matcher::renderer(const RenderLimits& limits, bool share) {
    auto same = [&](const RenderLimits& other) {
        return limits.payload_bytes_max == other.payload_bytes_max && limits.bindings_max == other.bindings_max &&
               limits.document_payload_bytes_max == other.document_payload_bytes_max &&
               limits.work_per_item_max == other.work_per_item_max;
    };
    std::unique_ptr<Rendering>& rendering = renderings_[share];
    if (!rendering || !same(rendering->limits)) rendering.reset(new Rendering{limits, Renderer(limits, share)});
    return rendering->renderer;
}

void Matcher::run(const View& view, const Document& document, Output<int32_t>& out) {
    if (names_ != document.names || names_generation_ != document.names->generation()) {
        names_ = document.names;
        names_generation_ = names_->generation();
        name_labels_.clear();
        for (Cached& c : lazies_) c.lazy ? c.lazy->forget_names() : c.tree->forget_names();
    }
    find_texts(view, document);
    document_ = nullptr;
    for (const auto& placed : view.places) {
        if (!placed) continue;
        Cached& c = cached(placed);
        if (c.lazy)
            c.lazy->run(document, has_text_, *this, c.bits);
        else
            c.tree->run(document, *this, c.bits);
        emit(view, document, *placed, c.bits, out);
    }
    view.delta->run(document, has_text_, *this, delta_run_);
    for (uint32_t path : delta_run_.found) emit_path(view, document, path, out);
    for (uint32_t slot : seen_slots_) seen_[slot >> 6] = 0;
    seen_slots_.clear();
}

void Matcher::run_published(const std::shared_ptr<const PublishedEngine>& engine, const Document& document, Output<int32_t>& out) {
    if (!scratch_ || published_.lock() != engine) {
        scratch_ = engine->scratch();
        published_ = engine;
    }
    found_.clear();
    engine->match(document, *scratch_, found_);
    int32_t* room = out.room(found_.size());
    for (size_t i = 0; i < found_.size(); ++i) room[i] = static_cast<int32_t>(found_[i]);
    out.added(found_.size());
}

void Matcher::emit(const View& view, const Document& document, const Placed& placed, AcceptBits& bits, Output<int32_t>& out) {
    const uint32_t* slot_of = placed.slot_of.data();
    bits.drain([&](uint32_t word, uint64_t mask) {
        uint64_t dirty = mask & placed.dirty_in(word);
        const uint32_t* slots = slot_of + size_t(word) * 64;
        int32_t* room = out.room(64);
        int32_t* at = room;
        for (uint64_t rest = mask ^ dirty; rest; rest &= rest - 1) *at++ = static_cast<int32_t>(slots[std::countr_zero(rest)]);
        out.added(at - room);
        for (; dirty; dirty &= dirty - 1)
            emit_path(view, document, placed.path_of[size_t(word) * 64 + std::countr_zero(dirty)], out);
    });
}

void Matcher::emit_path(const View& view, const Document& document, uint32_t path, Output<int32_t>& out) {
    view.subscribers(path, [&](uint32_t slot, bool several) {
        if (several) {
            if (seen_.size() <= slot >> 6) seen_.resize((view.slots >> 6) + 1, 0);
            uint64_t bit = 1ull << (slot & 63);
            if (seen_[slot >> 6] & bit) return;
            seen_[slot >> 6] |= bit;
            seen_slots_.push_back(slot);
            bool decided = rendering_ && is_transformation(view.text(slot));
            if (view.judged[slot] && !decided && !judge(view, document, slot)) return;
        }
        *out.room(1) = static_cast<int32_t>(slot);
        out.added(1);
    });
}

bool Matcher::judge(const View& view, const Document& document, uint32_t slot) {
    if (document_ != &document) {
        document_ = &document;
        evaluator_.begin(document);
    }
    const Settings& settings = (*view.settings)[view.slot_settings[slot]];
    parse_matching(view.text(slot), settings.bindings, settings.ordered, query_);
    evaluator_.allow(work_max(document, work_per_item_max_));
    try {
        return evaluator_.satisfies(query_, settings.ordered);
    } catch (const OutOfWork& failure) {
        undecided_.push_back({slot, failure});
        return rendering_;
    }
}

}  // namespace treecast
