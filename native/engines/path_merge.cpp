// The stages of a merge. path_merge.hpp has the theory.
#include "engines/path_merge.hpp"

#include <algorithm>

namespace treecast {

namespace {

constexpr uint32_t paths_at_once = 256;           // paths that are looked at before somebody asks whether to stop

}  // namespace

PathMerge::PathMerge(const Rows& rows, const Places& places, uint32_t sources, uint8_t home) : rows_(rows), sources_(sources), home_(home) {
    for (uint8_t p = 0; p < plain_places_max; ++p) {
        if (!(sources >> p & 1)) continue;
        from_[p] = places[p];
        first_[p] = static_cast<uint32_t>(count_);
        count_ += places[p]->accepts();
        entries_ += places[p]->accepts() + places[p]->states();          // a trie of all has no more than theirs together
    }
    numbers_.reserve(count_);
    work_ = build();
}

void PathMerge::labels(uint32_t path, std::vector<uint32_t>& labels) const {
    labels.clear();
    plain_labels(rows_.keys[numbers_[path]], labels);
}

void PathMerge::advance(uint64_t units, const Array<uint32_t>& deaths) {
    if (stage_ == Stage::ready || stage_ == Stage::done) return;
    deaths_ = &deaths;
    if (stage_ == Stage::moving && moved_ == 0) work_ = move_paths(), moved_ = 1;
    if (work_.advance(pace_, units)) stage_ = stage_ == Stage::moving ? Stage::done : Stage::ready;
}

SlicedWork PathMerge::build() {
    for (uint8_t p = 0; p < plain_places_max; ++p) {
        if (!from_[p]) continue;
        const Array<uint32_t>& paths = from_[p]->path_of;
        for (size_t i = 0; i < paths.size();) {
            for (size_t end = std::min<size_t>(paths.size(), i + paths_at_once); i < end; ++i) numbers_.push_back(paths[i]);
            co_await pace_.spend(paths_at_once);
        }
        from_[p] = nullptr;
    }
    builder_.reset(new MachineBuilder(*this, rows_.labels));
    co_await builder_->build(pace_);
    auto place = std::make_shared<MachinePlace>();
    place->machine = builder_->machine();
    place->path_of.reserve(count_), place->slot_of.reserve(count_);
    place->clear_marks(count_);
    for (size_t i = 0; i < count_;) {
        const size_t end = std::min<size_t>(count_, i + 16 * paths_at_once);
        place->path_of.resize(end, none), place->slot_of.resize(end, none);
        i = end;
        co_await pace_.spend(4 * paths_at_once);
    }
    accept_of_ = std::move(builder_->accept_of());
    builder_ = nullptr;
    place_ = std::move(place);
    stage_ = Stage::filling;
    for (uint32_t at = 0; at < count_;) {
        for (uint32_t end = std::min<uint32_t>(static_cast<uint32_t>(count_), at + paths_at_once); at < end; ++at) fill(at, *deaths_);
        co_await pace_.spend(8 * paths_at_once);
    }
}

// A path with exactly one live, plain subscription leads straight to its slot. All others need their chain.
void PathMerge::fill(uint32_t at, const Array<uint32_t>& deaths) noexcept {
    const uint32_t path = numbers_[at], accept = accept_of_[at], head = rows_.heads[path];
    place_->path_of[accept] = path;
    if (head != none && !(head & extra_bit) && deaths[head] == 0 && rows_.next[head] == none)
        place_->slot_of[accept] = head;
    else
        place_->mark(accept);
}

void PathMerge::mark(uint8_t place, uint32_t accept) noexcept {
    if (place >= plain_places_max || !(sources_ >> place & 1) || !place_) return;
    place_->mark(accept_of_[first_[place] + accept]);
}

void PathMerge::move(uint32_t at) noexcept {
    rows_.accept_of[numbers_[at]] = accept_of_[at];
    rows_.place_of[numbers_[at]] = home_;
}

SlicedWork PathMerge::move_paths() {
    for (uint32_t at = 0; at < count_;) {
        for (uint32_t end = std::min<uint32_t>(static_cast<uint32_t>(count_), at + paths_at_once); at < end; ++at) move(at);
        co_await pace_.spend(4 * paths_at_once);
    }
}

// Without what could fail: some are told twice.
void PathMerge::end_moving() noexcept {
    for (uint32_t at = 0; at < count_; ++at) move(at);
    stage_ = Stage::done;
}

}  // namespace treecast
