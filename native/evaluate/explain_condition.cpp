// The Explainer's conditions: a reason is the values of the operands, each named as it is written.
//
// There is one mechanism for all conditions. and, or and not() have parts that are conditions. Everything else has operands:
// the sides of a comparison, the arguments of a function, the numbers of arithmetic. Each is asked for its value at the item,
// and then its own operands are. What a reader sees in the text, such as a literal, is not named again.
//
// How a condition uses a set decides what is shown of it. `any`: the item that met the other side, or what was compared in vain.
// `first`: the one item whose text counts. `all`: the items of a sum; `exists`: whether there are any.
#include "evaluate/explain.hpp"

#include "document/number.hpp"

#include <algorithm>
#include <cmath>

namespace treecast {

namespace {

// More examples than this do not help a reader.
constexpr size_t items_max = 3;
// A query may be long; a reason of more operands says no more.
constexpr size_t operands_max = 64;

// As in src/treecast/index/explain.py.
constexpr const char* language_text = "ancestor-or-self::*[@xml:lang][1]/@xml:lang";

using Use = Operand::Use;

}  // namespace

std::string shortened(std::string_view text) {
    if (text.size() <= shown_bytes_max) return std::string(text);
    return std::string(cut_text(text, shown_bytes_max)) + "…";
}

// Reads no more of the document than is shown.
std::string Explainer::value(uint32_t item) {
    const Document& d = document_;
    const ItemTable& items = table();
    const uint32_t index = items.index(item);
    switch (items.kind(item)) {
        case ItemKind::attribute: return shortened(d.value(d.attribute_value[index]));
        case ItemKind::text: return shortened(d.value(d.text[index]));
        case ItemKind::comment:
        case ItemKind::instruction: {
            std::string text;
            terms_.append_string(item, text);
            return shortened(text);
        }
        default: break;
    }
    std::string found;
    const uint32_t begin = index == none ? 0 : d.text_begin[index];
    const uint32_t end = index == none ? static_cast<uint32_t>(d.text.size()) : d.text_end[index];
    for (uint32_t at = begin; at < end && found.size() <= shown_bytes_max; ++at) found += cut_text(d.value(d.text[at]), shown_bytes_max + 4);
    return shortened(found);
}

// A whole predicate: a number is a position.
Reason Explainer::predicate(uint32_t term, const Context& context) {
    Reason made;
    if (written_.term(term).type == TermType::number) {
        made.kind = Reason::Kind::position;
        bool holds = false;
        if (within([&] { holds = terms_.passes(term, context); })) made.holds = holds ? Truth::yes : Truth::no;
        add(term, Use::value, false, context, made.operands);
        add_position(context, made.operands);
    } else {
        made = condition(term, context);
    }
    made.source = bracketed(term);
    return made;
}

Truth Explainer::truth(uint32_t term, const Context& context) {
    bool holds = false;
    if (!within([&] { holds = terms_.truth(term, context); })) return Truth::undecided;
    return holds ? Truth::yes : Truth::no;
}

Reason Explainer::condition(uint32_t index, const Context& context) {
    const Term& term = written_.term(index);
    Reason made;
    made.source = term.source;
    made.holds = truth(index, context);
    if (term.kind == TermKind::conjunction || term.kind == TermKind::disjunction) {
        made.kind = term.kind == TermKind::conjunction ? Reason::Kind::conjunction : Reason::Kind::disjunction;
        add_deciding_parts(term, context, made);
        return made;
    }
    if (term.kind == TermKind::call && term.function == TermFunction::not_) {
        made.kind = Reason::Kind::negation;
        made.parts.push_back(condition(term.first, context));
        return made;
    }
    if (term.kind == TermKind::comparison || (term.kind == TermKind::call && term.type == TermType::boolean))
        add_parts(index, context, made.operands);
    else
        add(index, term.type == TermType::items ? Use::exists : Use::value, false, context, made.operands);
    if (term.uses_position) {
        made.kind = Reason::Kind::position;
        add_position(context, made.operands);
    }
    return made;
}

// Of a true `and` all parts, of a false one the first that is false; of `or` the other way round. Of an undecided one all.
void Explainer::add_deciding_parts(const Term& term, const Context& context, Reason& out) {
    const bool is_all = out.holds == (out.kind == Reason::Kind::conjunction ? Truth::yes : Truth::no) || out.holds == Truth::undecided;
    for (uint32_t part = term.first; part != no_term; part = written_.term(part).next) {
        if (!is_all && truth(part, context) != out.holds) continue;
        out.parts.push_back(condition(part, context));
        if (!is_all) return;
    }
}

// A part of a predicate of an ordered pattern. The witness of a branch has to start after `bound`, and becomes the bound.
Reason Explainer::ordered_condition(uint32_t term, uint32_t expr, uint32_t item, uint32_t& bound) {
    const uint32_t element = table().index(item), before = table().index(bound);
    uint32_t last = before, free = element;
    bool holds = false, is_early = false;
    const bool is_known = within([&] {
        holds = evaluator_.fits_condition(expr, element, last);
        is_early = !holds && evaluator_.fits_condition(expr, element, free);
    });
    const bool has_witness = holds && last != before;
    Reason made;
    if (!is_known || (!has_witness && (holds || truth(term, {item, 1, 1}) != Truth::yes))) {
        made = condition(term, {item, 1, 1});
        if (!is_known) made.holds = Truth::undecided;
        return made;
    }
    made.source = written_.term(term).source;
    made.holds = holds ? Truth::yes : Truth::no;
    Operand branch;
    branch.text = view(made.source);
    branch.type = Operand::Type::items;
    branch.use = Use::exists;
    if (has_witness) {
        bound = table().of_element(last);
        branch.count = 1;
        branch.items = {bound};
        branch.value = value(bound);
    } else {                                          // it holds, but not in this order
        branch.miss = std::make_unique<Miss>();
        branch.miss->kind = Miss::Kind::order;
        branch.miss->step = made.source;
        if (is_early) branch.miss->other = table().of_element(free);
    }
    made.operands.push_back(std::move(branch));
    return made;
}

// What a reader sees without a document. Positions are named once for the whole condition.
bool Explainer::is_evident(uint32_t index) const {
    const Term& term = written_.term(index);
    if (term.kind == TermKind::number || term.kind == TermKind::literal) return true;
    if (term.kind == TermKind::negative) return is_evident(term.first);
    if (term.kind != TermKind::call) return false;
    return term.function == TermFunction::true_ || term.function == TermFunction::false_ || term.function == TermFunction::position ||
           term.function == TermFunction::last;
}

Explainer::Known Explainer::value_of(uint32_t term, const Context& context) {
    Known known;
    known.source = written_.term(term).source;
    known.type = written_.term(term).type;
    Result result;
    if (within([&] { result = terms_.value(term, context); })) known.result = std::move(result);
    return known;
}

// Adds an operand, then those that it is made of.
void Explainer::add(uint32_t term, Use use, bool as_number, const Context& context, Operands& out) {
    const bool is_text = as_number && written_.term(term).kind == TermKind::literal;
    if (is_evident(term) && !is_text) return;
    Known known = value_of(term, context);
    if (is_evident(term) && known.result && !std::isnan(to_number(known.result->string))) return;
    add_known(known, use, as_number, out);
    add_miss(term, context, out);
    add_parts(term, context, out);
}

// `as_number`: the condition reads it as a number.
void Explainer::add_known(const Known& known, Use use, bool as_number, Operands& out) {
    Operand made;
    made.text = view(known.source);
    made.use = known.type == TermType::items ? use : Use::value;
    auto is_same = [&](const Operand& other) { return other.text == made.text && (other.use == made.use || made.use == Use::exists); };
    if (out.size() == operands_max || std::any_of(out.begin(), out.end(), is_same)) return;
    if (known.result) {
        const Result& result = *known.result;
        switch (known.type) {
            case TermType::number:
                made.type = Operand::Type::number;
                made.value = number_text(result.number);
                break;
            case TermType::boolean:
                made.type = Operand::Type::boolean;
                made.value = result.boolean ? "true" : "false";
                break;
            case TermType::string:
                made.type = Operand::Type::string;
                made.value = shortened(result.string);
                if (as_number && std::isnan(to_number(result.string))) made.not_numbers.push_back(made.value);
                break;
            case TermType::items:
                made.count = result.items.size();
                if (show(known.met == none ? result.items : Set{known.met}, as_number, made)) made.type = Operand::Type::items;
                break;
        }
    }
    out.push_back(std::move(made));
}

// Chooses the items that are shown: of a sum, those that make it no number; else the first. False: finding out takes too long.
bool Explainer::show(const Set& items, bool as_number, Operand& out) {
    out.items.assign(items.begin(), items.begin() + static_cast<ptrdiff_t>(std::min(items.size(), out.use == Use::first ? 1 : items_max)));
    const bool is_known = within([&] {
        if (out.use == Use::all) {
            Set culprits;
            for (size_t i = 0; i < items.size() && culprits.size() < items_max; ++i)
                if (std::isnan(terms_.number_of(items[i]))) culprits.push_back(items[i]);
            if (!culprits.empty()) out.items = std::move(culprits);
        }
        for (uint32_t item : out.items)
            if (as_number && std::isnan(terms_.number_of(item))) out.not_numbers.push_back(value(item));
    });
    if (!out.items.empty()) out.value = value(out.items.front());
    return is_known;
}

// Why the last operand, if it is a set without items, has none.
void Explainer::add_miss(uint32_t term, const Context& context, Operands& out) {
    if (out.empty() || out.back().type != Operand::Type::items || out.back().count || out.back().miss) return;
    if (out.back().text == view(written_.term(term).source)) out.back().miss = miss(term, context);
}

// The operands of a term that is no set.
void Explainer::add_parts(uint32_t index, const Context& context, Operands& out) {
    const Term& term = written_.term(index);
    auto add_all = [&](Use use, bool as_number) {
        for (uint32_t at = term.first; at != no_term; at = written_.term(at).next) add(at, use, as_number, context, out);
    };
    switch (term.kind) {
        case TermKind::conjunction:
        case TermKind::disjunction: add_all(Use::exists, false); return;
        case TermKind::arithmetic:
        case TermKind::negative: add_all(Use::first, true); return;
        case TermKind::comparison: add_comparison(term, context, out); return;
        case TermKind::call: add_arguments(term, context, out); return;
        default: return;
    }
}

void Explainer::add_arguments(const Term& call, const Context& context, Operands& out) {
    Use use = Use::first;
    bool as_number = false;
    switch (call.function) {
        case TermFunction::count:
        case TermFunction::boolean:
        case TermFunction::not_: use = Use::exists; break;
        case TermFunction::sum: use = Use::all; [[fallthrough]];
        case TermFunction::number:
        case TermFunction::floor:
        case TermFunction::ceiling:
        case TermFunction::round: as_number = true; break;
        default: break;
    }
    for (uint32_t at = call.first; at != no_term; at = written_.term(at).next) {
        add(at, use, as_number, context, out);
        as_number |= call.function == TermFunction::substring;       // all but the first
    }
    if (call.function == TermFunction::lang) add_language(context, out);
    const bool is_own_text = call.function == TermFunction::number || call.function == TermFunction::string ||
                             call.function == TermFunction::string_length || call.function == TermFunction::normalize_space;
    if (call.first == no_term && is_own_text) add_item(".", {context.item}, as_number, out);
}

// The sides, and what each of them is made of. In a = b = c the sides of the second comparison are a = b and c.
void Explainer::add_comparison(const Term& comparison, const Context& context, Operands& out) {
    Known left = value_of(comparison.first, context);
    uint32_t left_term = comparison.first;
    const uint32_t begin = left.source.begin;
    for (uint32_t at = written_.term(comparison.first).next; at != no_term; at = written_.term(at).next) {
        const auto relation = static_cast<Relation>(written_.term(at).relation);
        Known right = value_of(at, context);
        Known whole;
        whole.source = {begin, right.source.end() - begin};
        if (left.result && right.result) {
            Result result;
            if (within([&] { result.boolean = terms_.compare_results(relation, *left.result, *right.result); })) whole.result = std::move(result);
        }
        if (whole.result && whole.result->boolean) meet(left, right, relation);
        add_side(left_term, left, right, relation, context, out);
        add_side(at, right, left, relation, context, out);
        left = std::move(whole);
        left_term = no_term;
    }
    for (uint32_t at = comparison.first; at != no_term; at = written_.term(at).next) add_parts(at, context, out);
}

// XPath 1.0, section 3.4: beside a truth value a set is one; `<` and its like compare numbers, and so does `=` beside a number.
void Explainer::add_side(uint32_t term, const Known& side, const Known& other, Relation relation, const Context& context, Operands& out) {
    const bool is_truth = other.type == TermType::boolean && (side.type == TermType::items || is_equality(relation));
    const bool as_number = !is_truth && (!is_equality(relation) || other.type == TermType::number);
    const bool is_number = side.type != TermType::string || !side.result || !std::isnan(to_number(side.result->string));
    if (term != no_term && is_evident(term) && (is_number || !as_number)) return;
    add_known(side, is_truth ? Use::exists : Use::any, as_number, out);
    if (term != no_term) add_miss(term, context, out);
}

// Of two sides that compare, finds the first item of each set that does. What a longer part of a set does not meet, a shorter does not.
void Explainer::meet(Known& left, Known& right, Relation relation) {
    auto first_of = [&](Known& side, const Known& other, auto compares) {
        if (side.type != TermType::items || other.type == TermType::boolean) return;
        const Set& items = side.result->items;
        size_t low = 0, high = items.size();
        Result part;
        part.type = TermType::items;
        while (low + 1 < high) {
            const size_t middle = (low + high) / 2;
            part.items.assign(items.begin(), items.begin() + static_cast<ptrdiff_t>(middle));
            (compares(part) ? high : low) = middle;
        }
        side.met = items[low];
    };
    within([&] {
        first_of(left, right, [&](const Result& part) { return terms_.compare_results(relation, part, *right.result); });
        Result met = *left.result;
        if (left.met != none) met.items = {left.met};
        first_of(right, left, [&](const Result& part) { return terms_.compare_results(relation, met, part); });
    });
}

void Explainer::add_item(const char* text, const Set& items, bool as_number, Operands& out) {
    Operand made;
    made.text = text;
    made.use = Use::first;
    made.count = items.size();
    if (show(items, as_number, made)) made.type = Operand::Type::items;
    out.push_back(std::move(made));
}

// What lang() looks at: the nearest attribute xml:lang, from the item upward.
void Explainer::add_language(const Context& context, Operands& out) {
    const ItemTable& items = table();
    Set found;
    for (uint32_t at = context.item; found.empty(); at = items.parent(at)) {
        for (uint32_t inner = at + 1; inner < items.content(at); ++inner) {
            const uint32_t name = document_.attribute_name[items.index(inner)];
            if (document_.names->local(name) == "lang" && document_.names->uri(name) == xml_uri) found = {inner};
        }
        if (at == 0) break;
    }
    add_item(language_text, found, false, out);
}

void Explainer::add_position(const Context& context, Operands& out) {
    for (const auto& [text, number] : {std::pair("position()", context.position), std::pair("last()", context.last)}) {
        Operand made;
        made.text = text;
        made.type = Operand::Type::number;
        made.value = std::to_string(number);
        out.push_back(std::move(made));
    }
}

// Why a set is empty: of a union, the branch of which most can be said.
std::unique_ptr<Miss> Explainer::miss(uint32_t index, const Context& context) {
    const Term& term = written_.term(index);
    if (term.kind == TermKind::path) return miss_of_path(index, context);
    std::unique_ptr<Miss> best;
    for (uint32_t branch = term.first; branch != no_term; branch = written_.term(branch).next) {
        std::unique_ptr<Miss> now = miss(branch, context);
        auto rank = [](const Miss& miss) { return miss.kind == Miss::Kind::condition ? 2 : miss.kind == Miss::Kind::name_space ? 1 : 0; };
        if (now && (!best || rank(*now) > rank(*best))) best = std::move(now);
    }
    return best;
}

std::unique_ptr<Miss> Explainer::miss_of_path(uint32_t path, const Context& context) {
    Climb way;
    way.context = context;
    climb(path, way);
    if (way.is_undecided || way.complete()) return nullptr;
    auto found = std::make_unique<Miss>(stop(way));
    if (found->kind != Miss::Kind::condition) return found;
    const size_t stage = way.sets.size() - 1;
    found->item = nearest(way);
    const uint32_t from = context_of(way, stage, found->item);
    if (from == none) return nullptr;
    std::vector<Reason> reasons = conditions(way, stage, found->item, from);
    if (reasons.empty() || reasons.back().holds != Truth::no) return nullptr;
    found->condition = std::make_unique<Reason>(std::move(reasons.back()));
    return found;
}

// Among the candidates that a stage without positions has left out, the first that satisfies the most predicates in a row.
uint32_t Explainer::nearest(const Climb& climb) {
    const Stage& stage = climb.stages[climb.sets.size() - 1];
    uint32_t best = climb.candidates.front();
    if (stage.kind != Stage::Kind::step || written_.term_step(stage.index).positional) return best;
    within([&] {
        uint32_t most = 0;
        for (uint32_t candidate : climb.candidates) {
            uint32_t holding = 0, predicate = written_.term_step(stage.index).predicates;
            for (; predicate != no_term && terms_.truth(predicate, {candidate, 1, 1}); predicate = written_.term(predicate).next) ++holding;
            if (holding > most) best = candidate;
            most = std::max(most, holding);
        }
    });
    return best;
}

}  // namespace treecast
