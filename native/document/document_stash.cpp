#include "document/document_stash.hpp"

#include "base/fork.hpp"

#include <algorithm>
#include <mutex>

namespace treecast {

namespace {

// Of memory that waits for the next documents: 40 MB at most, and mostly a tenth of it.
constexpr size_t spare_places_max = 128;
constexpr size_t place_bytes_max = 64u << 10, place_elements_max = 4096;       // larger ones are given back

struct PlacePool {
    MomentaryMutex mutex;
    std::vector<std::unique_ptr<DocumentStash::Place>> places;
    PlacePool() { places.reserve(spare_places_max); }
};

// Never destroyed, as the pool of readers is not.
PlacePool& place_pool() {
    static auto* pool = new PlacePool;
    return *pool;
}

bool is_small(const DocumentStash::Place& place) {
    const Document& d = place.document;
    return place.text.capacity() <= place_bytes_max && d.decoded.capacity() <= place_bytes_max &&
           std::max({d.name.capacity(), d.attribute_name.capacity(), d.text.capacity()}) <= place_elements_max;
}

std::unique_ptr<DocumentStash::Place> spare_place() {
    PlacePool& pool = place_pool();
    std::lock_guard lock(pool.mutex);
    if (pool.places.empty()) return nullptr;
    auto place = std::move(pool.places.back());
    pool.places.pop_back();
    return place;
}

}  // namespace

DocumentStash::~DocumentStash() {
    PlacePool& pool = place_pool();
    std::lock_guard lock(pool.mutex);
    for (auto& place : places_)
        if (place && is_small(*place) && pool.places.size() < spare_places_max) pool.places.push_back(std::move(place));
}

void DocumentStash::add(size_t number, KeptReader& reader, const Document& read) {
    if (read.source.data() != read.original.data()) return;        // transcoded, into memory of the reader
    const uint64_t generation = read.names->generation();
    if (generation_ != generation) places_.clear();                // their names are gone
    generation_ = generation;
    auto place = spare_place();
    if (!place) place = std::make_unique<Place>();
    reader.exchange(place->document, place->text);
    if (places_.size() <= number) places_.resize(number + 1);
    places_[number] = std::move(place);
}

const Document* DocumentStash::find(size_t number, const NameTable& names) const {
    if (number >= places_.size() || !places_[number] || names.generation() != generation_) return nullptr;
    return &places_[number]->document;
}

}  // namespace treecast
