// Numbers terms by their keys.
#include "evaluate/shared_terms.hpp"

#include "query/query_print.hpp"

namespace treecast {

namespace {

bool is_worth_sharing(const Query& query, const Term& term) {
    if (term.uses_context) return false;
    if (term.kind == TermKind::path) return true;
    return term.kind == TermKind::call && term.first != no_term && query.term(term.first).type == TermType::items;
}

}  // namespace

std::vector<uint32_t> SharedTerms::numbers_of(const Query& query) {
    std::vector<uint32_t> numbers;
    for (uint32_t i = 0; i < query.terms(); ++i)
        if (query.term(i).variable != no_term) return {};            // it depends on more than the document
    for (uint32_t i = 0; i < query.terms(); ++i) {
        if (!is_worth_sharing(query, query.term(i))) continue;
        key_.clear();
        QueryPrinter(query, true, key_).term(i);
        auto known = numbers_.find(key_);
        if (known == numbers_.end()) {
            if (numbers_.size() == terms_max) continue;
            known = numbers_.emplace(key_, size()).first;
        }
        if (numbers.empty()) numbers.resize(query.terms(), 0xFFFFFFFFu);
        numbers[i] = known->second;
    }
    return numbers;
}

}  // namespace treecast
