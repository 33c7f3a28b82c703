// The normal form of a query, and what is refused after reading.
//
// A linear branch is turned into plain paths step by step. The working set holds the alternatives so far: plain paths that
// end at an element, or an empty one for the document itself. A step does one of these:
//   child, attribute, text      appends itself, as a descendant after `//`. Directly below the document there are no
//                               attributes and no text, so such an alternative is dropped.
//   self                        narrows the test of the last step, or drops the path where the two tests exclude each other.
//   descendant_or_self          doubles the alternatives: the narrowed one, and one with a descendant step.
#include "query/query.hpp"

#include "base/failure.hpp"

#include <algorithm>

namespace treecast {

namespace {

// Combines two tests into the one that holds where both hold. Returns false where none can.
bool narrow(PathStep& step, const PathStep& by) {
    bool step_uri = step.test == Test::name || step.test == Test::any_namespace;
    bool step_local = step.test == Test::name || step.test == Test::any_local;
    bool by_uri = by.test == Test::name || by.test == Test::any_namespace;
    bool by_local = by.test == Test::name || by.test == Test::any_local;
    if (step_uri && by_uri && step.uri != by.uri) return false;
    if (step_local && by_local && step.local != by.local) return false;
    if (by_uri) step.uri = by.uri;
    if (by_local) step.local = by.local;
    bool uri = step_uri || by_uri, local = step_local || by_local;
    step.test = uri ? (local ? Test::name : Test::any_namespace) : (local ? Test::any_local : Test::any);
    return true;
}

bool same_step(const PathStep& a, const PathStep& b) {
    return a.descendant == b.descendant && a.kind == b.kind && a.test == b.test && a.local == b.local && a.uri == b.uri;
}

bool same_path(const Path& a, const Path& b) {
    return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), same_step);
}

// Distinct paths only, as linear_paths() promises.
void append_distinct(std::vector<Path>& paths, Path&& path) {
    for (const Path& present : paths)
        if (same_path(present, path)) return;
    paths.push_back(std::move(path));
}

}  // namespace

PathStep Query::path_step(const Step& step, bool descendant) const {
    PathStep made;
    made.descendant = descendant;
    made.kind = step.kind;
    made.test = step.test;
    if (step.test == Test::name || step.test == Test::any_namespace) made.uri = uri(step);
    if (step.test == Test::name || step.test == Test::any_local) made.local = view(step.local);
    return made;
}

void Query::clear() {
    paths_.clear();
    steps_.clear();
    exprs_.clear();
    values_.clear();
    terms_.clear();
    term_steps_.clear();
    derived_.clear();
    uris_.clear();
    stored_.clear();
    branches_ = no_entry;
    selection_ = no_term;
    is_condition_ = false;
    linear_ = true;
    alternatives_ = false;
}

// In the order of the text, so that callers can replace them one by one.
std::vector<uint32_t> Query::literals_before(size_t end) const {
    std::vector<uint32_t> found;
    for (uint32_t i = 0; i < values_.size(); ++i)
        if (!values_[i].is_number && values_[i].text.begin < end) found.push_back(i);
    std::sort(found.begin(), found.end(), [&](uint32_t a, uint32_t b) { return values_[a].text.begin < values_[b].text.begin; });
    return found;
}

// The new texts go after the old one, because everything else points into it. What was derived from the old ones is forgotten.
void Query::fill(const std::vector<uint32_t>& values, const std::vector<std::string_view>& texts) {
    for (Expr& expr : exprs_) expr.derived = no_entry;
    text_.resize(text_end_);
    for (size_t i = 0; i < values.size(); ++i) {
        values_[values[i]].text = {static_cast<uint32_t>(text_.size()), static_cast<uint32_t>(texts[i].size())};
        text_.insert(text_.end(), texts[i].begin(), texts[i].end());
    }
}

Slice Query::store_text(std::string_view text) {
    Slice stored{static_cast<uint32_t>(text_.size()), static_cast<uint32_t>(text.size())};
    text_.insert(text_.end(), text.begin(), text.end());
    text_end_ = static_cast<uint32_t>(text_.size());
    return stored;
}

// Plain paths are views into the query, so nothing is copied.
void Query::linear_paths(std::vector<Path>& out) const {
    if (!linear_ || branches_ == no_entry) {
        out.clear();
        return;
    }
    if (alternatives_ || paths_[branches_].next != no_entry) {
        expand(out);
        return;
    }
    // The common case, one path without self:: steps, is written straight into the caller's vector.
    out.resize(1);
    Path& path = out[0];
    path.clear();
    each_step(paths_[branches_].first, [&](uint32_t, const Step& step) {
        path.push_back(path_step(step, step.gap || step.axis == Axis::descendant));
    });
    // An attribute or text directly below the document: it can never match.
    if (path[0].kind != StepKind::element && !path[0].descendant) out.clear();
}

// Applies the rules at the top of this file to each branch, one step at a time.
void Query::expand(std::vector<Path>& out) const {
    out.clear();
    size_t branches = 0;
    std::vector<Path> now, later;
    each_path(branches_, [&](uint32_t, const PathEntry& branch) {
        ++branches;
        now.assign(1, {});
        each_step(branch.first, [&](uint32_t, const Step& step) {
            bool self = step.axis == Axis::self || step.axis == Axis::descendant_or_self;
            bool below = step.axis != Axis::self || step.gap;
            bool descendant = step.gap || step.axis == Axis::descendant || step.axis == Axis::descendant_or_self;
            PathStep last = path_step(step, descendant);
            later.clear();
            for (Path& path : now) {
                if (self && !path.empty()) {
                    Path narrowed = path;
                    if (narrow(narrowed.back(), last)) append_distinct(later, std::move(narrowed));
                }
                if (!below || (path.empty() && last.kind != StepKind::element && !descendant)) continue;
                path.push_back(last);
                append_distinct(later, std::move(path));
            }
            now.swap(later);
            // Alternatives double with each step, so the limit is checked on the way, not at the end.
            if (out.size() + now.size() > branches + query_limits.alternatives_max) {
                Failure failure(Family::query, "TC326",
                                "more than " + std::to_string(query_limits.alternatives_max) +
                                    " alternative paths that this query stands for, the limit (alternatives_max)",
                                step.source.begin);
                failure.limit = true;
                failure.length = step.source.size;
                failure.hint = "write fewer 'descendant-or-self::' and '//self::' steps, or several queries";
                throw failure;
            }
        });
        for (Path& path : now) append_distinct(out, std::move(path));
    });
}

// Reserved prefixes follow "Namespaces in XML 1.0", section 3.
void check_bindings(const Bindings& bindings) {
    auto refuse = [](std::string message, std::string hint) {
        Failure failure(Family::query, "TC109", std::move(message));
        failure.hint = std::move(hint);
        throw failure;
    };
    for (const auto& [prefix, uri] : bindings) {
        if (find_bad_character(prefix) != prefix.size() || find_bad_character(uri) != uri.size())
            refuse("a namespace binding is not UTF-8, or holds a character that XML does not have", "");
        std::string shown(cut_text(prefix, 80));
        if (!prefix.empty() && !is_ncname(prefix))
            refuse("the prefix '" + shown + "' is not a name",
                   "a prefix is an XML name without a colon; \"\" is for names without prefix");
        if (!prefix.empty() && uri.empty())
            refuse("the prefix '" + shown + "' is bound to an empty namespace",
                   "names in no namespace are written without prefix");
        bool xml_uri = uri == "http://www.w3.org/XML/1998/namespace";
        if (prefix == "xmlns" || uri == "http://www.w3.org/2000/xmlns/" || (prefix == "xml") != xml_uri)
            refuse("the prefix '" + shown + "' cannot be bound to '" + std::string(cut_text(uri, 200)) + "'",
                   "'xml' is bound already, and 'xmlns' is no prefix");
    }
}

}  // namespace treecast
