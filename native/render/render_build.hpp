// A plan and a document -> bytes. Private to the Renderer.
//
// How it works. The program is walked once, and its result goes straight to the end of one buffer. A start tag stays open until
// something other than an attribute comes, so that attribute items in the content can still be put into it. Whether the
// previous item was a value is remembered: two values in a row get a space between them (XQuery 3.9.1.3). Namespaces in
// force are a stack; an element declares what it needs and does not have.
//
// What `for` and `where` bind is gathered first, as a flat array of tuples. It is sorted if requested, and then walked.
//
// Before a constructor is built, it is looked up by its key, the namespaces in force, and the items of its variables.
// That is done only if more plans contain it than contain the whole that is being built: only then can another plan ask for it.
#pragma once

#include "base/seeded_hash.hpp"
#include "evaluate/evaluate.hpp"
#include "render/copy.hpp"
#include "render/render.hpp"
#include "render/render_memo.hpp"
#include "render/render_plan.hpp"
#include "render/scopes.hpp"

#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace treecast {

class Builder {
public:
    using Item = Evaluator::Item;

    Builder(const RenderLimits& limits, bool share) : limits_(limits), share_(share) {}

    // Its payloads begin at `payloads_begin`: where `out` ends, except for a Builder that takes over from another.
    void begin(const Document& document, Bytes& out, uint64_t payloads_begin);
    uint64_t payloads_begin() const { return document_begin_; }
    void forget_keys();                  // numbers of keys have changed their meaning

    // Both append to out() and return false if nothing is bound or selected. After a Failure the output must be cut() back.
    bool build(const Plan& plan, PlanCache& plans);
    bool copy_selected(const Plan& plan);
    // From now on the evaluator may work as much as for one query.
    void allow_deciding() { evaluator.allow(work_max(*document_, limits_.work_per_item_max)); }

    // How many bytes this payload may still have.
    uint64_t room() const;
    [[noreturn]] void refuse_size() const;
    void add_original();                 // the document as it came, which has its own limit
    void start();                        // a payload begins at the end of out()
    void cut();                          // back to where it began, and nothing that was made since is used again

    Bytes& out() const { return *out_; }
    Evaluator evaluator;
    uint64_t bound = 0, reused = 0;      // how often

private:
    struct Tuples {
        bool kept = false;               // in kept_, else in stack_
        size_t begin = 0, count = 0;
    };

    // render_build.cpp
    bool build_payload(const Plan& plan, PlanCache& plans);
    void run(uint32_t at);
    void run_all(uint32_t at, uint32_t end) {
        for (; at < end; at = program_->ops[at].end) run(at);
    }
    void content(uint32_t at, uint32_t end);
    void element(uint32_t at);
    void element_itself(uint32_t at);
    uint32_t open_tag(uint32_t at);
    void tag_attribute(uint32_t at);
    void close_tag() {
        if (!tag_open_) return;
        *out_ += '>';
        tag_open_ = false;
    }
    void declare(std::string_view prefix, std::string_view uri, bool written);
    void bind(std::string_view prefix, std::string_view uri, bool written);
    // What a constructor is made from.
    struct KeyWords {
        std::array<uint64_t, 1 + transformation_limits.variables_max> words;
        size_t count = 0;
        std::span<const uint64_t> all() const { return {words.data(), count}; }
    };
    void key_words(const Op& op, KeyWords& words) const;
    bool reuse(std::span<const uint64_t> words, uint64_t& hash);
    void ready();
    void use(const Program& program) {
        program_ = &program;
        all_ = program.all.get();
    }
    void check_room(uint64_t bytes) const {
        if (out_->size() + bytes > end_max_) refuse_size();
    }
    // After every answer: a path may be followed for each binding, through all of the document, and find nothing.
    void check_work() {
        if (evaluator.looked_at > pause_at_) pause();
    }
    void pause();

    // render_items.cpp
    void computed_attribute(uint32_t at);
    void attribute_item(uint32_t attribute);
    void open_attribute(std::string_view prefix, std::string_view local, std::string_view uri);
    std::string_view prefix_for(std::string_view prefix, std::string_view uri);
    bool takes_prefix(std::string_view prefix) const;
    [[noreturn]] void refuse_attribute(const char* message, const char* hint) const;
    void items(const Op& op);
    void term_items(const Op& op);
    void item(Item item);
    void value(uint32_t at);
    void value_piece(uint32_t at);
    bool first_of(const Op& op, Item& found);
    uint64_t count_of(const Op& op);
    void escaped(std::string_view text);
    void characters(std::string_view text);
    void string_of(Item item);
    // Calls visit(item) for what a direct path leads to, in document order, until it returns true.
    template <class Visit> bool walk(const DirectStep* step, const DirectStep* end, Item from, Visit&& visit);
    template <class Visit> bool walk_path(const Op& op, Visit&& visit);
    Item start_of(const Op& op) const {
        uint32_t variable = program_->steps[op.first].name;
        return variable == no_entry ? Item{} : variables_[variable];
    }

    // render_clauses.cpp
    void flwr(uint32_t at);
    Tuples tuples(const Op& op);
    void bind_clauses(uint32_t clause, const Op& op);
    void set_variables(const Op& op, const Item* tuple);
    void count_binding(uint64_t items);
    [[noreturn]] void refuse_width() const;
    [[noreturn]] void refuse_work() const;

    // render_order.cpp
    struct Sorting;
    struct SortKey;
    void sort_tuples(const Op& op, size_t begin);
    bool find_keys(const Clause& clause, Sorting& sorting);
    void sort_ties(const Clause& clause, Sorting& sorting);
    uint64_t sort_key(const Clause& clause);
    bool find_term_keys(const Clause& clause, Sorting& sorting);
    int compare(const Clause& clause, const SortKey& a, const SortKey& b);

    const RenderLimits limits_;
    const bool share_;
    const Document* document_ = nullptr;
    Bytes* out_ = nullptr;
    uint64_t document_begin_ = 0;        // of its payloads, without the original
    Scopes scopes_;

    // of the payload
    const Program* program_ = nullptr;   // that is being run
    const Transformation* all_ = nullptr;
    const Plan* plan_ = nullptr;         // while its clauses are evaluated
    std::span<const uint32_t> filled_;   // what it is filled with
    const Program* entered_ = nullptr;   // whose entries the evaluator knows
    const Keys* keys_ = nullptr;
    PathNames* names_ = nullptr;
    uint64_t begin_ = 0, end_max_ = 0;
    uint64_t bindings_ = 0;
    static constexpr uint64_t looks_per_item = 128;    // that may be bound, or is in the document
    uint64_t looked_max_ = 0;             // by the evaluator's count
    uint64_t pause_at_ = 0;               // by it too: when to see whether that is reached, or the call was interrupted
    std::vector<std::pair<const Op*, uint64_t>> counted_;      // count() of paths that start at no variable
    size_t tuples_ = 0;                  // of the clauses being bound
    bool body_again_ = false;            // other plans build the same of other bindings
    bool bound_any_ = false, delivered_any_ = false;
    uint32_t covered_ = 0;               // plans that have the innermost shape that is being made for reuse
    std::array<Item, transformation_limits.variables_max> variables_;

    // of the place in it
    bool tag_open_ = false;
    bool joins_ = false;                 // the item before was a value
    bool in_value_ = false;              // of an attribute
    uint32_t elements_ = 0;              // constructors round it
    const Op* source_op_ = nullptr;      // where attributes come from
    uint32_t open_shape_ = no_entry;     // of the element whose tag is open
    size_t open_force_ = 0;              // what was in force before it
    struct Attribute {
        std::string_view prefix, local, uri;
    };
    std::vector<Attribute> added_;       // to the open tag, besides those of its shape
    NamespacesInForce in_force_;
    std::vector<bool> written_;          // parallel to it: bound by an xmlns attribute of the query
    uint32_t force_ = 0;                 // number of that state
    TextMap<uint32_t> forces_;
    std::deque<std::string> prefixes_;   // made up, because the ones asked for were taken

    // of the document
    Memo made_;                          // ranges of out()
    Memo bound_;                         // ranges of kept_
    std::vector<Item> kept_, stack_;
    std::vector<uint64_t> words_;
    std::vector<std::vector<Item>> pool_;
    size_t pool_used_ = 0;
};

}  // namespace treecast
