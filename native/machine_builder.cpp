// Builds a Machine from its paths: trie, order by reversed path, blocks, records.
#include "machine.hpp"

#include <algorithm>
#include <bit>

namespace treecast {

namespace {

std::atomic<uint64_t> machine_serial{1};

struct Keyed {
    uint64_t key;
    uint32_t value;
};

// Least significant digit first, over the bits that keys really use.
void radix_sort(std::vector<Keyed>& items) {
    uint64_t used = 0;
    for (const Keyed& item : items) used |= item.key;
    std::vector<Keyed> other(items.size());
    for (int shift = 0; shift < 64 && (used >> shift); shift += 11) {
        if (((used >> shift) & 2047) == 0) continue;
        size_t counts[2049] = {};
        for (const Keyed& item : items) ++counts[((item.key >> shift) & 2047) + 1];
        for (int i = 0; i < 2048; ++i) counts[i + 1] += counts[i];
        for (const Keyed& item : items) other[counts[(item.key >> shift) & 2047]++] = item;
        items.swap(other);
    }
}

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
    std::vector<uint32_t> table_;           // open addressing over (parent, label)
    std::vector<uint32_t> position_;        // of inner entries, in the machine
    std::vector<Keyed> children_, leaves_;  // inner entries by position, without root; leaves by (label, parent position)
    Machine& m_;
    std::vector<uint32_t>& accept_of_;

    static uint64_t hash(uint32_t parent, uint32_t label) {
        uint64_t h = (uint64_t(parent) << 32 | label) * 0x9E3779B97F4A7C15ull;
        return h ^ (h >> 29);
    }

    uint32_t add(uint32_t parent, uint32_t label) {
        parent_.push_back(parent);
        label_.push_back(label);
        path_.push_back(none);
        inner_.push_back(0);
        return static_cast<uint32_t>(parent_.size() - 1);
    }

    void rehash(size_t slots) {
        table_.assign(slots, 0);
        for (uint32_t entry = 1; entry < parent_.size(); ++entry) {
            size_t at = hash(parent_[entry], label_[entry]) & (slots - 1);
            while (table_[at]) at = (at + 1) & (slots - 1);
            table_[at] = entry;
        }
    }

    uint32_t child(uint32_t parent, uint32_t label) {
        if (2 * parent_.size() >= table_.size()) rehash(std::max<size_t>(256, table_.size() * 2));
        size_t at = hash(parent, label) & (table_.size() - 1);
        while (uint32_t entry = table_[at]) {
            if (parent_[entry] == parent && label_[entry] == label) return entry;
            at = (at + 1) & (table_.size() - 1);
        }
        inner_[parent] = 1;
        return table_[at] = add(parent, label);
    }

    void grow_trie(std::span<const Labels> paths) {
        add(none, label_root);
        inner_[0] = 1;
        for (uint32_t p = 0; p < paths.size(); ++p) {
            uint32_t at = 0;
            for (uint32_t label : paths[p]) at = child(at, label);
            path_[at] = p;
        }
        std::vector<uint32_t>().swap(table_);
    }

    // Sorts inner entries by reversed path, by prefix doubling: ranks by the last 1, 2, 4, ... labels until all differ.
    void order_states() {
        std::vector<uint32_t> entries;
        for (uint32_t e = 0; e < parent_.size(); ++e)
            if (inner_[e]) entries.push_back(e);
        size_t count = entries.size();
        std::vector<uint32_t> rank(parent_.size(), 0), next_rank(parent_.size(), 0), ancestor(parent_), next_ancestor(parent_);
        for (uint32_t e : entries) rank[e] = label_[e] + 1;
        std::vector<Keyed> keyed(count);
        for (;;) {
            for (size_t i = 0; i < count; ++i) {
                uint32_t e = entries[i];
                uint64_t above = ancestor[e] == none ? 0 : rank[ancestor[e]];
                keyed[i] = {uint64_t(rank[e]) << 32 | above, e};
            }
            radix_sort(keyed);
            uint32_t distinct = 0;
            for (size_t i = 0; i < count; ++i) {
                if (i == 0 || keyed[i].key != keyed[i - 1].key) ++distinct;
                next_rank[keyed[i].value] = distinct;
            }
            rank.swap(next_rank);
            if (distinct == count) break;
            for (uint32_t e : entries) next_ancestor[e] = ancestor[e] == none ? none : ancestor[ancestor[e]];
            ancestor.swap(next_ancestor);
        }
        uint32_t descends = 0;
        for (uint32_t e : entries) descends += label_[e] == label_descend;
        uint32_t pad = (64 - (descends & 63)) & 63;
        position_.assign(parent_.size(), none);
        for (const Keyed& k : keyed) {
            uint32_t r = rank[k.value] - 1;
            position_[k.value] = r < descends ? r : r + pad;
            if (k.value) children_.push_back({position_[k.value], k.value});
        }
        m_.root_ = position_[0];
        m_.states_ = static_cast<uint32_t>(count);
        m_.word_table_.resize((count + pad + 63) / 64);
    }

    void number_accepts() {
        accept_of_.assign(accept_of_.size(), none);
        for (uint32_t e = 1; e < parent_.size(); ++e)
            if (!inner_[e]) leaves_.push_back({uint64_t(label_[e]) << 32 | position_[parent_[e]], e});
        radix_sort(leaves_);
        uint32_t accept = 0;
        for (const Keyed& leaf : leaves_) accept_of_[path_[leaf.value]] = accept++;
        for (const Keyed& child : children_) {      // ascending positions
            uint32_t e = child.value;
            if (path_[e] == none) continue;
            Machine::Word& word = m_.word_table_[position_[e] >> 6];
            if (!word.accepting) word.accept = accept;
            word.accepting |= 1ull << (position_[e] & 63);
            accept_of_[path_[e]] = accept++;
        }
        m_.accepts_ = accept;
    }

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

    // Both lists ascend by (label, parent position): children_ because positions do, leaves_ by their key.
    void fill_records() {
        size_t c = 0, l = 0;
        while (c < children_.size() && label_[children_[c].value] == label_descend) ++c;
        uint32_t wide_words = static_cast<uint32_t>((m_.word_table_.size() + 63) / 64);
        while (c < children_.size() || l < leaves_.size()) {
            uint32_t label = none;
            if (c < children_.size()) label = label_[children_[c].value];
            if (l < leaves_.size()) label = std::min(label, label_[leaves_[l].value]);
            Machine::Directory directory;
            directory.records = static_cast<uint32_t>(m_.records_.size());
            std::vector<uint32_t> words;
            for (;;) {
                uint32_t child_at = c < children_.size() && label_[children_[c].value] == label
                                        ? position_[parent_[children_[c].value]] : none;
                uint32_t leaf_at = l < leaves_.size() && label_[leaves_[l].value] == label
                                       ? position_[parent_[leaves_[l].value]] : none;
                uint32_t above = std::min(child_at, leaf_at);
                if (above == none) break;
                if (words.empty() || words.back() != above >> 6) {
                    words.push_back(above >> 6);
                    m_.records_.emplace_back();
                }
                Machine::Record& record = m_.records_.back();
                uint64_t bit = 1ull << (above & 63);
                if (child_at == above) {
                    if (!record.inner) record.target = position_[children_[c].value];
                    record.inner |= bit;
                    ++c;
                } else {
                    if (!record.leaf) record.accept = accept_of_[path_[leaves_[l].value]];
                    record.leaf |= bit;
                    ++l;
                }
            }
            directory.record_count = static_cast<uint32_t>(words.size());
            index_words(directory, words, wide_words);
            m_.labels_.push_back(label);
            m_.directories_.push_back(directory);
        }
        m_.records_.shrink_to_fit();
        m_.bits_.shrink_to_fit();
        m_.ranks_.shrink_to_fit();
        m_.words_.shrink_to_fit();
    }

    // A bitmap over all words with ranks where that is not much larger than the plain list of words.
    void index_words(Machine::Directory& directory, const std::vector<uint32_t>& words, uint32_t wide_words) {
        directory.wide = words.size() * 16 >= wide_words;
        if (!directory.wide) {
            directory.place = static_cast<uint32_t>(m_.words_.size());
            m_.words_.insert(m_.words_.end(), words.begin(), words.end());
            return;
        }
        directory.place = static_cast<uint32_t>(m_.bits_.size());
        m_.bits_.resize(m_.bits_.size() + wide_words, 0);
        m_.ranks_.resize(m_.ranks_.size() + wide_words, 0);
        uint64_t* bits = m_.bits_.data() + directory.place;
        for (uint32_t word : words) bits[word >> 6] |= 1ull << (word & 63);
        uint32_t rank = 0;
        for (uint32_t i = 0; i < wide_words; ++i) {
            m_.ranks_[directory.place + i] = rank;
            rank += std::popcount(bits[i]);
        }
    }
};

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
