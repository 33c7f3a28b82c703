// Targets by number and by slot.
#include "index/targets.hpp"

#include <charconv>
#include <mutex>

namespace treecast {

void Targets::set(uint64_t number, uint64_t targets) {
    std::lock_guard lock(mutex_);
    auto found = entries_.find(number);
    if (found == entries_.end()) {
        if (targets) entries_.emplace(number, Entry{targets, unseen});
        return;
    }
    if (found->second.slot != unseen) of_slot_[found->second.slot] = targets;
    if (targets) found->second.targets = targets;
    else entries_.erase(found);
}

const std::vector<uint64_t>& Targets::of(const View& view) {
    if (view.serial != serial_) {
        serial_ = view.serial;
        of_slot_.clear();
        for (auto& [number, entry] : entries_) entry.slot = unseen;
    }
    for (auto slot = static_cast<uint32_t>(of_slot_.size()); slot < view.slots; ++slot) {
        std::string_view id = view.id(slot);
        uint64_t number = 0;
        auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), number);
        auto found = error == std::errc() && end == id.data() + id.size() ? entries_.find(number) : entries_.end();
        of_slot_.push_back(found == entries_.end() ? 0 : found->second.targets);
        if (found != entries_.end()) found->second.slot = slot;
    }
    return of_slot_;
}

}  // namespace treecast
