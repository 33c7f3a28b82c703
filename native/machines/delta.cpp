// The delta: a few plain paths as bits of a few words, stepped with shifts. delta.hpp has the theory.
#include "machines/delta.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

namespace treecast {

namespace {
std::atomic<uint64_t> delta_line{1};
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
        steps_.push_back({label, word, mask});
        has_attributes_ |= table.step_of(label).kind == StepKind::attribute;
        has_text_ |= label == label_text;
        descend = first = false;
        ++bit;
    }
    last_[word] |= 1ull << (bit - 1);
    path_at_[word * 64 + bit - 1] = path;
    paths_.push_back(path);
    if (line_ == 0 || labels_ != table.size()) line_ = delta_line++;
    labels_ = table.size();
    return true;
}

uint64_t Delta::bytes() const {
    return sizeof(*this) + (paths_.capacity() + path_at_.capacity()) * 4 + steps_.capacity() * sizeof(Step);
}

// The number of a name's row: the steps that its labels fire, and those that any name does.
uint32_t Delta::row(std::vector<uint32_t>& known, uint32_t name, const uint32_t* labels, uint32_t any, Run& run) const {
    const auto number = static_cast<uint32_t>(run.rows.size());
    Row& row = run.rows.emplace_back();
    ++run.rows_made;
    for (int i = -1; i < 3; ++i) {
        const uint32_t label = i < 0 ? any : labels[i];
        if (label == none) continue;
        if (run.rows_of.size() <= label) run.rows_of.resize(label + 1 + label / 2);
        run.rows_of[label].push_back(number);
        for (const Step& step : steps_)
            if (step.label == label) row[step.word] |= step.mask;
    }
    return known[name] = number;
}

// Row 0 is that of texts.
void Delta::bring_up_to_date(Run& run, uint64_t generation) const {
    if (run.line != line_ || run.generation != generation || run.steps > steps_.size()) {
        run.line = line_;
        run.generation = generation;
        run.element_rows.clear();
        run.attribute_rows.clear();
        run.rows_of.clear();
        run.rows.assign(1, Row{});
        run.rows_of.resize(label_text + 1);
        run.rows_of[label_text].push_back(0);
        for (const Step& step : steps_)
            if (step.label == label_text) run.rows[0][step.word] |= step.mask;
        run.steps = steps_.size();
    }
    for (; run.steps < steps_.size(); ++run.steps) {
        const Step& step = steps_[run.steps];
        if (step.label >= run.rows_of.size()) continue;
        for (uint32_t row : run.rows_of[step.label]) run.rows[row][step.word] |= step.mask;
    }
}

namespace {

// Some words at once. They are copied and not looked at in place: clang would take them for as aligned as a vector register.
typedef uint64_t Lanes __attribute__((vector_size(16)));
constexpr uint32_t lane_words = 2;
inline Lanes lanes_at(const uint64_t* words) {
    Lanes lanes;
    std::memcpy(&lanes, words, sizeof lanes);
    return lanes;
}
inline void set_lanes(uint64_t* words, Lanes lanes) { std::memcpy(words, &lanes, sizeof lanes); }

}  // namespace

// One pass over the elements: each level is computed from the one above by shifts and masks.
void Delta::run(const Document& document, const std::vector<uint8_t>& has_text, NameResolver& names, Run& run) const {
    run.found.clear();
    if (paths_.empty()) return;
    const uint32_t words = (words_ + lane_words - 1) / lane_words * lane_words;
    bring_up_to_date(run, document.names->generation());
    size_t known = document.names->size();
    if (run.element_rows.size() < known) run.element_rows.resize(known, none);
    if (has_attributes_ && run.attribute_rows.size() < known) run.attribute_rows.resize(known, none);
    const Row text = run.rows[0];                   // rows may move
    Row matched{};
    run.reached.assign(words, 0);                   // by depth, from "above the root element"
    run.alive.assign(words, 0);
    auto reach = [&](const uint64_t* fired, const uint64_t* reached, const uint64_t* alive, const uint64_t* firsts, uint32_t w) -> Lanes {
        return (((lanes_at(reached + w) & lanes_at(&before_child_[w])) | (lanes_at(alive + w) & lanes_at(&before_descend_[w]))) << 1 | lanes_at(firsts + w)) & lanes_at(fired + w);
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
        const uint64_t* fired = run.rows[row_at].data();
        const uint64_t* reached_above = run.reached.data() + depth * words;
        const uint64_t* alive_above = run.alive.data() + depth * words;
        uint64_t* reached = run.reached.data() + (depth + 1) * words;
        uint64_t* alive = run.alive.data() + (depth + 1) * words;
        // `/a` begins at the root element only, `//a` at any.
        const uint64_t* firsts = i == 0 ? firsts_at_root.data() : first_any_.data();
        for (uint32_t w = 0; w < words; w += lane_words) {
            const Lanes here = reach(fired, reached_above, alive_above, firsts, w);
            set_lanes(reached + w, here);
            set_lanes(alive + w, lanes_at(alive_above + w) | here);
            set_lanes(&matched[w], lanes_at(&matched[w]) | (here & lanes_at(&last_[w])));
        }
        if (has_attributes_)
            // Attributes and texts have nothing below: all that counts is whether a last step is reached there.
            for (size_t a = document.attribute_begin[i]; a < document.attribute_end(i); ++a) {
                name = document.attribute_name[a];
                row_at = run.attribute_rows[name];
                if (row_at == none)
                    row_at = row(run.attribute_rows, name, names.labels(name).attribute, label_attribute_any, run);
                fired = run.rows[row_at].data();
                for (uint32_t w = 0; w < words; w += lane_words)
                    set_lanes(&matched[w], lanes_at(&matched[w]) | (reach(fired, reached, alive, first_any_.data(), w) & lanes_at(&last_[w])));
            }
        if (has_text_ && has_text[i])
            for (uint32_t w = 0; w < words; w += lane_words)
                set_lanes(&matched[w], lanes_at(&matched[w]) | (reach(text.data(), reached, alive, first_any_.data(), w) & lanes_at(&last_[w])));
    }
    for (uint32_t w = 0; w < words_; ++w)
        for (uint64_t rest = matched[w]; rest; rest &= rest - 1)
            run.found.push_back(path_at_[w * 64 + std::countr_zero(rest)]);
}

}  // namespace treecast
