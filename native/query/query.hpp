// text -> Query: the path language of treecast, parsed, named, limited, printed. Grammar: docs/guide/language.md.
//
// An invalid query is a Failure (Family::query) with one of these codes; tests/errors holds one of each:
//
//   TC101  not a query: something is missing, left over or misspelt
//   TC102  the axis namespace::, or none at all
//   TC103  a function that XPath 1.0 does not have, id(), or too many or too few arguments
//   TC104  a relative path at the top level, or an expression that depends on a context
//   TC105  variables, comments, and parentheses in place of a step
//   TC106  an argument or operand that is no path where XPath 1.0 asks for one
//   TC109  a prefix without a namespace, or an invalid binding
//   TC110  not UTF-8, or a character that XML does not have
//   TC112  or, not(), positions and other things that have no place in an ordered pattern
//   TC116  expressions of XPath 2.0 and XQuery: if (…), for $x, some $x
//
//   (TC107 and TC108 belong to transformations, whose paths have to select something; TC14x belongs to the index, TC30x to documents.)
//   TC321  text longer than query_limits.text_bytes_max
//   TC322  brackets and parentheses nested deeper than depth_max
//   TC323  more steps in one path than steps_max
//   TC324  more entries (paths, steps, conditions, values) than entries_max
//   TC325  more paths in one union than branches_max
//   TC326  `descendant-or-self::` and `//self::` that stand for more paths than alternatives_max
#pragma once

#include "query/functions.hpp"
#include "query/path.hpp"
#include "query/term.hpp"
#include "query/token.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace treecast {

// prefix -> URI; the prefix "" binds unprefixed element names.
using Bindings = std::vector<std::pair<std::string, std::string>>;

struct QueryLimits {
    uint32_t text_bytes_max = 64u << 10;
    uint32_t depth_max = 64;
    uint32_t steps_max = 256;         // of one path
    uint32_t entries_max = 8192;      // of the whole query
    uint32_t branches_max = 256;      // of one union
    uint32_t alternatives_max = 64;   // paths that the normal form has beyond those that were written
};
constexpr QueryLimits query_limits;

// The syntax tree is four flat arrays whose entries refer to each other by index.
// Lists (the branches of a union, the steps of a path, the predicates of a step, the operands of `and`) are linked by `next`.
// Query::each walks them.
constexpr uint32_t no_entry = 0xFFFFFFFFu;

enum class Axis : uint8_t { child, descendant, descendant_or_self, self, attribute };

// A step after reading: `.` and node() are gone.
// Where no predicate counts positions, the axis has one spelling: descendant::a, //a and //descendant::a are all gap + child,
// and //self::a is descendant_or_self. With positions they differ: gap + child numbers the a's of each parent,
// descendant numbers them all together.
struct Step {
    Axis axis = Axis::child;
    bool gap = false;                 // written after `//`, that is after /descendant-or-self::node()/
    StepKind kind = StepKind::element;
    Test test = Test::any;
    bool positional = false;          // one of its predicates uses position(), last() or [n]
    uint32_t next = no_entry;         // the step after it
    uint32_t predicates = no_entry;   // its first predicate, an Expr
    Slice prefix, local;              // as written, in the query's text
    Slice uri;                        // in the query's own store of URIs
    Slice source;                     // the step in the text, without its predicates
};

// A path. Without steps it is `.`, the context itself; an absolute one without steps is the document.
// Only paths in predicates may be relative, and paths that start at a variable of a transformation (transformation.hpp).
struct PathEntry {
    bool absolute = false;
    uint32_t variable = no_entry;     // of a transformation: the number of the variable that it starts at
    uint32_t first = no_entry;        // its first step
    uint32_t steps = 0;
    uint32_t next = no_entry;         // the next branch of the union
    Slice source;
};

enum class Relation : uint8_t { eq, ne, lt, le, gt, ge };
constexpr bool is_equality(Relation relation) { return relation == Relation::eq || relation == Relation::ne; }

enum class ExprKind : uint8_t {
    conjunction,     // and: the operands from `first` on
    disjunction,     // or
    negation,        // not(): the operand `first`
    exists,          // the union of paths from `first` on is not empty
    compare,         // the paths from `first` on, `relation`, `value`: the path always stands on the left
    call,            // function(path, value): of the first item of the path `first`
    position,        // position() relation value
    position_last,   // position() relation last()
    last,            // last() relation value
    term,            // boolean(the Term `first`). It requires the Expr `value`, if there is one: see query_relax.cpp
};

struct Expr {
    ExprKind kind = ExprKind::exists;
    Relation relation = Relation::eq;
    Function function{};              // of a call
    uint32_t first = no_entry;        // Expr of and, or, not; PathEntry of exists, compare, call; Term of term
    uint32_t value = no_entry;        // Value of compare, call, position, last; Expr of term
    uint32_t next = no_entry;         // the next operand, or the next predicate of the step
    uint32_t derived = no_entry;      // Derived: what it requires besides, for those who understand that
    Slice source;                     // of a predicate: with its brackets
};

// What a term says of a value that functions make of one item: normalize-space(b) = "x". See derivation.hpp.
struct Derived {
    std::string program;              // of a Derivation
    uint32_t path = no_entry;         // PathEntry: of which item
    uint32_t value = no_entry;        // Value
    Relation relation = Relation::eq;
    Function function{};
    bool is_call = false;             // `function`, not `relation`
    bool is_exact = false;            // the term says this of the first item of the path; else it requires it of some item
    bool holds_without = false;       // an exact one holds where there is no item, too
};

struct Value {
    bool is_number = false, negative = false;
    double number = 0;                // with its sign
    Slice text;                       // inside the quotes, or the digits as written without the sign
};

// Its arrays are reused: parse_query clears and refills the Query it is given. Copies are independent.
class Query {
public:
    bool linear() const { return linear_; }         // no predicates: every branch is a plain path
    // The normal form of a linear query: its distinct plain paths, with `self::` merged into the step before and
    // `descendant-or-self::` spelled out. It is empty if the query can never match (/a/self::b, /@x).
    // The views are valid until the Query is destroyed or refilled. `out` is refilled; the vectors in it are reused.
    void linear_paths(std::vector<Path>& out) const;
    std::string text() const;                       // canonical: parses to an equal Query under the same bindings
    std::string key() const;                        // canonical with expanded names: equal for equal queries
    std::string_view written() const { return {text_.data(), text_size_}; }

    // The Values that are literals written before byte `end`, in the order of the text; and a way to replace their texts.
    std::vector<uint32_t> literals_before(size_t end) const;
    void fill(const std::vector<uint32_t>& values, const std::vector<std::string_view>& texts);

    uint32_t branches() const { return branches_; } // the first PathEntry of the top-level union

    // What is no union of paths is a condition of the document: its branch is /*[condition]. If it is a set of items all the same,
    // as (//a)[2] is, `selection` is its Term.
    bool is_condition() const { return is_condition_; }
    uint32_t selection() const { return selection_; }
    bool has_terms() const { return !terms_.empty(); }
    const Term& term(uint32_t index) const { return terms_[index]; }
    const TermStep& term_step(uint32_t index) const { return term_steps_[index]; }
    uint32_t terms() const { return static_cast<uint32_t>(terms_.size()); }
    uint32_t term_steps() const { return static_cast<uint32_t>(term_steps_.size()); }
    std::string_view uri(const TermStep& step) const { return {uris_.data() + step.uri.begin, step.uri.size}; }
    const PathEntry& path(uint32_t index) const { return paths_[index]; }
    const Step& step(uint32_t index) const { return steps_[index]; }
    const Expr& expr(uint32_t index) const { return exprs_[index]; }
    const Value& value(uint32_t index) const { return values_[index]; }
    const Derived& derived(uint32_t index) const { return derived_[index]; }
    std::string_view view(Slice slice) const { return {text_.data() + slice.begin, slice.size}; }
    std::string_view uri(const Step& step) const { return {uris_.data() + step.uri.begin, step.uri.size}; }
    PathStep path_step(const Step& step, bool descendant) const;

    // Call `visit(index, entry)` along a chain, from its first PathEntry, Step or Expr on.
    template <class Visit> void each_path(uint32_t first, Visit&& visit) const { each(paths_, first, visit); }
    template <class Visit> void each_step(uint32_t first, Visit&& visit) const { each(steps_, first, visit); }
    template <class Visit> void each_of_all_steps(Visit&& visit) const { for (const Step& step : steps_) visit(step); }
    template <class Visit> void each_expr(uint32_t first, Visit&& visit) const { each(exprs_, first, visit); }
    template <class Visit> void each_term(uint32_t first, Visit&& visit) const { each(terms_, first, visit); }
    template <class Visit> void each_term_step(uint32_t first, Visit&& visit) const { each(term_steps_, first, visit); }

private:
    friend class QueryParser;
    friend class TransformationParser;
    template <class T, class Visit>
    static void each(const std::vector<T>& entries, uint32_t index, Visit&& visit) {
        for (; index != no_entry; index = entries[index].next) visit(index, entries[index]);
    }
    void clear();
    std::string print(bool expanded) const;
    // linear_paths for unions and self:: steps. Refuses more than alternatives_max; parsing has tried this already.
    void expand(std::vector<Path>& out) const;

    Slice store_text(std::string_view text);        // behind the text as written
    std::vector<char> text_;          // as written, with a NUL at the end, then other texts; vectors, so that views survive a move
    std::vector<char> uris_;
    std::vector<std::pair<size_t, Slice>> stored_;   // the bindings used -> where in uris_ their URI is
    std::vector<PathEntry> paths_;
    std::vector<Step> steps_;
    std::vector<Expr> exprs_;
    std::vector<Value> values_;
    std::vector<Term> terms_;
    std::vector<TermStep> term_steps_;
    std::vector<Derived> derived_;
    uint32_t text_size_ = 0, text_end_ = 0;          // of what was written; of that and what the parser stored
    uint32_t branches_ = no_entry, selection_ = no_term;
    bool is_condition_ = false;
    bool linear_ = true;
    bool alternatives_ = false;       // some step of a branch needs expand()
};

// Reads `text` into `out`. After a Failure `out` is incomplete and must be refilled before it is used.
void parse_query(std::string_view text, const Bindings& bindings, Query& out);

// Reads a text that parse_query has accepted once more, as it is written: all of it as one term, `selection`, of any type.
void parse_as_written(std::string_view text, const Bindings& bindings, Query& out);

// Refuses bindings that no query could use: prefixes that are not names or have no URI, `xml` bound to another URI.
void check_bindings(const Bindings& bindings);

// Throws a Failure (TC112) if a query is not an ordered pattern: all its conditions must hold, and its branches go down.
void check_ordered(const Query& query);

}  // namespace treecast
