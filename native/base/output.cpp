// Memory for results: malloc for small ones, mappings for large ones, of which some are kept for the next results.
#include "base/output.hpp"

#include "base/fork.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <sys/mman.h>
#include <unistd.h>

namespace treecast {

namespace {

constexpr size_t huge_page = 2u << 20, first_bytes = 4096, mapped_min = 64u << 10;
std::atomic<size_t> fresh_count{0};

// Released mappings are kept for the next results, up to `bytes_max`: the system clears fresh pages, which takes as long as finding
// what is written to them, and threads that ask it for pages wait for each other. What was given back last is kept, because who asks
// next mostly asks for the same sizes; mappings of sizes that nobody asks for any more leave first. Beyond a part of the machine's
// memory they are marked as free, so that the system takes them when it needs memory.
// PERF: bench/million.py, warm; bench/threads.py.
class Spare {
public:
    // The smallest spare mapping that has `bytes`, and not much more; empty if nothing fits.
    OutputMemory take(size_t bytes) {
        std::lock_guard lock(mutex_);
        OutputMemory* best = nullptr;
        for (size_t i = count_; i-- > 0;) {            // the last first: it may still be in a cache of the processor
            OutputMemory& memory = kept_[i];
            if (memory.mapped_bytes < bytes || memory.mapped_bytes / 4 > bytes) continue;
            if (!best || memory.mapped_bytes < best->mapped_bytes) best = &memory;
        }
        if (!best) return {};
        OutputMemory found = *best;
        total_ -= found.mapped_bytes;
        std::copy(best + 1, kept_.data() + count_, best);
        kept_[--count_] = {};
        return found;
    }
    bool keep(const OutputMemory& memory) {
        std::lock_guard lock(mutex_);
        if (memory.mapped_bytes > bytes_max_) return false;
        make_room(memory.mapped_bytes);
        if (total_ + memory.mapped_bytes > resident_max_ && madvise(memory.data, memory.mapped_bytes, MADV_FREE) != 0) return false;
        kept_[count_++] = memory;
        total_ += memory.mapped_bytes;
        return true;
    }
    size_t bytes() {
        std::lock_guard lock(mutex_);
        return total_;
    }

    void clear() {
        std::lock_guard lock(mutex_);
        for (size_t i = 0; i < count_; ++i) munmap(kept_[i].data, kept_[i].mapped_bytes);
        kept_ = {};
        count_ = total_ = 0;
    }
    void set_bytes_max(size_t bytes) {
        std::lock_guard lock(mutex_);
        bytes_max_ = std::min(bytes, bytes_most);
        make_room(0);
    }

private:
    // The oldest go, until so many bytes fit beside the others.
    void make_room(size_t bytes) {
        size_t gone = 0;
        for (; count_ - gone == count_max || total_ + bytes > bytes_max_; ++gone) {
            munmap(kept_[gone].data, kept_[gone].mapped_bytes);
            total_ -= kept_[gone].mapped_bytes;
        }
        if (!gone) return;
        std::copy(kept_.data() + gone, kept_.data() + count_, kept_.data());
        count_ -= gone;
    }
    static size_t machine_bytes() { return static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE)); }
    static constexpr size_t count_max = 256, bytes_most = 512u << 20, machine_part = 32;
    size_t bytes_max_ = bytes_most;
    const size_t resident_max_ = machine_bytes() / machine_part;
    MomentaryMutex mutex_{1};                        // results are given back while Matchers are
    // The oldest first. No vector: memory is given back by destructors, which must not fail.
    std::array<OutputMemory, count_max> kept_;
    size_t count_ = 0, total_ = 0;
};

Spare& spare() {
    alignas(Spare) static char place[sizeof(Spare)];
    static Spare* const only = new (place) Spare;   // never destroyed: Arrow may release results at the very end
    return *only;
}

// Few sizes, so that a spare mapping fits somebody: powers of two up to a huge page, then whole huge pages, of which there are
// four sizes for each power of two. What is not written to is never there.
size_t mapping_bytes(size_t bytes) {
    if (bytes < huge_page) return std::bit_ceil(bytes);
    const size_t step = std::max(huge_page, std::bit_floor(bytes) / 4);
    return (bytes + step - 1) / step * step;
}

void* map_fresh(size_t bytes) {
    // A huge page begins at a multiple of its size: more is mapped than asked for, and the ends are given back.
    size_t margin = bytes < huge_page ? 0 : huge_page;
    void* mapped = mmap(nullptr, bytes + margin, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    if (!margin) return mapped;
    char* begin = static_cast<char*>(mapped);
    size_t before = (huge_page - reinterpret_cast<uintptr_t>(begin) % huge_page) % huge_page;
    if (before) munmap(begin, before);
    munmap(begin + before + bytes, margin - before);
    madvise(begin + before, bytes, MADV_HUGEPAGE);
    return begin + before;
}

}  // namespace

void drop_spare_outputs() { spare().clear(); }

size_t spare_output_bytes() { return spare().bytes(); }

void set_spare_output_bytes_max(size_t bytes) { spare().set_bytes_max(bytes); }

size_t fresh_outputs() { return fresh_count.load(std::memory_order_relaxed); }

// May be called at the very end of the process, by Arrow. So it must neither fail nor allocate.
void OutputMemory::free() {
    if (!mapped_bytes)
        std::free(data);
    else if (mapped_bytes != lent && !spare().keep(*this))
        munmap(data, mapped_bytes);
    *this = {};
}

OutputMemory take_output(size_t& bytes) {
    bytes = std::max(bytes, first_bytes);
    if (bytes < mapped_min) {
        void* data = std::malloc(bytes);
        if (!data) throw std::bad_alloc();
        return {data, 0};
    }
    bytes = mapping_bytes(bytes);
    OutputMemory memory = spare().take(bytes);
    if (!memory.data) {
        memory = {map_fresh(bytes), bytes};
        fresh_count.fetch_add(1, std::memory_order_relaxed);
    }
    bytes = memory.mapped_bytes;
    return memory;
}

// Doubles, so that appending is linear. Large memory grows by mremap, which moves pages instead of copying bytes.
void grow_output(OutputMemory& memory, size_t used_bytes, size_t wanted_bytes, size_t& capacity_bytes) {
    size_t bytes = std::max({wanted_bytes, capacity_bytes * 2, first_bytes});
    bool is_mapped = memory.mapped_bytes && memory.mapped_bytes != OutputMemory::lent;
    if (bytes < mapped_min && !memory.mapped_bytes) {
        void* bigger = std::realloc(memory.data, bytes);
        if (!bigger) throw std::bad_alloc();
        memory.data = bigger;
    } else if (is_mapped && memory.mapped_bytes >= huge_page) {
        bytes = mapping_bytes(bytes);
        void* bigger = mremap(memory.data, memory.mapped_bytes, bytes, MREMAP_MAYMOVE);
        if (bigger == MAP_FAILED) throw std::bad_alloc();
        memory = {bigger, bytes};
    } else {
        OutputMemory bigger = take_output(bytes);
        if (used_bytes) std::memcpy(bigger.data, memory.data, used_bytes);
        memory.free();
        memory = bigger;
    }
    capacity_bytes = bytes;
}

}  // namespace treecast
