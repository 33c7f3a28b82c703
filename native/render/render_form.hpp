// The text of a FLWR query without the literals of its clauses: subscribers who differ in those alone share one plan.
//
//   for $n in $msg/a where $n/@code = "c17" return <x>{$n}</x>    ->    for $n in $msg/a where $n/@code = "" return <x>{$n}</x>, c17
//
// PERF: bench/rendering.py; a hundred thousand such plans are too many to be near, and reading them costs more than building.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace treecast {

struct Form {
    std::string text;
    std::vector<std::string_view> literals;      // of the text it was made of
    size_t head = 0;                             // bytes of `text` before its first return
};

// Fills `form`. Where the text is another kind of subscription, or its clauses hold more than paths and conditions, the form is the
// text itself, without literals.
void find_form(std::string_view text, Form& form);

}  // namespace treecast
