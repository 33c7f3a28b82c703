// What TreeRun reads of the values of elements: the beginnings of strings, substrings in one sweep, and gauges (gauges.hpp).
#include "machines/tree_run.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace treecast {

// A gauge of 0 has seen no value. Those that have are listed, so that nobody searches all of them.
void TreeRun::raise(uint32_t gauge, uint64_t height) {
    if (heights_[gauge] == 0) raised_.push_back(gauge);
    heights_[gauge] = join_heights(machine_->gauge_kinds_[gauge], heights_[gauge], height);
}

// Turns a value into heights, one per kind of gauge, and raises the gauges of this label.
void TreeRun::gauge(uint32_t label, std::string_view value, double number, Level& into) {
    const TreeMachine::Gauges& gauges = machine_->gauges(label);
    uint64_t heights[gauge_kinds] = {};
    if (!std::isnan(number)) {
        heights[static_cast<int>(GaugeKind::most)] = height_of(number);
        heights[static_cast<int>(GaugeKind::least)] = ~height_of(number);
    }
    auto compare = [&](GaugeKind kind, uint32_t met) {
        heights[static_cast<int>(kind)] = met == none ? height_various : uint64_t(met) + 1;
    };
    const Values& values = machine_->values();
    uint32_t group = machine_->value_group(label);
    if (gauges.has(GaugeKind::text)) compare(GaugeKind::text, values.equal_text(group, value));
    if (gauges.has(GaugeKind::number)) compare(GaugeKind::number, values.equal_number(group, number));
    for (uint32_t kind = 0; kind < gauge_kinds; ++kind) {
        if (!heights[kind]) continue;
        if (uint32_t own = gauges.of[TreeMachine::in_tests][kind]; own != none) raise(own, heights[kind]);
        for (uint32_t space : {TreeMachine::in_child, TreeMachine::in_descend})
            if (uint32_t outer = gauges.of[space][kind]; outer != none) note_gauge(into, space, outer, heights[kind]);
    }
}

// Long lists are merged in place, so that memory does not grow with the number of children.
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

// At this element, the height of an inner gauge also counts for the outer gauge that is derived from it.
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

// The string value up to `bytes_max`, and then at least one byte more, so that longer values differ.
std::string_view TreeRun::value_beginning(const Document& document, uint32_t element, uint64_t bytes_max) {
    uint32_t begin = document.text_begin[element], end = document.text_end[element];
    if (begin == end) return {};
    if (end - begin == 1) return document.value(document.text[begin]);
    value_.clear();
    for (uint32_t t = begin; t < end && value_.size() <= bytes_max; ++t)
        value_ += document.value(document.text[t]).substr(0, bytes_max + 1);
    return value_;
}

// Whether the substrings of a group's values are found in one sweep from now on (substrings.hpp). That starts with an element
// that is a good part of the document, or once more has been read than there is up to here: then elements are inside each other.
bool TreeRun::is_swept(uint32_t group, const Document& document, uint32_t element) {
    Nest& nest = nests_[group];
    if (nest.run != run_) {
        nest.run = run_;
        nest.bytes = 0;
        nest.swept = false;
    }
    if (nest.swept) return true;
    uint64_t bytes = document.end[element] - document.start[element];
    const bool is_large = bytes > swept_bytes_min + document.source.size() / 4;
    if (!is_large && nest.bytes + bytes <= swept_bytes_min + document.end[element]) return false;
    nest.swept = true;
    if (!nest.sweep) nest.sweep = std::make_unique<Sweep>(machine_->values(), group);
    // Starts at the outermost open element whose value is still to come.
    auto outermost = std::find_if(open_.begin(), open_.end(), [&](uint32_t open) { return may_be_in(group, document.name[open]); });
    nest.next_text = document.text_begin[*outermost];
    nest.sweep->start(string_values_.offset(nest.next_text));
    return true;
}

// Also true if the labels of the name are not known yet; they are when such an element closes.
bool TreeRun::may_be_in(uint32_t group, uint32_t name) const {
    if (name >= element_labels_.size() || element_labels_[name].count == none) return true;
    auto is_in = [&](const Locals& labels) { return std::ranges::any_of(labels, [&](uint32_t label) { return machine_->value_group(label) == group; }); };
    const Locals& locals = element_labels_[name];
    if (is_in(locals)) return true;
    return locals.family != none && std::ranges::any_of(families_[locals.family].placed, is_in, &Family::Placed::labels);
}

// Reads on to the end of the element, then asks which substrings are inside it. Elements close in such an order that no text
// is read twice.
void TreeRun::sweep(uint32_t group, const Document& document, uint32_t element) {
    const Values& values = machine_->values();
    uint32_t begin = document.text_begin[element], end = document.text_end[element];
    if (begin == end) return;
    Nest& nest = nests_[group];
    for (; nest.next_text < end; ++nest.next_text) nest.sweep->read(values, document.value(document.text[nest.next_text]));
    nest.sweep->within(values, string_values_.offset(begin), [this](uint32_t test) { return set_test(test); });
}

// For an element. Ancestors have its text in their values too, so no more of it is read than conditions need.
void TreeRun::find_tests(const Locals& labels, const Document& document, uint32_t element, Level& into) {
    if (!labels.valued) return;
    bool numbers = false, whole = false;
    uint64_t bytes_max = 0;
    for (uint32_t label : labels) {
        if (machine_->program(label)) continue;
        numbers |= machine_->gauges(label).numbers();
        uint32_t group = machine_->value_group(label);
        if (!group) continue;
        Values::Need need = machine_->values().need(group);
        numbers |= need.numbers;
        whole = whole || (need.whole && !is_swept(group, document, element));
        bytes_max = std::max(bytes_max, need.bytes_max);
    }
    std::string_view value = value_beginning(document, element, whole ? none : bytes_max);
    double number = std::nan("");
    if (numbers) number = string_values_.number({document.text_begin[element], document.text_end[element]});
    for (uint32_t label : labels) {
        if (machine_->program(label)) {
            find_made_tests(label, document, element, into);
            continue;
        }
        if (machine_->gauges(label).kinds) gauge(label, value, number, into);
        if (uint32_t group = machine_->value_group(label)) find_group_tests(group, document, element, value, number);
    }
    list_tests(labels, into);
}

void TreeRun::find_group_tests(uint32_t group, const Document& document, uint32_t element, std::string_view value, double number) {
    const Values& values = machine_->values();
    auto set = [this](uint32_t test) { return set_test(test); };
    values.collect_texts(group, value, set);
    values.collect_number(group, number, set);
    if (!values.need(group).whole) return;
    if (nests_[group].swept) {
        sweep(group, document, element);
    } else {
        nests_[group].bytes += value.size();
        values.collect_substrings(group, value, set);
    }
}

// The tests of a derived label. Its values are short, or parts of one text: so substrings are found in one sweep as well.
void TreeRun::find_made_tests(uint32_t label, const Document&, uint32_t element, Level& into) {
    const Values& values = machine_->values();
    const DerivedValues::Made made = derived_values_.of_element(machine_->program(label) - 1, element, string_values_);
    const TreeMachine::Gauges& gauges = machine_->gauges(label);
    const uint32_t group = machine_->value_group(label);
    double number = made.number;
    if (!made.is_number) number = gauges.numbers() || (group && values.need(group).numbers) ? to_number(made.text) : std::nan("");
    if (gauges.kinds) gauge(label, made.text, number, into);
    if (!group) return;
    auto set = [this](uint32_t test) { return set_test(test); };
    if (!made.is_number) values.collect_texts(group, made.text, set);
    values.collect_number(group, number, set);
    if (!values.automaton(group)) return;
    if (made.whole) sweep_made(group, made);
    else values.collect_substrings(group, made.text, set);
}

// Elements close in the order of their ends, so it only reads on.
void TreeRun::sweep_made(uint32_t group, const DerivedValues::Made& made) {
    const Values& values = machine_->values();
    Nest& nest = nests_[group];
    if (!nest.sweep) nest.sweep = std::make_unique<Sweep>(values, group);
    if (nest.run != run_) {
        nest.run = run_;
        nest.next_byte = 0;
        nest.sweep->start(0);
    }
    const auto begin = static_cast<size_t>(made.text.data() - made.whole->data()), end = begin + made.text.size();
    nest.sweep->read(values, std::string_view(*made.whole).substr(nest.next_byte, end - nest.next_byte));
    nest.next_byte = end;
    nest.sweep->within(values, begin, [this](uint32_t test) { return set_test(test); });
}

}  // namespace treecast
