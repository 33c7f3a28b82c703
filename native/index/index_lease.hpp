// A Matcher lent by an Index, given back at the end of the block. Private to the files of Index.
//
// A Matcher that ran out of memory may be in any state. So keep() must be called once all went well, or if only a Failure that is
// meant as a refusal was thrown. Without keep() the Matcher is destroyed.
#pragma once

#include "index/index.hpp"

#include <memory>
#include <utility>

namespace treecast {

class Index::Lease {
public:
    explicit Lease(Index& index) : index_(index), matcher_(index.borrow()) {}
    ~Lease() {
        if (kept_) index_.give_back(std::move(matcher_));
    }
    Matcher* operator->() { return matcher_.get(); }
    Matcher& operator*() const { return *matcher_; }
    void keep() { kept_ = true; }

private:
    Index& index_;
    std::unique_ptr<Matcher> matcher_;
    bool kept_ = false;
};

}  // namespace treecast
