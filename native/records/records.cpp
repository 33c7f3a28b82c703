// Splits a record file while it streams in: a scanner that may stop at any byte, and copies each record with its namespaces.
// It follows tags and quotes only. Everything else is checked by the reader of the record.
#include "records/records.hpp"

#include "document/characters.hpp"
#include "document/reader_state.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace treecast {

namespace {

constexpr size_t name_bytes_most = 64 << 10;
constexpr const char* after_root = "nothing but comments may follow the root element";
constexpr size_t inherited_bytes_max = 64 << 10, inherited_max = 256;
constexpr uint64_t inherited_ratio_max = 128, inherited_free_bytes = 16 << 20;

std::string shown(std::string_view name) { return std::string(name.substr(0, 60)) + (name.size() > 60 ? "…" : ""); }

}  // namespace

void RecordRows::add(uint64_t offset, int64_t ordinal) {
    ends.push_back(static_cast<int32_t>(data.size()));
    offsets.push_back(static_cast<int64_t>(offset));
    ordinals.push_back(ordinal);
}

RecordSplitter::RecordSplitter(RecordOptions options, std::string_view state, uint64_t stop)
    : options_(std::move(options)), stop_(stop) {
    if (options_.record_bytes_max < 1 || options_.record_bytes_max > record_bytes_most)
        throw std::invalid_argument("record_bytes_max must be from 1 to " + std::to_string(record_bytes_most));
    for (auto& name : options_.names)
        if (name.empty()) throw std::invalid_argument("the name of a record must not be empty");
    if (!state.empty()) restore(state);
}

RecordSplitter RecordSplitter::planning(RecordOptions options, uint64_t part_bytes) {
    RecordSplitter splitter(std::move(options));
    splitter.part_bytes_ = std::max<uint64_t>(part_bytes, 1);
    return splitter;
}

// Only stores the bytes; scan() does the work, as far as the caller has room for rows.
void RecordSplitter::feed(std::string_view bytes) {
    if (done_) return;
    try {
        input_.feed(bytes);
    } catch (Failure& failure) {
        refuse_file(std::move(failure));
    }
}

void RecordSplitter::finish() { finished_ = true; }

// Returns whether there may be more rows without more input. One step is one piece of markup. A step that finds its piece
// incomplete changes nothing, and is tried again when more bytes have arrived.
bool RecordSplitter::scan(size_t rows_bytes) {
    try {
        while (!done_ && rows_.bytes() < rows_bytes) {
            if (input_.opened() && step()) continue;
            if (finished_) {
                // A file of a few bytes was never opened, as its encoding was not certain yet: now it is.
                bool late = !input_.opened();
                input_.finish();
                if (late) continue;
                ended();
            }
            break;
        }
    } catch (Failure& failure) {
        refuse_file(std::move(failure));
    }
    if (done_) return false;
    if (rows_.bytes() >= rows_bytes) return true;
    release();
    return false;
}

// Forgets the text that is no longer needed.
void RecordSplitter::release() {
    // A record over its limit is not kept any longer. It is followed to its end and refused there.
    if (in_record() && !dropped_ && at_ - record_ > options_.record_bytes_max) dropped_ = true;
    bool token_needed = place_ == Place::tag_name || place_ == Place::end_tag ||
                        ((place_ == Place::tag || place_ == Place::quoted) && !in_record());
    size_t keep = at_ ? at_ - 1 : 0;       // the byte before may be the '/' of an empty element
    if (token_needed) keep = std::min(keep, token_);
    if (in_record() && !dropped_) keep = std::min(keep, record_);
    input_.drop(keep);
    at_ -= keep;
    token_ -= std::min(token_, keep);
    if (in_record() && !dropped_) record_ -= keep;
}

// A mistake outside the records ends the file: nobody can say where the next record would begin.
void RecordSplitter::refuse_file(Failure failure) {
    done_ = true;
    if (part_bytes_) return;               // the run that reads will find it again
    rows_.refused.push_back({rows_.ends.size(), std::move(failure)});
    rows_.add(rows_.refused.back().failure.position, -1);
}

void RecordSplitter::fail(const char* code, size_t index, std::string message, std::string hint) {
    Failure failure(Family::document, code, std::move(message), input_.offset_of(index));
    failure.hint = std::move(hint);
    failure.limit = code[2] == '3';
    throw failure;
}

// The input is over. That is right only after the root element and outside of all markup.
void RecordSplitter::ended() {
    done_ = true;
    if (root_seen_ && outside_root() && place_ == Place::text && at_ == input_.text().size()) return;
    std::string message = "the file is empty";
    if (in_record()) message = "the file ends inside the record that starts at byte " + std::to_string(record_offset_);
    else if (!outside_root()) message = "the file ends inside the element <" + shown(top()) + ">";
    else if (root_seen_) message = "the file ends inside markup";
    else if (input_.bytes_given()) message = "the file ends before its root element";
    throw Failure(Family::document, "TC209", message, input_.bytes_given());
}

// The places are the states of a scanner that may stop at any byte and go on with the next piece.
bool RecordSplitter::step() {
    switch (place_) {
    case Place::text: return step_text();
    case Place::comment: return step_comment();
    case Place::cdata: return step_until("]]>", Place::text);
    case Place::instruction: return step_until("?>", after_note_);
    case Place::doctype:
    case Place::doctype_quote: return step_doctype();
    case Place::subset: return step_subset();
    case Place::tag_name: return step_tag_name();
    case Place::tag: return step_tag();
    case Place::quoted: return step_quoted();
    case Place::end_tag: return step_end_tag();
    }
    return false;
}

// Text up to the next markup. Inside the root element its content does not matter: the reader of the record checks it.
bool RecordSplitter::step_text() {
    std::string_view text = input_.text();
    const char* from = text.data() + at_;
    auto* found = static_cast<const char*>(at_ < text.size() ? std::memchr(from, '<', text.size() - at_) : nullptr);
    size_t stop = found ? static_cast<size_t>(found - text.data()) : text.size();
    if (outside_root())
        for (size_t i = at_; i < stop; ++i)
            if (!is_space(text[i])) fail("TC201", i, root_seen_ ? after_root : "expected '<'");
    token_ = at_ = stop;
    // The byte after '<' says what it is.
    if (stop + 1 >= text.size()) return false;
    switch (text[stop + 1]) {
    case '/':
        if (outside_root()) fail("TC202", stop, "an end tag without a start tag");
        place_ = Place::end_tag;
        at_ = stop + 2;
        return true;
    case '!': return step_declaration();
    case '?': return step_instruction();
    default:
        if (outside_root() && root_seen_) fail("TC201", stop, after_root);
        place_ = Place::tag_name;
        at_ = stop + 1;
        return true;
    }
}

// Whether `wanted` may be at token_, but the text ends before that is decided.
bool RecordSplitter::awaits(std::string_view wanted) const {
    std::string_view rest = input_.text().substr(token_);
    return rest.size() < wanted.size() && wanted.substr(0, rest.size()) == rest;
}

bool RecordSplitter::step_declaration() {
    std::string_view rest = input_.text().substr(token_);
    auto starts = [&](std::string_view with) { return rest.substr(0, with.size()) == with; };
    if (starts("<!--")) {
        place_ = Place::comment, after_note_ = Place::text;
        at_ = token_ + 4;
        return true;
    }
    if (outside_root() && !root_seen_ && starts("<!DOCTYPE")) {
        if (doctype_seen_) fail("TC201", token_, "a document may have one DOCTYPE only");
        doctype_seen_ = true;
        place_ = Place::doctype;
        at_ = token_ + 9;
        return true;
    }
    if (!outside_root() && starts("<![CDATA[")) {
        place_ = Place::cdata;
        at_ = token_ + 9;
        return true;
    }
    if (awaits("<!--") || awaits(outside_root() ? "<!DOCTYPE" : "<![CDATA[")) return false;
    fail("TC201", token_, "expected a comment, CDATA or an element");
}

// Inside a record a wrong comment is the record's problem; outside nobody else would notice it.
bool RecordSplitter::step_comment() {
    std::string_view text = input_.text();
    for (;;) {
        size_t dash = text.find('-', at_);
        at_ = std::min(dash, text.size());
        if (at_ + 2 >= text.size()) return false;
        if (text[at_ + 1] == '-' && text[at_ + 2] == '>') {
            at_ += 3;
            place_ = after_note_;
            return true;
        }
        if (text[at_ + 1] == '-' && !in_record()) fail("TC201", at_, "'--' must not stand inside a comment");
        ++at_;
    }
}

bool RecordSplitter::step_instruction() {
    std::string_view rest = input_.text().substr(token_);
    if (rest.size() < 6 && !finished_) return false;
    bool xml = rest.size() > 5 && (rest[2] | 32) == 'x' && (rest[3] | 32) == 'm' && (rest[4] | 32) == 'l' &&
               (is_space(rest[5]) || rest[5] == '?');
    if (xml && !in_record())
        fail("TC201", token_, "an XML declaration may stand only at the very start", "divide what was several files");
    after_note_ = place_;
    place_ = Place::instruction;
    at_ = token_ + 2;
    return true;
}

bool RecordSplitter::step_until(std::string_view end, Place next) {
    std::string_view text = input_.text();
    size_t found = text.find(end, at_);
    if (found == std::string_view::npos) {
        // The end may be half here: the last bytes are looked at again.
        at_ = std::max(at_, text.size() - std::min(text.size(), end.size() - 1));
        return false;
    }
    at_ = found + end.size();
    place_ = next;
    return true;
}

// Identifiers in quotes, up to '[' or '>'; their content does not matter here.
bool RecordSplitter::step_doctype() {
    std::string_view text = input_.text();
    for (; at_ < text.size(); ++at_) {
        char c = text[at_];
        if (place_ == Place::doctype_quote) {
            if (c == quote_) place_ = Place::doctype;
        } else if (c == '"' || c == '\'') {
            quote_ = c;
            place_ = Place::doctype_quote;
        } else if (c == '>' || (c == '[' && !subset_seen_)) {
            place_ = c == '>' ? Place::text : Place::subset;
            subset_seen_ = true;
            ++at_;
            return true;
        } else if (c == '<' || c == '[') {
            fail("TC201", at_, "expected '>' at the end of the DOCTYPE");
        }
    }
    return false;
}

bool RecordSplitter::step_subset() {
    std::string_view text = input_.text();
    while (at_ < text.size() && is_space(text[at_])) ++at_;
    if (at_ == text.size()) return false;
    token_ = at_;
    if (text[at_] == ']') {
        ++at_;
        place_ = Place::doctype;
        return true;
    }
    if (text.substr(at_, 2) == "<?") return step_instruction();
    if (text.substr(at_, 4) == "<!--") {
        place_ = Place::comment, after_note_ = Place::subset;
        at_ += 4;
        return true;
    }
    if (awaits("<!--") || awaits("<?")) return false;
    // Only comments and instructions pass: declarations of a DTD are refused, as everywhere.
    throw brings_dtd(input_.offset_of(at_));
}

bool RecordSplitter::step_tag_name() {
    std::string_view text = input_.text();
    const char *at = text.data() + at_, *end = text.data() + text.size();
    auto wrong = [](char c) { return c == '<' || c == '=' || c == '"' || c == '\''; };
    while (at < end && *at != '>' && *at != '/' && !is_space(*at) && !wrong(*at)) ++at;
    at_ = static_cast<size_t>(at - text.data());
    std::string_view name = text.substr(token_ + 1, at_ - token_ - 1);
    if (name.size() > name_bytes_most)
        fail("TC304", token_, "a name is longer than " + std::to_string(name_bytes_most) + " bytes");
    if (at == end) return false;
    bool fits = !name.empty() && (character::is(name[0], character::name_start) || (name[0] & 0x80));
    if (!fits || wrong(*at))
        fail("TC201", fits ? at_ : token_ + 1, "expected a name after '<'", "write &lt; for a literal '<'");
    place_ = Place::tag;
    open_element(name);
    return true;
}

// The rest of a start tag. Quotes must be followed, because a value may contain '>'. Nothing else of an attribute matters.
bool RecordSplitter::step_tag() {
    std::string_view text = input_.text();
    const char *at = text.data() + at_, *end = text.data() + text.size();
    while (at < end && *at != '>' && *at != '"' && *at != '\'' && *at != '<') ++at;
    at_ = static_cast<size_t>(at - text.data());
    if (!in_record() && at_ - token_ > options_.record_bytes_max)
        fail("TC305", token_, "a start tag outside the records is longer than record_bytes_max (" +
             std::to_string(options_.record_bytes_max) + ")");
    if (at == end) return false;
    if (*at == '<') fail("TC201", at_, "'<' must not stand in a tag");
    if (*at == '>') {
        tag_closed(at_ + 1, at_ > 0 && text[at_ - 1] == '/');
        return true;
    }
    quote_ = *at;
    place_ = Place::quoted;
    ++at_;
    return true;
}

bool RecordSplitter::step_quoted() {
    std::string_view text = input_.text();
    size_t found = text.find(quote_, at_);
    size_t stop = std::min(found, text.size());
    if (auto* less = static_cast<const char*>(stop > at_ ? std::memchr(text.data() + at_, '<', stop - at_) : nullptr))
        fail("TC201", static_cast<size_t>(less - text.data()), "'<' must not stand in an attribute",
             "write &lt;, or close the quotes");
    at_ = stop;
    if (found == std::string_view::npos) return false;
    ++at_;
    place_ = Place::tag;
    return true;
}

bool RecordSplitter::step_end_tag() {
    std::string_view text = input_.text(), open = top();
    size_t name = token_ + 2;
    // Nearly all end tags are exactly this, without white space.
    if (text.size() - name > open.size() && text[name + open.size()] == '>' &&
        std::memcmp(text.data() + name, open.data(), open.size()) == 0) {
        close_element(name + open.size() + 1);
        return true;
    }
    size_t stop = std::min(text.find('>', at_), text.size());
    if (stop - token_ > 2 * name_bytes_most) fail("TC202", token_, "an end tag is too long to be one");
    at_ = stop;
    if (stop == text.size()) return false;
    std::string_view closed = text.substr(name, stop - name);
    while (!closed.empty() && is_space(closed.back())) closed.remove_suffix(1);
    if (closed != open)
        fail("TC202", token_,
             "the end tag </" + shown(closed) + "> does not match the start tag <" + shown(open) + ">");
    close_element(stop + 1);
    return true;
}

std::string_view RecordSplitter::top() const {
    return std::string_view(names_).substr(names_.size() - lengths_.back());
}

void RecordSplitter::open_element(std::string_view name) {
    if (!in_record()) {
        auto& wanted = options_.names;
        bool is_record = wanted.empty() ? lengths_.size() == 1
                                        : std::find(wanted.begin(), wanted.end(), name) != wanted.end();
        if (is_record) begin_record(name.size());
        if (done_) return;
    }
    root_seen_ = true;
    if (lengths_.size() >= depth_most || names_.size() + name.size() > options_.record_bytes_max + name_bytes_most)
        fail("TC302", token_, "elements are nested too deep to be followed");
    names_ += name;
    lengths_.push_back(static_cast<uint32_t>(name.size()));
}

void RecordSplitter::tag_closed(size_t end, bool empty) {
    at_ = end;
    place_ = Place::text;
    if (in_record()) {
        if (lengths_.size() == record_depth_ + 1 && !record_tag_bytes_ && !dropped_) record_tag_bytes_ = end - record_;
    } else if (!empty) {
        size_t inside = token_ + 1 + lengths_.back();
        learn_namespaces(input_.text().substr(inside, end - 1 - inside), inside);
    }
    if (empty) close_element(end);
}

// Bindings of a closed ancestor no longer apply to the records that follow.
void RecordSplitter::close_element(size_t end) {
    at_ = end;
    place_ = Place::text;
    names_.erase(names_.size() - lengths_.back());
    lengths_.pop_back();
    if (in_record()) {
        if (lengths_.size() == record_depth_) end_record(end);
    } else if (!bindings_.empty() && bindings_.back().depth > lengths_.size()) {
        while (!bindings_.empty() && bindings_.back().depth > lengths_.size()) bindings_.pop_back();
        gather_inherited();
    }
}

void RecordSplitter::learn_namespaces(std::string_view inside, size_t at) {
    size_t before = bindings_.size();
    size_t wrong = each_declaration(inside, [&](std::string_view prefix, std::string_view value) {
        Binding binding{lengths_.size(), std::string(prefix), {}};
        if (options_.entities) append_expanded_value(value, *options_.entities, inherited_bytes_max, binding.value);
        else binding.value = value;
        bindings_.push_back(std::move(binding));
        if (bindings_.size() > depth_most) fail("TC303", at, "too many namespace declarations outside the records");
    });
    if (wrong != std::string_view::npos) fail("TC201", at + wrong, "expected attributes of the form name=\"value\"");
    if (bindings_.size() > before) gather_inherited();
}

// What records inherit: the innermost binding of each prefix, unless that one is empty.
void RecordSplitter::gather_inherited() {
    inherited_.clear();
    inherited_text_.clear();
    std::vector<const Binding*> order;
    for (auto& binding : bindings_) order.push_back(&binding);
    std::stable_sort(order.begin(), order.end(), [](auto* a, auto* b) { return a->prefix < b->prefix; });
    for (size_t i = 0; i < order.size(); ++i) {
        const Binding& binding = *order[i];
        if (i + 1 < order.size() && order[i + 1]->prefix == binding.prefix) continue;
        if (binding.prefix.empty() && binding.value.size() == 2) continue;
        std::string declaration = (binding.prefix.empty() ? " xmlns" : " xmlns:") + binding.prefix + "=" + binding.value;
        inherited_text_ += declaration;
        inherited_.emplace_back(binding.prefix, std::move(declaration));
    }
    if (inherited_.size() > inherited_max || inherited_text_.size() > inherited_bytes_max)
        fail("TC303", token_, "more than " + std::to_string(inherited_max) + " namespaces, or " +
             std::to_string(inherited_bytes_max) + " bytes of them, are in scope of a record");
}

void RecordSplitter::begin_record(size_t name_bytes) {
    record_offset_ = input_.offset_of(token_);
    if (record_offset_ >= stop_) {
        done_ = true;
        return;
    }
    if (part_bytes_ && ordinal_ && record_offset_ - cut_offset_ >= part_bytes_) {   // no part is without a record
        cut_offset_ = record_offset_;
        cuts_.push_back({record_offset_, ordinal_, save()});
    }
    count_inherited();
    record_ = token_;
    record_depth_ = lengths_.size();
    record_name_bytes_ = name_bytes;
    record_tag_bytes_ = 0;
    dropped_ = part_bytes_ != 0;
}

// The declarations are counted before it is known which of them the record makes itself. A planning run does not keep that, and
// every run has to stop at the same place.
void RecordSplitter::count_inherited() {
    inherited_bytes_ += inherited_text_.size();
    if (inherited_bytes_ > inherited_free_bytes && inherited_bytes_ / inherited_ratio_max > record_offset_)
        fail("TC306", token_, "the namespace declarations copied into the records are more than " +
             std::to_string(inherited_ratio_max) + " times as long as the file up to here",
             "declare namespaces in the records that use them");
}

void RecordSplitter::end_record(size_t end) {
    if (!part_bytes_) {
        size_t before = rows_.data.size();
        bool fits = !dropped_ && end - record_ <= options_.record_bytes_max;
        if (fits) compose(end);
        fits = fits && rows_.data.size() - before <= options_.record_bytes_max;
        if (!fits) {
            rows_.data.resize(before);
            Failure failure(Family::document, "TC301", "the record is longer than record_bytes_max (" +
                            std::to_string(options_.record_bytes_max) + ")", record_offset_);
            failure.limit = true;
            failure.hint = "raise record_bytes_max";
            rows_.refused.push_back({rows_.ends.size(), std::move(failure)});
        }
        rows_.add(record_offset_, static_cast<int64_t>(ordinal_));
    }
    ++ordinal_;
    record_ = nowhere;
    dropped_ = false;
}

void RecordSplitter::compose(size_t end) {
    std::string_view record = input_.text().substr(record_, end - record_);
    std::string& out = rows_.data;
    size_t name_end = 1 + record_name_bytes_;
    out += record.substr(0, name_end);
    append_inherited(record.substr(name_end, record_tag_bytes_ - name_end));
    size_t bytes_max = out.size() + options_.record_bytes_max;
    if (!options_.entities || record.find('&', name_end) == std::string_view::npos) {
        out += record.substr(name_end);
        return;
    }
    append_expanded_value(record.substr(name_end, record_tag_bytes_ - name_end), *options_.entities, bytes_max, out);
    append_expanded(record.substr(record_tag_bytes_), *options_.entities, bytes_max, out);
}

// Appends the declarations of the ancestors that the record's own start tag does not replace.
void RecordSplitter::append_inherited(std::string_view tag) {
    if (inherited_.empty()) return;
    if (tag.find("xmlns") == std::string_view::npos) {
        rows_.data += inherited_text_;
        return;
    }
    tag.remove_suffix(tag.size() > 1 && tag[tag.size() - 2] == '/' ? 2 : 1);
    std::vector<std::string> own;
    each_declaration(tag, [&](std::string_view prefix, std::string_view) { own.emplace_back(prefix); });
    for (auto& [prefix, declaration] : inherited_)
        if (std::find(own.begin(), own.end(), prefix) == own.end()) rows_.data += declaration;
}

namespace {

void put(std::string& out, uint64_t value) { out.append(reinterpret_cast<const char*>(&value), sizeof value); }
void put(std::string& out, std::string_view text) {
    put(out, text.size());
    out += text;
}

std::invalid_argument no_state() { return std::invalid_argument("this is no state of a record splitter"); }

struct StateReader {
    std::string_view rest;
    uint64_t number() {
        uint64_t value;
        std::string_view bytes = take(sizeof value);
        std::memcpy(&value, bytes.data(), sizeof value);
        return value;
    }
    std::string_view text() { return take(number()); }
    std::string_view take(uint64_t count) {
        if (count > rest.size()) throw no_state();
        std::string_view taken = rest.substr(0, count);
        rest.remove_prefix(count);
        return taken;
    }
};

}  // namespace

// Everything that a later run needs to continue at this record: open elements and namespaces in scope.
std::string RecordSplitter::save() {
    std::string state;
    put(state, static_cast<uint64_t>(input_.encoding()));
    put(state, record_offset_);
    put(state, ordinal_);
    put(state, inherited_bytes_);
    put(state, lengths_.size());
    size_t at = 0;
    for (uint32_t length : lengths_) {
        put(state, std::string_view(names_).substr(at, length));
        at += length;
    }
    put(state, bindings_.size());
    for (auto& binding : bindings_) {
        put(state, binding.depth);
        put(state, binding.prefix);
        put(state, binding.value);
    }
    return state;
}

void RecordSplitter::restore(std::string_view state) {
    StateReader reader{state};
    uint64_t encoding = reader.number();
    if (encoding > static_cast<uint64_t>(Encoding::windows1252)) throw no_state();
    uint64_t offset = reader.number();
    input_ = RecordText(static_cast<Encoding>(encoding), offset);
    ordinal_ = reader.number();
    inherited_bytes_ = reader.number();
    for (uint64_t count = reader.number(); count; --count) {
        std::string_view name = reader.text();
        names_ += name;
        lengths_.push_back(static_cast<uint32_t>(name.size()));
    }
    for (uint64_t count = reader.number(); count; --count) {
        size_t depth = reader.number();
        std::string prefix(reader.text());
        bindings_.push_back({depth, std::move(prefix), std::string(reader.text())});
    }
    root_seen_ = !lengths_.empty();
    gather_inherited();
}

}  // namespace treecast
