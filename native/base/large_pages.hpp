// Memory for arrays that are looked into at random: hash tables, the states of automata. Once an array is larger than the caches
// it gets large pages, so that a look costs one miss and not two, and growing costs few page faults.
//
// Use it where the number of entries has no small limit; small arrays gain nothing. A system without large pages ignores it.
#pragma once

#include <cstddef>
#include <new>
#include <sys/mman.h>

namespace treecast {

inline constexpr size_t large_page = 2u << 20;

// PERF: bench/growth.py, distinct names; bench/shapes.py, contains() of attributes: 3 MB of states grew 1.7-fold without, 1.5 with.
// Memory begins and ends with a large page; otherwise most of an array of a few megabytes would lie in small ones.
// What is smaller is aligned as asked for.
inline void* allocate_large(size_t bytes, size_t alignment = __STDCPP_DEFAULT_NEW_ALIGNMENT__) {
    if (bytes < large_page) return ::operator new(bytes, std::align_val_t(alignment));
    size_t whole = (bytes + large_page - 1) / large_page * large_page;
    if (whole < bytes) throw std::bad_alloc();
    void* memory = ::operator new(whole, std::align_val_t(large_page));
    madvise(memory, whole, MADV_HUGEPAGE);      // the answer does not matter
    return memory;
}

inline void free_large(void* memory, size_t bytes, size_t alignment = __STDCPP_DEFAULT_NEW_ALIGNMENT__) noexcept {
    ::operator delete(memory, std::align_val_t(bytes < large_page ? alignment : large_page));
}

// For vectors.
template <class T>
struct LargePages {
    using value_type = T;
    static constexpr size_t alignment = alignof(T) > __STDCPP_DEFAULT_NEW_ALIGNMENT__ ? alignof(T) : __STDCPP_DEFAULT_NEW_ALIGNMENT__;
    LargePages() = default;
    template <class U>
    LargePages(const LargePages<U>&) {}

    T* allocate(size_t count) { return static_cast<T*>(allocate_large(count * sizeof(T), alignment)); }
    void deallocate(T* memory, size_t count) noexcept { free_large(memory, count * sizeof(T), alignment); }
    bool operator==(const LargePages&) const = default;
};

}  // namespace treecast
