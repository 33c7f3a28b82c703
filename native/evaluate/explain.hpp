// Explains why a query matches a document, or how near it came.
//
// For a match: the first item in document order that the query selects, the items that led there step by step,
// and what made each predicate true.
//
// For a near miss: the longest prefix of the main path that some item reaches, and the first such item in document order.
// Then the first predicate that is false there, or the step that leads nowhere.
//
// A union is explained by its best branch, and a condition of the document by the values of its operands.
//
// How it works. The query is read once more as it was written: all of it as terms (query/term.hpp), none of it in the normal
// form of patterns. Each predicate is a tree of parts. Terms (evaluate/terms.hpp) is asked for the value of a part at an
// item, and for the items that a step leads to from a set; it knows nothing of explanations. So a reason is made of values
// alone, and no kind of condition has words of its own. What is said of operands is in explain_condition.cpp.
//
// Only two questions go to the Evaluator: whether the query matches, which is why an explanation never contradicts a match,
// and where the branches of an ordered pattern find their witnesses.
//
// Each value may take half of the steps that are left, so one part that takes too many does not hide the others.
// Made for one query and one document at a time; do not use it to match.
#pragma once

#include "evaluate/evaluate.hpp"
#include "evaluate/item_table.hpp"
#include "evaluate/terms.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace treecast {

struct Reason;

// Why a path selects nothing: where it stops.
struct Miss {
    enum class Kind : uint8_t {
        condition,      // a predicate is false
        step,           // nothing comes next
        name_space,     // only something with the same local name in another namespace
        order,          // only something that starts before the last witness of the branches of an ordered pattern
    };
    Kind kind = Kind::step;
    Slice step;                              // as written, without predicates
    uint32_t item = none;                    // how far the path came
    std::unique_ptr<Reason> condition;
    uint32_t other = none;                   // what is in another namespace, or comes too early
    std::string uri;                         // of the namespace that the step asks for
    bool goes_down = true;                   // the step looks for children, descendants or attributes
    std::string unknown;                     // the name of the step, if nothing in the document has it
    bool is_attribute = false;               // … of an attribute
};

// A part of a condition and its value.
struct Operand {
    enum class Type : uint8_t { items, number, string, boolean, undecided };
    enum class Use : uint8_t {
        value,          // of a value: as it is
        exists,         // of items: whether there are any, or how many
        any,            // one of them is enough
        first,          // the first alone counts
        all,            // their sum
    };
    std::string text;                        // as written
    Type type = Type::undecided;
    Use use = Use::value;
    std::string value;                       // string() of it, shortened
    uint64_t count = 0;                      // of items
    std::vector<uint32_t> items;             // those that decide; else the first, three at most
    std::vector<std::string> not_numbers;    // texts of these that are read as numbers and are none, shortened
    std::unique_ptr<Miss> miss;              // of no items
};

enum class Truth : uint8_t { no, yes, undecided };

// A condition as written, and why it is true or false for an item.
struct Reason {
    enum class Kind : uint8_t { conjunction, disjunction, negation, position, other };
    Slice source;
    Kind kind = Kind::other;
    Truth holds = Truth::undecided;
    std::vector<Operand> operands;
    std::vector<Reason> parts;               // of and, or, not: those that decide
};

// One step of the main path: the item that stands for it, and the conditions asked there.
struct StepReason {
    Slice step;
    uint32_t item = none;
    std::vector<Reason> conditions;          // up to the first that is not true
};

// The whole answer: the chain of steps, and what stopped it.
struct Explanation {
    Truth matched = Truth::undecided;
    std::string undecided;                   // why the answer is not known, or not all of the steps
    Slice branch;
    std::vector<StepReason> steps;           // as far as some item came
    std::unique_ptr<Miss> miss;              // none if it matched
};

// A text that is shown, or its beginning: values may be as long as the document.
constexpr size_t shown_bytes_max = 200;
std::string shortened(std::string_view text);

class Explainer {
public:
    // `steps`: for the answer, and as many again for the reasons. `written` is what read_as_written() made of the text of `query`.
    Explainer(const Document& document, const Query& query, const Query& written, bool ordered, uint64_t steps);
    Explanation explain();
    const ItemTable& table() { return terms_.table(); }
    std::string value(uint32_t item);        // its string value, shortened

private:
    using Set = Terms::Set;
    using Context = Terms::Context;
    using Result = Terms::Result;

    // -- explain.cpp
    // A step of a path as written. A filter, as [2] in (//a)[2], keeps some of a set; `items` is what a path starts at.
    struct Stage {
        enum class Kind : uint8_t { items, filter, step };
        Kind kind = Kind::step;
        uint32_t index = no_term;            // TermStep; else the Term that has the items or the predicates
        bool is_hidden = false;              // `.`, what `//` stands for, and items that a filter follows
    };
    // A path, walked until nothing is left: sets[i] is what the first i stages lead to.
    struct Climb {
        bool is_ordered = false;             // the main path of an ordered pattern
        bool is_undecided = false;           // the next stage takes too many steps
        Context context;
        std::vector<Stage> stages;
        std::vector<Set> sets;
        std::vector<std::map<uint32_t, uint32_t>> bounds;   // ordered: of each item, what the next witness must come after
        Set candidates;                      // what the next stage would lead to, were it not for its predicates
        bool complete() const { return sets.size() == stages.size() + 1; }
        size_t reached() const;              // stages that are shown
    };
    Truth decide(Explanation& out);
    // Asks for values. False: they take more than their share of the steps.
    template <class Ask>
    bool within(Ask ask) {
        const uint64_t before = evaluator_.looked_at;
        bool is_known = true;
        evaluator_.allow(steps_left_ / 2);
        try {
            ask();
        } catch (const OutOfWork&) {
            is_known = false;
            if (ordered_) evaluator_.open_ordered(query_);
            terms_.open(written_);
        }
        steps_left_ -= std::min(steps_left_, evaluator_.looked_at - before);
        return is_known;
    }
    void find_stages(uint32_t path, Climb& out) const;
    bool is_absolute(uint32_t path) const;
    void climb(uint32_t path, Climb& out);
    void walk(Climb& climb, Set& out);
    void walk_ordered(Climb& climb, Set& out);
    bool passes_ordered(uint32_t predicate, uint32_t item, uint32_t& bound);
    void candidates(Climb& climb, Set& out);
    void describe(uint32_t path, const Climb& climb, Explanation& out);
    std::vector<uint32_t> trace(const Climb& climb, size_t depth, uint32_t item);
    uint32_t context_of(const Climb& climb, size_t stage, uint32_t item);
    Miss stop(const Climb& climb);
    uint32_t in_other_namespace(uint32_t step, const Set& contexts);
    bool occurs(const TermStep& step) const;
    bool is_positional(uint32_t predicate) const;
    std::vector<Reason> conditions(const Climb& climb, size_t stage, uint32_t item, uint32_t context);
    std::vector<Reason> numbered_conditions(uint32_t predicates, Set group, uint32_t item);
    Reason ordered_predicate(uint32_t predicate, uint32_t item, uint32_t& bound);
    Slice source_of(const Stage& stage) const;
    Slice bracketed(uint32_t predicate) const;

    // -- explain_condition.cpp
    using Operands = std::vector<Operand>;
    // A part and its value; none if that takes too many steps. `met`: the one item of it that met the other side.
    struct Known {
        Slice source;
        TermType type = TermType::boolean;
        std::optional<Result> result;
        uint32_t met = none;
    };
    Reason predicate(uint32_t term, const Context& context);
    Reason condition(uint32_t term, const Context& context);
    void add_deciding_parts(const Term& term, const Context& context, Reason& out);
    Reason ordered_condition(uint32_t term, uint32_t expr, uint32_t item, uint32_t& bound);
    Truth truth(uint32_t term, const Context& context);
    bool is_evident(uint32_t term) const;
    Known value_of(uint32_t term, const Context& context);
    void add(uint32_t term, Operand::Use use, bool as_number, const Context& context, Operands& out);
    void add_known(const Known& known, Operand::Use use, bool as_number, Operands& out);
    bool show(const Set& items, bool as_number, Operand& out);
    void add_miss(uint32_t term, const Context& context, Operands& out);
    void add_parts(uint32_t term, const Context& context, Operands& out);
    void add_arguments(const Term& call, const Context& context, Operands& out);
    void add_comparison(const Term& comparison, const Context& context, Operands& out);
    void add_side(uint32_t term, const Known& side, const Known& other, Relation relation, const Context& context, Operands& out);
    void meet(Known& left, Known& right, Relation relation);
    void add_item(const char* text, const Set& items, bool as_number, Operands& out);
    void add_language(const Context& context, Operands& out);
    static void add_position(const Context& context, Operands& out);
    std::unique_ptr<Miss> miss(uint32_t term, const Context& context);
    std::unique_ptr<Miss> miss_of_path(uint32_t path, const Context& context);
    uint32_t nearest(const Climb& climb);

    std::string_view view(Slice slice) const { return written_.view(slice); }

    const Document& document_;
    const Query& query_;
    const Query& written_;
    const bool ordered_;
    uint64_t steps_left_;
    Evaluator evaluator_;
    Terms terms_;
    std::map<uint32_t, uint32_t> expressions_;      // ordered: where a predicate begins in the text -> its Expr
};

// Where an item is in the document: its path, its lines, and its bytes as given.
struct Place {
    ItemKind kind = ItemKind::element;
    std::string path;                        // /a[1]/b[2], /a[1]/@x, /a[1]/text()[1]; names as the document writes them
    uint64_t line = 0, column = 0;           // of its first character, from 1
    uint64_t tag_line = 0, tag_column = 0;   // after its start tag; of anything else, after its last character
    uint64_t start = 0, end = 0;             // bytes of the document as given
    std::string uri;
};

// Finds places. Building it reads the whole source once for the starts of lines, so make one per document.
class Places {
public:
    explicit Places(const Document& document);
    Place find(const ItemTable& table, uint32_t item) const;
    // The names of elements, or of attributes, as the document writes them: each expanded name once, the first 2,000.
    std::vector<std::string_view> names(bool attributes) const;

private:
    std::string path_of(uint32_t element) const;
    std::string_view name_of(uint32_t element) const;
    std::pair<uint64_t, uint64_t> line_of(uint32_t offset) const;
    std::pair<uint32_t, uint32_t> attribute_range(uint32_t element, uint32_t number, std::string_view& name) const;
    std::pair<uint32_t, uint32_t> text_range(uint32_t element, uint32_t number, uint32_t count) const;

    const Document& document_;
    std::vector<uint32_t> line_starts_;
};

}  // namespace treecast
