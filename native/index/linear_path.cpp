// The steps that an ancestor may be at are bits. `here` are those before a child step, which only the next parent can be at; `above`
// are those before a descendant step, for every ancestor from there on.
#include "index/linear_path.hpp"

#include <bit>

namespace treecast {

bool LinearPath::leads_to(const Document& document, uint32_t element, FormNames& names, uint64_t& steps_left) const {
    uint64_t here = 1ull << (steps.size() - 1), above = 0;
    for (;; element = document.parent[element]) {
        const uint32_t name = names.number_of(document.name[element]);
        uint64_t at = here | above;
        for (here = 0; at; at &= at - 1) {
            if (steps_left == 0 || --steps_left == 0) return false;
            const auto number = static_cast<size_t>(std::countr_zero(at));
            const Step& step = steps[number];
            if (step.name != FormNames::any && step.name != name) continue;
            if (number) (step.is_anywhere ? above : here) |= 1ull << (number - 1);
            else if (step.is_anywhere || element == 0) return true;
        }
        if (element == 0 || !(here | above)) return false;
    }
}

}  // namespace treecast
