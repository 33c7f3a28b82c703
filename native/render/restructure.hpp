// Document + list of steps -> payload: drop, keep, rename and unwrap, one after the other.
//
// Theory of operation. A tree is a run of bytes: an element with the namespaces it needs, in UTF-8, without entities
// that only the caller knows. One step reads the bytes (reader.hpp), selects on the Document (evaluate.hpp) and gives
// the next bytes in one pass over the old ones: removed ranges, other names in tags, declarations put in
// (markup.hpp). So every step sees exactly the tree that the steps before it left, and what no step touches is copied
// as it was written: comments, CDATA, references, white space in tags. The first step of a list for whole documents
// runs on the document itself, which has been read.
//
// Namespaces. Every element that stays keeps the bindings that it saw before. An unwrapped element's declarations
// move to the child elements that saw them. An element with a new name gets its namespace declared: an unprefixed one
// by xmlns="…" (and its children get theirs back), a prefixed one at the root where nobody uses that prefix, else on
// the spot, under another prefix where the one asked for is taken.
//
// Sharing. What the first k steps leave is kept by (where the list starts, these steps) until the next document, so
// that lists that begin alike cost those steps once, as ONYX's early restructuring does across its brokers. Trees
// that were read lately stay read. Both are bounded: past kept_bytes_max the states are forgotten, which costs time
// and nothing else.
//
//   TC119  a rename gives an element two attributes of one name
#pragma once

#include "base/output.hpp"
#include "evaluate/evaluate.hpp"
#include "query/transformation.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace treecast {

// Applies lists to one document at a time; keeps scratch between calls. Not thread-safe; one per thread.
class Restructurer {
public:
    // Without `share` every list starts from the document.
    explicit Restructurer(bool share = true, uint64_t kept_bytes_max = 32ull << 20);
    ~Restructurer();
    Restructurer(Restructurer&&) noexcept;
    Restructurer& operator=(Restructurer&&) noexcept;

    // Forgets the document before. This one must stay as it is until the next call.
    void begin(const Document& document);

    // Appends what the steps leave of the trees, in document order; nothing where nothing is left. `evaluator` has
    // begun the same document, and has entered another query afterwards. Returns false, with `out` as it was, where
    // the payload would have more than `bytes_max` bytes, or a state on the way more than that and the document
    // together. Throws Failure (TC119).
    bool restructure(const Transformation& list, Evaluator& evaluator, uint64_t bytes_max, Bytes& out);

    uint64_t steps_applied() const;       // in all; a list that shares its first steps applies only the rest

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace treecast
