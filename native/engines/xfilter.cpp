// XFilter: one small automaton per distinct path, indexed by the label that it waits for. xfilter.hpp has the theory.
#include "engines/xfilter.hpp"

#include "base/interrupt.hpp"
#include "engines/candidates.hpp"
#include "engines/distinct_paths.hpp"
#include "engines/filter_pattern.hpp"

#include <algorithm>

namespace treecast {

namespace {

// A state of the automaton: the element it waits for, and at which level.
struct FsmState {
    uint32_t label = label_element_any;
    uint32_t distance = 0;                   // in levels, from the state before; of the first, the level itself
    bool exact = true;
    uint32_t open = ~0u;                     // its number where the distance is a least one
    std::vector<ValueCondition> conditions;
    bool fits(uint32_t level) const { return exact ? level == distance : level >= distance; }   // of a first state
};

using Fsm = std::vector<FsmState>;

// Takes the named steps of a path. A `*` in between only adds to the distance of the next step.
Fsm to_fsm(FilterPath& path) {
    Fsm fsm;
    uint32_t distance = 0;                   // from the document the first step is at level 0
    bool exact = true;
    for (size_t s = 0; s < path.steps.size(); ++s) {
        FilterStep& step = path.steps[s];
        if (step.step.descendant) exact = false;
        // A `*` that ends the path, or has predicates, needs a state of its own.
        bool passing = step.step.label == label_element_any && step.conditions.empty() && s + 1 < path.steps.size();
        if (passing) {
            ++distance;
            continue;
        }
        FsmState& state = fsm.emplace_back();
        state.label = step.step.label;
        state.distance = distance;
        state.exact = exact;
        state.conditions = std::move(step.conditions);
        // The next step is at least one level further down.
        distance = 1;
        exact = true;
    }
    return fsm;
}

class XFilter final : public PublishedFilter {
public:
    void add(uint32_t slot, const Query& query, bool ordered) override {
        std::vector<FilterPattern> patterns = to_filter_patterns(query, ordered, {"xfilter", false});
        intern_labels(patterns, labels_);
        for (FilterPattern& pattern : patterns) {
            bool fresh;
            uint32_t number = paths_.add(slot, path_key(pattern[0]), fresh);
            if (!fresh) continue;
            if (fsms_.size() <= number) fsms_.emplace_back();
            Fsm& fsm = fsms_[number] = to_fsm(pattern[0]);
            for (size_t k = 1; k < fsm.size(); ++k)
                if (!fsm[k].exact) fsm[k].open = opens_.take();
            states_ += fsm.size();
            if (first_.size() <= fsm[0].label) first_.resize(labels_.size());
            first_[fsm[0].label].push_back(number);
        }
        if (patterns.empty()) paths_.add_nothing(slot);
    }

    void remove(uint32_t slot) override {
        paths_.remove(slot, [&](uint32_t number) {
            Fsm& fsm = fsms_[number];
            std::vector<uint32_t>& list = first_[fsm[0].label];
            // The order within a list does not matter, so the last one takes the place.
            *std::find(list.begin(), list.end(), number) = list.back();
            list.pop_back();
            for (const FsmState& state : fsm)
                if (state.open != ~0u) opens_.give_back(state.open);
            states_ -= fsm.size();
            fsm = {};
        });
    }

    std::unique_ptr<Scratch> scratch() const override { return std::make_unique<Working>(); }

    void match(const Document& document, Scratch& scratch, std::vector<uint32_t>& slots) const override {
        Working& w = static_cast<Working&>(scratch);
        w.names.begin(document, labels_);
        w.evaluator.begin(document, w.names);
        w.satisfied.begin(paths_);
        w.candidates.begin(labels_.size(), opens_.size());
        for (uint32_t element = 0; element < document.elements(); ++element) {
            Interrupt::check(1000);
            // The start tag of an element at this depth ends its previous siblings: what they promoted is no longer a candidate.
            w.candidates.undo(document.depth[element]);
            const NameLabels& labels = w.names[document.name[element]];
            for (uint32_t label : labels.element)
                if (label != none) go_through(label, document, element, w, slots);
            go_through(label_element_any, document, element, w, slots);
        }
    }

    size_t states() const override { return states_; }
    size_t bytes() const override {
        size_t total = labels_.bytes() + paths_.bytes() + fsms_.capacity() * sizeof(Fsm) + first_.capacity() * sizeof(first_[0]);
        for (const auto& list : first_) total += list.capacity() * sizeof(uint32_t);
        for (const Fsm& fsm : fsms_)
            for (const FsmState& state : fsm) {
                total += sizeof state;
                for (const ValueCondition& condition : state.conditions)
                    total += sizeof condition + condition.comparisons.capacity() * sizeof(Comparison);
            }
        return total;
    }

private:
    struct Working : Scratch {
        ResolvedNames names;
        ConditionEvaluator evaluator;
        Satisfied satisfied;
        Candidates candidates;
    };

    // Goes through the candidates of one label, as they were before this element.
    // Candidates that this element promotes must not match the same element, so the size is read first.
    void go_through(uint32_t label, const Document& document, uint32_t element, Working& w, std::vector<uint32_t>& slots) const {
        uint32_t level = document.depth[element];
        if (label < first_.size())
            for (uint32_t path : first_[label])
                if (!w.satisfied.has(path) && fsms_[path][0].fits(level)) pass(path, 0, level, element, w, slots);
        for (size_t i = 0, end = w.candidates.list(label).size(); i < end; ++i) {
            Candidates::Candidate candidate = w.candidates.list(label)[i];       // a copy: promotions may move the list
            if (w.satisfied.has(candidate.path)) continue;
            bool fits = candidate.open == ~0u ? level == candidate.level : level >= candidate.level;
            if (fits) pass(candidate.path, candidate.position, level, element, w, slots);
        }
    }

    // A state matched. The next one becomes a candidate at the level where it must be, or from that level on.
    void pass(uint32_t path, uint32_t position, uint32_t level, uint32_t element, Working& w, std::vector<uint32_t>& slots) const {
        const Fsm& fsm = fsms_[path];
        if (!w.evaluator.all_hold(fsm[position].conditions, element)) return;
        if (position + 1 == fsm.size()) {
            w.satisfied.add(paths_, path, slots);
            return;
        }
        const FsmState& next = fsm[position + 1];
        w.candidates.promote(next.label, level, {path, position + 1, level + next.distance, next.open});
    }

    LabelTable labels_;
    DistinctPaths paths_;
    std::vector<Fsm> fsms_;                              // by path
    std::vector<std::vector<uint32_t>> first_;           // by label: the paths whose first state it is
    RecycledIds opens_;
    size_t states_ = 0;
};

}  // namespace

std::unique_ptr<PublishedFilter> make_xfilter() { return std::make_unique<XFilter>(); }

}  // namespace treecast
