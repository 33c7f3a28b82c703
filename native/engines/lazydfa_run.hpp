// Takes one document after another through the machines of a View: what one thread needs for that, and keeps in between.
#pragma once

#include "base/answer_bits.hpp"
#include "engines/lazydfa.hpp"
#include "evaluate/columns.hpp"
#include "evaluate/evaluate.hpp"
#include "evaluate/shared_terms.hpp"
#include "machines/delta.hpp"
#include "machines/lazy.hpp"
#include "machines/tree_run.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace treecast {

class LazyDfaRun final : public EngineRun, private NameResolver {
public:
    LazyDfaRun(uint32_t work_per_item_max, MergeCredit& credit, LazyCaches& caches)
        : work_per_item_max_(work_per_item_max), credit_(credit), caches_(caches) {}
    void adopt(const View& view, uint64_t cache_bytes_max) override;
    void match(const View& view, const Document& document, bool to_render, Output<int32_t>& out,
               std::vector<Undecided>& undecided) override;
    uint64_t route(const View& view, const Document& document, const RouteQuestion& question, uint64_t found) override;
    void rest() override;
    uint64_t looked_at() const override;
    RunCounts counts() const override { return {delta_run_.rows_made, delta_run_.events_walked, chains_walked_, delta_chains_walked_, routed_}; }

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
    uint32_t target_label(std::string_view target) override;
    void begin(const LazyDfaState& state, const Document& document, bool to_render, std::vector<Undecided>& undecided);
    void forget_seen();
    void route_path(const View& view, const Document& document, uint32_t path, const RouteQuestion& question, uint64_t& found);
    PlaceRun& run_of(const std::shared_ptr<MachinePlace>& place);
    void find_texts(const LazyDfaState& state, const Document& document);
    void emit(const View& view, const Document& document, const MachinePlace& place, AnswerBits& bits, Output<int32_t>& out);
    void emit_chains(const View& view, const Document& document, Output<int32_t>& out);
    void emit_slot(const View& view, const Document& document, uint32_t slot, bool several, Output<int32_t>& out);
    bool recheck(const View& view, const Document& document, uint32_t slot);
    struct ParsedQuery;
    const ParsedQuery& parsed(const View& view, uint32_t slot);
    void make_room(uint64_t bytes);

    const uint32_t work_per_item_max_;
    MergeCredit& credit_;
    LazyCaches& caches_;
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
    std::vector<const uint32_t*> listed_;       // see MachinePlace::list_of
    uint64_t chains_walked_ = 0, delta_chains_walked_ = 0, routed_ = 0;
    std::vector<uint64_t> seen_;                // by slot: subscriptions with several paths, this document
    std::vector<uint32_t> seen_slots_;
    Evaluator evaluator_;                       // decides what patterns cannot say
    const Document* evaluated_document_ = nullptr;     // the one that it has begun
    // Queries that were rechecked, by slot: those that match once often match again. What they take is estimated from their texts.
    // Beyond the limit a new one mostly is parsed, evaluated and forgotten, and now and then displaces another.
    struct ParsedQuery {
        uint64_t serial = 0;                    // of the View's body, in which a slot never gets another query
        Query query;
        std::vector<uint32_t> shared;           // see SharedTerms
        ColumnPlan plan;                        // see Columns
    };
    static constexpr uint64_t parsed_bytes_max = 256u << 20;
    static constexpr uint32_t parsed_bytes_least = 1024, parsed_bytes_per_byte = 16, parsed_per_displaced = 4;
    static uint64_t bytes_of(const ParsedQuery& parsed) { return parsed_bytes_least + parsed_bytes_per_byte * parsed.query.written().size(); }
    std::vector<std::unique_ptr<ParsedQuery>> parsed_;
    ParsedQuery passing_;                       // one that is not kept
    uint64_t parsed_bytes_ = 0;
    uint32_t parsed_hand_ = 0, parsed_turn_ = 0;
    SharedTerms shared_terms_;
    Columns columns_;
    // Of the match in progress.
    std::vector<Undecided>* undecided_ = nullptr;
    std::vector<Undecided> routed_undecided_;
    std::string text_;                          // of a query, while it is looked at
    bool is_rendering_ = false;
};

}  // namespace treecast
