// Makes columns, and decides plans on them. columns.hpp has the theory.
#include "evaluate/columns.hpp"

#include "document/text_functions.hpp"
#include "evaluate/evaluate.hpp"
#include "query/arithmetic.hpp"
#include "query/relation.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace treecast {

namespace {

constexpr double no_number = std::numeric_limits<double>::quiet_NaN();
constexpr size_t contexts_per_step = 16;         // of going over a column

// Calls f(i) with the relation known, so that each has a loop of its own.
template <class Left, class Right>
void relate(Relation relation, const Left& left, const Right& right, size_t size, uint8_t* out) {
    auto all = [&](auto holds) {
        for (size_t i = 0; i < size; ++i) out[i] = holds(left(i), right(i));
    };
    switch (relation) {
        case Relation::eq: return all([](double a, double b) { return a == b; });
        case Relation::ne: return all([](double a, double b) { return a != b; });
        case Relation::lt: return all([](double a, double b) { return a < b; });
        case Relation::le: return all([](double a, double b) { return a <= b; });
        case Relation::gt: return all([](double a, double b) { return a > b; });
        case Relation::ge: return all([](double a, double b) { return a >= b; });
    }
}

// Calls f(left, right) with functions of the context's number: constants need no array.
template <class Operand, class F>
void with_operands(const Operand& left, const Operand& right, F&& f) {
    auto constant = [](double number) { return [number](size_t) { return number; }; };
    auto numbers = [](const double* all) { return [all](size_t i) { return all[i]; }; };
    if (left.numbers && right.numbers) f(numbers(left.numbers), numbers(right.numbers));
    else if (left.numbers) f(numbers(left.numbers), constant(right.constant));
    else if (right.numbers) f(constant(left.constant), numbers(right.numbers));
    else f(constant(left.constant), constant(right.constant));
}

}  // namespace

uint64_t Columns::Column::bytes() const {
    return (numbers.capacity() + least.capacity() + largest.capacity()) * sizeof(double) + has_nan.capacity() + text.capacity() +
           (ends.capacity() + elements.capacity() + positions.capacity() + lasts.capacity()) * sizeof(uint32_t);
}

// Memory is kept for the next document, unless this one took much of it.
void Columns::begin() {
    if (bytes_ > columns_bytes_max / 8)
        for (Column& column : columns_) {
            Column empty;
            empty.kind = column.kind;
            empty.sharers = column.sharers;
            column = std::move(empty);
        }
    bytes_ = 0;
    if (++stamp_) return;
    for (Column& column : columns_) column.stamp = 0;
    stamp_ = 1;
}

bool Columns::is_worth_it(const ColumnPlan& plan) const {
    auto is_shared = [&](uint32_t column) { return columns_[column].sharers >= sharers_min; };
    if (plan.is_empty() || !is_shared(plan.contexts)) return false;
    for (const ColumnPlan::Node& node : plan.nodes)
        if ((node.op == ColumnPlan::Op::column || node.op == ColumnPlan::Op::compare_set) && !is_shared(node.first)) return false;
    for (const ColumnPlan::Piece& piece : plan.pieces)
        if (piece.column != no_entry && !is_shared(piece.column)) return false;
    return true;
}

// The elements that the path leads to without its predicate. A bit for each step tells which ones an element, or one of those around
// it, has passed. The position is that among the children of one parent: descendant:: with positions is not planned.
void Columns::find_contexts(Column& column, const Query& query, const Document& document, Evaluator& evaluator) {
    struct Passed { uint32_t own, around; };
    struct NameTest { Test test; uint32_t name; std::string_view local; bool is_deep; };
    const PathEntry& branch = query.path(query.branches());
    std::vector<NameTest> tests;
    query.each_step(branch.first, [&](uint32_t, const Step& step) {
        tests.push_back({step.test, none, query.view(step.local), step.gap || step.axis == Axis::descendant});
        NameTest& test = tests.back();
        if (step.test == Test::name) test.name = document.names->find(query.uri(step), test.local);
        if (step.test == Test::any_namespace) test.name = document.names->find_uri(query.uri(step));
    });
    const auto count = static_cast<uint32_t>(document.elements());
    evaluator.spend(count);
    std::vector<Passed> passed(count);
    std::vector<uint32_t> siblings(count + 1, 0);             // by parent from 1 on: how many contexts
    const uint32_t last = 1u << (tests.size() - 1);
    for (uint32_t i = 0; i < count; ++i) {
        const uint32_t parent = i ? document.parent[i] : none, name = document.name[i];
        const Passed above = i ? passed[parent] : Passed{0, 0};
        Passed& here = passed[i] = {0, above.around | above.own};
        for (size_t s = 0; s < tests.size(); ++s) {
            const NameTest& test = tests[s];
            const uint32_t before = s ? 1u << (s - 1) : 0;
            const bool is_reached = s == 0 ? test.is_deep || i == 0 : ((test.is_deep ? here.around : above.own) & before) != 0;
            if (!is_reached) continue;
            const bool fits = test.test == Test::any || (test.test == Test::name ? name == test.name
                              : test.test == Test::any_namespace ? document.names->uri_id(name) == test.name
                                                                  : document.names->local(name) == test.local);
            if (fits) here.own |= 1u << s;
        }
        if (!(here.own & last)) continue;
        column.elements.push_back(i);
        column.positions.push_back(++siblings[parent + 1]);
    }
    for (uint32_t element : column.elements) column.lasts.push_back(siblings[(element ? document.parent[element] : none) + 1]);
}

// Asks all contexts, one by one.
void Columns::fill(Column& column, const Column& contexts, uint32_t term, Terms& terms, Evaluator& evaluator) {
    Terms::Set items;
    for (size_t i = 0; i < contexts.elements.size(); ++i) {
        const Terms::Context context{terms.table().of_element(contexts.elements[i]), contexts.positions[i], contexts.lasts[i]};
        if (column.kind == Kind::numbers) {
            column.numbers.push_back(terms.number(term, context));
        } else if (column.kind == Kind::texts) {
            terms.string(term, context, column.text);
            column.ends.push_back(static_cast<uint32_t>(column.text.size()));
        } else {
            terms.items(term, context, items);
            const size_t begin = column.numbers.size();
            bool has_nan = false;
            for (uint32_t item : items) {
                const double number = terms.number_of(item);
                if (std::isnan(number)) has_nan = true;
                else column.numbers.push_back(number);
            }
            std::sort(column.numbers.begin() + static_cast<ptrdiff_t>(begin), column.numbers.end());
            const bool is_empty = column.numbers.size() == begin;
            column.least.push_back(is_empty ? no_number : column.numbers[begin]);
            column.largest.push_back(is_empty ? no_number : column.numbers.back());
            column.has_nan.push_back(has_nan);
            column.ends.push_back(static_cast<uint32_t>(column.numbers.size()));
        }
        evaluator.spend(1);
        if (bytes_ + column.numbers.size() * sizeof(double) + column.text.size() > columns_bytes_max) {
            column.is_refused = true;
            return;
        }
    }
}

// False: this document has too much for it. Whoever asks first makes it.
bool Columns::make(uint32_t number, uint32_t contexts, uint32_t term, const Query& query, Evaluator& evaluator) {
    Column& column = columns_[number];
    if (column.stamp == stamp_) return !column.is_refused;
    column.stamp = stamp_;
    column.is_refused = true;                    // until it is complete
    for (auto* list : {&column.numbers, &column.least, &column.largest}) list->clear();
    column.ends.clear();
    column.has_nan.clear();
    column.text.clear();
    Column made = std::move(column);
    made.is_refused = false;
    fill(made, columns_[contexts], term, evaluator.open_terms(query), evaluator);
    columns_[number] = std::move(made);
    bytes_ += columns_[number].bytes();
    return !columns_[number].is_refused;
}

bool Columns::make_all(const ColumnPlan& plan, const Query& query, const Document& document, Evaluator& evaluator) {
    Column& contexts = columns_[plan.contexts];
    if (contexts.stamp != stamp_) {
        contexts.stamp = stamp_;
        for (auto* list : {&contexts.elements, &contexts.positions, &contexts.lasts}) list->clear();
        contexts.is_refused = true;              // until it is complete
        find_contexts(contexts, query, document, evaluator);
        bytes_ += contexts.bytes();
        contexts.is_refused = bytes_ > columns_bytes_max;
    }
    if (contexts.is_refused) return false;
    for (const ColumnPlan::Node& node : plan.nodes) {
        const bool is_set = node.op == ColumnPlan::Op::compare_set;
        if (!is_set && node.op != ColumnPlan::Op::column) continue;
        const uint32_t term = is_set ? static_cast<uint32_t>(node.number) : node.second;
        if (!make(node.first, plan.contexts, term, query, evaluator)) return false;
    }
    for (const ColumnPlan::Piece& piece : plan.pieces)
        if (piece.column != no_entry && !make(piece.column, plan.contexts, piece.index, query, evaluator)) return false;
    return true;
}

Columns::Answer Columns::decide(const ColumnPlan& plan, const Query& query, const Document& document, Evaluator& evaluator, uint64_t steps) {
    evaluator.allow(steps);
    try {
        if (!make_all(plan, query, document, evaluator)) return Answer::unknown;
        evaluator.spend(1 + columns_[plan.contexts].elements.size() / contexts_per_step);
    } catch (const OutOfWork&) {
        return Answer::unknown;
    }
    if (scratch_.size() < plan.nodes.size() * at_once) {
        scratch_.resize(plan.nodes.size() * at_once);
        answers_.resize(plan.nodes.size() * at_once);
        operands_.resize(plan.nodes.size());
    }
    const size_t count = columns_[plan.contexts].elements.size();
    for (size_t begin = 0; begin < count; begin += at_once)
        if (holds(plan, query, begin, std::min(at_once, count - begin))) return Answer::yes;
    return Answer::no;
}

// Whether the predicate holds for one of these contexts.
bool Columns::holds(const ColumnPlan& plan, const Query& query, size_t begin, size_t size) {
    using Op = ColumnPlan::Op;
    for (size_t own = 0; own < plan.nodes.size(); ++own) {
        const ColumnPlan::Node& node = plan.nodes[own];
        uint8_t* out = answers_.data() + own * at_once;
        const uint8_t *first = answers_.data() + node.first * at_once, *second = answers_.data() + node.second * at_once;
        switch (node.op) {
            case Op::compare: run_compare(node, own, size); break;
            case Op::compare_set: run_set(node, own, begin, size); break;
            case Op::text_is:
            case Op::text_is_not: run_text(plan, node, query, own, begin, size); break;
            case Op::both:
                for (size_t i = 0; i < size; ++i) out[i] = first[i] & second[i];
                break;
            case Op::either:
                for (size_t i = 0; i < size; ++i) out[i] = first[i] | second[i];
                break;
            case Op::invert:
                for (size_t i = 0; i < size; ++i) out[i] = first[i] ^ 1;
                break;
            default: run_numbers(node, own, begin, size);
        }
    }
    const uint8_t* answers = answers_.data() + (plan.nodes.size() - 1) * at_once;
    return std::find(answers, answers + size, 1) != answers + size;
}

void Columns::run_numbers(const ColumnPlan::Node& node, size_t own, size_t begin, size_t size) {
    using Op = ColumnPlan::Op;
    double* out = scratch_.data() + own * at_once;
    Operand& operand = operands_[own] = {out, 0};
    if (node.op == Op::constant) {
        operand = {nullptr, node.number};
        return;
    }
    if (node.op == Op::column) {
        operand.numbers = columns_[node.first].numbers.data() + begin;
        return;
    }
    const Operand& right_operand = node.op == Op::arithmetic ? operands_[node.second] : operands_[node.first];
    auto each = [&](auto f) {
        with_operands(operands_[node.first], right_operand, [&](auto left, auto right) {
            for (size_t i = 0; i < size; ++i) out[i] = f(left(i), right(i));
        });
    };
    switch (node.op) {                           // of one number
        case Op::negative: return each([](double a, double) { return -a; });
        case Op::floor: return each([](double a, double) { return std::floor(a); });
        case Op::ceiling: return each([](double a, double) { return std::ceil(a); });
        case Op::round: return each([](double a, double) { return round_half_up(a); });
        default: break;
    }
    switch (static_cast<Sign>(node.how)) {       // a loop for each
        case Sign::plus: return each([](double a, double b) { return apply(Sign::plus, a, b); });
        case Sign::minus: return each([](double a, double b) { return apply(Sign::minus, a, b); });
        case Sign::times: return each([](double a, double b) { return apply(Sign::times, a, b); });
        case Sign::div: return each([](double a, double b) { return apply(Sign::div, a, b); });
        case Sign::mod: return each([](double a, double b) { return apply(Sign::mod, a, b); });
    }
}

void Columns::run_compare(const ColumnPlan::Node& node, size_t own, size_t size) {
    uint8_t* out = answers_.data() + own * at_once;
    with_operands(operands_[node.first], operands_[node.second],
                  [&](auto left, auto right) { relate(static_cast<Relation>(node.how), left, right, size, out); });
}

// Some number of the set is related to the other number. NaN is unequal to all numbers, and so is a value that is no number.
void Columns::run_set(const ColumnPlan::Node& node, size_t own, size_t begin, size_t size) {
    const Column& column = columns_[node.first];
    const auto relation = static_cast<Relation>(node.how);
    uint8_t* out = answers_.data() + own * at_once;
    const double *least = column.least.data() + begin, *largest = column.largest.data() + begin;
    const Operand constant{nullptr, 0};
    with_operands(operands_[node.second], constant, [&](auto other, auto) {
        auto low = [&](size_t i) { return least[i]; };
        auto high = [&](size_t i) { return largest[i]; };
        switch (relation) {
            case Relation::lt:
            case Relation::le: return relate(relation, low, other, size, out);
            case Relation::gt:
            case Relation::ge: return relate(relation, high, other, size, out);
            case Relation::ne:
                for (size_t i = 0; i < size; ++i) {
                    const bool has_number = least[i] == least[i];
                    out[i] = column.has_nan[begin + i] | (int(has_number) & (int(least[i] != other(i)) | int(largest[i] != other(i))));
                }
                return;
            case Relation::eq: break;
        }
        // Numbers and not truth values, so that nothing is left out and the loop stays one of vectors.
        for (size_t i = 0; i < size; ++i) out[i] = int(least[i] <= other(i)) & int(other(i) <= largest[i]);
        for (size_t i = 0; i < size; ++i) {
            if (!out[i]) continue;
            const size_t from = begin + i ? column.ends[begin + i - 1] : 0;
            out[i] = std::binary_search(column.numbers.data() + from, column.numbers.data() + column.ends[begin + i], other(i));
        }
    });
}

// Most texts differ in their sizes, so these are compared first.
void Columns::run_text(const ColumnPlan& plan, const ColumnPlan::Node& node, const Query& query, size_t own, size_t begin, size_t size) {
    const std::string_view wanted = query.view(query.value(node.second).text);
    const std::span<const ColumnPlan::Piece> pieces(plan.pieces.data() + node.first, node.how);
    uint8_t* out = answers_.data() + own * at_once;
    uint32_t sizes[at_once] = {};
    size_t literals = 0;
    for (const ColumnPlan::Piece& piece : pieces) {
        if (piece.column == no_entry) {
            literals += query.value(piece.index).text.size;
            continue;
        }
        const uint32_t* ends = columns_[piece.column].ends.data() + begin;
        sizes[0] += ends[0] - (begin ? ends[-1] : 0);
        for (size_t i = 1; i < size; ++i) sizes[i] += ends[i] - ends[i - 1];
    }
    const bool is_equal = node.op == ColumnPlan::Op::text_is;
    for (size_t i = 0; i < size; ++i) out[i] = (sizes[i] + literals == wanted.size()) == is_equal;
    for (size_t i = 0; i < size; ++i) {
        if (sizes[i] + literals != wanted.size()) continue;
        size_t at = 0;
        bool fits = true;
        for (const ColumnPlan::Piece& piece : pieces) {
            std::string_view text;
            if (piece.column == no_entry) {
                text = query.view(query.value(piece.index).text);
            } else {
                const Column& column = columns_[piece.column];
                const uint32_t from = begin + i ? column.ends[begin + i - 1] : 0;
                text = std::string_view(column.text).substr(from, column.ends[begin + i] - from);
            }
            fits = fits && wanted.substr(at, text.size()) == text;
            at += text.size();
        }
        out[i] = fits == is_equal;
    }
}

}  // namespace treecast
