#include "tree_run.hpp"

#include "number.hpp"
#include "pext.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace treecast {

TreeRun::TreeRun(std::shared_ptr<const TreeMachine> machine) : machine_(std::move(machine)) {
    child_bits_.resize(machine_->entries());
    descend_bits_.resize(machine_->entries());
    fact_bits_.resize(machine_->facts());
    heights_.resize(machine_->gauge_kinds_.size());
    levels_.resize(1);
    uint32_t nothing[3] = {none, none, none};
    text_labels_ = localize(nothing, label_text);
    root_labels_ = localize(nothing, label_root);
}

void TreeRun::forget_names() {
    element_labels_.clear();
    attribute_labels_.clear();
    interest_.clear();
}

TreeRun::Locals TreeRun::localize(const uint32_t* labels, uint32_t any) const {
    Locals locals{.count = 0};
    auto fire = [&](uint32_t label) {
        uint32_t local = label == none ? none : machine_->local(label);
        if (local == none) return;
        locals.label[locals.count++] = local;
        locals.valued |= machine_->value_group(local) != 0 || machine_->gauges(local).kinds != 0;
        locals.eager |= machine_->frees_[local] != machine_->frees_[local + 1];
        locals.late &= machine_->is_only_tested(local);
        locals.direct &= machine_->is_direct(local);
    };
    fire(any);
    for (int i = 0; i < 3; ++i) fire(labels[i]);
    return locals;
}

const TreeRun::Locals& TreeRun::element_labels(uint32_t name, NameResolver& names) {
    if (name >= element_labels_.size()) element_labels_.resize(name + 1 + name / 2);
    Locals& locals = element_labels_[name];
    if (locals.count == none) locals = localize(names.labels(name).element, label_element_any);
    return locals;
}

const TreeRun::Locals& TreeRun::attribute_labels(uint32_t name, NameResolver& names) {
    if (name >= attribute_labels_.size()) attribute_labels_.resize(name + 1 + name / 2);
    Locals& locals = attribute_labels_[name];
    if (locals.count == none) locals = localize(names.labels(name).attribute, label_attribute_any);
    return locals;
}

// Takes out the duplicates of a long list, so that it stays as long as what it says, however many children there are.
void TreeRun::shorten(Pairs& pairs, size_t& max, AcceptBits& bits, Words& list) {
    for (auto [word, mask] : pairs) bits.set(word, mask);
    bits.list(list);
    bits.clear(list.view());
    pairs.clear();
    for (uint32_t i = 0; i < list.size(); ++i) pairs.emplace_back(list.index(i), list.mask(i));
    list.clear();
    max = std::max<size_t>(1024, 4 * pairs.size());
}

// Neighbours mostly come one after the other: their bits are gathered before they are handed over.
inline void TreeRun::emit(Level& into, uint32_t position, uint64_t bits) {
    auto put = [&](uint32_t word, uint64_t mask) {
        if (word != gathered_word_) {
            hand_over(into);
            gathered_word_ = word;
        }
        gathered_ |= mask;
    };
    uint32_t word = position >> 6, shift = position & 63;
    if (uint64_t low = bits << shift) put(word, low);
    if (shift)
        if (uint64_t high = bits >> (64 - shift)) put(word + 1, high);
}

inline void TreeRun::hand_over(Level& into) {
    if (!gathered_) return;
    const TreeMachine::Wanted& wanted = machine_->wanted(gathered_word_);
    if (uint64_t bits = gathered_ & wanted.child) into.child.emplace_back(gathered_word_, bits);
    if (uint64_t bits = gathered_ & wanted.descend) into.descend.emplace_back(gathered_word_, bits);
    into.keys |= (gathered_ & wanted.keys) != 0;
    gathered_ = 0;
}

template <class Emit>
inline __attribute__((always_inline)) void TreeRun::test(const TreeMachine::Candidate* begin, const TreeMachine::Candidate* end,
                                                         Emit&& emit_entry) {
    const AcceptBits* const spaces[] = {&fact_bits_, &child_bits_, &descend_bits_};
    const TreeMachine::Check* const checks = machine_->checks_.data();
    const Bound* const bounds = machine_->bounds_.data();
    auto met = [&](const TreeMachine::Check& check) {
        if (check.space != TreeMachine::in_gauges) return spaces[check.space]->test(check.id);
        return bounds[check.id].met(heights_[bounds[check.id].gauge]);
    };
    looked_at_ += end - begin;
    for (; begin != end; ++begin) {
        const TreeMachine::Check *check = checks + begin[0].checks, *last = checks + begin[1].checks;
        while (check != last && met(*check) != check->negated) ++check;
        if (check != last) continue;
        if (begin->position & TreeMachine::context_bit)
            contexts_.push_back(begin->position & ~TreeMachine::context_bit);
        else
            emit_entry(begin->position, 1);
    }
}

template <class Emit>
void TreeRun::apply_spans(uint32_t context, Emit&& emit_entry) {
    const TreeMachine& m = *machine_;
    const Spans::Span* begin = m.spans_.all().data() + m.context_spans_[context];
    const Spans::Span* end = m.spans_.all().data() + m.context_spans_[context + 1];
    if (begin == end) return;
    for (uint32_t gauge : raised_) {
        auto span = std::lower_bound(begin, end, gauge, [](const Spans::Span& s, uint32_t g) { return s.first < g; });
        for (; span != end && span->first == gauge; ++span) {
            uint32_t count = m.spans_.met(*span, heights_[gauge]);
            const TreeMachine::Candidate* candidates = m.candidates_.data() + span->target;
            if (span->second != none)
                m.spans_.each(*span, count, heights_[span->second], [&](uint32_t i) { test(candidates + i, candidates + i + 1, emit_entry); });
            else if (!span->run)
                test(candidates, candidates + count, emit_entry);
            else
                for (uint32_t i = 0; i < count; i += 64) emit_entry(span->target + i, count - i < 64 ? (1ull << (count - i)) - 1 : ~0ull);
        }
    }
}

template <class Bits, class Emit>
void TreeRun::apply_context(uint32_t context, Emit&& emit_entry) {
    const TreeMachine& m = *machine_;
    const Words* lists[] = {&fact_list_, &child_list_, &descend_list_};
    const AcceptBits* bits[] = {&fact_bits_, &child_bits_, &descend_bits_};
    test(&m.free_[m.frees_[context]], &m.free_[m.frees_[context + 1]], emit_entry);
    for (uint32_t space = 0; space < TreeMachine::spaces; ++space) {
        if (lists[space]->empty()) continue;
        auto cross = [&](const TreeMachine::Record& record, uint64_t mask) {
            if (mask & record.single) emit_entry(record.target, Bits::pext(mask, record.single));
            for (uint64_t rest = mask & record.pivot; rest; rest &= rest - 1) {
                uint32_t group = record.group + Bits::count(record.pivot & ((rest & (~rest + 1)) - 1));
                test(&m.candidates_[m.groups_[group]], &m.candidates_[m.groups_[group + 1]], emit_entry);
            }
        };
        m.directories_.template each_of<Bits>(context * TreeMachine::spaces + space, lists[space]->view(), *bits[space], scratch_, cross);
    }
    if (!raised_.empty()) apply_spans(context, emit_entry);
}

// A context may lead to others: what they require is a part of what their entries require, so there is an end to it.
template <class Bits, class Emit>
void TreeRun::apply(const Locals& labels, Emit&& emit_entry) {
    for (uint32_t label : labels) apply_context<Bits>(label, emit_entry);
    for (size_t i = 0; i < contexts_.size(); ++i) apply_context<Bits>(contexts_[i], emit_entry);
    contexts_.clear();
}

void TreeRun::raise(uint32_t gauge, uint64_t height) {
    if (heights_[gauge] == 0) raised_.push_back(gauge);
    heights_[gauge] = join_heights(machine_->gauge_kinds_[gauge], heights_[gauge], height);
}

void TreeRun::note_gauge(Level& into, uint32_t space, uint32_t gauge, uint64_t height) {
    Pairs& gauges = space == TreeMachine::in_child ? into.child_gauges : into.descend_gauges;
    size_t& max = space == TreeMachine::in_child ? into.child_gauges_max : into.descend_gauges_max;
    into.keys |= machine_->gauge_keys_[gauge] != 0;
    gauges.emplace_back(gauge, height);
    if (gauges.size() <= max) return;
    std::sort(gauges.begin(), gauges.end());
    size_t kept = 0;
    for (auto [g, h] : gauges) {
        if (kept && gauges[kept - 1].first == g)
            gauges[kept - 1].second = join_heights(machine_->gauge_kinds_[g], gauges[kept - 1].second, h);
        else
            gauges[kept++] = {g, h};
    }
    gauges.resize(kept);
    max = std::max<size_t>(64, 4 * kept);
}

void TreeRun::derive(const Locals& labels, Level& into) {
    using Derived = TreeMachine::Derived;
    const Derived* end = machine_->derived_.end();
    auto before = [](const Derived& d, std::pair<uint32_t, uint32_t> key) { return std::pair(d.inner, d.label) < key; };
    for (uint32_t gauge : raised_)
        for (uint32_t label : labels) {
            auto at = std::lower_bound(machine_->derived_.begin(), end, std::pair(gauge, label), before);
            for (; at != end && at->inner == gauge && at->label == label; ++at) note_gauge(into, at->space, at->outer, heights_[gauge]);
        }
}

void TreeRun::gauge(uint32_t label, std::string_view value, Level& into) {
    const TreeMachine::Gauges& gauges = machine_->gauges(label);
    uint64_t heights[gauge_kinds] = {};
    if (gauges.has(GaugeKind::most) || gauges.has(GaugeKind::least)) {
        double number = to_number(value);
        if (!std::isnan(number)) {
            heights[static_cast<int>(GaugeKind::most)] = height_of(number);
            heights[static_cast<int>(GaugeKind::least)] = ~height_of(number);
        }
    }
    auto compare = [&](GaugeKind kind, Fact fact) {
        if (!gauges.has(kind)) return;
        uint32_t met = machine_->values().equal(machine_->value_group(label), fact, value);
        heights[static_cast<int>(kind)] = met == none ? height_various : uint64_t(met) + 1;
    };
    compare(GaugeKind::text, Fact::equal_text);
    compare(GaugeKind::number, Fact::equal_number);
    for (uint32_t kind = 0; kind < gauge_kinds; ++kind) {
        if (!heights[kind]) continue;
        if (uint32_t own = gauges.of[TreeMachine::in_facts][kind]; own != none) raise(own, heights[kind]);
        for (uint32_t space : {TreeMachine::in_child, TreeMachine::in_descend})
            if (uint32_t outer = gauges.of[space][kind]; outer != none) note_gauge(into, space, outer, heights[kind]);
    }
}

void TreeRun::find_facts(const Locals& labels, std::string_view value, Level& into) {
    bool some = false;
    for (uint32_t label : labels) {
        if (machine_->gauges(label).kinds) gauge(label, value, into);
        uint32_t group = machine_->value_group(label);
        if (!group) continue;
        machine_->values().collect(group, value, [&](uint32_t fact) {
            if (labels.direct) {
                if (uint32_t entry = machine_->fact_entry(fact); entry != none) emit(into, entry, 1);
                return;
            }
            fact_bits_.set(fact >> 6, 1ull << (fact & 63));
            some = true;
        });
    }
    if (some) fact_bits_.list(fact_list_);
    hand_over(into);
}

void TreeRun::find_facts(const Locals& labels, const Document& document, uint32_t element, Level& into) {
    if (!labels.valued) return;
    uint32_t begin = document.text_begin[element], end = document.text_end[element];
    if (end - begin <= 1) {
        find_facts(labels, begin == end ? std::string_view() : document.value(document.text[begin]), into);
        return;
    }
    Values::Need need;
    for (uint32_t label : labels) {
        uint32_t group = machine_->value_group(label);
        need.numbers |= machine_->gauges(label).numbers();
        if (!group) continue;
        Values::Need one = machine_->values().need(group);
        need.whole |= one.whole;
        need.numbers |= one.numbers;
        need.bytes_max = std::max(need.bytes_max, one.bytes_max);
    }
    value_.clear();
    for (uint32_t t = begin; t < end; ++t) {
        std::string_view piece = document.value(document.text[t]);
        value_ += piece;
        need.numbers = need.numbers && std::all_of(piece.begin(), piece.end(), in_number);
        // All ancestors have this text too: it is not copied for each of them beyond what conditions ask for.
        if (!need.whole && !need.numbers && value_.size() > need.bytes_max) break;
    }
    find_facts(labels, value_, into);
}

void TreeRun::load(Level& level) {
    for (auto [word, mask] : level.child) child_bits_.set(word, mask);
    for (auto [word, mask] : level.descend) descend_bits_.set(word, mask);
    child_bits_.list(child_list_);
    descend_bits_.list(descend_list_);
}

void TreeRun::raise(const Level& level) {
    for (auto [gauge, height] : level.child_gauges) raise(gauge, height);
    for (auto [gauge, height] : level.descend_gauges) raise(gauge, height);
}

void TreeRun::unload() {
    child_bits_.clear(child_list_.view());
    descend_bits_.clear(descend_list_.view());
    fact_bits_.clear(fact_list_.view());
    child_list_.clear();
    descend_list_.clear();
    fact_list_.clear();
    lower();
}

void TreeRun::lower() {
    for (uint32_t gauge : raised_) heights_[gauge] = 0;
    raised_.clear();
}

template <class Bits>
void TreeRun::leaf(const Locals& labels, std::string_view value, Level& into) {
    if (labels.count == 0) return;
    if (labels.valued) find_facts(labels, value, into);
    if (!labels.eager && fact_list_.empty() && raised_.empty()) return;
    apply<Bits>(labels, [&](uint32_t position, uint64_t bits) { emit(into, position, bits); });
    hand_over(into);
    fact_bits_.clear(fact_list_.view());
    fact_list_.clear();
    lower();
}

void TreeRun::pass(Level& level, Level& above) {
    above.descend.insert(above.descend.end(), level.descend.begin(), level.descend.end());
    for (auto [gauge, height] : level.descend_gauges) note_gauge(above, TreeMachine::in_descend, gauge, height);
    above.keys |= level.keys && !level.descend.empty();
    level.clear();
    if (above.descend.size() > above.descend_max) shorten(above.descend, above.descend_max, descend_bits_, descend_list_);
}

// Those whose time has come; answers with the number of the others.
template <class Bits>
uint32_t TreeRun::attributes(const Document& document, uint32_t element, NameResolver& names, Level& into, bool late) {
    uint32_t others = 0;
    for (size_t a = document.attribute_begin[element]; a < document.attribute_end(element); ++a) {
        const Locals& labels = attribute_labels(document.attribute_name[a], names);
        if (labels.count == 0) continue;
        if (labels.late == late)
            leaf<Bits>(labels, document.value(document.attribute_value[a]), into);
        else
            ++others;
    }
    return others;
}

template <class Bits>
void TreeRun::texts(const Document& document, uint32_t until) {
    for (; next_text_ < until; ++next_text_) {
        Level& level = levels_[document.depth[document.text_parent[next_text_]] + 1];
        leaf<Bits>(text_labels_, document.value(document.text[next_text_]), level);
    }
}

template <class Bits>
void TreeRun::close(const Document& document, uint32_t element, NameResolver& names) {
    uint32_t depth = document.depth[element];
    if (text_labels_.count) texts<Bits>(document, document.text_end[element]);
    Level& level = levels_[depth + 1];
    Level& above = levels_[depth];
    const Locals& labels = element_labels(document.name[element], names);
    if (machine_->has_attributes()) {
        uint32_t left = attributes<Bits>(document, element, names, level, false);
        if (left && labels.count && (labels.eager || labels.valued || level.keys)) attributes<Bits>(document, element, names, level, true);
    }
    find_facts(labels, document, element, above);
    if (labels.count == 0) return pass(level, above);           // nobody asks for such an element
    bool idle = !labels.eager && !level.keys && fact_list_.empty() && raised_.empty();
    raise(level);
    if (!raised_.empty() && !machine_->derived_.empty()) derive(labels, above);
    if (idle) {                         // nothing can follow from what is known: what is below passes through
        lower();
        return pass(level, above);
    }
    load(level);
    apply<Bits>(labels, [&](uint32_t position, uint64_t bits) { emit(above, position, bits); });
    hand_over(above);
    for (uint32_t i = 0; i < descend_list_.size(); ++i) above.descend.emplace_back(descend_list_.index(i), descend_list_.mask(i));
    above.keys |= level.keys && !descend_list_.empty();
    level.descend.clear();              // it went up as a list, which is shorter
    unload();
    pass(level, above);
    if (above.child.size() > above.child_max) shorten(above.child, above.child_max, child_bits_, child_list_);
}

// Whether something may hold at an element without anything that holds below it.
inline bool TreeRun::matters(const Document& document, uint32_t element, NameResolver& names) {
    auto of = [&](uint32_t name) {
        if (name >= interest_.size()) interest_.resize(name + 1 + name / 2, 0);
        if (!interest_[name]) {
            const Locals& labels = element_labels(name, names);
            bool own = text_labels_.count || (labels.count && (labels.eager || labels.valued));
            const Locals& attribute = attribute_labels(name, names);
            interest_[name] = interest_known | (own ? interest_element : 0) | (attribute.count && !attribute.late ? interest_attribute : 0);
        }
        return interest_[name];
    };
    if (of(document.name[element]) & interest_element) return true;
    if (!machine_->has_attributes()) return false;
    for (size_t a = document.attribute_begin[element], end = document.attribute_end(element); a < end; ++a)
        if (of(document.attribute_name[a]) & interest_attribute) return true;
    return false;
}

// Opens an element with all that it stands in.
void TreeRun::open_to(const Document& document, uint32_t element) {
    uint32_t depth = document.depth[element], known = static_cast<uint32_t>(open_.size());
    if (levels_.size() < depth + 2) levels_.resize(depth + 2);
    open_.resize(depth + 1);
    for (uint32_t at = element, d = depth + 1; d-- > known; at = document.parent[at]) open_[d] = at;
}

template <class Bits>
void TreeRun::run_with(const Document& document, NameResolver& names, AcceptBits& out) {
    next_text_ = 0;
    open_.clear();
    for (Level& level : levels_) level.clear();
    for (uint32_t i = 0; i < document.elements(); ++i) {
        if (!matters(document, i, names)) continue;
        while (!open_.empty() && i >= open_.back() + document.size[open_.back()]) {
            close<Bits>(document, open_.back(), names);
            open_.pop_back();
        }
        open_to(document, i);
    }
    for (; !open_.empty(); open_.pop_back()) close<Bits>(document, open_.back(), names);
    raise(levels_[0]);
    load(levels_[0]);
    apply<Bits>(root_labels_, [&](uint32_t position, uint64_t bits) {
        uint32_t accept = machine_->accept(position), word = accept >> 6, shift = accept & 63;
        if (uint64_t low = bits << shift) out.set(word, low);
        if (shift)
            if (uint64_t high = bits >> (64 - shift)) out.set(word + 1, high);
    });
    unload();
}

void TreeRun::run(const Document& document, NameResolver& names, AcceptBits& out) {
#if TREECAST_X86
    if (simd_level() == Simd::avx2) return run_with<HardBits>(document, names, out);
#endif
    run_with<SoftBits>(document, names, out);
}

}  // namespace treecast
