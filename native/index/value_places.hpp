// The places where routing forms ask for values, and the values that a document has there.
//
// A place is an attribute of elements of a name, or their text. However many places there are, attributes are gone through once for
// all of them, and elements once for all texts; whoever has seen enough stops, and the next one goes on from there. A value
// is hashed when it is first asked for.
#pragma once

#include "index/linear_path.hpp"
#include "index/value_set.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace treecast {

struct DocumentValue {
    uint32_t element = 0;
    uint32_t attribute = none;                              // none: the text of the element
    uint64_t hash = ~0ull;                                  // not known yet
};

// A form that a value at a place decides by itself, together with the path of the element that has it.
struct ValueForm {
    uint64_t targets = 0;
    const ValueSet* set = nullptr;
    const LinearPath* path = nullptr;
};

struct ValuesAt {                                           // a place
    uint32_t element = FormNames::any, attribute = FormNames::any;       // any attribute: the text
    uint32_t forms = 0;                                     // that ask for it
    std::vector<ValueForm> decided;                         // of these
    // Of one document.
    uint64_t document = 0;
    bool is_known = true;                                   // false: too much text to look at
    uint64_t text_bytes = 0;
    std::vector<uint32_t> values;                           // by number
};

class ValuePlaces {
public:
    // The place that one more form asks for; leave() takes that back. No name of an attribute: the text.
    ValuesAt& take(uint32_t element, uint32_t attribute);
    void leave(ValuesAt& place);
    void decide(ValuesAt& place, const ValueForm& form);
    void undecide(ValuesAt& place, const LinearPath& path);

    void begin(const Document& document, FormNames& names);
    // Goes on until `is_done`, which is told each place that decides forms and the number of a value there, or to the end.
    template <class IsDone>
    void look(IsDone&& is_done);
    // To the end: all values of a place are there, and hashed. False: there is too much text.
    bool complete(ValuesAt& place);
    const DocumentValue& value(uint32_t number) const { return values_[number]; }
    // Its hash is known from now on; false where the place has too much text.
    bool make_known(ValuesAt& place, uint32_t number);

    // For tests: values that were hashed, and attributes and elements that were gone through.
    uint64_t hashed() const { return hashed_; }
    uint64_t passed() const { return passed_; }

private:
    static constexpr uint64_t text_bytes_max = 1 << 20;     // looked at for one place: elements may hold each other's text
    using Group = std::vector<std::unique_ptr<ValuesAt>>;   // by name of elements; any comes first
    static ValuesAt* find(const Group& group, uint32_t element);
    void renew(ValuesAt& place);                            // for this document
    uint32_t owner_of(uint32_t attribute);
    std::span<ValuesAt* const> enter(const Group& group, uint32_t element, uint32_t attribute);

    std::vector<Group> groups_ = std::vector<Group>(1);     // by name of an attribute; first those of texts
    uint32_t decided_texts_ = 0;
    const Document* document_ = nullptr;
    FormNames* names_ = nullptr;
    uint64_t documents_ = 0;
    uint32_t next_attribute_ = 0, next_text_ = 0;           // where to go on
    uint32_t owner_ = 0;                                    // the element of the last attribute that somebody asks for
    ValuesAt* entered_[2] = {};
    std::vector<DocumentValue> values_;
    std::string text_;
    uint64_t hashed_ = 0, passed_ = 0;
};

// Texts are only looked at where they decide something: others may never be asked for.
template <class IsDone>
void ValuePlaces::look(IsDone&& is_done) {
    auto is_over = [&](std::span<ValuesAt* const> places) {
        for (ValuesAt* place : places)
            if (!place->decided.empty() && is_done(*place, place->values.back())) return true;
        return false;
    };
    const auto attributes = static_cast<uint32_t>(document_->attribute_name.size());
    const uint32_t* const name = document_->attribute_name.data();
    while (groups_.size() > 1 && next_attribute_ < attributes) {
        ++passed_;
        const uint32_t attribute = next_attribute_++, number = names_->number_of(name[attribute]);
        if (number >= groups_.size() || groups_[number].empty()) continue;
        if (is_over(enter(groups_[number], owner_of(attribute), attribute))) return;
    }
    const auto elements = static_cast<uint32_t>(document_->elements());
    while (decided_texts_ && next_text_ < elements) {
        ++passed_;
        const uint32_t element = next_text_++;
        if (is_over(enter(groups_[0], element, none))) return;
    }
}

}  // namespace treecast
