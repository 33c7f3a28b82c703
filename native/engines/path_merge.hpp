// Some machines of plain paths become one, in slices, while changes and matches go on.
//
// Theory of operation. A merge goes through four stages, and no call waits for more than a slice of one:
//   - building: a new machine from the paths of all sources. Nobody sees it. Sources stay in force, and nothing else merges them.
//   - filling: what its accept ids lead to, as it is now. From here on, an accept id of a source that becomes dirty makes its
//     counterpart dirty too. So what has been filled in stays true.
//   - publishing: with the next change the new machine takes the place of the sources. That is one exchange of pointers.
//   - moving: the paths are told one by one where they live. Until then, where a path lived in a source says where it lives now.
//
// Paths that nobody wants any more come along; they are left out where few paths are merged, and where slots are renumbered.
#pragma once

#include "base/packed_rows.hpp"
#include "base/sliced_work.hpp"
#include "engines/lazydfa.hpp"
#include "machines/machine_builder.hpp"
#include "machines/path_key.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace treecast {

// Paths by their numbers, from their keys.
class KeySource final : public PathSource {
public:
    KeySource(const PackedRows& keys, std::span<const uint32_t> numbers) : keys_(keys), numbers_(numbers) {}
    uint32_t paths() const override { return static_cast<uint32_t>(numbers_.size()); }
    void labels(uint32_t path, std::vector<uint32_t>& labels) const override {
        labels.clear();
        plain_labels(keys_[numbers_[path]], labels);
    }

private:
    const PackedRows& keys_;
    std::span<const uint32_t> numbers_;
};

class PathMerge final : private PathSource {
public:
    // What it needs of the engine; all of it stays where it is as long as the merge.
    struct Rows {
        const PackedRows& keys;
        const LabelTable& labels;
        Array<uint32_t>&heads, &next, &accept_of;
        Array<uint8_t>& place_of;
    };
    PathMerge(const Rows& rows, const Places& places, uint32_t sources, uint8_t home);

    // One slice. `deaths`: by slot, as Subscriptions have them.
    void advance(uint64_t units, const Array<uint32_t>& deaths);
    void end_moving() noexcept;                              // all that is left of it
    bool is_ready() const { return stage_ == Stage::ready; }
    bool is_published() const { return stage_ >= Stage::moving; }
    bool is_done() const { return stage_ == Stage::done; }
    void publish() noexcept { stage_ = Stage::moving; }
    // An accept id of a place became dirty: so does what it is or will be here.
    void mark(uint8_t place, uint32_t accept) noexcept;

    uint32_t sources() const { return sources_; }            // places, as bits
    uint8_t home() const { return home_; }
    const std::shared_ptr<MachinePlace>& place() const { return place_; }
    uint64_t bytes() const { return numbers_.capacity() * 4 + (place_ ? place_->bytes() : 0); }

private:
    enum class Stage : uint8_t { building, filling, ready, moving, done };
    uint32_t paths() const override { return static_cast<uint32_t>(numbers_.size()); }
    void labels(uint32_t path, std::vector<uint32_t>& labels) const override;
    size_t entries_expected() const override { return entries_; }
    SlicedWork build();
    SlicedWork move_paths();
    void fill(uint32_t at, const Array<uint32_t>& deaths) noexcept;
    void move(uint32_t at) noexcept;

    const Rows rows_;
    const uint32_t sources_;
    const uint8_t home_;
    std::array<std::shared_ptr<MachinePlace>, plain_places_max> from_;
    std::array<uint32_t, plain_places_max> first_{};         // by source: where its paths begin in numbers_
    size_t entries_ = 0, count_ = 0;
    std::vector<uint32_t> numbers_;                          // of the paths, by source and accept id there
    Pace pace_;
    std::unique_ptr<MachineBuilder> builder_;
    std::vector<uint32_t> accept_of_;                        // parallel to numbers_, once it is built
    std::shared_ptr<MachinePlace> place_;
    const Array<uint32_t>* deaths_ = nullptr;                // during a slice
    SlicedWork work_;
    uint32_t moved_ = 0;
    Stage stage_ = Stage::building;
};

}  // namespace treecast
