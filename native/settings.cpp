#include "settings.hpp"

namespace treecast {

uint64_t SettingsTable::hash(const Settings& settings) {
    uint64_t hash = settings.deliver * 2u + settings.ordered;
    for (const auto& [prefix, uri] : settings.bindings) hash = hash_bytes(uri, hash_bytes(prefix, hash));
    return hash_words(hash_seeds(), hash, settings.bindings.size());
}

uint64_t SettingsTable::bytes_of(const Settings& settings) {
    uint64_t bytes = sizeof settings + settings.bindings.size() * sizeof settings.bindings[0];
    for (const auto& [prefix, uri] : settings.bindings) bytes += prefix.size() + uri.size();
    return bytes;
}

uint32_t SettingsTable::intern(const Settings& settings) {
    uint32_t known = slots_.find(hash(settings), [&](uint32_t number) { return (*this)[number] == settings; });
    return known == IdSlots::empty ? append(settings) : known;
}

uint32_t SettingsTable::append(const Settings& settings) {
    uint32_t block = std::bit_width(size_ / first_block);
    if (!blocks_[block]) blocks_[block] = std::make_unique<Settings[]>(block ? begin_of(block) : first_block);
    slots_.reserve(1, [&](uint32_t earlier) { return hash((*this)[earlier]); });
    blocks_[block][size_ - begin_of(block)] = settings;
    slots_.add(hash(settings), size_, [](uint32_t) { return 0; });      // there is room
    bytes_ += bytes_of(settings);
    return size_++;
}

void SettingsTable::cut(uint32_t size) noexcept {
    while (size_ > size) {
        --size_;
        uint32_t block = std::bit_width(size_ / first_block);
        Settings& last = blocks_[block][size_ - begin_of(block)];
        slots_.remove(hash(last), size_, [&](uint32_t number) { return hash((*this)[number]); });
        bytes_ -= bytes_of(last);
        last = {};
        if (size_ == begin_of(block)) blocks_[block] = nullptr;
    }
}

}  // namespace treecast
