// The parser of parse_query: recursive descent directly over the text.
//
// query_parse.cpp reads paths and steps, query_condition.cpp reads predicates, query_refuse.cpp words the refusals.
// Transformations are read by a subclass (transformation_parser.hpp): their paths start at variables, and their conditions
// have no brackets around them. The virtual functions below are the places where it differs.
#pragma once

#include "base/failure.hpp"
#include "query/derivation.hpp"
#include "query/query.hpp"
#include "regex/regex.hpp"

#include <utility>

namespace treecast {

class QueryParser {
public:
    QueryParser(Query& query, const Bindings& bindings) : query_(query), bindings_(bindings) {}
    virtual ~QueryParser() = default;
    void parse(std::string_view text);
    void parse_as_written(std::string_view text);

protected:
    // A path while its steps are being read.
    struct Steps {
        uint32_t path = 0;
        uint32_t last = no_entry;          // its last step
        bool gap = false;                  // a `//` waits for its step
        bool bare = false;                 // the last thing read was `.`, which takes no predicates
        Slice gap_source;
    };
    // What an expression in brackets turned out to be. A condition is an Expr already.
    enum class Is : uint8_t { paths, condition, literal, number, position, last, local_name, name_test, count, string, term };
    struct Operand {
        Is is = Is::paths;
        bool positional = false;           // a condition that depends on position() or last()
        Relation relation = Relation::eq;  // of a name_test: local-name() = or != the literal
        uint32_t index = no_entry;         // PathEntry, Expr, Value or Term
        Slice source;
    };

    // query_parse.cpp
    void begin(std::string_view text);
    void read_branches();
    uint32_t read_branch();
    uint32_t read_path(bool absolute, bool gap, uint32_t begin);
    void read_steps(Steps& steps);
    void read_more_steps(Steps& steps);
    void read_step(Steps& steps);
    void read_node_test(Steps& steps, Axis axis, uint32_t begin);
    void read_kind_test(Steps& steps, Axis axis, Slice name, uint32_t begin);
    void read_name(Step& step, Slice first);
    void append_step(Steps& steps, Step step);
    void settle(const Steps& steps);
    static void settle_axis(Step& step, bool below_document);
    bool read_variable();
    Slice bind(std::string_view prefix, Slice source);
    Slice store_uri(size_t binding, std::string_view uri);

    // query_condition.cpp
    void read_predicates(uint32_t step);
    Operand read_disjunction();
    Operand read_conjunction();
    template <class Read> Operand read_joined(ExprKind kind, std::string_view word, Read read);
    bool read_word(std::string_view word);
    Operand read_comparison();
    Operand read_plain_comparison();
    Operand read_union();
    Operand read_operand();
    Operand read_parenthesis();
    Operand read_number();
    Operand read_call(Slice name);
    Operand read_function(Slice name, Function function);
    Operand read_inner_path();
    virtual Operand read_bound_path() { return read_inner_path(); }
    virtual void check_literal(Slice) {}
    // count(…), string(…), and variables that hold one of them or a constant.
    virtual bool read_held(Operand&) { return false; }
    virtual Operand read_value(Slice, Is) { no_pattern(); }
    virtual Operand compare_string(const Operand&, Relation, const Operand&, Slice) { no_pattern(); }
    virtual Operand compare_count(const Operand&, Relation, const Operand&, Slice) { no_pattern(); }
    Operand make_condition(const Expr& expr, bool positional, Slice source);
    Operand compare(const Operand& left, Relation relation, const Operand& right);
    Operand as_condition(const Operand& operand);
    Operand as_predicate(const Operand& operand);
    bool merge_name_test(uint32_t step, const Operand& operand);
    bool read_relation(Relation& relation);
    bool closes(char bracket);
    void close(char bracket);
    bool arithmetic_follows();

    // query_term.cpp
    uint32_t read_term();
    uint32_t read_term_conjunction();
    uint32_t read_term_equality();
    uint32_t read_term_comparison(bool equality);
    uint32_t read_term_sum();
    uint32_t read_term_product();
    uint32_t read_term_unary();
    uint32_t read_term_union();
    uint32_t read_term_path();
    virtual bool read_term_variable(Term& path);
    uint32_t read_term_primary();
    uint32_t read_term_call(Slice name);
    Regex read_regex(const Term& call);
    static std::string argument_words(const TermFunctionTraits& traits);
    bool read_term_predicates(uint32_t& first);
    void read_term_steps(Term& path, bool gap);
    void read_term_step(TermStep& step);
    void read_term_test(TermStep& step);
    bool predicate_follows();
    uint32_t join_terms(TermKind kind, TermType type, const std::vector<uint32_t>& operands, uint32_t begin);
    uint32_t append_term(Term term, uint32_t begin);

    // query_whole.cpp
    struct Mark {                          // how far everything was, so that a text can be read again in another way
        size_t paths, steps, exprs, values, terms, term_steps, derived;
        uint32_t at, entries;
        StepKind context;
        bool in_branch, bound, message, in_term_predicate;
    };
    Mark mark() const;
    void go_back(const Mark& mark);
    // Reads with `plain`, and if that fails with `other`, whose failure is the answer.
    template <class Plain, class Other> auto read_either(Plain plain, Other other);
    void read_whole();
    uint32_t read_whole_term();
    Operand as_term(const Operand& operand);
    Operand term_condition(uint32_t term, Slice source);
    uint32_t simplify_count(const Term& comparison);
    uint32_t counted(const Term& path, uint32_t least, Slice source);
    uint32_t denied(uint32_t expr, Slice source);
    void check_bound(uint32_t term);

    // query_relax.cpp
    uint32_t relax(uint32_t term);
    uint32_t relax_comparison(const Term& comparison);
    uint32_t relax_string(uint32_t term);
    uint32_t relax_number(uint32_t term);
    struct Goal {                          // what one item at the end of a path is compared with, or has inside, if anything
        Relation relation = Relation::eq;
        uint32_t value = no_entry;
        uint32_t derived = no_entry;       // Derived, without its path
        Function function = Function::contains;
        std::vector<uint32_t> texts{};     // Values: the function holds for one of them
        bool is_none() const { return value == no_entry && derived == no_entry && texts.empty(); }
    };
    uint32_t relax_condition(uint32_t term);
    uint32_t relax_predicate(uint32_t term);
    uint32_t relax_matches(const Term& call);
    uint32_t has_text(const Goal& goal, Slice source);
    uint32_t keep_text(std::string_view text, Slice source);
    uint32_t relax_items(const Term& term, const Goal& goal);
    void relax_path(const Term& term, const Goal& goal, std::vector<uint32_t>& parts);
    uint32_t relaxed(const PathEntry& path, const Goal& goal, Slice source);
    static bool relax_axis(TermAxis axis, Step& step);
    static bool relax_test(const TermStep& from, Step& step);
    uint32_t all_of(const std::vector<uint32_t>& conditions, Slice source);
    uint32_t one_of(const std::vector<uint32_t>& conditions, Slice source);
    uint32_t join_exprs(ExprKind kind, const std::vector<uint32_t>& operands, Slice source);

    // query_derive.cpp
    struct Source {                        // of a derivation
        std::string program;
        uint32_t path = no_term;           // Term; no_term: the context
        bool is_set = false;
        bool set(uint32_t term) {
            path = term;
            return !std::exchange(is_set, true);
        }
    };
    bool constant_number(uint32_t term, double& out) const;
    bool constant_text(uint32_t term, std::string_view& out) const;
    bool derive_text(uint32_t term, Source& source);
    bool derive_concat(const Term& concat, Source& source);
    bool derive_number(uint32_t term, Source& source);
    bool derive_arithmetic(const Term& arithmetic, Source& source);
    bool derive_test(const Term& condition, Derived& out, Source& source);
    bool set_constant(uint32_t constant, bool as_number, Derived& out);
    bool holds_without(const Derived& derived) const;
    uint32_t plain_path(uint32_t term);
    uint32_t derive(uint32_t term);
    Goal derived_goal(uint32_t term, uint32_t& path);
    uint32_t relax_concat(const Term& comparison);
    uint32_t derived_condition(uint32_t derived, Slice source);

    // query_refuse.cpp
    [[noreturn]] void refuse(const char* code, std::string message, Slice where, std::string hint = {});
    [[noreturn]] void refuse_limit(const char* code, const char* what, const char* name, uint32_t limit, Slice where);
    [[noreturn]] void refuse_depth(Slice where);
    [[noreturn]] void no_pattern();
    [[noreturn]] void refuse_here(const char* expected, std::string hint = {});
    [[noreturn]] void refuse_operator(const char* expected, std::string hint = {});
    void refuse_foreign_operator(Slice sign);
    void check_opening(Slice name);
    void check_slip(Slice name);
    [[noreturn]] void refuse_axis(Slice name);
    [[noreturn]] void refuse_direction(std::string_view axis, Slice where);
    [[noreturn]] void refuse_function(Slice name, bool step = false);
    [[noreturn]] void refuse_comment(uint32_t at);
    [[noreturn]] void refuse_kind_test(Slice name, Axis axis);
    [[noreturn]] void refuse_relative(uint32_t term);
    Slice without_parentheses(Slice source) const;
    [[noreturn]] void refuse_context(const Term& call);
    [[noreturn]] void refuse_relative_path(Slice path);
    // An item that expressions can name where there is no context: a variable. Empty where there are none.
    virtual std::string context_free_item() const { return {}; }
    virtual void check_reserved(Slice) {}
    [[noreturn]] void refuse_variable(Slice where);
    [[noreturn]] void refuse_unbound(std::string_view prefix, Slice where);
    [[noreturn]] void refuse_everything(Slice where);

    // Counts an open bracket or parenthesis for as long as it exists. The limit protects the native stack.
    class Nesting {
    public:
        Nesting(QueryParser& parser, uint32_t at);
        ~Nesting() { --parser_.depth_; }

    private:
        QueryParser& parser_;
    };

    // Every entry of the query is counted here, so that no array can outgrow the limit.
    template <class T>
    uint32_t append(std::vector<T>& entries, const T& entry, Slice where) {
        if (++entries_ > query_limits.entries_max && !is_accepted_)
            refuse_limit("TC324", "entries in the query", "entries_max", query_limits.entries_max, where);
        entries.push_back(entry);
        return static_cast<uint32_t>(entries.size() - 1);
    }
    Slice since(uint32_t begin) const { return {begin, scan_.at - begin}; }
    std::string shown(Slice slice, size_t bytes_max = 60) const;

    Query& query_;
    const Bindings& bindings_;
    Scanner scan_;
    uint32_t depth_ = 0, entries_ = 0;
    StepKind context_ = StepKind::element;   // what `.` is in the predicate being read
    bool message_ = false;                   // the branch starts with $msg: `/` in its predicates starts at the step
    bool in_branch_ = false;                 // not inside a predicate
    bool in_term_predicate_ = false;         // inside a predicate of a term
    bool bound_ = false;                     // in a transformation, outside brackets: paths start at variables
    bool clauses_ = false;                   // in a transformation with variables
    bool is_accepted_ = false;               // the text has been accepted before; as terms it may have more entries than the limit
    const char* usual_hint_ = "";            // of a syntax error for which there is no other
    bool default_bound_ = false;             // unprefixed element names have the namespace default_uri_
    Slice default_uri_;
};

}  // namespace treecast
