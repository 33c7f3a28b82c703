// The run of the lazy DFA engine: all machines of a View on one document, then accept ids to slots.
//
// Caches of the machines are kept from document to document. Documents are alike, so after a few of them most transitions
// are known.
#include "engines/lazydfa_run.hpp"

#include "base/expand.hpp"
#include "query/transformation.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace treecast {

namespace {

// Of what is run lazily: a machine of plain paths, or the paths that end in values.
uint32_t path_states(const MachinePlace& place) {
    if (place.machine) return place.machine->states();
    return place.tree->value_paths().empty() ? 0 : place.tree->value_paths().machine()->states();
}

const LazyDfaState& state_of(const View& view) { return static_cast<const LazyDfaState&>(*view.engine_state); }

}  // namespace

std::unique_ptr<EngineRun> LazyDfaEngine::make_run(uint32_t work_per_item_max) const {
    return std::make_unique<LazyDfaRun>(work_per_item_max, credit_, caches_);
}

// Looked up once per name, not once per element: documents repeat their names.
const NameLabels& LazyDfaRun::labels(uint32_t name) {
    if (name >= name_labels_.size()) name_labels_.resize(name + 1 + name / 2);
    NameLabels& labels = name_labels_[name];
    if (labels.resolved_at != table_changes_) {
        labels = table_->resolve(names_->uri(name), names_->local(name));
        labels.resolved_at = table_changes_;
    }
    return labels;
}

uint32_t LazyDfaRun::target_label(std::string_view target) {
    return table_->find({false, StepKind::instruction, Test::name, "", target});
}

void LazyDfaRun::rest() {
    for (PlaceRun& run : runs_) run.lazy ? run.lazy->rest() : run.tree->rest();
}

uint64_t LazyDfaRun::looked_at() const {
    uint64_t total = evaluator_.looked_at;      // of rechecks
    for (const PlaceRun& run : runs_)
        if (run.tree) total += run.tree->looked_at();
    return total;
}

// Prepares for a View: drops caches of machines that are gone, and divides the memory among the others.
void LazyDfaRun::adopt(const View& view, uint64_t cache_bytes_max) {
    const LazyDfaState& state = state_of(view);
    if (table_ != state.labels) {
        table_ = state.labels;
        name_labels_.clear();
    }
    table_changes_ = table_->changes();
    uint64_t states = 0, machines = 0;
    for (PlaceRun& run : runs_) run.used = false;
    for (const auto& place : state.places) {
        if (!place) continue;
        run_of(place).used = true;
        states += path_states(*place);
        machines += path_states(*place) != 0;
    }
    std::erase_if(runs_, [](const PlaceRun& c) { return !c.used; });
    for (PlaceRun& c : runs_) {
        if (!c.path_states) continue;
        // Half by size and half equally: a small machine needs some room too, as most documents may pass through it.
        double share = 0.5 * c.path_states / states + 0.5 / machines;
        auto bytes_max = static_cast<uint64_t>(cache_bytes_max * share);
        c.lazy ? c.lazy->set_bytes_max(bytes_max) : c.tree->set_cache_bytes_max(bytes_max);
    }
}

// A machine never changes, and its serial is never used again. What was learned about it holds as long as the View has it.
LazyDfaRun::PlaceRun& LazyDfaRun::run_of(const std::shared_ptr<MachinePlace>& place) {
    for (PlaceRun& c : runs_)
        if (c.serial == place->serial() && (c.lazy != nullptr) == (place->machine != nullptr)) return c;
    PlaceRun& c = runs_.emplace_back();
    c.serial = place->serial();
    if (place->machine)
        c.lazy = std::make_unique<Lazy>(caches_.of(place->machine));
    else
        c.tree = std::make_unique<TreeRun>(place->tree, caches_);
    c.path_states = path_states(*place);
    c.bits.resize(place->accepts());
    return c;
}

// Finds which elements have text. Only needed if some path ends in text().
void LazyDfaRun::find_texts(const LazyDfaState& state, const Document& document) {
    bool wanted = state.delta->has_text();
    for (const auto& place : state.places) wanted |= place && place->machine && place->machine->has_text();
    if (!wanted) return;
    has_text_.assign(document.elements(), 0);
    for (size_t t = 0; t < document.text_parent.size(); ++t) has_text_[document.text_parent[t]] = 1;
}

void LazyDfaRun::begin(const LazyDfaState& state, const Document& document, bool to_render, std::vector<Undecided>& undecided) {
    is_rendering_ = to_render;
    undecided_ = &undecided;
    if (names_ != document.names || names_generation_ != document.names->generation()) {
        names_ = document.names;
        names_generation_ = names_->generation();
        name_labels_.clear();
        for (PlaceRun& c : runs_) c.lazy ? c.lazy->forget_names() : c.tree->forget_names();
    }
    find_texts(state, document);
    evaluated_document_ = nullptr;
}

// Only the words that were set are cleared: a million slots would take longer than a small document.
void LazyDfaRun::forget_seen() {
    for (uint32_t slot : seen_slots_) seen_[slot >> 6] = 0;
    seen_slots_.clear();
}

void LazyDfaRun::match(const View& view, const Document& document, bool to_render, Output<int32_t>& out,
                       std::vector<Undecided>& undecided) {
    const LazyDfaState& state = state_of(view);
    begin(state, document, to_render, undecided);
    size_t trees = 0;
    for (const auto& place : state.places) {
        if (!place) continue;
        PlaceRun& c = run_of(place);
        if (c.lazy)
            c.lazy->run(document, has_text_, *this, c.bits);
        else
            c.tree->run(document, *this, c.bits), ++trees;
        emit(view, document, *place, c.bits, out);
    }
    if (trees > 1) credit_.walk((trees - 1) * (document.elements() + document.attribute_name.size()));
    state.delta->run(document, has_text_, *this, delta_run_);
    constexpr size_t at_once = 64;
    const ExpandBits expand = expand_bits();
    for (size_t word = 0; word < delta_run_.leading.size(); word += at_once) {
        const size_t count = std::min(at_once, delta_run_.leading.size() - word);
        int32_t* room = out.room(count * 64);
        const int32_t* end = expand(state.delta->slots(), &delta_run_.words[word], &delta_run_.leading[word], static_cast<uint32_t>(count), room);
        out.added(static_cast<size_t>(end - room));
    }
    delta_chains_walked_ += delta_run_.found.size();
    for (uint32_t path : delta_run_.found) __builtin_prefetch(&state.heads[path]);
    chained_.swap(delta_run_.found);
    emit_chains(view, document, out);
    forget_seen();
}

// Machines are asked one after the other, those of plain paths first, then the delta, then those of tree patterns, which take
// longest; what the first have answered, the others need not. Within a machine, a document is walked to its end. A query is evaluated only if its targets are not found yet.
uint64_t LazyDfaRun::route(const View& view, const Document& document, const RouteQuestion& question, uint64_t found) {
    const LazyDfaState& state = state_of(view);
    ++routed_;
    routed_undecided_.clear();
    begin(state, document, true, routed_undecided_);       // what is undecided counts
    size_t trees = 0;
    for (bool is_tree : {false, true}) {
        if (is_tree && !question.is_answered(found)) {
            state.delta->run(document, has_text_, *this, delta_run_);
            for (size_t word = 0; word < delta_run_.leading.size(); ++word)
                for (uint64_t rest = delta_run_.leading[word]; rest; rest &= rest - 1)
                    found |= question.targets_of(state.delta->slots()[word * 64 + static_cast<size_t>(std::countr_zero(rest))], document, found);
            for (uint32_t path : delta_run_.found) route_path(view, document, path, question, found);
        }
        for (const auto& place : state.places) {
            if (!place || (place->machine == nullptr) != is_tree) continue;
            if (question.is_answered(found)) break;
            PlaceRun& c = run_of(place);
            if (c.lazy)
                c.lazy->run(document, has_text_, *this, c.bits);
            else
                c.tree->run(document, *this, c.bits), ++trees;
            const uint32_t* slot_of = place->slot_of.data();
            auto route_word = [&](uint32_t word, uint64_t mask) {
                if (question.is_answered(found)) return;
                uint64_t dirty = mask & place->dirty_in(word);
                const uint32_t* slots = slot_of + size_t(word) * 64;
                for (uint64_t rest = mask ^ dirty; rest; rest &= rest - 1)
                    found |= question.targets_of(slots[std::countr_zero(rest)], document, found);
                dirty &= ~place->vacant_in(word);
                for (; dirty && !question.is_answered(found); dirty &= dirty - 1)
                    route_path(view, document, place->path_of[size_t(word) * 64 + std::countr_zero(dirty)], question, found);
            };
            c.bits.drain([&](const uint32_t* words, const uint64_t* masks, uint32_t count) {
                for (uint32_t i = 0; i < count; ++i) route_word(words[i], masks[i]);
            });
        }
    }
    if (trees > 1) credit_.walk((trees - 1) * (document.elements() + document.attribute_name.size()));
    forget_seen();
    return found;
}

void LazyDfaRun::route_path(const View& view, const Document& document, uint32_t path, const RouteQuestion& question, uint64_t& found) {
    state_of(view).subscribers(view, path, [&](uint32_t slot, bool several) {
        uint64_t targets = question.of_slot[slot];
        if (!(targets & ~found & ~ValueTargets::marker)) return;
        if (several && state_of(view).needs_recheck[slot]) {
            if (seen_.size() <= slot >> 6) seen_.resize((view.slots >> 6) + 1, 0);
            uint64_t bit = 1ull << (slot & 63);
            if (seen_[slot >> 6] & bit) return;
            seen_[slot >> 6] |= bit;
            seen_slots_.push_back(slot);
            if (!is_transformation(view.text(slot, text_)) && !recheck(view, document, slot)) return;
        }
        found |= question.targets_of(slot, document, found);
    });
}

// Accept ids to slots. Almost all lead straight to one slot; the dirty ones have chains, which are walked.
// PERF: bench/network_cpu.py: of a document with few matches, each is somewhere else in memory, so all are asked for before the first is
// looked at.
void LazyDfaRun::emit(const View& view, const Document& document, const MachinePlace& place, AnswerBits& bits, Output<int32_t>& out) {
    const LazyDfaState& state = state_of(view);
    const uint32_t* slot_of = place.slot_of.data();
    const ExpandBits expand = expand_bits();
    auto take = [&](const uint32_t* words, uint64_t* masks, uint32_t count) {
        uint64_t dirty[64], any_dirty = 0;
        for (uint32_t i = 0; i < count; ++i) {
            any_dirty |= dirty[i] = masks[i] & place.dirty_in(words[i]);
            masks[i] ^= dirty[i];
        }
        int32_t* room = out.room(size_t(count) * 64);
        out.added(static_cast<size_t>(expand(slot_of, words, masks, count, room) - room));
        if (!any_dirty) return;
        for (uint32_t i = 0; i < count; ++i)
            for (uint64_t rest = dirty[i] ? dirty[i] & ~place.vacant_in(words[i]) : 0; rest; rest &= rest - 1) {
                const uint32_t accept = words[i] * 64 + static_cast<uint32_t>(std::countr_zero(rest));
                if (const uint32_t* list = place.list_of(accept)) {
                    listed_.push_back(list);
                    __builtin_prefetch(list);
                    continue;
                }
                chained_.push_back(place.path_of[accept]);
                __builtin_prefetch(&state.heads[chained_.back()]);
            }
    };
    constexpr uint32_t few = 4, few_max = 64;
    uint32_t few_words[few_max], few_count = 0;
    uint64_t few_masks[few_max];
    auto take_few = [&] { take(few_words, few_masks, std::exchange(few_count, 0)); };
    bits.drain([&](const uint32_t* words, uint64_t* masks, uint32_t count) {
        if (few_count + (count > few ? few_max : count) > few_max) take_few();
        if (count > few) return take(words, masks, count);
        for (uint32_t i = 0; i < count; ++i) {
            __builtin_prefetch(&place.dirty[words[i]]);
            __builtin_prefetch(&slot_of[uint64_t(words[i]) * 64 + static_cast<uint32_t>(std::countr_zero(masks[i]))]);
            few_words[few_count] = words[i];
            few_masks[few_count++] = masks[i];
        }
    });
    take_few();
    for (const uint32_t* list : listed_) {
        const uint32_t count = *list & ~extra_bit;
        if (*list & extra_bit) {
            for (uint32_t i = 1; i <= count; ++i) emit_slot(view, document, list[i] & ~extra_bit, list[i] & extra_bit, out);
            continue;
        }
        std::copy_n(list + 1, count, out.room(count));
        out.added(count);
    }
    listed_.clear();
    chains_walked_ += chained_.size();
    emit_chains(view, document, out);
}

// PERF: bench/trees.py: a chain is a walk through memory. So some chains are walked side by side, a link of each at a time, and
// the next links are on the way meanwhile.
void LazyDfaRun::emit_chains(const View& view, const Document& document, Output<int32_t>& out) {
    constexpr size_t at_once = 64;
    const LazyDfaState& state = state_of(view);
    uint32_t links[at_once];
    for (size_t begin = 0; begin < chained_.size(); begin += at_once) {
        size_t count = 0;
        auto follow = [&](uint32_t link) {
            if (link == none) return;
            links[count++] = link;
            if (link & extra_bit) {
                __builtin_prefetch(&state.extras[link & ~extra_bit]);
                return;
            }
            __builtin_prefetch(&state.next[link]);
            if (link < view.slots) __builtin_prefetch(&view.deaths[link]);
        };
        for (size_t i = begin; i < std::min(chained_.size(), begin + at_once); ++i)
            follow(std::atomic_ref<uint32_t>(state.heads[chained_[i]]).load(std::memory_order_acquire));
        while (count > 0) {
            const size_t now = std::exchange(count, 0);
            for (size_t i = 0; i < now; ++i) {          // a link gives way to the next of its chain, if there is one
                const bool several = links[i] & extra_bit;
                const Extra at = several ? state.extras[links[i] & ~extra_bit] : Extra{links[i], state.next[links[i]]};
                follow(at.next);
                if (at.slot < view.slots && view.is_alive(at.slot)) emit_slot(view, document, at.slot, several, out);
            }
        }
    }
    chained_.clear();
}

// A subscription with several paths may be reached by more than one of them; it is reported once.
inline void LazyDfaRun::emit_slot(const View& view, const Document& document, uint32_t slot, bool several, Output<int32_t>& out) {
    if (several) {
        if (seen_.size() <= slot >> 6) seen_.resize((view.slots >> 6) + 1, 0);
        uint64_t bit = 1ull << (slot & 63);
        if (seen_[slot >> 6] & bit) return;
        seen_[slot >> 6] |= bit;
        seen_slots_.push_back(slot);
        // Building its payload evaluates it anyway.
        auto is_decided = [&] { return is_rendering_ && is_transformation(view.text(slot, text_)); };
        if (state_of(view).needs_recheck[slot] && !is_decided() && !recheck(view, document, slot)) return;
    }
    *out.room(1) = static_cast<int32_t>(slot);
    out.added(1);
}

// PERF: bench/shapes.py, bench/language.py. Parsing takes about as long as evaluating, where few elements are candidates.
const LazyDfaRun::ParsedQuery& LazyDfaRun::parsed(const View& view, uint32_t slot) {
    if (slot >= parsed_.size()) parsed_.resize(std::max<size_t>(slot + 1, std::min<size_t>(view.slots, 2 * parsed_.size())));
    std::unique_ptr<ParsedQuery>& entry = parsed_[slot];
    if (entry && entry->serial == view.serial) return *entry;
    if (entry) {
        parsed_bytes_ -= bytes_of(*entry);
        entry = nullptr;                        // parsing may fail
    }
    const Settings& settings = view.settings_of(slot);
    parse_matching(view.text(slot, text_), settings.bindings, settings.ordered, passing_.query);
    passing_.shared = shared_terms_.numbers_of(passing_.query);
    passing_.plan = settings.ordered ? ColumnPlan() : columns_.plan_of(passing_.query);
    passing_.serial = view.serial;
    const uint64_t bytes = bytes_of(passing_);
    if (parsed_bytes_ + bytes > parsed_bytes_max) {
        if (++parsed_turn_ % parsed_per_displaced || bytes > parsed_bytes_max / 2) return passing_;
        make_room(bytes);
    }
    entry = std::make_unique<ParsedQuery>(passing_);        // a copy takes no more than it needs
    parsed_bytes_ += bytes;
    return *entry;
}

void LazyDfaRun::make_room(uint64_t bytes) {
    for (; parsed_bytes_ + bytes > parsed_bytes_max; ++parsed_hand_) {
        if (parsed_hand_ >= parsed_.size()) parsed_hand_ = 0;
        std::unique_ptr<ParsedQuery>& entry = parsed_[parsed_hand_];
        if (!entry) continue;
        parsed_bytes_ -= bytes_of(*entry);
        entry = nullptr;
    }
}

// Evaluates the query itself, where its patterns say less than it does.
bool LazyDfaRun::recheck(const View& view, const Document& document, uint32_t slot) {
    if (evaluated_document_ != &document) {
        evaluated_document_ = &document;
        evaluator_.begin(document);
        columns_.begin();
    }
    const bool ordered = view.settings_of(slot).ordered;
    const ParsedQuery& known = parsed(view, slot);
    const uint64_t steps = work_max(document, work_per_item_max_);
    if (columns_.is_worth_it(known.plan)) {
        const Columns::Answer answer = columns_.decide(known.plan, known.query, document, evaluator_, steps);
        if (answer != Columns::Answer::unknown) return answer == Columns::Answer::yes;
    }
    evaluator_.allow(steps);
    try {
        return evaluator_.satisfies(known.query, ordered, known.shared);
    } catch (const OutOfWork& failure) {
        undecided_->push_back({slot, failure});
        return is_rendering_;
    }
}

}  // namespace treecast
