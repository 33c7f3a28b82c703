// Prints paths and conditions: one spelling for one meaning, as short as possible without being read differently.
//
// The same walk prints several texts: Query::text() with the prefixes as written, and Query::key() with each name expanded to
// {uri}local. Transformations override how a path starts and how a name is spelled.
#pragma once

#include "query/query.hpp"

#include <string>
#include <string_view>

namespace treecast {

// A number without needless zeros: 007.50 -> 7.5, .5 -> 0.5, -0 -> 0.
void print_number(std::string_view digits, bool negative, std::string& out);

class QueryPrinter {
public:
    QueryPrinter(const Query& query, bool expanded, std::string& out) : query_(query), expanded_(expanded), out_(out) {}
    virtual ~QueryPrinter() = default;

    void paths(uint32_t first);                     // a union
    void path(const PathEntry& path);
    void predicates(const Step& step);
    void condition(const Expr& expr);
    void relation(const Expr& expr);                // of a comparison, with its value
    void term(uint32_t index);                      // query_print_term.cpp

protected:
    // Prints where the path starts and returns true if a slash must follow.
    // Returns false if nothing was printed, so that the path begins with its first step.
    virtual bool start(const PathEntry& path);
    virtual void prefix(const Step& step);          // with its colon; of a test that has a namespace

    const Query& query_;
    const bool expanded_;
    std::string& out_;

private:
    void inner_term(uint32_t index, int least);
    void term_path(const Term& path);
    void term_step(const TermStep& step);
    void term_predicates(uint32_t first);
    void term_of(const Expr& expr);
    void one_step(const Step& step);
    void name_test(const Step& step);
    void predicate(const Expr& expr);
    void operands(const Expr& expr, const char* connective);
    void call(const Expr& expr);
    void value(const Value& value);
    void literal(std::string_view text);
};

}  // namespace treecast
