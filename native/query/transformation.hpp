// text -> Transformation: what a subscriber wants made of a document. Grammar: docs/guide/transformations.md.
//
// Two kinds. A FLWR query (for, let, where, order by, return, with constructors) says what to build; its syntax tree is made of
// Shapes, and its paths and conditions are entries of the same flat Query that path queries use. A list of steps (drop, keep,
// rename, unwrap) says what to change, in order. Both have a matching part, a path query: matching_part() below.
//
//   TC107  a path that selects the document itself or everything in it ($msg//., $n/descendant-or-self::node())
//   TC108  a step below an attribute or text()
//   TC113  a variable that is not bound here, is bound twice, or holds something that has no paths
//   TC114  a constructor that is not well formed: tags, attributes, references, braces
//   TC115  a transformation in which nothing is bound, so that it could never be delivered
//   TC116  XQuery outside the language: other clauses, functions and expressions
//   TC117  not a list of steps: a word, a path or a name is missing or invalid
//   TC118  a setting that a subscription cannot have: an ordered transformation, elements of a query that selects texts too
//   (TC119 belongs to the renderer.)
//   TC327  more shapes, variables or steps than transformation_limits allow
//   TC328  a where clause that stands for more alternatives than alternatives_max
#pragma once

#include "query/query.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace treecast {

struct TransformationLimits {
    uint32_t shapes_max = 4096;
    uint32_t variables_max = 64;
    uint32_t changes_max = 256;           // steps of a list
    uint32_t alternatives_max = 64;       // paths of the matching part
};
constexpr TransformationLimits transformation_limits;

// What is built. Items are copies of elements, attributes and texts of the document; values are strings.
// Two neighbouring values in one `{…}`, one return or one sequence are joined with a space (XQuery 3.7.1.3).
// Everything else simply follows.
enum class ShapeKind : uint8_t {
    sequence,       // (a, b): the shapes from `first` on; () has none
    flwr,           // for each binding of the clauses from `clauses` on, the shape `first`
    element,        // a constructor: `name`, declarations, attributes, and the content from `first` on
    attribute,      // of a constructor, in its start tag: the parts from `first` on (text and enclosed); or, anywhere,
                    // attribute name {…}
    text,           // characters of a constructor, `text`: to be escaped
    enclosed,       // {…} in a constructor: the one shape `first`
    value,          // a literal or a number: `text`, as it is to be written, to be escaped
    items,          // what the paths from `paths` on select, in document order, each once
    string_of,      // string(x): of paths the first item's, of a value itself
    count,          // count(paths)
    concat,         // concat(a, b, …): of each paths the first item's string
    name_of,        // name(paths): of the first item, as written in the document
    term,           // any other expression of XPath 1.0, `term`: items are copied, everything else is a value
    choice,         // if (`condition`) then `first` else `other`
    comment,        // <!--…--> of a constructor: `text`, between the signs
    instruction,    // <?…?>: `text`, between the signs
};

struct Name {                             // of a constructor, expanded; Slices of Transformation::text()
    Slice prefix, local;
    Slice uri;
};

// One expression of the syntax tree. Which fields are used depends on its kind.
struct Shape {
    ShapeKind kind = ShapeKind::sequence;
    uint32_t first = no_entry;            // Shape
    uint32_t next = no_entry;             // Shape: the next of a list
    uint32_t other = no_entry;            // Shape of choice; of an element, its first attribute
    uint32_t clauses = no_entry;          // Clause of flwr
    uint32_t paths = no_entry;            // PathEntry
    uint32_t condition = no_entry;        // Expr of choice
    uint32_t term = no_term;              // Term of term
    uint32_t declarations = no_entry;     // Declaration of element: those written in its start tag
    Slice text;                           // of Transformation::text()
    Name name;                            // of element and attribute
    uint64_t variables = 0;               // bit v: it depends on the for variable v
    Slice source;                         // of the query as written
};

struct Declared {                         // xmlns:prefix="uri" in a constructor; both empty: xmlns=""
    Slice prefix, uri;
    uint32_t next = no_entry;
};

enum class ClauseKind : uint8_t { each, where, order };   // a let is gone after reading: it stands where it is used

// One clause of a FLWR, in the order written.
struct Clause {
    ClauseKind kind = ClauseKind::each;
    uint32_t variable = no_entry;         // each: its number
    uint32_t paths = no_entry;            // each: what it ranges over, a union. order: the key is the first item's string
    uint32_t condition = no_entry;        // where: an Expr
    uint32_t term = no_term;              // order: a Term, if the key is no path
    bool counts = false;                  // order: the key is the number of items, not the string of the first
    bool strings = false;                 // order: string(…), so that no item is the empty string
    bool descending = false;              // order
    bool empty_greatest = false;          // order: no item comes last
    uint32_t next = no_entry;
    Slice source;
};

enum class ChangeKind : uint8_t { drop, keep, rename, unwrap };

// One step of a list, applied to what the steps before it left.
// Its paths are absolute: the element that the list starts from is the root.
struct Change {
    ChangeKind kind = ChangeKind::drop;
    uint32_t paths = no_entry;
    Name name;                            // rename
    Slice source;
};

// Refilled by parse_transformation; copies are independent.
class Transformation {
public:
    // Paths, conditions and values of all kinds: PathEntry::variable says where a path starts.
    const Query& query() const { return query_; }
    bool is_list() const { return list_; }

    // FLWR
    uint32_t root() const { return root_; }                        // the Shape of the whole
    const Shape& shape(uint32_t index) const { return shapes_[index]; }
    const Clause& clause(uint32_t index) const { return clauses_[index]; }
    const Declared& declared(uint32_t index) const { return declared_[index]; }
    uint32_t variables() const { return static_cast<uint32_t>(variables_.size()); }
    std::string_view variable(uint32_t number) const { return query_.view(variables_[number]); }

    // Lists: where they start (an absolute union; no_entry: the root element), and the steps.
    uint32_t from() const { return from_; }
    const std::vector<Change>& changes() const { return changes_; }

    std::string_view view(Slice slice) const { return {texts_.data() + slice.begin, slice.size}; }
    std::string_view written() const { return query_.written(); }
    std::string text() const;                                      // canonical
    std::string key() const;                                       // canonical with expanded names
    // The key of one shape. Shapes with equal keys give the same result if their variables are bound to the same items.
    // `order` receives the numbers of its variables in the order in which the key mentions them, including those bound inside it.
    std::string shape_key(uint32_t shape, std::vector<uint32_t>& order) const;
    std::string paths_key(uint32_t paths, std::vector<uint32_t>& order) const;
    std::string term_key(uint32_t term, std::vector<uint32_t>& order) const;

    // Other literals in the conditions: see Query::fill.
    void fill(const std::vector<uint32_t>& values, const std::vector<std::string_view>& texts) { query_.fill(values, texts); }

    template <class Visit> void each_shape(uint32_t first, Visit&& visit) const {
        for (uint32_t at = first; at != no_entry; at = shapes_[at].next) visit(at, shapes_[at]);
    }
    template <class Visit> void each_clause(uint32_t first, Visit&& visit) const {
        for (uint32_t at = first; at != no_entry; at = clauses_[at].next) visit(at, clauses_[at]);
    }

private:
    friend class TransformationParser;
    Query query_;
    std::vector<char> texts_;             // decoded characters, names and URIs of constructors
    std::vector<Shape> shapes_;
    std::vector<Clause> clauses_;
    std::vector<Declared> declared_;
    std::vector<Slice> variables_;        // by number: the name as written, without the $
    std::vector<Change> changes_;
    uint32_t root_ = no_entry, from_ = no_entry;
    bool list_ = false;
};

// Whether a subscription's text is meant as a transformation: it begins with a clause, a constructor or a step's word.
bool is_transformation(std::string_view text);

void parse_transformation(std::string_view text, const Bindings& bindings, Transformation& out);

// A predicate of the matching part, and the condition or `for` that it came from: the bytes of both texts.
// If `negated`, the predicate is the opposite of the condition.
struct Origin {
    Slice matching, written;
    bool negated = false;
};

// The matching part: a path query that a document satisfies exactly where something is bound.
// If constructors have bound prefixes, its bindings are not those of the subscription.
struct Matching {
    std::string text;
    Bindings bindings;
    std::vector<Origin> origins;
};
Matching matching_part(const Transformation& transformation, const Bindings& bindings);

// The same, read into `out`.
Matching read_matching_part(const Transformation& transformation, const Bindings& bindings, Query& out);

// The matching part of any subscription: its query, or that of its transformation. `ordered` refuses transformations.
void parse_matching(std::string_view text, const Bindings& bindings, bool ordered, Query& out);

// Whether a term that selects items may select comments, instructions or the document, which cannot be delivered.
bool may_select_marks(const Query& query, uint32_t term);

// Throws a Failure (TC118) if a query selects both elements and values.
// Elements are delivered as markup and values as plain text, and no reader could tell which is which.
void check_delivered(const Query& query);

}  // namespace treecast
