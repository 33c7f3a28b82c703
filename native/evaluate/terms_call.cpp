// The functions of XPath 1.0, section 4, without id(). Strings are counted in characters, not bytes.
#include "document/spelling.hpp"
#include "document/text_functions.hpp"
#include "evaluate/evaluate.hpp"
#include "evaluate/terms.hpp"

#include <cmath>

namespace treecast {

std::string Terms::argument(uint32_t term, const Context& context) {
    std::string out;
    if (term == no_term) {
        table();
        append_string(context.item, out);
    } else {
        string(term, context, out);
    }
    return out;
}

Terms::Result Terms::call(const Term& term, const Context& context) {
    Result result;
    result.type = term.type;
    if (term.type == TermType::string) return string_call(term, context);
    auto items = [&](uint32_t argument) {
        Set set;
        this->items(argument, context, set);
        return set;
    };
    switch (term.function) {
        case TermFunction::last: result.number = context.last; break;
        case TermFunction::position: result.number = context.position; break;
        case TermFunction::count: result.number = static_cast<double>(items(term.first).size()); break;
        case TermFunction::sum: result.number = sum(items(term.first)); break;
        case TermFunction::boolean: result.boolean = truth(term.first, context); break;
        case TermFunction::not_: result.boolean = !truth(term.first, context); break;
        case TermFunction::true_: result.boolean = true; break;
        case TermFunction::false_: break;
        case TermFunction::number:
            if (term.first != no_term) {
                result.number = number(term.first, context);
            } else {
                table();
                result.number = number_of(context.item);
            }
            break;
        case TermFunction::floor: result.number = std::floor(number(term.first, context)); break;
        case TermFunction::ceiling: result.number = std::ceil(number(term.first, context)); break;
        case TermFunction::round: result.number = round_half_up(number(term.first, context)); break;
        case TermFunction::matches: result.boolean = matches(term, context); break;
        case TermFunction::lang: result.boolean = lang(argument(term.first, context), context.item); break;
        default: {
            std::string text = argument(term.first, context);
            spend(text.size() / 32);
            if (term.function == TermFunction::string_length) {
                result.number = static_cast<double>(count_characters(text));
                break;
            }
            std::string other = argument(query_->term(term.first).next, context);
            spend(other.size() / 32);
            result.boolean = term.function == TermFunction::contains ? text.find(other) != std::string::npos : text.starts_with(other);
        }
    }
    return result;
}

Terms::Result Terms::string_call(const Term& term, const Context& context) {
    Result result;
    result.type = TermType::string;
    std::string& out = result.string;
    const uint32_t second = term.first == no_term ? no_term : query_->term(term.first).next;
    switch (term.function) {
        case TermFunction::local_name:
        case TermFunction::namespace_uri:
        case TermFunction::name: {
            table();
            Set set{context.item};
            if (term.first != no_term) items(term.first, context, set);
            if (!set.empty()) out = name(term.function, set.front());
            return result;
        }
        case TermFunction::concat:
            query_->each_term(term.first, [&](uint32_t part, const Term&) { string(part, context, out); });
            spend(out.size() / 32);
            return result;
        default: break;
    }
    std::string text = argument(term.first, context);
    spend(text.size() / 8);
    switch (term.function) {
        case TermFunction::string: out = std::move(text); break;
        case TermFunction::normalize_space: append_normalized(text, out); break;
        case TermFunction::substring_before:
        case TermFunction::substring_after: {
            std::string wanted = argument(second, context);
            size_t at = text.find(wanted);
            if (at == std::string::npos) break;
            out = term.function == TermFunction::substring_before ? text.substr(0, at) : text.substr(at + wanted.size());
            break;
        }
        case TermFunction::substring: {
            const uint32_t third = query_->term(second).next;
            double from = number(second, context), length = third == no_term ? 0 : number(third, context);
            out = substring_of(text, from, third == no_term ? nullptr : &length);
            break;
        }
        case TermFunction::translate: {
            std::string from = argument(second, context), to = argument(query_->term(second).next, context);
            spend((from.size() + to.size()) / 8);
            Translation(from, to).append(text, out);
            break;
        }
        default: break;
    }
    return result;
}

bool Terms::matches(const Term& call, const Context& context) {
    const Term& pattern = query_->term(query_->term(call.first).next);
    auto literal = [&](const Term& term) { return query_->view(query_->value(term.value).text); };
    const std::string_view flags = pattern.next == no_term ? std::string_view() : literal(query_->term(pattern.next));
    uint64_t steps = 0;
    const bool holds = regexes_.matches(literal(pattern), flags, argument(call.first, context), steps);
    spend(steps);
    return holds;
}

double Terms::sum(const Set& set) {
    double total = 0;
    for (uint32_t item : set) total += number_of(item);
    return total;
}

// Whether the nearest xml:lang is the wanted language or a part of it: "en" is wanted, "en-GB" is written.
bool Terms::lang(const std::string& wanted, uint32_t item) {
    table();
    const Document& d = *document_;
    const uint32_t name = d.names->find(xml_uri, "lang");
    if (name == none) return false;
    auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
    for (uint32_t at = item; at; at = table_.parent(at)) {
        spend(1);
        if (table_.kind(at) != ItemKind::element) continue;
        const uint32_t element = table_.index(at);
        for (uint32_t i = d.attribute_begin[element]; i < d.attribute_end(element); ++i) {
            if (d.attribute_name[i] != name) continue;
            std::string_view value = d.value(d.attribute_value[i]);
            if (value.size() < wanted.size() || (value.size() > wanted.size() && value[wanted.size()] != '-')) return false;
            for (size_t c = 0; c < wanted.size(); ++c)
                if (lower(value[c]) != lower(wanted[c])) return false;
            return true;
        }
    }
    return false;
}

std::string Terms::name(TermFunction function, uint32_t item) {
    const Document& d = *document_;
    const uint32_t index = table_.index(item);
    switch (table_.kind(item)) {
        case ItemKind::instruction: return function == TermFunction::namespace_uri ? std::string() : std::string(table_.target(item));
        case ItemKind::element:
        case ItemKind::attribute: break;
        default: return {};
    }
    const bool element = table_.kind(item) == ItemKind::element;
    const uint32_t own = element ? d.name[index] : d.attribute_name[index];
    if (function == TermFunction::local_name) return std::string(d.names->local(own));
    if (function == TermFunction::namespace_uri) return std::string(d.names->uri(own));
    return std::string(element ? element_qname(d, index) : attribute_qname(d, index));
}

}  // namespace treecast
