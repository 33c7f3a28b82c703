// The tables of XTrie: filters, rows, tests and their numbers. Matching is in xtrie_run.cpp.
//
// Freed numbers are used again, so the tables stay dense while subscriptions come and go.
#include "engines/xtrie.hpp"

#include "engines/xtrie_run.hpp"

namespace treecast {

namespace {

// The number of a new entry: one that became free, or one more.
template <class T>
uint32_t take(std::vector<T>& entries, std::vector<uint32_t>& vacant) {
    if (vacant.empty()) {
        entries.emplace_back();
        return static_cast<uint32_t>(entries.size() - 1);
    }
    uint32_t index = vacant.back();
    vacant.pop_back();
    return index;
}

template <class T>
void give_back(std::vector<T>& entries, std::vector<uint32_t>& vacant, uint32_t index) {
    entries[index] = T();
    vacant.push_back(index);
}

}  // namespace

// Everything that can refuse the query happens in decompose(), before anything is changed.
void XTrie::add(uint32_t slot, const Query& query, bool ordered) {
    std::vector<Expression> expressions = decompose(query, ordered, variant_ == Variant::single_path, name(), labels_);
    uint32_t filter = take(filters_, vacant_filters_);
    filters_[filter].slot = slot;
    filter_of_.emplace(slot, filter);
    std::vector<uint32_t> made;
    for (const Expression& expression : expressions) {
        made.clear();
        for (const SubstringRow& row : expression) {
            uint32_t parent = row.parent == none ? none : made[row.parent];
            made.push_back(add_row(filter, row, parent));
        }
    }
}

// A row is either listed at its substring or expected by its parent.
// A wildcard at an exact distance belongs to the second kind: listing it would probe it at every element.
uint32_t XTrie::add_row(uint32_t filter, const SubstringRow& from, uint32_t parent) {
    uint32_t index = take(rows_, vacant_rows_);
    Row& row = rows_[index];
    row.filter = filter;
    row.parent = parent;
    row.next = filters_[filter].first_row;
    filters_[filter].first_row = index;
    row.distance = static_cast<uint16_t>(from.distance);
    row.open = from.open;
    row.rank = static_cast<uint8_t>(from.rank);
    row.children = static_cast<uint8_t>(from.children);
    row.ordered_children = static_cast<uint8_t>(from.ordered_children);
    row.order = static_cast<uint8_t>(from.order);
    row.witness_below_parent = from.witness_below_parent;
    row.witness_back = static_cast<uint16_t>(from.witness_back);
    if (!from.tests.empty()) {
        row.tests = take(tests_, vacant_tests_);
        tests_[row.tests] = from.tests;
    }
    if (parent != none) rows_[parent].child_open = rows_[parent].children == 1 && from.open;
    row.state = trie_.insert(from.substring);
    row.listed = row.state != SubstringTrie::root || parent == none || row.open;
    if (row.listed) {
        std::vector<SubstringTrie::Probe>& probes = trie_.rows(row.state);
        row.place = static_cast<uint32_t>(probes.size());
        probes.push_back(probe_of(index));
    } else {
        row.next_expected = rows_[parent].expected;
        rows_[parent].expected = index;
    }
    count_leaf(row.state, 1);
    return index;
}

void XTrie::remove(uint32_t slot) {
    auto found = filter_of_.find(slot);
    if (found == filter_of_.end()) return;
    uint32_t filter = found->second;
    filter_of_.erase(found);
    for (uint32_t row = filters_[filter].first_row, next; row != none; row = next) {
        next = rows_[row].next;
        remove_row(row);
    }
    give_back(filters_, vacant_filters_, filter);
}

// The last probe moves into the gap, so that removal takes constant time.
void XTrie::remove_row(uint32_t index) {
    Row& row = rows_[index];
    if (row.listed) {                        // those that are not go with their parents
        std::vector<SubstringTrie::Probe>& probes = trie_.rows(row.state);
        probes[row.place] = probes.back();
        rows_[probes[row.place].row].place = row.place;
        probes.pop_back();
    }
    count_leaf(row.state, static_cast<uint32_t>(-1));
    trie_.prune(row.state);
    if (row.tests != none) give_back(tests_, vacant_tests_, row.tests);
    give_back(rows_, vacant_rows_, index);
}

// Documents are asked for attributes and texts only if some row wants them.
void XTrie::count_leaf(uint32_t state, uint32_t by) {
    if (state == SubstringTrie::root) return;
    StepKind kind = labels_.step_of(trie_.label(state)).kind;
    if (kind == StepKind::attribute) attribute_rows_ += by;
    if (kind == StepKind::text) text_rows_ += by;
}

size_t XTrie::bytes() const {
    size_t bytes = trie_.bytes() + labels_.bytes();
    bytes += rows_.capacity() * sizeof(Row) + filters_.capacity() * sizeof(Filter);
    bytes += (vacant_rows_.capacity() + vacant_filters_.capacity() + vacant_tests_.capacity()) * sizeof(uint32_t);
    bytes += filter_of_.size() * 4 * sizeof(uint32_t) + filter_of_.bucket_count() * sizeof(void*);
    for (const std::vector<RowTest>& tests : tests_) {
        bytes += sizeof tests + tests.capacity() * sizeof(RowTest);
        for (const RowTest& test : tests) bytes += test.text.size();
    }
    return bytes;
}

std::unique_ptr<PublishedFilter::Scratch> XTrie::scratch() const { return std::make_unique<XTrieRun>(); }

void XTrie::match(const Document& document, Scratch& scratch, std::vector<uint32_t>& slots) const {
    static_cast<XTrieRun&>(scratch).run(*this, document, slots);
}

std::unique_ptr<PublishedFilter> make_xtrie() { return std::make_unique<XTrie>(XTrie::Variant::tree); }
std::unique_ptr<PublishedFilter> make_xtrie_single_path() {
    return std::make_unique<XTrie>(XTrie::Variant::single_path);
}

}  // namespace treecast
