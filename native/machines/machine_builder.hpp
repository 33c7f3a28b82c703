// Builds a Machine from its paths: trie, order by reversed path, blocks, records. In slices, where somebody has other things to do.
#pragma once

#include "base/id_slots.hpp"
#include "base/large_pages.hpp"
#include "base/seeded_hash.hpp"
#include "base/sliced_work.hpp"
#include "machines/machine.hpp"
#include "machines/order.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace treecast {

// The paths of a machine that is to be built, which are distinct. They may lie elsewhere with every slice, but stay the same.
class PathSource {
public:
    virtual uint32_t paths() const = 0;
    // Sets `labels` to those of a path; empty: this one is left out.
    virtual void labels(uint32_t path, std::vector<uint32_t>& labels) const = 0;
    virtual size_t entries_expected() const { return 2 * size_t(paths()); }         // of the trie, at most, where somebody knows

protected:
    ~PathSource() = default;
};

class MachineBuilder {
public:
    MachineBuilder(const PathSource& source, const LabelTable& table) : source_(source), table_(table) {}
    MachineBuilder(const MachineBuilder&) = delete;
    // All of it; once only. Afterwards machine() is there, and accept_of() has the accept id of each path, none for those left out.
    SlicedWork build(Pace& pace);
    const std::shared_ptr<Machine>& machine() const { return machine_; }
    std::vector<uint32_t>& accept_of() { return accept_of_; }

private:
    uint64_t hash(uint32_t parent, uint32_t label) const { return hash_words(seeds_, parent, label); }
    uint32_t add(uint32_t parent, uint32_t label);
    uint32_t child(uint32_t parent, uint32_t label);
    void enlarge_slots();
    SlicedWork grow_trie(Pace& pace);
    SlicedWork order_states(Pace& pace);
    SlicedWork number_accepts(Pace& pace);
    SlicedWork fill_words(Pace& pace);
    SlicedWork fill_records(Pace& pace);

    const PathSource& source_;
    const LabelTable& table_;
    std::shared_ptr<Machine> machine_ = std::make_shared<Machine>();
    std::vector<uint32_t> accept_of_;
    // The trie. Entry 0 is the root; `path_` is the path that ends here, or none.
    std::vector<uint32_t> parent_, label_, path_;
    std::vector<uint8_t> inner_;                                // has children
    std::vector<uint32_t, LargePages<uint32_t>> slots_;         // entries by parent and label, for probe()
    const HashSeeds seeds_ = hash_seeds();
    std::vector<uint32_t> position_;                            // of inner entries, in the machine
    std::vector<Keyed> ends_;                                   // ends of paths by (label, parent position)
    std::vector<uint32_t> children_;                            // inner entries by position, without root
};

// All of it at once.
std::shared_ptr<Machine> build_machine(const PathSource& source, const LabelTable& table, std::vector<uint32_t>& accept_of);
std::shared_ptr<Machine> build_machine(std::span<const Labels> paths, const LabelTable& table, std::vector<uint32_t>& accept_of);

}  // namespace treecast
