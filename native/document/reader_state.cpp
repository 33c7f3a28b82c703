// The rare cases of reading: new names, references, CDATA, namespaces, failures.
//
// These functions are kept out of the pass, so that its hot loop stays small.
#include "document/reader_state.hpp"

#include "base/interrupt.hpp"

#include <algorithm>
#include <cstring>

namespace treecast {

namespace {
constexpr std::string_view xml_uri = "http://www.w3.org/XML/1998/namespace";
constexpr std::string_view xmlns_uri = "http://www.w3.org/2000/xmlns/";
constexpr size_t names_bytes_max = 8u << 20;      // past this the names start afresh with the next document
constexpr size_t buffer_bytes_max = 4u << 20;     // past this buffers are given back after a large document
constexpr size_t excerpt_bytes = 40;
constexpr size_t uris_always = 2;                 // "" and that of xml
}  // namespace

ReaderState::ReaderState(const Limits& limits_, std::shared_ptr<const Entities> entities_)
    : limits(limits_), entities(std::move(entities_)) {
    reset_names();
}

// Prefixes 0, 1 and 2 are always these three, so that the code may refer to them by number.
void ReaderState::reset_names() {
    names.reset();
    qnames.reset();
    prefix_uri.clear();
    prefixes.clear();
    prefix_slots.reset();
    prefix_names.reset();
    name_stamps.clear();
    prefix_uri = {unresolved, unresolved, unresolved};
    for (std::string_view prefix : {"", "xml", "xmlns"}) prefix_id(prefix);
    prefix_uri[0] = 0;
    prefix_uri[1] = names.intern_uri(xml_uri);
    prefix_uri[2] = unresolved;
}

// Names are kept from document to document: most documents bring no new ones. What strangers can make grow is limited.
void ReaderState::begin_document(bool forget_names) {
    document.clear();
    restore_bindings(0);
    declarations.clear();
    prefixed.clear();
    if (forget_names || has_too_many_names() || names.bytes() + qnames.bytes() > names_bytes_max) reset_names();
    if (buffer.capacity() > buffer_bytes_max) {
        document.release();
        buffer.release();
        strings.release();
        open.release();
        std::string().swap(transcoded);
        decltype(hidden)().swap(hidden);
    }
    document.names = &names;
    has_earlier_names = qnames.size() > 0;
    looked_at = nullptr;
}

// --- names

// The slow way to read a name, with all characters that XML allows. The pass itself handles the short ASCII ones.
const char* ReaderState::scan_name(const char* at, const char* what) {
    const char* begin = at;
    while (at < end) {
        auto byte = static_cast<unsigned char>(*at);
        if (byte < 0x80) {
            if (!character::is(*at, at == begin ? character::name_start : character::name)) break;
            ++at;
        } else {
            Decoded c = decode_utf8(at, end);
            if (!(at == begin ? is_name_start(c.character) : is_name_char(c.character))) break;
            at += c.length;
        }
    }
    if (at == begin) unexpected(at, what, *at == ' ' || *at == '<' || *at == '&' ? "write &lt; for a '<' in text" : "");
    if (static_cast<uint64_t>(at - begin) > limits.name_bytes_max)
        too_many("TC304", begin, "a name is longer than", "name_bytes_max", limits.name_bytes_max);
    return at;
}

// Namespaces in XML: at most one colon, and a name on each side.
void ReaderState::check_qname(std::string_view name, const char* at) {
    size_t colon = name.find(':');
    if (colon == std::string_view::npos) return;
    bool fits = colon > 0 && colon + 1 < name.size() && name.find(':', colon + 1) == std::string_view::npos;
    if (fits) fits = is_name_start(decode_utf8(name.data() + colon + 1, name.data() + name.size()).character);
    if (!fits)
        fail("TC207", at, "the name " + shown(name.data(), name.data() + name.size()) + " is no prefix and local name",
             "use at most one colon, between two names");
}

bool ReaderState::has_too_many_names() const {
    return std::max({qnames.size(), names.size(), names.uris() - uris_always}) > limits.names_max;
}

// To be called after everything that may add a name or a namespace. Whether a document is refused must not depend on what this
// Reader has read before.
void ReaderState::check_names(const char* at) {
    if (!has_too_many_names()) return;
    if (has_earlier_names) throw NamesFull{};
    too_many("TC309", at, "the document has more distinct names than", "names_max", limits.names_max);
}

// Called by the pass now and then, so that a huge document can be interrupted without a check for each element.
void ReaderState::pause() {
    constexpr uint64_t nanoseconds_per_element = 100;
    Interrupt::check(elements_per_pause * nanoseconds_per_element);
}

// A name that occurs for the first time. Its meaning depends on the prefixes in force, so that is decided at each element.
QName* ReaderState::learn_name(const char* at, NamePlace place) {
    const char* stop = scan_name(at, place == NamePlace::element ? "expected an element name after '<'"
                                                                 : "expected an attribute name, '>' or '/>'");
    std::string_view name(at, static_cast<size_t>(stop - at));
    const uint64_t hash = QNames::hash(name);
    if (QName* known = qnames.find(name, hash)) return known;
    if (stop == end) unexpected(stop, "");         // cut short: not the name that was meant
    check_qname(name, at);
    size_t colon = name.find(':');
    uint32_t prefix = colon == std::string_view::npos ? 0 : prefix_id(name.substr(0, colon));
    uint32_t declared = none;
    if (name == "xmlns") declared = 0;
    else if (prefix == 2) declared = prefix_id(name.substr(colon + 1));
    look_ahead(stop);
    QName& entry = qnames.add(name, hash);
    entry.prefix = prefix;
    entry.element_uri = unresolved;
    entry.attribute_uri = declared == none ? unresolved : declaration;
    entry.attribute_id = declared;
    check_names(at);
    return &entry;
}

// PERF: bench/growth.py, distinct names. Looking into tables that are larger than the caches is waiting for memory. A document that
// has brought many names goes on with new ones, so their slots are asked for before they are looked at. A wrong guess changes nothing.
void ReaderState::look_ahead(const char* at) {
    constexpr size_t names_min = 1u << 13;         // fewer are in the caches anyway
    constexpr ptrdiff_t bytes_ahead = 128;
    if (qnames.size() < names_min) return;
    if (!looked_at || looked_at < at) looked_at = at;
    for (const char* stop = end - at < bytes_ahead ? end : at + bytes_ahead; looked_at < stop; ++looked_at) {
        if (*looked_at != '<' && *looked_at != ' ') continue;
        const char* name = looked_at + 1;
        uint32_t length = 0;
        while (length < short_name_bytes && character::is(name[length], character::name)) ++length;
        if (!length || length == short_name_bytes) continue;
        qnames.prefetch(hash_short_name(hash_seeds(), name, length));
        std::string_view whole(name, length), prefix = whole.substr(0, whole.find(':'));
        if (prefix.size() == length) names.prefetch(prefix_uri[0], whole);
        else prefix_slots.prefetch(hash_bytes(prefix == "xmlns" ? whole.substr(prefix.size() + 1) : prefix));
    }
}

// Known names are found at once. A new one is examined as if it stood in a document of its own.
QName* ReaderState::name_of_text(std::string_view name) {
    if (name.size() > limits.name_bytes_max)
        too_many("TC304", base, "a name is longer than", "name_bytes_max", limits.name_bytes_max);
    if (QName* known = qnames.find(name, QNames::hash(name))) return known;
    std::string alone(name);
    alone += '>';
    struct Elsewhere {                             // until the end of the block, whatever is thrown
        ReaderState& state;
        const char *base = state.base, *end = state.end;
        ~Elsewhere() { state.base = base, state.end = end; }
    } elsewhere{*this};
    base = alone.data();
    end = base + alone.size();
    QName* learnt = learn_name(base, NamePlace::element);
    return learnt->length == name.size() ? learnt : nullptr;
}

uint32_t ReaderState::prefix_id(std::string_view prefix) {
    uint64_t hash = hash_bytes(prefix);
    uint32_t id = prefix_slots.find(hash, [&](uint32_t other) { return prefixes[other] == prefix; });
    if (id != IdSlots::empty) return id;
    id = static_cast<uint32_t>(prefixes.size());
    prefixes.push_back(prefix_names.keep(prefix));
    if (prefix_uri.size() <= id) prefix_uri.push_back(unresolved);
    prefix_slots.add(hash, id, [&](uint32_t earlier) { return hash_bytes(prefixes[earlier]); });
    return id;
}

// --- namespaces

namespace {
std::string_view local_part(std::string_view name) {
    size_t colon = name.find(':');
    return colon == std::string_view::npos ? name : name.substr(colon + 1);
}
}  // namespace

uint32_t ReaderState::plain_attribute(QName& name, const char* at) {
    name.attribute_uri = 0;
    name.attribute_id = names.intern(0u, name.text());
    check_names(at);
    return name.attribute_id;
}

// Declarations may come anywhere among the attributes, so prefixes are resolved when the whole tag has been read.
void ReaderState::attribute_met(QName& name, const char* at, Span value, uint32_t attribute) {
    if (name.attribute_uri == declaration) declarations.push_back({name.attribute_id, at, value});
    else prefixed.push_back({attribute, &name, at});
}

// A declaration hides what the prefix meant before; the end tag restores that.
void ReaderState::bind(const Declaration& declared, uint32_t element) {
    std::string_view uri = declared.value.in_decoded
                               ? document.value(declared.value)
                               : std::string_view(base + declared.value.begin, declared.value.end - declared.value.begin);
    std::string prefix(prefixes[declared.prefix].substr(0, excerpt_bytes));
    if (declared.prefix == 2) fail("TC207", declared.at, "the prefix xmlns must not be declared");
    if ((declared.prefix == 1) != (uri == xml_uri))
        fail("TC207", declared.at, declared.prefix == 1 ? "the prefix xml must keep its own namespace"
                                                        : "only the prefix xml may have the namespace of XML");
    if (uri == xmlns_uri) fail("TC207", declared.at, "nothing may be bound to the namespace of xmlns");
    if (uri.empty() && declared.prefix)
        fail("TC207", declared.at, "the prefix " + prefix + " is bound to an empty namespace",
             "only the default namespace can be taken back, with xmlns=\"\"");
    uint32_t id = names.intern_uri(uri);
    check_names(declared.at);
    // Kept on a stack until the element closes.
    hidden.push_back({declared.prefix, prefix_uri[declared.prefix]});
    prefix_uri[declared.prefix] = id;
    constexpr uint32_t before_prefix = 6;      // xmlns:
    document.declarations.push({element, static_cast<uint32_t>(declared.at - base) + (declared.prefix ? before_prefix : 0),
                                static_cast<uint32_t>(prefixes[declared.prefix].size()), id});
}

void ReaderState::resolve_attributes(uint32_t* attribute_names, uint32_t element) {
    for (const Declaration& declared : declarations) bind(declared, element);
    declarations.clear();
    for (const Prefixed& met : prefixed) {
        QName& name = *met.name;
        uint32_t uri = prefix_uri[name.prefix];
        // The same prefix mostly means the same as last time, and then nothing has to be looked up.
        if (name.attribute_uri != uri || uri == unresolved) {
            if (uri == unresolved)
                fail("TC207", met.at, "the prefix of " + shown(met.at, met.at + name.length) + " is not bound",
                     "declare it with xmlns:…=\"…\"");
            name.attribute_uri = uri;
            name.attribute_id = names.intern(uri, local_part(name.text()));
            check_names(met.at);
        }
        if (name_stamps.size() <= name.attribute_id) name_stamps.resize(names.size() + names.size() / 2);
        // Finds a duplicate name without comparing all with all: each tag has a stamp of its own.
        if (name_stamps[name.attribute_id] == stamp)
            fail("TC208", met.at, "the attribute " + shown(met.at, met.at + name.length) +
                                      " occurs twice, under two prefixes of one namespace");
        name_stamps[name.attribute_id] = stamp;
        attribute_names[met.attribute] = name.attribute_id;
    }
    prefixed.clear();
}

uint32_t ReaderState::element_name(QName& name, const char* at) {
    uint32_t uri = prefix_uri[name.prefix];
    if (uri == unresolved)
        fail("TC207", at, "the prefix of " + shown(at, at + name.length) + " is not bound",
             name.prefix == 2 ? "elements must not have the prefix xmlns" : "declare it with xmlns:…=\"…\"");
    name.element_uri = uri;
    name.element_id = names.intern(uri, local_part(name.text()));
    check_names(at);
    return name.element_id;
}

void ReaderState::restore_bindings(uint32_t scope) {
    for (; hidden.size() > scope; hidden.pop_back()) prefix_uri[hidden.back().prefix] = hidden.back().uri;
}

// --- parts of tags and text

// The rare forms: white space around the equals sign, or an error.
const char* ReaderState::equals_sign(const char* at) {
    while (is_space(*at)) ++at;
    if (*at != '=') unexpected(at, "expected '=' after an attribute name");
    do ++at;
    while (is_space(*at));
    if (*at != '"' && *at != '\'') unexpected(at, "expected a quoted attribute value", "put the value in quotes");
    return at;
}

// The rare forms of an end tag: white space before '>', a long name, or an error.
const char* ReaderState::end_tag(const char* at, uint32_t element, uint32_t name_length) {
    const char* wanted = base + document.start[element] + 1;
    const char* name = at + 2;
    const char* stop = scan_name(name, "expected a name in an end tag");
    if (stop == end) unexpected(stop, "");
    if (static_cast<uint32_t>(stop - name) != name_length || std::memcmp(name, wanted, name_length) != 0)
        fail("TC202", at, "the end tag </" + shown(name, stop) + "> does not match the start tag <" +
                              shown(wanted, wanted + name_length) + ">");
    while (is_space(*stop)) ++stop;
    if (*stop != '>') unexpected(stop, "expected '>' at the end of an end tag");
    return stop + 1;
}

// Decodes one reference. Replacement texts of entities are never parsed, so they cannot nest or explode.
const char* ReaderState::reference(const char* at, std::string& out, bool in_attribute) {
    const char* name = at + 1;
    if (*name == '#') {
        bool hex = name[1] == 'x';
        const char* digits = name + 1 + hex;
        const char* stop = digits;
        uint32_t c = 0;
        for (;; ++stop) {
            uint32_t digit = *stop >= '0' && *stop <= '9'   ? static_cast<uint32_t>(*stop - '0')
                             : hex && *stop >= 'a' && *stop <= 'f' ? static_cast<uint32_t>(*stop - 'a' + 10)
                             : hex && *stop >= 'A' && *stop <= 'F' ? static_cast<uint32_t>(*stop - 'A' + 10)
                                                                   : 99;
            if (digit == 99) break;
            // Saturates, so that a very long number cannot wrap around to a valid character.
            c = std::min(c * (hex ? 16 : 10) + digit, 0x110000u);
        }
        if (stop == digits || *stop != ';')
            unexpected(stop, "a character reference must look like &#60; or &#x3C;", "write &amp; for a literal '&'");
        if (!is_xml_char(c)) fail("TC203", at, "the reference " + shown(at, stop + 1) + " stands for no XML character");
        char encoded[4];
        out.append(encoded, encode_utf8(c, encoded));
        return stop + 1;
    }
    const char* stop = scan_name(name, "expected a name after '&'; write &amp; for a literal '&'");
    if (*stop != ';') unexpected(stop, "an entity reference must end with ';'", "write &amp; for a literal '&'");
    std::string_view entity(name, static_cast<size_t>(stop - name));
    static constexpr struct { std::string_view name; char value; } predefined[] = {
        {"lt", '<'}, {"gt", '>'}, {"amp", '&'}, {"apos", '\''}, {"quot", '"'}};
    for (auto& [known, value] : predefined) {
        if (entity != known) continue;
        out.push_back(value);
        return stop + 1;
    }
    auto given = entities ? entities->find(entity) : Entities::const_iterator{};
    if (!entities || given == entities->end())
        fail("TC206", at, "the entity " + shown(at, stop + 1) + " is not declared",
             "give its text with entities={…} or entities=\"html\", or write the character itself");
    if (out.size() + given->second.size() > std::max<uint64_t>(limits.document_bytes_max, 1u << 20))
        too_many("TC301", at, "entities make the document longer than", "document_bytes_max", limits.document_bytes_max);
    auto text_begin = static_cast<uint32_t>(out.size());
    for (char c : given->second) out.push_back(in_attribute && is_space(c) ? ' ' : c);
    document.references.push({static_cast<uint32_t>(at - base), static_cast<uint32_t>(stop + 1 - base), text_begin,
                              static_cast<uint32_t>(out.size()), in_attribute});
    return stop + 1;
}

// Line ends are normalized inside CDATA too; nothing else is.
const char* ReaderState::cdata(const char* at, TextBuilder& text) {
    at = expect(at, "<![CDATA[", "expected <![CDATA[");
    for (const char* from = at;;) {
        auto* bracket = static_cast<const char*>(std::memchr(at, ']', static_cast<size_t>(end - at)));
        if (!bracket) unexpected(end, "");
        if (bracket[1] != ']' || bracket[2] != '>') {
            at = bracket + 1;
            continue;
        }
        while (auto* cr = static_cast<const char*>(std::memchr(from, '\r', static_cast<size_t>(bracket - from)))) {
            text.add(from, cr);
            text.text().push_back('\n');
            from = cr + 1 + (cr[1] == '\n');
        }
        text.add(from, bracket);
        return bracket + 3;
    }
}

const char* ReaderState::skip_spaces(const char* at) const {
    while (is_space(*at)) ++at;
    return at;
}

const char* ReaderState::expect(const char* at, std::string_view text, const char* message) {
    for (size_t i = 0; i < text.size(); ++i)
        if (at[i] != text[i]) unexpected(at + i, message);
    return at + text.size();
}

// --- failures

std::string ReaderState::shown(const char* from, const char* to) const {
    size_t length = static_cast<size_t>(to - from);
    if (length <= excerpt_bytes) return {from, length};
    size_t cut = excerpt_bytes;
    while (cut && (static_cast<unsigned char>(from[cut]) & 0xC0) == 0x80) --cut;
    return std::string(from, cut) + "…";
}

void ReaderState::fail(const char* code, const char* at, std::string_view message, std::string_view hint) {
    Failure failure(Family::document, code, std::string(message), static_cast<uint64_t>(at - base));
    failure.hint = hint;
    throw failure;
}

// At the end of the text a mistake means that the document is incomplete, which has its own code.
void ReaderState::unexpected(const char* at, std::string_view message, std::string_view hint) {
    if (at >= end) fail("TC209", end, base == end ? "the document is empty" : "the document ends too soon");
    fail("TC201", at, message, hint);
}

void ReaderState::open_at_end(uint32_t element) {
    const char* name = base + document.start[element] + 1;
    const char* stop = name;
    while (stop < end && !is_space(*stop) && *stop != '>' && *stop != '/') ++stop;
    fail("TC209", end, "the document ends before the end tag of <" + shown(name, stop) + ">");
}

void ReaderState::too_many(const char* code, const char* at, const char* what, const char* limit, uint64_t value) {
    Failure failure(Family::document, code, std::string(what) + " " + std::to_string(value) + ", the limit " + limit,
                    static_cast<uint64_t>(at - base));
    failure.limit = true;
    failure.hint = std::string("raise it with treecast.Limits(") + limit + "=…)";
    throw failure;
}

void ReaderState::too_deep(const char* at) {
    too_many("TC302", at, "elements are nested deeper than", "depth_max", limits.depth_max);
}

void ReaderState::too_many_attributes(const char* at) {
    too_many("TC303", at, "an element has more attributes than", "attributes_max", limits.attributes_max);
}

void ReaderState::value_too_long(const char* at) {
    too_many("TC305", at, "an attribute value is longer than", "attribute_bytes_max", limits.attribute_bytes_max);
}

void ReaderState::attribute_twice(const QName& name, const char* at) {
    fail("TC208", at, "the attribute " + shown(at, at + name.length) + " occurs twice in one tag");
}

}  // namespace treecast
