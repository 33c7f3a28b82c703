// Lets the n-th allocation of C++ code fail, from a given moment on: preloaded by tests/test_memory_failures.py.
#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<long> left{0};       // allocations until one fails; 0: none does
std::atomic<long> seen{0};

void* allocate(std::size_t bytes, std::size_t alignment = 0) {
    ++seen;
    if (left.load() > 0 && --left == 0) return nullptr;
    if (!bytes) bytes = 1;
    return alignment ? std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment) : std::malloc(bytes);
}

void* or_throw(void* memory) {
    if (!memory) throw std::bad_alloc();
    return memory;
}

}  // namespace

extern "C" void fail_allocation(long number) {
    seen = 0;
    left = number;
}
extern "C" long allocations() { return seen; }

void* operator new(std::size_t bytes) { return or_throw(allocate(bytes)); }
void* operator new[](std::size_t bytes) { return or_throw(allocate(bytes)); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes); }
void* operator new(std::size_t bytes, std::align_val_t at) { return or_throw(allocate(bytes, static_cast<std::size_t>(at))); }
void* operator new[](std::size_t bytes, std::align_val_t at) { return or_throw(allocate(bytes, static_cast<std::size_t>(at))); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
