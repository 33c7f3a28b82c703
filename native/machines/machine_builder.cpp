// Builds a Machine from its paths: trie, order by reversed path, blocks, records.
//
// States are sorted by their reversed path. So for one label, the children of neighbouring states are neighbours too,
// and a step of the NFA maps words of bits to words of bits.
#include "machines/machine_builder.hpp"

#include <algorithm>
#include <bit>

namespace treecast {

namespace {

std::atomic<uint64_t> machine_serial{1};
constexpr size_t entries_at_once = 1024;           // entries that are looked at before somebody asks whether to stop

// Room for all, without a look at any: pages that nobody has written to take no memory.
template <class Vector>
void make_room(Vector& vector, size_t count) {
    if (vector.capacity() < count) vector.reserve(count);
}

}  // namespace

SlicedWork MachineBuilder::build(Pace& pace) {
    co_await grow_trie(pace);
    co_await order_states(pace);
    co_await number_accepts(pace);
    co_await fill_words(pace);
    co_await fill_records(pace);
    for (uint32_t label : machine_->labels_) {
        StepKind kind = table_.step_of(label).kind;
        machine_->has_text_ |= kind == StepKind::text;
        machine_->has_attributes_ |= kind == StepKind::attribute;
    }
}

uint32_t MachineBuilder::add(uint32_t parent, uint32_t label) {
    parent_.push_back(parent);
    label_.push_back(label);
    path_.push_back(none);
    inner_.push_back(0);
    return static_cast<uint32_t>(parent_.size() - 1);
}

// The child with this label, added if there is none.
uint32_t MachineBuilder::child(uint32_t parent, uint32_t label) {
    size_t at = probe(slots_, hash(parent, label), [&](uint32_t entry) { return parent_[entry] == parent && label_[entry] == label; });
    if (slots_[at] != empty_slot) return slots_[at];
    if (parent_.size() * 2 >= slots_.size()) {
        enlarge_slots();
        at = probe_vacancy(slots_, hash(parent, label));
    }
    inner_[parent] = 1;
    return slots_[at] = add(parent, label);
}

// Only where more entries have come than were expected.
void MachineBuilder::enlarge_slots() {
    slots_.assign(slots_.size() * 2, empty_slot);
    for (uint32_t e = 1; e < parent_.size(); ++e) slots_[probe_vacancy(slots_, hash(parent_[e], label_[e]))] = e;
}

// Paths that begin alike share entries, as in YFilter's NFA.
SlicedWork MachineBuilder::grow_trie(Pace& pace) {
    const size_t expected = source_.entries_expected() + 1;
    make_room(parent_, expected), make_room(label_, expected), make_room(path_, expected), make_room(inner_, expected);
    const size_t slots = std::bit_ceil(std::max<size_t>(64, 2 * expected));
    make_room(slots_, slots);
    while (slots_.size() < slots) {
        slots_.resize(std::min(slots, slots_.size() + 16 * entries_at_once), empty_slot);
        co_await pace.spend(entries_at_once);
    }
    add(none, label_root);
    inner_[0] = 1;
    std::vector<uint32_t> labels;
    make_room(accept_of_, source_.paths());
    for (uint32_t p = 0; p < source_.paths(); ++p) {
        uint32_t at = 0;
        source_.labels(p, labels);
        for (uint32_t label : labels) at = child(at, label);
        if (at) path_[at] = p;
        accept_of_.push_back(none);
        co_await pace.spend(16 + 8 * labels.size());
    }
    // From here on entries are only walked, so the memory is freed for what follows.
    slots_.clear();
    slots_.shrink_to_fit();
}

// Sorts inner entries by reversed path. Leaves are not states: reaching one is an answer at once.
SlicedWork MachineBuilder::order_states(Pace& pace) {
    const auto entries = static_cast<uint32_t>(parent_.size());
    std::vector<uint32_t> inner, label, next, sorted;          // by number among the inner entries
    make_room(position_, entries);
    uint32_t descends = 0;
    // Parents come before their children: the number of a parent is known.
    for (uint32_t e = 0; e < entries;) {
        for (uint32_t end = std::min<uint32_t>(entries, e + entries_at_once); e < end; ++e) {
            position_.push_back(inner_[e] ? static_cast<uint32_t>(inner.size()) : none);
            if (!inner_[e]) continue;
            inner.push_back(e);
            label.push_back(label_[e]);
            next.push_back(e ? position_[parent_[e]] : none);
            descends += label_[e] == label_descend;
        }
        co_await pace.spend(2 * entries_at_once);
    }
    std::vector<uint8_t>().swap(inner_);
    co_await order_by_chains(pace, label, next, sorted);
    std::vector<uint32_t>().swap(label), std::vector<uint32_t>().swap(next);
    // Descend states come first (label_descend is the lowest label) and get words of their own, so stepping them needs no
    // masks.
    const auto count = static_cast<uint32_t>(sorted.size());
    const uint32_t pad = (64 - (descends & 63)) & 63;
    make_room(children_, count);
    for (uint32_t r = 0; r < count;) {
        for (uint32_t end = std::min<uint32_t>(count, r + entries_at_once); r < end; ++r) {
            uint32_t e = inner[sorted[r]];
            position_[e] = r < descends ? r : r + pad;
            if (e) children_.push_back(e);
        }
        co_await pace.spend(2 * entries_at_once);
    }
    machine_->root_ = position_[0];
    machine_->states_ = count;
    machine_->word_table_.resize((count + pad + 63) / 64, {});
}

// Accept ids follow the order of states, whether what ends there has children or not. So what is accepted together is in few
// words of a bit set.
SlicedWork MachineBuilder::number_accepts(Pace& pace) {
    const auto entries = static_cast<uint32_t>(parent_.size());
    make_room(ends_, source_.paths());
    for (uint32_t e = 1; e < entries;) {
        for (uint32_t end = std::min<uint32_t>(entries, e + entries_at_once); e < end; ++e)
            if (path_[e] != none) ends_.push_back({uint64_t(label_[e]) << 32 | position_[parent_[e]], e});
        co_await pace.spend(2 * entries_at_once);
    }
    {
        std::vector<Keyed> scratch;
        co_await radix_sort(pace, ends_, scratch);
    }
    uint32_t accept = 0;
    for (size_t l = 0; l < ends_.size();) {
        for (size_t end = std::min(ends_.size(), l + entries_at_once); l < end; ++l) accept_of_[path_[ends_[l].value]] = accept++;
        co_await pace.spend(2 * entries_at_once);
    }
    machine_->accepts_ = accept;
}

// What each word of 64 states knows: which of them have children by name, and which have a descend state below.
SlicedWork MachineBuilder::fill_words(Pace& pace) {
    const auto entries = static_cast<uint32_t>(parent_.size());
    for (uint32_t e = 1; e < entries;) {
        for (uint32_t end = std::min<uint32_t>(entries, e + entries_at_once); e < end; ++e) {
            uint32_t above = position_[parent_[e]];
            if (label_[e] != label_descend) machine_->word_table_[above >> 6].source |= 1ull << (above & 63);
        }
        co_await pace.spend(2 * entries_at_once);
    }
    for (size_t c = 0; c < children_.size() && label_[children_[c]] == label_descend; ++c) {
        uint32_t e = children_[c], above = position_[parent_[e]];
        Machine::Word& word = machine_->word_table_[above >> 6];
        if (!word.descend) word.target = position_[e];
        word.descend |= 1ull << (above & 63);
        co_await pace.spend(2);
    }
}

// Both lists ascend by (label, parent position): children_ because positions do, ends_ by their key.
SlicedWork MachineBuilder::fill_records(Pace& pace) {
    size_t c = 0, l = 0;
    while (c < children_.size() && label_[children_[c]] == label_descend) ++c;
    while (c < children_.size() || l < ends_.size()) {
        uint32_t label = none;
        if (c < children_.size()) label = label_[children_[c]];
        if (l < ends_.size()) label = std::min(label, label_[ends_[l].value]);
        machine_->directories_.open();
        for (;;) {
            // Merges two sorted lists: the children that are states, and the ends, which are answers. One may be both.
            uint32_t child_at = c < children_.size() && label_[children_[c]] == label ? position_[parent_[children_[c]]] : none;
            uint32_t end_at = l < ends_.size() && label_[ends_[l].value] == label ? position_[parent_[ends_[l].value]] : none;
            uint32_t above = std::min(child_at, end_at);
            if (above == none) break;
            Machine::Record& record = machine_->directories_.add(above >> 6);
            uint64_t bit = 1ull << (above & 63);
            if (child_at == above) {
                if (!record.inner) record.target = position_[children_[c]];
                record.inner |= bit;
                ++c;
            } else {
                if (!record.end) record.accept = accept_of_[path_[ends_[l].value]];
                record.end |= bit;
                ++l;
            }
            co_await pace.spend(4);
        }
        machine_->directories_.close(static_cast<uint32_t>(machine_->word_table_.size()));
        machine_->labels_.push(label);
    }
    machine_->directories_.shrink();
}

std::shared_ptr<Machine> build_machine(const PathSource& source, const LabelTable& table, std::vector<uint32_t>& accept_of) {
    MachineBuilder builder(source, table);
    Pace pace;
    builder.build(pace).finish(pace);
    accept_of = std::move(builder.accept_of());
    return builder.machine();
}

std::shared_ptr<Machine> build_machine(std::span<const Labels> paths, const LabelTable& table, std::vector<uint32_t>& accept_of) {
    struct Given final : PathSource {
        explicit Given(std::span<const Labels> all) : all_(all) {}
        uint32_t paths() const override { return static_cast<uint32_t>(all_.size()); }
        void labels(uint32_t path, std::vector<uint32_t>& labels) const override { labels.assign(all_[path].begin(), all_[path].end()); }
        std::span<const Labels> all_;
    };
    return build_machine(Given(paths), table, accept_of);
}

Machine::Machine() : serial_(machine_serial++) {}

}  // namespace treecast
