// Invariant: an expression, an empty line and a document are an answer. The canonical text gives the same, not(not(…)) too,
// and so does a second look. With little work allowed the answer is the same, or there is none (OutOfWork); afterwards the
// evaluator still gives it. Numbers of items are ascending wherever a set comes out.
#include "base/failure.hpp"
#include "document/reader.hpp"
#include "evaluate/evaluate.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>

namespace {

using namespace treecast;

void require(bool holds) {
    if (!holds) std::abort();
}

constexpr uint64_t steps_max = 2'000'000;

std::optional<bool> answer(Evaluator& evaluator, const Query& query, uint64_t steps) {
    evaluator.allow(steps);
    try {
        return evaluator.satisfies(query, false);
    } catch (const OutOfWork&) {
        return std::nullopt;
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    std::string_view text(reinterpret_cast<const char*>(data), size);
    size_t split = text.find("\n\n");
    if (split == text.npos) return 0;
    static const Bindings bindings = {{"p", "urn:p"}};
    Reader reader;
    Query query, again, twice;
    const Document* document;
    try {
        parse_query(text.substr(0, split), bindings, query);
        document = &reader.read(text.substr(split + 2));
    } catch (const Failure&) {
        return 0;
    }
    Evaluator evaluator;
    evaluator.begin(*document);
    std::optional<bool> first = answer(evaluator, query, steps_max);
    if (!first) return 0;
    parse_query(query.text(), bindings, again);
    std::optional<bool> second = answer(evaluator, again, steps_max * 2);
    require(!second || *second == *first);
    try {
        parse_query("not(not(" + query.text() + "))", bindings, twice);
        std::optional<bool> third = answer(evaluator, twice, steps_max * 4);
        require(!third || *third == *first);
    } catch (const Failure& failure) {
        require(failure.limit);                          // two parentheses or some bytes too many
    }
    std::optional<bool> hurried = answer(evaluator, query, size % 300);
    require(!hurried || *hurried == *first);
    require(answer(evaluator, query, steps_max) == first);
    if (query.selection() == no_term) return 0;
    evaluator.allow(steps_max);
    Terms::Set set;
    try {
        evaluator.open_terms(query).items(query.selection(), {}, set);
        require(std::ranges::is_sorted(set) && std::ranges::adjacent_find(set) == set.end() && set.empty() != *first);
    } catch (const OutOfWork&) {
    }
    return 0;
}
