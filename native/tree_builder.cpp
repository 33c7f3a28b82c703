// Builds a TreeMachine: hash-consing, pivots, order, records.
#include "interrupt.hpp"
#include "order.hpp"
#include "tree_machine.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <unordered_map>

namespace treecast {

std::atomic<uint64_t> tree_serial{1};

class TreeBuilder {
public:
    TreeBuilder(TreeMachine& machine, std::span<const std::string_view> patterns, std::vector<uint32_t>& accept_of) : m_(machine) {
        std::vector<uint32_t> tops;
        InterruptTicks ticks(500);
        for (std::string_view pattern : patterns) {
            const char* at = pattern.data();
            tops.push_back(read_entry(at));
            ticks.tick();
        }
        number_facts();
        choose_pivots();
        order_entries();
        for (size_t i = 0; i < tops.size(); ++i) accept_of[i] = m_.accept(position_[tops[i]]);
        m_.accepts_ = static_cast<uint32_t>(tops.size());
        fill_masks();
        fill_lists();
        fill_records();
    }

private:
    struct Requirement {
        uint32_t target;            // an entry, or a fact
        Reach reach;
        bool negated;
        bool operator==(const Requirement&) const = default;
    };
    enum Kind : uint32_t { free = 0, single = 1, several = 2 };

    TreeMachine& m_;
    // Entries: requirements of e are requirements_[begin_[e] .. begin_[e + 1]).
    std::vector<uint32_t> label_, begin_{0};
    std::vector<Requirement> requirements_;
    std::vector<uint32_t> table_;                           // entry + 1, by hash
    std::vector<Values::Condition> conditions_;
    std::unordered_map<std::string, uint32_t> condition_ids_;
    std::vector<float> rarity_;
    std::vector<uint8_t> valued_;                           // depends on values
    std::vector<uint32_t> pivot_;                           // of e: index into requirements_, or none
    std::vector<uint32_t> position_, sorted_;

    uint32_t read_entry(const char*& at) {
        uint32_t label = take_varint(at), count = take_varint(at);
        std::vector<Requirement> found(count);
        for (Requirement& r : found) {
            uint8_t kind = static_cast<uint8_t>(*at++);
            r.reach = static_cast<Reach>(kind & 3);
            r.negated = kind & negated_bit;
            r.target = r.reach == Reach::fact ? read_fact(at, label) : read_entry(at);
        }
        return intern(label, found);
    }

    uint32_t read_fact(const char*& at, uint32_t label) {
        Fact fact = static_cast<Fact>(*at++);
        uint32_t size = take_varint(at);
        std::string key(reinterpret_cast<const char*>(&label), sizeof label);
        key.push_back(static_cast<char>(fact));
        key.append(at, size);
        auto [known, added] = condition_ids_.try_emplace(std::move(key), static_cast<uint32_t>(conditions_.size()));
        if (added) conditions_.push_back({label, fact, {at, size}});
        at += size;
        return known->second;
    }

    static uint64_t hash(uint32_t label, std::span<const Requirement> requirements) {
        uint64_t h = label * 0x9E3779B97F4A7C15ull;
        for (const Requirement& r : requirements) {
            h ^= h >> 31;
            h = (h + r.target) * 0xD6E8FEB86659FD93ull + static_cast<uint64_t>(r.reach) * 2 + r.negated;
        }
        return h ^ (h >> 29);
    }

    std::span<const Requirement> requirements(uint32_t e) const {
        return {requirements_.data() + begin_[e], begin_[e + 1] - begin_[e]};
    }

    uint32_t intern(uint32_t label, std::span<const Requirement> wanted) {
        if (2 * label_.size() >= table_.size()) {
            table_.assign(std::max<size_t>(256, table_.size() * 2), 0);
            for (uint32_t e = 0; e < label_.size(); ++e) {
                size_t at = hash(label_[e], requirements(e)) & (table_.size() - 1);
                while (table_[at]) at = (at + 1) & (table_.size() - 1);
                table_[at] = e + 1;
            }
        }
        size_t at = hash(label, wanted) & (table_.size() - 1);
        for (; table_[at]; at = (at + 1) & (table_.size() - 1)) {
            uint32_t e = table_[at] - 1;
            if (label_[e] == label && std::ranges::equal(requirements(e), wanted)) return e;
        }
        table_[at] = static_cast<uint32_t>(label_.size() + 1);
        label_.push_back(label);
        requirements_.insert(requirements_.end(), wanted.begin(), wanted.end());
        begin_.push_back(static_cast<uint32_t>(requirements_.size()));
        return static_cast<uint32_t>(label_.size() - 1);
    }

    // Facts in the order that Values wants: by label, kind and value; bounds by number.
    void number_facts() {
        std::vector<uint32_t> order(conditions_.size());
        for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
        auto bound = [](std::string_view bytes) {
            double number;
            std::memcpy(&number, bytes.data(), sizeof number);
            return number;
        };
        InterruptTicks ticks(20);
        std::sort(order.begin(), order.end(), [&](uint32_t x, uint32_t y) {
            ticks.tick();
            const auto &a = conditions_[x], &b = conditions_[y];
            if (a.label != b.label) return a.label < b.label;
            if (a.fact != b.fact) return a.fact < b.fact;
            bool number = a.fact >= Fact::equal_number && a.fact <= Fact::greater_equal;
            return number ? bound(a.value) < bound(b.value) : a.value < b.value;
        });
        std::vector<uint32_t> number(order.size());
        std::vector<Values::Condition> sorted;
        for (uint32_t i = 0; i < order.size(); ++i) {
            number[order[i]] = i;
            sorted.push_back(conditions_[order[i]]);
        }
        for (Requirement& r : requirements_)
            if (r.reach == Reach::fact) r.target = number[r.target];
        conditions_ = std::move(sorted);
        m_.values_.build(conditions_);
        m_.facts_ = static_cast<uint32_t>(conditions_.size());
    }

    float rarity(const Requirement& r) const {
        if (r.reach != Reach::fact) return rarity_[r.target];
        switch (conditions_[r.target].fact) {
        case Fact::equal_text:
        case Fact::equal_number: return 0.02f;
        case Fact::contains:
        case Fact::starts_with: return 0.1f;
        default: return 0.4f;
        }
    }

    // Entries come after what they require, so one pass will do.
    void choose_pivots() {
        for (uint32_t e = 0; e < label_.size(); ++e) {
            float whole = label_[e] == label_element_any || label_[e] == label_attribute_any ? 0.9f : 0.3f, rarest = 2;
            uint32_t pivot = none;
            bool valued = false;
            for (uint32_t i = begin_[e]; i < begin_[e + 1]; ++i) {
                const Requirement& r = requirements_[i];
                valued |= r.reach == Reach::fact || valued_[r.target];
                if (r.negated) continue;
                float chance = rarity(r);
                whole *= chance;
                if (chance < rarest) {
                    rarest = chance;
                    pivot = i;
                }
            }
            rarity_.push_back(std::max(whole, 1e-20f));
            pivot_.push_back(pivot);
            valued_.push_back(valued);
        }
    }

    Kind kind(uint32_t e) const { return pivot_[e] == none ? free : begin_[e + 1] - begin_[e] == 1 ? single : several; }

    // Without values first; then by label, kind, and what is required.
    void order_entries() {
        std::vector<uint64_t> key(label_.size());
        std::vector<uint32_t> next(label_.size(), none), entries(label_.size());
        for (uint32_t e = 0; e < label_.size(); ++e) {
            entries[e] = e;
            uint64_t space = 0, rest = e;
            if (kind(e) == single) {
                const Requirement& r = requirements_[pivot_[e]];
                space = static_cast<uint64_t>(r.reach);
                rest = r.reach == Reach::fact ? r.target : 0;
                if (r.reach != Reach::fact) next[e] = r.target;
            }
            key[e] = uint64_t(valued_[e]) << 63 | uint64_t(label_[e]) << 32 | uint64_t(kind(e)) << 30 | space << 28 | (rest & 0xFFFFFFF);
        }
        sorted_ = order_by_chains(entries, key, next);
        uint32_t plain = static_cast<uint32_t>(std::count(valued_.begin(), valued_.end(), 0));
        m_.valued_begin_ = (plain + 63) / 64 * 64;
        position_.resize(label_.size());
        for (uint32_t i = 0; i < sorted_.size(); ++i) {
            uint32_t e = sorted_[i];
            position_[e] = i < plain ? i : i - plain + m_.valued_begin_;
            if (!valued_[e] && label_[e] == label_root) ++m_.plain_accepts_;
        }
        m_.entries_ = static_cast<uint32_t>(m_.valued_begin_ + label_.size() - plain);
        // From here on label by label.
        std::stable_sort(sorted_.begin(), sorted_.end(), [&](uint32_t a, uint32_t b) { return label_[a] < label_[b]; });
    }

    void fill_masks() {
        m_.wanted_.assign((m_.entries_ + 63) / 64, {});
        for (const Requirement& r : requirements_) {
            if (r.reach == Reach::fact) continue;
            uint32_t at = position_[r.target];
            TreeMachine::Wanted& wanted = m_.wanted_[at >> 6];
            (r.reach == Reach::child ? wanted.child : wanted.descend) |= 1ull << (at & 63);
        }
    }

    TreeMachine::Candidate candidate(uint32_t e, uint32_t pivot) {
        TreeMachine::Candidate c{position_[e], static_cast<uint32_t>(m_.checks_.size())};
        for (uint32_t i = begin_[e]; i < begin_[e + 1]; ++i) {
            const Requirement& r = requirements_[i];
            if (i == pivot) continue;
            m_.checks_.push({r.reach == Reach::fact ? r.target : position_[r.target], static_cast<uint8_t>(r.reach), r.negated});
        }
        return c;
    }

    // Labels, and the entries that are tested wherever their label occurs.
    void fill_lists() {
        for (uint32_t e : sorted_)
            if (m_.labels_.empty() || m_.labels_.back() != label_[e]) m_.labels_.push(label_[e]);
        for (size_t s = 0; uint32_t label : m_.labels_) {
            m_.frees_.push(static_cast<uint32_t>(m_.free_.size()));
            for (; s < sorted_.size() && label_[sorted_[s]] == label; ++s)
                if (kind(sorted_[s]) == free) m_.free_.push(candidate(sorted_[s], none));
            m_.value_groups_.push(m_.values_.group_of(label));
        }
        m_.frees_.push(static_cast<uint32_t>(m_.free_.size()));
        m_.free_.push({0, static_cast<uint32_t>(m_.checks_.size())});
    }

    void fill_records() {
        struct Item { uint32_t required, entry; };
        InterruptTicks ticks(50);
        uint32_t words[TreeMachine::spaces] = {(m_.facts_ + 63) / 64, (m_.entries_ + 63) / 64, (m_.entries_ + 63) / 64};
        for (size_t s = 0; uint32_t label : m_.labels_) {
            std::vector<Item> items[TreeMachine::spaces];
            for (; s < sorted_.size() && label_[sorted_[s]] == label; ++s) {
                uint32_t e = sorted_[s];
                if (kind(e) == free) continue;
                const Requirement& r = requirements_[pivot_[e]];
                items[static_cast<int>(r.reach)].push_back({r.reach == Reach::fact ? r.target : position_[r.target], e});
            }
            for (uint32_t space = 0; space < TreeMachine::spaces; ++space) {
                // By requirement; the single entry of a requirement comes before those that have it as pivot.
                std::stable_sort(items[space].begin(), items[space].end(), [](const Item& a, const Item& b) { return a.required < b.required; });
                m_.directories_.open();
                for (const Item& item : items[space]) {
                    ticks.tick();
                    TreeMachine::Record& record = m_.directories_.add(item.required >> 6);
                    uint64_t bit = 1ull << (item.required & 63);
                    if (kind(item.entry) == single) {
                        if (!record.single) record.target = position_[item.entry];
                        record.single |= bit;
                        continue;
                    }
                    if (!(record.pivot & bit)) {
                        if (!record.pivot) record.group = static_cast<uint32_t>(m_.groups_.size());
                        record.pivot |= bit;
                        m_.groups_.push(static_cast<uint32_t>(m_.candidates_.size()));
                    }
                    m_.candidates_.push(candidate(item.entry, pivot_[item.entry]));
                }
                m_.directories_.close(words[space]);
            }
        }
        m_.groups_.push(static_cast<uint32_t>(m_.candidates_.size()));
        m_.candidates_.push({0, static_cast<uint32_t>(m_.checks_.size())});
        m_.directories_.shrink();
        m_.candidates_.shrink();
        m_.checks_.shrink();
        m_.groups_.shrink();
    }
};

TreeMachine::TreeMachine() : serial_(tree_serial++) {}

TreeMachine::TreeMachine(std::span<const std::string_view> patterns, const LabelTable& table, std::vector<uint32_t>& accept_of)
    : serial_(tree_serial++) {
    accept_of.resize(patterns.size());
    TreeBuilder(*this, patterns, accept_of);
    for (uint32_t label : labels_) {
        if (label < label_element_any) continue;
        StepKind kind = table.step_of(label).kind;
        has_text_ |= kind == StepKind::text;
        has_attributes_ |= kind == StepKind::attribute;
    }
}

uint32_t TreeMachine::local(uint32_t label) const {
    auto found = std::lower_bound(labels_.begin(), labels_.end(), label);
    return found != labels_.end() && *found == label ? static_cast<uint32_t>(found - labels_.begin()) : none;
}

uint64_t TreeMachine::bytes() const {
    return labels_.bytes() + groups_.bytes() + frees_.bytes() + directories_.bytes() + candidates_.bytes() + free_.bytes() +
           checks_.bytes() + wanted_.bytes() + value_groups_.bytes() + values_.bytes();
}

}  // namespace treecast
