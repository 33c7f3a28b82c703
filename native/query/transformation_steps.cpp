// Lists of steps: drop, keep, rename and unwrap, in order (ONYX, section 4.2.2: "a series of transformation steps").
// The paper gives no language for them; ours is
//
//   [from PATHS] STEP; STEP; …         STEP: drop PATHS | keep PATHS | unwrap PATHS | rename PATHS to NAME
//
// where PATHS are absolute paths with commas or bars between them.
#include "query/transformation_parser.hpp"

namespace treecast {

namespace {

constexpr const char* list_hint = "drop //a; keep //b; unwrap //c; rename //d to e";

}  // namespace

// A semicolon after the last step is allowed.
void TransformationParser::read_list() {
    scan_.skip_space();
    if (read_word("from")) {
        out_.from_ = read_list_paths(true, "from");
        scan_.skip_space();
        if (scan_.peek() == ';') ++scan_.at;
    }
    while (true) {
        scan_.skip_space();
        if (scan_.ended() && !out_.changes_.empty()) break;
        read_change();
        scan_.skip_space();
        if (scan_.ended()) break;
        if (scan_.peek() != ';') refuse_here("';' or the end of the list", list_hint);
        ++scan_.at;
    }
}

// The new name is checked against the kinds of its paths: texts have no name, and an attribute must not declare namespaces.
void TransformationParser::read_change() {
    uint32_t begin = scan_.at;
    Slice word = scan_.peek_name();
    std::string_view spelt = scan_.view(word);
    Change change;
    if (spelt == "drop") change.kind = ChangeKind::drop;
    else if (spelt == "keep") change.kind = ChangeKind::keep;
    else if (spelt == "rename") change.kind = ChangeKind::rename;
    else if (spelt == "unwrap") change.kind = ChangeKind::unwrap;
    else if (scan_.ended()) refuse("TC117", "a list has at least one step", {scan_.at, 0}, list_hint);
    else refuse("TC117", "this is no step", {begin, word.size ? word.size : scan_.character_size(begin)}, list_hint);
    if (out_.changes_.size() >= transformation_limits.changes_max)
        refuse_limit("TC327", "steps in the list", "changes_max", transformation_limits.changes_max, word);
    scan_.at = word.end();
    change.paths = read_list_paths(change.kind == ChangeKind::unwrap, change.kind == ChangeKind::unwrap ? "unwrap" : "");
    if (change.kind == ChangeKind::rename) {
        query_.each_path(change.paths, [&](uint32_t, const PathEntry& path) {
            query_.each_step(path.first, [&](uint32_t, const Step& step) {
                if (step.kind == StepKind::text) refuse("TC117", "a text has no name", step.source, "rename the element round it");
            });
        });
        if (!read_word("to")) refuse_here("'to' and a name", "rename //d to e");
        scan_.skip_space();
        Slice name = read_qname("a name");
        change.name = resolve(name, false);
        query_.each_path(change.paths, [&](uint32_t, const PathEntry& path) {
            query_.each_step(path.first, [&](uint32_t, const Step& step) {
                if (step.kind == StepKind::attribute && scan_.view(name) == "xmlns")
                    refuse("TC117", "no attribute can be called xmlns: it would declare a namespace", name, "use another name");
            });
        });
    }
    change.source = since(begin);
    out_.changes_.push_back(change);
}

// Reads absolute paths with commas or bars between them. Returns the first of the union.
uint32_t TransformationParser::read_list_paths(bool elements_only, const char* word) {
    uint32_t first = no_entry, last = no_entry, branches = 0;
    while (true) {
        const Mark before = mark();
        uint32_t path = no_entry;
        try {
            path = read_branch();
        } catch (const Failure& failure) {
            refuse_no_pattern(before, failure);
        }
        if (last == no_entry) first = path;
        else query_.paths_[last].next = path;
        last = path;
        if (++branches > query_limits.branches_max)
            refuse_limit("TC325", "paths in one union", "branches_max", query_limits.branches_max, query_.paths_[path].source);
        query_.each_step(query_.paths_[path].first, [&](uint32_t, const Step& step) {
            if (elements_only && step.kind != StepKind::element)
                refuse("TC117", std::string("'") + word + "' takes elements only", step.source, "end the path at the element");
        });
        uint32_t end = scan_.at;
        scan_.skip_space();
        if (scan_.peek() != ',' && scan_.peek() != '|') {
            scan_.at = end;
            return first;
        }
        ++scan_.at;
    }
}

}  // namespace treecast
