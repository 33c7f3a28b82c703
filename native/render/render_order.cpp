// order by: sorts the tuples of a FLWR.
//
// How it works. Keys are looked at one after the other: the first for all tuples, each further one for those that are still tied.
// No key is stored per tuple. A key mostly depends on the item of one variable, and there are far fewer items than tuples.
// Each item gets its key and its rank once, and tuples are sorted by ranks.
//
// So the memory is a few words per tuple and item, however many keys there are. Equal long strings are compared once for
// each pair of items, not of tuples.
#include "render/render_build.hpp"

#include "base/id_slots.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

namespace treecast {

namespace {

// A key as one word: a number of items, or an item, or one of these.
constexpr uint64_t no_item = ~0ull, empty_string = ~1ull;

// The cost of a tuple for each key, in items looked at. It is higher if the key has to be found for each tuple.
constexpr uint64_t looks_per_tuple = 2, looks_per_key = 8;

uint64_t word_of(Evaluator::Item item) { return static_cast<uint64_t>(item.kind) << 32 | item.index; }
Evaluator::Item item_of(uint64_t word) { return {static_cast<StepKind>(word >> 32), static_cast<uint32_t>(word)}; }

// Numbers words in the order in which they come.
class WordNumbers {
public:
    // The number of a word. `fresh` returns whether it is new.
    uint32_t number(uint64_t word, bool& fresh) {
        uint64_t hash = hash_of(word);
        uint32_t number = slots_.find(hash, [&](uint32_t other) { return words_[other] == word; });
        fresh = number == IdSlots::empty;
        if (!fresh) return number;
        number = static_cast<uint32_t>(words_.size());
        words_.push_back(word);
        slots_.add(hash, number, [&](uint32_t earlier) { return hash_of(words_[earlier]); });
        return number;
    }

private:
    static uint64_t hash_of(uint64_t word) { return hash_words(hash_seeds(), word, 0); }
    IdSlots slots_;
    std::vector<uint64_t> words_;
};

}  // namespace

// A key in the form in which it is compared. The string of an element is compared text by text: joined values of all keys
// together might be many times as large as the document.
struct Builder::SortKey {
    bool exists = true;
    uint64_t count = 0;
    std::optional<double> number;                               // of a term; else its text
    std::string own;
    std::string_view piece;                                     // then the texts
    uint32_t text = 0, text_end = 0;

    // Of a term: NaN comes before all numbers, and what selects nothing before everything. A boolean is a number.
    explicit SortKey(Terms::Result&& result) {
        switch (result.type) {
            case TermType::number: number = result.number; break;
            case TermType::boolean: number = result.boolean; break;
            default: own = std::move(result.string);
        }
    }
    SortKey(const Document& document, const Clause& clause, uint64_t key) : exists(key != no_item) {
        if (clause.counts) {
            count = key;
            return;
        }
        if (key == no_item || key == empty_string) return;
        Item item = item_of(key);
        if (item.kind == StepKind::attribute) {
            piece = document.value(document.attribute_value[item.index]);
        } else if (item.kind == StepKind::text) {
            piece = document.value(document.text[item.index]);
        } else {
            text = item.index == none ? 0 : document.text_begin[item.index];
            text_end = item.index == none ? static_cast<uint32_t>(document.text.size()) : document.text_end[item.index];
        }
    }
};

struct Builder::Sorting {
    const Op& op;
    const size_t begin;                                         // of the tuples in stack_
    std::vector<uint32_t> order;                                // numbers of tuples, sorted as far as was looked
    std::vector<std::pair<uint32_t, uint32_t>> ties;            // ranges of `order`: equal so far, two or more
    std::vector<uint32_t> numbers;                              // by tuple: which of the different keys it has
    std::vector<SortKey> keys;                                  // by number

    Sorting(const Op& op_, size_t begin_, size_t count) : op(op_), begin(begin_), order(count), numbers(count) {
        std::iota(order.begin(), order.end(), 0u);
        ties.emplace_back(0, static_cast<uint32_t>(count));
    }
    uint64_t tied() const {
        return std::accumulate(ties.begin(), ties.end(), uint64_t(0),
                               [](uint64_t sum, const auto& tie) { return sum + tie.second - tie.first; });
    }
    void count_out(uint32_t first, uint32_t last, uint32_t ranks);

    // Sorts each tie with sort(first, last). What remains are the ties among those, by same(tuple, other).
    template <class Sort, class Same>
    void split_ties(Sort&& sort, Same&& same) {
        std::vector<std::pair<uint32_t, uint32_t>> left;
        for (const auto& [first, last] : ties) {
            sort(first, last);
            for (uint32_t at = first; at < last;) {
                uint32_t end = at + 1;
                while (end < last && same(order[at], order[end])) ++end;
                if (end - at > 1) left.emplace_back(at, end);
                at = end;
            }
        }
        ties.swap(left);
    }

private:
    std::vector<uint32_t> ends_, sorted_;                       // scratch
};

// Sorts a tie by the numbers, which are ranks: a counting sort, so the time does not depend on the order.
void Builder::Sorting::count_out(uint32_t first, uint32_t last, uint32_t ranks) {
    auto begin = order.begin() + first, end = order.begin() + last;
    ends_.assign(ranks + 1, 0);
    for (auto at = begin; at < end; ++at) ++ends_[numbers[*at] + 1];
    std::partial_sum(ends_.begin(), ends_.end(), ends_.begin());
    sorted_.resize(last - first);
    for (auto at = begin; at < end; ++at) sorted_[ends_[numbers[*at]]++] = *at;
    std::copy(sorted_.begin(), sorted_.end(), begin);
}

// Sorts numbers of tuples, then moves each tuple once.
void Builder::sort_tuples(const Op& op, size_t begin) {
    uint32_t clauses = all_->shape(op.shape).clauses, width = op.count;
    bool any = false;
    all_->each_clause(clauses, [&](uint32_t, const Clause& clause) { any = any || clause.kind == ClauseKind::order; });
    if (!any || !width || tuples_ < 2) return;
    Sorting sorting(op, begin, tuples_);
    all_->each_clause(clauses, [&](uint32_t, const Clause& clause) {
        if (clause.kind != ClauseKind::order || sorting.ties.empty()) return;
        if (clause.term == no_term ? find_keys(clause, sorting) : find_term_keys(clause, sorting)) sort_ties(clause, sorting);
    });
    std::vector<Item> unsorted(stack_.begin() + static_cast<std::ptrdiff_t>(begin), stack_.end());
    for (size_t i = 0; i < tuples_; ++i)
        std::copy_n(unsorted.data() + size_t(sorting.order[i]) * width, width, stack_.data() + begin + i * width);
}

void Builder::sort_ties(const Clause& clause, Sorting& sorting) {
    std::vector<uint32_t>& numbers = sorting.numbers;
    auto relation = [&](uint32_t a, uint32_t b) {
        int order = compare(clause, sorting.keys[a], sorting.keys[b]);
        return clause.descending ? -order : order;
    };
    // Hardly any tuples share a key, so they are compared directly.
    if (sorting.keys.size() > sorting.tied() / 2) {
        auto before = [&](uint32_t a, uint32_t b) { return relation(numbers[a], numbers[b]) < 0; };
        auto same = [&](uint32_t a, uint32_t b) { return relation(numbers[a], numbers[b]) == 0; };
        auto order = sorting.order.begin();
        sorting.split_ties([&](uint32_t first, uint32_t last) { std::stable_sort(order + first, order + last, before); }, same);
        return;
    }
    // Keys become ranks; equal keys get the same rank.
    std::vector<uint32_t> sorted(sorting.keys.size()), rank_of(sorting.keys.size());
    std::iota(sorted.begin(), sorted.end(), 0u);
    std::sort(sorted.begin(), sorted.end(), [&](uint32_t a, uint32_t b) { return relation(a, b) < 0; });
    uint32_t rank = 0;
    for (size_t i = 1; i < sorted.size(); ++i) rank_of[sorted[i]] = rank += relation(sorted[i - 1], sorted[i]) != 0;
    if (!rank) return;
    for (const auto& [first, last] : sorting.ties)
        for (uint32_t at = first; at < last; ++at) numbers[sorting.order[at]] = rank_of[numbers[sorting.order[at]]];
    auto same = [&](uint32_t a, uint32_t b) { return numbers[a] == numbers[b]; };
    auto sort = [&](uint32_t first, uint32_t last) {
        auto begin = sorting.order.begin() + first, end = sorting.order.begin() + last;
        // A tie that stays tied is left alone.
        if (std::all_of(begin, end, [&](uint32_t tuple) { return same(tuple, *begin); })) return;
        if (rank < last - first) sorting.count_out(first, last, rank + 1);
        else std::stable_sort(begin, end, [&](uint32_t a, uint32_t b) { return numbers[a] < numbers[b]; });
    };
    sorting.split_ties(sort, same);
}

// Finds the keys of the tied tuples for one clause. Returns false if the key is the same for all of them.
bool Builder::find_keys(const Clause& clause, Sorting& sorting) {
    const Op& op = sorting.op;
    uint32_t places = 0, place = 0;                             // where in a tuple the variables of the key are
    all_->query().each_path(clause.paths, [&](uint32_t, const PathEntry& path) {
        for (uint32_t i = 0; i < op.count; ++i) {
            if (path.variable != program_->variables[op.first + i] || (places && place == i)) continue;
            place = i;
            ++places;
        }
    });
    if (!places) return false;
    bool alone = op.count == 1;                                 // then it takes no item twice
    evaluator.looked_at += sorting.tied() * (places > 1 ? looks_per_key : looks_per_tuple);
    check_work();

    std::optional<WordNumbers> numbers;
    if (!alone) numbers.emplace();
    sorting.keys.clear();
    auto number_of = [&](const Item* items) {
        bool fresh = true;
        uint64_t key = 0;
        auto find_key = [&] {
            set_variables(op, items);
            key = sort_key(clause);
        };
        // A key of several variables must be computed before it can be compared with known ones.
        if (places > 1) find_key();
        auto number = static_cast<uint32_t>(sorting.keys.size());
        if (numbers) number = numbers->number(places > 1 ? key : word_of(items[place]), fresh);
        if (!fresh) return number;
        if (places == 1) find_key();
        sorting.keys.emplace_back(*document_, clause, key);
        return number;
    };
    for (const auto& [first, last] : sorting.ties)
        for (uint32_t at = first; at < last; ++at) {
            uint32_t tuple = sorting.order[at];
            sorting.numbers[tuple] = number_of(stack_.data() + sorting.begin + size_t(tuple) * op.count);
        }
    return true;
}

// Keys that are computed: one for each tuple. Of a term that selects items the first one's string is the key.
bool Builder::find_term_keys(const Clause& clause, Sorting& sorting) {
    const Op& op = sorting.op;
    uint64_t bound = 0;
    for (uint32_t i = 0; i < op.count; ++i) bound |= 1ull << program_->variables[op.first + i];
    if (!(all_->query().term(clause.term).variables & bound)) return false;
    evaluator.looked_at += sorting.tied() * looks_per_key;
    check_work();
    sorting.keys.clear();
    for (const auto& [first, last] : sorting.ties)
        for (uint32_t at = first; at < last; ++at) {
            uint32_t tuple = sorting.order[at];
            set_variables(op, stack_.data() + sorting.begin + size_t(tuple) * op.count);
            Terms::Result result = evaluator.value(clause.term, variables_);
            if (result.type == TermType::items) {
                const bool any = !result.items.empty();
                if (any) evaluator.append_text(clause.term, variables_, result.string);
                sorting.keys.emplace_back(std::move(result));
                sorting.keys.back().exists = any;
            } else {
                sorting.keys.emplace_back(std::move(result));
            }
            check_work();
            sorting.numbers[tuple] = static_cast<uint32_t>(sorting.keys.size() - 1);
        }
    return true;
}

uint64_t Builder::sort_key(const Clause& clause) {
    if (clause.counts) {
        if (pool_used_ == pool_.size()) pool_.emplace_back();
        evaluator.select(clause.paths, variables_, pool_[pool_used_]);
        check_work();
        return pool_[pool_used_].size();
    }
    Item item;
    bool any = evaluator.first(clause.paths, variables_, item);
    check_work();
    if (!any) return clause.strings ? empty_string : no_item;
    return word_of(item);
}

// Compares by code points, which is the byte order of UTF-8. Long comparisons count as work.
int Builder::compare(const Clause& clause, const SortKey& a, const SortKey& b) {
    constexpr size_t bytes_per_look = 64;
    if (!a.exists || !b.exists) {
        if (a.exists == b.exists) return 0;
        return b.exists != clause.empty_greatest ? -1 : 1;
    }
    if (clause.counts) return a.count < b.count ? -1 : a.count > b.count;
    if (a.number && b.number) {
        const double one = *a.number, other = *b.number;
        if (std::isnan(one) || std::isnan(other)) {
            if (std::isnan(one) == std::isnan(other)) return 0;
            return std::isnan(other) != clause.empty_greatest ? 1 : -1;
        }
        return one < other ? -1 : one > other;
    }
    std::string_view left = clause.term == no_term ? a.piece : std::string_view(a.own);
    std::string_view right = clause.term == no_term ? b.piece : std::string_view(b.own);
    uint32_t left_text = a.text, right_text = b.text;
    for (;; ++evaluator.looked_at) {
        check_work();
        while (left.empty() && left_text < a.text_end) left = document_->value(document_->text[left_text++]);
        while (right.empty() && right_text < b.text_end) right = document_->value(document_->text[right_text++]);
        size_t common = std::min(left.size(), right.size());
        if (!common) return left.empty() ? (right.empty() ? 0 : -1) : 1;
        evaluator.looked_at += common / bytes_per_look;
        if (int relation = left.substr(0, common).compare(right.substr(0, common))) return relation;
        left.remove_prefix(common);
        right.remove_prefix(common);
    }
}

}  // namespace treecast
