// Matches as an Arrow stream: one record batch (document: int64, subscription: dictionary<int32, utf8>) per MatchPiece.
// The dictionary is the index's own array of ids, shared, not copied. The structs are those of Arrow's C data interface.
#pragma once

#include "index/index.hpp"

#include <cstdint>
#include <memory>

struct ArrowSchema {
    const char* format;
    const char* name;
    const char* metadata;
    int64_t flags;
    int64_t n_children;
    ArrowSchema** children;
    ArrowSchema* dictionary;
    void (*release)(ArrowSchema*);
    void* private_data;
};

struct ArrowArray {
    int64_t length;
    int64_t null_count;
    int64_t offset;
    int64_t n_buffers;
    int64_t n_children;
    const void** buffers;
    ArrowArray** children;
    ArrowArray* dictionary;
    void (*release)(ArrowArray*);
    void* private_data;
};

struct ArrowArrayStream {
    int (*get_schema)(ArrowArrayStream*, ArrowSchema* out);
    int (*get_next)(ArrowArrayStream*, ArrowArray* out);
    const char* (*get_last_error)(ArrowArrayStream*);
    void (*release)(ArrowArrayStream*);
    void* private_data;
};

namespace treecast {

// Moves what was found into a stream that the consumer releases.
void export_matches(const Batch& batch, ArrowArrayStream* out);

}  // namespace treecast
