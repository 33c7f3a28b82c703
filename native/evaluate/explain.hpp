// Explains why a query matches a document, or how near it came.
//
// For a match: the first item in document order that the main path selects, the elements that led there step by step,
// and what made each predicate true.
//
// For a near miss: the longest prefix of the main path that some element reaches, and the first such element in document order.
// Then the first predicate that is false there, or the step that leads nowhere.
//
// A union is explained by its best branch. Made for one query and one document at a time; do not use it to match.
#pragma once

#include "evaluate/evaluate.hpp"
#include "evaluate/item_table.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace treecast {

// A condition as written, and why it is true or false for an item.
struct Reason {
    uint32_t expr = no_entry;
    bool holds = false;
    bool out_of_order = false;               // ordered: a witness exists, but not after those of the branches before
    std::vector<Evaluator::Item> items;      // what made it true; where it is false, what was looked at; three at most
    Evaluator::Item other_namespace;         // where it is false for want of an element that exists in another namespace
    uint32_t wanting = no_entry;             // and the step that wants it
    std::vector<Reason> parts;               // of and, or, not: those that decide; of a path that stops, what stops it
    uint32_t position = 0, last = 0;         // of conditions on positions
};

// One step of the main path: the item that stands for it, and the conditions asked there.
struct StepReason {
    uint32_t step = no_entry;
    Evaluator::Item item;
    std::vector<Reason> conditions;          // up to the first that is false
};

// The whole answer: the chain of steps, and what stopped it if nothing matched.
struct Explanation {
    enum class Miss : uint8_t {
        nothing,        // it matched
        condition,      // the last condition of the last step is false
        step,           // no element comes next
        name_space,     // only one with the same local name in another namespace
        order,          // only one that starts before the last witness of the branches
    };
    Miss miss = Miss::nothing;
    uint32_t branch = no_entry;              // PathEntry
    std::vector<StepReason> steps;           // as far as some element came
    uint32_t next = no_entry;                // the step that leads nowhere
    Evaluator::Item other;                   // what is in another namespace, or comes too early
};

class Explainer {
public:
    explicit Explainer(Evaluator& evaluator) : evaluator_(evaluator) {}   // begin() has been called
    Explanation explain(const Query& query, bool ordered);

private:
    using Item = Evaluator::Item;
    using Reached = Evaluator::Reached;

    // A branch, walked until nothing is left: sets[i] is what the first i steps lead to.
    struct Climb {
        std::vector<uint32_t> steps;
        std::vector<Reached> sets;
        std::vector<uint32_t> candidates;    // what the next step would lead to, were it not for its predicates
        bool complete() const { return sets.size() == steps.size() + 1; }
        size_t reached() const { return sets.size() - 1 + (candidates.empty() ? 0 : 1); }
    };
    void climb(uint32_t first_step, Item context, Climb& out);
    void describe(const Climb& climb, Explanation& out);
    void describe_stop(const Climb& climb, Explanation& out);
    std::vector<Item> trace(const Climb& climb, size_t depth, Item item);
    uint32_t context_of(uint32_t step, const Reached& contexts, Item item, bool tested);

    template <class Take> void each_on_axis(const Step& step, uint32_t context, Take&& take);
    std::vector<uint32_t> candidates(uint32_t step, const Reached& contexts, bool bounded);
    Item in_other_namespace(uint32_t step, const Reached& contexts);

    std::vector<Reason> conditions(uint32_t step, Item item, uint32_t context);
    void numbered_conditions(uint32_t step, Item item, uint32_t context, std::vector<Reason>& out);
    std::vector<uint32_t> group_of(uint32_t step, Item item, uint32_t context);
    bool survives(uint32_t step, uint32_t group, uint32_t candidate);
    Reason reason(uint32_t expr, Item item, uint32_t position, uint32_t last);
    Reason ordered_reason(uint32_t expr, uint32_t element, uint32_t& bound);
    void reason_of_paths(uint32_t expr, Item item, Reason& out);
    void blame_namespace(const Expr& expr, Item item, Reason& out);
    uint32_t nearest(uint32_t step, const std::vector<uint32_t>& candidates);
    static bool leads_nowhere(const PathEntry& path, Item item);
    bool blame_condition(const Expr& expr, Item item, Reason& out);
    uint32_t element_of(Item item) const;

    Evaluator& evaluator_;
    const Query* query_ = nullptr;
};

// Where an item is in the document: its path, its lines, and its bytes as given.
struct Place {
    StepKind kind = StepKind::element;
    std::string path;                        // /a[1]/b[2], /a[1]/@x, /a[1]/text()[1]; names as the document writes them
    uint64_t line = 0, column = 0;           // of its first character, from 1
    uint64_t tag_line = 0, tag_column = 0;   // after its start tag; of an attribute or text, after its last character
    uint64_t start = 0, end = 0;             // bytes of the document as given
    std::string value, uri;
};

// Finds places. Building it reads the whole source once for the starts of lines, so make one per document.
class Places {
public:
    explicit Places(const Document& document);
    Place find(Evaluator::Item item, std::string value) const;
    // Of any kind: comments, instructions and the document itself too. `value` is empty, and so is `kind` of these.
    Place find(const ItemTable& table, uint32_t item) const;

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
