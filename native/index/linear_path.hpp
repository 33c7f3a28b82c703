// A path of child and descendant steps from the root, and whether it leads to an element: decided upwards, by the element's parents.
#pragma once

#include "index/form_names.hpp"

#include <cstdint>
#include <vector>

namespace treecast {

class LinearPath {
public:
    static constexpr size_t steps_max = 64;
    struct Step {
        bool is_anywhere = false;                           // `//name`, not `/name`
        uint32_t name = FormNames::any;
    };
    std::vector<Step> steps;

    // Whether it leads to this element of the document whose names these are. `steps_left` may be compared; where that is too few, it
    // is 0 afterwards, and the answer no.
    bool leads_to(const Document& document, uint32_t element, FormNames& names, uint64_t& steps_left) const;
};

}  // namespace treecast
