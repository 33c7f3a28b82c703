#include "label.hpp"

#include <mutex>

namespace treecast {

LabelTable::LabelTable() : entries_(label_first) {
    entries_[label_element_any] = {StepKind::element, Test::any, "", ""};
    entries_[label_attribute_any] = {StepKind::attribute, Test::any, "", ""};
    entries_[label_text] = {StepKind::text, Test::any, "", ""};
}

std::string LabelTable::key(StepKind kind, Test test, std::string_view uri, std::string_view local) {
    std::string k;
    k.reserve(3 + uri.size() + local.size());
    k.push_back(static_cast<char>(kind));
    k.push_back(static_cast<char>(test));
    k.append(local);
    k.push_back('\0');   // never part of a name or URI
    k.append(uri);
    return k;
}

uint32_t LabelTable::intern(const PathStep& step) {
    if (step.kind == StepKind::text) return label_text;
    if (step.test == Test::any) return step.kind == StepKind::element ? label_element_any : label_attribute_any;
    std::string_view uri = step.test == Test::any_local ? std::string_view() : step.uri;
    std::string_view local = step.test == Test::any_namespace ? std::string_view() : step.local;
    std::string k = key(step.kind, step.test, uri, local);
    {
        std::shared_lock lock(mutex_);
        if (auto found = ids_.find(k); found != ids_.end()) return found->second;
    }
    std::unique_lock lock(mutex_);
    uint32_t id = static_cast<uint32_t>(entries_.size());
    text_bytes_ += k.size();
    ids_.emplace(std::move(k), id);
    entries_.push_back({step.kind, step.test, std::string(uri), std::string(local)});
    return id;
}

uint32_t LabelTable::find(StepKind kind, Test test, std::string_view uri, std::string_view local) const {
    auto found = ids_.find(key(kind, test, uri, local));
    return found == ids_.end() ? none : found->second;
}

NameLabels LabelTable::resolve(std::string_view uri, std::string_view local) const {
    std::shared_lock lock(mutex_);
    NameLabels labels;
    for (StepKind kind : {StepKind::element, StepKind::attribute}) {
        uint32_t* out = kind == StepKind::element ? labels.element : labels.attribute;
        out[0] = find(kind, Test::name, uri, local);
        out[1] = find(kind, Test::any_namespace, uri, "");
        out[2] = find(kind, Test::any_local, "", local);
    }
    labels.resolved_at = static_cast<uint32_t>(entries_.size());
    return labels;
}

uint32_t LabelTable::size() const {
    std::shared_lock lock(mutex_);
    return static_cast<uint32_t>(entries_.size());
}

uint64_t LabelTable::bytes() const {
    std::shared_lock lock(mutex_);
    return entries_.size() * sizeof(Entry) + ids_.size() * 72 + 2 * text_bytes_;
}

PathStep LabelTable::step_of(uint32_t label) const {
    std::shared_lock lock(mutex_);
    const Entry& entry = entries_[label];
    return {false, entry.kind, entry.test, entry.uri, entry.local};
}

}  // namespace treecast
