// Saves and loads the machines. See base/snapshot.hpp for the file.
//
// One function, visit_parts(), lists all parts for both directions, so that they cannot disagree.
#include "base/snapshot_text.hpp"
#include "engines/lazydfa.hpp"
#include "machines/path_key.hpp"
#include "query/derivation.hpp"

namespace treecast {

namespace {

// Fixed labels are the same in every table, so only the others are written, in the order of their numbers.
Array<char> write_labels(const LabelTable& table) {
    std::string out;
    for (uint32_t label = label_first; label < table.size(); ++label) {
        PathStep step = table.step_of(label);
        put_varint(out, static_cast<uint32_t>(step.kind));
        put_varint(out, static_cast<uint32_t>(step.test));
        put_varint(out, step.place);
        put_text(out, step.uri);
        put_text(out, step.local);
        put_text(out, step.program);
    }
    return to_array(out);
}

// Interning in the same order gives the same numbers.
void read_labels(const Array<char>& bytes, LabelTable& table) {
    for (SnapshotText text(bytes); !text.is_done();) {
        PathStep step;
        step.kind = static_cast<StepKind>(text.number());
        step.test = static_cast<Test>(text.number());
        step.place = text.number();
        step.uri = text.text();
        step.local = text.text();
        step.program = text.text();
        if (!Derivation::is_valid(step.program)) SnapshotReader::damaged();
        table.intern(step);
    }
}

}  // namespace

// All sections from the eleventh on, and all plain values, in the order of the file. The order is part of the format.
template <class Visit>
void LazyDfaEngine::visit_parts(Paths& paths, Array<char>& labels, Array<uint32_t>& delta, Array<uint32_t>& path_table,
                                const StoreParts& store, Visit& visit) {
    visit(labels), visit(delta), visit(paths.next), visit(paths.needs_recheck), visit(paths.slot_paths), visit(paths.lists);
    visit(store.id_table);
    visit(paths.extras), paths.keys.parts(visit), visit(paths.heads), visit(paths.accept_of);
    visit(paths.place_of), visit(path_table);
    visit(store.tombs), visit(store.live), visit(store.version), visit(store.seeds);
    for (auto& place : paths.places) {
        uint8_t kind = !place ? 0 : place->machine ? 1 : 2;
        visit(kind);
        if (kind == 0) continue;
        if (!place) place = std::make_shared<MachinePlace>();
        // Only its maker changes a machine. Here it is being written, or filled for the first time.
        if (kind == 1) {
            if (!place->machine) place->machine = std::make_shared<Machine>();
            const_cast<Machine&>(*place->machine).parts(visit);
        } else {
            if (!place->tree) place->tree = std::make_shared<TreeMachine>();
            const_cast<TreeMachine&>(*place->tree).parts(visit);
        }
        visit(place->path_of), visit(place->slot_of), visit(place->dirty);
    }
}

// The digest covers labels and paths: what the machines mean, not how they happen to be laid out.
void LazyDfaEngine::add_to(Digest& digest) const {
    digest.add_array(write_labels(*paths_->labels));
    paths_->keys.parts([&](const auto& array) { digest.add_array(array); });
}

void LazyDfaEngine::save(SnapshotWriter& writer, const StoreParts& store) const {
    end_moves(*paths_);          // a file says where every path lives
    Array<char> labels = write_labels(*paths_->labels);
    Array<uint32_t> delta = paths_->delta->paths(), path_table = paths_->lay_out_table(store.seeds);
    visit_parts(*paths_, labels, delta, path_table, store, writer);
}

// Arrays are mapped, not copied. Only the labels and the delta, which are small, are rebuilt.
bool LazyDfaEngine::load(SnapshotReader& reader, const StoreParts& store, uint32_t slots) {
    auto paths = std::make_unique<Paths>(seeds_);
    Array<char> labels;
    Array<uint32_t> delta_paths;
    visit_parts(*paths, labels, delta_paths, paths->path_table, store, reader);
    paths->seeds = store.seeds;
    size_t count = paths->heads.size();
    if (paths->slot_paths.size() != slots || paths->needs_recheck.size() != slots || paths->next.size() != slots ||
        !paths->keys.set_size(static_cast<uint32_t>(count)))
        SnapshotReader::damaged();
    paths->loaded = static_cast<uint32_t>(count);
    for (const auto& place : paths->places)
        if (place) place->vacant.assign(place->dirty.size(), 0);
    read_labels(labels, *paths->labels);
    auto delta = std::make_shared<Delta>();
    std::vector<uint32_t> one;
    for (uint32_t path : delta_paths) {
        if (path >= count) SnapshotReader::damaged();
        one.clear();
        plain_labels(paths->key(path), one);
        const uint32_t bit = delta->add(path, one, *paths->labels);
        if (bit == none) SnapshotReader::damaged();
        if (paths->accept_of[path] != bit) paths->accept_of[path] = bit;         // a file may be of before there were any
    }
    paths->delta = std::move(delta);
    next_paths_ = std::move(paths);
    return true;
}

}  // namespace treecast
