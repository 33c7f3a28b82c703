// Subscriptions as the Renderer knows them: read once, with everything prepared that no document changes.
//
// A transformation becomes two flat programs: what it binds, and what it builds from that. Programs are shared by all plans with
// the same key, so a plan is little more than its text: many subscribers want the same of different things.
//
// The ops of a program are the shapes in the order in which they are written, each followed by what is inside it. Literals are
// escaped and tags spelled out. Paths that only go down by name are steps that the Builder walks itself; the evaluator does the
// others.
// PERF: a document meets many plans, each a few times, so what counts is how much memory a plan touches (bench/rendering.py).
#pragma once

#include "base/id_slots.hpp"
#include "base/large_pages.hpp"
#include "base/seeded_hash.hpp"
#include "engines/subscriptions.hpp"
#include "query/settings.hpp"
#include "query/transformation.hpp"
#include "render/render.hpp"
#include "render/render_form.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace treecast {

// Strings as numbers, and how many plans use each.
class Keys {
public:
    uint32_t use(std::string_view key);
    void leave(uint32_t number) { --uses_[number]; }
    uint32_t uses(uint32_t number) const { return uses_[number]; }
    uint32_t size() const { return static_cast<uint32_t>(uses_.size()); }
    uint64_t bytes() const { return strings_.bytes() + keys_.capacity() * sizeof(std::string_view); }
    void clear();

private:
    StringArena strings_;
    std::vector<std::string_view> keys_;
    std::vector<uint32_t> uses_;
    IdSlots slots_;
};

// The expanded names in direct paths, numbered for all plans, so that a document resolves each once.
class PathNames {
public:
    uint32_t number(std::string_view uri, std::string_view local) { return table_.intern(uri, local); }
    void begin(const NameTable& names);
    // The document's number for the name, or `none` if it has none.
    uint32_t resolve(uint32_t number) {
        if (number >= resolved_.size()) resolved_.resize(table_.size());
        Resolved& known = resolved_[number];
        if (known.stamp != stamp_) known = {stamp_, names_->find(table_.uri(number), table_.local(number))};
        return known.name;
    }
    uint64_t bytes() const { return table_.bytes(); }
    void clear();

private:
    struct Resolved {
        uint64_t stamp = 0;
        uint32_t name = none;
    };
    NameTable table_;
    const NameTable* names_ = nullptr;
    uint64_t generation_ = 0, names_known_ = 0, stamp_ = 0;
    std::vector<Resolved> resolved_;
};

enum class OpKind : uint8_t {
    sequence,       // what is in it, one after the other
    element,        // a constructor: first the attributes of its tag
    tag_attribute,
    attribute,      // computed
    text,           // of a constructor
    markup,         // a comment or an instruction
    value,          // a literal
    items,          // what paths select
    string_of,      // of paths: the first item
    count,
    name_of,
    joined,         // string(), concat(): one value of what is in it
    term,           // the value of a term
    term_items,     // what a term selects
    choice,
    flwr,
};

// Slices are of Program::literals.
struct Op {
    OpKind kind = OpKind::sequence;
    bool plain = false;              // element: neither it nor its attributes have namespaces, and it declares none
    bool constant = false;           // tag_attribute: `literal` is all of it
    bool binds = false;              // flwr: it has a `for`
    uint32_t end = 0;                // after what is in it
    uint32_t shape = no_entry;
    Slice literal;                   // escaped: <name; ` name="`, or all of it; text, markup and values
    uint32_t entry = no_entry;       // PathEntry of paths, Expr of a choice, Term
    uint32_t key = no_entry;         // element: shared with the same shape of others. flwr that depends on no variable round it:
                                     // of what it binds
    uint32_t first = no_entry;       // element, flwr: its variables in Program::variables. paths: where in Program::steps, if direct
    uint32_t count = 0;              // of these
};

// A step of a direct path: the children, attributes or child texts of that name. The variable comes before the first step.
struct DirectStep {
    uint32_t name = no_entry;        // PathNames; or the variable's number, no_entry: the document
    StepKind kind = StepKind::element;
    bool any = false;
};

struct Program {
    std::vector<Op> ops;
    std::vector<DirectStep> steps;
    std::vector<uint32_t> variables;
    std::string literals;
    std::vector<uint32_t> outer;               // the variables that it finds bound, in the order of its key
    std::vector<uint32_t> paths, conditions;   // that the evaluator is asked for
    std::shared_ptr<Transformation> all;       // of the first plan that had it
    std::vector<uint32_t> open_values;         // of its query: literals that subscriptions fill in (render_form.hpp)
    bool binds = false;                        // there is a `for` in it

    std::string_view literal(Slice slice) const { return {literals.data() + slice.begin, slice.size}; }
    uint64_t bytes() const;                    // of memory, roughly
};

struct Plan {
    enum class Is : uint8_t { document, elements, built, list };
    Is is = Is::document;
    uint32_t key = no_entry;                   // equal for plans that give equal payloads, filled alike
    std::string text;                          // of its form
    Settings settings;
    // built: a FLWR's clauses and what it returns; without clauses the whole is the body
    std::shared_ptr<const Program> clauses, body;
    uint32_t clauses_key = no_entry, body_key = no_entry;
    std::vector<uint32_t> places;              // for each outer variable of the body, where it is among those bound
    // What the requesting subscription fills in: its literals as numbers of Keys, and where its text is until they are in the
    // program. PERF: bench/rendering.py: the text is not read where what it binds has been found for another.
    std::span<const uint32_t> filled;
    mutable std::optional<HeldQuery> unfilled;
    std::shared_ptr<const Transformation> list;
    std::unique_ptr<const Query> query;        // elements
    bool unfit = false;                        // its form does not do: each text needs a plan of its own
    uint64_t hash = 0;
    uint64_t bytes = 0;                        // of memory, roughly, without what it shares
};

// Made from a shape of a transformation or, if only `clauses` are wanted, from those of a FLWR.
std::shared_ptr<Program> make_program(std::shared_ptr<Transformation> all, uint32_t shape, bool clauses, Keys& keys,
                                            PathNames& names);

// What the clauses of a FLWR bind, as a key. `order` receives the variables that they bind and mention, in this order.
std::string clauses_key(const Transformation& all, uint32_t clauses, std::vector<uint32_t>& order);

// Puts the literals of the requesting subscription into the plan's clauses, if they are not there yet.
void fill_clauses(const Plan& plan);

// Plans by text and settings, in two generations. When the young one is full, the old one is dropped.
// A plan that is asked for becomes young again, so what is in use stays.
class PlanCache {
public:
    explicit PlanCache(uint64_t bytes_max = 64ull << 20) : bytes_max_(bytes_max) {}
    // The plan is valid until the next call, and the text must stay valid as long.
    const Plan& find(const HeldQuery& query, Identity identity = {});
    // Asks the processor to load what find() and later calls will touch. Each stage loads what the one before led to.
    void prefetch(Identity identity, size_t stage) const;
    const Keys& keys() const { return keys_; }
    PathNames& names() { return names_; }
    uint64_t parsed() const { return parsed_; }
    // When this changes, numbers of keys change their meaning.
    uint64_t generation() const { return generation_; }

private:
    // Open addressing by hash. Entries are only deleted all at once; plans that were moved out leave their slot marked.
    class Generation {
    public:
        Generation() : slots_(64) {}
        std::unique_ptr<Plan>* find(uint64_t hash, std::string_view text, const Settings& settings);
        void add(std::unique_ptr<Plan> plan);
        template <class Visit> void each(Visit&& visit) const {
            for (const Slot& slot : slots_)
                if (slot.plan) visit(*slot.plan);
        }
        uint64_t bytes = 0;

    private:
        struct Slot {
            uint64_t hash = 0;
            bool used = false;
            std::unique_ptr<Plan> plan;
        };
        void place(uint64_t hash, std::unique_ptr<Plan> plan);
        std::vector<Slot> slots_;
        size_t used_ = 0;
    };
    Plan& of_text(std::string_view text, const Settings& settings);
    Plan& of_form(const Settings& settings);
    std::unique_ptr<Plan> make(const Settings& settings);
    void make_built(Plan& plan, std::shared_ptr<Transformation> all);
    std::shared_ptr<const Program> program(const std::string& key, uint32_t& number, const std::shared_ptr<Transformation>& all,
                                           uint32_t shape, bool clauses);
    void leave_program(uint32_t number);
    Plan& keep(std::unique_ptr<Plan> plan);
    void drop(Generation& generation);

    const uint64_t bytes_max_;
    Keys keys_;
    PathNames names_;
    std::vector<std::shared_ptr<const Program>> programs_;   // by key
    uint64_t program_bytes_ = 0;
    Generation young_, old_;
    uint64_t parsed_ = 0, generation_ = 0;
    Form form_;                      // of the text asked for
    std::vector<uint32_t> filled_;   // with its literals, where it has more than a Recent holds
    // What is known of the subscriptions of one body by their slots. PERF: a slot that is asked for again is found at one
    // place of memory, without a look at its text (bench/rendering.py).
    struct Recent {
        Plan* plan = nullptr;
        uint32_t stamp = 0;          // as it was then
        uint32_t filled = 0;
        std::array<uint32_t, 4> literals;
    };
    const Recent* recent(Identity identity) const {
        if (identity.serial != recent_serial_ || identity.slot >= recents_.size()) return nullptr;
        const Recent& found = recents_[identity.slot];
        return found.stamp == stamp_ ? &found : nullptr;
    }
    void remember(Identity identity, Plan& plan);
    void forget_recents();
    static constexpr size_t recents_max = 1u << 20;      // 32 MiB
    std::vector<Recent, LargePages<Recent>> recents_;
    uint64_t recent_serial_ = 0;
    uint32_t stamp_ = 1;             // another when plans are gone, or slots mean something else
};

}  // namespace treecast
