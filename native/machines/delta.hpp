// The small machine for recent additions: at most 64 * words_max steps, no construction at all, and cheap to copy.
//
// Theory of operation: Shift-And over document trees. Every step of every path is a bit; a path's steps are neighbours in one
// 64-bit word. Going down to a child element with name a:
//     reached = (((above.reached & before_child) | (above.alive & before_descend)) << 1 | firsts) & fired_by[a]
//     alive   = above.alive | reached
// where `firsts` are the first steps that may start here: those with `//` always, those with `/` at the root element only.
// A path matches where its last step's bit is reached. All but `fired_by` is the same for all children of an element, and computed once:
// the *way* to them. The document is walked once for some words together, which stay in registers. An element costs a few
// instructions, whatever the queries are, which beats any cached machine that has to be thrown away at every change.
//
// Paths are only ever added to a delta, so what a thread knows of it, the rows `fired_by` of the names that it has met, is
// brought up to date by the steps that are new. A copy shares all that grows. A line of masks to which a path is added is written
// anew behind the others, because readers may be in the old one; so a copy copies no masks, and only knows which are its own.
//
// A path mostly has one subscription. So a bit leads to its slot, as accept ids of machines do, and to the chain of its path only once a
// subscription has come or gone.
// PERF: bench/churn.py, a change before every document.
#pragma once

#include "base/array.hpp"
#include "document/document.hpp"
#include "machines/label.hpp"
#include "machines/lazy.hpp"
#include "machines/machine.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace treecast {

class Delta {
public:
    // PERF: bench/churn.py. A full delta becomes a machine, whose cache is empty: the larger, the seldomer. All of it takes as long
    // for a document as a machine does with everything cached, or half as long.
    static constexpr uint32_t words_max = 192, steps_max = 64, paths_max = 1536;

    // Answers with the bit of its last step; none: there is no room, and nothing has changed.
    uint32_t add(uint32_t path, Labels labels, const LabelTable& table);
    // The path that ends at a bit has one subscription. To be said before a View has the path.
    void lead(uint32_t bit, uint32_t slot) const noexcept;
    // From now on its chain is walked, or it is known to have no subscription. As all deltas that share memory with this one get to
    // know of it, it has to hold for older Views too, as marks of a MachinePlace have to.
    void mark(uint32_t bit, bool is_vacant) const noexcept;
    const uint32_t* slots() const { return slot_at_.data(); }          // by bit
    const Array<uint32_t>& paths() const { return paths_; }
    bool has_text() const { return has_text_; }
    uint64_t bytes() const;

    // Words that are computed together: a cache line of them.
    static constexpr uint32_t line_words = 8;
    static constexpr uint32_t lines_together = 2;   // that one pass over a document is for, as far as there are so many
    struct alignas(64) Line {
        std::array<uint64_t, line_words> words{};
    };
    struct Masks {                                  // of a line
        Line before_child, before_descend, first_root, first_any, last;
    };

    // What a document has that may fire a step, in document order. One that `opens` has others below, at the next level.
    struct Event {
        uint32_t row;
        uint16_t level;
        uint8_t any;                                                   // the row of everything of its kind
        bool opens;
        bool operator==(const Event&) const = default;
    };

    // Scratch of one thread. Rows by name are kept as long as paths are only added, and as names mean the same.
    struct Run {
        std::vector<Event> events;
        std::vector<Line> ways, alive, matched;                        // by level and line of a pass, likewise, by line
        // By line and row: the steps that a name fires. The first rows are those of texts and of any name: no other has to know of a
        // new step `*`.
        std::vector<std::vector<Line>> rows;
        uint32_t rows_count = 0;
        std::vector<uint32_t> element_rows, attribute_rows;            // by name: the number of its row
        std::vector<std::vector<uint32_t>> rows_of;                    // by label: the rows that it is in
        std::vector<uint32_t> last_step, step_before;                  // by label, and by step: those of the same label, as a chain
        uint64_t line = 0, generation = 0;
        uint32_t labels = 0;
        size_t steps = 0;                                              // that the rows have
        uint64_t rows_made = 0, events_walked = 0;                     // for tests
        // What matched. By word, bits that lead to slots; and the paths whose chains are to be walked.
        std::vector<uint32_t> words;                                   // 0, 1, 2, ...
        std::vector<uint64_t> leading;
        std::vector<uint32_t> found;
    };
    void run(const Document& document, const std::vector<uint8_t>& has_text, NameResolver& names, Run& run) const;

private:
    struct Step {                                   // a bit, and the label that fires it
        uint32_t label, word;
        uint64_t mask;
    };
    size_t lines() const { return lines_; }
    Masks& renew_masks(size_t line);
    uint32_t make_row(std::span<const uint32_t> labels, Run& run) const;
    void list_events(const Document& document, const std::vector<uint8_t>& has_text, NameResolver& names, Run& run) const;
    void bring_up_to_date(Run& run, uint64_t generation) const;
    void forget_rows(Run& run, uint64_t generation) const;

    static constexpr uint32_t lines_max = words_max / line_words, masks_per_line = 4;
    std::array<uint8_t, words_max> used_{};         // bits in use, by word
    uint32_t lines_ = 0;
    std::array<uint8_t, lines_max> masks_at_{};     // by line: where its masks are
    static_assert(masks_per_line * (lines_max + 1) <= 256);
    Array<Masks> masks_;                            // those of all lines, and before them older ones that readers may be in
    Array<uint32_t> paths_;
    Array<uint32_t> path_at_, slot_at_;             // by bit: the path whose last step it is; see lead()
    Array<uint64_t> dirty_, vacant_;                // by word; changed and read atomically. Of a vacant bit, `dirty_` has it too
    Array<Step> steps_;                             // in the order of addition
    bool has_attributes_ = false, has_text_ = false;
    uint64_t line_ = 0;                             // the same in all deltas that this one was copied from
    uint32_t labels_ = 0;                           // as many as there were: as long as none is new, names mean the same
};

}  // namespace treecast
