// Document + Term -> its value, exactly as XPath 1.0 says. The part of the Evaluator that patterns have no words for.
//
// How it works. A path is evaluated a set at a time, step by step: sets are sorted numbers of an ItemTable, so nothing is
// visited twice by one step, however many contexts lead to it. Only a step that counts positions goes context by context.
// A term that does not depend on its context has one value per document, which is kept: for the query or, if others have the
// same term (shared_terms.hpp), for all of them.
//
// All work is reported to Evaluator::spend(), so a term that would take too long is undecided, like any other query.
#pragma once

#include "evaluate/item_table.hpp"
#include "query/query.hpp"
#include "regex/regex_cache.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace treecast {

inline constexpr std::string_view xml_uri = "http://www.w3.org/XML/1998/namespace";

class Evaluator;

class Terms {
public:
    using Set = std::vector<uint32_t>;               // numbers of items, ascending

    struct Result {
        TermType type = TermType::boolean;
        bool boolean = false;
        double number = 0;
        std::string string;
        Set items;
        bool is_true() const;      // boolean() of it
    };

    // The item that a term is asked at, its position, and how many there are.
    struct Context {
        uint32_t item = 0, position = 1, last = 1;
    };

    explicit Terms(Evaluator& evaluator) : evaluator_(evaluator) {}
    void begin(const Document& document);            // cheap
    // Of the same document; forgets what was kept of the query before. `shared`: by term, as SharedTerms numbers them.
    void open(const Query& query, std::span<const uint32_t> shared = {});

    // Makes sure that the items that the query may ask for are numbered.
    const ItemTable& table();
    // The items that the variables of a transformation stand for, by number.
    void set_variables(std::span<const uint32_t> variables) { variables_ = variables; }

    bool truth(uint32_t term, const Context& context);
    double number(uint32_t term, const Context& context);
    void string(uint32_t term, const Context& context, std::string& out);       // appends
    void items(uint32_t term, const Context& context, Set& out);                // refills
    Result value(uint32_t term, const Context& context);

    void append_string(uint32_t item, std::string& out);                        // its string value
    double number_of(uint32_t item);

    // The parts of a path, one by one, for those who ask where it ends. The table has been filled.
    void step(uint32_t index, const Set& contexts, Set& out);                   // refills
    void candidates(uint32_t index, const Set& contexts, Set& out);             // the same without its predicates
    void members(uint32_t index, uint32_t context, Set& out);                   // of one context, in the order of the axis
    void all_on_axis(uint32_t index, const Set& contexts, Set& out);            // elements or attributes of any name
    void filter(uint32_t predicates, Set& items, bool positional);
    bool passes(uint32_t predicate, const Context& context);
    bool compare_results(Relation relation, const Result& left, const Result& right);

private:
    struct StepPlan {
        uint32_t stamp = 0, name = none;
    };
    struct Kept {
        uint32_t stamp = 0;
        Result result;
    };

    void spend(uint64_t steps);
    void begin_sharing();
    bool share(uint32_t number, Result& result);
    static bool is_fixed(const Term& term) { return !term.uses_context && !term.variables && term.kind != TermKind::literal && term.kind != TermKind::number; }
    Result compute(uint32_t term, const Context& context);
    const Result& kept(uint32_t term, const Context& context);

    double arithmetic(const Term& term, const Context& context);

    // terms_path.cpp
    // The first item of a path of one plain step, or none. False: it is another path.
    bool first_item(const Term& path, const Context& context, uint32_t& out);
    void path(const Term& term, const Context& context, Set& out);
    void step_by_context(uint32_t index, const Set& contexts, Set& out);
    void step_all(const TermStep& step, uint32_t name, const Set& contexts, Set& out);
    template <class Visit> void each_on_axis(TermAxis axis, uint32_t item, Visit&& visit);
    bool fits(const TermStep& step, uint32_t name, uint32_t item) const;
    uint32_t name_of(uint32_t step);
    bool has_name(uint32_t step);
    void add_range(const TermStep& step, uint32_t name, uint32_t begin, uint32_t end, Set& out);
    bool has(uint32_t term, const Context& context);

    // terms_compare.cpp
    bool compare(const Term& comparison, const Context& context);
    bool compare_sets(Relation relation, const Set& left, const Set& right);
    bool compare_set(Relation relation, const Set& set, const Result& other);

    // terms_call.cpp
    Result call(const Term& term, const Context& context);
    Result string_call(const Term& term, const Context& context);
    double sum(const Set& set);
    bool lang(const std::string& wanted, uint32_t item);
    std::string name(TermFunction function, uint32_t item);
    std::string argument(uint32_t term, const Context& context);
    bool matches(const Term& call, const Context& context);

    Evaluator& evaluator_;
    const Document* document_ = nullptr;
    const Query* query_ = nullptr;
    ItemTable table_;
    bool asks_for_marks_ = false;
    uint32_t stamp_ = 0;                             // of the query on its document
    std::vector<StepPlan> step_plans_;
    std::vector<Kept> kept_;
    std::span<const uint32_t> shared_numbers_;
    std::vector<Kept> shared_;                       // by number; their stamp is that of the document
    static constexpr uint64_t shared_bytes_max = 32u << 20;
    uint64_t shared_bytes_ = 0;                      // what has been kept in them since they were last emptied
    uint32_t document_stamp_ = 0;
    std::span<const uint32_t> variables_;
    std::vector<uint32_t> marks_;                    // by item: the stamp of the walk that has seen it
    uint32_t walk_ = 0;
    RegexCache regexes_;
};

// Number to string, as XPath 1.0, section 4.2, has it: as many digits as it takes to tell it from all others, and no exponent.
std::string number_text(double number);

}  // namespace treecast
