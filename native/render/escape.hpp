// Characters that must not stand as they are in XML, written as references. Out: std::string or Bytes.
#pragma once

#include <string_view>

namespace treecast {

// In text: & < > and the carriage return, which a reader would turn into a line feed.
template <class Out> void append_escaped_text(std::string_view text, Out& out);

// In an attribute value between double quotes: those, the quote, and the white space that a reader would turn into spaces.
template <class Out> void append_escaped_attribute(std::string_view text, Out& out);

}  // namespace treecast
