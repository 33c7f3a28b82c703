#include "tree_run.hpp"

#include "interrupt.hpp"
#include "number.hpp"
#include "pext.hpp"

#include <algorithm>
#include <bit>

namespace treecast {

namespace {
constexpr uint32_t elements_per_check = 64, nanoseconds_per_element = 10'000;      // in a large machine
}

TreeRun::TreeRun(std::shared_ptr<const TreeMachine> machine) : machine_(std::move(machine)) {
    child_bits_.resize(machine_->entries());
    descend_bits_.resize(machine_->entries());
    fact_bits_.resize(machine_->facts());
    uint32_t nothing[3] = {none, none, none};
    text_labels_ = localize(nothing, label_text);
    root_labels_ = localize(nothing, label_root);
}

void TreeRun::forget_names() {
    element_labels_.clear();
    attribute_labels_.clear();
}

TreeRun::Locals TreeRun::localize(const uint32_t* labels, uint32_t any) const {
    Locals locals{};
    auto fire = [&](uint32_t label) {
        uint32_t local = label == none ? none : machine_->local(label);
        if (local != none) locals[++locals[0]] = local;
    };
    fire(any);
    for (int i = 0; i < 3; ++i) fire(labels[i]);
    return locals;
}

const TreeRun::Locals& TreeRun::element_labels(uint32_t name, NameResolver& names) {
    if (name >= element_labels_.size()) element_labels_.resize(name + 1 + name / 2, Locals{none});
    Locals& locals = element_labels_[name];
    if (locals[0] == none) locals = localize(names.labels(name).element, label_element_any);
    return locals;
}

const TreeRun::Locals& TreeRun::attribute_labels(uint32_t name, NameResolver& names) {
    if (name >= attribute_labels_.size()) attribute_labels_.resize(name + 1 + name / 2, Locals{none});
    Locals& locals = attribute_labels_[name];
    if (locals[0] == none) locals = localize(names.labels(name).attribute, label_attribute_any);
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

void TreeRun::emit(Level& into, uint32_t position, uint64_t bits) {
    auto put = [&](uint32_t word, uint64_t mask) {
        const TreeMachine::Wanted& wanted = machine_->wanted(word);
        if (uint64_t bits_wanted = mask & wanted.child) into.child.emplace_back(word, bits_wanted);
        if (uint64_t bits_wanted = mask & wanted.descend) into.descend.emplace_back(word, bits_wanted);
    };
    uint32_t word = position >> 6, shift = position & 63;
    if (uint64_t low = bits << shift) put(word, low);
    if (shift)
        if (uint64_t high = bits >> (64 - shift)) put(word + 1, high);
}

bool TreeRun::holds(const TreeMachine::Candidate* candidate) const {
    const AcceptBits* spaces[] = {&fact_bits_, &child_bits_, &descend_bits_};
    for (uint32_t c = candidate[0].checks; c < candidate[1].checks; ++c) {
        const TreeMachine::Check& check = machine_->checks_[c];
        if (spaces[check.space]->test(check.id) == check.negated) return false;
    }
    return true;
}

template <class Bits, class Emit>
void TreeRun::apply(const Locals& labels, Emit&& emit_entry) {
    const TreeMachine& m = *machine_;
    const Words* lists[] = {&fact_list_, &child_list_, &descend_list_};
    for (uint32_t l = 1; l <= labels[0]; ++l) {
        uint32_t label = labels[l];
        for (uint32_t f = m.frees_[label]; f < m.frees_[label + 1]; ++f)
            if (holds(&m.free_[f])) emit_entry(m.free_[f].position, 1);
        for (uint32_t space = 0; space < TreeMachine::spaces; ++space) {
            if (lists[space]->empty()) continue;
            auto cross = [&](const TreeMachine::Record& record, uint64_t mask) {
                if (mask & record.single) emit_entry(record.target, Bits::pext(mask, record.single));
                for (uint64_t rest = mask & record.pivot; rest; rest &= rest - 1) {
                    uint32_t group = record.group + Bits::count(record.pivot & ((rest & (~rest + 1)) - 1));
                    for (uint32_t c = m.groups_[group]; c < m.groups_[group + 1]; ++c)
                        if (holds(&m.candidates_[c])) emit_entry(m.candidates_[c].position, 1);
                }
            };
            m.directories_.template each<Bits>(label * TreeMachine::spaces + space, lists[space]->view(), scratch_, cross);
        }
    }
}

void TreeRun::find_facts(const Locals& labels, std::string_view value) {
    for (uint32_t l = 1; l <= labels[0]; ++l) {
        uint32_t group = machine_->value_group(labels[l]);
        if (!group) continue;
        machine_->values().collect(
            group, value, [&](uint32_t fact) { fact_bits_.set(fact >> 6, 1ull << (fact & 63)); },
            [&](uint32_t begin, uint32_t end) { fact_bits_.set_run(begin, end); });
    }
    fact_bits_.list(fact_list_);
}

void TreeRun::find_facts(const Locals& labels, const Document& document, uint32_t element) {
    bool valued = false;
    Values::Need need;
    for (uint32_t l = 1; l <= labels[0]; ++l) {
        uint32_t group = machine_->value_group(labels[l]);
        if (!group) continue;
        Values::Need one = machine_->values().need(group);
        valued = true;
        need.whole |= one.whole;
        need.numbers |= one.numbers;
        need.bytes_max = std::max(need.bytes_max, one.bytes_max);
    }
    if (!valued) return;
    uint32_t begin = document.text_begin[element], end = document.text_end[element];
    if (end - begin <= 1) {
        find_facts(labels, begin == end ? std::string_view() : document.value(document.text[begin]));
        return;
    }
    value_.clear();
    for (uint32_t t = begin; t < end; ++t) {
        std::string_view piece = document.value(document.text[t]);
        value_ += piece;
        need.numbers = need.numbers && std::all_of(piece.begin(), piece.end(), in_number);
        // All ancestors have this text too: it is not copied for each of them beyond what conditions ask for.
        if (!need.whole && !need.numbers && value_.size() > need.bytes_max) break;
    }
    find_facts(labels, value_);
}

void TreeRun::load(Level& level) {
    for (auto [word, mask] : level.child) child_bits_.set(word, mask);
    for (auto [word, mask] : level.descend) descend_bits_.set(word, mask);
    child_bits_.list(child_list_);
    descend_bits_.list(descend_list_);
    level.child.clear();
    level.descend.clear();
}

void TreeRun::unload() {
    child_bits_.clear(child_list_.view());
    descend_bits_.clear(descend_list_.view());
    fact_bits_.clear(fact_list_.view());
    child_list_.clear();
    descend_list_.clear();
    fact_list_.clear();
}

template <class Bits>
void TreeRun::leaf(const Locals& labels, std::string_view value, Level& into) {
    if (labels[0] == 0) return;
    find_facts(labels, value);
    apply<Bits>(labels, [&](uint32_t position, uint64_t bits) { emit(into, position, bits); });
    fact_bits_.clear(fact_list_.view());
    fact_list_.clear();
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
    if (text_labels_[0]) texts<Bits>(document, document.text_end[element]);
    Level& level = levels_[depth + 1];
    Level& above = levels_[depth];
    if (machine_->has_attributes())
        for (size_t a = document.attribute_begin[element]; a < document.attribute_end(element); ++a)
            leaf<Bits>(attribute_labels(document.attribute_name[a], names), document.value(document.attribute_value[a]), level);
    const Locals& labels = element_labels(document.name[element], names);
    if (labels[0] == 0) {           // nobody asks for such an element: what is below passes through
        above.descend.insert(above.descend.end(), level.descend.begin(), level.descend.end());
        level.child.clear();
        level.descend.clear();
        if (above.descend.size() > above.descend_max) shorten(above.descend, above.descend_max, descend_bits_, descend_list_);
        return;
    }
    load(level);
    find_facts(labels, document, element);
    apply<Bits>(labels, [&](uint32_t position, uint64_t bits) { emit(above, position, bits); });
    for (uint32_t i = 0; i < descend_list_.size(); ++i) above.descend.emplace_back(descend_list_.index(i), descend_list_.mask(i));
    unload();
    if (above.child.size() > above.child_max) shorten(above.child, above.child_max, child_bits_, child_list_);
    if (above.descend.size() > above.descend_max) shorten(above.descend, above.descend_max, descend_bits_, descend_list_);
}

template <class Bits>
void TreeRun::run_with(const Document& document, NameResolver& names, AcceptBits& out) {
    next_text_ = 0;
    open_.clear();
    for (Level& level : levels_) {
        level.child.clear();
        level.descend.clear();
    }
    for (uint32_t i = 0; i < document.elements(); ++i) {
        uint32_t depth = document.depth[i];
        for (; open_.size() > depth; open_.pop_back()) close<Bits>(document, open_.back(), names);
        if (levels_.size() < depth + 2) levels_.resize(depth + 2);
        open_.push_back(i);
        if (i % elements_per_check == 0) Interrupt::check(elements_per_check * nanoseconds_per_element);
    }
    for (; !open_.empty(); open_.pop_back()) close<Bits>(document, open_.back(), names);
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
