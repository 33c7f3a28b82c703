// Conditions on values, grouped by label: hash tables for equality and prefixes, an automaton for substrings.
#include "machines/values.hpp"

#include "base/digest.hpp"
#include "base/interrupt.hpp"

#include <map>

namespace treecast {

namespace {
// A table of its own, not IdSlots: it is saved as it is, and each slot has half of the hash next to the number.
constexpr size_t filter_bits_per_place = 4;
}

// Seeds come from the conditions themselves, so that equal machines are saved as equal bytes.
void Values::build(const std::vector<Condition>& conditions) {
    Digest digest;
    for (const Condition& c : conditions) {
        digest.add_number(uint64_t(c.label) << 3 | static_cast<int>(c.test));
        digest.add_number(c.value.size());
        digest.add(c.value);
    }
    seeds_ = digest.seeds();
    size_t size = 64;
    while (size < 2 * conditions.size()) size *= 2;
    if (!conditions.empty()) {
        table_.assign(size, empty_place);
        filter_.assign(size * filter_bits_per_place / 64, 0);
    }
    also_.assign(conditions.size(), none);
    ends_.push(0);
    for (uint32_t i = 0; i < conditions.size(); ++i) {
        const Condition& c = conditions[i];
        bytes_.append(c.value.data(), c.value.size());
        ends_.push(static_cast<uint32_t>(bytes_.size()));
        if (groups_.empty() || groups_.back().label != c.label) groups_.push({.label = c.label});
        Group& group = groups_.back();
        int kind = static_cast<int>(c.test);
        if (!group.has(c.test)) group.begin[kind] = i;
        group.end[kind] = i + 1;
        if (c.test == ValueTest::equal_text || c.test == ValueTest::equal_number || c.test == ValueTest::starts_with) add_text(i, c);
        if (c.test == ValueTest::equal_text) group.text_bytes_max = std::max(group.text_bytes_max, static_cast<uint32_t>(c.value.size()));
    }
    // Prefixes are looked up once per distinct length, so only the lengths are listed.
    for (Group& group : groups_) {
        static_assert(static_cast<int>(ValueTest::starts_with) == 7);
        std::map<uint64_t, Prefixes> by_size;
        for (uint32_t i = group.begin[7]; i < group.end[7]; ++i) {
            Prefixes& prefixes = by_size[text(i).size()];
            prefixes.size = text(i).size();
            prefixes.add(text(i));
        }
        group.prefixes = static_cast<uint32_t>(prefixes_.size());
        for (const auto& [size, prefixes] : by_size) prefixes_.push(prefixes);
        group.prefixes_end = static_cast<uint32_t>(prefixes_.size());
        if (group.has(ValueTest::contains)) build_automaton(group);
    }
    for (size_t i = 0; i < list_read_bytes && !states_.empty(); ++i) arrivals_.push(0);
}

void Values::add_text(uint32_t test, const Condition& condition) {
    size_t mask = table_.size() - 1;
    const uint64_t hash = this->hash(condition.label, condition.test, condition.value);
    size_t at = hash & mask;
    while (table_[at] != empty_place) at = (at + 1) & mask;
    table_[at] = hash >> 32 << 32 | test;
    filter_[filter_place(hash)] |= filter_bits(hash);
}

// Aho and Corasick: the texts as a trie, then, by depth, where to fall back to. The texts are sorted, so those that share a
// beginning are neighbours. Going through the trie by depth numbers the children of a state one after the other.
void Values::build_automaton(Group& group) {
    auto add_state = [&](unsigned char byte) {
        arrivals_.push(byte);
        arrivals_.reserve(arrivals_.size() + list_read_bytes);
        states_.push({});
        state_tests_.push(none);
        return static_cast<uint32_t>(states_.size() - 1);
    };
    if (states_.empty()) add_state(0);
    // State 0 stands for none, so every group begins after it.
    uint32_t root = group.automaton = add_state(0);
    struct Run { uint32_t state, begin, end; };             // the texts that begin with what leads to the state
    const int kind = static_cast<int>(ValueTest::contains);
    auto end_texts = [&](Run run, uint32_t depth) {         // those that end at the state; the others are left
        for (; run.begin < run.end && text(run.begin).size() == depth; ++run.begin) {
            also_[run.begin] = state_tests_[run.state];
            state_tests_[run.state] = run.begin;
            states_[run.state].ends = run.state;
        }
        return run;
    };
    const size_t tables_before = tables_.size();
    InterruptTicks ticks(200);
    std::vector<Run> runs{end_texts({root, group.begin[kind], group.end[kind]}, 0)}, deeper;
    for (uint32_t depth = 0; !runs.empty(); ++depth, std::swap(runs, deeper), deeper.clear())
        for (Run run : runs) {
            ticks.tick();
            states_[run.state].first = static_cast<uint32_t>(states_.size());
            while (run.begin < run.end) {
                unsigned char byte = static_cast<unsigned char>(text(run.begin)[depth]);
                uint32_t next = add_state(byte), begin = run.begin;
                while (run.begin < run.end && static_cast<unsigned char>(text(run.begin)[depth]) == byte) ++run.begin;
                deeper.push_back(end_texts({next, begin, run.begin}, depth + 1));
                if (!states_[run.state].children++) states_[run.state].byte = byte;
                uint32_t fallback = run.state == root ? root : follow(root, states_[run.state].fallback, byte);
                states_[next].fallback = fallback;
                if (!states_[next].ends) states_[next].ends = states_[fallback].ends;
            }
            if (is_met_often(group, run.state, tables_before) || states_[run.state].children > children_listed_max)
                add_table(states_[run.state]);
        }
}

// Most bytes are looked up at a root, and many close to it.
// PERF: a table for these, as far as there is room for such; other states list their children (bench/values.py, bench/shapes.py).
bool Values::is_met_often(const Group& group, uint32_t state, size_t tables_before) const {
    if (tables_.size() >= 256 * root_tables_max) return false;
    bool near_root = tables_.size() < tables_before + 256 * tables_near_root_max;
    return state == group.automaton || (near_root && states_[state].children > children_few);
}

// A table for all 256 bytes. Only busy states get one, because it takes 1 KiB.
void Values::add_table(State& state) {
    auto table = static_cast<uint32_t>(tables_.size() / 256);
    tables_.resize(tables_.size() + 256, 0);
    for (uint32_t c = state.first; c < state.first + state.children; ++c) tables_[size_t(table) * 256 + arrivals_[c]] = c;
    state.first = table;
    state.children = has_table;
}

uint32_t Values::group_of(uint32_t label) const {
    auto found = std::lower_bound(groups_.begin(), groups_.end(), label, [](const Group& g, uint32_t l) { return g.label < l; });
    return found != groups_.end() && found->label == label ? static_cast<uint32_t>(found - groups_.begin() + 1) : 0;
}

Values::Need Values::need(uint32_t number) const {
    const Group& group = groups_[number - 1];
    uint32_t prefix = group.prefixes < group.prefixes_end ? static_cast<uint32_t>(prefixes_[group.prefixes_end - 1].size) : 0;
    return {std::max(group.text_bytes_max, prefix), group.has(ValueTest::equal_number), group.automaton != 0};
}

uint64_t Values::bytes() const {
    return groups_.bytes() + prefixes_.bytes() + bytes_.bytes() + ends_.bytes() + table_.bytes() +
           states_.bytes() + state_tests_.bytes() + filter_.bytes() + arrivals_.bytes() + tables_.bytes() + also_.bytes();
}

}  // namespace treecast
