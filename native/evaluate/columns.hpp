// Predicates that no pattern can say, asked of all their elements at once: //item[@n + 7 = 1], //item[position() * 3 = @n].
//
// Theory of operation. Many subscriptions say the same of the same elements, with other constants. So the elements that a path
// leads to before its last predicate (the contexts, //item), and what the predicate reads of each of them (@n, position(),
// string-length(name)), are found once for a document and kept as columns: a number for each context, a text, or a set of numbers.
// What is left of a subscription is arithmetic and comparisons with its constants. These go over whole columns in short loops,
// which compilers turn into vector instructions.
//
// A set is kept sorted, with its least and its largest number. These two decide all comparisons but `=`, for which it is searched.
//
// A column costs as much as asking all contexts one by one. So columns are used where several subscriptions share them. Where one
// would take more steps or bytes than there are, and for predicates of other forms, the Evaluator decides as ever.
#pragma once

#include "base/seeded_hash.hpp"
#include "query/query.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace treecast {

class Evaluator;
class Terms;
struct Document;

// What a predicate says of columns, as a list in which operands come before what is made of them. The last node is the answer.
struct ColumnPlan {
    enum class Op : uint8_t {
        constant,                       // `number`
        column,                         // the numbers of the column `first`, of the Term `second`
        arithmetic,                     // `how` is a Sign; of the nodes `first` and `second`
        negative, floor, ceiling, round,
        compare,                        // `how` is a Relation; of numbers. From here on answers
        compare_set,                    // of the set of the column `first`, of the Term `number`, with the node `second`
        text_is, text_is_not,           // the pieces from `first` on, `how` of them, make the text of the Value `second`
        both, either, invert,
    };
    struct Node {
        Op op = Op::constant;
        uint8_t how = 0;
        uint32_t first = 0, second = 0;
        double number = 0;
    };
    struct Piece {                      // of a text
        uint32_t column = no_entry;     // no_entry: a literal
        uint32_t index = 0;             // a Term, or a Value
    };
    uint32_t contexts = no_entry;       // which ones: no_entry where the query has another form
    std::vector<Node> nodes;
    std::vector<Piece> pieces;
    bool is_empty() const { return contexts == no_entry; }
};

// One belongs to one thread. Columns are numbered by what they say, for all queries; their values are those of one document.
class Columns {
public:
    static constexpr uint32_t columns_max = 4'096;               // further ones are not shared
    static constexpr uint64_t columns_bytes_max = 32u << 20;     // of the values of one document
    static constexpr uint32_t key_bytes_max = 1'024;             // what takes more to say is not shared
    static constexpr uint32_t sharers_min = 8;                   // with fewer each is evaluated by itself

    ColumnPlan plan_of(const Query& query);
    void begin();                                                // another document
    bool is_worth_it(const ColumnPlan& plan) const;

    enum class Answer : uint8_t { no, yes, unknown };
    // Whether the document satisfies the query, which the plan was made of. Making the columns may take `steps`.
    Answer decide(const ColumnPlan& plan, const Query& query, const Document& document, Evaluator& evaluator, uint64_t steps);

private:
    friend class ColumnPlanner;
    enum class Kind : uint8_t { contexts, numbers, sets, texts };
    struct Column {
        Kind kind = Kind::numbers;
        uint32_t sharers = 0;
        uint32_t stamp = 0;                      // of the document that the values belong to
        bool is_refused = false;                 // they would be too much
        std::vector<double> numbers;             // of sets: all of them, sorted in each
        std::vector<double> least, largest;      // of sets; NaN where there is no number
        std::vector<uint32_t> ends;              // of sets and texts: where those of each context end
        std::vector<uint8_t> has_nan;            // of sets: a value that is no number
        std::string text;                        // of texts
        std::vector<uint32_t> elements, positions, lasts;        // of contexts
        uint64_t bytes() const;
    };
    uint32_t number_of(Kind kind, const std::string& key);       // or no_entry
    bool make(uint32_t number, uint32_t contexts, uint32_t term, const Query& query, Evaluator& evaluator);
    void fill(Column& column, const Column& contexts, uint32_t term, Terms& terms, Evaluator& evaluator);
    void find_contexts(Column& column, const Query& query, const Document& document, Evaluator& evaluator);
    bool make_all(const ColumnPlan& plan, const Query& query, const Document& document, Evaluator& evaluator);
    bool holds(const ColumnPlan& plan, const Query& query, size_t begin, size_t size);
    void run_numbers(const ColumnPlan::Node& node, size_t own, size_t begin, size_t size);
    void run_compare(const ColumnPlan::Node& node, size_t own, size_t size);
    void run_set(const ColumnPlan::Node& node, size_t own, size_t begin, size_t size);
    void run_text(const ColumnPlan& plan, const ColumnPlan::Node& node, const Query& query, size_t own, size_t begin, size_t size);

    static constexpr size_t at_once = 128;       // contexts
    struct Operand {                             // a constant, or numbers of contexts
        const double* numbers;
        double constant;
    };
    TextMap<uint32_t> numbers_;                  // by key
    std::vector<Column> columns_;
    uint32_t stamp_ = 0;
    uint64_t bytes_ = 0;                         // of what was made for this document
    std::vector<Operand> operands_;              // by node
    std::vector<double> scratch_;                // by node, at_once each
    std::vector<uint8_t> answers_;               // likewise
};

}  // namespace treecast
