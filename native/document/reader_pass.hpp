// The pass over the content of the root element. Included by reader_scalar.cpp and reader_avx2.cpp. Each has opened its own
// namespace and defined `Scan` before: find_text_stop, find_value_stop, name_length, same_name.
//
// Theory of operation. The text is padded and ends in a NUL, so every scan stops by itself and nothing here looks for the end.
// Each turn of the loop takes one run of text and the markup after it. A run without references, carriage returns and CDATA is
// stored as a slice of the source without a branch.
//
// A name is cut at the first byte that ends names in ordinary markup, hashed, and looked up by its raw bytes. Only valid names
// are in the table. One that is not found goes to learn_name(), which examines it character by character. So the cut may be
// crude. Duplicate attributes are found by a stamp in the name's entry, wrong end tags by comparing bytes with the start tag.
//
// The columns have room for one element and one text per '<' of the document, so they are written without checks.

struct Pass {
    ReaderState& state;
    const char* const base;
    const char* at;                              // the next byte
    uint32_t elements = 0, texts = 0, attributes = 0;
    uint32_t depth = 0;                          // elements open
    uint32_t current = none;                     // the innermost of them
    const HashSeeds seeds = hash_seeds();

    Pass(ReaderState& state_, const char* root) : state(state_), base(state_.base), at(root) {}

    uint32_t offset(const char* pointer) const { return static_cast<uint32_t>(pointer - base); }

    // PERF: `length` comes from the scan, not from the entry, so that reading on need not wait for the look-up
    // (bench/reading.py).
    TREECAST_INLINE QName* find_name(const char* name, NamePlace place, uint32_t& length) {
        length = Scan::name_length(name);
        if (__builtin_expect(length - 1 < short_name_bytes - 1, 1)) {
            QName* const* slots = state.qnames.slots();
            size_t mask = state.qnames.slot_mask();
            Scan::Key key(name, length);
            for (size_t slot = hash_short_name(seeds, name, length) & mask;; slot = (slot + 1) & mask) {
                QName* entry = slots[slot];
                if (!entry) break;
                if (__builtin_expect(key.equals(entry->bytes), 1)) return entry;
            }
        }
        QName* learnt = state.learn_name(name, place);
        length = learnt->length;
        return learnt;
    }

    TREECAST_INLINE void put_text(uint32_t begin, uint32_t end, bool in_decoded) {
        Document& d = state.document;
        d.text[texts] = Span{begin, end, in_decoded};
        d.text_parent[texts] = current;
        texts += begin != end;                   // an empty one is overwritten by the next
    }

    // A text node that contains anything that is not plain. Leaves `at` at the '<' of the markup that ends the node.
    TREECAST_NOINLINE void read_text() {
        TextBuilder text{state.document.decoded, base};
        for (;;) {
            const char* stop = Scan::find_text_stop(at);
            text.add(at, stop);
            at = stop;
            switch (*stop) {
            case '&':
                at = state.reference(stop, text.text(), false);
                break;
            case '\r':
                text.text().push_back('\n');
                at = stop + 1 + (stop[1] == '\n');
                break;
            case ']':
                if (stop[1] == ']' && stop[2] == '>')
                    state.fail("TC201", stop, "']]>' must not stand in text", "write ]]&gt;");
                text.add(stop, stop + 1);
                at = stop + 1;
                break;
            case '<':
                if (stop[1] == '!' && stop[2] == '[') {
                    at = state.cdata(stop, text);
                    break;
                }
                put_text(text.span().begin, text.span().end, text.in_decoded);
                return;
            default:
                state.open_at_end(current);
            }
        }
    }

    // An attribute value with references or white space to be normalised: its text is appended to `decoded`.
    // Returns the closing quote.
    TREECAST_NOINLINE const char* read_value(const char* value, char quote) {
        std::string& out = state.document.decoded;
        for (const char* from = value;;) {
            const char* stop = Scan::find_value_stop(from, quote);
            out.append(from, static_cast<size_t>(stop - from));
            from = stop + 1;
            if (*stop == quote) return stop;
            switch (*stop) {
            case '&':
                from = state.reference(stop, out, true);
                break;
            case '\r':
                from += stop[1] == '\n';
                out.push_back(' ');
                break;
            case '\t':
            case '\n':
                out.push_back(' ');
                break;
            case '<':
                state.fail("TC201", stop, "'<' must not stand in an attribute value", "write &lt;, or close the quote before it");
            default:
                state.unexpected(stop, "an attribute value does not end");
            }
        }
    }

    // Only the attribute columns can grow here: the survey counts tags, not attributes.
    TREECAST_INLINE void put_attribute(QName& name, const char* name_at, Span value) {
        Document& d = state.document;
        if (__builtin_expect(attributes == d.attribute_name.capacity(), 0)) {
            d.attribute_name.set_size(attributes);
            d.attribute_value.set_size(attributes);
            d.attribute_name.reserve(attributes * 2 + 64);
            d.attribute_value.reserve(attributes * 2 + 64);
        }
        if (__builtin_expect(name.attribute_uri != 0, 0)) {
            if (name.attribute_uri == declaration) return state.attribute_met(name, name_at, value, attributes);
            if (name.prefix) state.attribute_met(name, name_at, value, attributes);
            else state.plain_attribute(name, name_at);
        }
        d.attribute_name[attributes] = name.attribute_id;
        d.attribute_value[attributes++] = value;
    }

    // Reads from the end of the element's name to after its '>'. Returns whether that was '/>'.
    TREECAST_INLINE bool read_attributes() {
        uint32_t count = 0;
        for (;;) {
            if (*at == '>') {
                ++at;
                return false;
            }
            if (*at == '/' && at[1] == '>') {
                at += 2;
                return true;
            }
            if (!is_space(*at)) state.unexpected(at + (*at == '/'), "expected white space, '>' or '/>' in a start tag");
            do ++at;
            while (is_space(*at));
            if (*at == '>' || *at == '/') continue;
            const char* name_at = at;
            uint32_t length;
            QName* name = find_name(at, NamePlace::attribute, length);
            at += length;
            if (*at == '=' && (at[1] == '"' || at[1] == '\'')) ++at;
            else at = state.equals_sign(at);
            if (++count > state.limits.attributes_max) state.too_many_attributes(name_at);
            if (name->stamp == state.stamp) state.attribute_twice(*name, name_at);
            name->stamp = state.stamp;
            char quote = *at++;
            const char* stop = Scan::find_value_stop(at, quote);
            uint32_t begin = offset(at), end = offset(stop);
            bool decoded = *stop != quote;
            if (__builtin_expect(decoded, 0)) {
                begin = static_cast<uint32_t>(state.document.decoded.size());
                stop = read_value(at, quote);
                end = static_cast<uint32_t>(state.document.decoded.size());
            }
            if (static_cast<size_t>(stop - at) > state.limits.attribute_bytes_max) state.value_too_long(at);
            put_attribute(*name, name_at, Span{begin, end, decoded});
            at = stop + 1;
        }
    }

    // Fills in everything known where a start tag begins. Its number is the answer.
    TREECAST_INLINE uint32_t begin_element(const char* tag) {
        Document& d = state.document;
        uint32_t element = elements++;
        if (__builtin_expect(elements % ReaderState::elements_per_pause == 0, 0)) state.pause();
        d.start[element] = offset(tag);
        d.parent[element] = current;
        d.depth[element] = static_cast<uint16_t>(depth);
        d.attribute_begin[element] = attributes;
        d.text_begin[element] = texts;
        return element;
    }

    // Fills in what is known where the tag ends, at `at`. The size and the end follow at the end tag.
    TREECAST_INLINE void finish_start_tag(uint32_t element, QName& name, uint32_t length, uint32_t scope, bool empty) {
        Document& d = state.document;
        // The name means the same as last time, unless its prefix was bound to something else meanwhile.
        uint32_t uri = state.prefix_uri[name.prefix];
        d.name[element] = __builtin_expect(name.element_uri == uri && uri != unresolved, 1)
                              ? name.element_id
                              : state.element_name(name, base + d.start[element] + 1);
        d.content[element] = offset(at);
        if (empty) {
            d.end[element] = offset(at);
            d.size[element] = 1;
            d.text_end[element] = texts;
            if (__builtin_expect(state.hidden.size() != scope, 0)) state.restore_bindings(scope);
            return;
        }
        state.open[depth++] = OpenElement{element, length, scope};
        current = element;
    }

    TREECAST_INLINE void resolve_attributes(uint32_t element) {
        if (__builtin_expect(!state.declarations.empty() || !state.prefixed.empty(), 0))
            state.resolve_attributes(state.document.attribute_name.data(), element);
    }

    TREECAST_INLINE void start_tag() {
        const char* tag = at;
        if (__builtin_expect(depth >= state.limits.depth_max, 0)) state.too_deep(tag);
        uint32_t length;
        QName* name = find_name(at + 1, NamePlace::element, length);
        at += 1 + length;
        uint32_t element = begin_element(tag);
        auto scope = static_cast<uint32_t>(state.hidden.size());
        bool empty = false;
        if (*at == '>') {
            ++at;
        } else {
            ++state.stamp;
            empty = read_attributes();
            resolve_attributes(element);
        }
        finish_start_tag(element, *name, length, scope, empty);
    }

    // The innermost open element ends at `at`.
    TREECAST_INLINE void finish_element() {
        Document& d = state.document;
        const OpenElement& top = state.open[depth - 1];
        d.end[top.element] = offset(at);
        d.size[top.element] = elements - top.element;
        d.text_end[top.element] = texts;
        if (__builtin_expect(state.hidden.size() != top.scope, 0)) state.restore_bindings(top.scope);
        --depth;
        current = d.parent[top.element];
    }

    // Nearly every end tag repeats its start tag exactly, so one comparison decides.
    TREECAST_INLINE void end_tag() {
        const OpenElement& top = state.open[depth - 1];
        const char* name = at + 2;
        const char* close = name + top.name_length;
        const char* wanted = base + state.document.start[top.element] + 1;
        if (__builtin_expect(Scan::same_name(name, wanted, top.name_length) && *close == '>', 1)) at = close + 1;
        else at = state.end_tag(at, top.element, top.name_length);
        finish_element();
    }

    // The loop over text and markup. It ends when the root element closes.
    TREECAST_INLINE void read_content() {
        start_tag();
        while (depth) {
            const char* stop = Scan::find_text_stop(at);
            if (__builtin_expect(*stop != '<', 0) || __builtin_expect(stop[1] == '!' && stop[2] == '[', 0)) {
                read_text();
            } else {
                put_text(offset(at), offset(stop), false);
                at = stop;
            }
            if (at[1] == '/') end_tag();
            else if (__builtin_expect(at[1] == '!', 0)) at = state.comment(at);
            else if (__builtin_expect(at[1] == '?', 0)) at = state.instruction(at);
            else start_tag();
        }
    }

    // The columns were written without counting; now their sizes are set.
    void finish() {
        Document& d = state.document;
        for (auto* column : {&d.name, &d.parent, &d.size, &d.start, &d.content, &d.end, &d.attribute_begin, &d.text_begin,
                             &d.text_end})
            column->set_size(elements);
        d.depth.set_size(elements);
        d.attribute_name.set_size(attributes);
        d.attribute_value.set_size(attributes);
        d.text_parent.set_size(texts);
        d.text.set_size(texts);
    }
};

}  // namespace

const char* read_content(ReaderState& state, const char* root) {
    Pass pass(state, root);
    pass.read_content();
    pass.finish();
    return pass.at;
}
