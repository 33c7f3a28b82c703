// Line ends as XML has them: a carriage return, and the pair of it and a line feed, are one line feed.
#pragma once

#include <string>
#include <string_view>

namespace treecast {

inline void append_lines(std::string_view text, std::string& out) {
    while (!text.empty()) {
        const size_t end = text.find('\r');
        out += text.substr(0, end);
        if (end == std::string_view::npos) return;
        out += '\n';
        text.remove_prefix(end + (text.substr(end).starts_with("\r\n") ? 2 : 1));
    }
}

}  // namespace treecast
