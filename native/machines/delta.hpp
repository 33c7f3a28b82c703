// The small machine for recent additions: at most 64 * words_max steps, no construction at all, and cheap to copy.
//
// Theory of operation: Shift-And over document trees. Every step of every path is a bit; a path's steps are neighbours in one
// 64-bit word. Going down to a child element with name a:
//     reached = (((above.reached & before_child) | (above.alive & before_descend)) << 1 | firsts) & fired_by[a]
//     alive   = above.alive | reached
// where `firsts` are the first steps that may start here: those with `//` always, those with `/` at the root element only.
// A path matches where its last step's bit is reached. An element costs a few instructions a word, whatever the queries are,
// which beats any cached machine that has to be thrown away at every change.
//
// Paths are only ever added to a delta, so what a thread knows of it, the rows `fired_by` of the names that it has met, is
// brought up to date by the steps that are new. PERF: bench/churn.py, a change before every document.
#pragma once

#include "document/document.hpp"
#include "machines/label.hpp"
#include "machines/lazy.hpp"
#include "machines/machine.hpp"

#include <array>
#include <cstdint>
#include <vector>

namespace treecast {

class Delta {
public:
    static constexpr uint32_t words_max = 16, steps_max = 64;

    bool add(uint32_t path, Labels labels, const LabelTable& table);   // false: no room; nothing changed
    const std::vector<uint32_t>& paths() const { return paths_; }
    bool has_text() const { return has_text_; }
    uint64_t bytes() const;

    // Scratch of one thread. Rows by name are kept as long as paths are only added, and as names mean the same.
    struct Run {
        std::vector<uint64_t> reached, alive;
        std::vector<std::array<uint64_t, words_max>> rows;
        std::vector<uint32_t> element_rows, attribute_rows;            // by name: the number of its row
        std::vector<std::vector<uint32_t>> rows_of;                    // by label: the rows that it is in
        uint64_t line = 0, generation = 0;
        size_t steps = 0;                                              // that the rows have
        uint64_t rows_made = 0;                                        // for tests
        std::vector<uint32_t> found;                                   // the paths that matched
    };
    void run(const Document& document, const std::vector<uint8_t>& has_text, NameResolver& names, Run& run) const;

private:
    using Row = std::array<uint64_t, words_max>;

    struct Step {                                   // a bit, and the label that fires it
        uint32_t label, word;
        uint64_t mask;
    };
    uint32_t row(std::vector<uint32_t>& known, uint32_t name, const uint32_t* labels, uint32_t any, Run& run) const;
    void bring_up_to_date(Run& run, uint64_t generation) const;

    uint32_t words_ = 0;                            // in use
    uint8_t used_[words_max] = {};                  // bits in use, by word
    std::vector<uint32_t> paths_;
    std::vector<uint32_t> path_at_;                 // by bit: the path whose last step it is
    Row before_child_{}, before_descend_{}, first_root_{}, first_any_{}, last_{};
    std::vector<Step> steps_;                       // in the order of addition
    bool has_attributes_ = false, has_text_ = false;
    // The same in all deltas that this one was copied from, as long as no label is new since: then names mean the same.
    uint64_t line_ = 0;
    uint32_t labels_ = 0;
};

}  // namespace treecast
