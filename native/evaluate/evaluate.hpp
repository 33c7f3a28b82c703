// Document + Query -> does it match, and what does it select: directly, one query at a time, exactly as XPath 1.0 says.
//
// Use it to decide a query that no shared machine has decided, to find what a query selects, and to explain an answer.
// Do not use it to match many queries: each costs what its own path touches of the document.
//
// How it works. Three ways through a path, all driven by the steps of the query, none recursive over the document:
//
//   reaches()   (evaluate_path.cpp) whether a path leads from an element to something that passes a goal: depth first, one
//               cursor per step on a stack, so it stops at the first success.
//   walk()      (evaluate_select.cpp) everything that a path leads to: a set per step, in document order.
//   fits()      (evaluate_ordered.cpp) ordered patterns: witnesses whose start tags increase, chosen greedily.
//
// A step with positions on the descendant axis numbers everything below each context, and ancestors share descendants.
// Its condition depends on the position only through comparisons. Between two places where a comparison changes,
// an element passes or fails no matter where the count starts. So verdicts and runs are kept for each combination
// of the comparisons' results (evaluate_positions.cpp).
//
// The paths and conditions of a transformation start at variables, and are asked again each time these change
// (evaluate_variables.cpp). Predicates never mention variables, so the verdicts on (step, element) stay valid.
//
// Depth first alone would be exponential in nested `//`, because ancestors see the same descendants.
// So where the same element may arrive at the same step from several contexts, the verdict on (step, element) is kept:
// two bits. The prepare functions decide where; plain paths never need it.
//
// The verdicts live in a table of blocks of 64 elements. Keys contain a stamp, so a new query forgets all verdicts for free.
// When the table is full, blocks displace each other, which costs time but never correctness.
// Each such step also keeps one run of elements that are known to fail. It is skipped, so ancestors do not rescan what their
// descendants have already ruled out. String values are not built for each ancestor either (string_values.hpp).
//
// Together, a query costs mostly what it touches once. Where that fails, spend() ends it: the caller sets the limit.
//
// Names are compared as numbers: a test is resolved to an id of the document's NameTable when its step is first reached.
//
//   TC340  a query that needs more steps on this document than work_per_item_max allows: it is undecided
#pragma once

#include "base/failure.hpp"
#include "base/id_slots.hpp"
#include "base/seeded_hash.hpp"
#include "document/document.hpp"
#include "document/string_values.hpp"
#include "evaluate/terms.hpp"
#include "query/query.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace treecast {

// Thrown when an answer would take more steps than the caller allows.
struct OutOfWork : Failure {
    explicit OutOfWork(uint64_t steps);
};

// How many steps deciding one query may take: `per_item` for each element, attribute, text and 64 bytes of the document.
// A constant number of items is added, so that small documents are not refused.
uint64_t work_max(const Document& document, uint64_t per_item);

// Decides queries on one document at a time; keeps scratch between calls. Not thread-safe; one per thread.
class Evaluator {
public:
    // An element, attribute or text: its index into the columns of that kind.
    struct Item {
        StepKind kind = StepKind::element;
        uint32_t index = none;          // of kind element, `none` is the document itself
        bool operator==(const Item&) const = default;
    };

    // Call it before the first query of a document; it is cheap. The document must not change while queries are decided.
    void begin(const Document& document);

    // Returns whether the document satisfies the query. An ordered query must have passed check_ordered.
    // `shared`: its terms that other queries have too (shared_terms.hpp); it must live as long as the query is open.
    bool satisfies(const Query& query, bool ordered, std::span<const uint32_t> shared = {});

    // What the main path selects, in document order, each item once.
    void select(const Query& query, bool ordered, std::vector<Item>& out);

    // The terms of a query, to be asked one by one.
    Terms& open_terms(const Query& query) {
        open(query, false);
        return terms();
    }

    // Of an ordered query, one predicate at a time. Whether it holds at an element, with its witnesses after `bound`,
    // which becomes the last of them.
    void open_ordered(const Query& query) { open(query, true); }
    bool fits_condition(uint32_t expr, uint32_t element, uint32_t& bound);

    // The same for any paths and conditions in a query, wherever they start.
    // First enter() the query, then prepare what will be asked, then ask with the items that its variables stand for, by number.
    using Variables = std::span<const Item>;
    void enter(const Query& query);
    void prepare(uint32_t paths) { prepare_entry(paths, false); }
    void prepare_condition(uint32_t expr) { prepare_entry(expr, true); }
    void select(uint32_t paths, Variables variables, std::vector<Item>& out);          // refills `out`
    bool first(uint32_t paths, Variables variables, Item& out);                        // in document order
    bool holds(uint32_t expr, Variables variables);
    Terms::Result value(uint32_t term, Variables variables);
    void append_text(uint32_t term, Variables variables, std::string& out);            // its string
    void select_items(uint32_t term, Variables variables, std::vector<Item>& out);     // refills `out`
    std::string_view string_value(Item item) { return text_of(item); }                 // lives until the next call
    std::pair<uint64_t, uint32_t> order(Item item) const;                              // grows in document order

    // The cost of all answers so far, in steps: items looked at, whether they passed or not, and cursors set up.
    // Each 32 bytes of text count as one more.
    uint64_t looked_at = 0;
    // From now on, all answers together may take this many steps. Beyond that OutOfWork is thrown.
    // After that the Evaluator must be opened or entered again.
    void allow(uint64_t steps) {
        allowed_ = steps;
        looked_max_ = steps > ~looked_at ? ~0ull : looked_at + steps;
        pause_at_ = looked_max_ < poll_at_ ? looked_max_ : poll_at_;
    }
    uint64_t left() const { return looked_max_ - looked_at; }
    // The one place where work is counted.
    void spend(uint64_t steps) {
        looked_at += steps;
        if (looked_at > pause_at_) [[unlikely]] pause();
    }

private:
    void pause();                       // sees whether that was too much, or the call was interrupted

    // -- what is known about the query's entries; filled by prepare(), except names, which are resolved on first use
    struct StepPlan {
        uint32_t name = none;           // of the test: name id, URI id or local id; see resolve()
        uint32_t slot = none;           // of the verdicts, where elements may come here more than once
        bool resolved = false;
        uint8_t atoms = 0;              // comparisons with positions that tell the slots of a numbered step apart; 0: it is none
        std::array<uint32_t, 3> atom{};
    };
    struct ExprPlan {
        uint32_t slot = none;
        bool positional = false;
    };
    enum class Verdict : uint8_t { unknown, no, yes };
    struct Range {
        uint32_t begin = 0, end = 0;
        bool empty() const { return begin >= end; }
    };

    void open(const Query& query, bool ordered);
    void prepare_entry(uint32_t entry, bool condition);
    void settle(Variables variables);
    void prepare_paths(uint32_t first, bool nested, bool goal, bool whole);
    void prepare_steps(const PathEntry& path, bool nested, bool goal, bool whole);
    void number_step(const Step& step, StepPlan& plan);
    bool prepare_expr(uint32_t index, bool nested, bool kept);
    void keep_parts(uint32_t index);
    bool names_occur(uint32_t first_step);
    void resolve(const Step& step, StepPlan& plan);
    uint32_t local_id(uint32_t name);
    uint32_t find_local(std::string_view local);
    void number_locals();
    uint32_t known_local(std::string_view local, uint64_t hash) const;   // among the names that have been numbered; none
    StepPlan& plan(uint32_t step) {
        StepPlan& found = step_plans_[step];
        if (!found.resolved) resolve(query_->step(step), found);
        return found;
    }
    // Whether a name passes the test of a step. Only numbers are compared here.
    bool passes(const Step& step, const StepPlan& plan, uint32_t name) {
        switch (step.test) {
            case Test::any: return true;
            case Test::name: return name == plan.name;
            case Test::any_namespace: return names_->uri_id(name) == plan.name;
            case Test::any_local: return local_id(name) == plan.name;
        }
        return false;
    }

    // -- the document
    void build_name_index();
    Range named(uint32_t name, uint32_t begin, uint32_t end);   // positions in by_name_ of the elements in [begin, end)
    uint32_t below(uint32_t element) const { return element == none ? 0 : element + 1; }
    // Elements are numbered in document order, so a subtree is the range from `element` to end_of(element).
    // The document itself, `none`, contains all of them.
    uint32_t end_of(uint32_t element) const {
        return static_cast<uint32_t>(element == none ? document_->elements() : element + document_->size[element]);
    }
    Range texts_of(uint32_t element) const;
    StringValues::Texts value_texts(Item item) const {          // of an element or a text
        if (item.kind == StepKind::text) return {item.index, item.index + 1};
        Range texts = texts_of(item.index);
        return {texts.begin, texts.end};
    }
    Range attributes_of(uint32_t element) const;                // of the element itself
    Range attributes_within(uint32_t element) const;            // and of those below it
    uint32_t next_child_text(uint32_t element, uint32_t from);
    uint32_t owner(uint32_t attribute) const;

    // -- conditions
    bool check(uint32_t expr, Item item, uint32_t position, uint32_t last);
    // Decides a part of a condition, and keeps the answer if planning gave the part a slot.
    bool check_part(uint32_t expr, Item item, uint32_t position, uint32_t last) {
        return expr_plans_[expr].slot == none ? check(expr, item, position, last) : check_kept(expr, item);
    }
    bool check_kept(uint32_t expr, Item item);
    bool check_predicates(const Step& step, Item item);
    bool check_paths(uint32_t expr, Item item);
    bool check_first(const Expr& expr, Item item);
    bool check_term(uint32_t term, Item item, uint32_t position, uint32_t last);
    Terms& terms();                     // ready for the query
    Terms& terms_of(uint32_t term);     // and the variables of the term
    std::vector<uint32_t> numbers_;     // of the items of variables, for terms
    uint32_t number_in(const ItemTable& table, Item item) const;
    void select_term(uint32_t term, bool with_document, std::vector<Item>& out);
    bool check_text(const Expr& expr, Item item);
    bool check_empty(const Expr& expr) const { return query_->value(expr.value).text.size == 0; }
    bool check_position(const Expr& expr, uint32_t position, uint32_t last) const;
    bool compare(const Expr& expr, Item item);
    bool text_equals(Item item, std::string_view text);
    std::string_view text_of(Item item);
    double number_of(Item item);

    // -- one step at a time, depth first
    // How a cursor enumerates its axis: one element, children by jumps, a range, a list by name, texts of the element itself,
    // groups for positions, or single elements with a number.
    enum class Way : uint8_t { one, children, range, listed, child_texts, groups, numbered };
    enum class Next : uint8_t { candidate, success, done };
    // What is asked of a path. `any`: a verdict is an answer. `first`: only failures are answers, since a success does not
    // say which item is first. `all`: verdicts are neither used nor kept.
    enum class Want : uint8_t { any, first, all };
    // One step of a path in progress: where it started, what is left of its axis, and the candidate in hand.
    struct Cursor {
        uint32_t step = 0, context = none;
        uint32_t at = 0, end = 0;       // what is left of the axis; positions in by_name_ where listed
        uint32_t candidate = none;
        uint32_t started = 0, limit = 0;        // where the axis began and ends, for the run of failures
        uint32_t group = none;          // groups: the context that the survivors were numbered for
        uint32_t survivors = 0, survivor = 0;   // groups: where they lie, and the next one
        uint32_t slot = none;           // of the verdicts on candidates; of `numbered`, in this stretch
        uint32_t first = 0, stretch_end = 0;    // numbered: where it counts from, and where a comparison changes
        Way way = Way::one;
        Want want = Want::any;
        bool reached = false;           // first_of_all(): something, from one candidate or another
        bool by_name = false;           // numbered: places in by_name_
        bool document_waits = false;    // groups: the document itself comes first
        bool open_group = false;        // groups: `group` has been gathered
    };
    bool reaches(uint32_t first_step, uint32_t context, uint32_t goal, Item* found = nullptr);
    void push_cursor(uint32_t step, uint32_t context, Want want, uint32_t from = 0);
    void aim(Cursor& cursor, const Step& step, const StepPlan& plan, uint32_t from);
    void aim_deep(Cursor& cursor, const Step& step, const StepPlan& plan, Range range);
    void aim_groups(Cursor& cursor, const Step& step);
    Next advance(uint32_t cursor);
    template <bool children> Next advance_named(Cursor& cursor);
    Next advance_other(Cursor& cursor);
    Next advance_group(uint32_t cursor);
    void aim_numbered(Cursor& cursor, const Step& step, const StepPlan& plan);
    void begin_stretch(Cursor& cursor);
    bool advance_numbered(Cursor& cursor);
    bool passes_numbered(const Cursor& cursor, const Step& step, Item item);
    uint32_t element_at(const Cursor& cursor, uint32_t at) const { return cursor.by_name ? by_name_[at] : at; }
    bool holds_at(const Cursor& cursor, const Step& step, Item item);
    // Where the verdicts on a cursor's candidates are stored. A step that works in groups has verdicts on groups instead.
    static uint32_t candidate_slot(const Cursor& cursor, const Step& step) {
        return cursor.way != Way::groups && step.kind == StepKind::element ? cursor.slot : none;
    }
    bool first_of_all(uint32_t first_step, uint32_t context, Item& found);
    void leave_cursor(uint32_t base, bool reached);
    bool skip_failures(Cursor& cursor);
    void pop_cursor();
    void fail_cursor(uint32_t base);
    bool succeed(uint32_t base);
    void note_failures(const Cursor& cursor, uint32_t end);
    void gather(uint32_t step, uint32_t context);
    void gather_axis(const Step& step, const StepPlan& plan, uint32_t context, uint32_t most);
    void sift(size_t base, uint32_t predicate, StepKind kind);

    // -- verdicts
    Verdict verdict(uint32_t slot, uint32_t element);
    void keep(uint32_t slot, uint32_t element, bool value);
    void size_table();

    // -- sets
    // Everything that a prefix of a path leads to.
    struct Reached {
        StepKind kind = StepKind::element;
        std::vector<uint32_t> items;    // ascending
        std::vector<uint32_t> bounds;   // ordered: what the next step's witness must come after
    };
    void walk(uint32_t first_step, Reached& set);               // from the set to what the steps lead to
    void walk_step(uint32_t step, const Reached& contexts, Reached& out);
    void collect(uint32_t step, const Reached& contexts, std::vector<uint32_t>& out);
    Reached start_at(uint32_t context) const { return {StepKind::element, {context}, {context}}; }
    void walk(uint32_t first_step, Reached& set, Reached& next);
    void select_path(const PathEntry& path, std::vector<Item>& out);
    void descend(uint32_t first_step, uint32_t context, std::vector<Item>& out);
    Item first_item(const PathEntry& path, Item item);
    bool find_first(const PathEntry& path, Item item, Item& found);
    // Where a path starts when it is asked at an item.
    Item start_of(const PathEntry& path, Item item) const {
        if (path.absolute) return {};
        return path.variable == no_entry ? item : variables_[path.variable];
    }
    bool in_document_order(const PathEntry& path) const;

    // -- ordered patterns
    bool fits(uint32_t step, uint32_t element, uint32_t goal);
    bool fits_branches(uint32_t step, uint32_t element, uint32_t& bound);
    uint32_t first_witness(uint32_t step, uint32_t context, uint32_t after, uint32_t goal);
    uint32_t witness_of_first(const Expr& expr, uint32_t element, uint32_t after);
    bool continues(uint32_t step, uint32_t element, uint32_t after, uint32_t goal);

    const Document* document_ = nullptr;
    const Query* query_ = nullptr;
    bool ordered_ = false;
    Variables variables_;
    bool settled_ = false;                      // the verdicts' table fits what was prepared
    std::vector<StepPlan> step_plans_;
    std::vector<ExprPlan> expr_plans_;
    std::vector<Verdict> path_verdicts_;        // by PathEntry: absolute paths in predicates have one answer

    // Ids of local names, for *:a. They stay valid as long as the ids of the NameTable.
    const NameTable* names_ = nullptr;
    uint64_t generation_ = 0;
    IdSlots local_slots_;
    std::vector<uint32_t> name_of_local_;       // by local name: the first name that has it
    std::vector<uint32_t> local_of_name_;

    // Elements by name, built when first needed.
    struct NameRange { uint32_t stamp = 0, begin = 0, end = 0; };
    bool index_built_ = false;
    uint32_t index_stamp_ = 0;
    std::vector<NameRange> name_ranges_;
    std::vector<uint32_t> by_name_, names_present_;

    // Verdicts on 64 elements of one slot: which are known, and what they are.
    struct Block { uint64_t key = 0, known = 0, value = 0; };
    // Consecutive elements that are known to fail.
    struct Run { uint32_t begin = 0, end = 0; };
    std::vector<Block> blocks_;
    std::vector<Run> runs_;                     // by slot: elements that are known to fail
    uint64_t stamp_ = 0, blocks_per_slot_ = 0;
    uint32_t slots_ = 0;

    Reached reached_, reached_next_;            // of select(): its memory is kept
    std::vector<Cursor> cursors_;
    std::vector<uint32_t> survivors_;           // a stack: of positional steps, what is left after their predicates
    StringValues values_;
    std::unique_ptr<Terms> terms_;              // none before the first term
    const Query* terms_query_ = nullptr;        // that they are open for
    std::span<const uint32_t> shared_;          // of its terms
    std::string buffer_;
    uint64_t allowed_ = ~0ull, looked_max_ = ~0ull;
    static constexpr uint64_t looks_per_poll = 1u << 14;
    uint64_t poll_at_ = looks_per_poll;         // when to see whether the call was interrupted
    uint64_t pause_at_ = looks_per_poll;        // when to stop for that, or because it was too much
};

}  // namespace treecast
