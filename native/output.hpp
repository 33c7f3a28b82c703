// A growing array of plain numbers, handed over to Arrow when it is done.
//
// Small ones come from malloc. From `mapped_bytes` on they are mapped on their own, in huge pages where the system has
// them, and grow by mremap: touching fresh memory 4 KiB at a time, or copying it, costs more than matching does.
// PERF: bench/million.py, warm.
#pragma once

#include <cstddef>
#include <cstdint>

namespace treecast {

// The memory of an Output after it was released.
struct OutputMemory {
    void* data = nullptr;
    size_t mapped_bytes = 0;        // 0: from malloc
    void free();
};

void drop_spare_outputs();          // gives back what is kept for the next results, up to 64 MiB a process

void grow_output(OutputMemory& memory, size_t used_bytes, size_t wanted_bytes, size_t& capacity_bytes);

template <class T>
class Output {
public:
    Output() = default;
    Output(Output&& other) noexcept : memory_(other.memory_), size_(other.size_), capacity_(other.capacity_) { other.forget(); }
    Output& operator=(Output&&) = delete;
    ~Output() { memory_.free(); }
    T* data() { return static_cast<T*>(memory_.data); }
    size_t size() const { return size_; }
    T* room(size_t count) {         // space for `count` more; what was written there is kept by added()
        if (size_ + count > capacity_) {
            size_t bytes = capacity_ * sizeof(T);
            grow_output(memory_, size_ * sizeof(T), (size_ + count) * sizeof(T), bytes);
            capacity_ = bytes / sizeof(T);
        }
        return data() + size_;
    }
    void added(size_t count) { size_ += count; }
    OutputMemory release() {
        OutputMemory memory = memory_;
        forget();
        return memory;
    }

private:
    void forget() {
        memory_ = {};
        size_ = capacity_ = 0;
    }
    OutputMemory memory_;
    size_t size_ = 0, capacity_ = 0;
};

}  // namespace treecast
