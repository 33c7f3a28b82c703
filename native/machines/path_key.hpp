// How a Store writes down a path: one byte for its kind, then labels as varints (a plain path, `//` as label_descend), or the
// bytes of a tree pattern. Equal paths have equal keys.
#pragma once

#include "machines/machine.hpp"
#include "machines/pattern.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace treecast {

constexpr char plain_key = 'p', tree_key = 't';

inline bool is_tree(std::string_view key) { return key[0] == tree_key; }

// Appends the labels of a plain path.
inline void plain_labels(std::string_view key, std::vector<uint32_t>& labels) {
    for (const char *at = key.data() + 1, *end = key.data() + key.size(); at < end;) labels.push_back(take_varint(at));
}

// The same path under other labels, for a Store that renumbers.
template <class Relabel>
std::string relabel_key(std::string_view key, Relabel&& label) {
    std::string out(1, key[0]);
    if (is_tree(key)) return out += relabel(key.substr(1), label);
    for (const char *at = key.data() + 1, *end = key.data() + key.size(); at < end;) put_varint(out, label(take_varint(at)));
    return out;
}

}  // namespace treecast
