// The parser of parse_transformation. It adds to QueryParser what XQuery adds to paths.
//
// transformation_parse.cpp reads clauses and expressions, transformation_paths.cpp what starts at variables,
// transformation_terms.cpp expressions of XPath that are neither,
// transformation_condition.cpp values in conditions, transformation_construct.cpp constructors,
// transformation_steps.cpp lists of steps. transformation_refuse.cpp words the refusals.
#pragma once

#include "query/query_parser.hpp"
#include "query/transformation.hpp"

namespace treecast {

// The bindings in force, those of open constructors last. It is a base class because QueryParser's constructor needs it.
struct BindingScope {
    Bindings scope_;
};

class TransformationParser : private BindingScope, public QueryParser {
public:
    TransformationParser(Transformation& out, const Bindings& bindings)
        : BindingScope{bindings}, QueryParser(out.query_, scope_), out_(out) {}
    void parse(std::string_view text);

private:
    // What a variable stands for: the document, one item of a `for`, the paths of a `let`, or something built.
    enum class Holds : uint8_t { message, item, paths, shape };
    struct Variable {
        Slice name;                        // without the $
        Holds holds = Holds::item;
        uint32_t index = no_entry;         // item: its number; paths: the first PathEntry; shape: the Shape
        // Of a let: where it is written, and what was in force there.
        Slice source{};
        size_t scope = 0, bindings = 0;
        bool default_bound = false;
        Slice default_uri{};
    };
    struct ShapeMark {                     // as QueryParser::Mark
        Mark query;
        size_t shapes, clauses, declared, variables, texts, scope_variables, kinds, scope;
        uint32_t depth;
        bool condition, default_bound;
        Slice default_uri;
    };
    struct Space {                         // a text of a constructor while it is read
        uint32_t begin = 0;                // in texts_
        bool blank = true;                 // nothing but literal white space
        Slice source;
    };

    // transformation_parse.cpp
    uint32_t read_expression();
    uint32_t read_single();
    uint32_t read_word_expression(Slice name);
    uint32_t read_parenthesis_expression();
    uint32_t read_flwr();
    void read_for(std::vector<Clause>& clauses);
    void read_let();
    uint32_t conditioned(const std::vector<Clause>& clauses, uint32_t body, Slice source);
    void read_where(std::vector<Clause>& clauses);
    void read_order(std::vector<Clause>& clauses);
    void read_key(Clause& clause);
    uint32_t unparenthesised(uint32_t shape) const;
    uint32_t read_choice(uint32_t begin);
    uint32_t read_function(Slice name, ShapeKind kind);
    uint32_t read_computed_attribute(uint32_t begin);
    uint32_t read_paths();                               // a union of bound paths, the first PathEntry
    uint32_t read_items();
    uint32_t read_literal();
    uint32_t read_condition();
    static bool is_value(ShapeKind kind);
    void check_value(uint32_t shape, const char* what);

    // transformation_terms.cpp
    ShapeMark mark_shapes() const;
    void go_back(const ShapeMark& mark);
    bool operator_follows();
    bool is_final(const Failure& failure) const;
    template <class Plain> uint32_t read_part_or_term(Plain plain);
    template <class Plain> uint32_t read_shape_or_term(Plain plain);
    uint32_t read_value_or_term(char c, Slice name);
    uint32_t read_call_or_term(Slice name);
    uint32_t read_term_shape();
    uint32_t read_bound_term();
    bool read_term_variable(Term& path) override;
    uint32_t read_held_term(const Variable& variable, Slice where);
    void read_key_or_term(Clause& clause);

    // transformation_condition.cpp
    bool read_held(Operand& held) override;
    Operand read_value(Slice name, Is is) override;
    Operand compare_count(const Operand& counted, Relation relation, const Operand& number, Slice source) override;
    Operand compare_string(const Operand& string, Relation relation, const Operand& value, Slice source) override;
    Operand negated(const Operand& condition, Slice source);
    bool one_at_most(uint32_t path) const;
    bool count_by_position(uint32_t path) const;
    uint32_t positioned(uint32_t path, ExprKind kind, Relation relation, uint32_t value, Slice source);

    // transformation_paths.cpp
    Operand read_bound_path() override;
    void check_literal(Slice literal) override;
    uint32_t read_filter(uint32_t begin);
    Slice read_variable_name();
    const Variable& find_variable(Slice name);
    void declare(Slice name, Holds holds, uint32_t index);
    uint32_t bound_copy(const Variable& variable, uint32_t suffix, Slice source);
    uint32_t copy_path(const PathEntry& path, uint32_t suffix);
    uint32_t copy_paths(uint32_t first);
    uint32_t copy_steps(uint32_t first, uint32_t& last, uint32_t& count);
    uint32_t copy_exprs(uint32_t first);
    StepKind kind_of(uint32_t paths) const;
    uint64_t path_variables(uint32_t paths) const;
    uint64_t expr_variables(uint32_t expr) const;
    uint64_t find_variables(uint32_t shape);

    // transformation_construct.cpp
    uint32_t read_constructor();
    uint32_t read_element();
    void read_attributes(Shape& element, Slice name);
    void read_declaration(Slice name, Slice value, Shape& element);
    uint32_t read_attribute_parts(char quote, bool& enclosed);
    void read_content(Shape& element, Slice name);
    void end_text(const Space& space, uint32_t& first, uint32_t& last);
    uint32_t read_enclosed();
    void check_values(uint32_t shape);
    uint32_t read_comment();
    uint32_t read_instruction();
    void read_reference();
    void read_character();
    void read_cdata();
    Slice read_qname(const char* what);
    Name resolve(Slice qname, bool attribute);
    void chain(uint32_t& first, uint32_t& last, uint32_t shape);

    // transformation_steps.cpp
    void read_list();
    void read_change();
    uint32_t read_list_paths(bool elements_only, const char* word);

    uint32_t add_shape(const Shape& shape, Slice source);
    Slice keep(std::string_view text);                   // in texts_
    Slice keep_since(uint32_t begin) const { return {begin, static_cast<uint32_t>(out_.texts_.size()) - begin}; }

    // transformation_refuse.cpp
    [[noreturn]] void check_end(const char* expected);
    void expect_word(const char* word, const char* hint);
    void refuse_if_outside(Slice word);
    void check_word(Slice name);
    std::string context_free_item() const override;
    void check_reserved(Slice path) override;
    [[noreturn]] void refuse_no_pattern(const Mark& before, const Failure& failure);

    Transformation& out_;
    std::vector<Variable> scope_variables_;
    std::vector<StepKind> kinds_;                        // by number of a `for` variable: what it ranges over
    std::vector<uint32_t> weights_;                      // by shape: how many there are in it, with those of its lets
    bool condition_ = false;                             // reading a condition: the document itself is none
};

}  // namespace treecast
