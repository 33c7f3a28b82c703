// The tree of a regular expression -> its program, and what a value must contain to match.
//
// The program is built from its end: each part is told where to go on. A repetition with bounds is as many copies, so the number of
// states is computed before any is made.
#include "document/characters.hpp"
#include "regex/regex_tree.hpp"

#include <algorithm>
#include <optional>

namespace treecast {

namespace {

constexpr uint64_t size_max = uint64_t{1} << 40;
constexpr size_t texts_max = 16;            // alternatives of what is required
constexpr size_t text_bytes_max = 64;       // of each

// Texts of which a part is exactly one; or of which each value has one inside.
using RegexTexts = std::vector<std::string>;

size_t shortest(const RegexTexts& texts) {
    size_t size = texts.empty() ? 0 : std::string::npos;
    for (const std::string& text : texts) size = std::min(size, text.size());
    return size;
}

}  // namespace

class RegexCompiler {
public:
    RegexCompiler(const RegexTree& tree, Regex& out) : tree_(tree), out_(out) {}

    void compile() {
        const uint64_t size = size_of(tree_.root);
        if (size >= regex_limits.states_max) {
            Failure failure(Family::query, "TC334", "more than " + std::to_string(regex_limits.states_max) + " states, the limit (states_max)", 0);
            failure.limit = true;
            failure.hint = "repeat less: x{1,1000} has about 2,000 states";
            throw failure;
        }
        out_.program_.reserve(size + 1);
        out_.start_ = emit(tree_.root, add({RegexOperation::accept}));
        out_.anchored_ = !tree_.multiline && begins(tree_.root);
        Found found = required(tree_.root);
        out_.required_.texts = std::move(found.texts);
        out_.required_.at_start = found.at_start && !tree_.multiline;
    }

private:
    struct Found {
        RegexTexts texts;
        bool at_start = false;
    };

    template <class Visit> void each(const RegexNode& node, Visit&& visit) const {
        for (uint32_t at = node.first; at != no_part; at = tree_.nodes[at].next) visit(at);
    }

    // How many instructions it becomes.
    uint64_t size_of(uint32_t index) const {
        const RegexNode& node = tree_.nodes[index];
        uint64_t size = 0;
        switch (node.part) {
            case RegexPart::characters:
            case RegexPart::begin:
            case RegexPart::end: return 1;
            case RegexPart::sequence: each(node, [&](uint32_t child) { size += size_of(child); }); break;
            case RegexPart::branches: each(node, [&](uint32_t child) { size += size_of(child) + 1; }); break;
            case RegexPart::repetition: {
                const uint64_t one = size_of(node.first);
                if (!one) return 0;
                size = node.most == unlimited ? (node.least + uint64_t{1}) * one + 1 : node.most * one + (node.most - node.least);
            }
        }
        return std::min(size, size_max);
    }

    uint32_t add(const RegexInstruction& instruction) {
        out_.program_.push_back(instruction);
        return static_cast<uint32_t>(out_.program_.size() - 1);
    }

    uint32_t emit(uint32_t index, uint32_t next) {
        const RegexNode& node = tree_.nodes[index];
        switch (node.part) {
            case RegexPart::characters: return add({RegexOperation::characters, node.set, next});
            case RegexPart::begin: return add({RegexOperation::begin, next});
            case RegexPart::end: return add({RegexOperation::end, next});
            case RegexPart::sequence: {
                std::vector<uint32_t> children;
                each(node, [&](uint32_t child) { children.push_back(child); });
                for (size_t i = children.size(); i-- > 0;) next = emit(children[i], next);
                return next;
            }
            case RegexPart::branches: {
                uint32_t entry = no_part;
                each(node, [&](uint32_t child) {
                    uint32_t branch = emit(child, next);
                    entry = entry == no_part ? branch : add({RegexOperation::either, entry, branch});
                });
                return entry;
            }
            case RegexPart::repetition: break;
        }
        if (!size_of(node.first)) return next;
        uint32_t entry = next;
        if (node.most == unlimited) {
            entry = add({RegexOperation::either, 0, next});
            uint32_t body = emit(node.first, entry);
            out_.program_[entry].first = body;
        } else {
            for (uint32_t i = node.least; i < node.most; ++i) {
                uint32_t body = emit(node.first, entry);
                entry = add({RegexOperation::either, body, next});
            }
        }
        for (uint32_t i = 0; i < node.least; ++i) entry = emit(node.first, entry);
        return entry;
    }

    // Whether it can match at the start of a value alone.
    bool begins(uint32_t index) const {
        const RegexNode& node = tree_.nodes[index];
        bool all = true;
        switch (node.part) {
            case RegexPart::begin: return true;
            case RegexPart::sequence: return node.first != no_part && begins(node.first);
            case RegexPart::branches: each(node, [&](uint32_t child) { all &= begins(child); }); return all;
            case RegexPart::repetition: return node.least > 0 && begins(node.first);
            default: return false;
        }
    }

    // The texts that the part matches, if they are few: "" among them where it may be left out.
    std::optional<RegexTexts> exact(uint32_t index) const {
        const RegexNode& node = tree_.nodes[index];
        RegexTexts texts;
        bool known = true;
        switch (node.part) {
            case RegexPart::begin:
            case RegexPart::end: return std::nullopt;
            case RegexPart::characters: {
                std::vector<uint32_t> characters;
                if (!tree_.sets[node.set].list(texts_max, characters) || characters.empty()) return std::nullopt;
                for (uint32_t character : characters) {
                    char bytes[4];
                    texts.emplace_back(bytes, encode_utf8(character, bytes));
                }
                return texts;
            }
            case RegexPart::sequence:
                texts = {""};
                each(node, [&](uint32_t child) {
                    std::optional<RegexTexts> more = known ? exact(child) : std::nullopt;
                    known = more && extend(texts, *more);
                });
                break;
            case RegexPart::branches:
                each(node, [&](uint32_t child) {
                    std::optional<RegexTexts> more = known ? exact(child) : std::nullopt;
                    known = more && texts.size() + more->size() <= texts_max;
                    if (known) texts.insert(texts.end(), more->begin(), more->end());
                });
                break;
            case RegexPart::repetition: {
                if (node.least != node.most || node.most > text_bytes_max) return std::nullopt;
                std::optional<RegexTexts> one = exact(node.first);
                texts = {""};
                for (uint32_t i = 0; known && i < node.most; ++i) known = one && extend(texts, *one);
            }
        }
        if (!known) return std::nullopt;
        return texts;
    }

    // Each text with each of the others behind it; false where that would be too many, or too much.
    static bool extend(RegexTexts& texts, const RegexTexts& more) {
        if (texts.size() * more.size() > texts_max) return false;
        RegexTexts joined;
        for (const std::string& text : texts)
            for (const std::string& end : more) {
                if (text.size() + end.size() > text_bytes_max) return false;
                joined.push_back(text + end);
            }
        texts = std::move(joined);
        return true;
    }

    // What every value that the part matches has inside: the longest, by its shortest alternative.
    Found required(uint32_t index) const {
        const RegexNode& node = tree_.nodes[index];
        Found best;
        if (std::optional<RegexTexts> all = exact(index); all && shortest(*all)) return {*all, false};
        if (node.part == RegexPart::repetition) {
            if (node.least) best = required(node.first);
            return best;
        }
        if (node.part == RegexPart::branches) {
            bool known = true;
            best.at_start = true;
            each(node, [&](uint32_t child) {
                Found one = known ? required(child) : Found();
                known &= !one.texts.empty() && best.texts.size() + one.texts.size() <= texts_max;
                best.at_start &= one.at_start;
                if (known) best.texts.insert(best.texts.end(), one.texts.begin(), one.texts.end());
            });
            return known ? best : Found();
        }
        if (node.part == RegexPart::sequence) return required_of_sequence(node);
        return best;
    }

    Found required_of_sequence(const RegexNode& node) const {
        Found best;
        RegexTexts run{""};
        bool at_start = false, is_first = true;          // of the run
        auto offer = [&](RegexTexts texts, bool starts) {
            const size_t size = shortest(texts);
            if (size && (size > shortest(best.texts) || (starts && size == shortest(best.texts)))) best = {std::move(texts), starts};
        };
        each(node, [&](uint32_t child) {
            std::optional<RegexTexts> more = exact(child);
            RegexTexts longer = run;
            if (!more || !extend(longer, *more)) {
                offer(std::move(run), at_start);
                Found inside = more ? Found() : required(child);
                offer(std::move(inside.texts), inside.at_start && is_first);
                at_start = is_first && tree_.nodes[child].part == RegexPart::begin;
                longer = {""};
                if (more && shortest(*more)) longer = *more;
            }
            run = std::move(longer);
            is_first = false;
        });
        offer(std::move(run), at_start);
        return best;
    }

    const RegexTree& tree_;
    Regex& out_;
};

Regex::Regex(std::string_view text, std::string_view flags) {
    RegexFlags read;
    for (size_t i = 0; i < flags.size(); ++i) {
        switch (flags[i]) {
            case 'i': read.any_case = true; continue;
            case 'm': read.lines = true; continue;
            case 's': read.any_character = true; continue;
            case 'x': read.spaced = true; continue;
            default: break;
        }
        Failure failure(Family::query, "TC120", "there is no such flag", text.size() + i);
        failure.hint = flags[i] == 'q' ? "contains() looks for a text as it stands" : "the flags are i, m, s and x";
        throw failure;
    }
    multiline_ = read.lines;
    RegexTree tree = parse_regex(text, read);
    RegexCompiler(tree, *this).compile();
    sets_ = std::move(tree.sets);
}

}  // namespace treecast
