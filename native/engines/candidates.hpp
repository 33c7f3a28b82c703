// The changing part of the candidate lists of XFilter and the hybrid: what was promoted by elements that are still open.
//
// A promotion belongs to the element that caused it, and its end tag undoes it. Elements are nested, so when an element ends
// its promotions are the last in every list. Undoing them means popping a log.
//
// A promotion that only asks for a minimum level is skipped while an earlier one of the same kind is in force:
// the earlier one matches whatever the later one could.
#pragma once

#include <cstdint>
#include <vector>

namespace treecast {

class Candidates {
public:
    struct Candidate {
        uint32_t path, position;             // the state of a path's machine that waits here
        uint32_t level;                      // at which, or from which on
        uint32_t open;                       // number of the state if it asks for a least level, or ~0
    };

    // Call it before the first element. `keys`: how many lists there are; `opens`: how many states ask for a minimum level.
    void begin(size_t keys, size_t opens) {
        undo(0);
        if (lists_.size() < keys) lists_.resize(keys);
        if (open_.size() < opens) open_.resize(opens, 0);
    }
    // Call it before the start tag of an element of this depth: all deeper elements, and its previous sibling, have ended.
    void undo(uint32_t depth) {
        while (!log_.empty() && log_.back().depth >= depth) {
            std::vector<Candidate>& list = lists_[log_.back().key];
            if (list.back().open != ~0u) open_[list.back().open] = 0;
            list.pop_back();
            log_.pop_back();
        }
    }
    void promote(uint32_t key, uint32_t depth, const Candidate& candidate) {
        if (candidate.open != ~0u) {
            if (open_[candidate.open]) return;
            open_[candidate.open] = 1;
        }
        lists_[key].push_back(candidate);
        log_.push_back({depth, key});
    }
    const std::vector<Candidate>& list(uint32_t key) const { return lists_[key]; }

private:
    struct Entry { uint32_t depth, key; };
    std::vector<std::vector<Candidate>> lists_;
    std::vector<Entry> log_;
    std::vector<uint8_t> open_;
};

}  // namespace treecast
