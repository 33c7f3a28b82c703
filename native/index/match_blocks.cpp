// Fills blocks with matches, one document after the other.
#include "index/match_blocks.hpp"

#include "base/cpu.hpp"

#include <algorithm>

#if TREECAST_X86
#include <emmintrin.h>
#endif

namespace treecast {

namespace {

constexpr size_t streamed_min = 4u << 20;      // bytes of a block that do not stay in the caches of one core

// PERF: bench/yfilter.py, later passes. Numbers of documents are two thirds of what is written. In a large block they are out of
// the caches before anybody reads them, so they are written past these: the memory need not be read first.
void fill_numbers(int64_t* to, size_t count, int64_t number, bool streamed) {
#if TREECAST_X86
    if (streamed) {
        int64_t* const end = to + count;
        if (count && reinterpret_cast<uintptr_t>(to) % 16) *to++ = number;
        const __m128i pair = _mm_set1_epi64x(number);
        for (; end - to >= 2; to += 2) _mm_stream_si128(reinterpret_cast<__m128i*>(to), pair);
        if (to != end) *to = number;
        _mm_sfence();
        return;
    }
#endif
    static_cast<void>(streamed);
    std::fill_n(to, count, number);
}

}  // namespace

void add_piece(std::vector<MatchPiece>& pieces, const MatchPiece& piece) {
    if (!pieces.empty() && pieces.back().block == piece.block && pieces.back().end == piece.begin)
        pieces.back().end = piece.end;
    else
        pieces.push_back(piece);
}

MatchWriter::MatchWriter(size_t matches, size_t parts, size_t bytes_max)
    : bytes_(std::min(matches / parts * MatchBlock::match_bytes, bytes_max)) {}

// The document before says how much room this one may need. If it needs more, it goes on elsewhere, and end() copies it.
Output<int32_t>& MatchWriter::begin() {
    size_t wanted = last_ + last_ / 8;
    if (block_ && block_->capacity() - used_ < wanted) {
        block_ = std::make_shared<MatchBlock>(std::max(bytes_, 4 * wanted * MatchBlock::match_bytes));
        used_ = 0;
    }
    if (block_)
        out_.lend(block_->slots() + used_, block_->capacity() - used_);
    else
        out_.lend(nullptr, 0);
    return out_;
}

size_t MatchWriter::end(int64_t document, std::vector<MatchPiece>& pieces) {
    const size_t count = last_ = out_.size();
    if (!count) return 0;
    if (!block_ || out_.data() != block_->slots() + used_) {
        // A block that was too small is followed by one of twice its size; `bytes_` says how large they may become.
        size_t bytes = block_ ? std::min(2 * block_->capacity() * MatchBlock::match_bytes, size_t(2) << 20) : 0;
        block_ = std::make_shared<MatchBlock>(std::max({bytes_, bytes, count * MatchBlock::match_bytes}));
        used_ = 0;
        std::copy(out_.data(), out_.data() + count, block_->slots());
    }
    fill_numbers(block_->documents() + used_, count, document, block_->capacity() * MatchBlock::match_bytes >= streamed_min);
    add_piece(pieces, {block_, used_, used_ + count});
    used_ += count;
    return count;
}

}  // namespace treecast
