// Comments and processing instructions, for TreeRun: children of their parents like texts, with a label and a value.
//
// Only machines that ask for them look for them, and only in documents that have some (document/marks.hpp).
#include "machines/tree_run.hpp"

#include <algorithm>

namespace treecast {

void TreeRun::start_marks(const Document& document) {
    MarkRun& run = *marks_;
    run.next = 0;
    run.children.clear();
    run.marks.find(document);
    for (uint32_t mark = 0; mark < run.marks.size(); ++mark) run.children.push_back({run.marks[mark].parent + 1, mark});
    std::ranges::stable_sort(run.children, {}, &MarkRun::Child::parent);
    while (run.next < run.children.size() && run.children[run.next].parent == 0) ++run.next;
}

std::span<const TreeRun::MarkRun::Child> TreeRun::marks_of(uint32_t element) const {
    const std::vector<MarkRun::Child>& all = marks_->children;
    return {std::ranges::lower_bound(all, element + 1, {}, &MarkRun::Child::parent),
            std::ranges::upper_bound(all, element + 1, {}, &MarkRun::Child::parent)};
}

// Something may hold at an element because of its comments alone.
bool TreeRun::has_marks_at(uint32_t element) {
    if (!marks_ || marks_->next == marks_->children.size()) return false;
    size_t& next = marks_->next;
    while (next < marks_->children.size() && marks_->children[next].parent <= element) ++next;
    return next < marks_->children.size() && marks_->children[next].parent == element + 1;
}

// Texts are counted at any depth, but one that is no child is in an element that is.
bool TreeRun::has_content(uint32_t element) const {
    return document_->size[element] > 1 || document_->text_begin[element] != document_->text_end[element] || !marks_of(element).empty();
}

// Neighbours often have the same target. What it means to a machine never changes.
const TreeRun::Locals& TreeRun::target_labels(uint32_t mark, NameResolver& names) {
    const std::string_view target = marks_->marks.target(mark);
    if (marks_->target.count == none || target != marks_->last_target) {
        uint32_t nothing[3] = {none, none, none};
        marks_->target = localize(nothing, names.target_label(target));
        marks_->last_target = target;
    }
    return marks_->target;
}

}  // namespace treecast
