// Tests about values, looked up: which of many conditions on a string hold, at a cost that follows those that do.
//
// Tests are grouped by the label of what has the value (an element, an attribute, a text). Equality is one look-up in a hash
// table, as a string and as a number. Prefixes are one look-up for each length that occurs. Substrings are found together by
// one automaton for the label (Aho and Corasick). Order is read from gauges instead (gauges.hpp).
#pragma once

#include "base/array.hpp"
#include "base/seeded_hash.hpp"
#include "document/document.hpp"
#include "machines/pattern.hpp"
#include "document/number.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

namespace treecast {

class Values {
public:
    struct Condition {
        uint32_t label;
        ValueTest test;
        std::string_view value;
    };
    // Takes conditions sorted by label, test and value, none of order; condition i is test i.
    void build(const std::vector<Condition>& conditions);
    uint32_t group_of(uint32_t label) const;         // the number of the conditions on this label, from 1; 0: there are none
    // How much of a value must be known for the tests of a group: what is longer than `bytes_max` may be cut there,
    // unless `whole`, and with `numbers` only if what is left cannot be a number.
    struct Need {
        uint64_t bytes_max = 0;
        bool numbers = false, whole = false;
    };
    Need need(uint32_t group) const;
    // The test of a group that says the value equals a text, or a number; none if there is no such. What is longer than any text
    // of the group may be cut after that.
    uint32_t equal_text(uint32_t group, std::string_view value) const { return find_text(groups_[group - 1], value); }
    uint32_t equal_number(uint32_t group, double number) const { return find_number(groups_[group - 1], number); }
    // equal_text in three steps, for one who looks up several texts: each asks for the memory that the next one reads, so that all of
    // them wait together. False: no test of the group says so.
    // PERF: bench/network_cpu.py. With 100,000 subscriptions none of it is in the cache of a broker's core.
    struct Search {
        uint32_t group = 0, test = none;            // test: perhaps
        uint64_t hash = 0;
        std::string_view value;
    };
    bool begin(Search& search) const {
        const Group& group = groups_[search.group - 1];
        if (!may_equal(group, search.value)) return false;
        search.hash = hash(group.label, ValueTest::equal_text, search.value);
        __builtin_prefetch(filter_.data() + filter_place(search.hash));
        __builtin_prefetch(table_.data() + (search.hash & (table_.size() - 1)));
        return true;
    }
    bool narrow(Search& search) const {
        search.test = first(groups_[search.group - 1], ValueTest::equal_text, search.hash, [](uint32_t) { return true; });
        if (search.test == none) return false;
        __builtin_prefetch(ends_.data() + search.test);
        return true;
    }
    void approach(const Search& search) const { __builtin_prefetch(bytes_.data() + ends_[search.test]); }
    bool finish(Search& search) const {
        if (text(search.test) == search.value) return true;
        search.test = equal_text(search.group, search.value);
        return search.test != none;
    }
    // Calls one(test) for the tests of a group that hold for the value, some more than once. `one` returns whether it was called
    // with that test for this value before.
    template <class One>
    void collect(uint32_t group, std::string_view value, One&& one) const {
        const Group& found = groups_[group - 1];
        collect_texts(found, value, one);
        collect_number(found, found.has(ValueTest::equal_number) ? to_number(value) : std::nan(""), one);
        if (found.automaton) collect_substrings(found, value, one);
    }
    // The same for values that are not at hand as a whole: what is compared with texts may be cut after bytes_max; the number;
    // and the substrings, as far as a value is at hand.
    template <class One>
    void collect_texts(uint32_t group, std::string_view value, One&& one) const { collect_texts(groups_[group - 1], value, one); }
    template <class One>
    void collect_number(uint32_t group, double number, One&& one) const { collect_number(groups_[group - 1], number, one); }
    template <class One>
    void collect_substrings(uint32_t group, std::string_view value, One&& one) const {
        collect_substrings(groups_[group - 1], value, one);
    }

    // The automaton of a group, for callers that run it themselves: its root, 0 if there is none, and the tests that it finds.
    size_t groups() const { return groups_.size(); }
    bool has_automata() const { return !states_.empty(); }
    uint32_t automaton(uint32_t group) const { return groups_[group - 1].automaton; }
    std::pair<uint32_t, uint32_t> substring_tests(uint32_t group) const {
        constexpr int kind = static_cast<int>(ValueTest::contains);
        return {groups_[group - 1].begin[kind], groups_[group - 1].end[kind]};
    }
    // One transition of the automaton: falls back to shorter suffixes until one has an edge for the byte.
    uint32_t follow(uint32_t root, uint32_t state, unsigned char byte) const {
        for (;;) {
            if (uint32_t next = child(states_[state], byte)) return next;
            if (state == root) return root;
            state = states_[state].fallback;
        }
    }
    uint32_t edge(uint32_t from, unsigned char byte) const { return child(states_[from], byte); }     // 0: none
    uint32_t fallback(uint32_t state) const { return states_[state].fallback; }
    // The longest text that ends where a state is reached, as the state that it alone leads to; 0: none.
    uint32_t ends(uint32_t state) const { return states_[state].ends; }
    uint32_t shorter(uint32_t state) const { return ends(fallback(state)); }       // the longest but for that of the state itself
    uint32_t test_of(uint32_t state) const { return state_tests_[state]; }         // the first of those with its text
    std::string_view text(uint32_t test) const { return {bytes_.data() + ends_[test], ends_[test + 1] - ends_[test]}; }
    template <class One>
    void each_test(uint32_t test, One&& one) const {        // those with the same text
        for (; test != none; test = also_[test]) one(test);
    }
    template <class Visit>
    void parts(Visit&& visit) {
        visit(groups_), visit(prefixes_), visit(bytes_), visit(ends_), visit(table_), visit(filter_);
        visit(states_), visit(state_tests_), visit(arrivals_), visit(tables_), visit(also_), visit(seeds_);
    }
    uint64_t bytes() const;

private:
    struct Group {
        uint32_t label = 0;
        uint32_t begin[8] = {}, end[8] = {};        // tests by kind
        uint32_t prefixes = 0, prefixes_end = 0;    // in prefixes_
        uint32_t automaton = 0;                     // the first of its states; 0: none
        uint32_t text_bytes_max = 0;                // of the strings compared with
        bool has(ValueTest test) const { return end[static_cast<int>(test)] != 0; }
    };
    // Of an automaton. PERF: bench/shapes.py. Every value passes through some of them at random, so they are small.
    struct Prefixes {                               // those of one size
        uint64_t size = 0;
        uint64_t last_bytes[4] = {};                // a bit for each byte that one of them ends with
        static unsigned char last(std::string_view text, uint64_t size) { return static_cast<unsigned char>(text[size - 1]); }
        void add(std::string_view text) {
            if (size) last_bytes[last(text, size) >> 6] |= 1ull << (last(text, size) & 63);
        }
        // Whether the text may begin with one of them. PERF: bench/shapes.py. Cheaper than a hash, and rarely true where they end alike.
        bool may_end(std::string_view text) const {
            return !size || last_bytes[last(text, size) >> 6] >> (last(text, size) & 63) & 1;
        }
    };
    struct State {
        uint32_t fallback = 0;                      // the longest proper suffix that is a state; 0 for the root
        uint32_t ends = 0;                          // the longest suffix, or the state itself, that ends a test; 0: none
        uint32_t first = 0;                         // its children are neighbours, by the byte that leads to each
        uint16_t children = 0;                      // how many; has_table: `first` is the number of a table
        uint16_t byte = 0;                          // that leads to the first of them: most states have only that one
    };
    static constexpr uint16_t has_table = 0xFFFF;
    static constexpr uint64_t empty_place = ~0ull;  // in table_
    // Of the many states with some children only those near the root get a table: they are met most often, and a table takes 1 KiB.
    static constexpr uint32_t children_few = 8, children_listed_max = 32, tables_near_root_max = 64, root_tables_max = 4096;
    static constexpr size_t list_read_bytes = 8;    // children are compared so many at a time

    uint64_t hash(uint32_t label, ValueTest test, std::string_view value) const {
        return hash_bytes(value, uint64_t(label) << 3 | static_cast<int>(test), seeds_);
    }
    // The filter says of most texts that they are not in the table, and is smaller.
    size_t filter_place(uint64_t hash) const { return (hash >> 6) & (filter_.size() - 1); }
    static uint64_t filter_bits(uint64_t hash) { return 1ull << (hash & 63) | 1ull << (hash >> 58); }
    // The first test of the kind with half of the hash of which is_it(test) is true, or none.
    template <class IsIt>
    uint32_t first(const Group& group, ValueTest kind, uint64_t hash, IsIt&& is_it) const {
        // PERF: bench/shapes.py. Most values match no test: a look at the filter is enough.
        if (~filter_[filter_place(hash)] & filter_bits(hash)) return none;
        // Tests are sorted by label and kind.
        const uint32_t begin = group.begin[static_cast<int>(kind)], end = group.end[static_cast<int>(kind)];
        const size_t mask = table_.size() - 1;
        for (size_t at = hash & mask; table_[at] != empty_place; at = (at + 1) & mask) {
            if ((table_[at] ^ hash) >> 32) continue;
            const auto test = static_cast<uint32_t>(table_[at]);
            if (begin <= test && test < end && is_it(test)) return test;
        }
        return none;
    }
    uint32_t find(const Group& group, ValueTest kind, std::string_view value) const {
        return first(group, kind, hash(group.label, kind, value), [&](uint32_t test) { return text(test) == value; });
    }
    static bool may_equal(const Group& group, std::string_view value) {
        return group.has(ValueTest::equal_text) && value.size() <= group.text_bytes_max;
    }
    void add_text(uint32_t test, const Condition& condition);
    void add_table(State& state);
    bool is_met_often(const Group& group, uint32_t state, size_t tables_before) const;
    uint32_t child(const State& state, unsigned char byte) const {   // 0: none
        if (state.children == 1) return state.byte == byte ? state.first : 0;
        if (state.children == has_table) return tables_[size_t(state.first) * 256 + byte];
        constexpr uint64_t ones = 0x0101010101010101u;
        const unsigned char* list = arrivals_.data() + state.first;
        for (uint32_t at = 0; at < state.children; at += list_read_bytes) {
            uint64_t bytes;
            std::memcpy(&bytes, list + at, list_read_bytes);        // behind the last list there is room
            bytes ^= byte * ones;
            uint64_t zeros = (bytes - ones) & ~bytes & (ones << 7);  // the lowest is exact
            if (!zeros) continue;
            at += static_cast<uint32_t>(std::countr_zero(zeros)) / 8;
            return at < state.children ? state.first + at : 0;
        }
        return 0;
    }
    void build_automaton(Group& group);

    uint32_t find_text(const Group& group, std::string_view value) const {
        return may_equal(group, value) ? find(group, ValueTest::equal_text, value) : none;
    }
    template <class One>
    void collect_texts(const Group& group, std::string_view value, One&& one) const {
        if (uint32_t i = find_text(group, value); i != none) one(i);
        for (uint32_t p = group.prefixes; p < group.prefixes_end; ++p) {
            const Prefixes& prefixes = prefixes_[p];
            if (prefixes.size > value.size() || !prefixes.may_end(value)) continue;
            if (uint32_t i = find(group, ValueTest::starts_with, value.substr(0, prefixes.size)); i != none) one(i);
        }
    }
    template <class One>
    void collect_number(const Group& group, double number, One&& one) const {
        if (uint32_t i = find_number(group, number); i != none) one(i);
    }
    uint32_t find_number(const Group& group, double number) const {
        if (std::isnan(number) || !group.has(ValueTest::equal_number)) return none;
        double key = number == 0 ? 0 : number;
        return find(group, ValueTest::equal_number, {reinterpret_cast<const char*>(&key), sizeof key});
    }
    template <class One>
    void collect_substrings(const Group& group, std::string_view value, One&& one) const {
        uint32_t state = group.automaton;
        for (unsigned char byte : value) {
            state = follow(group.automaton, state, byte);
            for (uint32_t at = ends(state); at; at = shorter(at)) {
                bool known = false;
                for (uint32_t test = test_of(at); test != none; test = also_[test]) known = one(test);
                if (known) break;                   // then so are all that end it: what a value costs does not grow with its hits
            }
        }
    }

    Array<Group> groups_;                           // by label
    Array<Prefixes> prefixes_;                      // by group, then size
    Array<char> bytes_;                             // the values, one after the other
    Array<uint32_t> ends_;
    Array<uint64_t> table_;                         // of equalities and prefixes: half a hash, and the test; none: empty
    Array<uint64_t> filter_;                        // two bits for each text in table_: see first()
    Array<State> states_;                           // of all automata; 0 is none
    Array<uint32_t> state_tests_;                   // by state: the first test that ends here; the others by also_
    Array<unsigned char> arrivals_;                 // by state: the byte that leads to it
    Array<uint32_t> tables_;                        // 256 states each
    Array<uint32_t> also_;                          // by test: another one with the same text
    HashSeeds seeds_{};                             // of table_: they follow from the conditions, see seeded_hash.hpp
};

}  // namespace treecast
