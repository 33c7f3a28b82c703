#include "values.hpp"

#include "interrupt.hpp"

#include <cstring>

namespace treecast {

namespace {
constexpr uint64_t empty_place = ~0ull;
}

void Values::build(const std::vector<Condition>& conditions) {
    size_t size = 64;
    while (size < 2 * conditions.size()) size *= 2;
    if (!conditions.empty()) table_.assign(size, empty_place);
    bounds_.assign(conditions.size(), 0);
    also_.assign(conditions.size(), none);
    ends_.push(0);
    for (uint32_t i = 0; i < conditions.size(); ++i) {
        const Condition& c = conditions[i];
        bytes_.append(c.value.data(), c.value.size());
        ends_.push(static_cast<uint32_t>(bytes_.size()));
        labels_.push(c.label);
        facts_.push(c.fact);
        if (groups_.empty() || groups_.back().label != c.label) groups_.push({.label = c.label});
        Group& group = groups_.back();
        int kind = static_cast<int>(c.fact);
        if (!group.has(c.fact)) group.begin[kind] = i;
        group.end[kind] = i + 1;
        if (c.fact == Fact::equal_text || c.fact == Fact::equal_number || c.fact == Fact::starts_with) add_text(i);
        if (c.fact == Fact::equal_text) group.text_bytes_max = std::max(group.text_bytes_max, static_cast<uint32_t>(c.value.size()));
        if (c.fact >= Fact::equal_number && c.fact <= Fact::greater_equal) {
            group.numbers = 1;
            std::memcpy(&bounds_[i], c.value.data(), sizeof(double));
        }
    }
    for (Group& group : groups_) {
        std::vector<uint32_t> sizes;
        for (uint32_t i = group.begin[7]; i < group.end[7]; ++i) sizes.push_back(ends_[i + 1] - ends_[i]);
        static_assert(static_cast<int>(Fact::starts_with) == 7);
        std::sort(sizes.begin(), sizes.end());
        sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
        group.prefixes = static_cast<uint32_t>(prefix_sizes_.size());
        prefix_sizes_.append(sizes.data(), sizes.size());
        group.prefixes_end = static_cast<uint32_t>(prefix_sizes_.size());
        if (group.has(Fact::contains)) build_automaton(group);
    }
}

void Values::add_text(uint32_t fact) {
    size_t mask = table_.size() - 1;
    uint64_t hash = hash_bytes(text(fact), uint64_t(labels_[fact]) << 3 | static_cast<int>(facts_[fact]), seeds_);
    size_t at = hash & mask;
    while (table_[at] != empty_place) at = (at + 1) & mask;
    table_[at] = hash >> 32 << 32 | fact;
}

uint32_t Values::find(uint32_t label, Fact fact, std::string_view value) const {
    size_t mask = table_.size() - 1;
    uint64_t hash = hash_bytes(value, uint64_t(label) << 3 | static_cast<int>(fact), seeds_);
    for (size_t at = hash & mask; table_[at] != empty_place; at = (at + 1) & mask) {
        if ((table_[at] ^ hash) >> 32) continue;       // most values are nobody's: one look at the table tells
        uint32_t i = static_cast<uint32_t>(table_[at]);
        if (labels_[i] == label && facts_[i] == fact && text(i) == value) return i;
    }
    return none;
}

namespace {
size_t edge_hash(uint32_t from, unsigned char byte) {
    uint64_t h = (uint64_t(from) << 8 | byte) * 0x9E3779B97F4A7C15ull;
    return h >> 20;
}
}  // namespace

uint32_t Values::edge(uint32_t from, unsigned char byte) const {
    size_t mask = edges_.size() - 1;
    for (size_t at = edge_hash(from, byte) & mask; edges_[at].to; at = (at + 1) & mask)
        if (edges_[at].from == from && edges_[at].byte == byte) return edges_[at].to;
    return 0;
}

void Values::add_edge(uint32_t from, unsigned char byte, uint32_t to) {
    if (2 * ++edge_count_ >= edges_.size()) {
        Array<Edge> old;
        old.assign(std::max<size_t>(64, edges_.size() * 2), Edge{});
        std::swap(old, edges_);
        edge_count_ = 1;
        for (const Edge& e : old)
            if (e.to) add_edge(e.from, static_cast<unsigned char>(e.byte), e.to);
    }
    size_t at = edge_hash(from, byte) & (edges_.size() - 1);
    while (edges_[at].to) at = (at + 1) & (edges_.size() - 1);
    edges_[at] = {from, to, byte};
}

uint32_t Values::follow(uint32_t root, uint32_t state, unsigned char byte) const {
    for (;;) {
        if (uint32_t next = edge(state, byte)) return next;
        if (state == root) return root;
        state = states_[state].fallback;
    }
}

// Aho and Corasick: the texts as a trie; then, by depth, where to fall back to.
void Values::build_automaton(Group& group) {
    if (states_.empty()) states_.push({});
    if (edges_.empty()) edges_.assign(64, Edge{});
    group.automaton = static_cast<uint32_t>(states_.size());
    states_.push({none, group.automaton, 0});
    struct Grown { uint32_t from, to; unsigned char byte; size_t depth; };
    std::vector<Grown> grown;
    InterruptTicks ticks(200);
    for (uint32_t i = group.begin[static_cast<int>(Fact::contains)]; i < group.end[static_cast<int>(Fact::contains)]; ++i) {
        uint32_t state = group.automaton;
        size_t depth = 0;
        ticks.tick();
        for (unsigned char byte : text(i)) {
            ++depth;
            uint32_t next = edge(state, byte);
            if (!next) {
                next = static_cast<uint32_t>(states_.size());
                states_.push({});
                add_edge(state, byte, next);
                grown.push_back({state, next, byte, depth});
            }
            state = next;
        }
        also_[i] = states_[state].fact;
        states_[state].fact = i;
    }
    std::stable_sort(grown.begin(), grown.end(), [](const Grown& a, const Grown& b) { return a.depth < b.depth; });
    for (const Grown& g : grown) {
        ticks.tick();
        State& state = states_[g.to];
        state.fallback = g.from == group.automaton ? group.automaton : follow(group.automaton, states_[g.from].fallback, g.byte);
        const State& shorter = states_[state.fallback];
        state.shorter = shorter.fact != none ? state.fallback : shorter.shorter;
    }
}

uint32_t Values::group_of(uint32_t label) const {
    auto found = std::lower_bound(groups_.begin(), groups_.end(), label, [](const Group& g, uint32_t l) { return g.label < l; });
    return found != groups_.end() && found->label == label ? static_cast<uint32_t>(found - groups_.begin() + 1) : 0;
}

Values::Need Values::need(uint32_t number) const {
    const Group& group = groups_[number - 1];
    uint32_t prefix = group.prefixes < group.prefixes_end ? prefix_sizes_[group.prefixes_end - 1] : 0;
    return {std::max(group.text_bytes_max, prefix), group.numbers != 0, group.automaton != 0};
}

uint64_t Values::bytes() const {
    return groups_.bytes() + prefix_sizes_.bytes() + bytes_.bytes() + ends_.bytes() + labels_.bytes() + facts_.bytes() + table_.bytes() +
           bounds_.bytes() + states_.bytes() + edges_.bytes() + also_.bytes();
}

}  // namespace treecast
