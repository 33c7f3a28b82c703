// Builds a TreeMachine: numbers tests and bounds, orders the entries, then fills the records.
//
// The order of entries is what makes the machine fast: entries that follow from neighbouring bits are neighbours themselves,
// so one PEXT finds up to 64 of them.
#include "base/interrupt.hpp"
#include "base/seeded_hash.hpp"
#include "machines/order.hpp"
#include "machines/tree_entries.hpp"
#include "machines/tree_machine.hpp"
#include "machines/tree_plan.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <map>
#include <tuple>

namespace treecast {

std::atomic<uint64_t> tree_serial{1};

namespace {

std::vector<uint32_t> add_all(TreeEntries& entries, std::span<const std::string_view> patterns) {
    std::vector<uint32_t> tops;
    tops.reserve(patterns.size());
    InterruptTicks ticks(500);
    for (std::string_view pattern : patterns) {
        tops.push_back(entries.add(pattern));
        ticks.tick();
    }
    return tops;
}

// Which patterns are a path with a value, if there are enough of them; with their numbers.
struct Division {
    Division(std::span<const std::string_view> patterns, const LabelTable& table) {
        ValuePathReader reader(table);
        std::vector<uint8_t> is_value(patterns.size());
        size_t count = 0;
        for (size_t i = 0; i < patterns.size(); ++i) count += is_value[i] = reader.read(patterns[i]).has_value();
        if (count < ValuePaths::patterns_min) is_value.assign(patterns.size(), 0);
        for (uint32_t i = 0; i < patterns.size(); ++i) {
            (is_value[i] ? values : trees).push_back(patterns[i]);
            (is_value[i] ? value_numbers : tree_numbers).push_back(i);
        }
    }
    std::vector<std::string_view> trees, values;
    std::vector<uint32_t> tree_numbers, value_numbers;
};

double number_of(std::string_view bytes) {
    double number;
    std::memcpy(&number, bytes.data(), sizeof number);
    return number;
}

}  // namespace

class TreeBuilder {
public:
    TreeBuilder(TreeMachine& machine, std::span<const std::string_view> patterns, const LabelTable& table, std::vector<uint32_t>& accept_of,
                const HashSeeds& seeds)
        : m_(machine), entries_(seeds), tops_(add_all(entries_, patterns)), plan_(entries_, tops_) {
        number_tests();
        number_bounds();
        order_entries();
        for (size_t i = 0; i < tops_.size(); ++i) accept_of[i] = m_.accept(position_[tops_[i]]);
        m_.accepts_ = static_cast<uint32_t>(tops_.size());
        fill_masks();
        fill_orders();
        fill_lists();
        fill_records();
        fill_spans();
        fill_gauges();
        mark_labels();
        fill_first_paths(table);
    }

private:
    using Requirement = TreePlan::Requirement;
    using Kind = TreePlan::Kind;
    using Nature = TreePlan::Nature;
    struct Member {                 // of a context: an entry, or a context that is reached from it
        uint32_t entry, context;    // one of them is none
    };

    static constexpr size_t listed_max = 64;                // PERF: bench/trees.py: contexts are many and small

    TreeMachine& m_;
    TreeEntries entries_;
    std::vector<uint32_t> tops_;
    TreePlan plan_;
    std::vector<uint32_t> test_;                            // by condition: its number as a test
    std::map<std::tuple<uint32_t, uint32_t, Reach, GaugeKind>, uint32_t> gauges_;      // by label, inner gauge, ...
    std::vector<uint32_t> position_;
    std::vector<std::vector<Member>> members_;              // by context

    // Tests in the order that Values wants: by label, kind and value. What gauges decide is not a test.
    void number_tests() {
        const auto& conditions = entries_.conditions();
        std::vector<uint32_t> order;
        for (uint32_t i = 0; i < conditions.size(); ++i)
            if (!is_order(conditions[i].test)) order.push_back(i);
        InterruptTicks ticks(20);
        std::sort(order.begin(), order.end(), [&](uint32_t x, uint32_t y) {
            ticks.tick();
            const auto &a = conditions[x], &b = conditions[y];
            return std::tie(a.label, a.test, a.value) < std::tie(b.label, b.test, b.value);
        });
        test_.assign(conditions.size(), none);
        std::vector<Values::Condition> sorted;
        for (uint32_t i = 0; i < order.size(); ++i) {
            test_[order[i]] = i;
            sorted.push_back(conditions[order[i]]);
        }
        m_.values_.build(sorted);
        m_.tests_ = static_cast<uint32_t>(sorted.size());
    }

    // The gauge that a requirement of something with this label reads. A chain of requirements gets a chain of gauges.
    uint32_t gauge(uint32_t label, const Requirement& r) {
        GaugeKind kind = gauge_kind(entries_.conditions()[plan_.condition(r)].test);
        uint32_t inner = none;
        if (r.reach != Reach::value) {
            label = entries_.label(r.target);
            const Requirement& next = entries_.requirements(r.target)[0];
            if (next.reach != Reach::value) inner = gauge(label, next);
        }
        return gauges_.try_emplace({label, inner, r.reach, kind}, static_cast<uint32_t>(gauges_.size())).first->second;
    }

    // The bound that a requirement sets.
    Bound bound(uint32_t label, const Requirement& r) {
        uint32_t condition = plan_.condition(r);
        const Values::Condition& c = entries_.conditions()[condition];
        if (is_order(c.test)) return {gauge(label, r), 0, bound_height(c.test, number_of(c.value))};
        return {gauge(label, r), 1, uint64_t(test_[condition]) + 1};
    }

    // Equal bounds are one: a million subscriptions to `price < n` share few prices.
    uint32_t bound_number(const Bound& bound) const {
        return static_cast<uint32_t>(std::lower_bound(m_.bounds_.begin(), m_.bounds_.end(), bound, before) - m_.bounds_.begin());
    }

    static bool before(const Bound& a, const Bound& b) {
        return std::tie(a.gauge, a.unequal, a.height) < std::tie(b.gauge, b.unequal, b.height);
    }

    void number_bounds() {
        std::vector<Bound> bounds;
        for (uint32_t e = 0; e < entries_.size(); ++e) {
            if (plan_.kind(e) == Kind::gauge) continue;
            for (const Requirement& r : entries_.requirements(e))
                if (plan_.nature(r) != Nature::bit) bounds.push_back(bound(entries_.label(e), r));
        }
        std::sort(bounds.begin(), bounds.end(), before);
        bounds.erase(std::unique(bounds.begin(), bounds.end()), bounds.end());
        m_.bounds_ = Array<Bound>(bounds);
    }

    // A gauge either belongs to a label, or derives from the gauge of something inside it.
    void fill_gauges() {
        m_.gauge_kinds_.assign(gauges_.size(), GaugeKind::most);
        m_.gauge_keys_.assign(gauges_.size(), 0);
        m_.gauges_.assign(plan_.labels(), {});
        for (const auto& [about, gauge] : gauges_) {
            auto [label, inner, reach, kind] = about;
            uint32_t local = context_of(label);
            m_.gauge_kinds_[gauge] = kind;
            if (inner != none) {
                m_.derived_.push({inner, local, gauge, static_cast<uint32_t>(reach)});
                continue;
            }
            TreeMachine::Gauges& gauges = m_.gauges_[local];
            gauges.of[static_cast<int>(reach)][static_cast<int>(kind)] = gauge;
            gauges.kinds |= 1u << static_cast<int>(kind);
        }
        std::sort(m_.derived_.begin(), m_.derived_.end(), [](const TreeMachine::Derived& a, const TreeMachine::Derived& b) {
            return std::tie(a.inner, a.label, a.outer) < std::tie(b.inner, b.label, b.outer);
        });
        for (const Spans::Span& span : m_.spans_.all()) {
            m_.gauge_keys_[span.first] = 1;
            if (span.second != none) m_.gauge_keys_[span.second] = 1;
        }
    }

    // The first contexts are the labels themselves, sorted.
    uint32_t context_of(uint32_t label) const {
        auto end = plan_.contexts().begin() + plan_.labels();
        auto found = std::lower_bound(plan_.contexts().begin(), end, label, [](const auto& c, uint32_t l) { return c.label < l; });
        return static_cast<uint32_t>(found - plan_.contexts().begin());
    }

    // Contexts by label: the patterns themselves, below label_root, come first.
    std::vector<uint32_t> rank_contexts() const {
        const auto& contexts = plan_.contexts();
        std::vector<uint32_t> order(contexts.size()), rank(contexts.size());
        for (uint32_t c = 0; c < order.size(); ++c) order[c] = c;
        std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return contexts[a].label < contexts[b].label; });
        for (uint32_t i = 0; i < order.size(); ++i) rank[order[i]] = i;
        return rank;
    }

    // Entries of one group should be neighbours, so that those that hold are handed over together. Numbers them, in their keys,
    // by the place of their pivot in an order that ignores groups. Returns false if there are no groups.
    bool gather_groups(const std::vector<uint32_t>& sorted, std::vector<uint64_t>& key) const {
        std::vector<uint32_t> place(entries_.size(), 0);
        for (uint32_t i = 0; i < sorted.size(); ++i) place[sorted[i]] = i;
        std::vector<Keyed> grouped;
        for (uint32_t e : sorted) {
            if (plan_.kind(e) != Kind::several) continue;
            const Requirement& r = plan_.rest(e)[0];
            grouped.push_back({uint64_t(r.reach) << 32 | (r.reach == Reach::value ? test_[r.target] : place[r.target]), e});
        }
        // The number replaces the part of the key that says what is required, so that sorting again brings groups together.
        std::vector<Keyed> scratch;
        radix_sort(grouped, scratch);
        for (uint32_t i = 0; i < grouped.size(); ++i) {
            uint64_t& k = key[grouped[i].value];
            k = (k & ~0xFFFFFFFull) | i;
        }
        return !grouped.empty();
    }

    // Orders entries: those without values first, then by context, kind, and what is required.
    void order_entries() {
        std::vector<uint32_t> rank = rank_contexts(), next(entries_.size(), none), listed;
        std::vector<uint64_t> key(entries_.size());
        uint32_t plain = 0;
        for (uint32_t e = 0; e < entries_.size(); ++e) {
            Kind kind = plan_.kind(e);
            if (kind == Kind::gauge) continue;
            listed.push_back(e);
            plain += !plan_.is_valued(e);
            uint64_t space = 0, rest = e;
            if (kind == Kind::single) {
                const Requirement& r = plan_.rest(e)[0];
                space = static_cast<uint64_t>(r.reach);
                rest = r.reach == Reach::value ? test_[r.target] : 0;
                if (r.reach != Reach::value) next[e] = r.target;
            }
            if (kind == Kind::run) rest = bound_number(bound(entries_.label(e), plan_.rest(e)[0]));
            key[e] = uint64_t(plan_.is_valued(e)) << 63 | uint64_t(rank[plan_.context(e)]) << 33 | uint64_t(kind) << 30 | space << 28 | (rest & 0xFFFFFFF);
        }
        std::vector<uint32_t> sorted = order_by_chains(listed, key, next);
        // Twice, because the place of a pivot is known only after the first time.
        if (gather_groups(sorted, key)) sorted = order_by_chains(listed, key, next);
        // Entries without values fill words of their own: a document without matching values never touches the others.
        m_.valued_begin_ = (plain + 63) / 64 * 64;
        m_.entries_ = static_cast<uint32_t>(m_.valued_begin_ + listed.size() - plain);
        position_.assign(entries_.size(), none);
        members_.resize(plan_.contexts().size());
        for (uint32_t i = 0; i < sorted.size(); ++i) {
            uint32_t e = sorted[i];
            position_[e] = i < plain ? i : i - plain + m_.valued_begin_;
            if (!plan_.is_valued(e) && entries_.label(e) == label_root) ++m_.plain_accepts_;
            members_[plan_.context(e)].push_back({e, none});
        }
        for (uint32_t c = plan_.labels(); c < members_.size(); ++c) members_[plan_.contexts()[c].above].push_back({none, c});
    }

    // Which bits some entry asks for. All others are dropped as soon as an element closes.
    void fill_masks() {
        m_.wanted_.assign((m_.entries_ + 63) / 64, {});
        auto want = [&](const Requirement& r, bool key) {
            if (r.reach == Reach::value || position_[r.target] == none) return;
            TreeMachine::Wanted& wanted = m_.wanted_[position_[r.target] >> 6];
            uint64_t bit = 1ull << (position_[r.target] & 63);
            (r.reach == Reach::child ? wanted.child : wanted.descend) |= bit;
            if (key) wanted.keys |= bit;
        };
        for (uint32_t e = 0; e < entries_.size(); ++e) {
            for (const Requirement& r : entries_.requirements(e)) want(r, false);
            if (plan_.kind(e) == Kind::single || plan_.kind(e) == Kind::several) want(plan_.rest(e)[0], true);
        }
        for (const TreePlan::Context& context : plan_.contexts())
            if (context.above != none) want(context.reached, true);
    }

    // Branches are numbered by their positions, so that those of one word are neighbours.
    void fill_orders() {
        if (entries_.orders() == 0) return;
        m_.witnesses_.assign((m_.entries_ + 63) / 64, {});
        for (uint32_t e = 0; e < entries_.size(); ++e)
            if (entries_.is_branch(e)) m_.witnesses_[position_[e] >> 6].mask |= 1ull << (position_[e] & 63);
        for (TreeMachine::Witnesses& word : m_.witnesses_) {
            word.first = m_.witness_count_;
            m_.witness_count_ += static_cast<uint32_t>(std::popcount(word.mask));
        }
        for (uint32_t order = 0; order < entries_.orders(); ++order) {
            m_.orders_.push(static_cast<uint32_t>(m_.branches_.size()));
            for (const TreeEntries::Branch& branch : entries_.branches(order)) {
                const uint32_t position = position_[branch.entry];
                const TreeMachine::Witnesses& word = m_.witnesses_[position >> 6];
                const auto before = static_cast<uint32_t>(std::popcount(word.mask & ((1ull << (position & 63)) - 1)));
                m_.branches_.push({word.first + before, branch.reach == Reach::child});
            }
        }
        m_.orders_.push(static_cast<uint32_t>(m_.branches_.size()));
    }

    uint32_t place_of(const Requirement& r) const { return r.reach == Reach::value ? test_[r.target] : position_[r.target]; }

    // One test: a bit of a set, or a bound on a gauge.
    void check(uint32_t label, const Requirement& r) {
        if (plan_.nature(r) == Nature::bit)
            m_.checks_.push({place_of(r), static_cast<uint8_t>(r.reach), r.negated});
        else
            m_.checks_.push({bound_number(bound(label, r)), TreeMachine::in_gauges, r.negated});
    }

    // The first `known` requirements that are left to an entry need no test any more.
    TreeMachine::Candidate candidate(uint32_t e, size_t known) {
        TreeMachine::Candidate c{position_[e], static_cast<uint32_t>(m_.checks_.size())};
        for (const Requirement& r : plan_.rest(e).subspan(known)) check(entries_.label(e), r);
        if (entries_.order(e) != none) m_.checks_.push({entries_.order(e), TreeMachine::in_orders, false});
        return c;
    }

    // A context among candidates: entering it has no checks of its own here.
    TreeMachine::Candidate entrance(uint32_t context) {
        return {TreeMachine::context_bit | context, static_cast<uint32_t>(m_.checks_.size())};
    }

    // Fills in the labels, and what is tested wherever a context is reached.
    void fill_lists() {
        for (uint32_t c = 0; c < plan_.labels(); ++c) {
            m_.labels_.push(plan_.contexts()[c].label);
            m_.value_groups_.push(m_.values_.group_of(plan_.contexts()[c].label));
        }
        for (const std::vector<Member>& members : members_) {
            m_.frees_.push(static_cast<uint32_t>(m_.free_.size()));
            for (auto [e, c] : members) {
                if (e != none && plan_.kind(e) == Kind::free) m_.free_.push(candidate(e, 0));
                if (c == none || !plan_.contexts()[c].is_free) continue;
                m_.free_.push(entrance(c));
                check(plan_.contexts()[c].label, plan_.contexts()[c].reached);
            }
        }
        m_.frees_.push(static_cast<uint32_t>(m_.free_.size()));
        m_.free_.push({0, static_cast<uint32_t>(m_.checks_.size())});
    }

    // For each context and space: from 64 neighbouring requirements to the entries that they decide or lead to.
    void fill_records() {
        struct Item { uint32_t required; Member member; };
        InterruptTicks ticks(50);
        uint32_t words[TreeMachine::spaces] = {(m_.tests_ + 63) / 64, (m_.entries_ + 63) / 64, (m_.entries_ + 63) / 64};
        std::vector<Item> items[TreeMachine::spaces];
        for (const std::vector<Member>& members : members_) {
            for (const Member& member : members) {
                auto [e, c] = member;
                if (e != none ? plan_.kind(e) != Kind::single && plan_.kind(e) != Kind::several : plan_.contexts()[c].is_free) continue;
                const Requirement& r = e != none ? plan_.rest(e)[0] : plan_.contexts()[c].reached;
                items[static_cast<int>(r.reach)].push_back({place_of(r), member});
            }
            for (uint32_t space = 0; space < TreeMachine::spaces; ++space) {
                // By requirement. The single entry of a requirement comes before those that have it as pivot.
                std::stable_sort(items[space].begin(), items[space].end(), [](const Item& a, const Item& b) { return a.required < b.required; });
                m_.directories_.open();
                for (const Item& item : items[space]) {
                    ticks.tick();
                    add_record(m_.directories_.add(item.required >> 6), 1ull << (item.required & 63), item.member);
                }
                m_.directories_.close(words[space], listed_max);
                items[space].clear();
            }
        }
        m_.groups_.push(static_cast<uint32_t>(m_.quicks_.size()));
        m_.directories_.shrink();
        m_.groups_.shrink();
        m_.quicks_.shrink();
    }

    // Members come in the order of their requirements, so a record needs only the first target of each kind.
    void add_record(TreeMachine::Record& record, uint64_t bit, Member member) {
        if (member.entry != none && plan_.kind(member.entry) == Kind::single) {
            if (!record.single) record.target = position_[member.entry];
            record.single |= bit;
            return;
        }
        if (!(record.pivot & bit)) {
            if (!record.pivot) record.group = static_cast<uint32_t>(m_.groups_.size());
            record.pivot |= bit;
            m_.groups_.push(static_cast<uint32_t>(m_.quicks_.size()));
        }
        m_.quicks_.push(quick(member));
    }

    // Its requirement that led here needs no test any more. If the others do not fit, it is a candidate as well.
    TreeMachine::Quick quick(Member member) {
        if (member.entry == none) return {TreeMachine::context_bit | member.context, TreeMachine::always, TreeMachine::always};
        const TreeMachine::Candidate c = candidate(member.entry, 1);
        const size_t count = m_.checks_.size() - c.checks;
        TreeMachine::Quick quick{c.position, TreeMachine::always, TreeMachine::always};
        bool fits = count <= 2;
        for (size_t i = c.checks; i < m_.checks_.size(); ++i)
            fits = fits && m_.checks_[i].space < TreeMachine::spaces && m_.checks_[i].id <= TreeMachine::packed_id_max;
        if (!fits) {
            quick.first = static_cast<uint32_t>(m_.candidates_.size());
            quick.second = TreeMachine::by_candidate;
            m_.candidates_.push(c);
            return quick;
        }
        if (count > 0) quick.first = TreeMachine::pack(m_.checks_[c.checks]);
        if (count > 1) quick.second = TreeMachine::pack(m_.checks_[c.checks + 1]);
        m_.checks_.cut(c.checks);
        return quick;
    }

    // What is found by bounds on gauges. Its candidates come after those of all groups.
    void fill_spans() {
        struct Item { uint32_t first, second; Spans::Pair pair; uint32_t entry; };
        std::vector<Item> items;
        for (uint32_t c = 0; c < members_.size(); ++c) {
            m_.context_spans_.push(static_cast<uint32_t>(m_.spans_.all().size()));
            items.clear();
            for (auto [e, inner] : members_[c]) {
                if (e == none || (plan_.kind(e) != Kind::run && plan_.kind(e) != Kind::bounded)) continue;
                std::span<const Requirement> rest = plan_.rest(e);
                Bound first = bound(entries_.label(e), rest[0]), second{.gauge = none};
                if (rest.size() > 1 && plan_.is_bound(rest[1])) second = bound(entries_.label(e), rest[1]);
                if (second.gauge < first.gauge) std::swap(first, second);
                items.push_back({first.gauge, second.gauge, {first.height, second.height}, e});
            }
            // Runs come before those that need tests, in the order of their bounds, which is that of their positions.
            auto about = [&](const Item& i) { return std::tuple(i.first, i.second, plan_.kind(i.entry)); };
            std::sort(items.begin(), items.end(), [&](const Item& a, const Item& b) {
                return std::tuple(about(a), a.pair.first, position_[a.entry]) < std::tuple(about(b), b.pair.first, position_[b.entry]);
            });
            for (size_t begin = 0, end = 0; begin < items.size(); begin = end) {
                std::vector<Spans::Pair> pairs;
                bool run = plan_.kind(items[begin].entry) == Kind::run;
                uint32_t target = run ? position_[items[begin].entry] : static_cast<uint32_t>(m_.candidates_.size());
                for (; end < items.size() && about(items[end]) == about(items[begin]); ++end) {
                    pairs.push_back(items[end].pair);
                    if (!run) m_.candidates_.push(candidate(items[end].entry, items[end].second == none ? 1 : 2));
                }
                m_.spans_.add({items[begin].first, items[begin].second, target, run}, pairs);
            }
        }
        m_.context_spans_.push(static_cast<uint32_t>(m_.spans_.all().size()));
        m_.candidates_.push({0, static_cast<uint32_t>(m_.checks_.size())});
        m_.candidates_.shrink();
        m_.checks_.shrink();
        m_.spans_.shrink();
    }

    // Which first labels are asked of elements with which label.
    void fill_first_paths(const LabelTable& table) {
        std::vector<FirstPaths::Wanted> wanted;
        for (uint32_t e = 0; e < entries_.size(); ++e)
            for (const Requirement& r : entries_.requirements(e)) {
                if (r.reach != Reach::child || entries_.label(r.target) < label_first) continue;
                if (table.step_of(entries_.label(r.target)).place != LabelTable::first_place) continue;
                wanted.push_back({context_of(entries_.label(e)), context_of(entries_.label(r.target))});
            }
        std::sort(wanted.begin(), wanted.end());
        wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
        if (!wanted.empty()) m_.first_paths_.build(wanted, m_.labels_, table);
    }

    // Labels with special properties let the run skip work: see LabelFlag.
    void mark_labels() {
        m_.label_flags_.assign(plan_.labels(), TreeMachine::only_tested | TreeMachine::direct);
        m_.test_entries_.assign(m_.tests_, none);
        for (uint32_t e = 0; e < entries_.size(); ++e) {
            uint8_t& flags = m_.label_flags_[context_of(entries_.label(e))];
            for (const Requirement& r : entries_.requirements(e))
                if (r.reach == Reach::child && is_counter(entries_.label(r.target))) flags |= TreeMachine::counts;
            if (position_[e] == none) continue;             // a gauge says it
            const TreeMachine::Wanted& wanted = m_.wanted_[position_[e] >> 6];
            if ((wanted.descend | wanted.keys) >> (position_[e] & 63) & 1) flags &= ~TreeMachine::only_tested;
            if (plan_.kind(e) == Kind::single && plan_.rest(e)[0].reach == Reach::value && plan_.context(e) < plan_.labels())
                m_.test_entries_[test_[plan_.rest(e)[0].target]] = position_[e];
            else
                flags &= ~TreeMachine::direct;
        }
        std::vector<uint8_t> feeds(gauges_.size(), 0);
        for (const TreeMachine::Derived& derived : m_.derived_) feeds[derived.inner] = 1;
        for (const auto& [about, gauge] : gauges_) {
            auto [label, inner, reach, kind] = about;
            uint8_t& flags = m_.label_flags_[context_of(label)];
            if (feeds[gauge] || reach == Reach::descend || m_.gauge_keys_[gauge]) flags &= ~TreeMachine::only_tested;
            if (reach == Reach::value) flags &= ~TreeMachine::direct;
        }
    }
};

TreeMachine::TreeMachine() : serial_(tree_serial++) {}

TreeMachine::TreeMachine(std::span<const std::string_view> patterns, const LabelTable& table, std::vector<uint32_t>& accept_of,
                         const HashSeeds& seeds)
    : serial_(tree_serial++) {
    accept_of.resize(patterns.size());
    Division division(patterns, table);
    if (!division.trees.empty()) {
        std::vector<uint32_t> accepts(division.trees.size());
        TreeBuilder(*this, division.trees, table, accepts, seeds);
        for (size_t i = 0; i < accepts.size(); ++i) accept_of[division.tree_numbers[i]] = accepts[i];
    }
    tree_accepts_ = accepts_;
    accepts_ = static_cast<uint32_t>(patterns.size());
    if (!division.values.empty()) value_paths_.build(division.values, division.value_numbers, table, tree_accepts_, accept_of);
    programs_.assign(labels_.size(), 0);
    program_ends_.push(0);
    TextMap<uint32_t> programs;
    for (uint32_t local = 0; local < labels_.size(); ++local) {
        has_marks_ |= labels_[local] == label_counter + static_cast<uint32_t>(Counter::content);
        if (labels_[local] < label_element_any || is_counter(labels_[local])) continue;
        PathStep step = table.step_of(labels_[local]);
        if (!step.program.empty()) {
            auto [known, is_new] = programs.try_emplace(std::string(step.program), static_cast<uint32_t>(programs.size() + 1));
            programs_[local] = known->second;
            if (is_new) {
                program_bytes_.append(step.program.data(), step.program.size());
                program_ends_.push(static_cast<uint32_t>(program_bytes_.size()));
            }
            if (!step.place) made_.push({table.base_of(labels_[local]), local});
        }
        has_text_ |= step.kind == StepKind::text;
        has_attributes_ |= step.kind == StepKind::attribute;
        has_marks_ |= step.kind == StepKind::comment || step.kind == StepKind::instruction;
        if (step.place && step.place != LabelTable::first_place) places_.push({table.name_of(labels_[local]), step.place, local});
    }
    std::sort(made_.begin(), made_.end(), [](const Made& a, const Made& b) { return std::tie(a.base, a.local) < std::tie(b.base, b.local); });
    std::sort(places_.begin(), places_.end(), [](const Place& a, const Place& b) { return std::tie(a.name, a.place, a.local) < std::tie(b.name, b.place, b.local); });
}

std::span<const TreeMachine::Made> TreeMachine::made(uint32_t base) const {
    return {std::ranges::lower_bound(made_.begin(), made_.end(), base, {}, &Made::base),
            std::ranges::upper_bound(made_.begin(), made_.end(), base, {}, &Made::base)};
}

std::span<const TreeMachine::Place> TreeMachine::places(uint32_t name) const {
    return {std::ranges::lower_bound(places_.begin(), places_.end(), name, {}, &Place::name),
            std::ranges::upper_bound(places_.begin(), places_.end(), name, {}, &Place::name)};
}

// The machine numbers its own labels densely, so that arrays by label stay small.
uint32_t TreeMachine::local(uint32_t label) const {
    auto found = std::lower_bound(labels_.begin(), labels_.end(), label);
    return found != labels_.end() && *found == label ? static_cast<uint32_t>(found - labels_.begin()) : none;
}

uint64_t TreeMachine::bytes() const {
    return labels_.bytes() + groups_.bytes() + quicks_.bytes() + frees_.bytes() + directories_.bytes() + candidates_.bytes() + free_.bytes() +
           checks_.bytes() + wanted_.bytes() + value_groups_.bytes() + values_.bytes() + bounds_.bytes() + gauges_.bytes() +
           gauge_kinds_.bytes() + gauge_keys_.bytes() + derived_.bytes() + label_flags_.bytes() + test_entries_.bytes() + context_spans_.bytes() + spans_.bytes() +
           places_.bytes() + made_.bytes() + programs_.bytes() + program_bytes_.bytes() + program_ends_.bytes() + value_paths_.bytes() +
           orders_.bytes() + branches_.bytes() + witnesses_.bytes() + first_paths_.bytes();
}

}  // namespace treecast
