// An allocator for vectors that are looked into at random: hash tables above all. It asks for large pages once a table is larger
// than the caches, so that a look costs one miss and not two, and growing costs few page faults.
//
// Use it where the number of entries has no small limit; small vectors gain nothing. A system without large pages ignores it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <sys/mman.h>

namespace treecast {

// PERF: bench/growth.py, distinct names.
template <class T>
struct LargePages {
    using value_type = T;
    LargePages() = default;
    template <class U>
    LargePages(const LargePages<U>&) {}

    T* allocate(size_t count) {
        void* memory = ::operator new(count * sizeof(T));
        if (count * sizeof(T) >= bytes_min) {
            // What is asked for must begin and end with a page. The answer does not matter.
            uintptr_t begin = (reinterpret_cast<uintptr_t>(memory) + page - 1) / page * page;
            uintptr_t end = (reinterpret_cast<uintptr_t>(memory) + count * sizeof(T)) / page * page;
            madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
        }
        return static_cast<T*>(memory);
    }
    void deallocate(T* memory, size_t) noexcept { ::operator delete(memory); }
    bool operator==(const LargePages&) const = default;

private:
    static constexpr size_t bytes_min = 4u << 20;
    static constexpr uintptr_t page = 4096;
};

}  // namespace treecast
