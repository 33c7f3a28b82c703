// Documents that were looked at, and will be looked at again soon: a broker routes what comes, and serves its own subscribers
// when that has left.
//
// Theory of operation. A document is not copied, as a KeptDocument is: its columns and its text are exchanged for others that a
// reader may write to. These come from a pool of the process, so that no memory is asked for from one message to the next. Names
// stay with the reader, which goes back to its own pool in between. Whoever looks again asks for a reader with that table of
// names, and finds nothing if there is none: then the document is read once more.
// PERF: bench/network_frame.py, passes on and delivers.
#pragma once

#include "document/document.hpp"
#include "document/kept.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace treecast {

class DocumentStash {
public:
    DocumentStash() = default;
    DocumentStash(const DocumentStash&) = delete;
    DocumentStash& operator=(const DocumentStash&) = delete;
    ~DocumentStash();

    // What the reader has read last, under a number; unless it cannot outlive the reader's next document.
    void add(size_t number, KeptReader& reader, const Document& read);
    // By number, if it was added, and the table of names is the one that it was read with.
    const Document* find(size_t number, const NameTable& names) const;
    // Of the names of those that were added; 0: there are none.
    uint64_t generation() const { return generation_; }

    struct Place {
        Document document;
        Column<char> text;
    };

private:
    std::vector<std::unique_ptr<Place>> places_;   // by number; null: nothing was added
    uint64_t generation_ = 0;
};

}  // namespace treecast
