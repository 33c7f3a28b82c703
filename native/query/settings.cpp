// The table of settings: a hash index over entries in blocks that never move. See settings.hpp for how readers use it.
#include "query/settings.hpp"

namespace treecast {

// Bindings are hashed in their order; the same bindings in another order are stored twice, which is harmless.
uint64_t SettingsTable::hash(const Settings& settings) {
    uint64_t hash = settings.deliver * 2u + settings.ordered;
    for (const auto& [prefix, uri] : settings.bindings) hash = hash_bytes(uri, hash_bytes(prefix, hash));
    return hash_words(hash_seeds(), hash, settings.bindings.size());
}

uint64_t SettingsTable::bytes_of(const Settings& settings) {
    uint64_t bytes = sizeof(Entry) + settings.bindings.size() * sizeof settings.bindings[0];
    for (const auto& [prefix, uri] : settings.bindings) bytes += prefix.size() + uri.size();
    return bytes;
}

// Nearly all subscriptions share a few settings, so this normally finds them.
uint32_t SettingsTable::intern(const Settings& settings) {
    uint64_t wanted = hash(settings);
    uint32_t known = slots_.find(wanted, [&](uint32_t number) {
        const Entry& there = entry(number);
        return there.hash == wanted && there.settings == settings;
    });
    return known == IdSlots::empty ? append(settings, wanted) : known;
}

uint32_t SettingsTable::append(const Settings& settings) { return append(settings, hash(settings)); }

// Everything that can throw comes before the entry is counted: a failed append changes nothing.
uint32_t SettingsTable::append(const Settings& settings, uint64_t hash) {
    uint32_t block = std::bit_width(size_ / first_block);
    if (!blocks_[block]) blocks_[block] = std::make_unique<Entry[]>(block ? begin_of(block) : first_block);
    auto hash_of = [&](uint32_t number) { return entry(number).hash; };
    slots_.reserve(1, hash_of);
    entry(size_) = {settings, hash};
    slots_.add(hash, size_, hash_of);        // there is room
    bytes_ += bytes_of(settings);
    return size_++;
}

// Undoes appends, for example after a change that failed. It must not throw, since it runs during recovery.
void SettingsTable::cut(uint32_t size) noexcept {
    while (size_ > size) {
        Entry& last = entry(--size_);
        slots_.remove(last.hash, size_, [&](uint32_t number) { return entry(number).hash; });
        bytes_ -= bytes_of(last.settings);
        last = {};
        uint32_t block = std::bit_width(size_ / first_block);
        if (size_ == begin_of(block)) blocks_[block] = nullptr;
    }
}

}  // namespace treecast
