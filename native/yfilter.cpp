#include "yfilter.hpp"

#include "path_nfa.hpp"

#include <algorithm>

namespace treecast {

namespace {

class YFilter final : public PublishedEngine {
public:
    void add(uint32_t slot, const Query& query, bool ordered) override {
        if (!query.linear()) refuse_published("yfilter", "predicates", query.path(query.branches()).source);
        (void)ordered;                       // without branches there is no order
        std::vector<Path> paths;
        query.linear_paths(paths);
        for (const Path& path : paths)
            if (path.back().kind != StepKind::element)
                refuse_published("yfilter", "attributes and text() as the last step", query.path(query.branches()).source);
        if (slots_.size() <= slot) slots_.resize(slot + 1);
        std::vector<LabelStep> steps;
        for (const Path& path : paths) {
            steps.clear();
            for (const PathStep& step : path) steps.push_back({labels_.intern(step), step.descendant});
            uint32_t state = nfa_.insert(steps);
            if (accepts_.size() <= state) accepts_.resize(nfa_.capacity());
            accepts_[state].push_back(slot);
            slots_[slot].push_back(state);
        }
    }

    void remove(uint32_t slot) override {
        for (uint32_t state : slots_[slot]) {
            std::vector<uint32_t>& list = accepts_[state];
            *std::find(list.begin(), list.end(), slot) = list.back();
            list.pop_back();
            nfa_.release(state);
        }
        slots_[slot] = {};
    }

    std::unique_ptr<Scratch> scratch() const override { return std::make_unique<Working>(); }

    void match(const Document& document, Scratch& scratch, std::vector<uint32_t>& slots) const override {
        Working& working = static_cast<Working&>(scratch);
        working.names.begin(document, labels_);
        if (++working.document == 0) {
            working.reported.assign(working.reported.size(), 0);
            working.satisfied.assign(working.satisfied.size(), 0);
            working.document = 1;
        }
        if (working.reported.size() < nfa_.capacity()) working.reported.resize(nfa_.capacity(), 0);
        if (working.satisfied.size() < slots_.size()) working.satisfied.resize(slots_.size(), 0);
        nfa_.run(document, working.names, working.run, [](uint32_t) {}, [&](uint32_t state, uint32_t) {
            if (working.reported[state] == working.document) return;
            working.reported[state] = working.document;
            for (uint32_t slot : accepts_[state]) {
                if (working.satisfied[slot] == working.document) continue;
                working.satisfied[slot] = working.document;
                slots.push_back(slot);
            }
        });
    }

    size_t states() const override { return nfa_.states(); }
    size_t bytes() const override {
        size_t total = nfa_.bytes() + labels_.bytes() + (accepts_.capacity() + slots_.capacity()) * sizeof(std::vector<uint32_t>);
        for (const auto& list : accepts_) total += list.capacity() * sizeof(uint32_t);
        for (const auto& list : slots_) total += list.capacity() * sizeof(uint32_t);
        return total;
    }

private:
    struct Working : Scratch {
        ResolvedNames names;
        PathNfa::Run run;
        std::vector<uint32_t> reported, satisfied;      // by state, by slot: the document that last did
        uint32_t document = 0;
    };

    LabelTable labels_;
    PathNfa nfa_;
    std::vector<std::vector<uint32_t>> accepts_;        // by state: the subscriptions
    std::vector<std::vector<uint32_t>> slots_;          // by subscription: its accepting states
};

}  // namespace

std::unique_ptr<PublishedEngine> make_yfilter() { return std::make_unique<YFilter>(); }

}  // namespace treecast
