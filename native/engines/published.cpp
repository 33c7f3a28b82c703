// Makes an Engine of any PublishedFilter: transactions, locks and repair around an algorithm that changes in place.
//
// The Engine interface promises all or nothing, which the algorithms of the papers do not.
// So a failed change is undone by removing what was added, or by building the filter again from the query texts.
#include "engines/published.hpp"

#include "base/failure.hpp"
#include "evaluate/evaluate.hpp"
#include "query/transformation.hpp"

#include <exception>
#include <new>

namespace treecast {

namespace {

class PublishedRun final : public EngineRun {
public:
    explicit PublishedRun(const PublishedEngine& engine) : engine_(engine) {}

    // A filter that was replaced needs a new Scratch: numbers in the old one mean other states.
    void adopt(const View&, uint64_t) override {
        if (scratch_ && scratch_of_.lock() == engine_.filter()) return;
        scratch_ = engine_.filter()->scratch();
        scratch_of_ = engine_.filter();
    }

    void match(const View&, const Document& document, bool, Output<int32_t>& out, std::vector<Undecided>&) override {
        slots_.clear();
        engine_.filter()->match(document, *scratch_, slots_);
        int32_t* room = out.room(slots_.size());
        for (size_t i = 0; i < slots_.size(); ++i) room[i] = static_cast<int32_t>(slots_[i]);
        out.added(slots_.size());
    }

private:
    const PublishedEngine& engine_;
    std::weak_ptr<const PublishedFilter> scratch_of_;
    std::unique_ptr<PublishedFilter::Scratch> scratch_;
    std::vector<uint32_t> slots_;
};

}  // namespace

std::shared_lock<LastingSharedMutex> PublishedEngine::read() const {
    std::shared_lock reading(mutex_);
    if (!filter_) throw std::bad_alloc();       // it could not be repaired
    return reading;
}

std::unique_ptr<EngineRun> PublishedEngine::make_run(uint32_t) const { return std::make_unique<PublishedRun>(*this); }

void PublishedEngine::begin(const Subscriptions& rows) {
    if (!filter_) repair(rows);
    if (!filter_) throw std::bad_alloc();
}

// The filter has it at once; rollback() takes it back.
void PublishedEngine::add(uint32_t slot, const Query& query, bool ordered) {
    if (ordered) check_ordered(query);
    added_.push_back(slot);
    try {
        filter_->add(slot, query, ordered);
    // A refusal left the filter unchanged. Anything else may have stopped half way.
    } catch (const Failure&) {
        added_.pop_back();
        throw;
    } catch (...) {
        is_damaged_ = true;
        throw;
    }
}

void PublishedEngine::remove(uint32_t slot) {
    is_damaged_ = true;          // should the change be rolled back: a slot that was removed cannot be added again
    filter_->remove(slot);
}

void PublishedEngine::renumber(std::span<const uint32_t>, const Subscriptions& rows) { renumbered_ = populate(rows); }

void PublishedEngine::commit(const Subscriptions&, bool) noexcept {
    if (renumbered_) {
        filter_ = std::move(renumbered_);
        withdrawals_ = 0;
    }
    end_change();
}

// Removing what was added is enough, unless something was removed or stopped half way.
void PublishedEngine::rollback(const Subscriptions& rows) noexcept {
    try {
        if (!is_damaged_)
            for (uint32_t slot : added_) filter_->remove(slot);
    } catch (const std::exception&) {
        is_damaged_ = true;
    }
    withdrawals_ += added_.size();
    // A filter keeps the names of what it gives back, so it is rebuilt after many withdrawals.
    if (is_damaged_ || withdrawals_ > rows.live + spare_withdrawals) repair(rows);
    end_change();
}

void PublishedEngine::end_change() noexcept {
    added_ = {};
    renumbered_ = nullptr;
    is_damaged_ = false;
}

// Builds the filter again. If there is no memory for that, there is none until the next write.
void PublishedEngine::repair(const Subscriptions& rows) noexcept {
    filter_ = nullptr;           // first, as two may not fit
    try {
        filter_ = populate(rows);
        withdrawals_ = 0;
    } catch (const std::exception&) {
        filter_ = nullptr;
    }
}

// A filter that holds the living subscriptions of the rows.
std::shared_ptr<PublishedFilter> PublishedEngine::populate(const Subscriptions& rows) const {
    std::shared_ptr<PublishedFilter> filter = make_();
    Query query;
    std::string room;
    for (uint32_t slot = 0; slot < rows.slots(); ++slot) {
        if (rows.deaths[slot]) continue;
        const Settings& settings = rows.settings_of(slot);
        parse_matching(rows.text(slot, room), settings.bindings, settings.ordered, query);
        filter->add(slot, query, settings.ordered);
    }
    return filter;
}

EngineStats PublishedEngine::stats() const {
    EngineStats stats;
    stats.machines = 1;
    if (filter_) {
        stats.states = filter_->states();
        stats.bytes = filter_->bytes();
    }
    return stats;
}

void refuse_published(std::string_view engine, std::string_view what, Slice where) {
    std::string message = "the engine '";
    message.append(engine).append("' cannot match ").append(what);
    Failure failure(Family::query, "TC150", std::move(message), where.begin);
    failure.length = where.size;
    failure.hint = "use engine=\"auto\", which matches the whole language";
    throw failure;
}

void ResolvedNames::begin(const Document& document, const LabelTable& table) {
    if (table_ != &table || names_ != document.names || generation_ != document.names->generation()) {
        table_ = &table;
        names_ = document.names;
        generation_ = names_->generation();
        labels_.clear();
    }
    if (labels_.size() < names_->size()) labels_.resize(names_->size());
    table_changes_ = table.changes();
}

}  // namespace treecast
