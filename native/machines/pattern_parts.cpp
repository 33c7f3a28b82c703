// Writes the pieces of patterns.
#include "machines/pattern_parts.hpp"

#include "document/number.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace treecast {

namespace {

// Equal numbers must be equal bytes, since patterns are compared as bytes.
std::string number_bytes(double number) {
    if (number == 0) number = 0;            // no negative zero
    std::string bytes(sizeof number, '\0');
    std::memcpy(bytes.data(), &number, sizeof number);
    return bytes;
}

}  // namespace

std::string pattern_entry(uint32_t label, std::vector<std::string> requirements, const std::vector<std::string>& branches) {
    std::sort(requirements.begin(), requirements.end());
    requirements.erase(std::unique(requirements.begin(), requirements.end()), requirements.end());
    if (branches.size() > 1) {
        std::string order(1, static_cast<char>(Reach::order));
        put_varint(order, static_cast<uint32_t>(branches.size()));
        for (const std::string& branch : branches)
            put_varint(order, static_cast<uint32_t>(std::ranges::lower_bound(requirements, branch) - requirements.begin()));
        requirements.push_back(std::move(order));
    }
    std::string out;
    put_varint(out, label);
    put_varint(out, static_cast<uint32_t>(requirements.size()));
    for (const std::string& requirement : requirements) out += requirement;
    return out;
}

std::string reach_requirement(Reach reach, uint32_t label, std::vector<std::string> requirements, const std::vector<std::string>& branches) {
    return std::string(1, static_cast<char>(reach)) + pattern_entry(label, std::move(requirements), branches);
}

std::string value_requirement(ValueTest test, std::string_view value, bool negated) {
    std::string out(1, static_cast<char>(static_cast<uint8_t>(Reach::value) | (negated ? negated_bit : 0)));
    out.push_back(static_cast<char>(test));
    put_varint(out, static_cast<uint32_t>(value.size()));
    return out.append(value);
}

std::optional<std::string> comparison_requirement(const Query& query, Relation relation, const Value& value) {
    bool equality = relation == Relation::eq || relation == Relation::ne;
    std::string_view text = query.view(value.text);
    if (equality && !value.is_number) return value_requirement(ValueTest::equal_text, text, relation == Relation::ne);
    double number = value.is_number ? value.number : to_number(text);
    if (std::isnan(number)) return std::nullopt;
    static const ValueTest by_relation[] = {ValueTest::equal_number, ValueTest::equal_number, ValueTest::less, ValueTest::less_equal, ValueTest::greater, ValueTest::greater_equal};
    return value_requirement(by_relation[static_cast<int>(relation)], number_bytes(number), relation == Relation::ne);
}

}  // namespace treecast
