// Sets the Evaluator up: binds it to a document, plans each step of a query, and stores verdicts on (step, element).
//
// Planning decides which steps need memory. A step that each element reaches at most once needs none.
// Only where several contexts can lead to the same element does a step get a slot in the table of verdicts.
// evaluate.hpp explains why that bounds the cost of nested `//`.
#include "evaluate/evaluate.hpp"

#include "base/interrupt.hpp"

#include <algorithm>
#include <bit>

namespace treecast {

namespace {

constexpr uint64_t verdict_blocks_max = 1u << 21;   // 48 MiB
constexpr unsigned key_bits = 40;                   // of (slot, block): 8192 steps x 2^26 blocks; the stamp has the rest
constexpr uint64_t small_items = 1u << 19;          // what a document is taken for at least: work_max
constexpr uint64_t stamp_max = (1ull << (64 - key_bits)) - 1;

// Plans are indexed by the query's own entry numbers. The vectors grow as needed and are reused by the next query.
template <class T>
T& grown(std::vector<T>& entries, uint32_t index) {
    if (index >= entries.size()) entries.resize(index + 1);
    return entries[index] = T();
}

bool descends(const Step& step) { return step.axis == Axis::descendant || step.axis == Axis::descendant_or_self; }

}  // namespace

// Not a failure of the document: the query remains undecided, and the caller reports it as such.
OutOfWork::OutOfWork(uint64_t steps)
    : Failure(Family::document, "TC340",
              "the query needs more than " + std::to_string(steps) + " steps on this document, the limit work_per_item_max") {
    limit = true;
    hint = "simplify the predicates that are nested in each other, or raise it with Limits(work_per_item_max=…)";
}

// The constant part lets a small document run queries whose fixed cost exceeds its size.
uint64_t work_max(const Document& document, uint64_t per_item) {
    uint64_t items = document.elements() + document.attribute_name.size() + document.text.size() + document.source.size() / 64;
    return per_item * (items + small_items);
}


// Ids of local names outlive a document, as long as the NameTable keeps its generation.
// The index by name does not: it lists elements of this document.
void Evaluator::begin(const Document& document) {
    document_ = &document;
    values_.begin(document);
    if (terms_) terms_->begin(document);
    terms_query_ = nullptr;
    if (names_ != document.names || generation_ != document.names->generation()) {
        names_ = document.names;
        generation_ = names_->generation();
        local_slots_.reset();
        name_of_local_.clear();
        local_of_name_.clear();
    }
    index_built_ = false;
}

// Branches of a union are tried in the order written; one success is enough.
bool Evaluator::satisfies(const Query& query, bool ordered, std::span<const uint32_t> shared) {
    // PERF: bench/language.py. A condition of the document that is one term needs no plan.
    if (query.is_condition()) {
        const uint32_t predicate = query.step(query.path(query.branches()).first).predicates;
        if (query.expr(predicate).kind == ExprKind::term && query.expr(predicate).next == no_entry) {
            query_ = &query;
            terms_query_ = nullptr;
            shared_ = shared;
            return terms().truth(query.expr(predicate).first, {});
        }
    }
    open(query, ordered);
    shared_ = shared;
    for (uint32_t branch = query.branches(); branch != no_entry; branch = query.path(branch).next) {
        uint32_t first = query.path(branch).first;
        if (!names_occur(first)) continue;
        if (ordered ? continues(first, none, none, no_entry) : reaches(first, none, no_entry)) return true;
    }
    return false;
}

// Called when the counter passes a mark, so that spend() stays one addition and one comparison.
// It either ends the query or asks whether the caller wants to stop, and then sets the next mark.
void Evaluator::pause() {
    constexpr uint64_t nanoseconds_per_look = 10;
    if (looked_at > looked_max_) throw OutOfWork(allowed_);
    poll_at_ = looked_at + looks_per_poll;
    pause_at_ = std::min(looked_max_, poll_at_);
    Interrupt::check(looks_per_poll * nanoseconds_per_look);
}

// Prepares a whole query. Slots are numbered from 0 again, and size_table() forgets all earlier verdicts.
void Evaluator::open(const Query& query, bool ordered) {
    query_ = &query;
    ordered_ = ordered;
    cursors_.clear();
    survivors_.clear();
    slots_ = 0;
    terms_query_ = nullptr;
    shared_ = {};
    values_.forget_literals();
    prepare_paths(query.branches(), false, false, false);
    size_table();
}

// True if every element that the main path names occurs in the document.
// This is cheap, and most queries that do not match end here.
bool Evaluator::names_occur(uint32_t first_step) {
    for (uint32_t at = first_step; at != no_entry; at = query_->step(at).next) {
        const Step& step = query_->step(at);
        if (step.kind == StepKind::element && step.test == Test::name &&
            named(plan(at).name, 0, end_of(none)).empty())
            return false;
    }
    return true;
}

// Plans each path of a list. `goal` means that something is compared at its end, so that even a last step does work.
void Evaluator::prepare_paths(uint32_t first, bool nested, bool goal, bool whole) {
    query_->each_path(first, [&](uint32_t index, const PathEntry& path) {
        grown(path_verdicts_, index);
        bool variable = path.variable != no_entry;     // its items change, and may be inside each other
        prepare_steps(path, (nested && !path.absolute) || variable, goal, whole);
    });
}

// Gives slots to the steps where an element may arrive more than once.
//
// From one context, or from contexts that are not inside each other, the first descent finds each element once.
// The second descent may find it again. `nested` contexts count as one descent.
//
// `contains` asks for the first item, not for any item. So on the steps of `whole` paths only failures are useful.
// Their predicates are asked again after each success, and therefore get verdicts of their own.
void Evaluator::prepare_steps(const PathEntry& path, bool nested, bool goal, bool whole) {
    uint32_t descents = nested ? 1 : 0;
    query_->each_step(path.first, [&](uint32_t index, const Step& step) {
        descents += static_cast<uint32_t>(step.gap) + static_cast<uint32_t>(descends(step));
        grown(step_plans_, index);
        bool again = descents > 1;
        bool work = step.predicates != no_entry || step.next != no_entry || goal;
        bool kept = again && step.kind == StepKind::element && (whole || step.positional);
        query_->each_expr(step.predicates, [&](uint32_t expr, const Expr&) { prepare_expr(expr, descents > 0, kept); });
        if (!again || !work) return;
        StepPlan& plan = step_plans_[index];
        number_step(step, plan);
        plan.slot = slots_;
        slots_ += 1u << plan.atoms;
    });
}

// Returns whether the expression counts positions. With `kept`, its parts that do not count positions get slots.
bool Evaluator::prepare_expr(uint32_t index, bool nested, bool kept) {
    const Expr& expr = query_->expr(index);
    bool positional = false;
    switch (expr.kind) {
        case ExprKind::conjunction:
        case ExprKind::disjunction:
        case ExprKind::negation:
            query_->each_expr(expr.first, [&](uint32_t operand, const Expr&) {
                positional = prepare_expr(operand, nested, false) || positional;
            });
            break;
        case ExprKind::exists: prepare_paths(expr.first, nested, false, false); break;
        case ExprKind::compare: prepare_paths(expr.first, nested, true, false); break;
        case ExprKind::call: prepare_paths(expr.first, nested, true, true); break;
        case ExprKind::position:
        case ExprKind::position_last:
        case ExprKind::last: positional = true; break;
        case ExprKind::term: positional = query_->term(expr.first).uses_position; break;
    }
    grown(expr_plans_, index).positional = positional;
    if (kept) keep_parts(index);
    return positional;
}

// Positions differ from context to context. The rest of a condition does not, so it is decided once and kept.
void Evaluator::keep_parts(uint32_t index) {
    const Expr& expr = query_->expr(index);
    if (!expr_plans_[index].positional) {
        expr_plans_[index].slot = slots_++;
    } else if (expr.kind == ExprKind::conjunction || expr.kind == ExprKind::disjunction || expr.kind == ExprKind::negation) {
        query_->each_expr(expr.first, [&](uint32_t operand, const Expr&) { keep_parts(operand); });
    }
}

// Translates a name test into an id of this document's NameTable. An unknown name stays `none` and can never pass.
void Evaluator::resolve(const Step& step, StepPlan& plan) {
    plan.resolved = true;
    if (step.kind == StepKind::text) return;
    switch (step.test) {
        case Test::any: break;
        case Test::name: plan.name = names_->find(query_->uri(step), query_->view(step.local)); break;
        case Test::any_namespace: plan.name = names_->find_uri(query_->uri(step)); break;
        case Test::any_local: plan.name = find_local(query_->view(step.local)); break;
    }
}

// Numbers the local names of all NameTable entries up to this one, so that *:a compares numbers, not strings.
uint32_t Evaluator::local_id(uint32_t name) {
    while (local_of_name_.size() <= name) number_locals();
    return local_of_name_[name];
}

// Numbers those of the next entries. PERF: bench/growth.py. Some slots are asked for at once, because each may be a miss.
void Evaluator::number_locals() {
    constexpr size_t at_once = 16;
    uint64_t hashes[at_once];
    const size_t first = local_of_name_.size(), count = std::min(at_once, names_->size() - first);
    auto local = [&](size_t name) { return names_->local(static_cast<uint32_t>(name)); };
    for (size_t i = 0; i < count; ++i) local_slots_.prefetch(hashes[i] = hash_bytes(local(first + i)));
    for (size_t i = 0; i < count; ++i) {
        uint32_t id = known_local(local(first + i), hashes[i]);
        if (id == none) {
            local_slots_.reserve_next([&](uint32_t earlier) { return hash_bytes(local(name_of_local_[earlier])); });
            name_of_local_.push_back(static_cast<uint32_t>(first + i));
            id = local_slots_.add_next(hashes[i]);
        }
        local_of_name_.push_back(id);
    }
}

// All names must have their local ids first; otherwise a name that the document does have would look unknown.
uint32_t Evaluator::find_local(std::string_view local) {
    if (names_->size()) local_id(static_cast<uint32_t>(names_->size() - 1));
    return known_local(local, hash_bytes(local));
}

uint32_t Evaluator::known_local(std::string_view local, uint64_t hash) const {
    return local_slots_.find(hash, [&](uint32_t id) { return names_->local(name_of_local_[id]) == local; });
}

// Lists the elements by name: a counting sort, so each list is in document order.
// Ranges carry a stamp. A new document invalidates all of them without clearing a vector as long as the NameTable.
void Evaluator::build_name_index() {
    index_built_ = true;
    // The stamp wrapped around: old ranges could look current, so drop them.
    if (++index_stamp_ == 0) {
        name_ranges_.clear();
        index_stamp_ = 1;
    }
    const Document& d = *document_;
    uint32_t count = static_cast<uint32_t>(d.elements());
    if (name_ranges_.size() < names_->size()) name_ranges_.resize(names_->size());
    names_present_.clear();
    // First pass: count the elements of each name. `end` serves as the counter.
    for (uint32_t i = 0; i < count; ++i) {
        NameRange& range = name_ranges_[d.name[i]];
        if (range.stamp != index_stamp_) {
            range = {index_stamp_, 0, 0};
            names_present_.push_back(d.name[i]);
        }
        ++range.end;
    }
    // Turn the counts into start positions. The last pass then moves each `end` to its final place.
    uint32_t at = 0;
    for (uint32_t name : names_present_) {
        NameRange& range = name_ranges_[name];
        uint32_t size = range.end;
        range.begin = range.end = at;
        at += size;
    }
    if (by_name_.size() < count) by_name_.resize(count);
    for (uint32_t i = 0; i < count; ++i) by_name_[name_ranges_[d.name[i]].end++] = i;
}

// The lists are sorted, so the elements of a subtree are found by binary search.
Evaluator::Range Evaluator::named(uint32_t name, uint32_t begin, uint32_t end) {
    if (!index_built_) build_name_index();
    if (name >= name_ranges_.size() || name_ranges_[name].stamp != index_stamp_) return {};
    const uint32_t* first = by_name_.data() + name_ranges_[name].begin;
    const uint32_t* last = by_name_.data() + name_ranges_[name].end;
    if (begin > 0) first = std::lower_bound(first, last, begin);
    if (end < document_->elements()) last = std::lower_bound(first, last, end);
    return {static_cast<uint32_t>(first - by_name_.data()), static_cast<uint32_t>(last - by_name_.data())};
}

Evaluator::Range Evaluator::texts_of(uint32_t element) const {
    if (element == none) return {0, static_cast<uint32_t>(document_->text.size())};
    return {document_->text_begin[element], document_->text_end[element]};
}

Evaluator::Range Evaluator::attributes_of(uint32_t element) const {
    if (element == none) return {};
    return {document_->attribute_begin[element], static_cast<uint32_t>(document_->attribute_end(element))};
}

Evaluator::Range Evaluator::attributes_within(uint32_t element) const {
    uint32_t end = static_cast<uint32_t>(document_->attribute_end(end_of(element) - 1));
    return {element == none ? 0 : document_->attribute_begin[element], end};
}

// Skips the texts of child elements in one jump: all texts of a subtree are consecutive.
uint32_t Evaluator::next_child_text(uint32_t element, uint32_t from) {
    const Document& d = *document_;
    for (uint32_t text = from; text < d.text_end[element];) {
        spend(1);
        uint32_t parent = d.text_parent[text];
        if (parent == element) return text;
        text = d.text_end[parent];
    }
    return none;
}

// The columns do not store the owner of an attribute. Begins ascend, so a binary search finds it.
uint32_t Evaluator::owner(uint32_t attribute) const {
    const uint32_t* begins = document_->attribute_begin.data();
    return static_cast<uint32_t>(std::upper_bound(begins, begins + document_->elements(), attribute) - begins - 1);
}

// Three places per element: the element itself, then its attributes, then the texts that follow its start tag.
std::pair<uint64_t, uint32_t> Evaluator::order(Item item) const {
    if (item.index == none) return {0, 0};
    if (item.kind == StepKind::element) return {3ull * item.index, 1};
    if (item.kind == StepKind::attribute) return {3ull * owner(item.index) + 1, item.index};
    // A text comes after every element that started before it: those whose first text is not a later one.
    const uint32_t* begins = document_->text_begin.data();
    uint64_t started = static_cast<uint64_t>(std::upper_bound(begins, begins + document_->elements(), item.index) - begins);
    return {3 * (started - 1) + 2, item.index};
}

// The table is a direct-mapped cache: a place selects its block by the low bits.
// Blocks of an older stamp never match a key, so nothing is cleared between queries.
void Evaluator::size_table() {
    if (!slots_) return;
    blocks_per_slot_ = document_->elements() / 64 + 1;
    uint64_t wanted = std::bit_ceil(std::min(slots_ * blocks_per_slot_, verdict_blocks_max));
    if (blocks_.size() < wanted) blocks_.resize(wanted);
    // The stamp no longer fits its bits. Clear once, or very old verdicts would come back to life.
    if (++stamp_ > stamp_max) {
        std::fill(blocks_.begin(), blocks_.end(), Block());
        stamp_ = 1;
    }
    runs_.assign(slots_, Run());
}

// A block that holds another key only means "unknown": displaced verdicts cost time, never correctness.
Evaluator::Verdict Evaluator::verdict(uint32_t slot, uint32_t element) {
    uint64_t place = slot * blocks_per_slot_ + element / 64;
    const Block& block = blocks_[place & (blocks_.size() - 1)];
    uint64_t bit = 1ull << (element & 63);
    if (block.key != (stamp_ << key_bits | place) || !(block.known & bit)) return Verdict::unknown;
    return block.value & bit ? Verdict::yes : Verdict::no;
}

// A block of another key is overwritten; its verdicts will be computed again if needed.
void Evaluator::keep(uint32_t slot, uint32_t element, bool value) {
    uint64_t place = slot * blocks_per_slot_ + element / 64, key = stamp_ << key_bits | place;
    Block& block = blocks_[place & (blocks_.size() - 1)];
    if (block.key != key) block = {key, 0, 0};
    uint64_t bit = 1ull << (element & 63);
    block.known |= bit;
    if (value) block.value |= bit;
    else block.value &= ~bit;
}

}  // namespace treecast
