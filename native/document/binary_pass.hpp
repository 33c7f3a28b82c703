// The pass over a binary form: tokens into columns, and into the text that they stand for. Included by reader_scalar.cpp and
// reader_avx2.cpp after reader_pass.hpp. Most tokens are read by binary_run.hpp; here is what all of them mean.
//
// Theory of operation. The text is written into the reader's buffer, tag by tag, so the columns are those that reading it would
// give, and so is every slice of it. Names are not looked up but come by number; names, attributes and namespaces are then
// treated by the code that reads text. Pieces that stand as they were written are put into the buffer and read there by Pass,
// with a '<' behind them at which every scan stops.
//
// Nothing that comes from outside is trusted. Every number is compared with what it counts in. Strings have been surveyed
// before, so they are XML characters in UTF-8; that none is cut in the middle of a character is checked at its first byte.
// Values and texts are looked at once for markup, as a whole.

namespace {

struct BinaryPass : Pass {
    const BinaryForm& form;
    const WireDictionary* const dictionary;
    const unsigned char* token;              // the next one
    const char *raw, *raw_end, *value, *value_end, *text, *text_end;       // what is left of each section
    char* out;                               // where the text goes on
    char* const out_end;                     // where it must end
    QName** const dictionary_names;          // of the dictionary; null where one was not looked up yet
    const uint64_t dictionary_count;
    QName* const* own_names = nullptr;       // of the document, with the numbers behind
    uint64_t own_count = 0;
    bool has_bracket = false;                // some text may have a "]]>"
    bool after_content = false;              // no tag since the last text or piece of content

    BinaryPass(ReaderState& state_, const BinaryForm& form_, const WireDictionary* dictionary_)
        : Pass(state_, state_.base), form(form_), dictionary(dictionary_), token(form_.structure), raw(state_.strings.data()),
          raw_end(raw + form_.raw_bytes), value(raw_end), value_end(value + form_.value_bytes), text(value_end + 1),
          text_end(raw + form_.strings.size()), out(state_.buffer.data()), out_end(out + form_.text_bytes),
          dictionary_names(state_.dictionary_names.data()), dictionary_count(state_.dictionary_names.size()) {}

    [[noreturn]] TREECAST_NOINLINE void refuse(const char* why) const {
        refuse_binary(why, static_cast<size_t>(reinterpret_cast<const char*>(token) - form.whole.data()));
    }

    TREECAST_INLINE uint64_t number() {
        if (__builtin_expect(token == form.structure_end, 0)) refuse("its structure ends too soon");
        // PERF: bench/wire.py. One byte or two without a branch, which nothing could predict. Behind the structure stands
        // at least one byte more.
        uint64_t low = token[0], high = token[1], has_high = low >> 7;
        if (__builtin_expect(low & high & 0x80, 0)) return ++token, long_number(low & 0x7F);
        token += 1 + has_high;
        if (__builtin_expect(token > form.structure_end, 0)) refuse("its structure ends too soon");
        return (low & 0x7F) | (high << 7 & -has_high);
    }
    TREECAST_NOINLINE uint64_t long_number(uint64_t number) {
        constexpr int shift_max = 35;
        for (int shift = 7; shift <= shift_max; shift += 7) {
            if (token == form.structure_end) refuse("its structure ends too soon");
            uint64_t byte = *token++;
            number |= (byte & 0x7F) << shift;
            if (byte < 0x80) return number;
        }
        refuse("a number has too many bytes");
    }

    // The next bytes of a section.
    TREECAST_INLINE const char* take(const char*& from, const char* end, uint64_t count) {
        if (__builtin_expect(count > static_cast<uint64_t>(end - from), 0)) refuse("a string is longer than what is left");
        const char* begin = from;
        if (__builtin_expect(count && static_cast<signed char>(*begin) < -64, 0)) refuse("a string starts inside a character");
        from += count;
        return begin;
    }
    TREECAST_INLINE void need(uint64_t count) const {
        if (__builtin_expect(count > static_cast<uint64_t>(out_end - out), 0)) refuse("its text is longer than it says");
    }
    // PERF: bench/wire.py. Both sides are padded, so a short string is one load and one store.
    TREECAST_INLINE void put(const char* from, size_t count) {
        if (__builtin_expect(count <= 64, 1)) std::memcpy(out, from, 64);
        else std::memcpy(out, from, count);
        out += count;
    }
    TREECAST_INLINE void put_name(const QName& name) {
        if (__builtin_expect(name.length < short_name_bytes, 1)) std::memcpy(out, name.bytes, short_name_bytes);
        else std::memcpy(out, name.text().data(), name.length);
        out += name.length;
    }

    TREECAST_INLINE QName& name_of(uint64_t code) {
        if (code < dictionary_count) {
            QName* name = dictionary_names[code];
            return __builtin_expect(name != nullptr, 1) ? *name : dictionary_name(code);
        }
        if (__builtin_expect(code - dictionary_count >= own_count, 0)) refuse("there is no name of that number");
        return *own_names[code - dictionary_count];
    }
    TREECAST_NOINLINE QName& dictionary_name(uint64_t code) {
        QName* name = state.name_of_text(dictionary->name(code));
        if (!name) refuse("the dictionary has something that is no name");
        return *(dictionary_names[code] = name);
    }

    // A short name that was met before, by its bytes, behind which there are more. Only valid names are in the table.
    TREECAST_INLINE QName* known_name(const char* name, uint64_t length) const {
        if (length >= short_name_bytes || length > state.limits.name_bytes_max) return nullptr;
        auto size = static_cast<uint32_t>(length);
        QName* const* slots = state.qnames.slots();
        size_t mask = state.qnames.slot_mask();
        Scan::Key key(name, size);
        for (size_t slot = hash_short_name(seeds, name, size) & mask;; slot = (slot + 1) & mask) {
            QName* entry = slots[slot];
            if (!entry || key.equals(entry->bytes)) return entry;
        }
    }

    // The names that the document brings itself, before the first token.
    void read_names() {
        state.own_names.clear();
        for (uint32_t i = 0; i < form.names; ++i) {
            uint64_t length = number();
            const char* at_name = take(raw, raw_end, length);
            QName* name = length ? known_name(at_name, length) : nullptr;
            if (length && !name) name = state.name_of_text({at_name, static_cast<size_t>(length)});
            if (!name) refuse("something is no name");
            state.own_names.push_back(name);
        }
        own_names = state.own_names.data();
        own_count = state.own_names.size();
    }

    // Values and texts are plain: what would not be is written in another way.
    void look_for_markup() {
        if (value_end[0] != '<') refuse("its sections do not fit together");
        if (Scan::find_value_stop(value, '"') != value_end) refuse("a value has markup in it");
        for (const char* from = text;; ++from) {
            from = Scan::find_text_stop(from);
            if (from == text_end) return;
            if (*from != ']') refuse("a text has markup in it");
            has_bracket |= from[1] == ']' && from[2] == '>';
        }
    }

    // --- tokens

    TREECAST_INLINE void put_attributes(uint32_t element) {
        ++state.stamp;
        uint64_t count = number();
        if (__builtin_expect(count > state.limits.attributes_max, 0)) state.too_many_attributes(out);
        if (__builtin_expect(!count, 0)) refuse("a tag with attributes has none");
        for (; count; --count) {
            uint64_t code = number(), argument = number();
            QName& name = name_of(code >> 1);
            std::string_view known;
            if (code & 1) {
                if (!dictionary || argument >= dictionary->values()) refuse("there is no value of that number");
                known = dictionary->value(argument);
            } else {
                known = {take(value, value_end, argument), static_cast<size_t>(argument)};
            }
            need(name.length + known.size() + 4);
            *out++ = ' ';
            const char* name_at = out;
            put_name(name);
            std::memcpy(out, "=\"", 2);
            out += 2;
            if (__builtin_expect(name.stamp == state.stamp, 0)) state.attribute_twice(name, name_at);
            name.stamp = state.stamp;
            if (__builtin_expect(known.size() > state.limits.attribute_bytes_max, 0)) state.value_too_long(out);
            uint32_t begin = offset(out);
            if (code & 1) {                               // not padded
                std::memcpy(out, known.data(), known.size());
                out += known.size();
            } else {
                put(known.data(), known.size());
            }
            put_attribute(name, name_at, Span{begin, offset(out), false});
            *out++ = '"';
        }
        resolve_attributes(element);
    }

    TREECAST_INLINE void coded_tag(uint64_t code, bool has_attributes, bool empty) {
        if (__builtin_expect(depth >= state.limits.depth_max, 0)) state.too_deep(out);
        if (__builtin_expect(elements == form.elements, 0)) refuse("it has more elements than it says");
        QName& name = name_of(code);
        need(name.length + 3);
        const char* tag = out;
        *out++ = '<';
        put_name(name);
        uint32_t element = begin_element(tag);
        auto scope = static_cast<uint32_t>(state.hidden.size());
        if (has_attributes) put_attributes(element);
        need(2);
        if (empty) *out++ = '/';
        *out++ = '>';
        at = out;
        if (!empty) state.open_names[depth] = &name;
        finish_start_tag(element, name, name.length, scope, empty);
        after_content = false;
    }

    TREECAST_INLINE void end_tags(uint64_t count) {
        if (__builtin_expect(count > depth, 0)) refuse("it has more end tags than start tags");
        for (; count; --count) {
            const OpenElement& top = state.open[depth - 1];
            need(top.name_length + 3);
            std::memcpy(out, "</", 2);
            out += 2;
            // PERF: bench/wire.py. Not from the start tag: it may have been written so lately that reading it has to wait.
            put_name(*state.open_names[depth - 1]);
            *out++ = '>';
            at = out;
            finish_element();
        }
        after_content = false;
    }

    TREECAST_INLINE void begin_content(uint64_t length) {
        if (__builtin_expect(after_content || !length, 0)) refuse("a text is empty, or follows another one");
        after_content = true;
        need(length);
        if (__builtin_expect(texts >= form.texts + 1, 0)) refuse("it has more texts than it says");
    }

    TREECAST_INLINE void plain_text(uint64_t length) {
        begin_content(length);
        const char* from = take(text, text_end, length);
        if (__builtin_expect(has_bracket, 0) && std::string_view(from, length).find("]]>") != std::string_view::npos)
            refuse("a text has markup in it");
        uint32_t begin = offset(out);
        put(from, length);
        put_text(begin, offset(out), false);
    }

    // Puts a piece at the end of the text, to be read from `at` on: a '<' behind it stops whatever does not end in it.
    TREECAST_NOINLINE const char* put_piece(uint64_t length) {
        need(length);
        const char* from = take(raw, raw_end, length);
        at = out;
        std::memcpy(out, from, length);
        out += length;
        std::memset(out, 0, text_padding);
        *out = '<';
        state.end = out;
        return out;
    }

    TREECAST_NOINLINE void written_content(uint64_t length) {
        begin_content(length);
        const char* stop = put_piece(length);
        while (at < stop) {
            if (texts >= form.texts + 1) refuse("it has more texts than it says");
            const char* markup = Scan::find_text_stop(at);
            if (*markup != '<' || (markup[1] == '!' && markup[2] == '[')) {
                read_text();
            } else {
                put_text(offset(at), offset(markup), false);
                at = markup;
            }
            if (at == stop) break;
            if (at[1] == '!') at = state.comment(at);
            else if (at[1] == '?') at = state.instruction(at);
            else refuse("content has a tag in it");
        }
        if (at != stop) refuse("content goes beyond its end");
    }

    TREECAST_NOINLINE void written_tag(uint64_t length, bool is_end) {
        if (elements == form.elements && !is_end) refuse("it has more elements than it says");
        if (is_end && !depth) refuse("it has more end tags than start tags");
        const char* stop = put_piece(length);
        if (length < 3 || at[0] != '<' || (at[1] == '/') != is_end) refuse("something is no tag");
        if (is_end) {
            end_tag();
        } else {
            start_tag();
            // Its name is known by now, and is found at once.
            const OpenElement& top = state.open[depth ? depth - 1 : 0];
            if (depth && top.element + 1 == elements) state.open_names[depth - 1] = state.name_of_text({base + offset_of(top), top.name_length});
        }
        if (at != stop) refuse("a tag does not end where it should");
        after_content = false;
    }

    size_t offset_of(const OpenElement& element) const { return state.document.start[element.element] + 1; }

    // One token; the first must be a start tag.
    TREECAST_INLINE void read_token(uint64_t number) {
        uint64_t argument = number >> token_bits;
        switch (static_cast<BinaryToken>(number & ((1u << token_bits) - 1))) {
        case BinaryToken::ends: return end_tags(argument + 1);
        case BinaryToken::text: return plain_text(argument);
        case BinaryToken::start: return coded_tag(argument, false, false);
        case BinaryToken::empty: return coded_tag(argument, false, true);
        case BinaryToken::start_attributes: return coded_tag(argument, true, false);
        case BinaryToken::empty_attributes: return coded_tag(argument, true, true);
        case BinaryToken::content: return written_content(argument);
        case BinaryToken::tag: return written_tag(argument >> 1, argument & 1);
        }
    }

    TREECAST_INLINE void read_content();

    const char* read() {
        read_names();
        look_for_markup();
        uint64_t before = number(), after = number();
        const char* stop = put_piece(before);
        state.end = stop + 1;                    // the prolog sees the '<' of the root, whatever its name
        if (state.prolog() != stop) refuse("there is a tag before the root");
        uint64_t first = number();
        auto kind = static_cast<BinaryToken>(first & ((1u << token_bits) - 1));
        bool is_start = kind != BinaryToken::ends && kind != BinaryToken::text && kind != BinaryToken::content;
        if (!is_start) refuse("it does not begin with an element");
        read_token(first);
        read_content();
        stop = put_piece(after);
        out[0] = '\0';
        state.epilog(at);
        if (token != form.structure_end || raw != raw_end || value != value_end || text != text_end || out != out_end ||
            elements != form.elements || texts != form.texts)
            refuse("its parts do not fit together");
        finish();
        return out;
    }
};

#include "document/binary_run.hpp"

TREECAST_INLINE void BinaryPass::read_content() { BinaryRun(*this).read(); }

}  // namespace

const char* read_binary(ReaderState& state, const BinaryForm& form, const WireDictionary* dictionary) {
    return BinaryPass(state, form, dictionary).read();
}
