// The small machine for recent additions: at most 64 * words_max steps, no construction at all, and cheap to copy.
//
// Theory of operation: Shift-And over document trees. Every step of every path is a bit; a path's steps are neighbours in one
// 64-bit word. Going down to a child element with name a:
//     reached = (((above.reached & before_child) | (above.alive & before_descend)) << 1 | firsts) & fired_by[a]
//     alive   = above.alive | reached
// where `firsts` are the first steps that may start here: those with `//` always, those with `/` at the root element only.
// A path matches where its last step's bit is reached. An element costs a few instructions a word, whatever the queries are,
// which beats any cached machine that has to be thrown away at every change.
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
    bool has_text() const { return row_of(label_text) != nullptr; }
    uint64_t serial() const { return serial_; }                        // another number after every change
    uint64_t bytes() const;

    // Scratch of one thread. Rows by name are kept as long as neither the delta nor the names change.
    struct Run {
        std::vector<uint64_t> reached, alive, rows;
        std::vector<uint32_t> element_rows, attribute_rows;
        uint64_t serial = 0, generation = 0;
        std::vector<uint32_t> found;                                   // the paths that matched
    };
    void run(const Document& document, const std::vector<uint8_t>& has_text, NameResolver& names, Run& run) const;

private:
    using Row = std::array<uint64_t, words_max>;

    const uint64_t* row_of(uint32_t label) const;   // null where no step has the label
    uint64_t* new_row(uint32_t label);
    uint32_t row(std::vector<uint32_t>& known, uint32_t name, const uint32_t* labels, uint32_t any, Run& run) const;

    uint32_t words_ = 0;                            // in use
    uint8_t used_[words_max] = {};                  // bits in use, by word
    std::vector<uint32_t> paths_;
    std::vector<uint32_t> path_at_;                 // by bit: the path whose last step it is
    Row before_child_{}, before_descend_{}, first_root_{}, first_any_{}, last_{};
    std::vector<uint32_t> row_labels_;              // sorted
    std::vector<Row> rows_;                         // parallel to row_labels_: the steps that the label fires
    bool has_attributes_ = false;
    uint64_t serial_ = 0;
};

}  // namespace treecast
