// The meaning of `=`, `!=`, `<` and so on between two numbers. XPath 1.0 and C++ agree: with NaN only `!=` holds.
#pragma once

#include "query/query.hpp"

namespace treecast {

// The relation after its sides have been swapped.
constexpr Relation mirrored(Relation relation) {
    switch (relation) {
        case Relation::lt: return Relation::gt;
        case Relation::le: return Relation::ge;
        case Relation::gt: return Relation::lt;
        case Relation::ge: return Relation::le;
        default: return relation;
    }
}

template <class Left, class Right>
bool related(Relation relation, const Left& left, const Right& right) {
    switch (relation) {
        case Relation::eq: return left == right;
        case Relation::ne: return left != right;
        case Relation::lt: return left < right;
        case Relation::le: return left <= right;
        case Relation::gt: return left > right;
        case Relation::ge: return left >= right;
    }
    return false;
}

}  // namespace treecast
