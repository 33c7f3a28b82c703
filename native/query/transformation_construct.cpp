// Direct constructors: tags, attributes and text as in XML, with {expressions} inside (XQuery 3.9.1).
//
// White space between tags and braces is not part of the result, unless it is written as a character reference or CDATA.
// The xmlns attributes of a start tag hold in the whole element, for names in paths and for names of constructors.
#include "document/characters.hpp"
#include "query/transformation_parser.hpp"

#include <charconv>
#include <utility>

namespace treecast {

namespace {

constexpr std::string_view xml_namespace = "http://www.w3.org/XML/1998/namespace";
constexpr std::string_view xmlns_namespace = "http://www.w3.org/2000/xmlns/";
constexpr uint32_t name_bytes_max = 1024;         // documents have no longer ones by default
constexpr const char* closed_prefix = "\x01";     // no name has it: the binding of a constructor that has ended

}  // namespace

// The byte after '<' says which kind it is.
uint32_t TransformationParser::read_constructor() {
    if (scan_.peek(1) == '!') return read_comment();
    if (scan_.peek(1) == '?') return read_instruction();
    return read_element();
}

// Bindings of this element end with it, but their numbers stay in use: URIs are stored by number.
uint32_t TransformationParser::read_element() {
    uint32_t begin = scan_.at++;
    Shape element;
    element.kind = ShapeKind::element;
    size_t bindings = scope_.size();
    bool default_bound = default_bound_;
    Slice default_uri = default_uri_;
    Slice name = read_qname("a name: a constructor begins with <name");
    read_attributes(element, name);
    if (scan_.peek() == '/') {
        ++scan_.at;
        if (scan_.peek() != '>') refuse("TC114", "the tag does not end", {scan_.at - 1, 1}, "write '/>', without a space");
        ++scan_.at;
    } else {
        ++scan_.at;
        read_content(element, name);
    }
    for (size_t i = bindings; i < scope_.size(); ++i) scope_[i].first = closed_prefix;
    default_bound_ = default_bound;
    default_uri_ = default_uri;
    return add_shape(element, since(begin));
}

// Reads prefix:local or local, without spaces, and returns both as one Slice.
Slice TransformationParser::read_qname(const char* what) {
    uint32_t begin = scan_.at;
    Slice first = scan_.name();
    if (!first.size) refuse_here(what);
    if (scan_.peek() == ':') {
        ++scan_.at;
        if (!scan_.name().size) refuse_here("a name after the prefix");
    }
    if (scan_.at - begin > name_bytes_max)
        refuse_limit("TC327", "bytes in a name", "name_bytes_max", name_bytes_max, since(begin));
    return since(begin);
}

// Expands a name. An unprefixed attribute has no namespace, whatever the default is.
Name TransformationParser::resolve(Slice qname, bool attribute) {
    std::string_view text = scan_.view(qname);
    size_t colon = text.find(':');
    Name name;
    if (colon == std::string_view::npos) {
        name.local = keep(text);
        if (!attribute && default_bound_)
            name.uri = keep({query_.uris_.data() + default_uri_.begin, default_uri_.size});
        return name;
    }
    Slice prefix{qname.begin, static_cast<uint32_t>(colon)};
    if (scan_.view(prefix) == "xmlns") refuse("TC114", "no name can have the prefix xmlns", qname, "use another prefix");
    Slice uri = bind(scan_.view(prefix), prefix);
    name.prefix = keep(scan_.view(prefix));
    name.local = keep(text.substr(colon + 1));
    name.uri = keep(std::string(query_.uris_.data() + uri.begin, uri.size));
    return name;
}

// Reads the rest of a start tag, up to '>' or '/'.
// Names are resolved at the end, because a declaration may come after the attribute that uses it.
void TransformationParser::read_attributes(Shape& element, Slice name) {
    std::vector<uint32_t> attributes;
    std::vector<Slice> names;
    bool enclosed = false;
    scan_.comments = false;                                        // in tags there are none
    while (true) {
        uint32_t before = scan_.at;
        scan_.skip_space();
        char c = scan_.peek();
        if (c == '>' || c == '/') break;
        if (before == scan_.at) refuse_here("white space, '>' or '/>'", "<a b=\"c\">…</a>");
        Slice attribute = read_qname("an attribute, '>' or '/>'");
        scan_.skip_space();
        if (scan_.peek() != '=') refuse_here("'='", "write name=\"…\"");
        ++scan_.at;
        scan_.skip_space();
        char quote = scan_.peek();
        if (quote != '"' && quote != '\'') refuse_here("a value in quotes", "write name=\"{…}\"");
        std::string_view spelt = scan_.view(attribute);
        // An expression that was read before this declaration would have missed it, hence the refusal.
        if (spelt == "xmlns" || spelt.starts_with("xmlns:")) {
            if (enclosed)
                refuse("TC114", "namespaces are declared before they are used", attribute,
                       "put xmlns attributes first in the start tag");
            Slice value;
            if (!scan_.literal(value))
                refuse("TC114", "the value is not closed", {attribute.begin, scan_.size() - attribute.begin}, "end it with its quote");
            read_declaration(attribute, value, element);
            continue;
        }
        Shape shape;
        shape.kind = ShapeKind::attribute;
        ++scan_.at;
        shape.first = read_attribute_parts(quote, enclosed);
        attributes.push_back(add_shape(shape, since(attribute.begin)));
        names.push_back(attribute);
    }
    scan_.comments = true;
    element.name = resolve(name, false);
    uint32_t last = no_entry;
    for (size_t i = 0; i < attributes.size(); ++i) {
        Name resolved = resolve(names[i], true);
        // Compares expanded names: two prefixes may stand for the same namespace.
        for (size_t j = 0; j < i; ++j) {
            const Name& other = out_.shapes_[attributes[j]].name;
            if (out_.view(other.local) == out_.view(resolved.local) && out_.view(other.uri) == out_.view(resolved.uri))
                refuse("TC114", "the attribute " + shown(names[i]) + " is written twice", names[i], "leave one out");
        }
        out_.shapes_[attributes[i]].name = resolved;
        chain(element.other, last, attributes[i]);
    }
}

// The value is a URI as written, with references decoded. Expressions would make names depend on the document.
void TransformationParser::read_declaration(Slice name, Slice value, Shape& element) {
    std::string_view spelt = scan_.view(name), prefix = spelt == "xmlns" ? std::string_view() : spelt.substr(6);
    auto begin = static_cast<uint32_t>(out_.texts_.size());
    uint32_t after = scan_.at;
    for (scan_.at = value.begin; scan_.at < value.end();) {
        char c = scan_.peek();
        if (c == '<' || c == '{' || c == '}')
            refuse("TC114", "a namespace is written down, not computed", {scan_.at, 1}, "write the URI itself");
        if (c == '&') {
            read_reference();
            continue;
        }
        read_character();
        if (is_space(c)) out_.texts_.back() = ' ';
    }
    scan_.at = after;
    Declared declared;
    declared.uri = keep_since(begin);
    declared.prefix = keep(prefix);
    std::string uri(out_.view(declared.uri));
    if (prefix == "xmlns" || uri == xmlns_namespace || (prefix == "xml") != (uri == xml_namespace) || (!prefix.empty() && uri.empty()))
        refuse("TC114", "this namespace cannot be bound to this prefix", name,
               uri.empty() ? "only the default namespace can be taken back, with xmlns=\"\"" : "use another prefix");
    for (uint32_t at = element.declarations; at != no_entry; at = out_.declared_[at].next)
        if (out_.view(out_.declared_[at].prefix) == prefix)
            refuse("TC114", "the prefix is declared twice", name, "leave one out");
    scope_.emplace_back(std::string(prefix), uri);
    if (prefix.empty()) {
        default_bound_ = !uri.empty();
        default_uri_ = store_uri(scope_.size() - 1, uri);
    }
    // Linked in the order in which they were written.
    out_.declared_.push_back(declared);
    auto index = static_cast<uint32_t>(out_.declared_.size() - 1);
    if (element.declarations == no_entry) {
        element.declarations = index;
        return;
    }
    uint32_t last = element.declarations;
    while (out_.declared_[last].next != no_entry) last = out_.declared_[last].next;
    out_.declared_[last].next = index;
}

// Reads characters and {…} up to the quote, which is consumed. Returns the first part.
uint32_t TransformationParser::read_attribute_parts(char quote, bool& enclosed) {
    uint32_t opened = scan_.at - 1, first = no_entry, last = no_entry;
    auto begin = static_cast<uint32_t>(out_.texts_.size());
    uint32_t source = scan_.at;
    auto end_part = [&] {
        Shape text;
        text.kind = ShapeKind::text;
        text.text = keep_since(begin);
        if (text.text.size) chain(first, last, add_shape(text, since(source)));
    };
    while (true) {
        if (scan_.ended())
            refuse("TC114", "the value is not closed", {opened, scan_.size() - opened}, std::string("end it with ") + quote);
        char c = scan_.peek(), next = scan_.peek(1);
        if (c == quote && next != quote) break;
        if (c == '<') refuse("TC114", "'<' cannot stand in an attribute", {scan_.at, 1}, "write &lt;");
        if (c == '&') {
            read_reference();
        } else if (c == '{' && next != '{') {
            end_part();
            enclosed = true;
            uint32_t made = read_enclosed();
            check_values(made);
            chain(first, last, made);
            begin = static_cast<uint32_t>(out_.texts_.size());
            source = scan_.at;
        } else if (c == '}' && next != '}') {
            refuse("TC114", "nothing is open that '}' could close", {scan_.at, 1}, "write }} for the character");
        } else {
            if (c == quote || c == '{' || c == '}') ++scan_.at;     // doubled: one of them
            read_character();
            // XML normalizes white space in attributes to spaces.
            if (is_space(c)) out_.texts_.back() = ' ';
        }
    }
    end_part();
    ++scan_.at;
    return first;
}

// Reads everything up to the end tag, which is consumed.
// A text counts as blank until a visible character, a reference or CDATA occurs in it.
void TransformationParser::read_content(Shape& element, Slice name) {
    uint32_t last = no_entry;
    Space space{static_cast<uint32_t>(out_.texts_.size()), true, {scan_.at, 0}};
    while (true) {
        if (scan_.ended())
            refuse("TC114", "<" + shown(name) + "> is not closed", name, "end it with </" + shown(name) + ">");
        char c = scan_.peek(), next = scan_.peek(1);
        if (c == '<' && next == '!' && scan_.peek(2) == '[') {
            space.blank = false;
            read_cdata();
        } else if (c == '<' && next == '/') {
            end_text(space, element.first, last);
            break;
        } else if (c == '<' || (c == '{' && next != '{')) {
            end_text(space, element.first, last);
            chain(element.first, last, c == '<' ? read_single() : read_enclosed());
            space = {static_cast<uint32_t>(out_.texts_.size()), true, {scan_.at, 0}};
        } else if (c == '&') {
            space.blank = false;
            read_reference();
        } else if (c == '}' && next != '}') {
            refuse("TC114", "nothing is open that '}' could close", {scan_.at, 1}, "write }} for the character");
        } else {
            if (c == '{' || c == '}') ++scan_.at;
            space.blank = space.blank && is_space(c);
            read_character();
        }
    }
    uint32_t begin = scan_.at;
    scan_.at += 2;
    Slice closing = read_qname("a name");
    if (scan_.view(closing) != scan_.view(name))
        refuse("TC114", "</" + shown(closing) + "> ends <" + shown(name) + ">", since(begin), "write </" + shown(name) + ">");
    while (is_space(scan_.peek())) ++scan_.at;
    if (scan_.peek() != '>') refuse_here("'>'", "write </" + shown(name) + ">");
    ++scan_.at;
}

// Ends a text. One that is only literal white space is layout, so it is dropped.
void TransformationParser::end_text(const Space& space, uint32_t& first, uint32_t& last) {
    Shape text;
    text.kind = ShapeKind::text;
    text.text = keep_since(space.begin);
    if (text.text.size && !space.blank) chain(first, last, add_shape(text, since(space.source.begin)));
}

// Reads {…}. Comments are allowed inside, wherever the braces are.
uint32_t TransformationParser::read_enclosed() {
    uint32_t begin = scan_.at++;
    Nesting nesting(*this, begin);
    bool comments = std::exchange(scan_.comments, true);
    Shape shape;
    shape.kind = ShapeKind::enclosed;
    scan_.skip_space();
    if (scan_.peek() != '}') shape.first = read_expression();
    scan_.skip_space();
    if (scan_.peek() != '}') check_end("'}'");
    ++scan_.at;
    scan_.comments = comments;
    return add_shape(shape, since(begin));
}

// Reads attribute name {…}; the word has been read.
uint32_t TransformationParser::read_computed_attribute(uint32_t begin) {
    if (scan_.peek() == '{')
        refuse("TC116", "the name of an attribute is written down, not computed", {scan_.at, 1}, "write attribute name {…}");
    Slice name = read_qname("a name");
    if (scan_.view(name) == "xmlns")
        refuse("TC114", "xmlns is no attribute", name, "declare namespaces in a direct constructor: <a xmlns=\"…\">");
    Shape shape;
    shape.kind = ShapeKind::attribute;
    shape.name = resolve(name, true);
    scan_.skip_space();
    if (scan_.peek() != '{') refuse_here("'{'", "write attribute name {…}");
    shape.first = read_enclosed();
    check_values(shape.first);
    return add_shape(shape, since(begin));
}

// An attribute may hold values and items, but nothing that was built.
void TransformationParser::check_values(uint32_t index) {
    const Shape& shape = out_.shapes_[index];
    bool built = shape.kind == ShapeKind::element || shape.kind == ShapeKind::attribute || shape.kind == ShapeKind::comment ||
                 shape.kind == ShapeKind::instruction;
    if (built) refuse("TC116", "an attribute holds values, not something built", shape.source, "write the value itself: {$n/a}");
    for (uint32_t child : {shape.first, shape.other})
        for (uint32_t at = child; at != no_entry; at = out_.shapes_[at].next) check_values(at);
}

// XML forbids two hyphens inside a comment, so the result could not be read.
uint32_t TransformationParser::read_comment() {
    uint32_t begin = scan_.at;
    std::string_view rest = scan_.view(begin, scan_.size());
    if (!rest.starts_with("<!--")) refuse_here("a constructor, or <!--");
    size_t end = rest.find("--", 4);
    if (end == std::string_view::npos)
        refuse("TC114", "the comment is not closed", {begin, static_cast<uint32_t>(rest.size())}, "end it with -->");
    if (!rest.substr(end).starts_with("-->"))
        refuse("TC114", "a comment cannot hold '--'", {begin + static_cast<uint32_t>(end), 2}, "write one '-'");
    Shape shape;
    shape.kind = ShapeKind::comment;
    shape.text = keep(rest.substr(4, end - 4));
    scan_.at = begin + static_cast<uint32_t>(end) + 3;
    return add_shape(shape, since(begin));
}

// The target and the text are kept together, as they will be written.
uint32_t TransformationParser::read_instruction() {
    uint32_t begin = scan_.at;
    scan_.at += 2;
    Slice target = scan_.name();
    if (!target.size) refuse_here("the target of a processing instruction", "write <?target text?>");
    std::string_view word = scan_.view(target);
    bool xml = word.size() == 3 && (word[0] | 32) == 'x' && (word[1] | 32) == 'm' && (word[2] | 32) == 'l';
    bool ends = scan_.peek() == '?' && scan_.peek(1) == '>';
    if (xml || (!ends && !is_space(scan_.peek())))
        refuse("TC114", "this is no processing instruction", since(begin),
               xml ? "a payload has no XML declaration: leave it out" : "write <?target text?>");
    std::string_view rest = scan_.view(begin, scan_.size());
    size_t end = rest.find("?>", 2);
    if (end == std::string_view::npos)
        refuse("TC114", "the processing instruction is not closed", {begin, static_cast<uint32_t>(rest.size())}, "end it with ?>");
    Shape shape;
    shape.kind = ShapeKind::instruction;
    shape.text = keep(rest.substr(2, end - 2));
    scan_.at = begin + static_cast<uint32_t>(end) + 2;
    return add_shape(shape, since(begin));
}

// Moves the next byte into texts_. Line ends become one character, as in XML.
void TransformationParser::read_character() {
    char c = scan_.peek();
    if (c == '\r' && scan_.peek(1) == '\n') ++scan_.at;
    out_.texts_.push_back(c == '\r' ? '\n' : c);
    ++scan_.at;
}

// Decodes &lt; and the like, or a character by its number, into texts_.
void TransformationParser::read_reference() {
    uint32_t begin = scan_.at;
    std::string_view rest = scan_.view(begin, std::min(scan_.size(), begin + 16));
    size_t end = rest.find(';');
    Slice where{begin, static_cast<uint32_t>(end == std::string_view::npos ? 1 : end + 1)};
    std::string_view name = end == std::string_view::npos ? std::string_view() : rest.substr(1, end - 1);
    static constexpr std::pair<std::string_view, char> known[] = {{"lt", '<'}, {"gt", '>'}, {"amp", '&'}, {"quot", '"'}, {"apos", '\''}};
    for (const auto& [spelt, character] : known) {
        if (name != spelt) continue;
        out_.texts_.push_back(character);
        scan_.at = where.end();
        return;
    }
    if (name.size() > 1 && name[0] == '#') {
        bool hex = name[1] == 'x';
        std::string_view digits = name.substr(hex ? 2 : 1);
        uint32_t code = 0;
        auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, hex ? 16 : 10);
        if (error == std::errc() && stop == digits.data() + digits.size() && is_xml_char(code)) {
            char encoded[4];
            out_.texts_.insert(out_.texts_.end(), encoded, encoded + encode_utf8(code, encoded));
            scan_.at = where.end();
            return;
        }
    }
    refuse("TC114", "this reference is not known", where, "write &amp; for '&', or the character itself");
}

// CDATA is only another spelling of characters: braces and references mean nothing inside.
void TransformationParser::read_cdata() {
    uint32_t begin = scan_.at;
    std::string_view rest = scan_.view(begin, scan_.size());
    size_t end = rest.find("]]>");
    if (!rest.starts_with("<![CDATA[") || end == std::string_view::npos)
        refuse("TC114", "the CDATA section is not well formed", {begin, static_cast<uint32_t>(std::min<size_t>(rest.size(), 9))},
               "write <![CDATA[…]]>");
    for (scan_.at += 9; scan_.at < begin + end;) read_character();
    scan_.at += 3;
}

}  // namespace treecast
