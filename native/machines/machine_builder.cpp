// Builds a Machine from its paths: trie, order by reversed path, blocks, records.
//
// States are sorted by their reversed path. So for one label, the children of neighbouring states are neighbours too,
// and a step of the NFA maps words of bits to words of bits.
#include "machines/machine.hpp"

#include "base/id_slots.hpp"
#include "base/interrupt.hpp"
#include "base/seeded_hash.hpp"
#include "machines/order.hpp"

#include <algorithm>
#include <bit>

namespace treecast {

namespace {

std::atomic<uint64_t> machine_serial{1};

}  // namespace

class MachineBuilder {
public:
    MachineBuilder(Machine& machine, std::span<const Labels> paths, std::vector<uint32_t>& accept_of)
        : m_(machine), accept_of_(accept_of) {
        grow_trie(paths);
        order_states();
        number_accepts();
        fill_words();
        fill_records();
    }

private:
    // The trie. Entry 0 is the root; `path_` is the path that ends here, or none.
    std::vector<uint32_t> parent_, label_, path_;
    std::vector<uint8_t> inner_;            // has children
    IdSlots slots_;                         // entries by parent and label
    const HashSeeds seeds_ = hash_seeds();
    std::vector<uint32_t> position_;        // of inner entries, in the machine
    std::vector<Keyed> children_, ends_;    // inner entries by position, without root; ends of paths by (label, parent position)
    Machine& m_;
    std::vector<uint32_t>& accept_of_;

    uint64_t hash(uint32_t parent, uint32_t label) const { return hash_words(seeds_, parent, label); }

    uint32_t add(uint32_t parent, uint32_t label) {
        parent_.push_back(parent);
        label_.push_back(label);
        path_.push_back(none);
        inner_.push_back(0);
        return static_cast<uint32_t>(parent_.size() - 1);
    }

    // The child with this label, added if there is none.
    uint32_t child(uint32_t parent, uint32_t label) {
        uint32_t known = slots_.find(hash(parent, label), [&](uint32_t entry) { return parent_[entry] == parent && label_[entry] == label; });
        if (known != IdSlots::empty) return known;
        inner_[parent] = 1;
        uint32_t entry = add(parent, label);
        slots_.add(hash(parent, label), entry, [&](uint32_t earlier) { return hash(parent_[earlier], label_[earlier]); });
        return entry;
    }

    // Paths that begin alike share entries, as in YFilter's NFA.
    void grow_trie(std::span<const Labels> paths) {
        add(none, label_root);
        inner_[0] = 1;
        InterruptTicks ticks(200);
        for (uint32_t p = 0; p < paths.size(); ++p) {
            uint32_t at = 0;
            for (uint32_t label : paths[p]) at = child(at, label);
            ticks.tick();
            path_[at] = p;
        }
        // From here on entries are only walked, so the memory is freed for what follows.
        slots_.reset();
    }

    // Sorts inner entries by reversed path. Leaves are not states: reaching one is an answer at once.
    void order_states() {
        std::vector<uint32_t> entries;
        for (uint32_t e = 0; e < parent_.size(); ++e)
            if (inner_[e]) entries.push_back(e);
        entries = order_by_chains(entries, {label_.begin(), label_.end()}, parent_);
        size_t count = entries.size();
        uint32_t descends = 0;
        for (uint32_t e : entries) descends += label_[e] == label_descend;
        // Descend states come first (label_descend is the lowest label) and get words of their own, so stepping them needs no
        // masks.
        uint32_t pad = (64 - (descends & 63)) & 63;
        position_.assign(parent_.size(), none);
        for (uint32_t r = 0; r < count; ++r) {
            uint32_t e = entries[r];
            position_[e] = r < descends ? r : r + pad;
            if (e) children_.push_back({position_[e], e});
        }
        m_.root_ = position_[0];
        m_.states_ = static_cast<uint32_t>(count);
        m_.word_table_.resize((count + pad + 63) / 64, {});
    }

    // Accept ids follow the order of states, whether what ends there has children or not. So what is accepted together is in few
    // words of a bit set.
    void number_accepts() {
        accept_of_.assign(accept_of_.size(), none);
        for (uint32_t e = 1; e < parent_.size(); ++e)
            if (path_[e] != none) ends_.push_back({uint64_t(label_[e]) << 32 | position_[parent_[e]], e});
        std::vector<Keyed> scratch;
        radix_sort(ends_, scratch);
        uint32_t accept = 0;
        for (const Keyed& end : ends_) accept_of_[path_[end.value]] = accept++;
        m_.accepts_ = accept;
    }

    // What each word of 64 states knows: which of them have children by name, and which have a descend state below.
    void fill_words() {
        for (uint32_t e = 1; e < parent_.size(); ++e) {
            uint32_t above = position_[parent_[e]];
            if (label_[e] != label_descend) m_.word_table_[above >> 6].source |= 1ull << (above & 63);
        }
        for (const Keyed& child : children_) {
            uint32_t e = child.value;
            if (label_[e] != label_descend) continue;
            uint32_t above = position_[parent_[e]];
            Machine::Word& word = m_.word_table_[above >> 6];
            if (!word.descend) word.target = position_[e];
            word.descend |= 1ull << (above & 63);
        }
    }

    // Both lists ascend by (label, parent position): children_ because positions do, ends_ by their key.
    void fill_records() {
        size_t c = 0, l = 0;
        InterruptTicks ticks(20);
        while (c < children_.size() && label_[children_[c].value] == label_descend) ++c;
        while (c < children_.size() || l < ends_.size()) {
            uint32_t label = none;
            if (c < children_.size()) label = label_[children_[c].value];
            if (l < ends_.size()) label = std::min(label, label_[ends_[l].value]);
            m_.directories_.open();
            for (;;) {
                ticks.tick();
                // Merges two sorted lists: the children that are states, and the ends, which are answers. One may be both.
                uint32_t child_at = c < children_.size() && label_[children_[c].value] == label
                                        ? position_[parent_[children_[c].value]] : none;
                uint32_t end_at = l < ends_.size() && label_[ends_[l].value] == label ? position_[parent_[ends_[l].value]] : none;
                uint32_t above = std::min(child_at, end_at);
                if (above == none) break;
                Machine::Record& record = m_.directories_.add(above >> 6);
                uint64_t bit = 1ull << (above & 63);
                if (child_at == above) {
                    if (!record.inner) record.target = position_[children_[c].value];
                    record.inner |= bit;
                    ++c;
                } else {
                    if (!record.end) record.accept = accept_of_[path_[ends_[l].value]];
                    record.end |= bit;
                    ++l;
                }
            }
            m_.directories_.close(static_cast<uint32_t>(m_.word_table_.size()));
            m_.labels_.push(label);
        }
        m_.directories_.shrink();
    }
};

Machine::Machine() : serial_(machine_serial++) {}

Machine::Machine(std::span<const Labels> paths, const LabelTable& table, std::vector<uint32_t>& accept_of)
    : serial_(machine_serial++) {
    accept_of.resize(paths.size());
    MachineBuilder(*this, paths, accept_of);
    for (uint32_t label : labels_) {
        StepKind kind = table.step_of(label).kind;
        has_text_ |= kind == StepKind::text;
        has_attributes_ |= kind == StepKind::attribute;
    }
}

}  // namespace treecast
