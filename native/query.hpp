// text -> Query: the path language of treecast, parsed, named, limited, printed. Grammar: docs/guide/language.md.
#pragma once

#include "path.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace treecast {

// prefix -> URI; the prefix "" binds unprefixed element names.
using Bindings = std::vector<std::pair<std::string, std::string>>;

}  // namespace treecast
