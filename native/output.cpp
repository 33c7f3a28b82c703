#include "output.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <sys/mman.h>

namespace treecast {

namespace {
constexpr size_t huge_page = 2u << 20, first_bytes = 4096;
}

void OutputMemory::free() {
    if (mapped_bytes)
        munmap(data, mapped_bytes);
    else
        std::free(data);
    *this = {};
}

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
        bigger = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (bigger == MAP_FAILED) throw std::bad_alloc();
        madvise(bigger, bytes, MADV_HUGEPAGE);
        if (used_bytes) std::memcpy(bigger, memory.data, used_bytes);
        std::free(memory.data);
    }
    memory = {bigger, bytes};
    capacity_bytes = bytes;
}

}  // namespace treecast
