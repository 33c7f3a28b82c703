// Terms that many queries have in common, such as count(//item): numbered by what they say, so that a document is asked once.
//
// Only terms without a context have one value for a document. Of these, paths and functions of paths are numbered: they cost as
// much as the document is large. What is around them (mod 7 = 3) is cheap, and different in each query.
#pragma once

#include "base/seeded_hash.hpp"
#include "query/query.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace treecast {

class SharedTerms {
public:
    static constexpr uint32_t terms_max = 16'384;        // further ones are evaluated for each query
    // By the term's index in the query: its number, or none. Empty where no term of the query has one.
    std::vector<uint32_t> numbers_of(const Query& query);
    uint32_t size() const { return static_cast<uint32_t>(numbers_.size()); }

private:
    TextMap<uint32_t> numbers_;                          // by key
    std::string key_;
};

}  // namespace treecast
