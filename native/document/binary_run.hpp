// A run of the tokens that nearly every document is made of. Included by binary_pass.hpp, which is what it is a part of.
//
// Theory of operation. What the pass writes are characters, and to a compiler these may be anything: every pointer and every count
// would be read from memory again after each. So they are copied into this object, which nobody else sees and which lives in
// registers. It knows plain tags, texts and end tags. Whatever else there is, and whatever is wrong, it leaves as if it had not
// looked at it: then the pass has its turn for one token, which decides, and refuses.
// PERF: bench/network_frame.py.

struct BinaryRun {
    BinaryPass& pass;
    // Columns.
    uint32_t *name_ids, *parents, *sizes, *starts, *contents, *ends, *attribute_begins, *text_begins, *text_ends;
    uint16_t* depths;
    uint32_t *attribute_names, *text_parents;
    Span *attribute_values, *text_spans;
    OpenElement* open;
    const QName** open_names;
    // Limits.
    const unsigned char* token_safe;         // before this one, four bytes may be read
    const char *base, *value_end, *text_end, *out_safe;
    uint32_t elements_stop, texts_stop, depth_max, attributes_max, value_bytes_max, uri, scope;
    size_t attributes_stop;
    // Where it is.
    const unsigned char* token;
    const char *value, *text;
    char* out;
    uint32_t elements, texts, attributes, depth, current;
    uint64_t stamp;
    bool after_content;

    TREECAST_INLINE explicit BinaryRun(BinaryPass& pass_) : pass(pass_) {
        Document& d = pass.state.document;
        name_ids = d.name.data(), parents = d.parent.data(), sizes = d.size.data(), starts = d.start.data();
        contents = d.content.data(), ends = d.end.data(), attribute_begins = d.attribute_begin.data();
        text_begins = d.text_begin.data(), text_ends = d.text_end.data(), depths = d.depth.data();
        text_parents = d.text_parent.data(), text_spans = d.text.data();
        open = pass.state.open.data(), open_names = pass.state.open_names.data();
        base = pass.base, value_end = pass.value_end, text_end = pass.text_end;
        token_safe = pass.form.structure_end - std::min<std::ptrdiff_t>(tag_token_bytes, pass.form.structure_end - pass.form.structure);
        out_safe = pass.out_end - std::min<std::ptrdiff_t>(tag_bytes_max, pass.out_end - pass.out);
        texts_stop = pass.has_bracket ? 0 : pass.form.texts;
        depth_max = pass.state.limits.depth_max;
        attributes_max = static_cast<uint32_t>(std::min<uint64_t>(pass.state.limits.attributes_max, ~0u));
        value_bytes_max = static_cast<uint32_t>(std::min<uint64_t>(pass.state.limits.attribute_bytes_max, ~0u));
        load();
    }
    static constexpr std::ptrdiff_t tag_token_bytes = 4;
    static constexpr std::ptrdiff_t tag_bytes_max = short_name_bytes + 4;       // without attributes

    TREECAST_INLINE void load() {
        const Document& d = pass.state.document;
        token = pass.token, value = pass.value, text = pass.text, out = pass.out;
        elements = pass.elements, texts = pass.texts, attributes = pass.attributes, depth = pass.depth, current = pass.current;
        stamp = pass.state.stamp, after_content = pass.after_content;
        attribute_names = pass.state.document.attribute_name.data(), attribute_values = pass.state.document.attribute_value.data();
        attributes_stop = d.attribute_name.capacity();
        uri = pass.state.prefix_uri[0];
        if (uri == unresolved) uri = declaration;           // which no element has
        scope = static_cast<uint32_t>(pass.state.hidden.size());
        // Up to the next pause, at which the pass looks whether the call was interrupted.
        elements_stop = std::min(pass.form.elements, (elements / ReaderState::elements_per_pause + 1) * ReaderState::elements_per_pause - 1);
    }
    TREECAST_INLINE void store() {
        pass.token = token, pass.value = value, pass.text = text, pass.out = out, pass.at = out;
        pass.elements = elements, pass.texts = texts, pass.attributes = attributes, pass.depth = depth, pass.current = current;
        pass.state.stamp = stamp, pass.after_content = after_content;
    }

    TREECAST_INLINE uint32_t offset(const char* at) const { return static_cast<uint32_t>(at - base); }

    static_assert(std::endian::native == std::endian::little);
    // A number of one byte or two; false if it is longer.
    TREECAST_INLINE bool number(uint32_t& number) {
        uint16_t bytes;
        std::memcpy(&bytes, token, sizeof bytes);          // lowest first: see the assertion above
        uint32_t pair = bytes, has_high = pair >> 7 & 1;
        token += 1 + has_high;
        number = (pair & 0x7F) | (pair >> 1 & 0x3F80 & -has_high);
        return (pair & 0x8080) != 0x8080;
    }
    TREECAST_INLINE QName* name_of(uint32_t code) const {
        if (code < pass.dictionary_count) return pass.dictionary_names[code];
        uint64_t own = code - pass.dictionary_count;
        return __builtin_expect(own < pass.own_count, 1) ? pass.own_names[own] : nullptr;
    }
    // Both sides are padded. At least `At_once` bytes are copied: where some strings are shorter and some are longer, nothing can foresee
    // which comes next, and to be wrong takes longer than to copy.
    template <size_t At_once>
    TREECAST_INLINE void put(const char* from, size_t count) {
        static_assert(At_once <= text_padding);
        for (size_t done = 0; done < At_once; done += 32) Scan::copy_32(out + done, from + done);
        for (size_t done = At_once; __builtin_expect(done < count, 0); done += 32) Scan::copy_32(out + done, from + done);
        out += count;
    }
    TREECAST_INLINE void put_name(const QName& name) {
        Scan::copy_32(out, name.bytes);
        out += name.length;
    }
    static TREECAST_INLINE bool starts_inside(const char* at) { return static_cast<signed char>(*at) < -64; }

    // A tag that is done, or false: nothing has changed that counts.
    TREECAST_INLINE bool tag(uint32_t code, bool has_attributes, bool empty) {
        QName* name = name_of(code);
        if (__builtin_expect(!name, 0)) return false;
        if (__builtin_expect(elements >= elements_stop, 0)) return false;
        if (__builtin_expect(depth >= depth_max, 0)) return false;
        if (__builtin_expect(out >= out_safe, 0)) return false;
        if (__builtin_expect(name->length >= short_name_bytes, 0)) return false;
        if (__builtin_expect(name->prefix, 0)) return false;
        if (__builtin_expect(name->element_uri != uri, 0)) return false;
        uint32_t element = elements, attributes_before = attributes;
        starts[element] = offset(out);
        *out++ = '<';
        put_name(*name);
        if (has_attributes && __builtin_expect(!put_attributes(), 0)) {
            attributes = attributes_before;
            return false;
        }
        *out = '/';
        out += empty;
        *out++ = '>';
        parents[element] = current;
        depths[element] = static_cast<uint16_t>(depth);
        attribute_begins[element] = attributes_before;
        text_begins[element] = texts;
        name_ids[element] = name->element_id;
        contents[element] = offset(out);
        after_content = false;
        ++elements;
        if (empty) {
            ends[element] = offset(out);
            sizes[element] = 1;
            text_ends[element] = texts;
        } else {
            open_names[depth] = name;
            open[depth++] = OpenElement{element, name->length, scope};
            current = element;
        }
        return true;
    }

    TREECAST_INLINE bool put_attributes() {
        uint32_t count;
        if (!number(count) || !count || count > attributes_max || attributes + count > attributes_stop) return false;
        ++stamp;
        for (; count; --count) {
            uint32_t code, argument;
            if (__builtin_expect(token >= token_safe, 0)) return false;
            bool is_short = number(code);
            is_short &= number(argument);
            QName* name = name_of(code >> 1);
            if (__builtin_expect(!is_short, 0)) return false;
            if (__builtin_expect(code & 1, 0)) return false;
            if (__builtin_expect(!name, 0)) return false;
            if (__builtin_expect(name->length >= short_name_bytes, 0)) return false;
            if (__builtin_expect(name->attribute_uri, 0)) return false;
            if (__builtin_expect(name->stamp == stamp, 0)) return false;
            if (__builtin_expect(argument > static_cast<uint64_t>(value_end - value), 0)) return false;
            if (__builtin_expect(argument > value_bytes_max, 0)) return false;
            if (__builtin_expect(std::ptrdiff_t(argument + short_name_bytes + 4) >= out_safe - out, 0)) return false;
            if (__builtin_expect(starts_inside(value), 0)) return false;       // behind the last one stands a '<'
            name->stamp = stamp;
            *out++ = ' ';
            put_name(*name);
            std::memcpy(out, "=\"", 2);
            out += 2;
            uint32_t begin = offset(out);
            put<32>(value, argument);
            value += argument;
            attribute_names[attributes] = name->attribute_id;
            attribute_values[attributes++] = Span{begin, offset(out), false};
            *out++ = '"';
        }
        return true;
    }

    // So many end tags, of which some may be left to the pass.
    TREECAST_INLINE void end_tags(uint32_t count) {
        for (; count; --count) {
            const OpenElement top = open[depth - 1];
            const QName& name = *open_names[depth - 1];
            if (__builtin_expect(top.scope != scope || name.length >= short_name_bytes || out >= out_safe, 0)) {
                store();
                pass.end_tags(count);
                return load();
            }
            std::memcpy(out, "</", 2);
            out += 2;
            put_name(name);
            *out++ = '>';
            ends[top.element] = offset(out);
            sizes[top.element] = elements - top.element;
            text_ends[top.element] = texts;
            --depth;
            current = parents[top.element];
        }
        after_content = false;
    }

    TREECAST_INLINE bool plain_text(uint32_t length) {
        if (__builtin_expect(after_content, 0)) return false;
        if (__builtin_expect(!length, 0)) return false;
        if (__builtin_expect(texts >= texts_stop, 0)) return false;
        if (__builtin_expect(length > static_cast<uint64_t>(text_end - text), 0)) return false;
        if (__builtin_expect(static_cast<std::ptrdiff_t>(length) >= out_safe - out, 0)) return false;
        if (__builtin_expect(starts_inside(text), 0)) return false;
        after_content = true;
        uint32_t begin = offset(out);
        put<128>(text, length);
        text += length;
        text_spans[texts] = Span{begin, offset(out), false};
        text_parents[texts++] = current;
        return true;
    }

    TREECAST_INLINE bool read_token() {
        uint32_t next;
        if (__builtin_expect(!number(next), 0)) return false;
        uint32_t argument = next >> token_bits;
        switch (static_cast<BinaryToken>(next & ((1u << token_bits) - 1))) {
        case BinaryToken::ends:
            if (__builtin_expect(argument >= depth, 0)) return false;
            return end_tags(argument + 1), true;
        case BinaryToken::text: return plain_text(argument);
        case BinaryToken::start: return tag(argument, false, false);
        case BinaryToken::empty: return tag(argument, false, true);
        case BinaryToken::start_attributes: return tag(argument, true, false);
        case BinaryToken::empty_attributes: return tag(argument, true, true);
        default: return false;
        }
    }

    // To the end of the root.
    TREECAST_INLINE void read() {
        while (depth) {
            const unsigned char* before = token;
            const char* value_before = value;
            char* out_before = out;
            if (__builtin_expect(token < token_safe, 1) && __builtin_expect(read_token(), 1)) continue;
            token = before, value = value_before, out = out_before;
            store();
            pass.read_token(pass.number());
            load();
        }
        store();
    }
};
