// The variables of a transformation, the paths that start at them, and what a shape depends on.
//
// A path from a variable is stored with the variable's number. A path from a `let` is copied, with its own entries, because
// the evaluator keeps verdicts per entry.
#include "query/transformation_parser.hpp"

namespace treecast {

Slice TransformationParser::read_variable_name() {
    ++scan_.at;
    Slice name = scan_.name();
    if (!name.size) refuse("TC101", "a variable has a name", {scan_.at - 1, 1}, "write $n, without a space");
    // A colon and an equals sign belong to `let`, not to the name.
    if (scan_.peek() == ':' && scan_.peek(1) != '=') {
        Scanner prefixed = scan_;
        ++prefixed.at;
        if (prefixed.name().size)
            refuse("TC113", "variables have no prefixes", {name.begin - 1, prefixed.at + 1 - name.begin},
                   "use a name without a colon");
    }
    return name;
}

// The innermost variable wins. Entry 0 is the document, $msg.
const TransformationParser::Variable& TransformationParser::find_variable(Slice name) {
    std::string_view wanted = scan_.view(name);
    for (size_t at = scope_variables_.size(); at-- > 1;)
        if (scan_.view(scope_variables_[at].name) == wanted) return scope_variables_[at];
    if (wanted == "msg") return scope_variables_[0];
    std::string bound = "$msg";
    for (size_t at = 1; at < scope_variables_.size(); ++at) bound += ", $" + shown(scope_variables_[at].name);
    refuse("TC113", "$" + shown(name) + " is not bound here", {name.begin - 1, name.size + 1},
           "bind it with for or let; bound here: " + bound);
}

// A later variable of the same name hides the earlier one.
void TransformationParser::declare(Slice name, Holds holds, uint32_t index) {
    if (name.size && scan_.view(name) == "msg")
        refuse("TC113", "$msg is the document and cannot be bound again", {name.begin - 1, name.size + 1}, "use another name");
    scope_variables_.push_back({name, holds, index});
}

// `suffix` is the part after the variable, read as a path of its own and then attached to it.
QueryParser::Operand TransformationParser::read_bound_path() {
    uint32_t begin = scan_.at;
    char c = scan_.peek();
    if (c != '$' && c != '/') no_pattern();
    Variable variable{{}, Holds::message, no_entry};
    if (c == '$') {
        Slice name = read_variable_name();
        variable = find_variable(name);
        if (variable.holds == Holds::shape)
            refuse("TC113", "$" + shown(name) + " holds something built, and paths lead through documents only", since(begin),
                   "use the paths that it was built from");
    }
    uint32_t end = scan_.at, suffix = no_entry;
    bool direct = variable.holds == Holds::message;
    scan_.skip_space();
    if (scan_.peek() == '[') {
        if (direct) refuse("TC105", "the document takes no predicate", {scan_.at, 1}, "put it on a step, or into 'where'");
        suffix = read_filter(begin);
    } else if (scan_.peek() == '/') {
        ++scan_.at;
        bool gap = scan_.peek() == '/';
        if (gap) ++scan_.at;
        scan_.skip_space();
        if (scan_.peek() == '[') no_pattern();
        suffix = read_path(direct, gap, begin);
    } else {
        scan_.at = end;
    }
    if (suffix == no_entry && direct && (condition_ || c == '/')) refuse_everything(since(begin));
    uint32_t path = bound_copy(variable, suffix, since(begin));
    return {Is::paths, false, Relation::eq, path, since(begin)};
}

// $n[…] as a step of its own: self::*[…].
uint32_t TransformationParser::read_filter(uint32_t begin) {
    Steps steps;
    steps.path = append(query_.paths_, PathEntry(), {begin, 1});
    Step step;
    step.axis = Axis::self;
    step.source = since(begin);
    uint32_t at = scan_.at;
    append_step(steps, step);
    if (query_.steps_[steps.last].positional)
        refuse("TC105", "a variable takes no positions", {at, scan_.at - at}, "put the position on a step: $msg/a/b[1]");
    read_more_steps(steps);
    query_.paths_[steps.path].source = since(begin);
    return steps.path;
}

// The union of what the variable stands for, followed by the steps of `suffix`.
uint32_t TransformationParser::bound_copy(const Variable& variable, uint32_t suffix, Slice source) {
    if (variable.holds != Holds::paths) {
        if (suffix != no_entry && query_.paths_[suffix].first != no_entry && variable.holds == Holds::item &&
            kinds_[variable.index] != StepKind::element)
            refuse("TC108", "$" + shown(variable.name) + " holds attributes or texts: nothing lies below them", source,
                   "put a condition into 'where', or on the step: @a[. = \"x\"]");
        uint32_t path = suffix == no_entry ? append(query_.paths_, PathEntry(), source) : suffix;
        PathEntry& entry = query_.paths_[path];
        entry.absolute = variable.holds == Holds::message;
        entry.variable = variable.holds == Holds::item ? variable.index : no_entry;
        entry.source = source;
        return path;
    }
    uint32_t first = no_entry, last = no_entry;
    for (uint32_t at = variable.index; at != no_entry; at = query_.paths_[at].next) {
        uint32_t copy = copy_path(query_.paths_[at], suffix);
        query_.paths_[copy].source = source;
        if (last == no_entry) first = copy;
        else query_.paths_[last].next = copy;
        last = copy;
    }
    return first;
}

// Copies a path and appends the steps of `suffix`. Everything below is copied too: each path has its own entries.
uint32_t TransformationParser::copy_path(const PathEntry& path, uint32_t suffix) {
    PathEntry entry = path;                // by value: the arrays grow
    entry.next = no_entry;
    entry.steps = 0;
    uint32_t last = no_entry;
    entry.first = copy_steps(path.first, last, entry.steps);
    if (suffix != no_entry) {
        uint32_t end = no_entry;
        PathEntry behind = query_.paths_[suffix];
        if (last != no_entry && query_.steps_[last].kind != StepKind::element && behind.first != no_entry)
            refuse("TC108", "nothing lies below an attribute or text()", behind.source, "end the path there");
        uint32_t more = copy_steps(behind.first, end, entry.steps);
        if (last == no_entry) entry.first = more;
        else query_.steps_[last].next = more;
    }
    if (entry.steps > query_limits.steps_max)
        refuse_limit("TC323", "steps in one path", "steps_max", query_limits.steps_max, entry.source);
    return append(query_.paths_, entry, entry.source);
}

// Appends copies to the chain that ends at `last`, and counts them for the limit.
uint32_t TransformationParser::copy_steps(uint32_t first, uint32_t& last, uint32_t& count) {
    uint32_t head = no_entry;
    for (uint32_t at = first; at != no_entry; at = query_.steps_[at].next) {
        Step step = query_.steps_[at];
        step.next = no_entry;
        step.predicates = copy_exprs(step.predicates);
        uint32_t index = append(query_.steps_, step, step.source);
        if (last == no_entry || head == no_entry) head = index;
        if (last != no_entry) query_.steps_[last].next = index;
        last = index;
        ++count;
    }
    return head;
}

uint32_t TransformationParser::copy_exprs(uint32_t first) {
    uint32_t head = no_entry, last = no_entry;
    for (uint32_t at = first; at != no_entry; at = query_.exprs_[at].next) {
        Expr expr = query_.exprs_[at];
        expr.next = no_entry;
        switch (expr.kind) {
            case ExprKind::conjunction:
            case ExprKind::disjunction:
            case ExprKind::negation: expr.first = copy_exprs(expr.first); break;
            case ExprKind::exists:
            case ExprKind::compare:
            case ExprKind::call: expr.first = copy_paths(expr.first); break;
            default: break;
        }
        uint32_t index = append(query_.exprs_, expr, expr.source);
        if (last == no_entry) head = index;
        else query_.exprs_[last].next = index;
        last = index;
    }
    return head;
}

uint32_t TransformationParser::copy_paths(uint32_t first) {
    uint32_t head = no_entry, last = no_entry;
    for (uint32_t at = first; at != no_entry; at = query_.paths_[at].next) {
        uint32_t index = copy_path(query_.paths_[at], no_entry);
        if (last == no_entry) head = index;
        else query_.paths_[last].next = index;
        last = index;
    }
    return head;
}

// XQuery would read "&amp;" in a literal as '&', XPath 1.0 as five characters. Neither is guessed.
void TransformationParser::check_literal(Slice literal) {
    if (out_.list_) return;
    std::string_view text = scan_.view(literal);
    for (size_t at = text.find('&'); at != std::string_view::npos; at = text.find('&', at + 1)) {
        size_t end = text.find_first_not_of("#abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", at + 1);
        if (end == std::string_view::npos || text[end] != ';' || end == at + 1) continue;
        Slice where{literal.begin + static_cast<uint32_t>(at), static_cast<uint32_t>(end + 1 - at)};
        refuse("TC114", "a literal in a condition holds no references", where, "write the character itself");
    }
}

// The kind of items that paths end in; elements, if some of them do.
StepKind TransformationParser::kind_of(uint32_t paths) const {
    StepKind found = StepKind::element;
    bool elements = false;
    query_.each_path(paths, [&](uint32_t, const PathEntry& path) {
        StepKind last = StepKind::element;
        query_.each_step(path.first, [&](uint32_t, const Step& step) { last = step.kind; });
        elements = elements || last == StepKind::element;
        found = last;
    });
    return elements ? StepKind::element : found;
}

// -- what a shape depends on

// Variables as bits; there are at most 64.
uint64_t TransformationParser::path_variables(uint32_t paths) const {
    uint64_t found = 0;
    query_.each_path(paths, [&](uint32_t, const PathEntry& path) {
        if (path.variable != no_entry) found |= 1ull << path.variable;
    });
    return found;
}

uint64_t TransformationParser::expr_variables(uint32_t index) const {
    uint64_t found = 0;
    const Expr& expr = query_.expr(index);
    switch (expr.kind) {
        case ExprKind::conjunction:
        case ExprKind::disjunction:
        case ExprKind::negation:
            query_.each_expr(expr.first, [&](uint32_t operand, const Expr&) { found |= expr_variables(operand); });
            break;
        case ExprKind::exists:
        case ExprKind::compare:
        case ExprKind::call: found = path_variables(expr.first); break;
        case ExprKind::term: found = query_.term(expr.first).variables; break;
        default: break;
    }
    return found;
}

// A shape depends on the variables it mentions, except those that its own clauses bind.
uint64_t TransformationParser::find_variables(uint32_t index) {
    if (index == no_entry) return 0;
    Shape& shape = out_.shapes_[index];
    uint64_t found = path_variables(shape.paths), bound = 0;
    if (shape.condition != no_entry) found |= expr_variables(shape.condition);
    if (shape.term != no_term) found |= query_.term(shape.term).variables;
    for (uint32_t child : {shape.first, shape.other})
        for (uint32_t at = child; at != no_entry; at = out_.shapes_[at].next) found |= find_variables(at);
    out_.each_clause(shape.clauses, [&](uint32_t, const Clause& clause) {
        found |= path_variables(clause.paths);
        if (clause.term != no_term) found |= query_.term(clause.term).variables;
        if (clause.condition != no_entry) found |= expr_variables(clause.condition);
        if (clause.variable != no_entry) bound |= 1ull << clause.variable;
    });
    return shape.variables = found & ~bound;
}

}  // namespace treecast
