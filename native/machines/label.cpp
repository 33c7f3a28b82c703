// The table of labels: one number for each test that some query has. One writer adds; readers resolve the names of documents.
#include "machines/label.hpp"

#include "base/varint.hpp"

#include <mutex>
#include <shared_mutex>

namespace treecast {

LabelTable::LabelTable() : entries_(label_first) {
    entries_[label_element_any] = {StepKind::element, Test::any, 0, "", "", ""};
    entries_[label_attribute_any] = {StepKind::attribute, Test::any, 0, "", "", ""};
    entries_[label_text] = {StepKind::text, Test::any, 0, "", "", ""};
    entries_[label_comment] = {StepKind::comment, Test::any, 0, "", "", ""};
    entries_[label_instruction] = {StepKind::instruction, Test::any, 0, "", "", ""};
}

uint64_t LabelTable::hash(StepKind kind, Test test, std::string_view uri, std::string_view local, uint32_t place, std::string_view program) {
    uint64_t salt = uint64_t(place) << 5 | static_cast<uint64_t>(kind) << 2 | static_cast<uint64_t>(test);
    if (!program.empty()) salt = hash_bytes(program, salt);
    return hash_bytes(local, uri.empty() ? salt : hash_bytes(uri, salt));
}

uint32_t LabelTable::fixed(const PathStep& step) {
    if (step.kind == StepKind::text) return label_text;
    if (step.kind == StepKind::comment) return label_comment;
    if (step.test != Test::any) return none;
    if (step.kind == StepKind::instruction) return label_instruction;
    return step.kind == StepKind::element ? label_element_any : label_attribute_any;
}

uint32_t LabelTable::intern(const PathStep& step) {
    if (uint32_t label = fixed(step); label != none && step.program.empty()) return label;
    const bool is_text = step.kind == StepKind::text;
    std::string_view uri = is_text || step.test == Test::any_local || step.test == Test::any ? std::string_view() : step.uri;
    std::string_view local = is_text || step.test == Test::any_namespace || step.test == Test::any ? std::string_view() : step.local;
    const Test test = is_text ? Test::any : step.test;
    // There is one writer, and only a writer changes the table, so it may look without a lock.
    if (uint32_t known = find(step.kind, test, uri, local, step.place, step.program); known != none) return known;
    PathStep base = step;
    uint32_t above = none;
    if (!step.program.empty()) {    // documents are asked for what it derives from first,
        base.program = {};
        above = intern(base);
    } else if (step.place == first_place) {
        for (const PathStep& inner : path_of_first(step)) intern(inner);
    } else if (step.place) {        // and for names first, and then for places
        base.place = 0;
        intern(base);
    }
    std::unique_lock lock(mutex_);
    uint32_t id = static_cast<uint32_t>(entries_.size());
    slots_.reserve(1, [&](uint32_t earlier) { return hash(entries_[earlier]); });
    entries_.push_back({step.kind, test, step.place, std::string(uri), std::string(local), std::string(step.program)});
    slots_.add(hash(entries_.back()), id, [](uint32_t) { return 0; });      // there is room
    text_bytes_ += uri.size() + local.size() + step.program.size();
    if (above != none) ++entries_[above].derivations;
    ++changes_;
    return id;
}

// The path is written down in the text of the label, so that a label is the same whatever the numbers of others are.
uint32_t LabelTable::intern_first(std::span<const PathStep> path) {
    std::string text;
    for (const PathStep& step : path) {
        text.push_back(static_cast<char>(step.descendant << 4 | static_cast<int>(step.kind) << 2 | static_cast<int>(step.test)));
        for (std::string_view part : {step.uri, step.local}) {
            put_varint(text, static_cast<uint32_t>(part.size()));
            text += part;
        }
    }
    return intern({false, StepKind::element, Test::name, "", text, first_place});
}

std::vector<PathStep> LabelTable::path_of_first(const PathStep& first) {
    std::vector<PathStep> path;
    for (const char *at = first.local.data(), *end = at + first.local.size(); at < end;) {
        const int how = *at++;
        PathStep& step = path.emplace_back();
        step.descendant = how >> 4;
        step.kind = static_cast<StepKind>(how >> 2 & 3);
        step.test = static_cast<Test>(how & 3);
        for (std::string_view* part : {&step.uri, &step.local}) {
            const uint32_t size = take_varint(at);
            *part = {at, size};
            at += size;
        }
    }
    return path;
}

bool LabelTable::can_derive(const PathStep& step) const {
    PathStep plain = step;
    plain.program = {};
    uint32_t base = fixed(plain);
    if (base == none) base = find(step.kind, step.test, step.test == Test::any_local ? std::string_view() : step.uri,
                                  step.test == Test::any_namespace ? std::string_view() : step.local, step.place);
    if (base == none || entries_[base].derivations < derivations_max) return true;
    const Entry& entry = entries_[base];
    return find(entry.kind, entry.test, entry.uri, entry.local, entry.place, step.program) != none;
}

// Undoes additions. The count of changes goes up again, so that readers drop names resolved meanwhile.
void LabelTable::cut(uint32_t size) noexcept {
    if (entries_.size() == size) return;
    std::unique_lock lock(mutex_);
    for (; entries_.size() > size; entries_.pop_back()) {
        const Entry& last = entries_.back();
        slots_.remove(hash(last), static_cast<uint32_t>(entries_.size() - 1), [&](uint32_t other) { return hash(entries_[other]); });
        text_bytes_ -= last.uri.size() + last.local.size() + last.program.size();
        if (!last.program.empty()) --entries_[base_of_entry(last)].derivations;
    }
    ++changes_;
}

uint32_t LabelTable::find(StepKind kind, Test test, std::string_view uri, std::string_view local, uint32_t place, std::string_view program) const {
    uint32_t found = slots_.find(hash(kind, test, uri, local, place, program), [&](uint32_t id) {
        const Entry& entry = entries_[id];
        return entry.kind == kind && entry.test == test && entry.place == place && entry.local == local && entry.uri == uri &&
               entry.program == program;
    });
    return found == IdSlots::empty ? none : found;
}

uint32_t LabelTable::find(const PathStep& step) const {
    std::shared_lock lock(mutex_);
    std::string_view uri = step.test == Test::any_local ? std::string_view() : step.uri;
    std::string_view local = step.test == Test::any_namespace ? std::string_view() : step.local;
    return find(step.kind, step.test, uri, local, step.place);
}

// A name can fire three labels of each kind: itself, its namespace, and its local name.
NameLabels LabelTable::resolve(std::string_view uri, std::string_view local) const {
    std::shared_lock lock(mutex_);
    NameLabels labels;
    for (StepKind kind : {StepKind::element, StepKind::attribute}) {
        uint32_t* out = kind == StepKind::element ? labels.element : labels.attribute;
        out[0] = find(kind, Test::name, uri, local);
        out[1] = find(kind, Test::any_namespace, uri, "");
        out[2] = find(kind, Test::any_local, "", local);
    }
    labels.resolved_at = changes_;
    return labels;
}

uint32_t LabelTable::size() const {
    std::shared_lock lock(mutex_);
    return static_cast<uint32_t>(entries_.size());
}

uint32_t LabelTable::changes() const {
    std::shared_lock lock(mutex_);
    return changes_;
}

uint64_t LabelTable::bytes() const {
    std::shared_lock lock(mutex_);
    return entries_.size() * (sizeof(Entry) + 8) + text_bytes_;
}

PathStep LabelTable::step_of(uint32_t label) const {
    std::shared_lock lock(mutex_);
    const Entry& entry = entries_[label];
    return {false, entry.kind, entry.test, entry.uri, entry.local, entry.place, entry.program};
}

uint32_t LabelTable::name_of(uint32_t label) const {
    std::shared_lock lock(mutex_);
    const Entry& entry = entries_[label];
    return find(entry.kind, entry.test, entry.uri, entry.local);
}

uint32_t LabelTable::base_of_entry(const Entry& entry) const {
    if (entry.kind == StepKind::text) return label_text;
    if (entry.test == Test::any) return entry.kind == StepKind::element ? label_element_any : label_attribute_any;
    return find(entry.kind, entry.test, entry.uri, entry.local, entry.place);
}

uint32_t LabelTable::base_of(uint32_t label) const {
    std::shared_lock lock(mutex_);
    return base_of_entry(entries_[label]);
}

}  // namespace treecast
