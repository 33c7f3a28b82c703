// Query -> rows, in two passes. TreeReader turns the query into a tree of steps and refuses what the paper's language lacks.
// Decomposer walks the tree and cuts it into substrings. xtrie_rows.hpp has the rules of the decomposition.
#include "engines/xtrie_rows.hpp"

#include "engines/published.hpp"
#include "document/number.hpp"

namespace treecast {

namespace {

// A step of an expression, with everything attached to it.
struct TreeStep {
    PathStep test;                      // `descendant`: reached by `//`
    std::vector<uint32_t> branches;     // as written, the rest of the path last
    std::vector<PathStep> names;        // [self::b], [local-name() = "b"]
    std::vector<RowTest> tests;
    Slice source;
};
using Tree = std::vector<TreeStep>;     // the first step stands first

bool is_element(const TreeStep& step) { return step.test.kind == StepKind::element; }
// A wild step has no edge in the trie.
bool is_wild(const TreeStep& step) { return is_element(step) && step.test.test != Test::name; }

// Query -> trees. Refuses whatever is not a conjunctive pattern of steps that go down.
class TreeReader {
public:
    TreeReader(const Query& query, std::string_view engine, bool single_path)
        : query_(query), engine_(engine), single_path_(single_path) {}

    // A linear query has a normal form without self steps, so even `self::` is accepted there.
    std::vector<Tree> read() {
        std::vector<Tree> out;
        if (query_.linear()) {
            std::vector<Path> paths;
            query_.linear_paths(paths);
            for (const Path& path : paths) out.push_back(chain(path));
            return out;
        }
        query_.each_path(query_.branches(), [&](uint32_t, const PathEntry& path) {
            tree_.clear();
            read_steps(path.first, nullptr);
            check_branches();
            out.push_back(std::move(tree_));
        });
        return out;
    }

private:
    static Tree chain(const Path& path) {
        Tree tree(path.size());
        for (uint32_t at = 0; at < path.size(); ++at) {
            tree[at].test = path[at];
            if (at + 1 < path.size()) tree[at].branches.push_back(at + 1);
        }
        return tree;
    }

    // Adds the steps of a path and what is attached to them. Returns the first.
    uint32_t read_steps(uint32_t first, const RowTest* end) {
        uint32_t head = static_cast<uint32_t>(tree_.size()), before = none;
        query_.each_step(first, [&](uint32_t, const Step& step) {
            if (step.axis == Axis::self || step.axis == Axis::descendant_or_self)
                refuse("a step that stays at its element, beside predicates", step.source);
            uint32_t at = static_cast<uint32_t>(tree_.size());
            tree_.emplace_back();
            tree_[at].test = query_.path_step(step, step.gap || step.axis == Axis::descendant);
            tree_[at].source = step.source;
            if (before != none) tree_[before].branches.push_back(at);
            before = at;
            query_.each_expr(step.predicates, [&](uint32_t, const Expr& expr) { read_condition(at, expr); });
        });
        if (end) tree_[before].tests.push_back(*end);
        return head;
    }

    void read_condition(uint32_t at, const Expr& expr) {
        switch (expr.kind) {
            case ExprKind::conjunction:
                query_.each_expr(expr.first, [&](uint32_t, const Expr& operand) { read_condition(at, operand); });
                return;
            case ExprKind::disjunction: refuse("'or'", expr.source);
            case ExprKind::term: refuse("expressions of XPath other than paths and values", expr.source);
            case ExprKind::negation: refuse("not()", expr.source);
            case ExprKind::position:
            case ExprKind::position_last:
            case ExprKind::last: refuse("positions", expr.source);
            case ExprKind::exists: read_branch(at, expr, nullptr); return;
            case ExprKind::compare: {
                RowTest test = comparison(expr);
                read_branch(at, expr, &test);
                return;
            }
            case ExprKind::call: read_call(at, expr); return;
        }
    }

    // A function looks at the first item of a path. If there is at most one item, that equals a test of each item.
    void read_call(uint32_t at, const Expr& expr) {
        const PathEntry& path = query_.path(expr.first);
        bool single = path.first == no_entry && !path.absolute;
        if (path.steps == 1 && !path.absolute) {
            const Step& step = query_.step(path.first);
            single = step.kind == StepKind::attribute && !step.gap && step.test == Test::name;
        }
        if (!single) refuse(function_text(expr.function) + " of the first of several items", expr.source);
        RowTest test;
        test.kind = RowTest::Kind::call;
        test.function = expr.function;
        test.text = query_.view(query_.value(expr.value).text);
        if (!test.text.empty()) read_branch(at, expr, &test);      // the empty text is in every one, and in none
    }

    // The literal is converted once, here.
    RowTest comparison(const Expr& expr) const {
        const Value& value = query_.value(expr.value);
        bool equality = expr.relation == Relation::eq || expr.relation == Relation::ne;
        RowTest test;
        test.relation = expr.relation;
        test.is_number = value.is_number || !equality;      // an order is one of numbers, whatever it is written with
        if (test.is_number)
            test.number = value.is_number ? value.number : to_number(query_.view(value.text));
        else
            test.text = query_.view(value.text);
        return test;
    }

    void read_branch(uint32_t at, const Expr& expr, const RowTest* end) {
        const PathEntry& path = query_.path(expr.first);
        if (path.next != no_entry) refuse("'|' inside a predicate", expr.source);
        if (path.absolute) refuse("a path from the document inside a predicate", path.source);
        if (path.first == no_entry) {
            if (end) tree_[at].tests.push_back(*end);
            return;
        }
        // A lone self step is a test of the element's own name, not a branch.
        const Step& first = query_.step(path.first);
        if (path.steps == 1 && first.axis == Axis::self && !first.gap && first.predicates == no_entry) {
            tree_[at].names.push_back(query_.path_step(first, false));
            if (end) tree_[at].tests.push_back(*end);
            return;
        }
        if (!is_element(tree_[at])) refuse("a path below an attribute or text()", path.source);
        uint32_t branch = read_steps(path.first, end);
        tree_[at].branches.push_back(branch);
    }

    // The paper's single-path expressions are those whose steps have at most one child; a value is a child.
    void check_branches() const {
        for (const TreeStep& step : tree_) {
            if (single_path_ && step.branches.size() + !step.tests.empty() > 1)
                refuse("a step with more than one branch", step.source);
            if (step.branches.size() > xtrie_branches_max)
                refuse("a step with more than " + std::to_string(xtrie_branches_max) + " branches", step.source);
        }
    }

    [[noreturn]] void refuse(std::string_view what, Slice where) const { refuse_published(engine_, what, where); }

    const Query& query_;
    std::string_view engine_;
    bool single_path_;
    Tree tree_;
};

// Tree -> rows, depth first. The labels of named steps on the way down are on a stack, of which a substring is the end.
class Decomposer {
public:
    Decomposer(const Tree& tree, bool ordered, LabelTable& labels) : tree_(tree), ordered_(ordered), labels_(labels) {}

    Expression run() {
        Way way;
        way.rank = 1;
        descend(0, way);
        return std::move(rows_);
    }

private:
    // The way from the end of a row down to the current step.
    struct Way {
        uint32_t parent = none, rank = 0, order = 0;
        uint32_t distance = 0;          // steps so far
        bool open = false;              // one of them by `//`
        bool first_open = false;        // the first of them
        size_t begin = 0;               // of the substring that is under way, in names_
    };

    // Extends the current substring by one step, or ends it and starts new ones below.
    void descend(uint32_t index, Way way) {
        const TreeStep& step = tree_[index];
        bool first = way.distance == 0;
        size_t names = names_.size();
        ++way.distance;
        way.open |= step.test.descendant;
        if (first) way.first_open = step.test.descendant;
        if (is_wild(step) || step.test.descendant) way.begin = names;
        if (!is_wild(step)) names_.push_back(labels_.intern(step.test));
        // An ordered pattern must know the witness, the first step of a branch. Here its level would be lost, so it gets a row.
        bool lost = first && way.order && is_wild(step) && step.test.descendant && opens_later(step);
        if (!lost && !ends(step)) {
            descend(step.branches[0], way);
        } else {
            add_row(step, way);
        }
        names_.resize(names);
    }

    // Whether the substring ends here, or the `*` that no substring covers.
    bool ends(const TreeStep& step) const {
        if (step.branches.size() != 1 || !step.tests.empty() || !step.names.empty()) return true;
        if (is_wild(step)) return step.test.test != Test::any;
        const TreeStep& next = tree_[step.branches[0]];
        return next.test.descendant || is_wild(next);
    }

    // Whether a later `//` would make it unknown how far the step is above the end of the next row.
    bool opens_later(const TreeStep& step) const {
        for (const TreeStep* at = &step; !ends(*at);) {
            at = &tree_[at->branches[0]];
            if (at->test.descendant) return true;
        }
        return false;
    }

    // The tests of a wild step with a name part are kept on the row, since no edge checks them.
    void add_row(const TreeStep& step, const Way& way) {
        uint32_t index = static_cast<uint32_t>(rows_.size());
        SubstringRow& row = rows_.emplace_back();
        row.substring.assign(names_.begin() + static_cast<ptrdiff_t>(way.begin), names_.end());
        row.parent = way.parent;
        row.distance = way.distance;
        row.open = way.open;
        row.rank = way.rank;
        row.order = way.order;
        row.witness_below_parent = !way.first_open;
        row.witness_back = way.distance - 1;
        row.children = static_cast<uint32_t>(step.branches.size());
        row.tests = step.tests;
        if (is_wild(step) && step.test.test != Test::any) row.tests.push_back(name_test(step.test));
        for (const PathStep& name : step.names) row.tests.push_back(name_test(name));
        // An order needs at least two branches; a single one is always in order.
        uint32_t with_order = 0;
        if (ordered_)
            for (uint32_t branch : step.branches) with_order += is_element(tree_[branch]);
        if (with_order < 2) with_order = 0;
        row.ordered_children = with_order;

        // Ordered children get the first ranks, so that "all of them seen" is one run of bits.
        uint32_t order = 0, rank = with_order;
        for (uint32_t branch : step.branches) {
            Way below;
            below.parent = index;
            below.begin = way.begin;
            if (with_order && is_element(tree_[branch])) below.rank = below.order = ++order;
            else below.rank = ++rank;
            descend(branch, below);
        }
    }

    RowTest name_test(const PathStep& test) {
        RowTest out;
        out.kind = RowTest::Kind::name;
        out.label = labels_.intern(test);
        return out;
    }

    const Tree& tree_;
    bool ordered_;
    LabelTable& labels_;
    Expression rows_;
    std::vector<uint32_t> names_;       // labels of the named steps above and at the current one
};

}  // namespace

std::vector<Expression> decompose(const Query& query, bool ordered, bool single_path, std::string_view engine,
                                  LabelTable& labels) {
    std::vector<Tree> trees = TreeReader(query, engine, single_path).read();
    std::vector<Expression> out;
    for (const Tree& tree : trees) out.push_back(Decomposer(tree, ordered, labels).run());
    return out;
}

}  // namespace treecast
