// Where the threads of a batch write what they find: blocks with both columns of the answer, which Arrow gets as they are.
//
// Each thread fills blocks of its own, one document after the other, so nothing is joined or copied afterwards. Neighbouring
// documents of a thread are neighbours in its block and become one record batch. The memory comes from what earlier results
// have given back (base/output.hpp).
#pragma once

#include "base/output.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace treecast {

// Room for so many matches: the number of the document, and the slot of the subscription.
class MatchBlock {
public:
    static constexpr size_t match_bytes = sizeof(int64_t) + sizeof(int32_t);
    explicit MatchBlock(size_t bytes) : memory_(take_output(bytes)), capacity_(bytes / match_bytes) {}
    ~MatchBlock() { memory_.free(); }
    MatchBlock(const MatchBlock&) = delete;
    size_t capacity() const { return capacity_; }
    int64_t* documents() const { return static_cast<int64_t*>(memory_.data); }
    int32_t* slots() const { return reinterpret_cast<int32_t*>(documents() + capacity_); }

private:
    OutputMemory memory_;
    const size_t capacity_;
};

// Neighbouring matches in a block.
struct MatchPiece {
    std::shared_ptr<const MatchBlock> block;
    size_t begin, end;
    size_t size() const { return end - begin; }
    std::span<const int32_t> slots() const { return {block->slots() + begin, size()}; }
    const int64_t* documents() const { return block->documents() + begin; }
};

// Puts a piece behind others, as part of the last one where they are neighbours.
void add_piece(std::vector<MatchPiece>& pieces, const MatchPiece& piece);

// One thread's.
class MatchWriter {
public:
    // `matches`: how many are expected. A block is for a part of them: what is not used of the last one is wasted.
    MatchWriter(size_t matches, size_t parts, size_t bytes_max);
    // Begins a document: its slots are to be appended to this. Without end() they are forgotten.
    Output<int32_t>& begin();
    // Keeps them, and answers with their number.
    size_t end(int64_t document, std::vector<MatchPiece>& pieces);

private:
    size_t bytes_;                              // of the next block
    size_t used_ = 0, last_ = 0;                // of the block; by the last document
    std::shared_ptr<MatchBlock> block_;
    Output<int32_t> out_;
};

}  // namespace treecast
