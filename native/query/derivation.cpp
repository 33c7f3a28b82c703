// Programs of derivations, written, checked and run. derivation.hpp has the form.
#include "query/derivation.hpp"

#include "base/varint.hpp"
#include "document/number.hpp"

#include <cmath>
#include <cstring>

namespace treecast {

namespace {

constexpr uint32_t texts_of(Deriving code) {
    if (code == Deriving::translate) return 2;
    return code == Deriving::before || code == Deriving::after || code == Deriving::prepend || code == Deriving::append;
}

constexpr uint32_t numbers_of(Deriving code) {
    if (code == Deriving::substring_length) return 2;
    return code == Deriving::substring || (code >= Deriving::add && code <= Deriving::modulo_from);
}

// Reads the constants of operations; false where bytes are missing.
class ProgramReader {
public:
    explicit ProgramReader(std::string_view bytes) : rest_(bytes) {}
    bool is_done() const { return rest_.empty(); }
    bool code(Deriving& out) {
        if (rest_.empty()) return false;
        out = static_cast<Deriving>(rest_[0]);
        rest_.remove_prefix(1);
        return out >= Deriving::name && out <= Deriving::round;
    }
    bool text(std::string& out) {
        uint32_t size = 0;
        for (int shift = 0; shift < 35; shift += 7) {
            if (rest_.empty()) return false;
            const auto byte = static_cast<unsigned char>(rest_[0]);
            rest_.remove_prefix(1);
            size |= uint32_t(byte & 0x7F) << shift;
            if (byte < 0x80) break;
        }
        if (size > rest_.size()) return false;
        out = rest_.substr(0, size);
        rest_.remove_prefix(size);
        return true;
    }
    bool number(double& out) {
        if (rest_.size() < sizeof out) return false;
        std::memcpy(&out, rest_.data(), sizeof out);
        rest_.remove_prefix(sizeof out);
        return true;
    }

private:
    std::string_view rest_;
};

}  // namespace

void put_operation(std::string& program, Deriving code) { program.push_back(static_cast<char>(code)); }

void put_operation(std::string& program, Deriving code, std::string_view text) {
    if (static_cast<uint8_t>(code)) program.push_back(static_cast<char>(code));
    put_varint(program, static_cast<uint32_t>(text.size()));
    program += text;
}

void put_operation(std::string& program, Deriving code, double number) {
    if (static_cast<uint8_t>(code)) program.push_back(static_cast<char>(code));
    if (std::isnan(number)) number = std::nan("");          // all of them are one
    program.append(reinterpret_cast<const char*>(&number), sizeof number);
}

// In a saved file anything may stand.
bool Derivation::is_valid(std::string_view program) {
    ProgramReader reader(program);
    bool is_number = false, is_first = true;
    std::string text;
    double number = 0;
    for (Deriving code; !reader.is_done(); is_first = false) {
        if (!reader.code(code) || (is_name_source(code) && !is_first) || takes_number(code) != is_number) return false;
        is_number |= code == Deriving::length || code == Deriving::number;
        for (uint32_t i = texts_of(code); i; --i)
            if (!reader.text(text)) return false;
        for (uint32_t i = numbers_of(code); i; --i)
            if (!reader.number(number)) return false;
    }
    return true;
}

Derivation::Derivation(std::string_view program) {
    ProgramReader reader(program);
    while (!reader.is_done()) {
        Operation& operation = operations_.emplace_back();
        reader.code(operation.code);
        if (texts_of(operation.code) > 0) reader.text(operation.first);
        if (texts_of(operation.code) > 1) reader.text(operation.second);
        if (numbers_of(operation.code) > 0) reader.number(operation.number);
        if (numbers_of(operation.code) > 1) reader.number(operation.length);
        if (operation.code == Deriving::translate)
            operation.translation = std::make_shared<const Translation>(operation.first, operation.second);
    }
    while (maps_ < operations_.size() && operations_[maps_].code == Deriving::translate) ++maps_;
    if (maps_ < operations_.size() && is_normalizing(maps_)) ++maps_;
}

bool Derivation::is_number() const {
    return !is_empty() && operations_.back().code >= Deriving::length;
}

bool Derivation::suits_elements() const {
    if (is_of_name() || maps_ == operations_.size()) return true;
    const Operation& next = operations_[maps_];
    switch (next.code) {
        case Deriving::length: return true;
        case Deriving::number: return maps_ == 0;           // StringValues knows the numbers of elements
        case Deriving::substring_length: return next.number + next.length <= characters_read_max;
        default: return false;
    }
}

void Derivation::map(std::string_view text, size_t operation, std::string& out) const {
    if (operations_[operation].code == Deriving::normalize) append_normalized(text, out);
    else operations_[operation].translation->append(text, out);
}

// Leaves the result in text_.
void Derivation::apply(const Operation& operation, std::string_view text) {
    next_.clear();
    switch (operation.code) {
        case Deriving::normalize: append_normalized(text, next_); break;
        case Deriving::translate: operation.translation->append(text, next_); break;
        case Deriving::substring: next_ = substring_of(text, operation.number, nullptr); break;
        case Deriving::substring_length: next_ = substring_of(text, operation.number, &operation.length); break;
        case Deriving::before:
            if (size_t at = text.find(operation.first); at != std::string_view::npos) next_ = text.substr(0, at);
            break;
        case Deriving::after:
            if (size_t at = text.find(operation.first); at != std::string_view::npos) next_ = text.substr(at + operation.first.size());
            break;
        case Deriving::prepend: next_.append(operation.first).append(text); break;
        case Deriving::append: next_.append(text).append(operation.first); break;
        default: break;
    }
    text_.swap(next_);
}

Derivation::Value Derivation::of(std::string_view text, size_t begin) {
    for (size_t i = begin; i < operations_.size(); ++i) {
        const Deriving code = operations_[i].code;
        if (is_name_source(code)) continue;                 // the caller has given the name
        if (code == Deriving::length) return {{}, of_number(static_cast<double>(count_characters(text)), i + 1)};
        if (code == Deriving::number) return {{}, of_number(to_number(text), i + 1)};
        apply(operations_[i], text);
        text = text_;
    }
    return {text, 0};
}

double Derivation::of_number(double number, size_t begin) const {
    for (size_t i = begin; i < operations_.size(); ++i) {
        const double other = operations_[i].number;
        switch (operations_[i].code) {
            case Deriving::add: number += other; break;
            case Deriving::subtract: number -= other; break;
            case Deriving::multiply: number *= other; break;
            case Deriving::divide: number /= other; break;
            case Deriving::modulo: number = std::fmod(number, other); break;
            case Deriving::subtract_from: number = other - number; break;
            case Deriving::divide_from: number = other / number; break;
            case Deriving::modulo_from: number = std::fmod(other, number); break;
            case Deriving::negative: number = -number; break;
            case Deriving::floor: number = std::floor(number); break;
            case Deriving::ceiling: number = std::ceil(number); break;
            case Deriving::round: number = round_half_up(number); break;
            default: break;
        }
    }
    return number;
}

}  // namespace treecast
