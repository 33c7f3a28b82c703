// The five operators of XPath's arithmetic: IEEE 754 doubles, and the remainder with the sign of the dividend.
#pragma once

#include "query/term.hpp"

#include <cmath>

namespace treecast {

inline double apply(Sign sign, double left, double right) {
    switch (sign) {
        case Sign::plus: return left + right;
        case Sign::minus: return left - right;
        case Sign::times: return left * right;
        case Sign::div: return left / right;
        case Sign::mod: return std::fmod(left, right);
    }
    return 0;
}

}  // namespace treecast
