// The meaning of `=`, `!=`, `<` and so on between two numbers. XPath 1.0 and C++ agree: with NaN only `!=` holds.
#pragma once

#include "query/query.hpp"

namespace treecast {

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
