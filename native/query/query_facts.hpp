// What queries say about the documents that they can match: the facts by which a placement divides them.
//
// Each fact is a consequence of the query, so acting on it loses no match:
//   root       the local name that the root element must have, if all branches of the query agree on one
//   required   local names of elements that every matching document has
//   skeletons  one plain path per branch: its main path without predicates, as far as its axes go down.
//              Every document that the branch matches, the path matches too
//   pairs      for a query with one branch: a pattern (an absolute path and a target in it) and a literal that the target
//              must equal, from each `=` that has to hold. `path[target = literal]` covers the query
// Names in a namespace are written by their local name alone (`*[local-name() = 'a']`), so that the texts need no bindings.
// Conditions below `or` and `not()` contribute nothing.
//
// Source: XTrie, "Clustering XPath expressions" (roots, names); ONYX, section 4.4 (patterns).
#pragma once

#include "base/seeded_hash.hpp"
#include "query/query.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace treecast {

// Distinct texts, numbered in the order in which they come.
class NumberedTexts {
public:
    uint32_t number(std::string_view text);
    const std::vector<const std::string*>& texts() const { return texts_; }

private:
    TextMap<uint32_t> numbers_;
    std::vector<const std::string*> texts_;           // keys of the map, which do not move
};

class QueryFacts {
public:
    void add(const Query& query);

    // One entry per query in `roots`; the lists of query i are [ends[i], ends[i + 1]).
    NumberedTexts names, skeletons, patterns, values;   // a pattern: path NUL target; a value: `s` or `n` and the literal
    std::vector<int32_t> roots;                         // a name, or -1
    std::vector<int64_t> required_ends{0}, skeleton_ends{0}, pair_ends{0};
    std::vector<int32_t> required, skeleton, pair_pattern, pair_value;

private:
    struct Place {                     // where in the document a path has come to, if that can be written as a plain path
        std::string path;
        bool known = true;
    };
    struct Branch {
        int32_t root = -1;
        std::string skeleton;
        std::vector<uint32_t> names;
        std::vector<std::pair<uint32_t, uint32_t>> pairs;
    };
    void walk(const Query& query, const PathEntry& path, Place& place, Branch& branch, bool main);
    void condition(const Query& query, const Expr& expr, const Place& place, Branch& branch);
    void pair(const Query& query, const Expr& expr, const PathEntry& path, const Place& place, Branch& branch);
};

}  // namespace treecast
