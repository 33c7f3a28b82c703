// A Matcher lent by an Index, given back at the end of the block. Private to the files of Index.
#pragma once

#include "index.hpp"

#include <memory>
#include <utility>

namespace treecast {

class Index::Lease {
public:
    explicit Lease(Index& index) : index_(index), matcher_(index.borrow()) {}
    ~Lease() { index_.give_back(std::move(matcher_)); }
    Matcher* operator->() { return matcher_.get(); }
    Matcher& operator*() const { return *matcher_; }

private:
    Index& index_;
    std::unique_ptr<Matcher> matcher_;
};

}  // namespace treecast
