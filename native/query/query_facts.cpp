// Collects facts about many queries; query_facts.hpp lists them and says why each is safe to act on.
//
// A fact must follow from the query. So everything uncertain is left out: unions in predicates, `or`, `not()`,
// and places that no plain path describes.
#include "query/query_facts.hpp"

#include <algorithm>

namespace treecast {

namespace {

// Writes a name test that needs no bindings. It may be wider than the original, so it still covers it.
void write_test(const Query& query, const Step& step, std::string& out) {
    bool named = step.test == Test::name || step.test == Test::any_local;
    if (!named) {
        out += '*';
    } else if (step.test == Test::name && query.uri(step).empty()) {
        out += query.view(step.local);
    } else {
        out += "*[local-name() = '";
        out += query.view(step.local);
        out += "']";
    }
}

void keep_distinct(std::vector<uint32_t>& numbers) {
    std::sort(numbers.begin(), numbers.end());
    numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
}

}  // namespace

uint32_t NumberedTexts::number(std::string_view text) {
    if (auto known = numbers_.find(text); known != numbers_.end()) return known->second;
    auto place = numbers_.emplace(text, static_cast<uint32_t>(texts_.size())).first;
    texts_.push_back(&place->first);
    return place->second;
}

// Branches are alternatives, so only what all of them require is required by the query.
void QueryFacts::add(const Query& query) {
    std::vector<Branch> branches;
    query.each_path(query.branches(), [&](uint32_t, const PathEntry& path) {
        Branch& branch = branches.emplace_back();
        Place place;
        const Step& first = query.step(path.first);
        if (first.axis == Axis::child && !first.gap && (first.test == Test::name || first.test == Test::any_local))
            branch.root = static_cast<int32_t>(names.number(query.view(first.local)));
        walk(query, path, place, branch, true);
        keep_distinct(branch.names);
    });
    int32_t root = branches[0].root;
    std::vector<uint32_t> shared = branches[0].names, both;
    for (const Branch& branch : branches) {
        if (branch.root != root) root = -1;
        both.clear();
        std::set_intersection(shared.begin(), shared.end(), branch.names.begin(), branch.names.end(), std::back_inserter(both));
        shared.swap(both);
        skeleton.push_back(static_cast<int32_t>(skeletons.number(branch.skeleton.empty() ? "/*" : branch.skeleton)));
    }
    roots.push_back(root);
    required.insert(required.end(), shared.begin(), shared.end());
    // With several branches no single pair has to hold.
    if (branches.size() == 1)
        for (auto [pattern, value] : branches[0].pairs) {
            pair_pattern.push_back(static_cast<int32_t>(pattern));
            pair_value.push_back(static_cast<int32_t>(value));
        }
    required_ends.push_back(static_cast<int64_t>(required.size()));
    skeleton_ends.push_back(static_cast<int64_t>(skeleton.size()));
    pair_ends.push_back(static_cast<int64_t>(pair_pattern.size()));
}

// Follows the element steps of a path. `place` ends where they end.
void QueryFacts::walk(const Query& query, const PathEntry& path, Place& place, Branch& branch, bool main) {
    if (path.absolute) place = {};
    query.each_step(path.first, [&](uint32_t, const Step& step) {
        if (step.kind != StepKind::element) return;       // the last one
        if (step.test == Test::name || step.test == Test::any_local)
            branch.names.push_back(names.number(query.view(step.local)));
        // A self step has no place in a plain path, so from there on the place is unknown.
        place.known = place.known && (step.axis == Axis::child || step.axis == Axis::descendant);
        if (place.known) {
            place.path += step.gap || step.axis == Axis::descendant ? "//" : "/";
            write_test(query, step, place.path);
            if (main) branch.skeleton = place.path;
        }
        query.each_expr(step.predicates, [&](uint32_t, const Expr& expr) { condition(query, expr, place, branch); });
    });
}

// Only conditions that must hold count: conjunctions, and paths that must lead somewhere.
void QueryFacts::condition(const Query& query, const Expr& expr, const Place& place, Branch& branch) {
    switch (expr.kind) {
        case ExprKind::conjunction:
            query.each_expr(expr.first, [&](uint32_t, const Expr& operand) { condition(query, operand, place, branch); });
            return;
        case ExprKind::call:
            if (query.value(expr.value).text.size == 0) return;    // true of what does not exist, too
            break;
        case ExprKind::exists:
        case ExprKind::compare:
            break;
        case ExprKind::term:                                       // what it requires
            if (expr.value != no_entry) condition(query, query.expr(expr.value), place, branch);
            return;
        default:
            return;
    }
    const PathEntry& path = query.path(expr.first);
    if (path.next != no_entry) return;                             // a union: any of them will do
    Place end = place;
    walk(query, path, end, branch, false);
    if (expr.kind == ExprKind::compare && expr.relation == Relation::eq) pair(query, expr, path, end, branch);
}

// Records target = literal. `place` is where the element steps of the path end.
void QueryFacts::pair(const Query& query, const Expr& expr, const PathEntry& path, const Place& place, Branch& branch) {
    if (!place.known || place.path.empty()) return;
    std::string pattern = place.path;
    pattern += '\0';
    bool written = true;
    Slice target{};
    StepKind kind = StepKind::element;
    query.each_step(path.first, [&](uint32_t, const Step& step) {
        kind = step.kind;
        if (kind == StepKind::element) return;
        written = !step.gap && (kind == StepKind::text || (step.test == Test::name && query.uri(step).empty()));
        target = step.local;
    });
    if (!written) return;
    if (kind == StepKind::attribute) pattern.append("@").append(query.view(target));
    else pattern += kind == StepKind::text ? "text()" : ".";
    const Value& value = query.value(expr.value);
    std::string literal = value.is_number ? (value.negative ? "n-" : "n") : "s";
    literal += query.view(value.text);
    branch.pairs.emplace_back(patterns.number(pattern), values.number(literal));
}

}  // namespace treecast
