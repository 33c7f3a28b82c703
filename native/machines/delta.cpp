// The delta: a few plain paths as bits of some words, stepped with shifts. delta.hpp has the theory.
#include "machines/delta.hpp"

#include "base/cpu.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <span>
#include <utility>

namespace treecast {

namespace {
std::atomic<uint64_t> delta_line{1};
constexpr uint32_t empty_row = 0, text_row = 1, element_any_row = 2, attribute_any_row = 3;
}

// A path takes neighbouring bits of the first word that has enough left. So a shift by one goes from a step to the next, and no
// carry between words is needed.
uint32_t Delta::add(uint32_t path, Labels labels, const LabelTable& table) {
    uint32_t steps = 0;
    for (uint32_t label : labels) steps += label != label_descend;
    uint32_t word = 0;
    while (word < words_max && used_[word] + steps > steps_max) ++word;
    if (word == words_max || steps == 0 || paths_.size() == paths_max) return none;
    uint32_t bit = used_[word];
    used_[word] = static_cast<uint8_t>(bit + steps);
    Masks& masks = renew_masks(word / line_words);
    auto in = [&](Line& line) -> uint64_t& { return line.words[word % line_words]; };
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
            in(descend ? masks.first_any : masks.first_root) |= mask;
        } else {
            in(descend ? masks.before_descend : masks.before_child) |= mask >> 1;
        }
        steps_.push({label, word, mask});
        has_attributes_ |= table.kind_of(label) == StepKind::attribute;
        has_text_ |= label == label_text;
        descend = first = false;
        ++bit;
    }
    in(masks.last) |= 1ull << (bit - 1);
    path_at_[word * 64 + bit - 1] = path;
    paths_.push(path);
    if (line_ == 0) line_ = delta_line++;
    labels_ = table.size();
    return word * 64 + bit - 1;
}

// The masks of a line, where nobody reads them. A line that was not there begins with none set.
Delta::Masks& Delta::renew_masks(size_t line) {
    if (!masks_.has_room(masks_.size() + 1)) {          // those in use go to new memory, and leave the others behind
        Array<Masks> renewed;
        renewed.reserve(masks_per_line * (lines() + 1));
        for (size_t l = 0; l < lines(); ++l) renewed.push(masks_[masks_at_[l]]);
        for (size_t l = 0; l < lines(); ++l) masks_at_[l] = static_cast<uint8_t>(l);
        masks_ = std::move(renewed);
    }
    if (line == lines()) {
        path_at_.resize((line + 1) * line_words * 64, none);
        slot_at_.resize((line + 1) * line_words * 64, none);
        dirty_.resize((line + 1) * line_words, ~0ull), vacant_.resize((line + 1) * line_words, 0);
        masks_.push({});
        ++lines_;
    } else {
        masks_.push(masks_[masks_at_[line]]);
    }
    masks_at_[line] = static_cast<uint8_t>(masks_.size() - 1);
    return masks_.back();
}

namespace {
std::atomic_ref<uint64_t> mark_of(const Array<uint64_t>& marks, uint32_t bit) { return std::atomic_ref(const_cast<uint64_t&>(marks[bit / 64])); }
}

void Delta::lead(uint32_t bit, uint32_t slot) const noexcept {
    const_cast<uint32_t&>(slot_at_[bit]) = slot;
    mark_of(dirty_, bit).fetch_and(~(1ull << bit % 64), std::memory_order_relaxed);
}

// A path that is about to leave for a machine may have a bit that is not here.
void Delta::mark(uint32_t bit, bool is_vacant) const noexcept {
    if (bit >= slot_at_.size()) return;
    const uint64_t mask = 1ull << bit % 64;
    mark_of(dirty_, bit).fetch_or(mask, std::memory_order_relaxed);
    is_vacant ? mark_of(vacant_, bit).fetch_or(mask, std::memory_order_relaxed) : mark_of(vacant_, bit).fetch_and(~mask, std::memory_order_relaxed);
}

uint64_t Delta::bytes() const {
    return sizeof(*this) + masks_.bytes() + paths_.bytes() + path_at_.bytes() + slot_at_.bytes() + dirty_.bytes() +
           vacant_.bytes() + steps_.bytes();
}

// The steps that these labels fire.
uint32_t Delta::make_row(std::span<const uint32_t> labels, Run& run) const {
    const uint32_t number = run.rows_count++;
    ++run.rows_made;
    for (std::vector<Line>& rows : run.rows) rows.emplace_back();
    for (uint32_t label : labels) {
        if (label == none) continue;
        if (run.rows_of.size() <= label) run.rows_of.resize(label + 1 + label / 2);
        run.rows_of[label].push_back(number);
        for (uint32_t s = label < run.last_step.size() ? run.last_step[label] : none; s != none; s = run.step_before[s])
            run.rows[steps_[s].word / line_words][number].words[steps_[s].word % line_words] |= steps_[s].mask;
    }
    return number;
}

// Makes the rows of new names, too. A name that no query has needs none.
void Delta::list_events(const Document& document, const std::vector<uint8_t>& has_text, NameResolver& names, Run& run) const {
    const size_t known = document.names->size();
    if (run.element_rows.size() < known) run.element_rows.resize(known, none);
    if (run.attribute_rows.size() < known) run.attribute_rows.resize(known, none);
    auto row_of = [&](uint32_t& row, auto&& labels_of) {
        if (row != none) return row;
        const std::span<const uint32_t> labels = labels_of();
        const bool is_named = std::any_of(labels.begin(), labels.end(), [](uint32_t label) { return label != none; });
        return row = is_named ? make_row(labels, run) : empty_row;
    };
    run.events.clear();
    run.events.reserve(document.elements());
    size_t levels = 1;
    for (size_t i = 0; i < document.elements(); ++i) {
        const uint32_t name = document.name[i];
        const uint16_t level = document.depth[i];
        const size_t attributes = has_attributes_ ? document.attribute_end(i) - document.attribute_begin[i] : 0;
        const bool has_texts = has_text_ && has_text[i], opens = document.size[i] > 1 || attributes || has_texts;
        const uint32_t row = row_of(run.element_rows[name], [&] { return std::span<const uint32_t>(names.labels(name).element); });
        if (!opens) {
            // Where its sibling before it is the same, it matches nothing more.
            if (run.events.empty() || !(run.events.back() == Event{row, level, element_any_row, false}))
                run.events.push_back({row, level, element_any_row, false});
            continue;
        }
        run.events.push_back({row, level, element_any_row, true});
        levels = std::max<size_t>(levels, level + 2);
        const auto below = static_cast<uint16_t>(level + 1);
        for (size_t a = document.attribute_begin[i], end = a + attributes; a < end; ++a) {
            const uint32_t attribute = document.attribute_name[a];
            const uint32_t its = row_of(run.attribute_rows[attribute], [&] { return std::span<const uint32_t>(names.labels(attribute).attribute); });
            run.events.push_back({its, below, attribute_any_row, false});
        }
        if (has_texts) run.events.push_back({text_row, below, empty_row, false});
    }
    if (run.ways.size() < levels * lines_together) run.ways.resize(levels * lines_together), run.alive.resize(levels * lines_together);
}

void Delta::forget_rows(Run& run, uint64_t generation) const {
    run.generation = generation;
    run.labels = labels_;
    run.element_rows.clear();
    run.attribute_rows.clear();
    run.rows_of.clear();
    run.rows.assign(lines(), {});
    run.rows_count = 0;
    make_row({}, run);
    for (uint32_t label : {label_text, label_element_any, label_attribute_any}) make_row({&label, 1}, run);
}

void Delta::bring_up_to_date(Run& run, uint64_t generation) const {
    const bool is_other = run.line != line_ || run.steps > steps_.size();
    if (is_other) {
        run.line = line_;
        run.steps = 0;
        run.last_step.clear();
    }
    const bool is_stale = is_other || run.generation != generation || run.labels != labels_;
    if (!is_stale && run.rows.size() < lines()) run.rows.resize(lines(), std::vector<Line>(run.rows_count));
    run.step_before.resize(steps_.size());
    for (; run.steps < steps_.size(); ++run.steps) {
        const Step& step = steps_[run.steps];
        if (step.label >= run.last_step.size()) run.last_step.resize(step.label + 1 + step.label / 2, none);
        run.step_before[run.steps] = std::exchange(run.last_step[step.label], static_cast<uint32_t>(run.steps));
        if (is_stale || step.label >= run.rows_of.size()) continue;
        for (uint32_t row : run.rows_of[step.label]) run.rows[step.word / line_words][row].words[step.word % line_words] |= step.mask;
    }
    if (is_stale) forget_rows(run, generation);
}

namespace {

// The walk is compiled for each kind of processor, as a whole: a function or lambda that is not inlined would not have the same instructions.
template <size_t bytes>
struct DeltaLanes {
    typedef uint64_t Words __attribute__((vector_size(bytes), aligned(8), may_alias));
    static constexpr size_t count = bytes / sizeof(uint64_t);
    [[gnu::always_inline]] static const Words& at(const Delta::Line& line, size_t word) {
        return *reinterpret_cast<const Words*>(line.words.data() + word);
    }
    [[gnu::always_inline]] static Words& at(Delta::Line& line, size_t word) { return *reinterpret_cast<Words*>(line.words.data() + word); }
};

// Which masks are whose.
struct DeltaLines {
    const Delta::Masks* masks;
    std::span<const uint8_t> at;                    // by line
};

// One pass over the events for the words from `w` on of `together` lines, from `line` on: what an event is has to be found out once for
// them. `elements`: there are no others.
template <size_t bytes, size_t together, bool elements>
[[gnu::always_inline]] inline void walk_words(const DeltaLines& lines, size_t line, size_t w, Delta::Run& run) {
    using L = DeltaLanes<bytes>;
    using Words = typename L::Words;
    // In a struct, because of an array of them the compiler would expect an alignment that a sanitizer's stack does not have.
    struct OfLine {
        Words before_child, before_descend, first_any, element_any, attribute_any, found, here;
        const Delta::Line* rows;
    };
    OfLine of[together];
    Delta::Line* const ways = run.ways.data();      // by level and line
    Delta::Line* const alive = run.alive.data();
    for (size_t l = 0; l < together; ++l) {
        const Delta::Masks& masks = lines.masks[lines.at[line + l]];
        of[l].rows = run.rows[line + l].data();
        of[l].before_child = L::at(masks.before_child, w), of[l].before_descend = L::at(masks.before_descend, w);
        of[l].first_any = L::at(masks.first_any, w);
        of[l].element_any = L::at(of[l].rows[element_any_row], w), of[l].attribute_any = L::at(of[l].rows[attribute_any_row], w);
        of[l].found = Words{};
        L::at(ways[l], w) = of[l].first_any | L::at(masks.first_root, w);
        L::at(alive[l], w) = Words{};
    }
    for (const Delta::Event& event : run.events) {
        const size_t level = event.level * together;
        for (size_t l = 0; l < together; ++l) {
            Words fired = L::at(of[l].rows[event.row], w);
            if (elements || event.any == element_any_row)
                fired |= of[l].element_any;
            else if (event.any == attribute_any_row)
                fired |= of[l].attribute_any;
            of[l].here = L::at(ways[level + l], w) & fired;
            of[l].found |= of[l].here;
        }
        if (!event.opens) continue;
        for (size_t l = 0; l < together; ++l) {
            const Words still_alive = L::at(alive[level + l], w) | of[l].here;
            L::at(alive[level + together + l], w) = still_alive;
            L::at(ways[level + together + l], w) =
                ((of[l].here & of[l].before_child) | (still_alive & of[l].before_descend)) << 1 | of[l].first_any;
        }
    }
    for (size_t l = 0; l < together; ++l) L::at(run.matched[line + l], w) = of[l].found & L::at(lines.masks[lines.at[line + l]].last, w);
}

// PERF: bench/churn.py. As many lines as leave registers for what does not change.
template <size_t bytes, bool elements>
[[gnu::always_inline]] inline void walk_lines(const DeltaLines& lines, Delta::Run& run) {
    size_t line = 0;
    for (; line + Delta::lines_together <= lines.at.size(); line += Delta::lines_together)
        for (size_t w = 0; w < Delta::line_words; w += DeltaLanes<bytes>::count) walk_words<bytes, Delta::lines_together, elements>(lines, line, w, run);
    for (; line < lines.at.size(); ++line)
        for (size_t w = 0; w < Delta::line_words; w += DeltaLanes<bytes>::count) walk_words<bytes, 1, elements>(lines, line, w, run);
}

template <size_t bytes>
[[gnu::always_inline]] inline void walk_delta(const DeltaLines& lines, bool elements, Delta::Run& run) {
    if (elements)
        walk_lines<bytes, true>(lines, run);
    else
        walk_lines<bytes, false>(lines, run);
}

void walk_delta_plain(const DeltaLines& lines, bool elements, Delta::Run& run) { walk_delta<16>(lines, elements, run); }
#if TREECAST_X86
TREECAST_AVX2 void walk_delta_avx2(const DeltaLines& lines, bool elements, Delta::Run& run) { walk_delta<32>(lines, elements, run); }
TREECAST_AVX512 void walk_delta_avx512(const DeltaLines& lines, bool elements, Delta::Run& run) { walk_delta<64>(lines, elements, run); }
#endif

void walk_delta_best(const DeltaLines& lines, bool elements, Delta::Run& run) {
#if TREECAST_X86
    if (simd_level() >= Simd::avx512) return walk_delta_avx512(lines, elements, run);
    if (simd_level() >= Simd::avx2) return walk_delta_avx2(lines, elements, run);
#endif
    walk_delta_plain(lines, elements, run);
}

}  // namespace

void Delta::run(const Document& document, const std::vector<uint8_t>& has_text, NameResolver& names, Run& run) const {
    run.found.clear(), run.leading.clear();
    if (paths_.empty()) return;
    bring_up_to_date(run, document.names->generation());
    list_events(document, has_text, names, run);
    run.events_walked += run.events.size();
    run.matched.resize(lines());
    walk_delta_best({masks_.data(), std::span(masks_at_).first(lines())}, !has_attributes_ && !has_text_, run);
    const size_t words = lines() * line_words;
    while (run.words.size() < words) run.words.push_back(static_cast<uint32_t>(run.words.size()));
    run.leading.resize(words);
    for (uint32_t word = 0; word < words; ++word) {
        const uint64_t matched = run.matched[word / line_words].words[word % line_words];
        const uint64_t dirty = matched & mark_of(dirty_, word * 64).load(std::memory_order_relaxed);
        run.leading[word] = matched ^ dirty;
        for (uint64_t rest = dirty & ~mark_of(vacant_, word * 64).load(std::memory_order_relaxed); rest; rest &= rest - 1)
            run.found.push_back(path_at_[word * 64 + static_cast<uint32_t>(std::countr_zero(rest))]);
    }
}

}  // namespace treecast
