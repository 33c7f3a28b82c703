// Matches documents on a TreeMachine, bottom-up. One TreeRun belongs to one thread at a time.
//
// Elements are closed in document order of their end tags. Each open level collects what its closed children report.
// See tree_machine.hpp for the sets of bits, and tree_run.cpp for how closing works.
#pragma once

#include "base/accept_bits.hpp"
#include "base/answer_bits.hpp"
#include "document/document.hpp"
#include "document/marks.hpp"
#include "document/string_values.hpp"
#include "machines/derived_values.hpp"
#include "machines/lazy.hpp"
#include "machines/substrings.hpp"
#include "machines/tree_machine.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace treecast {

class TreeRun {
public:
    TreeRun(std::shared_ptr<const TreeMachine> machine, LazyCaches& caches);

    const TreeMachine& machine() const { return *machine_; }
    void forget_names();
    // Adds the accept ids of all patterns that the document satisfies to `out`.
    void run(const Document& document, NameResolver& names, AnswerBits& out);
    // How many entries and contexts were looked at one by one so far, whether they held or not: for tests.
    uint64_t looked_at() const { return looked_at_ + (value_paths_ ? value_paths_->looked_at() : 0); }
    // For what is learned of paths that end in values.
    void set_cache_bytes_max(uint64_t bytes) {
        if (value_paths_) value_paths_->set_bytes_max(bytes);
    }
    void rest() {                                           // see Lazy
        if (value_paths_) value_paths_->rest();
    }

private:
    struct Locals {                                         // the machine's numbers for the labels that a name fires
        uint32_t count = none;                              // none: not looked up yet
        std::vector<uint32_t> label;                        // five, and those that are derived from them
        uint32_t family = none;                             // what else its place may fire, for elements; see Family
        bool valued = false;                                // some condition or gauge concerns the value
        bool eager = false;                                 // something is tested wherever it occurs
        bool direct = true;                                 // nothing follows but what single tests say
        bool late = true;                                   // it matters only where something else was found before
        bool counts = false;                                // counters are asked for
        bool firsts = false;                                // first items of paths are asked for
        const uint32_t* begin() const { return label.data(); }
        const uint32_t* end() const { return label.data() + count; }
    };
    // Elements of one name, where some labels depend on their place among their siblings. They are counted in document order.
    // The parents stand on a stack: those that began after the parent in hand are closed, and never come again.
    struct Family {
        struct Placed { uint32_t place; Locals labels; };
        struct Count { uint32_t parent, count; };
        std::vector<Placed> placed;                         // ascending by place
        std::vector<Count> counts;
        uint64_t run = 0;                                   // to which the counts belong
        uint32_t next_place(uint32_t parent);
        const Locals* at(uint32_t place) const;             // null: nothing depends on this place
    };
    using Pairs = std::vector<std::pair<uint32_t, uint64_t>>;
    struct Level {                                          // what holds at the children and below an open element
        Pairs child, descend;                               // words of entries
        Pairs child_gauges, descend_gauges;                 // and how high gauges stand
        size_t child_max = 1024, descend_max = 1024;        // lengths at which duplicates are taken out
        size_t child_gauges_max = 64, descend_gauges_max = 64;
        bool keys = false;                                  // something may be looked up by what holds, or by a gauge
        uint64_t stamp = 0;                                 // another one whenever it starts afresh
        bool is_empty() const { return child.empty() && descend.empty() && child_gauges.empty() && descend_gauges.empty(); }
        void clear(uint64_t new_stamp) {
            child.clear(), descend.clear(), child_gauges.clear(), descend_gauges.clear(), keys = false, stamp = new_stamp;
        }
    };
    // What holds for an element of a name with nothing below it, where that depends on its name alone.
    struct Bare {
        bool is_known = false, keys = false;
        uint64_t stamp = 0;                                 // of the level that got it last
        Pairs child, descend;
        std::vector<uint32_t> witnesses;                    // that it is
    };

    template <class Bits>
    void run_with(const Document& document, NameResolver& names, AnswerBits& out);
    bool matters(const Document& document, uint32_t element, NameResolver& names);
    bool has_interest(const Locals& labels) const {
        return text_labels_.count || (labels.count && (labels.eager || labels.valued || labels.firsts || (labels.counts && siblings_.is_early)));
    }
    void open_to(const Document& document, uint32_t element);
    template <class Bits>
    void close(const Document& document, uint32_t element, NameResolver& names);
    template <class Bits>
    void close_bare(uint32_t name, const Locals& labels, Level& above);
    template <class Bits>
    uint32_t attributes(const Document& document, uint32_t element, NameResolver& names, Level& into, bool late);
    template <class Bits>
    void texts(const Document& document, uint32_t until);
    // The entries that hold for something with these labels, given the sets in child_list_, descend_list_ and test_list_.
    template <class Bits, class Emit>
    void apply(const Locals& labels, Emit&& emit);
    template <class Bits, class Emit>
    void apply_context(uint32_t context, Emit&& emit);
    template <class Emit>
    void apply_spans(uint32_t context, Emit&& emit);
    template <class Emit>
    void test(const TreeMachine::Candidate* begin, const TreeMachine::Candidate* end, Emit&& emit);
    struct Group { uint32_t begin, end; };                  // in quicks_: entries whose pivot holds
    template <class Emit>
    void test_groups(std::span<const Group> groups, Emit&& emit);
    template <class Bits>
    void leaf(const Locals& labels, std::string_view value, uint32_t attribute, Level& into);    // an attribute or a text (none)
    template <class Bits>
    void leaf_found(const Locals& labels, Level& into);     // the same, once its tests are known
    template <class Bits>
    void count(uint32_t element, Level& into, bool late);   // the counters whose time has come
    void emit(Level& into, uint32_t position, uint64_t bits);
    void hand_over(Level& into);                            // what emit() has gathered
    void pass(Level& level, Level& above);                  // what is below an element is also below what it stands in
    void load(Level& level);
    // The tests that a value meets or, for direct labels, what holds for it.
    void find_tests(const Locals& labels, std::string_view value, uint32_t attribute, Level& into);
    void find_tests(const Locals& labels, const Document& document, uint32_t element, Level& into);
    void find_made_tests(uint32_t label, const Document& document, uint32_t element, Level& into);
    void sweep_made(uint32_t group, const DerivedValues::Made& made);
    void find_group_tests(uint32_t group, const Document& document, uint32_t element, std::string_view value, double number);
    bool is_swept(uint32_t group, const Document& document, uint32_t element);
    bool may_be_in(uint32_t group, uint32_t name) const;
    void sweep(uint32_t group, const Document& document, uint32_t element);
    std::string_view value_beginning(const Document& document, uint32_t element, uint64_t bytes_max);
    void shorten(Pairs& pairs, size_t& max, AcceptBits& bits, Words& list);
    // Reports the value to the gauges of its own element and of its parent.
    void gauge(uint32_t label, std::string_view value, double number, Level& into);
    bool set_test(uint32_t test);                           // whether it was set before
    void emit_test(uint32_t test, Level& into);             // what a test of a direct label says
    void list_tests(const Locals& labels, Level& into);
    void raise(uint32_t gauge, uint64_t height);
    void raise(const Level& level);
    void note_gauge(Level& into, uint32_t space, uint32_t gauge, uint64_t height);
    void derive(const Locals& labels, Level& into);         // gauges from others that stand as high at this element
    void unload();
    void lower();                                           // all gauges to 0
    const Locals& element_labels(uint32_t name, NameResolver& names);
    const Locals& attribute_labels(uint32_t name, NameResolver& names);
    const Locals& labels_of(const Document& document, uint32_t element, NameResolver& names);     // once its place is known
    void find_place(const Document& document, uint32_t element, NameResolver& names);
    Locals localize(const uint32_t* labels, uint32_t any) const;
    void fire(Locals& locals, uint32_t local) const;
    void add_family(Locals& locals, uint32_t name);
    // Of first items (tree_firsts.cpp).
    struct Firsts {
        struct Path {
            Locals labels;
            uint64_t run;                                   // of the item that was read last, and what follows from it
            StepKind kind;
            uint32_t index;
            Level level;
        };
        struct Item { uint32_t path; StepKind kind; uint32_t index; };
        std::vector<Path> paths;                            // by number
        std::vector<uint64_t> met;                          // by number: the stamp of the element that has met an item
        std::vector<Item> items;                            // of the element in hand
        std::vector<std::vector<uint32_t>> descendants;     // by descendant label: elements, ascending
        uint64_t stamp = 0, listed_run = 0;
    };
    void start_firsts();
    void list_descendants(NameResolver& names);
    void find_firsts(uint32_t element, const Locals& labels, NameResolver& names);
    void walk_firsts(uint32_t element, std::span<const FirstPaths::Step> steps, NameResolver& names);
    void meet_first(const FirstPaths::Step& step, StepKind kind, uint32_t index);
    std::string_view first_value(const Firsts::Item& item, const Locals& labels);
    template <class Bits>
    void firsts(uint32_t element, const Locals& labels, NameResolver& names, Level& into);
    // Of comments and instructions (tree_marks.cpp).
    struct MarkRun {
        struct Child { uint32_t parent, mark; };            // parent: from 1 on, as 0 is the document
        Marks marks;
        std::vector<Child> children;                        // by parent
        size_t next = 0;                                    // the first whose parent has not been opened
        Locals comment, instruction, target;                // target: of the instruction that was met last
        std::string last_target;
    };
    void start_marks(const Document& document);
    std::span<const MarkRun::Child> marks_of(uint32_t element) const;       // none: of the document
    bool has_marks_at(uint32_t element);                    // to be asked of each element in document order
    bool has_content(uint32_t element) const;
    const Locals& target_labels(uint32_t mark, NameResolver& names);
    template <class Bits>
    void marks(uint32_t element, NameResolver& names, Level& into);
    // Of orders (tree_orders.cpp).
    void note_witnesses(uint32_t word, uint64_t bits);
    void note_witness(uint32_t witness);
    void forget_witnesses();
    bool is_in_order(uint32_t order);                       // at the element that closes
    void find_counters();
    void count_siblings(const Document& document);

    std::shared_ptr<const TreeMachine> machine_;
    std::vector<Locals> element_labels_, attribute_labels_;  // by name
    Locals text_labels_, root_labels_;
    std::vector<Family> families_;
    std::vector<uint32_t> places_;                          // by element: its place, if its name has a family
    // What counters say, of every element. Siblings of one name are a group.
    struct Siblings {
        struct Place { uint32_t by_name, among_all, group, parent; };
        struct Open { uint32_t parent, group; };
        struct Name { uint64_t run = 0; std::vector<Open> open; };       // as in Family
        std::array<Locals, counters> labels;
        bool are_counted = false, is_early = false;         // somebody asks for some; and where nothing was found before
        std::vector<Place> places;                          // by element
        std::vector<uint32_t> children, groups;             // how many; by parent, from 1 on, as 0 is the document; by group
        std::vector<Name> names;
        uint32_t number(Counter counter, uint32_t element) const;
    } siblings_;
    enum Interest : uint8_t { interest_known = 1, interest_element = 2, interest_attribute = 4, interest_place = 8 };
    std::vector<uint8_t> interest_;                         // by name; 0: not looked up yet
    std::vector<Bare> bare_;                                // by name
    const Document* document_ = nullptr;                    // of the run in progress
    uint32_t closing_ = none;                               // the element that is being closed
    std::vector<std::vector<uint32_t>> witnesses_;          // of branches with an order: at which elements they hold, ascending
    std::vector<uint32_t> noted_;                           // witnesses at the element that is being closed
    std::vector<uint32_t> witnesses_touched_;               // those that are not empty
    std::vector<Group> group_list_;                         // of the context in hand
    std::vector<uint32_t> positions_;                       // of those that were found to hold
    uint64_t stamps_ = 0;
    std::vector<Level> levels_;                             // by depth; 0 is the document
    std::vector<uint32_t> open_;
    uint32_t next_text_ = 0;
    AcceptBits child_bits_, descend_bits_, test_bits_;
    Words child_list_, descend_list_, test_list_;
    bool has_tests_ = false;                                // set, and not listed yet
    std::vector<uint64_t> heights_;                         // by gauge; 0 but for those in raised_
    std::vector<uint32_t> raised_;
    std::vector<uint32_t> contexts_;                        // still to be applied
    std::vector<uint64_t> scratch_;
    std::string value_;
    uint32_t gathered_word_ = 0;
    uint64_t gathered_ = 0;
    uint64_t looked_at_ = 0;
    std::unique_ptr<ValuePathsRun> value_paths_;            // null where there are none
    std::unique_ptr<Firsts> firsts_;                        // likewise
    std::unique_ptr<MarkRun> marks_;                        // likewise
    StringValues string_values_;
    DerivedValues derived_values_;
    // Groups of conditions with substrings: how much has been read for them in this run.
    static constexpr uint64_t swept_bytes_min = 4096;
    struct Nest {
        uint64_t run = 0, bytes = 0;
        bool swept = false;
        uint32_t next_text = 0;                             // for the Sweep to read
        size_t next_byte = 0;                               // the same for values that are made of all texts
        std::unique_ptr<Sweep> sweep;
    };
    std::vector<Nest> nests_;                               // by group; none where there are no automata
    uint64_t run_ = 0;
};

}  // namespace treecast
