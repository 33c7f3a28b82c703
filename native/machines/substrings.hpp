// Which literals occur in values that are nested in each other: every byte is read once, however many elements contain it.
//
// Inner elements close first, so their values end one after the other in the texts of the document. A Sweep reads on through
// these texts with the automaton of Values. It remembers where each state that ends literals was met last, the latest first.
// A value contains what was met after its beginning: a walk along that list to the first that ends before it.
// A state stands for its shorter suffixes too. Of two states that share one, the later decides, so each is looked at once.
#pragma once

#include "document/document.hpp"
#include "machines/values.hpp"

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace treecast {

// Of one group of conditions, for one document after the other. Places are counted in bytes of all texts of the document.
class Sweep {
public:
    Sweep(const Values& values, uint32_t group);
    // Forgets what came before: the next byte is at `place`.
    void start(uint64_t place);
    void read(const Values& values, std::string_view piece);

    // Calls one(test) for all that occur between `begin` and what was read last; each once.
    template <class One>
    void within(const Values& values, uint64_t begin, One&& one) {
        if (++visit_ == 0) forget_visits();
        for (uint32_t at = latest_; at != none && occurrences_[at].end > begin; at = occurrences_[at].older)
            for (uint32_t state = occurrences_[at].state; state; state = values.shorter(state)) {
                uint32_t test = values.test_of(state);
                Mark& mark = marks_[test - first_test_];
                if (mark.visit == visit_) break;
                mark.visit = visit_;
                if (occurrences_[at].end - begin >= values.text(test).size()) values.each_test(test, one);
            }
    }

private:
    struct Occurrence {
        uint64_t end = 0;
        uint32_t state = 0, test = 0, newer = none, older = none;
    };
    struct Mark {                        // by test, from first_test_ on
        uint32_t occurrence = none, visit = 0;
    };
    void add_occurrence(uint32_t state, uint32_t test);
    void forget_visits();

    uint64_t place_ = 0;
    uint32_t root_, state_, first_test_;
    uint32_t latest_ = none, visit_ = 0;
    std::array<uint32_t, 256> after_root_;      // by byte: most bytes lead from the root to it
    std::vector<Occurrence> occurrences_;
    std::vector<Mark> marks_;
};

}  // namespace treecast
