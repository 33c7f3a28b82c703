// The run of a TreeMachine over one document. tree_machine.hpp has the theory; this file closes elements bottom-up.
//
// Each open level collects what holds at its children and below. Closing an element combines that with its labels and its own
// value, and hands what follows to the level above. Most elements match nothing, so most of the code is about doing nothing fast.
#include "machines/tree_run.hpp"

#include "base/interrupt.hpp"
#include "base/pext.hpp"
#include "document/line_ends.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace treecast {

namespace {
constexpr uint32_t elements_per_check = 64, nanoseconds_per_element = 10'000;      // in a large machine
}

TreeRun::TreeRun(std::shared_ptr<const TreeMachine> machine, LazyCaches& caches) : machine_(std::move(machine)) {
    child_bits_.resize(machine_->entries());
    descend_bits_.resize(machine_->entries());
    test_bits_.resize(machine_->tests());
    heights_.resize(machine_->gauge_kinds_.size());
    levels_.resize(1);
    machine_->each_program([&](std::string_view program) { derived_values_.add(program); });
    uint32_t nothing[3] = {none, none, none};
    text_labels_ = localize(nothing, label_text);
    root_labels_ = localize(nothing, label_root);
    find_counters();
    witnesses_.resize(machine_->witness_count_);
    start_firsts();
    if (machine_->has_marks()) {
        marks_ = std::make_unique<MarkRun>();
        marks_->comment = localize(nothing, label_comment);
        marks_->instruction = localize(nothing, label_instruction);
    }
    if (machine_->values().has_automata()) nests_.resize(machine_->values().groups() + 1);
    if (!machine_->value_paths().empty()) value_paths_ = std::make_unique<ValuePathsRun>(machine_->value_paths(), caches);
}

// The reader's numbers of names have changed their meaning; everything by name is looked up again.
void TreeRun::forget_names() {
    element_labels_.clear();
    attribute_labels_.clear();
    families_.clear();
    interest_.clear();
    bare_.clear();
    if (value_paths_) value_paths_->forget_names();
}

// The labels that a name fires, as this machine numbers them, and what must be known about an element that has them.
TreeRun::Locals TreeRun::localize(const uint32_t* labels, uint32_t any) const {
    Locals locals{.count = 0, .label = {}};
    auto fire_label = [&](uint32_t label) {
        if (label == none) return;
        if (uint32_t local = machine_->local(label); local != none) fire(locals, local);
        for (const TreeMachine::Made& made : machine_->made(label)) fire(locals, made.local);
    };
    fire_label(any);
    for (int i = 0; i < 3; ++i) fire_label(labels[i]);
    return locals;
}

void TreeRun::fire(Locals& locals, uint32_t local) const {
    locals.label.push_back(local);
    ++locals.count;
    locals.valued |= machine_->value_group(local) != 0 || machine_->gauges(local).kinds != 0;
    locals.eager |= machine_->frees_[local] != machine_->frees_[local + 1];
    locals.late &= machine_->is_only_tested(local);
    locals.direct &= machine_->is_direct(local);
    locals.counts |= machine_->has_counts(local);
    locals.firsts |= !machine_->first_paths().steps(local).empty();
}

const TreeRun::Locals& TreeRun::labels_of(const Document& document, uint32_t element, NameResolver& names) {
    const Locals& locals = element_labels(document.name[element], names);
    if (locals.family == none) return locals;
    const Locals* placed = families_[locals.family].at(places_[element]);
    return placed ? *placed : locals;
}

// To be called once for each element whose name has a family, in document order.
void TreeRun::find_place(const Document& document, uint32_t element, NameResolver& names) {
    Family& family = families_[element_labels(document.name[element], names).family];
    if (family.run != run_) {
        family.run = run_;
        family.counts.clear();
    }
    places_[element] = family.next_place(document.parent[element]);
}

const TreeRun::Locals& TreeRun::element_labels(uint32_t name, NameResolver& names) {
    if (name >= element_labels_.size()) element_labels_.resize(name + 1 + name / 2);
    Locals& locals = element_labels_[name];
    if (locals.count == none) {
        const NameLabels& labels = names.labels(name);
        Locals made = localize(labels.element, label_element_any);
        if (machine_->has_places() && labels.element[0] != none) add_family(made, labels.element[0]);
        locals = made;
    }
    return locals;
}

const TreeRun::Locals& TreeRun::attribute_labels(uint32_t name, NameResolver& names) {
    if (name >= attribute_labels_.size()) attribute_labels_.resize(name + 1 + name / 2);
    Locals& locals = attribute_labels_[name];
    if (locals.count == none) locals = localize(names.labels(name).attribute, label_attribute_any);
    return locals;
}

// Removes the duplicates of a long list, so that its length depends on its content, not on the number of children.
void TreeRun::shorten(Pairs& pairs, size_t& max, AcceptBits& bits, Words& list) {
    for (auto [word, mask] : pairs) bits.set(word, mask);
    bits.list(list);
    bits.clear(list.view());
    pairs.clear();
    for (uint32_t i = 0; i < list.size(); ++i) pairs.emplace_back(list.index(i), list.mask(i));
    list.clear();
    max = std::max<size_t>(1024, 4 * pairs.size());
}

// Neighbours mostly come one after the other, so their bits are gathered before they are handed over.
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

// Bits that no entry wants are dropped here, which keeps the lists short.
inline void TreeRun::hand_over(Level& into) {
    if (!gathered_) return;
    const TreeMachine::Wanted& wanted = machine_->wanted(gathered_word_);
    if (uint64_t bits = gathered_ & wanted.child) into.child.emplace_back(gathered_word_, bits);
    if (uint64_t bits = gathered_ & wanted.descend) into.descend.emplace_back(gathered_word_, bits);
    into.keys |= (gathered_ & wanted.keys) != 0;
    if (machine_->has_orders()) note_witnesses(gathered_word_, gathered_);
    gathered_ = 0;
}

template <class Emit>
inline __attribute__((always_inline)) void TreeRun::test(const TreeMachine::Candidate* begin, const TreeMachine::Candidate* end,
                                                         Emit&& emit_entry) {
    const AcceptBits* const spaces[] = {&test_bits_, &child_bits_, &descend_bits_};
    const TreeMachine::Check* const checks = machine_->checks_.data();
    const Bound* const bounds = machine_->bounds_.data();
    auto met = [&](const TreeMachine::Check& check) {
        if (check.space < TreeMachine::spaces) return spaces[check.space]->test(check.id);
        if (check.space == TreeMachine::in_orders) return is_in_order(check.id);
        return bounds[check.id].met(heights_[bounds[check.id].gauge]);
    };
    // Counted, so that tests can say how much work a plan saves without a clock.
    looked_at_ += end - begin;
    for (; begin != end; ++begin) {
        const TreeMachine::Check *check = checks + begin[0].checks, *last = checks + begin[1].checks;
        // The rarest requirement comes first (tree_plan.hpp), so most candidates fail at their first check.
        while (check != last && met(*check) != check->negated) ++check;
        if (check != last) continue;
        if (begin->position & TreeMachine::context_bit)
            contexts_.push_back(begin->position & ~TreeMachine::context_bit);
        else
            emit_entry(begin->position, 1);
    }
}

// Each is tested without a branch that could be mispredicted: about half of them hold. First all groups of a context are listed,
// so that their memory is on the way.
template <class Emit>
void TreeRun::test_groups(std::span<const Group> groups, Emit&& emit_entry) {
    static const uint64_t ones = ~0ull;
    const uint64_t* const planes[] = {test_bits_.words(), child_bits_.words(), descend_bits_.words(), &ones};
    auto holds = [&](uint32_t check) {
        const uint32_t id = check & TreeMachine::packed_id_max;
        return (planes[check >> 29 & 3][id >> 6] >> (id & 63)) ^ (check >> 31);
    };
    const TreeMachine::Quick* const quicks = machine_->quicks_.data();
    size_t count = 0;
    for (auto [begin, end] : groups) {
        looked_at_ += end - begin;
        if (positions_.size() < count + (end - begin)) positions_.resize(2 * (count + (end - begin)));
        for (const TreeMachine::Quick* quick = quicks + begin; quick != quicks + end; ++quick) {
            if (quick->second == TreeMachine::by_candidate) [[unlikely]] {
                --looked_at_;
                const TreeMachine::Candidate* candidate = &machine_->candidates_[quick->first];
                test(candidate, candidate + 1, emit_entry);
                continue;
            }
            positions_[count] = quick->position;
            count += holds(quick->first) & holds(quick->second) & 1;
        }
    }
    uint32_t word = 0;
    uint64_t found = 0;                 // neighbours are handed over together
    for (size_t i = 0; i < count; ++i) {
        const uint32_t position = positions_[i];
        if (position & TreeMachine::context_bit) {
            contexts_.push_back(position & ~TreeMachine::context_bit);
            continue;
        }
        if (position >> 6 != word) {
            if (found) emit_entry(word * 64, found);
            word = position >> 6;
            found = 0;
        }
        found |= 1ull << (position & 63);
    }
    if (found) emit_entry(word * 64, found);
}

// Finds the entries by bounds on gauges. Only gauges that saw a value are looked at.
template <class Emit>
void TreeRun::apply_spans(uint32_t context, Emit&& emit_entry) {
    const TreeMachine& m = *machine_;
    const Spans::Span* begin = m.spans_.all().data() + m.context_spans_[context];
    const Spans::Span* end = m.spans_.all().data() + m.context_spans_[context + 1];
    if (begin == end) return;
    for (uint32_t gauge : raised_) {
        auto span = std::lower_bound(begin, end, gauge, [](const Spans::Span& s, uint32_t g) { return s.first < g; });
        for (; span != end && span->first == gauge; ++span) {
            const TreeMachine::Candidate* candidates = m.candidates_.data() + span->target;
            if (span->second != none) {
                m.spans_.each(*span, heights_[gauge], heights_[span->second],
                              [&](uint32_t i) { test(candidates + i, candidates + i + 1, emit_entry); });
                continue;
            }
            uint32_t count = m.spans_.met(*span, heights_[gauge]);
            if (!span->run)
                test(candidates, candidates + count, emit_entry);
            else
                for (uint32_t i = 0; i < count; i += 64) emit_entry(span->target + i, count - i < 64 ? (1ull << (count - i)) - 1 : ~0ull);
        }
    }
}

// Applies one context: what is tested always, then what the three sets of bits lead to, then bounds.
template <class Bits, class Emit>
void TreeRun::apply_context(uint32_t context, Emit&& emit_entry) {
    const TreeMachine& m = *machine_;
    const Words* lists[] = {&test_list_, &child_list_, &descend_list_};
    const AcceptBits* bits[] = {&test_bits_, &child_bits_, &descend_bits_};
    const uint32_t* const groups = m.groups_.data();
    const TreeMachine::Quick* const quicks = m.quicks_.data();
    size_t listed = 0;                  // groups whose pivot holds
    test(&m.free_[m.frees_[context]], &m.free_[m.frees_[context + 1]], emit_entry);
    for (uint32_t space = 0; space < TreeMachine::spaces; ++space) {
        if (lists[space]->empty()) continue;
        auto cross = [&](const TreeMachine::Record& record, uint64_t mask) {
            if (mask & record.single) emit_entry(record.target, Bits::pext(mask, record.single));
            if (!(mask & record.pivot)) return;
            if (group_list_.size() < listed + 64) group_list_.resize(2 * listed + 64);
            Group* list = group_list_.data() + listed;
            for (uint64_t rest = mask & record.pivot; rest; rest &= rest - 1) {
                uint32_t group = record.group + Bits::count(record.pivot & ((rest & (~rest + 1)) - 1));
                *list++ = {groups[group], groups[group + 1]};
                __builtin_prefetch(quicks + groups[group]);
            }
            listed = static_cast<size_t>(list - group_list_.data());
        };
        m.directories_.template each_of<Bits>(context * TreeMachine::spaces + space, lists[space]->view(), *bits[space], scratch_, cross);
    }
    if (listed) test_groups({group_list_.data(), listed}, emit_entry);
    if (!raised_.empty()) apply_spans(context, emit_entry);
}

// A context may lead to others. What these require is a part of what their entries require, so this ends.
template <class Bits, class Emit>
void TreeRun::apply(const Locals& labels, Emit&& emit_entry) {
    for (uint32_t label : labels) apply_context<Bits>(label, emit_entry);
    for (size_t i = 0; i < contexts_.size(); ++i) apply_context<Bits>(contexts_[i], emit_entry);
    contexts_.clear();
}

// The answer lets Values stop early: texts with the same suffix chain were all set together with it.
bool TreeRun::set_test(uint32_t test) {
    bool known = test_bits_.test(test);
    test_bits_.set(test >> 6, 1ull << (test & 63));
    has_tests_ = true;
    return known;
}

// For direct labels a test decides one entry by itself, so the sets are not needed.
void TreeRun::emit_test(uint32_t test, Level& into) {
    if (uint32_t entry = machine_->test_entry(test); entry != none) emit(into, entry, 1);
}

// The set tests become a list or, for direct labels, are replaced at once by what follows from them.
void TreeRun::list_tests(const Locals& labels, Level& into) {
    if (has_tests_) test_bits_.list(test_list_);
    has_tests_ = false;
    if (!labels.direct) return;
    for (uint32_t i = 0; i < test_list_.size(); ++i)
        for (uint64_t rest = test_list_.mask(i); rest; rest &= rest - 1)
            emit_test(test_list_.index(i) * 64 + std::countr_zero(rest), into);
    test_bits_.clear(test_list_.view());
    test_list_.clear();
    hand_over(into);
}

void TreeRun::find_tests(const Locals& labels, std::string_view value, uint32_t attribute, Level& into) {
    const Values& values = machine_->values();
    auto set = [this](uint32_t test) { return set_test(test); };
    auto hand = [&](uint32_t test) { emit_test(test, into); };
    for (uint32_t label : labels) {
        DerivedValues::Made own{value};
        if (uint32_t program = machine_->program(label))
            own = attribute == none ? derived_values_.of_text(program - 1, value) : derived_values_.of_attribute(program - 1, attribute);
        auto number = [&] { return own.is_number ? own.number : to_number(own.text); };
        const TreeMachine::Gauges& gauges = machine_->gauges(label);
        if (gauges.kinds) gauge(label, own.text, gauges.numbers() ? number() : std::nan(""), into);
        uint32_t group = machine_->value_group(label);
        if (!group) continue;
        const bool numbers = values.need(group).numbers;
        if (!labels.direct) {
            if (!own.is_number) values.collect_texts(group, own.text, set);
            if (numbers) values.collect_number(group, number(), set);
        } else {
            if (!own.is_number) values.collect_texts(group, own.text, hand);
            if (numbers) values.collect_number(group, number(), hand);
        }
        if (values.automaton(group)) values.collect_substrings(group, own.text, set);      // which may be found many times
    }
    list_tests(labels, into);
}

// The sets of one element go into bitmaps, which are tested, and into lists, which are walked.
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

// Clears only what was listed: the bitmaps are large, and nearly all of their words are 0.
void TreeRun::unload() {
    child_bits_.clear(child_list_.view());
    descend_bits_.clear(descend_list_.view());
    test_bits_.clear(test_list_.view());
    child_list_.clear();
    descend_list_.clear();
    test_list_.clear();
    lower();
}

void TreeRun::lower() {
    for (uint32_t gauge : raised_) heights_[gauge] = 0;
    raised_.clear();
}

template <class Bits>
void TreeRun::leaf(const Locals& labels, std::string_view value, uint32_t attribute, Level& into) {
    if (labels.count == 0) return;
    if (labels.valued) find_tests(labels, value, attribute, into);
    leaf_found<Bits>(labels, into);
}

template <class Bits>
void TreeRun::leaf_found(const Locals& labels, Level& into) {
    if (!labels.eager && test_list_.empty() && raised_.empty()) return;
    apply<Bits>(labels, [&](uint32_t position, uint64_t bits) { emit(into, position, bits); });
    hand_over(into);
    test_bits_.clear(test_list_.view());
    test_list_.clear();
    lower();
}

// Nothing happens at this element: what holds below it also holds below its parent.
void TreeRun::pass(Level& level, Level& above) {
    above.descend.insert(above.descend.end(), level.descend.begin(), level.descend.end());
    for (auto [gauge, height] : level.descend_gauges) note_gauge(above, TreeMachine::in_descend, gauge, height);
    above.keys |= level.keys && !level.descend.empty();
    level.clear(++stamps_);
    if (above.descend.size() > above.descend_max) shorten(above.descend, above.descend_max, descend_bits_, descend_list_);
}

// Handles the attributes whose time has come, and returns the number of the others.
// Late attributes are only tested, so they wait until it is known that something will test them.
template <class Bits>
uint32_t TreeRun::attributes(const Document& document, uint32_t element, NameResolver& names, Level& into, bool late) {
    uint32_t others = 0;
    for (size_t a = document.attribute_begin[element]; a < document.attribute_end(element); ++a) {
        const Locals& labels = attribute_labels(document.attribute_name[a], names);
        if (labels.count == 0) continue;
        if (labels.late == late)
            leaf<Bits>(labels, document.value(document.attribute_value[a]), static_cast<uint32_t>(a), into);
        else
            ++others;
    }
    return others;
}

// As with attributes, those that are only tested wait until something will test them.
template <class Bits>
void TreeRun::count(uint32_t element, Level& into, bool late) {
    for (uint32_t c = 0; c < counters; ++c) {
        const Locals& labels = siblings_.labels[c];
        if (labels.count == 0 || labels.late != late) continue;
        const uint32_t label = labels.label[0];
        const auto counter = static_cast<Counter>(c);
        const double number = counter == Counter::content ? has_content(element) : siblings_.number(counter, element);
        if (machine_->gauges(label).kinds) gauge(label, {}, number, into);
        if (uint32_t group = machine_->value_group(label)) machine_->values().collect_number(group, number, [this](uint32_t test) { set_test(test); });
        list_tests(labels, into);
        leaf_found<Bits>(labels, into);
    }
}

// The first item of a path is often that of several elements inside each other, so what was read last is kept.
template <class Bits>
void TreeRun::firsts(uint32_t element, const Locals& labels, NameResolver& names, Level& into) {
    find_firsts(element, labels, names);
    for (const Firsts::Item& item : firsts_->items) {
        Firsts::Path& path = firsts_->paths[item.path];
        if (path.run != run_ || path.kind != item.kind || path.index != item.index) {
            path.run = run_, path.kind = item.kind, path.index = item.index;
            path.level.clear(0);
            leaf<Bits>(path.labels, first_value(item, path.labels), none, path.level);
        }
        into.child.insert(into.child.end(), path.level.child.begin(), path.level.child.end());
        for (auto [gauge, height] : path.level.child_gauges) note_gauge(into, TreeMachine::in_child, gauge, height);
        into.keys |= path.level.keys;
    }
}

template <class Bits>
void TreeRun::texts(const Document& document, uint32_t until) {
    for (; next_text_ < until; ++next_text_) {
        Level& level = levels_[document.depth[document.text_parent[next_text_]] + 1];
        leaf<Bits>(text_labels_, document.value(document.text[next_text_]), none, level);
    }
}

// An instruction has its own labels and those of its target.
template <class Bits>
void TreeRun::marks(uint32_t element, NameResolver& names, Level& into) {
    std::string value;
    for (auto [parent, mark] : marks_of(element)) {
        const bool is_comment = marks_->marks[mark].is_comment;
        value.clear();
        append_lines(marks_->marks.value(mark), value);
        leaf<Bits>(is_comment ? marks_->comment : marks_->instruction, value, none, into);
        if (!is_comment) leaf<Bits>(target_labels(mark, names), value, none, into);
    }
}

// Of many elements with nothing below, each says the same as all others of its name; and of siblings only the first says it.
template <class Bits>
void TreeRun::close_bare(uint32_t name, const Locals& labels, Level& above) {
    if (name >= bare_.size()) bare_.resize(name + 1 + name / 2);
    if (!bare_[name].is_known) {
        Level made;
        apply<Bits>(labels, [&](uint32_t position, uint64_t bits) { emit(made, position, bits); });
        hand_over(made);
        bare_[name] = {true, made.keys, 0, std::move(made.child), std::move(made.descend), noted_};
    }
    Bare& bare = bare_[name];
    for (uint32_t witness : bare.witnesses) note_witness(witness);
    if (bare.stamp == above.stamp) return;
    bare.stamp = above.stamp;
    above.child.insert(above.child.end(), bare.child.begin(), bare.child.end());
    above.descend.insert(above.descend.end(), bare.descend.begin(), bare.descend.end());
    above.keys |= bare.keys;
    if (above.child.size() > above.child_max) shorten(above.child, above.child_max, child_bits_, child_list_);
    if (above.descend.size() > above.descend_max) shorten(above.descend, above.descend_max, descend_bits_, descend_list_);
}

template <class Bits>
void TreeRun::close(const Document& document, uint32_t element, NameResolver& names) {
    uint32_t depth = document.depth[element];
    closing_ = element;
    noted_.clear();
    if (text_labels_.count) texts<Bits>(document, document.text_end[element]);
    Level& level = levels_[depth + 1];
    Level& above = levels_[depth];
    if (marks_) marks<Bits>(element, names, level);
    const Locals& labels = labels_of(document, element, names);
    if (labels.counts) count<Bits>(element, level, false);
    if (labels.firsts) firsts<Bits>(element, labels, names, level);
    const uint32_t left = machine_->has_attributes() ? attributes<Bits>(document, element, names, level, false) : 0;
    if (labels.count && (labels.eager || labels.valued || level.keys)) {
        if (left) attributes<Bits>(document, element, names, level, true);
        if (labels.counts) count<Bits>(element, level, true);
    }
    const bool is_bare = level.is_empty() && labels.family == none && !labels.valued && !labels.counts;
    if (is_bare && labels.eager) return close_bare<Bits>(document.name[element], labels, above);
    find_tests(labels, document, element, above);
    if (labels.count == 0) return pass(level, above);           // nobody asks for such an element
    bool idle = !labels.eager && !level.keys && test_list_.empty() && raised_.empty();
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

// Whether something may hold at an element without anything holding below it.
inline bool TreeRun::matters(const Document& document, uint32_t element, NameResolver& names) {
    auto of = [&](uint32_t name) {
        if (name >= interest_.size()) interest_.resize(name + 1 + name / 2, 0);
        if (!interest_[name]) {
            const Locals& labels = element_labels(name, names);
            const Locals& attribute = attribute_labels(name, names);
            interest_[name] = interest_known | (has_interest(labels) ? interest_element : 0) | (labels.family != none ? interest_place : 0) |
                              (attribute.count && !attribute.late ? interest_attribute : 0);
        }
        return interest_[name];
    };
    uint8_t own = of(document.name[element]);
    if (own & interest_place) {
        find_place(document, element, names);
        if (has_interest(labels_of(document, element, names))) return true;
    }
    if (own & interest_element) return true;
    if (!machine_->has_attributes()) return false;
    for (size_t a = document.attribute_begin[element], end = document.attribute_end(element); a < end; ++a)
        if (of(document.attribute_name[a]) & interest_attribute) return true;
    return false;
}

// Opens an element together with all its ancestors that are not open yet.
void TreeRun::open_to(const Document& document, uint32_t element) {
    uint32_t depth = document.depth[element], known = static_cast<uint32_t>(open_.size());
    while (levels_.size() < depth + 2) levels_.emplace_back().stamp = ++stamps_;
    open_.resize(depth + 1);
    for (uint32_t at = element, d = depth + 1; d-- > known; at = document.parent[at]) open_[d] = at;
}

// Elements that cannot matter are never opened, unless something below them does.
template <class Bits>
void TreeRun::run_with(const Document& document, NameResolver& names, AnswerBits& out) {
    next_text_ = 0;
    open_.clear();
    document_ = &document;
    forget_witnesses();
    string_values_.begin(document);
    derived_values_.begin(document);
    ++run_;
    if (siblings_.are_counted) count_siblings(document);
    if (marks_) start_marks(document);
    if (machine_->has_places() && places_.size() < document.elements()) places_.resize(document.elements());
    for (Level& level : levels_) level.clear(++stamps_);
    for (uint32_t i = 0; i < document.elements(); ++i) {
        if ((i + 1) % elements_per_check == 0) Interrupt::check(elements_per_check * nanoseconds_per_element);
        if (!matters(document, i, names) && !has_marks_at(i)) continue;
        while (!open_.empty() && i >= open_.back() + document.size[open_.back()]) {
            close<Bits>(document, open_.back(), names);
            open_.pop_back();
        }
        open_to(document, i);
    }
    for (; !open_.empty(); open_.pop_back()) close<Bits>(document, open_.back(), names);
    if (marks_) marks<Bits>(none, names, levels_[0]);
    raise(levels_[0]);
    load(levels_[0]);
    apply<Bits>(root_labels_, [&](uint32_t position, uint64_t bits) {
        out.append(machine_->accept(position), bits);
    });
    unload();
}

void TreeRun::run(const Document& document, NameResolver& names, AnswerBits& out) {
    if (value_paths_) value_paths_->run(document, names, out);
    if (!machine_->has_trees()) return;
#if TREECAST_X86
    if (simd_level() >= Simd::avx2) return run_with<HardBits>(document, names, out);
#endif
    run_with<SoftBits>(document, names, out);
}

}  // namespace treecast
