// Transformation -> Program: one pass over the shapes, in the order in which they are written.
//
// Everything that does not depend on a document is done here: escaping, tags, keys, and which paths are direct.
#include "render/render_plan.hpp"

#include "render/escape.hpp"

#include <algorithm>

namespace treecast {

namespace {

constexpr size_t key_bytes_max = 4096;           // longer ones are not shared

// Appends to the program. An op is followed by what is inside it, so running it needs no pointers.
class Planner {
public:
    Planner(Program& program, Keys& keys, PathNames& names)
        : plan_(program), all_(*program.all), query_(program.all->query()), keys_(keys), names_(names) {}

    void plan(uint32_t root, bool clauses) {
        if (clauses) flwr(root, all_.shape(root), false);
        else shape(root);
        for (auto* entries : {&plan_.paths, &plan_.conditions}) {
            std::sort(entries->begin(), entries->end());
            entries->erase(std::unique(entries->begin(), entries->end()), entries->end());
        }
    }

private:
    // An op under construction: what is added during its lifetime is inside it.
    class Opened {
    public:
        Opened(Planner& planner, OpKind kind, uint32_t shape) : planner_(planner), at_(planner.plan_.ops.size()) {
            planner.plan_.ops.push_back({});
            op().kind = kind;
            op().shape = shape;
        }
        ~Opened() { op().end = static_cast<uint32_t>(planner_.plan_.ops.size()); }
        Opened(const Opened&) = delete;
        Opened& operator=(const Opened&) = delete;
        Op& op() { return planner_.plan_.ops[at_]; }     // moves when others are added

    private:
        Planner& planner_;
        size_t at_;
    };

    void shapes(uint32_t first) {
        all_.each_shape(first, [&](uint32_t index, const Shape&) { shape(index); });
    }

    void shape(uint32_t index) {
        const Shape& shape = all_.shape(index);
        switch (shape.kind) {
            case ShapeKind::enclosed:
            case ShapeKind::sequence: {
                Opened opened(*this, OpKind::sequence, index);
                shapes(shape.first);
                break;
            }
            case ShapeKind::flwr: flwr(index, shape, true); break;
            case ShapeKind::element: element(index, shape); break;
            case ShapeKind::attribute: {
                Opened opened(*this, OpKind::attribute, index);
                value_parts(shape.first);
                break;
            }
            case ShapeKind::text: Opened(*this, OpKind::text, index).op().literal = escaped(all_.view(shape.text)); break;
            case ShapeKind::comment:
            case ShapeKind::instruction: markup(index, shape); break;
            case ShapeKind::choice: {
                Opened opened(*this, OpKind::choice, index);
                opened.op().entry = shape.condition;
                plan_.conditions.push_back(shape.condition);
                this->shape(shape.first);
                this->shape(shape.other);
                break;
            }
            case ShapeKind::items: {
                Opened opened(*this, OpKind::items, index);
                paths(opened.op(), shape.paths);
                break;
            }
            case ShapeKind::term:
                if (query_.term(shape.term).type == TermType::items) {
                    Opened(*this, OpKind::term_items, index).op().entry = shape.term;
                    break;
                }
                [[fallthrough]];
            default: value(index, shape);
        }
    }

    // A literal or a function. Paths inside functions stand for the string of their first item.
    void value(uint32_t index, const Shape& shape) {
        OpKind kind = shape.kind == ShapeKind::value     ? OpKind::value
                      : shape.kind == ShapeKind::items   ? OpKind::string_of
                      : shape.kind == ShapeKind::count   ? OpKind::count
                      : shape.kind == ShapeKind::name_of ? OpKind::name_of
                      : shape.kind == ShapeKind::term    ? OpKind::term
                                                         : OpKind::joined;
        Opened opened(*this, kind, index);
        if (kind == OpKind::term) opened.op().entry = shape.term;
        if (kind == OpKind::value) opened.op().literal = escaped(all_.view(shape.text));
        if (shape.paths != no_entry) paths(opened.op(), shape.paths);
        all_.each_shape(shape.first, [&](uint32_t argument, const Shape& given) { value(argument, given); });
    }

    void markup(uint32_t index, const Shape& shape) {
        bool comment = shape.kind == ShapeKind::comment;
        size_t begin = plan_.literals.size();
        ((plan_.literals += comment ? "<!--" : "<?") += all_.view(shape.text)) += comment ? "-->" : "?>";
        Opened(*this, OpKind::markup, index).op().literal = since(begin);
    }

    // -- literals

    Slice since(size_t begin) const {
        return {static_cast<uint32_t>(begin), static_cast<uint32_t>(plan_.literals.size() - begin)};
    }
    Slice escaped(std::string_view text) {
        size_t begin = plan_.literals.size();
        if (in_value_) append_escaped_attribute(text, plan_.literals);
        else append_escaped_text(text, plan_.literals);
        return since(begin);
    }
    void name(const Name& name) {
        if (name.prefix.size) (plan_.literals += all_.view(name.prefix)) += ':';
        plan_.literals += all_.view(name.local);
    }

    // -- constructors

    // A plain element needs no look at namespaces, unless some are in force already.
    void element(uint32_t index, const Shape& shape) {
        Opened opened(*this, OpKind::element, index);
        size_t begin = plan_.literals.size();
        plan_.literals += '<';
        name(shape.name);
        opened.op().literal = since(begin);
        bool plain = !shape.name.prefix.size && !shape.name.uri.size && shape.declarations == no_entry;
        all_.each_shape(shape.other, [&](uint32_t, const Shape& attribute) { plain = plain && !attribute.name.prefix.size; });
        opened.op().plain = plain;
        // An empty element is cheaper to write than to look up.
        if (shape.first != no_entry || shape.other != no_entry) share(opened.op(), index, shape);
        all_.each_shape(shape.other, [&](uint32_t other, const Shape& attribute) { tag_attribute(other, attribute); });
        shapes(shape.first);
    }

    // A constant attribute is one literal, with its quotes.
    void tag_attribute(uint32_t index, const Shape& attribute) {
        Opened opened(*this, OpKind::tag_attribute, index);
        bool constant = true;
        all_.each_shape(attribute.first, [&](uint32_t, const Shape& part) { constant = constant && part.kind == ShapeKind::text; });
        size_t begin = plan_.literals.size();
        plan_.literals += ' ';
        name(attribute.name);
        plan_.literals += "=\"";
        if (constant) {
            all_.each_shape(attribute.first, [&](uint32_t, const Shape& part) {
                append_escaped_attribute(all_.view(part.text), plan_.literals);
            });
            plan_.literals += '"';
        }
        opened.op().literal = since(begin);
        opened.op().constant = constant;
        if (!constant) value_parts(attribute.first);
    }

    void value_parts(uint32_t first) {
        in_value_ = true;
        shapes(first);
        in_value_ = false;
    }

    // Very long keys are not worth their memory.
    void share(Op& op, uint32_t index, const Shape& shape) {
        std::vector<uint32_t> order;
        std::string key("s");
        key += all_.shape_key(index, order);
        if (key.size() > key_bytes_max) return;
        op.key = keys_.use(key);
        op.first = static_cast<uint32_t>(plan_.variables.size());
        for (uint32_t variable : order)
            if (shape.variables >> variable & 1) plan_.variables.push_back(variable);
        op.count = static_cast<uint32_t>(plan_.variables.size()) - op.first;
    }

    // -- clauses

    // Without `whole`, only the clauses are wanted: the body has a program of its own.
    void flwr(uint32_t index, const Shape& shape, bool whole) {
        Opened opened(*this, OpKind::flwr, index);
        Op& op = opened.op();
        op.first = static_cast<uint32_t>(plan_.variables.size());
        all_.each_clause(shape.clauses, [&](uint32_t, const Clause& clause) {
            if (clause.paths != no_entry) plan_.paths.push_back(clause.paths);
            if (clause.condition != no_entry) plan_.conditions.push_back(clause.condition);
            if (clause.kind != ClauseKind::each) return;
            op.binds = plan_.binds = true;
            if (clause.variable != no_entry) plan_.variables.push_back(clause.variable);
        });
        op.count = static_cast<uint32_t>(plan_.variables.size()) - op.first;
        std::vector<uint32_t> order;
        std::string key = clauses_key(all_, shape.clauses, order);
        // Only clauses that depend on no outer variable have a key.
        if (order.size() == op.count && key.size() <= key_bytes_max) op.key = keys_.use(key);
        if (whole) this->shape(shape.first);
    }

    // -- paths

    void paths(Op& op, uint32_t first) {
        op.entry = first;
        if (!direct(op, query_.path(first))) plan_.paths.push_back(first);
    }

    // A path that goes down by name without predicates. The evaluator could not do better.
    bool direct(Op& op, const PathEntry& path) {
        if (path.next != no_entry) return false;
        for (uint32_t at = path.first; at != no_entry; at = query_.step(at).next) {
            const Step& step = query_.step(at);
            bool down = step.axis == Axis::child || (step.axis == Axis::attribute && step.kind == StepKind::attribute);
            if (!down || step.gap || step.predicates != no_entry) return false;
            if (step.kind != StepKind::text && step.test != Test::any && step.test != Test::name) return false;
        }
        op.first = static_cast<uint32_t>(plan_.steps.size());
        plan_.steps.push_back({path.variable, StepKind::element, false});
        query_.each_step(path.first, [&](uint32_t, const Step& step) {
            bool any = step.kind == StepKind::text || step.test == Test::any;
            plan_.steps.push_back({any ? no_entry : names_.number(query_.uri(step), query_.view(step.local)), step.kind, any});
        });
        op.count = static_cast<uint32_t>(plan_.steps.size()) - op.first - 1;
        return true;
    }

    Program& plan_;
    const Transformation& all_;
    const Query& query_;
    Keys& keys_;
    PathNames& names_;
    bool in_value_ = false;
};

// A condition as a key: canonical, with lengths before texts, so that no two conditions share one.
void condition_key(const Transformation& all, uint32_t index, std::vector<uint32_t>& order, std::string& key) {
    const Query& query = all.query();
    const Expr& expr = query.expr(index);
    key += static_cast<char>('A' + static_cast<int>(expr.kind));
    switch (expr.kind) {
        case ExprKind::conjunction:
        case ExprKind::disjunction:
        case ExprKind::negation:
            key += '(';
            query.each_expr(expr.first, [&](uint32_t operand, const Expr&) { condition_key(all, operand, order, key); });
            key += ')';
            break;
        case ExprKind::term: {
            std::string text = all.term_key(expr.first, order);
            ((key += std::to_string(text.size())) += ':') += text;
            break;
        }
        default:
            key += all.paths_key(expr.first, order);
            if (expr.value == no_entry) break;
            const Value& value = query.value(expr.value);
            key += static_cast<char>('0' + static_cast<int>(expr.relation));
            if (value.is_number) key += value.negative ? "-n" : "n";
            ((key += std::to_string(value.text.size)) += ':') += query.view(value.text);
    }
}

}  // namespace

std::string clauses_key(const Transformation& all, uint32_t clauses, std::vector<uint32_t>& order) {
    std::string key(1, 'c');
    all.each_clause(clauses, [&](uint32_t, const Clause& clause) {
        switch (clause.kind) {
            case ClauseKind::each:
                key += 'f';
                key += all.paths_key(clause.paths, order);
                if (clause.variable != no_entry) order.push_back(clause.variable);
                break;
            case ClauseKind::where: condition_key(all, clause.condition, order, key); break;
            case ClauseKind::order:
                key += clause.counts ? 'n' : clause.strings ? 's' : 'o';
                key += clause.descending ? 'd' : 'a';
                key += clause.empty_greatest ? 'g' : 'l';
                if (clause.term != no_term) {
                    std::string text = all.term_key(clause.term, order);
                    (((key += 't') += std::to_string(text.size())) += ':') += text;
                }
                key += all.paths_key(clause.paths, order);
                break;
        }
        key += ';';
    });
    return key;
}

std::shared_ptr<Program> make_program(std::shared_ptr<Transformation> all, uint32_t shape, bool clauses, Keys& keys,
                                            PathNames& names) {
    auto program = std::make_shared<Program>();
    program->all = std::move(all);
    Planner(*program, keys, names).plan(shape, clauses);
    if (clauses) return program;
    // The variables that the body finds bound, in the order in which its key mentions them.
    std::vector<uint32_t> order;
    program->all->shape_key(shape, order);
    for (uint32_t variable : order)
        if (program->all->shape(shape).variables >> variable & 1) program->outer.push_back(variable);
    return program;
}

uint64_t Program::bytes() const {
    constexpr uint64_t tree_bytes_per_byte = 24;         // entries of the syntax tree, by the text they came from
    return sizeof(Program) + all->written().size() * tree_bytes_per_byte + literals.capacity() + ops.capacity() * sizeof(Op) +
           steps.capacity() * sizeof(DirectStep);
}

}  // namespace treecast
