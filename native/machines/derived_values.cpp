// Makes derived values: see the header.
#include "machines/derived_values.hpp"

#include "document/characters.hpp"
#include "document/spelling.hpp"

namespace treecast {

void DerivedValues::begin(const Document& document) {
    document_ = &document;
    ++run_;
}

DerivedValues::Made DerivedValues::made(const Derivation& derivation, Derivation::Value value) {
    return {value.text, value.number, derivation.is_number(), nullptr};
}

DerivedValues::Made DerivedValues::of_attribute(uint32_t program, uint32_t attribute) {
    Derivation& derivation = derivations_[program].derivation;
    const Document& d = *document_;
    std::string_view from;
    if (!derivation.is_of_name()) from = d.value(d.attribute_value[attribute]);
    else if (derivation.first() == Deriving::name) from = attribute_qname(d, attribute);
    else if (derivation.first() == Deriving::local_name) from = d.names->local(d.attribute_name[attribute]);
    else from = d.names->uri(d.attribute_name[attribute]);
    return made(derivation, derivation.of(from));
}

DerivedValues::Made DerivedValues::of_text(uint32_t program, std::string_view text) {
    Derivation& derivation = derivations_[program].derivation;
    return made(derivation, derivation.of(derivation.is_of_name() ? std::string_view() : text));
}

DerivedValues::Made DerivedValues::of_element(uint32_t program, uint32_t element, StringValues& string_values) {
    One& one = derivations_[program];
    Derivation& derivation = one.derivation;
    const Document& d = *document_;
    if (derivation.is_of_name()) {
        const Deriving first = derivation.first();
        const std::string_view from = first == Deriving::name ? element_qname(d, element)
                                      : first == Deriving::local_name ? d.names->local(d.name[element]) : d.names->uri(d.name[element]);
        return made(derivation, derivation.of(from));
    }
    const uint32_t begin = d.text_begin[element], end = d.text_end[element];
    if (derivation.first() == Deriving::number)
        return {{}, derivation.of_number(string_values.number({begin, end}), 1), true, nullptr};
    if (end - begin == 1) {
        std::string_view only = d.value(d.text[begin]);
        if (only.size() <= short_bytes_max) return made(derivation, derivation.of(only));
    }
    // Of many texts each may be empty, so they are counted as well.
    if (end - begin > short_bytes_max || string_values.offset(end) - string_values.offset(begin) > short_bytes_max) return of_long(one, begin, end);
    gathered_.clear();
    for (uint32_t t = begin; t < end; ++t) gathered_ += d.value(d.text[t]);
    return made(derivation, derivation.of(gathered_));
}

// Space within one text and across texts becomes one blank. What that leaves at the ends of an element is cut off there.
void DerivedValues::map(One& one) {
    Mapped& mapped = one.mapped;
    if (mapped.run == run_) return;
    mapped.run = run_;
    mapped.text.clear();
    mapped.offsets.assign(1, 0);
    mapped.characters.assign(1, 0);
    const Document& d = *document_;
    size_t characters = 0;
    for (uint32_t t = 0; t < d.text.size(); ++t) {
        const size_t before = mapped.text.size();
        std::string_view piece = d.value(d.text[t]);
        for (size_t i = 0; i < one.derivation.maps(); ++i) {
            if (one.derivation.is_normalizing(i)) {
                for (char c : piece)
                    if (!is_space(c)) mapped.text += c;
                    else if (mapped.text.empty() || mapped.text.back() != ' ') mapped.text += ' ';
                piece = {};
                break;
            }
            other_.clear();
            one.derivation.map(piece, i, other_);
            piece_.swap(other_);
            piece = piece_;
        }
        mapped.text += piece;
        characters += count_characters(std::string_view(mapped.text).substr(before));
        mapped.offsets.push_back(mapped.text.size());
        mapped.characters.push_back(characters);
    }
}

DerivedValues::Made DerivedValues::of_long(One& one, uint32_t begin, uint32_t end) {
    map(one);
    const Mapped& mapped = one.mapped;
    Derivation& derivation = one.derivation;
    std::string_view text = std::string_view(mapped.text).substr(mapped.offsets[begin], mapped.offsets[end] - mapped.offsets[begin]);
    size_t characters = mapped.characters[end] - mapped.characters[begin];
    if (derivation.maps() && derivation.is_normalizing(derivation.maps() - 1)) {
        if (text.starts_with(' ')) text.remove_prefix(1), --characters;
        if (text.ends_with(' ')) text.remove_suffix(1), --characters;
    }
    if (derivation.is_length_at(derivation.maps()))
        return {{}, derivation.of_number(static_cast<double>(characters), derivation.maps() + 1), true, nullptr};
    Made result = made(derivation, derivation.of(text, derivation.maps()));
    if (result.text.data() == text.data() && text.size() > short_bytes_max) result.whole = &mapped.text;
    return result;
}

}  // namespace treecast
