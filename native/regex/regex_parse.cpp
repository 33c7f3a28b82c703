// Reads a regular expression into its tree, and words the refusals.
//
// Grammar: XML Schema, part 2, appendix F, with what XPath and XQuery Functions and Operators 3.1, section 5.6.1, adds: ^ and $, lazy
// repetition and groups (?:…). We differ: back-references and the blocks \p{Is…} are refused, and a hyphen inside a class is
// escaped or stands first or last.
#include "document/characters.hpp"
#include "regex/regex_tree.hpp"

#include <algorithm>
#include <utility>

namespace treecast {

namespace {

constexpr std::string_view plain_escapes = "\\|.?*+(){}-[]^$";
constexpr std::string_view class_escapes = "sSiIcCdDwW";

constexpr std::pair<char, const char*> escape_advice[] = {
    {'b', "there are no word boundaries: write (^|\\W) or (\\W|$)"},
    {'B', "there are no word boundaries"},
    {'A', "write ^"},
    {'Z', "write $"},
    {'z', "write $"},
    {'x', "write the character itself"},
    {'u', "write the character itself"},
    {'h', "write [ \\t]"},
    {'v', "write [\\n\\r]"},
    {'f', "XML has no such character"},
    {'0', "XML has no such character"},
};

constexpr CharacterRange name_start_ranges[] = {
    {':', ':'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}, {0xC0, 0xD6}, {0xD8, 0xF6}, {0xF8, 0x2FF}, {0x370, 0x37D}, {0x37F, 0x1FFF},
    {0x200C, 0x200D}, {0x2070, 0x218F}, {0x2C00, 0x2FEF}, {0x3001, 0xD7FF}, {0xF900, 0xFDCF}, {0xFDF0, 0xFFFD}, {0x10000, 0xEFFFF}};
constexpr CharacterRange more_name_ranges[] = {{'-', '.'}, {'0', '9'}, {0xB7, 0xB7}, {0x300, 0x36F}, {0x203F, 0x2040}};

// The class of an escape; a capital letter means the opposite.
CharacterSet escaped_class(char letter) {
    std::vector<CharacterRange> ranges;
    CharacterSet set;
    switch (letter | 0x20) {
        case 's': ranges = {{' ', ' '}, {'\t', '\n'}, {'\r', '\r'}}; break;
        case 'c': ranges.assign(std::begin(more_name_ranges), std::end(more_name_ranges)); [[fallthrough]];
        case 'i': ranges.insert(ranges.end(), std::begin(name_start_ranges), std::end(name_start_ranges)); break;
        case 'd': set = CharacterSet::of_kinds(kinds_called("Nd")); break;
        default: set = CharacterSet::of_kinds(all_kinds & ~(kinds_called("P") | kinds_called("Z") | kinds_called("C")));
    }
    if (!ranges.empty()) set = CharacterSet::of_ranges(ranges);
    if (!(letter & 0x20)) set.invert();
    return set;
}

class RegexParser {
public:
    RegexParser(std::string_view text, const RegexFlags& flags) : text_(text), flags_(flags) { tree_.multiline = flags.lines; }

    RegexTree parse() {
        tree_.root = read_branches();
        if (at_ < text_.size()) refuse("')' closes nothing", 1, "write \\) for the character");
        return std::move(tree_);
    }

private:
    [[noreturn]] void refuse(std::string message, size_t size, std::string hint) const { refuse_at(at_, std::move(message), size, std::move(hint)); }
    [[noreturn]] void refuse_at(size_t at, std::string message, size_t size, std::string hint) const {
        Failure failure(Family::query, "TC120", std::move(message), at);
        failure.length = std::min(size, text_.size() - at);
        failure.hint = std::move(hint);
        throw failure;
    }

    // With the flag x, white space outside classes means nothing.
    void skip_space() {
        if (flags_.spaced && !in_class_)
            while (at_ < text_.size() && is_space(text_[at_])) ++at_;
    }
    bool ended() { return skip_space(), at_ >= text_.size(); }
    char peek() { return ended() ? '\0' : text_[at_]; }
    bool take(char c) {
        if (ended() || text_[at_] != c) return false;
        ++at_;
        return true;
    }
    uint32_t take_character() {
        Decoded decoded = decode_utf8(text_.data() + at_, text_.data() + text_.size());
        at_ += std::max(decoded.length, 1u);
        return decoded.character;
    }

    uint32_t add(const RegexNode& node) {
        tree_.nodes.push_back(node);
        return static_cast<uint32_t>(tree_.nodes.size() - 1);
    }
    uint32_t add_list(RegexPart part, const std::vector<uint32_t>& children) {
        if (children.size() == 1) return children[0];
        RegexNode list;
        list.part = part;
        if (!children.empty()) list.first = children[0];
        for (size_t i = 1; i < children.size(); ++i) tree_.nodes[children[i - 1]].next = children[i];
        return add(list);
    }
    // An empty group. There may be many of them, so nobody sees them after this.
    bool is_nothing(uint32_t index) const { return tree_.nodes[index].part == RegexPart::sequence && tree_.nodes[index].first == no_part; }
    uint32_t add_set(CharacterSet set) {
        RegexNode node;
        node.part = RegexPart::characters;
        node.set = static_cast<uint32_t>(tree_.sets.size());
        tree_.sets.push_back(std::move(set));
        return add(node);
    }
    uint32_t add_character(uint32_t character) {
        std::vector<CharacterRange> ranges{{character, character}};
        if (flags_.any_case) append_variants(ranges[0], ranges);
        return add_set(CharacterSet::of_ranges(ranges));
    }

    uint32_t read_branches() {
        std::vector<uint32_t> branches{read_sequence()};
        while (take('|')) branches.push_back(read_sequence());
        return add_list(RegexPart::branches, branches);
    }

    uint32_t read_sequence() {
        std::vector<uint32_t> pieces;
        while (!ended() && peek() != '|' && peek() != ')') {
            uint32_t piece = read_repetition(read_atom());
            if (!is_nothing(piece)) pieces.push_back(piece);
        }
        return add_list(RegexPart::sequence, pieces);
    }

    uint32_t read_repetition(uint32_t atom) {
        RegexNode node;
        node.part = RegexPart::repetition;
        node.first = atom;
        node.most = unlimited;
        if (take('?')) node.most = 1;
        else if (take('+')) node.least = 1;
        else if (take('{')) read_bounds(node);
        else if (!take('*')) return atom;
        take('?');                             // lazy or not, the same values match
        return is_nothing(atom) ? atom : add(node);
    }

    void read_bounds(RegexNode& node) {
        const size_t begin = at_ - 1;
        node.least = node.most = read_number();
        if (take(',')) node.most = peek() == '}' ? unlimited : read_number();
        if (!take('}')) refuse("expected '}'", 1, "repetitions are written {2}, {2,} or {2,5}");
        if (node.least > node.most) refuse_at(begin, "the second number is less than the first", at_ - begin, "swap them");
    }

    uint32_t read_number() {
        if (!is_digit(peek())) refuse("expected a number", 1, "repetitions are written {2}, {2,} or {2,5}");
        uint64_t number = 0;
        for (; is_digit(peek()); ++at_) number = std::min<uint64_t>(number * 10 + static_cast<uint64_t>(text_[at_] - '0'), unlimited - 1);
        return static_cast<uint32_t>(number);
    }

    uint32_t read_atom() {
        const char c = peek();
        RegexNode node;
        switch (c) {
            case '(': return read_group();
            case '[': return add_set(read_class());
            case '.': {
                ++at_;
                std::vector<CharacterRange> lines{{'\n', '\n'}, {'\r', '\r'}};
                CharacterSet any = flags_.any_character ? CharacterSet() : CharacterSet::of_ranges(lines);
                any.invert();
                return add_set(std::move(any));
            }
            case '^':
            case '$':
                ++at_;
                node.part = c == '^' ? RegexPart::begin : RegexPart::end;
                return add(node);
            case '\\': {
                CharacterSet set;
                uint32_t character;
                return read_escape(character, set) ? add_character(character) : add_set(std::move(set));
            }
            case '?':
            case '*':
            case '+':
            case '{': refuse(std::string("there is nothing before '") + c + "' to repeat", 1, std::string("write \\") + c + " for the character");
            case ']':
            case '}': refuse(std::string("'") + c + "' closes nothing", 1, std::string("write \\") + c + " for the character");
            default: return add_character(take_character());
        }
    }

    uint32_t read_group() {
        const size_t begin = at_++;
        if (++depth_ > regex_limits.depth_max) {
            Failure failure(Family::query, "TC334",
                            "more than " + std::to_string(regex_limits.depth_max) + " groups inside each other, the limit (depth_max)", begin);
            failure.limit = true;
            failure.length = 1;
            failure.hint = "leave out groups that are not repeated";
            throw failure;
        }
        if (take('?')) {
            if (!take(':')) refuse_at(begin, "only groups (…) and (?:…) are part of the language", 3,
                                      "XPath has no look-around; flags are the third argument: matches(x, \"…\", \"i\")");
        }
        uint32_t inside = read_branches();
        if (!take(')')) refuse_at(begin, "the group is not closed", 1, "end it with ), or write \\( for the character");
        --depth_;
        return inside;
    }

    // What follows a backslash: true with a character, false with a set.
    bool read_escape(uint32_t& character, CharacterSet& set) {
        const size_t begin = at_++;
        if (ended()) refuse_at(begin, "the backslash stands before nothing", 1, "write \\\\ for a backslash");
        const char c = text_[at_];
        if (c == 'n' || c == 'r' || c == 't') {
            ++at_;
            character = c == 'n' ? '\n' : c == 'r' ? '\r' : '\t';
            return true;
        }
        if (plain_escapes.find(c) != std::string_view::npos) {
            ++at_;
            character = static_cast<unsigned char>(c);
            return true;
        }
        if (class_escapes.find(c) != std::string_view::npos) {
            ++at_;
            set = escaped_class(c);
            return false;
        }
        if (c == 'p' || c == 'P') {
            set = read_category(begin);
            if (c == 'P') set.invert();
            return false;
        }
        const size_t size = 1 + decode_utf8(text_.data() + at_, text_.data() + text_.size()).length;
        const std::string written(text_.substr(begin, size));
        if (c >= '1' && c <= '9') refuse_at(begin, "the back-reference " + written + " is not part of the language", size,
                                            "what it matches cannot be found in linear time");
        auto known = std::ranges::find(escape_advice, c, &std::pair<char, const char*>::first);
        refuse_at(begin, "there is no escape " + written, size, known == std::end(escape_advice) ? "" : known->second);
    }

    CharacterSet read_category(size_t begin) {
        ++at_;
        size_t open = at_, close = text_.find('}', at_);
        if (peek() != '{' || close == std::string_view::npos) refuse_at(begin, "a category stands in braces", 2, "as in \\p{L} or \\p{Lu}");
        std::string_view name = text_.substr(open + 1, close - open - 1);
        uint32_t kinds = kinds_called(name);
        if (!kinds) refuse_at(begin, "there is no category \\p{" + std::string(name.substr(0, 40)) + "}", close + 1 - begin,
                              name.starts_with("Is") ? "blocks are not part of the language: write their first and last character, as in [α-ω]"
                                                     : "categories are L, Lu, Ll, N, Nd, P, S, Z, C and so on");
        at_ = close + 1;
        return CharacterSet::of_kinds(kinds);
    }

    // [abc], [^a-z], [\w-[x]]
    CharacterSet read_class() {
        const size_t begin = at_++;
        const bool outer = in_class_;
        in_class_ = true;
        if (++depth_ > regex_limits.depth_max) refuse_at(begin, "too many classes inside each other", 1, "write fewer subtractions");
        const bool negative = take('^');
        std::vector<CharacterRange> ranges;
        CharacterSet set, without;
        bool is_first = true, ends = false;
        while (!ends) {
            if (ended()) refuse_at(begin, "the class is not closed", 1, "end it with ], or write \\[ for the character");
            if (peek() == ']' && !is_first) break;
            ends = read_class_item(begin, is_first, ranges, set, without);
            is_first = false;
        }
        if (!take(']')) refuse("a subtraction ends the class", 1, "as in [a-z-[aeiou]]");
        for (size_t i = 0, written = ranges.size(); flags_.any_case && i < written; ++i) append_variants(ranges[i], ranges);
        set.add(CharacterSet::of_ranges(ranges));
        if (negative) set.invert();
        set.subtract(without);
        --depth_;
        in_class_ = outer;
        return set;
    }

    // Returns whether it was a subtraction, after which the class ends.
    bool read_class_item(size_t begin, bool is_first, std::vector<CharacterRange>& ranges, CharacterSet& set, CharacterSet& without) {
        constexpr const char* hyphen_hint = "a hyphen stands first or last in a class, or is written \\-";
        const char c = peek();
        const char after = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
        if (c == ']') refuse_at(begin, "the class is empty", 2, "write \\] for the character");
        if (c == '[') refuse("'[' in a class is escaped", 1, "write \\[");
        if (c == '-' && after == '[') {
            if (is_first) refuse("a class subtracts from nothing", 2, "as in [a-z-[aeiou]]");
            ++at_;
            without = read_class();
            return true;
        }
        if (c == '-' && !is_first && after != ']') refuse("this hyphen makes no range", 1, hyphen_hint);
        uint32_t first = '-';
        if (c == '\\') {
            CharacterSet part;
            if (!read_escape(first, part)) {
                set.add(part);
                return false;
            }
        } else {
            first = take_character();
        }
        uint32_t last = first;
        const bool range = at_ + 1 < text_.size() && text_[at_] == '-' && text_[at_ + 1] != ']' && text_[at_ + 1] != '[';
        if (range && c == '-') refuse("this hyphen makes no range", 1, hyphen_hint);
        if (range) {
            const size_t end = ++at_;
            CharacterSet part;
            if (text_[at_] == '-') refuse("this hyphen makes no range", 1, hyphen_hint);
            if (text_[at_] != '\\') last = take_character();
            else if (!read_escape(last, part)) refuse_at(end, "a range ends with one character", at_ - end, hyphen_hint);
            if (last < first) refuse_at(end, "the range ends before it begins", at_ - end, "swap its ends");
        }
        ranges.push_back({first, last});
        return false;
    }

    std::string_view text_;
    RegexFlags flags_;
    RegexTree tree_;
    size_t at_ = 0;
    uint32_t depth_ = 0;
    bool in_class_ = false;
};

}  // namespace

RegexTree parse_regex(std::string_view text, const RegexFlags& flags) { return RegexParser(text, flags).parse(); }

}  // namespace treecast
