// Memory for results: malloc for small ones, huge pages for large ones, and a few spare mappings for the next results.
#include "base/output.hpp"

#include "base/fork.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <sys/mman.h>

namespace treecast {

namespace {

constexpr size_t huge_page = 2u << 20, first_bytes = 4096;

// A few released mappings are kept for the next results: the system clears fresh pages, which costs as much as finding what is
// written to them. They are marked as free, so the system takes them back when it needs memory. PERF: bench/million.py, warm.
class Spare {
public:
    // The smallest spare mapping that has `bytes`; empty if nothing fits.
    OutputMemory take(size_t bytes) {
        std::lock_guard lock(mutex_);
        OutputMemory* best = nullptr;
        for (OutputMemory& memory : kept_)
            if (memory.mapped_bytes >= bytes && (!best || memory.mapped_bytes < best->mapped_bytes)) best = &memory;
        if (!best) return {};
        OutputMemory found = *best;
        total_ -= found.mapped_bytes;
        *best = kept_[--count_];
        kept_[count_] = {};
        return found;
    }
    bool keep(const OutputMemory& memory) {
        if (memory.mapped_bytes > bytes_max || madvise(memory.data, memory.mapped_bytes, MADV_FREE) != 0) return false;
        std::lock_guard lock(mutex_);
        if (count_ == count_max || total_ + memory.mapped_bytes > bytes_max) return false;
        kept_[count_++] = memory;
        total_ += memory.mapped_bytes;
        return true;
    }

    void clear() {
        std::lock_guard lock(mutex_);
        for (size_t i = 0; i < count_; ++i) munmap(kept_[i].data, kept_[i].mapped_bytes);
        kept_ = {};
        count_ = total_ = 0;
    }

private:
    static constexpr size_t count_max = 8, bytes_max = 64u << 20;
    MomentaryMutex mutex_{1};                        // results are given back while Matchers are
    std::array<OutputMemory, count_max> kept_;       // no vector: memory is given back by destructors, which must not fail
    size_t count_ = 0, total_ = 0;
};

Spare& spare() {
    alignas(Spare) static char place[sizeof(Spare)];
    static Spare* const only = new (place) Spare;   // never destroyed: Arrow may release results at the very end
    return *only;
}

}  // namespace

void drop_spare_outputs() { spare().clear(); }

// May be called at the very end of the process, by Arrow. So it must neither fail nor allocate.
void OutputMemory::free() {
    if (!mapped_bytes)
        std::free(data);
    else if (!spare().keep(*this))
        munmap(data, mapped_bytes);
    *this = {};
}

// Doubles, so that appending is linear. Large memory grows by mremap, which moves pages instead of copying bytes.
void grow_output(OutputMemory& memory, size_t used_bytes, size_t wanted_bytes, size_t& capacity_bytes) {
    size_t bytes = std::max({wanted_bytes, capacity_bytes * 2, first_bytes});
    if (bytes < 2 * huge_page) {
        void* bigger = std::realloc(memory.data, bytes);
        if (!bigger) throw std::bad_alloc();
        memory.data = bigger;
        capacity_bytes = bytes;
        return;
    }
    bytes = (bytes + huge_page - 1) & ~(huge_page - 1);
    void* bigger;
    if (memory.mapped_bytes) {
        bigger = mremap(memory.data, memory.mapped_bytes, bytes, MREMAP_MAYMOVE);
        if (bigger == MAP_FAILED) throw std::bad_alloc();
    } else {
        OutputMemory found = spare().take(bytes);
        bigger = found.data;
        if (bigger) {
            bytes = found.mapped_bytes;
        } else {
            bigger = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (bigger == MAP_FAILED) throw std::bad_alloc();
            madvise(bigger, bytes, MADV_HUGEPAGE);
        }
        if (used_bytes) std::memcpy(bigger, memory.data, used_bytes);
        std::free(memory.data);
    }
    memory = {bigger, bytes};
    capacity_bytes = bytes;
}

}  // namespace treecast
