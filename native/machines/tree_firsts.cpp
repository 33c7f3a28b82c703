// First items of paths, for TreeRun: what `contains(b/c, "x")` is about. first_paths.hpp has the theory.
#include "machines/tree_run.hpp"

#include <algorithm>

namespace treecast {

namespace {

template <class F>
void each_label(const uint32_t (&labels)[3], uint32_t any, F&& f) {
    f(any);
    for (uint32_t label : labels)
        if (label != none) f(label);
}

}  // namespace

// For each descendant label, the elements that have it. Made where some element asks for them.
void TreeRun::list_descendants(NameResolver& names) {
    Firsts& firsts = *firsts_;
    if (firsts.listed_run == run_) return;
    firsts.listed_run = run_;
    const Array<uint32_t>& labels = machine_->first_paths().descendants();
    firsts.descendants.resize(labels.size());
    for (std::vector<uint32_t>& list : firsts.descendants) list.clear();
    for (uint32_t i = 0; i < document_->elements(); ++i)
        each_label(names.labels(document_->name[i]).element, label_element_any, [&](uint32_t label) {
            auto at = std::lower_bound(labels.begin(), labels.end(), label);
            if (at != labels.end() && *at == label) firsts.descendants[at - labels.begin()].push_back(i);
        });
}

// Of each path only the first item counts; items are met in document order.
void TreeRun::meet_first(const FirstPaths::Step& step, StepKind kind, uint32_t index) {
    if (step.first == none || firsts_->met[step.first] == firsts_->stamp) return;
    firsts_->met[step.first] = firsts_->stamp;
    firsts_->items.push_back({step.first, kind, index});
}

void TreeRun::find_firsts(uint32_t element, const Locals& labels, NameResolver& names) {
    firsts_->items.clear();
    ++firsts_->stamp;
    for (uint32_t label : labels)
        if (auto steps = machine_->first_paths().steps(label); !steps.empty()) walk_firsts(element, steps, names);
}

void TreeRun::walk_firsts(uint32_t element, std::span<const FirstPaths::Step> steps, NameResolver& names) {
    const Document& document = *document_;
    const FirstPaths& paths = machine_->first_paths();
    const uint32_t end = element + document.size[element];
    if (steps[0].kind == FirstPaths::child)
        for (uint32_t child = element + 1; child < end; child += document.size[child])
            each_label(names.labels(document.name[child]).element, label_element_any, [&](uint32_t label) {
                const FirstPaths::Step* step = FirstPaths::find(steps, FirstPaths::child, label);
                if (!step) return;
                meet_first(*step, StepKind::element, child);
                if (step->begin != step->end) walk_firsts(child, paths.after(*step), names);
            });
    for (const FirstPaths::Step& step : steps) {
        if (step.kind == FirstPaths::child) continue;
        if (step.kind == FirstPaths::descendant) {
            list_descendants(names);
            const std::vector<uint32_t>& list = firsts_->descendants[step.label];
            auto found = std::upper_bound(list.begin(), list.end(), element);
            if (found != list.end() && *found < end) meet_first(step, StepKind::element, *found);
        } else if (step.kind == FirstPaths::text) {
            for (uint32_t t = document.text_begin[element]; t < document.text_end[element]; t = document.text_end[document.text_parent[t]])
                if (document.text_parent[t] == element) {
                    meet_first(step, StepKind::text, t);
                    break;
                }
        } else {
            for (uint32_t a = document.attribute_begin[element]; a < document.attribute_end(element); ++a)
                if (names.labels(document.attribute_name[a]).attribute[0] == step.label) meet_first(step, StepKind::attribute, a);
        }
    }
}

// Of an element, no more than conditions need.
std::string_view TreeRun::first_value(const Firsts::Item& item, const Locals& labels) {
    if (item.kind == StepKind::attribute) return document_->value(document_->attribute_value[item.index]);
    if (item.kind == StepKind::text) return document_->value(document_->text[item.index]);
    const uint32_t group = machine_->value_group(labels.label[0]);
    const Values::Need need = group ? machine_->values().need(group) : Values::Need{};
    return value_beginning(*document_, item.index, need.whole ? none : need.bytes_max);
}

void TreeRun::start_firsts() {
    const FirstPaths& paths = machine_->first_paths();
    if (paths.empty()) return;
    firsts_ = std::make_unique<Firsts>();
    firsts_->met.resize(paths.size());
    for (uint32_t first = 0; first < paths.size(); ++first) {
        Locals locals{.count = 0, .label = {}};
        fire(locals, paths.label(first));
        firsts_->paths.push_back({locals, 0, StepKind::element, none, {}});
    }
}

}  // namespace treecast
