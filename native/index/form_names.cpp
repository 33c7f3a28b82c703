// Names of forms, each with how many places speak of it: forms come and go with subscriptions.
#include "index/form_names.hpp"

namespace treecast {

uint32_t FormNames::take(std::string_view uri, std::string_view local) {
    if (local.empty()) return any;
    auto found = known_.find(std::pair(uri, local));
    if (found == known_.end()) {
        if (free_.empty()) {
            free_.push_back(static_cast<uint32_t>(uses_.size()));
            uses_.emplace_back();
        }
        found = known_.emplace(std::pair(std::string(uri), std::string(local)), free_.back()).first;
        uses_[free_.back()] = {0, found};
        free_.pop_back();
        numbers_.clear();                                   // it was strange
    }
    ++uses_[found->second].places;
    return found->second;
}

void FormNames::leave(uint32_t number) {
    if (number == any || --uses_[number].places) return;
    free_.push_back(number);
    known_.erase(uses_[number].name);
    numbers_.clear();
}

uint32_t FormNames::look_up(uint32_t name) {
    if (name >= numbers_.size()) numbers_.resize(name + 1 + name / 2);
    auto found = known_.find(std::pair(names_->uri(name), names_->local(name)));
    return numbers_[name] = found == known_.end() ? strange : found->second;
}

}  // namespace treecast
