// Facts about values, looked up: which of many conditions on a string hold, at a cost that follows those that do.
//
// Facts are grouped by the label of what has the value (an element, an attribute, a text). Equality is one look-up in a hash
// table, as a string and as a number; bounds are sorted, so that those that hold are one run of neighbouring fact numbers;
// prefixes are one look-up for each length that occurs; substrings are found together by one automaton for the label
// (Aho and Corasick).
#pragma once

#include "array.hpp"
#include "document.hpp"
#include "number.hpp"
#include "pattern.hpp"
#include "seeded_hash.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace treecast {

class Values {
public:
    struct Condition {
        uint32_t label;
        Fact fact;
        std::string_view value;
    };
    // Takes conditions sorted by label, fact and value (bounds by number); condition i is fact i.
    void build(const std::vector<Condition>& conditions);
    uint32_t group_of(uint32_t label) const;         // the number of the conditions on this label, from 1; 0: there are none
    // How much of a value must be known for the facts of a group: what is longer than `bytes_max` may be cut there,
    // unless `whole`, and with `numbers` only if what is left cannot be a number.
    struct Need {
        uint64_t bytes_max = 0;
        bool numbers = false, whole = false;
    };
    Need need(uint32_t group) const;
    // Calls one(fact) or run(begin, end) for the facts of a group that hold for the value; some more than once.
    template <class One, class Run>
    void collect(uint32_t group, std::string_view value, One&& one, Run&& run) const {
        const Group& found = groups_[group - 1];
        collect_texts(found, value, one);
        if (found.numbers) collect_number(found, to_number(value), one, run);
        if (found.automaton) collect_substrings(found, value, one);
    }
    // The same for values that are not at hand as a whole: what is compared with texts may be cut behind bytes_max; the number;
    // and the substrings, as far as a value is at hand.
    template <class One>
    void collect_texts(uint32_t group, std::string_view value, One&& one) const { collect_texts(groups_[group - 1], value, one); }
    template <class One, class Run>
    void collect_number(uint32_t group, double number, One&& one, Run&& run) const { collect_number(groups_[group - 1], number, one, run); }
    template <class One>
    void collect_substrings(uint32_t group, std::string_view value, One&& one) const {
        collect_substrings(groups_[group - 1], value, one);
    }

    // The automaton of a group, for those who run it themselves: its root, 0 where there is none, and the facts that it finds.
    size_t groups() const { return groups_.size(); }
    bool has_automata() const { return !states_.empty(); }
    uint32_t automaton(uint32_t group) const { return groups_[group - 1].automaton; }
    std::pair<uint32_t, uint32_t> substring_facts(uint32_t group) const {
        constexpr int kind = static_cast<int>(Fact::contains);
        return {groups_[group - 1].begin[kind], groups_[group - 1].end[kind]};
    }
    uint32_t edge(uint32_t from, unsigned char byte) const;          // 0: none
    uint32_t fallback(uint32_t state) const { return states_[state].fallback; }
    uint32_t fact_of(uint32_t state) const { return states_[state].fact; }
    uint32_t shorter(uint32_t state) const { return states_[state].shorter; }
    std::string_view text(uint32_t fact) const { return {bytes_.data() + ends_[fact], ends_[fact + 1] - ends_[fact]}; }
    template <class One>
    void each_fact(uint32_t fact, One&& one) const {        // those with the same text
        for (; fact != none; fact = also_[fact]) one(fact);
    }
    template <class Visit>
    void parts(Visit&& visit) {
        visit(groups_), visit(prefix_sizes_), visit(bytes_), visit(ends_), visit(labels_), visit(facts_), visit(table_);
        visit(bounds_), visit(states_), visit(edges_), visit(also_), visit(seeds_);
    }
    uint64_t bytes() const;

private:
    struct Group {
        uint32_t label = 0;
        uint32_t begin[8] = {}, end[8] = {};        // facts by kind
        uint32_t prefixes = 0, prefixes_end = 0;    // in prefix_sizes_
        uint32_t automaton = 0;                     // the first of its states; 0: none
        uint32_t text_bytes_max = 0;                // of the strings compared with
        uint32_t numbers = 0;
        bool has(Fact fact) const { return end[static_cast<int>(fact)] != 0; }
    };
    struct State {                                  // of an automaton
        uint32_t fact = none;                       // the first of those that end here; the others by also_
        uint32_t fallback = 0;                      // the longest proper suffix that is a state
        uint32_t shorter = 0;                       // the longest proper suffix that ends a fact; 0: none
    };
    struct Edge {
        uint32_t from = 0, to = 0;                  // to == 0: an empty place of the table
        uint32_t byte = 0;
    };

    uint32_t find(uint32_t label, Fact fact, std::string_view value) const;
    void add_text(uint32_t fact);
    uint32_t follow(uint32_t root, uint32_t state, unsigned char byte) const;
    void add_edge(uint32_t from, unsigned char byte, uint32_t to);
    void build_automaton(Group& group);

    template <class One>
    void collect_texts(const Group& group, std::string_view value, One&& one) const {
        auto look_up = [&](Fact fact, std::string_view key) {
            if (uint32_t i = find(group.label, fact, key); i != none) one(i);
        };
        if (group.has(Fact::equal_text) && value.size() <= group.text_bytes_max) look_up(Fact::equal_text, value);
        for (uint32_t p = group.prefixes; p < group.prefixes_end; ++p)
            if (prefix_sizes_[p] <= value.size()) look_up(Fact::starts_with, value.substr(0, prefix_sizes_[p]));
    }
    template <class One, class Run>
    void collect_number(const Group& group, double number, One&& one, Run&& run) const {
        if (std::isnan(number)) return;
        if (group.has(Fact::equal_number)) {
            double key = number == 0 ? 0 : number;
            uint32_t i = find(group.label, Fact::equal_number, {reinterpret_cast<const char*>(&key), sizeof key});
            if (i != none) one(i);
        }
        auto split = [&](Fact fact, bool after_equal, bool above) {     // bounds ascend
            uint32_t begin = group.begin[static_cast<int>(fact)], end = group.end[static_cast<int>(fact)];
            const double *from = bounds_.data() + begin, *to = bounds_.data() + end;
            const double* at = after_equal ? std::upper_bound(from, to, number) : std::lower_bound(from, to, number);
            uint32_t middle = static_cast<uint32_t>(at - bounds_.data());
            if (above && middle < end) run(middle, end);
            if (!above && begin < middle) run(begin, middle);
        };
        split(Fact::less, true, true);                  // value < bound
        split(Fact::less_equal, false, true);
        split(Fact::greater, false, false);             // bound < value
        split(Fact::greater_equal, true, false);
    }
    template <class One>
    void collect_substrings(const Group& group, std::string_view value, One&& one) const {
        uint32_t state = group.automaton;
        for (unsigned char byte : value) {
            state = follow(group.automaton, state, byte);
            for (uint32_t at = states_[state].fact != none ? state : states_[state].shorter; at; at = states_[at].shorter)
                each_fact(states_[at].fact, one);
        }
    }

    Array<Group> groups_;                           // by label
    Array<uint32_t> prefix_sizes_;
    Array<char> bytes_;                             // the values, one after the other
    Array<uint32_t> ends_;
    Array<uint32_t> labels_;                        // by fact
    Array<Fact> facts_;
    Array<uint64_t> table_;                         // of equalities and prefixes: half a hash, and the fact; none: empty
    Array<double> bounds_;                          // by fact
    Array<State> states_;                           // of all automata; 0 is none
    Array<Edge> edges_;                             // a hash table
    Array<uint32_t> also_;                          // by fact: another one with the same text
    HashSeeds seeds_ = hash_seeds();
    size_t edge_count_ = 0;
};

}  // namespace treecast
