// One step of a list, as edits to the source: drop, keep and unwrap. Renaming is in restructure_names.cpp.
//
// Steps work on bytes, not on a new tree: most of a document stays as it is and is copied in large pieces.
#include "render/restructure_step.hpp"

#include "render/copy.hpp"

#include <algorithm>

namespace treecast {

// Nothing selected: keep leaves nothing, and all others leave everything.
bool RestructureStep::apply(const Transformation& list, const Change& change, const Document& document,
                            const Items& items, uint64_t size_max, std::string& out) {
    document_ = &document;
    change_ = &change;
    size_max_ = size_max;
    edits_.clear();
    if (items.empty() && change.kind == ChangeKind::keep) return true;
    bool fits = true;
    switch (items.empty() ? ChangeKind::drop : change.kind) {
        case ChangeKind::drop: drop(items); break;
        case ChangeKind::keep: keep(items); break;
        case ChangeKind::rename: fits = rename(list, change, items); break;
        case ChangeKind::unwrap: fits = unwrap(items); break;
    }
    return fits && edits_.apply(document.source, document.start[0], document.end[0], size_max, out);
}

// Attributes of one element come together, so its tag is read once.
void RestructureStep::drop(const Items& items) {
    uint32_t tagged = none;                      // the element whose tag is in parts_
    for (Evaluator::Item item : items) {
        if (item.kind == StepKind::element) {
            edits_.remove(document_->start[item.index], document_->end[item.index]);
        } else if (item.kind == StepKind::attribute) {
            uint32_t owner = owner_of(*document_, item.index);
            if (owner != tagged) {
                read_start_tag(*document_, owner, parts_);
                std::erase_if(parts_, [](const TagPart& part) { return part.declares; });
                tagged = owner;
            }
            const TagPart& part = parts_[item.index - document_->attribute_begin[owner]];
            edits_.remove(part.begin, part.end);
        }
    }
    place_items(items);
    for (const TextPlace& place : places_) edits_.remove(place.begin, place.end);
}

// What stays is a list of ranges: the items, and the tags of the elements around them. The rest is removed.
void RestructureStep::keep(const Items& items) {
    const Document& d = *document_;
    kept_.clear();
    element_marks_.assign(d.elements(), 0);
    for (Evaluator::Item item : items) {
        uint32_t around = none;
        switch (item.kind) {
            case StepKind::element:
                kept_.emplace_back(d.start[item.index], d.end[item.index]);
                around = d.parent[item.index];
                break;
            case StepKind::attribute: around = owner_of(d, item.index); break;
            case StepKind::text: around = d.text_parent[item.index]; break;
            case StepKind::comment:
            case StepKind::instruction: break;           // refused when the query was added
        }
        // Stops at the first marked ancestor: those above it are marked already.
        for (; around != none && !element_marks_[around]; around = d.parent[around]) {
            element_marks_[around] = 1;
            kept_.emplace_back(d.start[around], d.content[around]);
            if (has_end_tag(d, around)) kept_.emplace_back(end_tag_of(d, around), d.end[around]);
        }
    }
    place_items(items);
    for (const TextPlace& place : places_) kept_.emplace_back(place.begin, place.end);
    // If two ranges begin together, the longer comes first: it is an item, the other its start tag.
    std::sort(kept_.begin(), kept_.end(),
              [](auto a, auto b) { return a.first != b.first ? a.first < b.first : a.second > b.second; });
    uint32_t at = d.start[0];
    for (auto [begin, end] : kept_) {
        if (begin < at) continue;
        if (begin > at) edits_.remove(at, begin);
        at = end;
    }
}

// The root cannot be unwrapped: the result would not be one tree.
bool RestructureStep::unwrap(const Items& items) {
    const Document& d = *document_;
    element_marks_.assign(d.elements(), 0);
    for (Evaluator::Item item : items) {
        if (item.kind != StepKind::element || item.index == 0) continue;
        element_marks_[item.index] = 1;
        edits_.remove(d.start[item.index], d.content[item.index]);
        if (has_end_tag(d, item.index)) edits_.remove(end_tag_of(d, item.index), d.end[item.index]);
    }
    marked_ = Fate::unwrapped;
    attribute_marks_.clear();
    // Only if an unwrapped element declares namespaces must its descendants be visited.
    for (size_t i = 0; i < d.declarations.size(); ++i)
        if (element_marks_[d.declarations[i].element]) return walk();
    return true;
}

// Marks make sure that the texts of one parent are searched only once.
void RestructureStep::place_items(const Items& items) {
    const Document& d = *document_;
    places_.clear();
    auto is_text = [](Evaluator::Item item) { return item.kind == StepKind::text; };
    if (std::none_of(items.begin(), items.end(), is_text)) return;
    text_marks_.assign(d.text.size(), 0);
    for (Evaluator::Item item : items)
        if (is_text(item)) text_marks_[item.index] = 1;
    for (Evaluator::Item item : items) {
        if (!is_text(item) || !text_marks_[item.index]) continue;
        place_texts(d, d.text_parent[item.index], child_texts_);
        for (const TextPlace& place : child_texts_)
            if (std::exchange(text_marks_[place.text], 0)) places_.push_back(place);
    }
}

}  // namespace treecast
