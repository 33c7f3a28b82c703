// One document through an XTrie. xtrie.hpp explains the algorithm, xtrie_run.hpp the stacks.
//
// The two variants are template instances: single-path expressions need no messages upward, and skip that code entirely.
#include "engines/xtrie_run.hpp"

#include "base/interrupt.hpp"
#include "document/number.hpp"

#include <algorithm>
#include <limits>

namespace treecast {

void XTrieRun::run(const XTrie& engine, const Document& document, std::vector<uint32_t>& slots) {
    begin(engine, document, slots);
    if (engine.variant() == XTrie::Variant::tree)
        follow<true>();
    else
        follow<false>();
    close(0);
}

// Sizes follow the engine, which may have grown since the last document.
void XTrieRun::begin(const XTrie& engine, const Document& document, std::vector<uint32_t>& slots) {
    engine_ = &engine;
    document_ = &document;
    slots_ = &slots;
    names_.begin(document, engine.labels());
    if (++stamp_ == 0) {                     // wrapped round: old stamps would look new
        matched_.assign(matched_.size(), 0);
        stamp_ = 1;
    }
    if (matched_.size() < engine.filters().size()) matched_.resize(engine.filters().size(), 0);
    if (innermost_.size() < engine.rows().size()) innermost_.resize(engine.rows().size(), none);
    levels_.assign(1, {});
    next_text_ = 0;
    buffered_ = none;
}

// Texts are leaves between start tags. Their order in the columns is document order, so both are merged here.
template <bool tree>
void XTrieRun::follow() {
    uint32_t elements = static_cast<uint32_t>(document_->elements());
    bool wants_texts = engine_->has_texts();
    for (uint32_t element = 0; element < elements; ++element) {
        Interrupt::check(1000);
        if (wants_texts) texts<tree>(document_->text_begin[element]);
        start<tree>(element);
    }
    if (wants_texts) texts<tree>(static_cast<uint32_t>(document_->text.size()));
}

// End tags: closes the elements at this level and below it.
// All stacks are cut back to where they were when the element started.
void XTrieRun::close(uint32_t level) {
    if (levels_.size() <= level) return;
    uint32_t left = levels_[level].occurrences;
    while (occurrences_.size() > left) {
        innermost_[occurrences_.back().row] = occurrences_.back().outer;
        occurrences_.pop_back();
    }
    while (expectations_.size() > levels_[level].expectations) {
        expected_[expectations_.back()].pop_back();
        expectations_.pop_back();
    }
    chains_used_ = levels_[level].chains;
    levels_.resize(level);
}

// Follows the start tag in the trie, then probes every substring that ends here: the state, its suffixes, the empty one.
template <bool tree>
void XTrieRun::start(uint32_t element) {
    uint32_t level = document_->depth[element] + 1u;
    close(level);
    const SubstringTrie& trie = engine_->trie();
    uint32_t label = names_[document_->name[element]].element[0];
    uint32_t state = label == none ? SubstringTrie::root : trie.advance(levels_.back().state, label);
    levels_.push_back({element, state, static_cast<uint32_t>(occurrences_.size()), chains_used_,
                       static_cast<uint32_t>(expectations_.size())});
    Item item{StepKind::element, element};
    for (; state != SubstringTrie::root; state = trie.suffix(state)) probe<tree>(state, level, item);
    probe<tree>(SubstringTrie::root, level, item);
    // The list may grow during the loop, but only for deeper levels.
    if (level < expected_.size())            // what is expected meanwhile is expected further down
        for (size_t at = 0; at < expected_[level].size(); ++at)
            consider<tree>(engine_->probe_of(expected_[level][at]), level, item);
    if (engine_->has_attributes()) attributes<tree>(element);
}

template <bool tree>
void XTrieRun::attributes(uint32_t element) {
    uint32_t state = levels_.back().state;
    for (size_t at = document_->attribute_begin[element]; at < document_->attribute_end(element); ++at) {
        Item item{StepKind::attribute, static_cast<uint32_t>(at)};
        const NameLabels& labels = names_[document_->attribute_name[at]];
        for (uint32_t label : labels.attribute)
            if (label != none) leaf<tree>(state, label, item);
        leaf<tree>(state, label_attribute_any, item);
    }
}

// Handles the texts before the one with this number that have not been seen.
template <bool tree>
void XTrieRun::texts(uint32_t until) {
    for (; next_text_ < until; ++next_text_) {
        close(document_->depth[document_->text_parent[next_text_]] + 2u);
        leaf<tree>(levels_.back().state, label_text, {StepKind::text, next_text_});
    }
}

// An attribute or a text of the innermost open element. It has no level of its own, so no level is pushed.
template <bool tree>
void XTrieRun::leaf(uint32_t state, uint32_t label, Item item) {
    const SubstringTrie& trie = engine_->trie();
    uint32_t level = static_cast<uint32_t>(levels_.size());
    for (state = trie.advance(state, label); state != SubstringTrie::root; state = trie.suffix(state))
        probe<tree>(state, level, item);
}

// The substring of `state` occurs, ending at this level. Considers each of its rows.
template <bool tree>
void XTrieRun::probe(uint32_t state, uint32_t level, Item item) {
    for (const Probe& probe : engine_->trie().rows(state)) consider<tree>(probe, level, item);
}

// Cheap tests come first: the level, whether the filter has matched already, then the parent, then values.
template <bool tree>
inline void XTrieRun::consider(const Probe& probe, uint32_t level, Item item) {
    uint32_t parent = none;
    if (probe.parent == none) {
        if (probe.open ? level < probe.distance : level != probe.distance) return;
        if (matched(probe.filter)) return;
    } else {
        if (matched(probe.filter)) return;
        parent = fitting(probe.parent, probe.distance, probe.open, level);
        if (parent == none) return;
    }
    if (probe.tested && !holds(probe, item)) return;
    const XTrie::Row& row = engine_->rows()[probe.row];
    if constexpr (tree) {
        if (row.children == 0) tell(probe.row, level);
        else if (parent == none || wanted(row, level, parent)) remember(probe.row, level);
    } else {
        if (row.children == 0) accept(probe.filter);
        // If the child may be at any depth below, the outermost occurrence is as good as all others.
        else if (!row.child_open || innermost_[probe.row] == none) remember(probe.row, level);
    }
}

// Occurrences are chained from the innermost outward, so levels decrease along the chain.
uint32_t XTrieRun::fitting(uint32_t parent, uint32_t distance, bool open, uint32_t level) const {
    uint32_t at = innermost_[parent];
    while (at != none && occurrences_[at].level + distance > level) at = occurrences_[at].outer;
    return at == none || open || occurrences_[at].level + distance == level ? at : none;
}

bool XTrieRun::holds(const Probe& probe, Item item) {
    for (const RowTest& test : engine_->tests(engine_->rows()[probe.row].tests))
        if (!holds(test, item)) return false;
    return true;
}

bool XTrieRun::holds(const RowTest& test, Item item) {
    switch (test.kind) {
        case RowTest::Kind::name:
            return item.kind == StepKind::element && names_.fires(test.label, document_->name[item.index]);
        case RowTest::Kind::call: return function_holds(test.function, value(item), test.text);
        case RowTest::Kind::compare: break;
    }
    if (!test.is_number) return equals(item, test.text) == (test.relation == Relation::eq);
    double left = number(item), right = test.number;
    switch (test.relation) {
        case Relation::eq: return left == right;
        case Relation::ne: return left != right;     // true where it is no number
        case Relation::lt: return left < right;
        case Relation::le: return left <= right;
        case Relation::gt: return left > right;
        case Relation::ge: return left >= right;
    }
    return false;
}

// PERF: an element with much text is seldom equal to a literal, or a number; its first texts tell.
bool XTrieRun::equals(Item item, std::string_view text) {
    if (item.kind != StepKind::element) return value(item) == text;
    for (uint32_t at = document_->text_begin[item.index]; at < document_->text_end[item.index]; ++at) {
        std::string_view piece = document_->value(document_->text[at]);
        if (!text.starts_with(piece)) return false;
        text.remove_prefix(piece.size());
    }
    return text.empty();
}

double XTrieRun::number(Item item) {
    if (item.kind == StepKind::element)
        for (uint32_t at = document_->text_begin[item.index]; at < document_->text_end[item.index]; ++at) {
            std::string_view piece = document_->value(document_->text[at]);
            if (!std::all_of(piece.begin(), piece.end(), in_number)) return std::numeric_limits<double>::quiet_NaN();
        }
    return to_number(value(item));
}

// The string value, valid until the next call for another item. Many rows ask for that of the same element.
std::string_view XTrieRun::value(Item item) {
    const Document& d = *document_;
    if (item.kind == StepKind::attribute) return d.value(d.attribute_value[item.index]);
    if (item.kind == StepKind::text) return d.value(d.text[item.index]);
    uint32_t begin = d.text_begin[item.index], end = d.text_end[item.index];
    if (begin == end) return {};
    if (end - begin == 1) return d.value(d.text[begin]);
    if (buffered_ != item.index) {
        buffered_ = item.index;
        buffer_.clear();
        for (uint32_t at = begin; at < end; ++at) buffer_ += d.value(d.text[at]);
    }
    return buffer_;
}

// The stamp of the document marks the filter, so it is reported once.
void XTrieRun::accept(uint32_t filter) {
    matched_[filter] = stamp_;
    slots_->push_back(engine_->filters()[filter].slot);
}

// Pushes an occurrence that waits for its children, and schedules children that any element at one level can match.
void XTrieRun::remember(uint32_t index, uint32_t level) {
    ++work_.remembered;
    Occurrence& made = occurrences_.emplace_back();
    made.row = index;
    made.level = level;
    made.outer = innermost_[index];
    innermost_[index] = static_cast<uint32_t>(occurrences_.size() - 1);
    const std::vector<XTrie::Row>& rows = engine_->rows();
    for (uint32_t child = rows[index].expected; child != none; child = rows[child].next_expected) {
        uint32_t where = level + rows[child].distance;
        if (where >= expected_.size()) expected_.resize(where + 1);
        expected_[where].push_back(child);
        expectations_.push_back(where);
    }
    uint32_t ordered = rows[index].ordered_children;
    if (!ordered) return;
    made.chain = chains_used_++;
    if (chains_.size() < chains_used_) chains_.emplace_back();
    Chain& chain = chains_[made.chain];
    chain.best.assign(ordered, none);
    chain.waiting.clear();
}

// -- the tree variant: what is matched below is reported upward

// Whether an occurrence at this level would report anything new to one of its parents: `parent` or one further out.
bool XTrieRun::wanted(const XTrie::Row& row, uint32_t level, uint32_t parent) const {
    for (; parent != none; parent = next_fitting(parent, row.open)) {
        const Occurrence& at = occurrences_[parent];
        if (at.seen >> (row.rank - 1) & 1) continue;
        if (!row.order || chains_[at.chain].best[row.order - 1] > witness(row, level, at)) return true;
    }
    return false;
}

// The row is matched with everything below it, ending at this level. Reports it to all fitting occurrences of its parent.
void XTrieRun::tell(uint32_t index, uint32_t level) {
    ++work_.told;
    const XTrie::Row& row = engine_->rows()[index];
    if (row.parent == none) return accept(row.filter);
    uint8_t children = engine_->rows()[row.parent].children;
    uint64_t all = ~uint64_t(0) >> (64 - children);
    uint32_t at = fitting(row.parent, row.distance, row.open, level);
    for (; at != none; at = next_fitting(at, row.open)) {
        Occurrence& parent = occurrences_[at];
        if (!hear(parent, row, level) || parent.seen != all) continue;
        tell(row.parent, parent.level);
        if (matched(row.filter)) return;
    }
}

// Records a child. Returns whether the occurrence gained one that it did not have.
bool XTrieRun::hear(Occurrence& parent, const XTrie::Row& child, uint32_t level) {
    uint64_t bit = uint64_t(1) << (child.rank - 1);
    if (parent.seen & bit) return false;
    if (child.order) {
        Chain& chain = chains_[parent.chain];
        if (!extend(chain, child.order, witness(child, level, parent), levels_[parent.level + 1].element)) return false;
        bit = ~uint64_t(0) >> (64 - chain.best.size());      // they have the first ranks
    }
    parent.seen |= bit;
    return true;
}

// A branch has a witness. Returns whether all branches now have witnesses in order.
//
// Any witness still to come is `within` itself or starts later. So witnesses that wait below another child have nothing to
// wait for. And if the branches up to a rank already have a chain, only a smaller last witness matters.
bool XTrieRun::extend(Chain& chain, uint32_t rank, uint32_t witness, uint32_t within) {
    std::vector<uint32_t>& best = chain.best;
    if (best[rank - 1] <= witness) return false;
    if (chain.within != within) {
        chain.waiting.clear();
        chain.within = within;
    }
    if (rank > 1 && best[rank - 2] >= witness) {
        std::pair<uint32_t, uint32_t> entry(rank, witness);
        if (chain.waiting.empty() || chain.waiting.back() != entry) chain.waiting.push_back(entry);
        return false;
    }
    best[rank - 1] = witness;
    for (uint32_t next = rank + 1; next <= best.size(); ++next) {
        uint32_t found = best[next - 1];
        for (const auto& [waiting_rank, waiting] : chain.waiting)
            if (waiting_rank == next && waiting > best[next - 2]) found = std::min(found, waiting);
        if (found == best[next - 1]) break;
        best[next - 1] = found;
    }
    return best.back() != none;
}

}  // namespace treecast
