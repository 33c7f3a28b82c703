// Numbers that are given back and used again, so that arrays indexed by them stay dense.
#pragma once

#include <cstdint>
#include <vector>

namespace treecast {

class RecycledIds {
public:
    uint32_t take() {
        if (vacant_.empty()) return count_++;
        uint32_t number = vacant_.back();
        vacant_.pop_back();
        return number;
    }
    void give_back(uint32_t number) { vacant_.push_back(number); }
    uint32_t size() const { return count_; }             // all numbers are below

private:
    std::vector<uint32_t> vacant_;
    uint32_t count_ = 0;
};

}  // namespace treecast
