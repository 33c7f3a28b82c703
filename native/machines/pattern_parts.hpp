// The pieces that patterns are written with: see the grammar in pattern.hpp.
#pragma once

#include "machines/pattern.hpp"
#include "query/query.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace treecast {

// Requirements are a set: sorted and without duplicates, so that equal entries are equal bytes.
// `branches` are those of them that have to come in this order.
std::string pattern_entry(uint32_t label, std::vector<std::string> requirements, const std::vector<std::string>& branches = {});
// That a child, or something below, is such an entry.
std::string reach_requirement(Reach reach, uint32_t label, std::vector<std::string> requirements,
                              const std::vector<std::string>& branches = {});
std::string value_requirement(ValueTest test, std::string_view value, bool negated);
// A comparison with NaN never holds, so it has no requirement.
std::optional<std::string> comparison_requirement(const Query& query, Relation relation, const Value& value);

}  // namespace treecast
