// The columns of a document, the table of expanded names, and offsets in the bytes as given.
#include "document/document.hpp"

#include <algorithm>
#include <atomic>

namespace treecast {

// Bump allocation in blocks: views stay valid because blocks never move.
std::string_view StringArena::keep(std::string_view text) {
    if (text.size() > room_) {
        size_t block = std::max<size_t>(text.size(), 4096);
        blocks_.push_back(std::make_unique<char[]>(block));
        free_ = blocks_.back().get();
        room_ = block;
        bytes_ += block;
    }
    if (!text.empty()) std::memcpy(free_, text.data(), text.size());
    std::string_view kept(free_, text.size());
    free_ += text.size();
    room_ -= text.size();
    return kept;
}

void StringArena::reset() {
    blocks_.clear();
    free_ = nullptr;
    room_ = bytes_ = 0;
}

namespace {

// Generations are unique in the process, so a cached id can never be mistaken for one of another table.
uint64_t next_generation() {
    static std::atomic<uint64_t> last{0};
    return ++last;
}

}  // namespace

// URI 0 is the empty one: names in no namespace.
NameTable::NameTable() : generation_(next_generation()) { intern_uri(""); }

// Ids are dense and never reused within a generation.
uint32_t NameTable::intern_uri(std::string_view uri) {
    uint64_t hash = hash_bytes(uri);
    uint32_t id = uri_slots_.find(hash, [&](uint32_t other) { return uris_[other] == uri; });
    if (id != IdSlots::empty) return id;
    uri_slots_.reserve_next([&](uint32_t earlier) { return hash_bytes(uris_[earlier]); });
    uris_.push_back(strings_.keep(uri));
    return uri_slots_.add_next(hash);
}

// A name is its URI and its local part. The URI id seeds the hash, so equal local parts in many namespaces spread out.
uint32_t NameTable::intern(uint32_t uri_id, std::string_view local) {
    uint64_t hash = hash_bytes(local, uri_id + 1);
    uint32_t id = slots_.find(
        hash, [&](uint32_t other) { return entries_[other].uri == uri_id && entries_[other].local == local; });
    if (id != IdSlots::empty) return id;
    slots_.reserve_next([&](uint32_t earlier) { return hash_bytes(entries_[earlier].local, entries_[earlier].uri + 1); });
    entries_.push_back({uri_id, strings_.keep(local)});
    return slots_.add_next(hash);
}

uint32_t NameTable::find_uri(std::string_view uri) const {
    return uri_slots_.find(hash_bytes(uri), [&](uint32_t other) { return uris_[other] == uri; });
}

uint32_t NameTable::find(std::string_view uri, std::string_view local) const {
    uint32_t uri_id = find_uri(uri);
    if (uri_id == none) return none;
    return slots_.find(hash_bytes(local, uri_id + 1), [&](uint32_t other) {
        return entries_[other].uri == uri_id && entries_[other].local == local;
    });
}

size_t NameTable::bytes() const {
    return strings_.bytes() + entries_.capacity() * sizeof(Entry) + uris_.capacity() * sizeof(std::string_view) +
           uri_slots_.bytes() + slots_.bytes();
}

// Ids start again from 0, so the table gets a new generation and every cache of ids becomes invalid.
void NameTable::reset() {
    std::vector<Entry, LargePages<Entry>>().swap(entries_);
    std::vector<std::string_view>().swap(uris_);
    strings_.reset();
    uri_slots_.reset();
    slots_.reset();
    intern_uri("");
    generation_ = next_generation();
}

namespace {

// The list of all columns in one place: a column missing here would leak from one document into the next.
// Given several documents, `action` gets the same column of each.
template <class Action, class... Documents>
void each_column(Action action, Documents&... d) {
    action(d.name...), action(d.parent...), action(d.size...), action(d.start...), action(d.content...), action(d.end...);
    action(d.depth...), action(d.attribute_begin...), action(d.text_begin...), action(d.text_end...);
    action(d.attribute_name...), action(d.attribute_value...), action(d.text_parent...), action(d.text...);
    action(d.declarations...), action(d.references...);
}

// Bytes of a column in a block, so that the next one is aligned.
template <class T>
size_t block_bytes(const Column<T>& column) {
    constexpr size_t alignment = 8;
    static_assert(alignof(T) <= alignment);
    return (column.size() * sizeof(T) + alignment - 1) / alignment * alignment;
}

constexpr size_t mark_bytes = 1024;

// Code units of the original that a run of UTF-8 came from: one per character, two above U+FFFF in UTF-16.
uint32_t units(std::string_view utf8, bool utf16) {
    uint32_t count = 0;
    for (unsigned char byte : utf8) count += ((byte & 0xC0) != 0x80) + (utf16 && byte >= 0xF0);
    return count;
}

}  // namespace

// Keeps the memory for the next document.
void Document::clear() {
    each_column([](auto& column) { column.clear(); }, *this);
    source = original = {};
    encoding = Encoding::utf8;
    decoded.clear();
    has_marks = false;
    offset_marks_.clear();
}

// Gives the memory back as well, for readers that have seen a very large document.
void Document::release() {
    clear();
    each_column([](auto& column) { column.release(); }, *this);
    std::string().swap(decoded);
    std::vector<uint32_t>().swap(offset_marks_);
}

// One allocation instead of one for each column: most documents are small.
void Document::copy_from(const Document& other, bool copies_text, std::unique_ptr<char[]>& memory) {
    bool is_transcoded = other.source.data() != other.original.data();
    size_t text_bytes = copies_text || is_transcoded ? other.source.size() : 0, bytes = text_bytes;
    each_column([&](const auto& column) { bytes += block_bytes(column); }, other);
    memory = std::make_unique_for_overwrite<char[]>(bytes);
    char* at = memory.get();
    each_column([&](auto& mine, const auto& theirs) {
        using Item = std::remove_cvref_t<decltype(mine[0])>;
        if (theirs.size()) std::memcpy(at, theirs.data(), theirs.size() * sizeof(Item));
        mine.look_at(reinterpret_cast<Item*>(at), theirs.size());
        at += block_bytes(theirs);
    }, *this, other);
    if (text_bytes) std::memcpy(at, other.source.data(), text_bytes);
    source = text_bytes ? std::string_view(at, text_bytes) : other.source;
    original = copies_text ? source : other.original;
    encoding = copies_text ? Encoding::utf8 : other.encoding;
    decoded = other.decoded;
    has_marks = other.has_marks;
    names = other.names;
    // Several threads may look at it from now on, so nothing is left to be made when it is first needed.
    if (is_transcoded && !copies_text) original_offset(0);
}

// Counts code units from the nearest mark. Marks are made on first use, because only errors and explanations need them.
uint64_t Document::transcoded_offset(uint32_t source_offset) const {
    bool utf16 = encoding == Encoding::utf16_le || encoding == Encoding::utf16_be;
    if (offset_marks_.empty()) {
        uint32_t total = 0;
        for (size_t at = 0; at <= source.size(); at += mark_bytes) {
            offset_marks_.push_back(total);
            total += units(source.substr(at, mark_bytes), utf16);
        }
    }
    size_t mark = source_offset / mark_bytes;
    uint32_t count = offset_marks_[mark] + units(source.substr(mark * mark_bytes, source_offset % mark_bytes), utf16);
    return static_cast<uint64_t>(count) * (utf16 ? 2 : 1);
}

}  // namespace treecast
