// The engines of the papers, behind one face: XFilter, the hybrid, YFilter, XTrie. They are here to be compared with, so each is the
// algorithm as published, with decent data structures and nothing added; for work there is the machine of store.hpp.
//
// A Store that has a PublishedEngine keeps ids, texts, settings and the order of addition as always, and no machines: the engine
// decides which slots a document satisfies. Readers and writers exclude each other (Store::read, Store::write), so an engine
// needs no locks: add() and remove() have it for themselves, match() runs beside other match() calls, each with a Scratch of
// its own. A saved index holds the query texts; loading one adds them all again.
//
// What an engine cannot do it refuses when the query is added:
//
//   TC150  the engine cannot match this query
#pragma once

#include "document/document.hpp"
#include "machines/label.hpp"
#include "query/query.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace treecast {

class PublishedEngine {
public:
    // What one thread needs to match, kept from document to document. It belongs to the engine that made it.
    struct Scratch {
        virtual ~Scratch() = default;
    };

    virtual ~PublishedEngine() = default;
    // Slots are the Store's numbers of subscriptions: each is added once, and after its removal never again. An ordered query has
    // passed check_ordered. Throws a Failure (refuse_published) for what the engine cannot do, and then nothing has changed.
    virtual void add(uint32_t slot, const Query& query, bool ordered) = 0;
    virtual void remove(uint32_t slot) = 0;
    virtual std::unique_ptr<Scratch> scratch() const = 0;
    // Appends every slot that the document satisfies, each once, in any order. Queries may have been added or removed since the
    // scratch was last used. After an exception (out of memory) the scratch is not used again.
    virtual void match(const Document& document, Scratch& scratch, std::vector<uint32_t>& slots) const = 0;
    virtual size_t states() const = 0;       // of its machine, in the paper's sense
    virtual size_t bytes() const = 0;        // memory held, roughly
};

// The engine of this name; null where no published engine is called so.
std::unique_ptr<PublishedEngine> make_published(std::string_view name);
std::vector<std::string_view> published_names();

// Throws TC150: "the engine 'xfilter' cannot match `what`", with the place in the query.
[[noreturn]] void refuse_published(std::string_view engine, std::string_view what, Slice where);

// The labels that the names of a document fire, looked up once per name. Part of a Scratch.
class ResolvedNames {
public:
    // Before the first name of a document. The table must not change before the next call.
    void begin(const Document& document, const LabelTable& table);
    // Of a name of that document; the reference holds until the next begin().
    const NameLabels& operator[](uint32_t name) {
        NameLabels& labels = labels_[name];
        if (labels.resolved_at != table_changes_) {
            labels = table_->resolve(names_->uri(name), names_->local(name));
            labels.resolved_at = table_changes_;
        }
        return labels;
    }
    // Whether an element of this name passes the test that the label stands for.
    bool fires(uint32_t label, uint32_t name) {
        if (label == label_element_any) return true;
        const NameLabels& labels = (*this)[name];
        return label == labels.element[0] || label == labels.element[1] || label == labels.element[2];
    }

private:
    const LabelTable* table_ = nullptr;
    uint32_t table_changes_ = 0;
    const NameTable* names_ = nullptr;
    uint64_t generation_ = 0;
    std::vector<NameLabels> labels_;
};

}  // namespace treecast
