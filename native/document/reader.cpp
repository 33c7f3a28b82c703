// The Reader: bytes -> Document. It finds the encoding, copies the bytes into a padded buffer, checks them, and parses.
//
// The pass over the content is in reader_pass.hpp, compiled once per instruction set; the prolog is in reader_prolog.cpp.
// Positions in errors always count in the bytes that the caller gave, whatever was transcoded in between.
#include "document/reader.hpp"

#include "base/cpu.hpp"
#include "base/interrupt.hpp"
#include "document/binary.hpp"
#include "document/encoding.hpp"
#include "document/reader_state.hpp"
#include "document/survey.hpp"

#include <algorithm>
#include <optional>
#include <stdexcept>

namespace treecast {

namespace {

// Counted only when there is something to report: a document that is fine pays nothing for it.
uint64_t line_of(std::string_view text) {
    uint64_t line = 1;
    for (size_t i = 0; i < text.size(); ++i)
        line += text[i] == '\n' || (text[i] == '\r' && (i + 1 == text.size() || text[i + 1] != '\n'));
    return line;
}

// The survey found a bad byte. It is either broken UTF-8 or a character that XML forbids; the codes differ.
Failure bad_character(std::string_view source, size_t offset) {
    Decoded c = decode_utf8(source.data() + offset, source.data() + source.size());
    if (!c.length) {
        Failure failure(Family::document, "TC204", "these bytes are not UTF-8", offset);
        failure.hint = "declare the encoding that the document is in, or convert it to UTF-8";
        return failure;
    }
    static const char* const digits = "0123456789ABCDEF";
    std::string number;
    for (int shift = 12; shift >= 0; shift -= 4) number += digits[c.character >> shift & 15];
    return Failure(Family::document, "TC203", "the character U+" + number + " is not allowed in XML", offset);
}

}  // namespace

// Wrong settings are a mistake of the programmer, hence not a Failure.
void check_limits(const Limits& limits) {
    auto demand = [](bool fits, const char* what) {
        if (!fits) throw std::invalid_argument(what);
    };
    demand(limits.document_bytes_max > 0 && limits.document_bytes_max <= document_bytes_most,
           "document_bytes_max must be from 1 to 4293918720");
    demand(limits.depth_max > 0 && limits.depth_max <= depth_most, "depth_max must be from 1 to 65535");
    demand(limits.name_bytes_max > 0 && limits.name_bytes_max <= (1u << 24), "name_bytes_max must be from 1 to 16777216");
    demand(limits.names_max > 0, "names_max must be at least 1");
}

// Texts of entities come from the caller and go into documents unchecked, so they must be valid XML themselves.
void check_entities(const Entities& entities) {
    for (const auto& [name, text] : entities) {
        const char *at = name.data(), *end = at + name.size();
        bool fits = at < end && is_name_start(decode_utf8(at, end).character);
        while (fits && at < end) {
            Decoded c = decode_utf8(at, end);
            fits = c.length && is_name_char(c.character);
            at += c.length;
        }
        if (!fits) throw std::invalid_argument("not an entity name: " + name.substr(0, 40));
        for (at = text.data(), end = at + text.size(); at < end;) {
            Decoded c = decode_utf8(at, end);
            if (!c.length || !is_xml_char(c.character))
                throw std::invalid_argument("the text of the entity " + name.substr(0, 40) + " has a character that XML does not allow");
            at += c.length;
        }
    }
}

Failure document_too_long(const Limits& limits) {
    Failure failure(Family::document, "TC301",
                    "the document is longer than " + std::to_string(limits.document_bytes_max) +
                        " bytes, the limit document_bytes_max", limits.document_bytes_max);
    failure.limit = true;
    failure.hint = "raise it with treecast.Limits(document_bytes_max=…)";
    return failure;
}

// Keeps its buffers between documents, so that reading many small ones allocates nothing.
struct Reader::Impl : ReaderState {
    using ReaderState::ReaderState;
    std::optional<Failure> problem;    // the first bad character, if any; `end` is there
    bool in_prolog = true;

    // Names of earlier documents are no part of this one. If there are too many names, they are forgotten and it is read once more, so
    // that it gets the answer that a new Reader would give.
    template <class Read>
    const Document& with_room_for_names(Read&& read_it) {
        try {
            read_it();
        } catch (const NamesFull&) {
            begin_document(true);
            read_it();
        }
        return document;
    }

    // Any failure leaves the document empty: no caller ever sees half of one.
    void read(std::string_view bytes) {
        try {
            problem.reset();
            in_prolog = true;
            document.source = document.original = bytes;
            take(bytes);
            try {
                parse();
            } catch (const Failure& failure) {
                // A document that was cut off at its first bad character also looks unfinished (TC209).
                // That character is the reason, so it is what we report.
                if (!problem || failure.code != "TC209") throw;
            }
            if (problem) throw *problem;
        } catch (Failure& failure) {
            // Whatever else is wrong in the prolog: if there is a DTD, that is what the user needs to know.
            size_t dtd = in_prolog ? find_dtd(document.source) : std::string_view::npos;
            if (dtd != std::string_view::npos) failure = brings_dtd(dtd);
            // Positions count in the bytes that were given, not in those that were transcoded.
            failure.line = line_of(document.source.substr(0, failure.position));
            failure.position = document.original_offset(static_cast<uint32_t>(failure.position));
            document.clear();
            throw;
        } catch (...) {
            document.clear();
            throw;
        }
    }

    // The text is made along with the columns, so positions count in it; those of a broken form count in the form.
    void decode(const BinaryForm& form, const WireDictionary* dictionary) {
        try {
            prepare(form, dictionary);
            const char* text_end;
#if TREECAST_X86
            text_end = simd_level() >= Simd::avx2 ? level_avx2::read_binary(*this, form, dictionary)
                                                  : level_scalar::read_binary(*this, form, dictionary);
#else
            text_end = level_scalar::read_binary(*this, form, dictionary);
#endif
            document.source = document.original = {base, static_cast<size_t>(text_end - base)};
            check_declared_encoding();
        } catch (...) {
            document.clear();
            throw;
        }
    }

    // Surveys the strings, and makes room for as much as the form says there is, which its own length has been compared with.
    void prepare(const BinaryForm& form, const WireDictionary* dictionary) {
        if (form.text_bytes > limits.document_bytes_max) throw document_too_long(limits);
        if (form.kind == BinaryKind::with_dictionary && (!dictionary || dictionary->fingerprint() != form.fingerprint))
            refuse_binary("its dictionary is another one");
        size_t known = dictionary ? dictionary->names() : 0;
        uint64_t serial = dictionary ? dictionary->serial() : 0;
        if (dictionary_serial != serial || dictionary_generation != names.generation()) {
            dictionary_names.assign(known, nullptr);
            dictionary_serial = serial;
            dictionary_generation = names.generation();
        }
        if (strings.capacity() < form.strings.size() + text_padding) {
            strings.clear();
            strings.reserve(form.strings.size() + form.strings.size() / 4 + text_padding);
        }
        if (survey(form.strings, strings.data()).good < form.strings.size())
            refuse_binary("a string has a character that XML does not allow");
        if (buffer.capacity() < form.text_bytes + 2 * text_padding) {
            buffer.clear();
            buffer.reserve(form.text_bytes + form.text_bytes / 4 + 2 * text_padding);
        }
        base = end = buffer.data();
        reserve_columns(std::max<size_t>(form.elements, form.texts) + 2);
        open_names.reserve(open.capacity());
    }

    // A form of this kind is for documents in UTF-8: of any other the text would not be the original.
    void check_declared_encoding() {
        size_t skipped = has_utf8_bom(document.source) ? bom_bytes : 0;
        XmlDeclaration found = parse_xml_declaration(document.source.substr(skipped));
        if (declared_encoding(found, Encoding::utf8, skipped > 0) != Encoding::utf8) refuse_binary("it declares another encoding");
    }

    // Finds the encoding, transcodes if needed, and fills the buffer.
    void take(std::string_view bytes) {
        bool marked = false;
        Encoding encoding = sniff_encoding(bytes, marked);
        if (encoding == Encoding::utf8) {
            size_t skipped = marked ? bom_bytes : 0;
            XmlDeclaration found;
            try {
                found = parse_xml_declaration(bytes.substr(skipped));
                encoding = declared_encoding(found, encoding, marked);
            } catch (Failure& failure) {
                failure.position += skipped;
                throw;
            }
            if (encoding != Encoding::utf8) transcode_all(bytes, encoding);
        // UTF-16: the declaration can only be read after transcoding.
        } else {
            transcode_all(bytes, encoding);
            size_t skipped = marked ? bom_bytes : 0;
            XmlDeclaration found;
            try {
                found = parse_xml_declaration(std::string_view(transcoded).substr(skipped));
                declared_encoding(found, encoding, marked);
            } catch (Failure& failure) {
                failure.position += skipped;
                throw;
            }
        }
        fill_buffer();
    }

    // Bytes that cannot be transcoded are not reported yet: a mistake before them should be reported first.
    void transcode_all(std::string_view bytes, Encoding encoding) {
        transcoded.clear();
        size_t taken = transcode(bytes, encoding, transcoded);
        if (transcoded.size() > document_bytes_most) {
            Failure failure = document_too_long(limits);
            failure.position = 0;
            throw failure;
        }
        document.source = transcoded;
        document.encoding = encoding;
        if (taken < bytes.size()) {
            problem.emplace(Family::document, "TC204", std::string("these bytes are not ") + encoding_label(encoding),
                            transcoded.size());
            problem->hint = "declare the encoding that the document is in, or convert it to UTF-8";
        }
    }

    // Copies the document in front of padding that every SIMD load may run into, and checks its characters on the way.
    void fill_buffer() {
        std::string_view source = document.source;
        if (buffer.capacity() < source.size() + text_padding) {
            buffer.clear();
            buffer.reserve(source.size() + source.size() / 4 + text_padding);
        }
        Survey seen = survey(source, buffer.data());
        if (seen.good < source.size()) {
            problem = bad_character(source, seen.good);
            // Everything from the bad character on reads as the end of the document.
            std::fill_n(buffer.data() + seen.good, std::min<size_t>(source.size() - seen.good, text_padding), '\0');
        }
        base = buffer.data();
        end = base + seen.good;
        reserve_columns(seen.tags + 1);
    }

    // The survey has counted the tags, so no column ever grows while the document is read.
    void reserve_columns(size_t tags) {
        Document& d = document;
        for (auto* column : {&d.name, &d.parent, &d.size, &d.start, &d.content, &d.end, &d.attribute_begin, &d.text_begin,
                             &d.text_end, &d.text_parent})
            column->reserve(tags);
        d.depth.reserve(tags);
        d.text.reserve(tags);
        open.reserve(std::min<size_t>(tags, limits.depth_max) + 1);
    }

    void parse() {
        const char* root = prolog();
        in_prolog = false;
// The instruction set is chosen at run time, so one build runs everywhere.
#if TREECAST_X86
        epilog(simd_level() >= Simd::avx2 ? level_avx2::read_content(*this, root) : level_scalar::read_content(*this, root));
#else
        epilog(level_scalar::read_content(*this, root));
#endif
    }
};

Reader::Reader(Limits limits, std::shared_ptr<const Entities> entities) {
    check_limits(limits);
    if (entities) check_entities(*entities);
    impl_ = std::make_unique<Impl>(limits, std::move(entities));
}

Reader::~Reader() = default;
Reader::Reader(Reader&&) noexcept = default;
Reader& Reader::operator=(Reader&&) noexcept = default;

// The length is checked before anything is allocated.
const Document& Reader::read(std::string_view bytes) {
    Interrupt::check(bytes.size());
    impl_->begin_document();
    if (bytes.size() > impl_->limits.document_bytes_max) throw document_too_long(impl_->limits);
    return impl_->with_room_for_names([&] { impl_->read(bytes); });
}

const Document& Reader::decode(std::string_view bytes, const WireDictionary* dictionary) {
    Interrupt::check(bytes.size());
    BinaryForm form = parse_binary(bytes);
    if (form.kind == BinaryKind::original) return read(form.text);
    impl_->begin_document();
    const WireDictionary* used = form.kind == BinaryKind::with_dictionary ? dictionary : nullptr;
    return impl_->with_room_for_names([&] { impl_->decode(form, used); });
}

void Reader::use(const Limits& limits, std::shared_ptr<const Entities> entities) {
    impl_->limits = limits;
    impl_->entities = std::move(entities);
}

const NameTable& Reader::names() const { return impl_->names; }
const Limits& Reader::limits() const { return impl_->limits; }

}  // namespace treecast
