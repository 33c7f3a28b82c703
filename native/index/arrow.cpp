// Matches as an Arrow C stream: columns for document numbers and slots, with the ids as dictionary.
//
// Ownership follows the Arrow C data interface. Buffers are handed over or shared, so a million matches cost no copy.
#include "index/arrow.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

namespace treecast {

namespace {

constexpr int64_t flag_nullable = 2;

// Schemas and arrays are small trees. Each part owns its children and frees them, as the interface requires.
struct SchemaPart {
    ArrowSchema* children[2] = {nullptr, nullptr};
    ArrowSchema* dictionary = nullptr;
};

template <class T>
void release_child(T* child) {
    if (!child) return;
    if (child->release) child->release(child);
    delete child;
}

// The Arrow C interface: the importer of a structure calls its release() once, and children go with their parent.
void release_schema(ArrowSchema* schema) {
    auto* part = static_cast<SchemaPart*>(schema->private_data);
    for (ArrowSchema* child : part->children) release_child(child);
    release_child(part->dictionary);
    delete part;
    schema->release = nullptr;
}

SchemaPart* fill_schema(ArrowSchema* schema, const char* format, const char* name) {
    auto* part = new SchemaPart;
    *schema = {format, name, nullptr, flag_nullable, 0, part->children, nullptr, release_schema, part};
    return part;
}

// A struct of two columns: `l` is int64, `i` is int32 with a dictionary of `u`, UTF-8 strings.
void matches_schema(ArrowSchema* out) {
    SchemaPart* top = fill_schema(out, "+s", "");
    out->n_children = 2;
    out->flags = 0;
    fill_schema(top->children[0] = new ArrowSchema{}, "l", "document");
    SchemaPart* subscription = fill_schema(top->children[1] = new ArrowSchema{}, "i", "subscription");
    fill_schema(subscription->dictionary = new ArrowSchema{}, "u", "");
    top->children[1]->dictionary = subscription->dictionary;
}

struct ArrayPart {
    const void* buffers[3] = {nullptr, nullptr, nullptr};
    ArrowArray* children[2] = {nullptr, nullptr};
    ArrowArray* dictionary = nullptr;
    std::shared_ptr<const void> owner;              // of the buffers, kept alive by the part
};

void release_array(ArrowArray* array) {
    auto* part = static_cast<ArrayPart*>(array->private_data);
    for (ArrowArray* child : part->children) release_child(child);
    release_child(part->dictionary);
    delete part;
    array->release = nullptr;
}

ArrayPart* fill_array(ArrowArray* array, size_t length, int buffers) {
    auto* part = new ArrayPart;
    *array = {static_cast<int64_t>(length), 0, 0, buffers, 0, part->buffers, part->children, nullptr, release_array, part};
    return part;
}

// The matches are not copied: the columns are those of the block, and the ids of the View are the dictionary.
void export_piece(const MatchPiece& piece, const std::shared_ptr<const View>& view, ArrowArray* out) {
    static const int32_t no_ids[1] = {0};
    ArrayPart* top = fill_array(out, piece.size(), 1);
    out->n_children = 2;
    ArrayPart* column = fill_array(top->children[0] = new ArrowArray{}, piece.size(), 2);
    column->buffers[1] = piece.documents();
    column->owner = piece.block;
    column = fill_array(top->children[1] = new ArrowArray{}, piece.size(), 2);
    column->buffers[1] = piece.slots().data();
    column->owner = piece.block;
    ArrayPart* ids = fill_array(column->dictionary = new ArrowArray{}, view->slots, 3);
    ids->owner = view;
    ids->buffers[1] = view->slots ? view->id_ends.get() : no_ids;
    ids->buffers[2] = view->slots ? view->id_bytes.get() : static_cast<const void*>(no_ids);
    top->children[1]->dictionary = column->dictionary;
}

struct Stream {
    std::vector<MatchPiece> pieces;
    std::shared_ptr<const View> view;
    size_t next = 0;
};

// If memory runs out, releases what was begun of a schema or an array.
template <class T, class Fill>
int fill_or_clear(T* out, Fill&& fill) {
    std::memset(static_cast<void*>(out), 0, sizeof *out);
    try {
        fill();
        return 0;
    } catch (const std::bad_alloc&) {
        if (out->release) out->release(out);
        return ENOMEM;
    }
}

// An array without release() marks the end of the stream.
int next_batch(ArrowArrayStream* stream, ArrowArray* out) {
    auto* state = static_cast<Stream*>(stream->private_data);
    if (state->next == state->pieces.size()) {
        std::memset(out, 0, sizeof *out);           // the end
        return 0;
    }
    return fill_or_clear(out, [&] { export_piece(state->pieces[state->next++], state->view, out); });
}

}  // namespace

void export_matches(const Batch& batch, ArrowArrayStream* out) {
    out->private_data = new Stream{batch.pieces(), batch.view};
    out->get_schema = [](ArrowArrayStream*, ArrowSchema* schema) {
        return fill_or_clear(schema, [&] { matches_schema(schema); });
    };
    out->get_next = next_batch;
    out->get_last_error = [](ArrowArrayStream*) -> const char* { return "out of memory"; };
    out->release = [](ArrowArrayStream* stream) {
        delete static_cast<Stream*>(stream->private_data);
        stream->release = nullptr;
    };
}

}  // namespace treecast
