// Reads paths and steps.
//
// A node test becomes a Step only if it can select an element, an attribute or a text.
// `.`, self::node() and descendant-or-self::node() only say how their neighbours connect, so they vanish into that.
//
// After a step is complete, settle() rewrites it into the one spelling for its meaning. Equal queries then get equal keys.
#include "query/query_parser.hpp"

#include <algorithm>

namespace treecast {

namespace {

constexpr std::string_view xml_uri = "http://www.w3.org/XML/1998/namespace";
constexpr size_t xml_binding = static_cast<size_t>(-1);

}  // namespace

void parse_query(std::string_view text, const Bindings& bindings, Query& out) {
    QueryParser(out, bindings).parse(text);
}

void parse_as_written(std::string_view text, const Bindings& bindings, Query& out) {
    QueryParser(out, bindings).parse_as_written(text);
}

// Parsing also proves that the query can be printed and expanded within the limits. Later code relies on that.
void QueryParser::parse(std::string_view text) {
    begin(text);
    const Mark start = mark();
    try {
        read_branches();
    } catch (const Failure& failure) {
        if (failure.limit) throw;
        go_back(start);
        query_.linear_ = true;
        read_whole();
    }
    // The canonical text may be up to three times as long, and must be readable too.
    if (text.size() > query_limits.text_bytes_max / 4 && query_.text().size() > query_limits.text_bytes_max)
        refuse_limit("TC321", "bytes of canonical text", "text_bytes_max", query_limits.text_bytes_max, {});
    if (query_.linear_ && query_.alternatives_) {
        std::vector<Path> counted;
        query_.expand(counted);
    }
}

// Every text that is accepted is a term, too.
void QueryParser::parse_as_written(std::string_view text) {
    begin(text);
    is_accepted_ = true;
    query_.selection_ = read_whole_term();
}

// Takes over the text after checking its size, encoding and characters.
void QueryParser::begin(std::string_view text) {
    query_.clear();
    if (text.size() > query_limits.text_bytes_max) {
        query_.text_size_ = 0;
        Slice where{static_cast<uint32_t>(cut_text(text, query_limits.text_bytes_max).size()), 0};
        refuse_limit("TC321", "bytes of text", "text_bytes_max", query_limits.text_bytes_max, where);
    }
    query_.text_size_ = static_cast<uint32_t>(text.size());
    query_.text_.resize(text.size() + 1);
    std::copy(text.begin(), text.end(), query_.text_.begin());
    query_.text_.back() = '\0';
    query_.text_end_ = query_.text_size_ + 1;
    scan_.reset(query_.text_.data(), query_.text_size_);
    size_t bad = find_bad_character(text);
    if (bad != text.size()) {
        Slice where{static_cast<uint32_t>(bad), scan_.character_size(static_cast<uint32_t>(bad))};
        refuse("TC110", "the query is not UTF-8, or holds a character that XML does not have", where,
               "leave it out, or write the query in UTF-8");
    }
    // The empty prefix binds unprefixed element names, never attributes. The last binding wins.
    for (size_t i = 0; i < bindings_.size(); ++i) {
        if (!bindings_[i].first.empty() || bindings_[i].second.empty()) continue;
        default_uri_ = store_uri(i, bindings_[i].second);
        default_bound_ = true;
    }
}

// The top-level union.
void QueryParser::read_branches() {
    uint32_t branches = 0, last = no_entry;
    while (true) {
        uint32_t path = read_branch();
        if (last == no_entry) query_.branches_ = path;
        else query_.paths_[last].next = path;
        last = path;
        if (++branches > query_limits.branches_max)
            refuse_limit("TC325", "paths in one union", "branches_max", query_limits.branches_max,
                         query_.paths_[path].source);
        scan_.skip_space();
        if (scan_.ended()) return;
        if (scan_.peek() != '|' || scan_.peek(1) == '|') no_pattern();
        ++scan_.at;
    }
}

// A branch must be absolute, or start with $msg, which means the same.
uint32_t QueryParser::read_branch() {
    scan_.skip_space();
    in_branch_ = true;
    context_ = StepKind::element;
    uint32_t begin = scan_.at;
    message_ = scan_.peek() == '$' && read_variable();
    if (scan_.peek() != '/') {
        if (message_) refuse_everything(since(begin));
        if (scan_.peek() == '(')
            refuse("TC105", "this path takes no parentheses", {begin, 1}, "(//a)[1] is /descendant::a[1]; (/a | /b)/c is /a/c | /b/c");
        no_pattern();
    }
    ++scan_.at;
    bool gap = scan_.peek() == '/';
    if (gap) ++scan_.at;
    scan_.skip_space();
    if (!gap && (scan_.ended() || scan_.peek() == '|')) refuse_everything(since(begin));
    return read_path(true, gap, begin);
}

// Reads `$msg` and returns true; any other variable is refused.
bool QueryParser::read_variable() {
    uint32_t begin = scan_.at++;
    Slice name = scan_.name();
    if (scan_.view(name) != "msg") refuse_variable(since(begin));
    scan_.skip_space();
    return true;
}

// The entry is appended first, so that its steps and their predicates come after it.
uint32_t QueryParser::read_path(bool absolute, bool gap, uint32_t begin) {
    Steps steps;
    PathEntry entry;
    entry.absolute = absolute;
    steps.path = append(query_.paths_, entry, {begin, 1});
    steps.gap = gap;
    steps.gap_source = since(begin);
    read_steps(steps);
    // Only `.` steps came: absolute, that is the document itself.
    if (absolute && query_.paths_[steps.path].first == no_entry) refuse_everything(since(begin));
    query_.paths_[steps.path].source = since(begin);
    return steps.path;
}

void QueryParser::read_steps(Steps& steps) {
    read_step(steps);
    read_more_steps(steps);
}

// White space after a path is given back: the caller may want to report its own position.
void QueryParser::read_more_steps(Steps& steps) {
    while (true) {
        uint32_t end = scan_.at;
        while (true) {
            scan_.skip_space();
            if (scan_.peek() != '/') {
                // A `//` that no step follows would select everything.
                if (steps.gap) refuse_everything(steps.gap_source);
                settle(steps);
                scan_.at = end;
                return;
            }
            uint32_t slash = scan_.at++;
            bool gap = scan_.peek() == '/';
            if (gap) ++scan_.at;
            steps.gap_source = gap ? Slice{slash, 2} : steps.gap_source;
            scan_.skip_space();
            if (scan_.peek() != '[') {
                settle(steps);
                steps.gap = steps.gap || gap;
                break;
            }
            // x/[p] means x[p]: the predicates go to the step before.
            if (gap || steps.gap || steps.bare || steps.last == no_entry) no_pattern();
            read_predicates(steps.last);
            end = scan_.at;
        }
        read_step(steps);
    }
}

// Tells an axis, a kind test and a plain name apart by what follows the first name.
void QueryParser::read_step(Steps& steps) {
    uint32_t begin = scan_.at;
    char c = scan_.peek();
    steps.bare = false;
    if (c == '@') {
        ++scan_.at;
        scan_.skip_space();
        read_node_test(steps, Axis::attribute, begin);
        return;
    }
    if (c == '.') {
        if (scan_.peek(1) == '.') refuse_direction("parent", {begin, 2});
        ++scan_.at;
        steps.bare = true;
        scan_.skip_space();
        if (scan_.peek() == '[') no_pattern();
        scan_.at = begin + 1;
        return;
    }
    Slice name = scan_.name();
    if (!name.size) {
        read_node_test(steps, Axis::child, begin);
        return;
    }
    char after = scan_.peek();
    if (after != '/' && after != '\0' && after != '[') {   // PERF: parse_count; most names end so
        uint32_t end = scan_.at;
        scan_.skip_space();
        if (scan_.peek() == ':' && scan_.peek(1) == ':') {
            static constexpr std::pair<std::string_view, Axis> axes[] = {
                {"child", Axis::child}, {"descendant", Axis::descendant}, {"self", Axis::self},
                {"descendant-or-self", Axis::descendant_or_self}, {"attribute", Axis::attribute}};
            for (const auto& [spelling, axis] : axes) {
                if (scan_.view(name) != spelling) continue;
                scan_.at += 2;
                scan_.skip_space();
                read_node_test(steps, axis, begin);
                return;
            }
            refuse_direction(scan_.view(name), {begin, scan_.at + 2 - begin});
        }
        if (scan_.peek() == '(') {
            read_kind_test(steps, Axis::child, name, begin);
            return;
        }
        scan_.at = end;
    }
    Step step;
    read_name(step, name);
    step.source = since(begin);
    append_step(steps, step);
}

// A test after `@` or an axis, or a test that does not begin with a name.
void QueryParser::read_node_test(Steps& steps, Axis axis, uint32_t begin) {
    Step step;
    step.axis = axis;
    step.kind = axis == Axis::attribute ? StepKind::attribute : StepKind::element;
    if (scan_.peek() == '*') {
        ++scan_.at;
        if (scan_.peek() == ':') no_pattern();
    } else {
        Slice name = scan_.name();
        if (!name.size) no_pattern();
        uint32_t end = scan_.at;
        scan_.skip_space();
        if (scan_.peek() == '(') {
            read_kind_test(steps, axis, name, begin);
            return;
        }
        scan_.at = end;
        read_name(step, name);
    }
    step.source = since(begin);
    append_step(steps, step);
}

// text(), and node() where it only connects. `name` has been read, but not the parenthesis.
void QueryParser::read_kind_test(Steps& steps, Axis axis, Slice name, uint32_t begin) {
    std::string_view kind = scan_.view(name);
    bool known = kind == "text" || kind == "node" || kind == "comment" || kind == "processing-instruction";
    if (!known) no_pattern();
    bool connects = kind == "node" && (axis == Axis::self || axis == Axis::descendant_or_self);
    bool text = kind == "text" && (axis == Axis::child || axis == Axis::descendant);
    if (!connects && !text) refuse_kind_test(name, axis);
    ++scan_.at;
    scan_.skip_space();
    if (scan_.peek() != ')') no_pattern();
    ++scan_.at;
    if (text) {
        Step step;
        step.axis = axis;
        step.kind = StepKind::text;
        step.source = since(begin);
        append_step(steps, step);
        return;
    }
    if (axis == Axis::descendant_or_self) {
        bool below_value = steps.last != no_entry && query_.steps_[steps.last].kind != StepKind::element;
        if (below_value) refuse_everything(since(begin));
        steps.gap = true;
        steps.gap_source = since(begin);
    }
    steps.bare = true;
    Slice written = since(begin);
    scan_.skip_space();
    if (scan_.peek() == '[')
        refuse("TC103", "node() takes no predicate here", {scan_.at, 1}, "put it on the step before, or write " +
               std::string(axis == Axis::self ? "self::*[…]" : "descendant-or-self::*[…]"));
    scan_.at = written.end();
}

// Reads the rest of a QName whose first part has been read, and looks up its namespace.
void QueryParser::read_name(Step& step, Slice first) {
    step.test = Test::name;
    step.local = first;
    if (scan_.peek() != ':' || scan_.peek(1) == ':') {
        if (step.kind == StepKind::element && default_bound_) step.uri = default_uri_;
        return;
    }
    ++scan_.at;
    step.prefix = first;
    if (scan_.peek() == '*') {
        ++scan_.at;
        step.test = Test::any_namespace;
        step.local = {};
    } else {
        step.local = scan_.name();
        if (!step.local.size) refuse_here("a name after the prefix");
    }
    step.uri = bind(scan_.view(first), first);
}

// Checks that something can be below the step before, then links the new step and reads its predicates.
void QueryParser::append_step(Steps& steps, Step step) {
    if (steps.last != no_entry && query_.steps_[steps.last].kind != StepKind::element) {
        const char* what = query_.steps_[steps.last].kind == StepKind::text ? "text()" : "an attribute";
        refuse("TC108", std::string("nothing lies below ") + what, step.source, "end the path there");
    }
    if (steps.last == no_entry && !query_.paths_[steps.path].absolute && context_ != StepKind::element) {
        const char* what = context_ == StepKind::text ? "text()" : "an attribute";
        refuse("TC108", std::string("nothing lies below ") + what, step.source,
               "compare '.' instead, as in @a[. = \"x\"]");
    }
    PathEntry& path = query_.paths_[steps.path];
    if (++path.steps > query_limits.steps_max)
        refuse_limit("TC323", "steps in one path", "steps_max", query_limits.steps_max, step.source);
    step.gap = steps.gap;
    steps.gap = false;
    uint32_t index = append(query_.steps_, step, step.source);
    if (steps.last == no_entry) path.first = index;
    else query_.steps_[steps.last].next = index;
    steps.last = index;
    uint32_t end = scan_.at;
    scan_.skip_space();
    if (scan_.peek() == '[') read_predicates(index);
    else scan_.at = end;
}

// One spelling for one meaning; see Step.
// Predicates that count positions make the spellings differ, so this waits until all have been read.
// Settling a step twice changes nothing.
void QueryParser::settle(const Steps& steps) {
    if (steps.last == no_entry) return;
    const PathEntry& path = query_.paths_[steps.path];
    Step& step = query_.steps_[steps.last];
    settle_axis(step, path.absolute && path.first == steps.last);
    if (!in_branch_) return;
    if (step.predicates != no_entry) query_.linear_ = false;
    if (step.axis == Axis::self || step.axis == Axis::descendant_or_self) query_.alternatives_ = true;
}

void QueryParser::settle_axis(Step& step, bool below_document) {
    // The document is not an element, so below it `or-self` adds nothing. (After `//` the step starts at elements too.)
    if (below_document && !step.gap && step.axis == Axis::descendant_or_self) step.axis = Axis::descendant;
    if (step.positional || step.axis == Axis::attribute) return;
    bool or_self = step.axis == Axis::descendant_or_self || (step.axis == Axis::self && step.gap);
    if (or_self && !below_document) {
        step.axis = Axis::descendant_or_self;
        step.gap = false;
    } else if (or_self || step.axis == Axis::descendant) {
        step.axis = Axis::child;
        step.gap = true;
    }
}

// Searches backward, so that inner bindings hide outer ones.
Slice QueryParser::bind(std::string_view prefix, Slice source) {
    if (prefix == "xml") return store_uri(xml_binding, xml_uri);
    for (size_t i = bindings_.size(); i-- > 0;)       // the innermost constructor of a transformation comes last
        if (bindings_[i].first == prefix) return store_uri(i, bindings_[i].second);
    refuse_unbound(prefix, source);
}

// Each URI is stored once per query, however many steps use it.
Slice QueryParser::store_uri(size_t binding, std::string_view uri) {
    for (const auto& [stored, slice] : query_.stored_)
        if (stored == binding) return slice;
    Slice slice{static_cast<uint32_t>(query_.uris_.size()), static_cast<uint32_t>(uri.size())};
    query_.uris_.insert(query_.uris_.end(), uri.begin(), uri.end());
    query_.stored_.emplace_back(binding, slice);
    return slice;
}

// Recursive descent uses the native stack, so depth needs a limit.
QueryParser::Nesting::Nesting(QueryParser& parser, uint32_t at) : parser_(parser) {
    if (parser_.depth_ == query_limits.depth_max) parser_.refuse_depth({at, 1});
    ++parser_.depth_;
}

}  // namespace treecast
