// Takes one document after another through the machines of a View: what one thread needs for that, and keeps in between.
#pragma once

#include "base/answer_bits.hpp"
#include "engines/lazydfa.hpp"
#include "evaluate/evaluate.hpp"
#include "machines/delta.hpp"
#include "machines/lazy.hpp"
#include "machines/tree_run.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace treecast {

class LazyDfaRun final : public EngineRun, private NameResolver {
public:
    LazyDfaRun(uint32_t work_per_item_max, MergeCredit& credit) : work_per_item_max_(work_per_item_max), credit_(credit) {}
    void adopt(const View& view, uint64_t cache_bytes_max) override;
    void match(const View& view, const Document& document, bool to_render, Output<int32_t>& out,
               std::vector<Undecided>& undecided) override;
    uint64_t route(const View& view, const Document& document, const RouteQuestion& question, uint64_t found) override;
    uint64_t cache_bytes() const override;
    uint64_t looked_at() const override;
    uint64_t delta_rows() const override { return delta_run_.rows_made; }

private:
    // The run of one machine. `serial` identifies the machine, so a cache never outlives it.
    struct PlaceRun {
        uint64_t serial;
        std::unique_ptr<Lazy> lazy;          // for a Machine
        std::unique_ptr<TreeRun> tree;       // for a TreeMachine
        AnswerBits bits;
        uint32_t path_states;                // 0: nothing is cached
        bool used;
    };
    const NameLabels& labels(uint32_t name) override;
    void begin(const LazyDfaState& state, const Document& document, bool to_render, std::vector<Undecided>& undecided);
    void forget_seen();
    void route_path(const View& view, const Document& document, uint32_t path, const RouteQuestion& question, uint64_t& found);
    PlaceRun& run_of(const std::shared_ptr<MachinePlace>& place);
    void find_texts(const LazyDfaState& state, const Document& document);
    void emit(const View& view, const Document& document, const MachinePlace& place, AnswerBits& bits, Output<int32_t>& out);
    void emit_chains(const View& view, const Document& document, Output<int32_t>& out);
    void emit_path(const View& view, const Document& document, uint32_t path, Output<int32_t>& out);
    void emit_slot(const View& view, const Document& document, uint32_t slot, bool several, Output<int32_t>& out);
    bool recheck(const View& view, const Document& document, uint32_t slot);
    const Query& parsed(const View& view, uint32_t slot);

    const uint32_t work_per_item_max_;
    MergeCredit& credit_;
    std::vector<PlaceRun> runs_;
    Delta::Run delta_run_;
    // Names of the reader, resolved against the labels of the View.
    std::shared_ptr<const LabelTable> table_;
    uint32_t table_changes_ = 0;
    const NameTable* names_ = nullptr;
    uint64_t names_generation_ = 0;
    std::vector<NameLabels> name_labels_;
    std::vector<uint8_t> has_text_;             // by element: it has a text node child
    std::vector<uint32_t> chained_;             // paths that were found, and whose chains are still to be walked
    std::vector<uint64_t> seen_;                // by slot: subscriptions with several paths, this document
    std::vector<uint32_t> seen_slots_;
    Evaluator evaluator_;                       // decides what patterns cannot say
    const Document* evaluated_document_ = nullptr;     // the one that it has begun
    // Queries that were rechecked lately, by slot: those that match once often match again.
    struct ParsedQuery {
        uint64_t serial = 0;                    // of the View's body, in which a slot never gets another query
        uint32_t slot = none;
        Query query;
    };
    // PERF: bench/shapes.py. Sets of four: with single places, a third of 200 queries would displace each other all the time.
    static constexpr uint32_t parsed_max = 4096, parsed_set = 4;
    std::vector<ParsedQuery> parsed_;
    uint32_t parsed_next_ = 0;                  // which of its set the next one displaces
    // Of the match in progress.
    std::vector<Undecided>* undecided_ = nullptr;
    std::vector<Undecided> routed_undecided_;
    std::string text_;                          // of a query, while it is looked at
    bool is_rendering_ = false;
};

}  // namespace treecast
