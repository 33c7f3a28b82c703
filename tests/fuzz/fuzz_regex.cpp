// Invariant: any flags, pattern and value (one a line, the value to the end) are an answer, or a Failure that says where and why. The answer is
// that of a plain simulation of the same program, twice in a row, and as it was before with the states forgotten. It takes no more
// steps than the program has instructions for each character. What matches has one of the texts that the pattern requires.
#include "document/characters.hpp"
#include "regex/regex_run.hpp"

#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

namespace {

using namespace treecast;

void require(bool holds) {
    if (!holds) std::abort();
}

// All instructions at once, character by character, without any memory of what was.
class Simulation {
public:
    Simulation(const Regex& regex, std::vector<uint32_t> value) : regex_(regex), value_(std::move(value)) {}

    bool matches() {
        std::vector<uint32_t> now, next;
        for (size_t at = 0; at <= value_.size(); ++at) {
            seen_.assign(regex_.program().size(), false);
            next.clear();
            accepted_ = false;
            now.push_back(regex_.start());
            for (uint32_t instruction : now) follow(instruction, at, next);
            if (accepted_) return true;
            now.swap(next);
        }
        return false;
    }

private:
    bool begins(size_t at) const { return at == 0 || (regex_.is_multiline() && value_[at - 1] == '\n' && at < value_.size()); }
    bool ends(size_t at) const {
        if (!regex_.is_multiline()) return at == value_.size();
        return at < value_.size() ? value_[at] == '\n' : at == 0 || value_[at - 1] != '\n';
    }
    void follow(uint32_t first, size_t at, std::vector<uint32_t>& next) {
        std::vector<uint32_t> stack{first};
        while (!stack.empty()) {
            uint32_t number = stack.back();
            stack.pop_back();
            if (seen_[number]) continue;
            seen_[number] = true;
            const RegexInstruction& instruction = regex_.program()[number];
            switch (instruction.operation) {
                case RegexOperation::accept: accepted_ = true; break;
                case RegexOperation::either: stack.push_back(instruction.first), stack.push_back(instruction.second); break;
                case RegexOperation::begin: if (begins(at)) stack.push_back(instruction.first); break;
                case RegexOperation::end: if (ends(at)) stack.push_back(instruction.first); break;
                case RegexOperation::characters:
                    if (at < value_.size() && regex_.sets()[instruction.first].has(value_[at])) next.push_back(instruction.second);
            }
        }
    }

    const Regex& regex_;
    std::vector<uint32_t> value_;
    std::vector<bool> seen_;
    bool accepted_ = false;
};

bool has_required(const RequiredTexts& required, std::string_view value) {
    if (required.texts.empty()) return true;
    for (const std::string& text : required.texts)
        if (required.at_start ? value.starts_with(text) : value.find(text) != value.npos) return true;
    return false;
}

// The characters, or nothing where the bytes are no UTF-8: those never come here.
bool decode(std::string_view text, std::vector<uint32_t>& out) {
    for (size_t at = 0; at < text.size();) {
        Decoded decoded = decode_utf8(text.data() + at, text.data() + text.size());
        if (!decoded.length) return false;
        out.push_back(decoded.character);
        at += decoded.length;
    }
    return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    std::string_view text(reinterpret_cast<const char*>(data), size);
    std::vector<uint32_t> characters;
    if (!decode(text, characters)) return 0;
    size_t first = text.find('\n'), second = first == text.npos ? first : text.find('\n', first + 1);
    if (second == text.npos) return 0;
    std::string_view flags = text.substr(0, first), pattern = text.substr(first + 1, second - first - 1), value = text.substr(second + 1);
    characters.clear();
    decode(value, characters);
    try {
        Regex regex(pattern, flags);
        require(regex.program().size() <= regex_limits.states_max + 1);
        RegexRun run(regex);
        uint64_t steps = 0, again = 0, most = 2 + value.size() / 8 + (characters.size() + 1) * regex.program().size();
        bool holds = run.matches(value, steps);
        require(run.matches(value, again) == holds && again <= steps && steps <= most);
        if (regex.program().size() * characters.size() < 200'000) require(Simulation(regex, characters).matches() == holds);
        require(!holds || has_required(regex.required(), value));
    } catch (const Failure& failure) {
        require(failure.code == "TC120" || failure.code == "TC334");
        require(!failure.message.empty() && failure.limit == (failure.code == "TC334"));
        require(failure.position <= pattern.size() + flags.size());
    }
    return 0;
}
