// Places by the names of an attribute and of elements, and the values of one document.
#include "index/value_places.hpp"

#include <algorithm>

namespace treecast {

namespace {

auto place_before(const std::vector<std::unique_ptr<ValuesAt>>& group, uint32_t element) {
    return std::lower_bound(group.begin(), group.end(), element, [](const auto& place, uint32_t name) { return place->element < name; });
}

}  // namespace

ValuesAt* ValuePlaces::find(const Group& group, uint32_t element) {
    auto at = place_before(group, element);
    return at != group.end() && (*at)->element == element ? at->get() : nullptr;
}

ValuesAt& ValuePlaces::take(uint32_t element, uint32_t attribute) {
    if (attribute >= groups_.size()) groups_.resize(attribute + 1);
    Group& group = groups_[attribute];
    ValuesAt* place = find(group, element);
    if (!place) {
        place = group.insert(place_before(group, element), std::make_unique<ValuesAt>())->get();
        place->element = element;
        place->attribute = attribute;
    }
    ++place->forms;
    return *place;
}

void ValuePlaces::leave(ValuesAt& place) {
    if (--place.forms) return;
    Group& group = groups_[place.attribute];
    group.erase(place_before(group, place.element));
}

void ValuePlaces::decide(ValuesAt& place, const ValueForm& form) {
    place.decided.push_back(form);
    decided_texts_ += place.attribute == FormNames::any;
}

void ValuePlaces::undecide(ValuesAt& place, const LinearPath& path) {
    std::erase_if(place.decided, [&](const ValueForm& form) { return form.path == &path; });
    decided_texts_ -= place.attribute == FormNames::any;
}

void ValuePlaces::begin(const Document& document, FormNames& names) {
    document_ = &document;
    names_ = &names;
    names.begin(*document.names);
    ++documents_;
    next_attribute_ = next_text_ = owner_ = 0;
    values_.clear();
}

void ValuePlaces::renew(ValuesAt& place) {
    if (place.document == documents_) return;
    place.document = documents_;
    place.is_known = true;
    place.text_bytes = 0;
    place.values.clear();
}

// Attributes come in order, so the search begins at the element of the last one, and passes each element once.
uint32_t ValuePlaces::owner_of(uint32_t attribute) {
    const uint32_t* const begins = document_->attribute_begin.data();
    const auto elements = static_cast<uint32_t>(document_->elements());
    while (elements - owner_ > 8 && begins[owner_ + 8] <= attribute) owner_ += 8;
    while (elements - owner_ > 1 && begins[owner_ + 1] <= attribute) ++owner_;
    return owner_;
}

// Notes a value at the places where it stands: that of its element's name, and that of any.
std::span<ValuesAt* const> ValuePlaces::enter(const Group& group, uint32_t element, uint32_t attribute) {
    size_t count = 0;
    if (group.front()->element == FormNames::any) entered_[count++] = group.front().get();
    if (ValuesAt* place = find(group, names_->number_of(document_->name[element]))) entered_[count++] = place;
    if (!count) return {};
    const auto number = static_cast<uint32_t>(values_.size());
    values_.push_back({element, attribute});
    for (ValuesAt* place : std::span(entered_, count)) {
        renew(*place);
        place->values.push_back(number);
    }
    return {entered_, count};
}

bool ValuePlaces::make_known(ValuesAt& place, uint32_t number) {
    DocumentValue& value = values_[number];
    if (value.hash != ~0ull) return true;
    const Document& document = *document_;
    if (value.attribute != none) {
        ++hashed_;
        value.hash = ValueSet::hash(document.value(document.attribute_value[value.attribute]));
        return true;
    }
    text_.clear();
    for (uint32_t text = document.text_begin[value.element]; text < document.text_end[value.element]; ++text) {
        text_ += document.value(document.text[text]);
        if ((place.text_bytes += 16 + document.text[text].end - document.text[text].begin) > text_bytes_max) return place.is_known = false;
    }
    ++hashed_;
    value.hash = ValueSet::hash(text_);
    return true;
}

bool ValuePlaces::complete(ValuesAt& place) {
    look([](const ValuesAt&, uint32_t) { return false; });
    if (place.attribute == FormNames::any) {
        const auto elements = static_cast<uint32_t>(document_->elements());
        for (; next_text_ < elements; ++next_text_, ++passed_) enter(groups_[0], next_text_, none);
    }
    renew(place);                                           // it may have none
    for (size_t i = 0; place.is_known && i < place.values.size(); ++i) make_known(place, place.values[i]);
    return place.is_known;
}

}  // namespace treecast
