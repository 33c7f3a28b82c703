// YFilter and its variant Inline: the queries around the shared NFA of path_nfa.hpp. yfilter.hpp has the theory.
//
// A subscription without predicates is only an entry at an accepting state. One with predicates owns paths, which are checked
// when the machine reaches their end. Nested paths form a group, which is joined at the end of the document.
#include "engines/yfilter.hpp"

#include "base/recycled_ids.hpp"
#include "engines/path_nfa.hpp"

#include <algorithm>

namespace treecast {

namespace {

struct StepConditions {                         // a step with value-based predicates
    uint32_t step;
    uint32_t check = none;                   // Inline: its number, and the state at which it is looked at
    uint32_t state = none;
    std::vector<ValueCondition> conditions;
};

struct NestedPath {                              // a path that hangs on a step
    uint32_t step, path;
};

// A path of a query with predicates, from the root on.
struct SelectingPath {
    uint32_t slot = none;
    uint32_t group = none;                   // of the paths that are joined; none where there is only this one
    uint32_t branch = none;                  // nested: the step that it hangs on; none for a main path
    uint32_t state = none;
    std::vector<LabelStep> steps;
    std::vector<StepConditions> conditioned;    // by step; of a nested path those after the branch
    std::vector<NestedPath> nested;              // by step
};

// The paths of a pattern with nested paths: the main path first, each path before those attached to it.
struct Group {
    uint32_t slot = none;
    std::vector<uint32_t> paths;
};

struct Accepting {                           // what hangs on a state
    std::vector<uint32_t> plain;             // subscriptions without predicates
    std::vector<uint32_t> selecting;         // paths
    std::vector<std::pair<uint32_t, uint32_t>> checks;      // Inline: path, index into its `conditioned`
};

class YFilter final : public PublishedFilter {
public:
    explicit YFilter(bool inlined) : inlined_(inlined) {}
    void add(uint32_t slot, const Query& query, bool ordered) override;
    void remove(uint32_t slot) override;
    std::unique_ptr<Scratch> scratch() const override { return std::make_unique<Working>(); }
    void match(const Document& document, Scratch& scratch, std::vector<uint32_t>& slots) const override;
    size_t states() const override { return nfa_.states(); }
    size_t bytes() const override;

private:
    // Everything one thread needs. Marks store the number of a document, so nothing is cleared between documents.
    struct Working : Scratch {
        ResolvedNames names;
        ConditionEvaluator evaluator;
        PathNfa::Run run;
        std::vector<uint32_t> reported, satisfied;          // by state, by slot: the document that last did
        uint32_t document = 0;
        std::vector<uint32_t> chain;                        // by depth: the open element
        std::vector<uint32_t> depths, above;                // of one step: the depths that it can be at
        std::vector<std::vector<uint32_t>> noted;           // by check: elements, ascending
        std::vector<std::vector<uint32_t>> found;           // by path: elements that ended it, or of a nested one without
        std::vector<uint32_t> noted_checks, found_paths;    //          nested paths of its own, that it hangs on
        std::vector<std::pair<uint32_t, uint32_t>> groups;  // by group: document, paths of it that were found
    };
    struct Holding {                                        // what a subscription has inserted: a plain path,
        uint32_t state = none;                              // or a path with predicates, or a group of such
        uint32_t place = 0;                                 // among the plain ones of the state
        uint32_t path = none;
        uint32_t group = none;
    };
    class Match;

    void add_pattern(uint32_t slot, FilterPattern& pattern);
    uint32_t add_path(uint32_t slot, std::vector<LabelStep> steps, FilterPath& written, uint32_t branch);
    void remove_path(uint32_t path);
    void drop_plain(const Holding& holding);
    Accepting& accepting(uint32_t state) {
        if (accepting_.size() < nfa_.capacity()) accepting_.resize(nfa_.capacity());
        return accepting_[state];
    }

    const bool inlined_;
    LabelTable labels_;
    PathNfa nfa_;
    std::vector<Accepting> accepting_;                      // by state
    std::vector<SelectingPath> paths_;
    std::vector<Group> groups_;
    RecycledIds path_numbers_, group_numbers_, check_numbers_;
    std::vector<std::vector<Holding>> holdings_;            // by slot
};

void YFilter::add(uint32_t slot, const Query& query, bool ordered) {
    std::vector<FilterPattern> patterns = to_filter_patterns(query, ordered, {inlined_ ? "yfilter-inline" : "yfilter", true});
    intern_labels(patterns, labels_);
    if (holdings_.size() <= slot) holdings_.resize(slot + 1);
    for (FilterPattern& pattern : patterns) add_pattern(slot, pattern);
}

// A pattern of one path without predicates only joins a list at its accepting state: YFilter's sharing at its best.
// Predicates and nested paths make paths that are checked when they are reached, and joined at the end.
void YFilter::add_pattern(uint32_t slot, FilterPattern& pattern) {
    std::vector<std::vector<LabelStep>> steps;              // from the root on
    for (const FilterPath& path : pattern) {
        std::vector<LabelStep>& all = steps.emplace_back();
        if (path.parent != none) {
            const std::vector<LabelStep>& parent = steps[path.parent];
            // A nested path is matched from the root, so it begins with the steps of its parent up to the branch.
            size_t inherited = parent.size() - pattern[path.parent].steps.size();
            all.assign(parent.begin(), parent.begin() + inherited + path.branch + 1);
        }
        for (const FilterStep& step : path.steps) all.push_back(step.step);
    }
    Holding holding;
    bool plain = pattern.size() == 1 &&
                 std::all_of(pattern[0].steps.begin(), pattern[0].steps.end(), [](const FilterStep& s) { return s.conditions.empty(); });
    if (plain) {
        holding.state = nfa_.insert(steps[0]);
        holding.place = static_cast<uint32_t>(accepting(holding.state).plain.size());
        accepting(holding.state).plain.push_back(slot);
    } else if (pattern.size() == 1) {
        holding.path = add_path(slot, std::move(steps[0]), pattern[0], none);
    } else {
        holding.group = group_numbers_.take();
        if (groups_.size() <= holding.group) groups_.emplace_back();
        Group& group = groups_[holding.group];
        group.slot = slot;
        for (size_t p = 0; p < pattern.size(); ++p) {
            size_t own = pattern[p].steps.size(), all = steps[p].size();
            uint32_t branch = pattern[p].parent == none ? none : static_cast<uint32_t>(all - own - 1);
            group.paths.push_back(add_path(slot, std::move(steps[p]), pattern[p], branch));
            paths_[group.paths[p]].group = holding.group;
            if (branch != none) paths_[group.paths[pattern[p].parent]].nested.push_back({branch, group.paths[p]});
        }
    }
    holdings_[slot].push_back(holding);
}

// Inserts a path with predicates. Only its own steps have conditions; inherited ones belong to the parent.
uint32_t YFilter::add_path(uint32_t slot, std::vector<LabelStep> steps, FilterPath& written, uint32_t branch) {
    uint32_t number = path_numbers_.take();
    if (paths_.size() <= number) paths_.emplace_back();
    SelectingPath& path = paths_[number];
    path.slot = slot;
    path.branch = branch;
    path.steps = std::move(steps);
    path.state = nfa_.insert(path.steps);
    accepting(path.state).selecting.push_back(number);
    size_t inherited = path.steps.size() - written.steps.size();
    for (size_t s = 0; s < written.steps.size(); ++s) {
        if (written.steps[s].conditions.empty()) continue;
        StepConditions& made = path.conditioned.emplace_back();
        made.step = static_cast<uint32_t>(inherited + s);
        made.conditions = std::move(written.steps[s].conditions);
        if (!inlined_) continue;
        // Inline: the step gets a state of its own, so that it is checked when it is reached, not only with the whole path.
        made.check = check_numbers_.take();
        made.state = nfa_.insert(std::span(path.steps).first(made.step + 1));
        accepting(made.state).checks.emplace_back(number, static_cast<uint32_t>(path.conditioned.size() - 1));
    }
    return number;
}

// The order in these lists does not matter. An empty one gives its memory back: most states lose all entries at once.
template <class T>
void drop_one(std::vector<T>& list, const T& value) {
    *std::find(list.begin(), list.end(), value) = list.back();
    list.pop_back();
    if (list.empty()) list = {};
}

void YFilter::remove_path(uint32_t number) {
    SelectingPath& path = paths_[number];
    for (size_t c = 0; c < path.conditioned.size(); ++c) {
        const StepConditions& conditioned = path.conditioned[c];
        if (conditioned.check == none) continue;
        drop_one(accepting_[conditioned.state].checks, {number, static_cast<uint32_t>(c)});
        check_numbers_.give_back(conditioned.check);
        nfa_.release(conditioned.state);
    }
    drop_one(accepting_[path.state].selecting, number);
    nfa_.release(path.state);
    path = {};
    path_numbers_.give_back(number);
}

// The last entry takes the place, so the cost of removing does not depend on how many subscriptions share the path.
void YFilter::drop_plain(const Holding& holding) {
    std::vector<uint32_t>& plain = accepting_[holding.state].plain;
    uint32_t place = holding.place, last = static_cast<uint32_t>(plain.size() - 1);
    for (Holding& moved : holdings_[plain[last]])
        if (moved.state == holding.state && moved.place == last) moved.place = place;
    plain[place] = plain[last];
    plain.pop_back();
    if (plain.empty()) plain = {};
}

// Everything that the subscription inserted is recorded in its holdings, so nothing is searched.
void YFilter::remove(uint32_t slot) {
    for (const Holding& holding : holdings_[slot]) {
        if (holding.state != none) {
            drop_plain(holding);
            nfa_.release(holding.state);
        } else if (holding.path != none) {
            remove_path(holding.path);
        } else {
            for (uint32_t path : groups_[holding.group].paths) remove_path(path);
            groups_[holding.group] = {};
            group_numbers_.give_back(holding.group);
        }
    }
    holdings_[slot] = {};
}

size_t YFilter::bytes() const {
    size_t total = nfa_.bytes() + labels_.bytes() + accepting_.capacity() * sizeof(Accepting) + holdings_.capacity() * sizeof(holdings_[0]) +
                   paths_.capacity() * sizeof(SelectingPath) + groups_.capacity() * sizeof(Group);
    for (const Accepting& each : accepting_)
        total += (each.plain.capacity() + each.selecting.capacity() + 2 * each.checks.capacity()) * sizeof(uint32_t);
    for (const auto& list : holdings_) total += list.capacity() * sizeof(Holding);
    for (const Group& group : groups_) total += group.paths.capacity() * sizeof(uint32_t);
    for (const SelectingPath& path : paths_) {
        total += path.steps.capacity() * sizeof(LabelStep) + path.conditioned.capacity() * sizeof(StepConditions) +
                 path.nested.capacity() * sizeof(NestedPath);
        for (const StepConditions& conditioned : path.conditioned)
            for (const ValueCondition& condition : conditioned.conditions)
                total += sizeof condition + condition.comparisons.capacity() * sizeof(Comparison);
    }
    return total;
}

// The run of one document: follows the NFA, checks paths as they are reached, and joins groups at the end.
class YFilter::Match {
public:
    Match(const YFilter& engine, const Document& document, Working& working, std::vector<uint32_t>& slots)
        : engine_(engine), document_(document), w_(working), slots_(slots) {}

    void run() {
        engine_.nfa_.run(
            document_, w_.names, w_.run,
            [&](uint32_t element) {
                uint32_t depth = document_.depth[element];
                w_.chain.resize(depth);
                w_.chain.push_back(element);
            },
            [&](uint32_t state, uint32_t element) { reach(state, element); });
        join();
    }

private:
    void report(uint32_t slot) {
        if (w_.satisfied[slot] == w_.document) return;
        w_.satisfied[slot] = w_.document;
        slots_.push_back(slot);
    }

    // A state is reached by many elements. Plain subscriptions need only the first; paths with predicates need each.
    void reach(uint32_t state, uint32_t element) {
        const Accepting& accepting = engine_.accepting_[state];
        for (auto [path, index] : accepting.checks) look(path, index, element);
        if (w_.reported[state] != w_.document) {
            w_.reported[state] = w_.document;
            for (uint32_t slot : accepting.plain) report(slot);
        }
        for (uint32_t number : accepting.selecting) {
            const SelectingPath& path = engine_.paths_[number];
            if (w_.satisfied[path.slot] == w_.document) continue;
            if (path.group == none) {
                if (fits(path)) report(path.slot);
            } else if (path.nested.empty() && path.branch != none) {
                if (fits(path)) note_branches(number, path);
            } else {
                note(number, element);       // to be looked at when its nested paths are known
            }
        }
    }

    // Inline: checks the predicates of a step when an element reaches it, and notes the element if they hold.
    void look(uint32_t number, uint32_t index, uint32_t element) {
        const SelectingPath& path = engine_.paths_[number];
        const StepConditions& conditioned = path.conditioned[index];
        if (w_.satisfied[path.slot] == w_.document || !w_.evaluator.all_hold(conditioned.conditions, element)) return;
        std::vector<uint32_t>& noted = w_.noted[conditioned.check];
        if (noted.empty()) w_.noted_checks.push_back(conditioned.check);
        noted.push_back(element);
    }

    // Elements are noted in document order, so the lists are sorted.
    bool holds(const StepConditions& conditioned, uint32_t element) {
        if (!engine_.inlined_) return w_.evaluator.all_hold(conditioned.conditions, element);
        const std::vector<uint32_t>& noted = w_.noted[conditioned.check];
        return std::binary_search(noted.begin(), noted.end(), element);
    }

    // Whether the element at this depth can be the step, ignoring what is above and below it.
    bool suits(const SelectingPath& path, uint32_t step, uint32_t depth) {
        uint32_t element = w_.chain[depth];
        if (!w_.names.fires(path.steps[step].label, document_.name[element])) return false;
        for (const StepConditions& conditioned : path.conditioned)
            if (conditioned.step == step && !holds(conditioned, element)) return false;
        for (const NestedPath& nested : path.nested) {
            if (nested.step != step) continue;
            const std::vector<uint32_t>& branches = w_.found[nested.path];
            if (!std::binary_search(branches.begin(), branches.end(), element)) return false;
        }
        return true;
    }

    // Finds all assignments of the open elements to the steps of the path, from the last step up.
    // `depths` is where a step can be. A set of depths per step replaces the enumeration of assignments, which is exponential.
    // For a main path it returns whether there is an assignment. For a nested one it stops at the branch and leaves its depths.
    bool fits(const SelectingPath& path) {
        uint32_t step = static_cast<uint32_t>(path.steps.size() - 1), depth = static_cast<uint32_t>(w_.chain.size() - 1);
        w_.depths.clear();
        if (!suits(path, step, depth)) return false;
        w_.depths.push_back(depth);
        for (; step != (path.branch == none ? 0 : path.branch); --step) {
            w_.above.clear();
            if (path.steps[step].descendant) {
                // Everything above the deepest: `depths` ascends.
                for (uint32_t d = 0; d < w_.depths.back(); ++d)
                    if (suits(path, step - 1, d)) w_.above.push_back(d);
            } else {
                for (uint32_t d : w_.depths)
                    if (d > 0 && suits(path, step - 1, d - 1)) w_.above.push_back(d - 1);
            }
            w_.depths.swap(w_.above);
            if (w_.depths.empty()) return false;
        }
        return path.branch != none || path.steps[0].descendant || w_.depths.front() == 0;
    }

    // Elements arrive in document order, so the list stays sorted.
    void note(uint32_t path, uint32_t element) {
        std::vector<uint32_t>& found = w_.found[path];
        if (found.empty()) begin_path(path);
        found.push_back(element);
    }

    // Counts the paths of the group that were found. A group with a missing path need not be joined.
    void begin_path(uint32_t path) {
        w_.found_paths.push_back(path);
        auto& [document, count] = w_.groups[engine_.paths_[path].group];
        if (document != w_.document) count = 0;
        document = w_.document;
        ++count;
    }

    // Keeps the elements that fits() found for the branch of a nested path, mostly without duplicates.
    void note_branches(uint32_t number, const SelectingPath& path) {
        std::vector<uint32_t>& found = w_.found[number];
        if (found.empty() && path.nested.empty()) begin_path(number);
        if (found.size() + w_.depths.size() > found.capacity()) make_set(found);
        for (uint32_t depth : w_.depths) found.push_back(w_.chain[depth]);
    }

    static void make_set(std::vector<uint32_t>& elements) {
        std::sort(elements.begin(), elements.end());
        elements.erase(std::unique(elements.begin(), elements.end()), elements.end());
    }

    // Decides the queries with nested paths, if every one of their paths was found.
    void join() {
        for (size_t i = 0, count = w_.found_paths.size(); i < count; ++i) {
            uint32_t path = w_.found_paths[i], number = engine_.paths_[path].group;
            const Group& group = engine_.groups_[number];
            if (group.paths[0] != path || w_.groups[number].second != group.paths.size()) continue;
            if (w_.satisfied[group.slot] != w_.document && join_group(group)) report(group.slot);
        }
    }

    // Innermost paths come last in the group, so walking backward knows all nested paths before their parent.
    bool join_group(const Group& group) {
        for (size_t p = group.paths.size(); p-- > 0;) {
            uint32_t number = group.paths[p];
            const SelectingPath& path = engine_.paths_[number];
            std::vector<uint32_t>& found = w_.found[number];
            if (path.nested.empty()) {
                make_set(found);
                continue;
            }
            std::vector<uint32_t> ends;
            ends.swap(found);
            bool any = false;
            for (uint32_t element : ends) {
                open_chain(element);
                if (!fits(path)) continue;
                any = true;
                if (path.branch == none) break;
                note_branches(number, path);
            }
            if (!any) return false;
            make_set(found);
        }
        return true;
    }

    // Rebuilds the chain of open elements for an element that has ended long ago.
    void open_chain(uint32_t element) {
        w_.chain.resize(document_.depth[element] + 1);
        for (size_t depth = w_.chain.size(); depth-- > 0; element = document_.parent[element]) w_.chain[depth] = element;
    }

    const YFilter& engine_;
    const Document& document_;
    Working& w_;
    std::vector<uint32_t>& slots_;
};

void YFilter::match(const Document& document, Scratch& scratch, std::vector<uint32_t>& slots) const {
    Working& w = static_cast<Working&>(scratch);
    w.names.begin(document, labels_);
    w.evaluator.begin(document, w.names);
    if (++w.document == 0) {                                // wrapped round: old marks would look new
        w.reported.assign(w.reported.size(), 0);
        w.satisfied.assign(w.satisfied.size(), 0);
        w.groups.assign(w.groups.size(), {0, 0});
        w.document = 1;
    }
    auto grow = [](auto& marks, size_t size) {
        if (marks.size() < size) marks.resize(size);
    };
    grow(w.reported, nfa_.capacity());
    grow(w.satisfied, holdings_.size());
    grow(w.noted, check_numbers_.size());
    grow(w.found, paths_.size());
    grow(w.groups, groups_.size());
    Match(*this, document, w, slots).run();
    auto empty = [](std::vector<uint32_t>& elements) {      // one large document must not hold memory forever
        elements.capacity() > 1024 ? std::vector<uint32_t>().swap(elements) : elements.clear();
    };
    for (uint32_t check : w.noted_checks) empty(w.noted[check]);
    for (uint32_t path : w.found_paths) empty(w.found[path]);
    w.noted_checks.clear();
    w.found_paths.clear();
}

}  // namespace

std::unique_ptr<PublishedFilter> make_yfilter() { return std::make_unique<YFilter>(false); }
std::unique_ptr<PublishedFilter> make_yfilter_inline() { return std::make_unique<YFilter>(true); }

}  // namespace treecast
