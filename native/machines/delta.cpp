// The delta: a few plain paths as bits of a few words, stepped with shifts. delta.hpp has the theory.
#include "machines/delta.hpp"

#include <algorithm>
#include <atomic>
#include <bit>

namespace treecast {

namespace {
std::atomic<uint64_t> delta_serial{1};
}

// A path takes neighbouring bits of the first word that has enough left. So a shift by one goes from a step to the next, and no
// carry between words is needed.
bool Delta::add(uint32_t path, Labels labels, const LabelTable& table) {
    uint32_t steps = 0;
    for (uint32_t label : labels) steps += label != label_descend;
    uint32_t word = 0;
    while (word < words_max && used_[word] + steps > steps_max) ++word;
    if (word == words_max || steps == 0) return false;
    uint32_t bit = used_[word];
    used_[word] = static_cast<uint8_t>(bit + steps);
    words_ = std::max(words_, word + 1);
    path_at_.resize(words_ * 64, none);
    // A step is entered from the bit before it. The mask that contains this bit says whether it must be at the parent or anywhere
    // above. The first step has no bit before it, and has masks of its own.
    bool descend = false, first = true;
    for (uint32_t label : labels) {
        if (label == label_descend) {
            descend = true;
            continue;
        }
        uint64_t mask = 1ull << bit;
        if (first) {
            (descend ? first_any_ : first_root_)[word] |= mask;
        } else {
            (descend ? before_descend_ : before_child_)[word] |= mask >> 1;
        }
        new_row(label)[word] |= mask;
        has_attributes_ |= table.step_of(label).kind == StepKind::attribute;
        descend = first = false;
        ++bit;
    }
    last_[word] |= 1ull << (bit - 1);
    path_at_[word * 64 + bit - 1] = path;
    paths_.push_back(path);
    serial_ = delta_serial++;
    return true;
}

uint64_t Delta::bytes() const {
    return sizeof(*this) + (paths_.capacity() + path_at_.capacity()) * 4 + rows_.capacity() * (sizeof(Row) + 4);
}

const uint64_t* Delta::row_of(uint32_t label) const {
    auto at = std::lower_bound(row_labels_.begin(), row_labels_.end(), label);
    return at != row_labels_.end() && *at == label ? rows_[at - row_labels_.begin()].data() : nullptr;
}

// Rows are few and sorted by label, so inserting one moves little. A delta is read far more often than written.
uint64_t* Delta::new_row(uint32_t label) {
    auto at = std::lower_bound(row_labels_.begin(), row_labels_.end(), label);
    size_t place = at - row_labels_.begin();
    if (at == row_labels_.end() || *at != label) {
        row_labels_.insert(at, label);
        rows_.insert(rows_.begin() + place, Row{});
    }
    return rows_[place].data();
}

// Where the row of a name is in run.rows: the union of the rows of the labels that it fires.
uint32_t Delta::row(std::vector<uint32_t>& known, uint32_t name, const uint32_t* labels, uint32_t any, Run& run) const {
    uint32_t at = static_cast<uint32_t>(run.rows.size());
    run.rows.resize(at + words_, 0);
    auto unite_row = [&](uint32_t label) {
        const uint64_t* steps = row_of(label);
        for (uint32_t w = 0; steps && w < words_; ++w) run.rows[at + w] |= steps[w];
    };
    unite_row(any);
    for (int i = 0; i < 3; ++i)
        if (labels[i] != none) unite_row(labels[i]);
    return known[name] = at;
}

// One pass over the elements: each level is computed from the one above by shifts and masks.
void Delta::run(const Document& document, const std::vector<uint8_t>& has_text, NameResolver& names, Run& run) const {
    run.found.clear();
    if (paths_.empty()) return;
    uint32_t words = words_;
    uint64_t generation = document.names->generation();
    // The rows were made for other paths, or for other numbers of names.
    if (run.serial != serial_ || run.generation != generation) {
        run.serial = serial_;
        run.generation = generation;
        run.element_rows.clear();
        run.attribute_rows.clear();
        run.rows.clear();
    }
    size_t known = document.names->size();
    if (run.element_rows.size() < known) run.element_rows.resize(known, none);
    if (has_attributes_ && run.attribute_rows.size() < known) run.attribute_rows.resize(known, none);
    const uint64_t* text = row_of(label_text);
    Row matched{};
    run.reached.assign(words, 0);                   // by depth, from "above the root element"
    run.alive.assign(words, 0);
    auto reach = [&](const uint64_t* fired, const uint64_t* reached, const uint64_t* alive, const uint64_t* firsts, uint32_t w) {
        return (((reached[w] & before_child_[w]) | (alive[w] & before_descend_[w])) << 1 | firsts[w]) & fired[w];
    };
    Row firsts_at_root;
    for (uint32_t w = 0; w < words; ++w) firsts_at_root[w] = first_any_[w] | first_root_[w];
    for (size_t i = 0; i < document.elements(); ++i) {
        size_t depth = document.depth[i];
        if (run.reached.size() < (depth + 2) * words) {
            run.reached.resize((depth + 2) * words);
            run.alive.resize((depth + 2) * words);
        }
        uint32_t name = document.name[i];
        uint32_t row_at = run.element_rows[name];
        if (row_at == none) row_at = row(run.element_rows, name, names.labels(name).element, label_element_any, run);
        const uint64_t* fired = run.rows.data() + row_at;
        const uint64_t* reached_above = run.reached.data() + depth * words;
        const uint64_t* alive_above = run.alive.data() + depth * words;
        uint64_t* reached = run.reached.data() + (depth + 1) * words;
        uint64_t* alive = run.alive.data() + (depth + 1) * words;
        // `/a` begins at the root element only, `//a` at any.
        const uint64_t* firsts = i == 0 ? firsts_at_root.data() : first_any_.data();
        for (uint32_t w = 0; w < words; ++w) {
            reached[w] = reach(fired, reached_above, alive_above, firsts, w);
            alive[w] = alive_above[w] | reached[w];
            matched[w] |= reached[w] & last_[w];
        }
        if (has_attributes_)
            // Attributes and texts have nothing below: all that counts is whether a last step is reached there.
            for (size_t a = document.attribute_begin[i]; a < document.attribute_end(i); ++a) {
                name = document.attribute_name[a];
                row_at = run.attribute_rows[name];
                if (row_at == none)
                    row_at = row(run.attribute_rows, name, names.labels(name).attribute, label_attribute_any, run);
                fired = run.rows.data() + row_at;
                for (uint32_t w = 0; w < words; ++w)
                    matched[w] |= reach(fired, reached, alive, first_any_.data(), w) & last_[w];
            }
        if (text && has_text[i])
            for (uint32_t w = 0; w < words; ++w)
                matched[w] |= reach(text, reached, alive, first_any_.data(), w) & last_[w];
    }
    for (uint32_t w = 0; w < words; ++w)
        for (uint64_t rest = matched[w]; rest; rest &= rest - 1)
            run.found.push_back(path_at_[w * 64 + std::countr_zero(rest)]);
}

}  // namespace treecast
