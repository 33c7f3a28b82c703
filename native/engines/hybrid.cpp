// The hybrid of YFilter and XFilter: paths are cut at `//` into substrings, which share one NFA. hybrid.hpp has the theory.
#include "engines/hybrid.hpp"

#include "engines/candidates.hpp"
#include "engines/distinct_paths.hpp"
#include "engines/path_nfa.hpp"

#include <algorithm>
#include <span>

namespace treecast {

namespace {

// A part of a path without `//` inside.
struct Substring {
    uint32_t state = none;                   // of the trie: where it is found
    uint32_t length = 0;
    uint32_t open = ~0u;
    std::vector<std::pair<uint32_t, std::vector<ValueCondition>>> conditions;      // by step of the substring
};

struct SubstringPath {
    bool at_root = false;                    // its first substring begins at the root
    std::vector<Substring> parts;
};

class Hybrid final : public PublishedFilter {
public:
    void add(uint32_t slot, const Query& query, bool ordered) override {
        std::vector<FilterPattern> patterns = to_filter_patterns(query, ordered, {"hybrid", false});
        intern_labels(patterns, labels_);
        for (FilterPattern& pattern : patterns) {
            bool fresh;
            uint32_t number = paths_.add(slot, path_key(pattern[0]), fresh);
            if (!fresh) continue;
            if (machines_.size() <= number) machines_.emplace_back();
            cut(pattern[0], machines_[number]);
            if (first_.size() < trie_.capacity()) first_.resize(trie_.capacity());
            first_[machines_[number].parts[0].state].push_back(number);
        }
        if (patterns.empty()) paths_.add_nothing(slot);
    }

    void remove(uint32_t slot) override {
        paths_.remove(slot, [&](uint32_t number) {
            SubstringPath& machine = machines_[number];
            std::vector<uint32_t>& list = first_[machine.parts[0].state];
            *std::find(list.begin(), list.end(), number) = list.back();
            list.pop_back();
            for (const Substring& part : machine.parts) {
                trie_.release(part.state);
                if (part.open != ~0u) opens_.give_back(part.open);
            }
            machine = {};
        });
    }

    std::unique_ptr<Scratch> scratch() const override { return std::make_unique<Working>(); }

    void match(const Document& document, Scratch& scratch, std::vector<uint32_t>& slots) const override {
        Working& w = static_cast<Working&>(scratch);
        w.names.begin(document, labels_);
        w.evaluator.begin(document, w.names);
        w.satisfied.begin(paths_);
        w.candidates.begin(trie_.capacity(), opens_.size());
        // An element's start tag undoes the promotions of its previous siblings.
        auto begun = [&](uint32_t element) {
            uint32_t depth = document.depth[element];
            w.candidates.undo(depth);
            // The chain of open elements. Substrings end at the innermost one, and their conditions are about those above it.
            w.chain.resize(depth);
            w.chain.push_back(element);
        };
        auto reached = [&](uint32_t state, uint32_t) {
            for (uint32_t path : first_[state]) pass(path, 0, 0, machines_[path].at_root, w, slots);
            for (size_t i = 0, end = w.candidates.list(state).size(); i < end; ++i) {
                Candidates::Candidate candidate = w.candidates.list(state)[i];   // a copy: promotions may move the list
                pass(candidate.path, candidate.position, candidate.level, false, w, slots);
            }
        };
        trie_.run(document, w.names, w.run, begun, reached);
    }

    size_t states() const override { return trie_.states(); }
    size_t bytes() const override {
        size_t total = labels_.bytes() + paths_.bytes() + trie_.bytes() + machines_.capacity() * sizeof(SubstringPath) +
                       first_.capacity() * sizeof(first_[0]);
        for (const auto& list : first_) total += list.capacity() * sizeof(uint32_t);
        for (const SubstringPath& machine : machines_) total += machine.parts.capacity() * sizeof(Substring);
        return total;
    }

private:
    struct Working : Scratch {
        ResolvedNames names;
        ConditionEvaluator evaluator;
        Satisfied satisfied;
        Candidates candidates;
        PathNfa::Run run;
        std::vector<uint32_t> chain;                     // by depth: the open element
    };

    // Cuts a path at each `//`. Within a part, every step is a child of the one before.
    void cut(FilterPath& path, SubstringPath& machine) {
        machine.at_root = !path.steps[0].step.descendant;
        std::vector<LabelStep> steps;
        for (size_t s = 0; s < path.steps.size(); ++s) {
            // Each part may be found anywhere, so in the trie it begins with `//`.
            // Whether the first part begins at the root is checked when it is a candidate.
            bool begins = s == 0 || path.steps[s].step.descendant;
            if (begins) {
                steps.clear();
                machine.parts.emplace_back();
                if (s > 0) machine.parts.back().open = opens_.take();
            }
            Substring& part = machine.parts.back();
            steps.push_back({path.steps[s].step.label, begins});
            if (!path.steps[s].conditions.empty())
                part.conditions.emplace_back(part.length, std::move(path.steps[s].conditions));
            ++part.length;
            bool ends = s + 1 == path.steps.size() || path.steps[s + 1].step.descendant;
            if (ends) part.state = trie_.insert(steps);
        }
    }

    // A substring of the path ends at the innermost open element. The next part becomes a candidate, or the path is satisfied.
    void pass(uint32_t path, uint32_t position, uint32_t least, bool at_root, Working& w, std::vector<uint32_t>& slots) const {
        if (w.satisfied.has(path)) return;
        const SubstringPath& machine = machines_[path];
        const Substring& part = machine.parts[position];
        uint32_t level = static_cast<uint32_t>(w.chain.size() - 1), begin = level + 1 - part.length;
        // It must not overlap the part before it, and the first part may have to begin at the root element.
        if (begin < least || (at_root && begin != 0)) return;
        for (const auto& [step, conditions] : part.conditions)
            if (!w.evaluator.all_hold(conditions, w.chain[begin + step])) return;
        if (position + 1 == machine.parts.size()) {
            w.satisfied.add(paths_, path, slots);
            return;
        }
        const Substring& next = machine.parts[position + 1];
        w.candidates.promote(next.state, level, {path, position + 1, level + 1, next.open});
    }

    LabelTable labels_;
    DistinctPaths paths_;
    PathNfa trie_;
    std::vector<SubstringPath> machines_;                // by path
    std::vector<std::vector<uint32_t>> first_;           // by state: the paths whose first substring ends there
    RecycledIds opens_;
};

}  // namespace

std::unique_ptr<PublishedFilter> make_hybrid() { return std::make_unique<Hybrid>(); }

}  // namespace treecast
