// The engines of the papers: XFilter, the hybrid, YFilter, XTrie. They serve as comparison, so each is the algorithm as
// published, with decent data structures and nothing added. For real work use lazydfa.hpp.
//
// A PublishedFilter is such an algorithm; a PublishedEngine makes an Engine of any of them. A filter changes in place, so readers
// and writers exclude each other, and it needs no locks: add() and remove() have it for themselves, and match() runs concurrently
// with other match() calls, each with its own Scratch. A filter that ran out of memory half way is built again from the query
// texts. A saved index holds these texts; loading one adds them all again.
//
// What an engine cannot do it refuses when the query is added:
//
//   TC150  the engine cannot match this query
#pragma once

#include "base/fork.hpp"
#include "document/document.hpp"
#include "engines/engine.hpp"
#include "machines/label.hpp"
#include "query/query.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace treecast {

class PublishedFilter {
public:
    // What one thread needs to match, kept from document to document. It belongs to the engine that made it.
    struct Scratch {
        virtual ~Scratch() = default;
    };

    virtual ~PublishedFilter() = default;
    // Each slot is added once, and after its removal never again. An ordered query has passed check_ordered. Throws a Failure
    // (refuse_published) for what the engine cannot do, and then nothing has changed.
    virtual void add(uint32_t slot, const Query& query, bool ordered) = 0;
    virtual void remove(uint32_t slot) = 0;
    virtual std::unique_ptr<Scratch> scratch() const = 0;
    // Appends every slot that the document satisfies, each once, in any order. Queries may have been added or removed since the
    // scratch was last used. After an exception (out of memory) the scratch is not used again.
    virtual void match(const Document& document, Scratch& scratch, std::vector<uint32_t>& slots) const = 0;
    virtual size_t states() const = 0;       // of its machine, in the paper's sense
    virtual size_t bytes() const = 0;        // memory held, roughly
};

class PublishedEngine final : public Engine {
public:
    using MakeFilter = std::unique_ptr<PublishedFilter> (*)();
    explicit PublishedEngine(MakeFilter make) : make_(make), filter_(make()) {}

    std::shared_lock<LastingSharedMutex> read() const override;
    std::unique_ptr<EngineRun> make_run(uint32_t work_per_item_max) const override;
    std::unique_lock<LastingSharedMutex> write() override { return std::unique_lock(mutex_); }
    void begin(const Subscriptions& rows) override;
    void add(uint32_t slot, const Query& query, bool ordered) override;
    void remove(uint32_t slot) override;
    void prepare(const Subscriptions&, bool) override {}
    void renumber(std::span<const uint32_t> slots, const Subscriptions& rows) override;
    void commit(const Subscriptions& rows, bool alone) noexcept override;
    void rollback(const Subscriptions& rows) noexcept override;
    EngineStats stats() const override;

    // For runs, which exist only while read() is held: nobody replaces it meanwhile.
    const std::shared_ptr<PublishedFilter>& filter() const { return filter_; }

private:
    static constexpr size_t spare_withdrawals = 1024;
    std::shared_ptr<PublishedFilter> populate(const Subscriptions& rows) const;
    void repair(const Subscriptions& rows) noexcept;
    void end_change() noexcept;

    const MakeFilter make_;
    mutable LastingSharedMutex mutex_;
    std::shared_ptr<PublishedFilter> filter_;        // null: it could not be repaired
    std::shared_ptr<PublishedFilter> renumbered_;    // takes its place with commit()
    // Of the change in progress.
    std::vector<uint32_t> added_;
    bool is_damaged_ = false;                        // taking back what was added would not restore it
    size_t withdrawals_ = 0;                         // queries that it had to give back since it was made
};

// Throws TC150: "the engine 'xfilter' cannot match `what`", with the place in the query.
[[noreturn]] void refuse_published(std::string_view engine, std::string_view what, Slice where);

// The labels that the names of a document fire, looked up once per name. Part of a Scratch.
class ResolvedNames {
public:
    // Call it before the first name of a document. The table must not change before the next call.
    void begin(const Document& document, const LabelTable& table);
    // The labels of a name of that document; the reference holds until the next begin().
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
