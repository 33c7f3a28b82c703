// A growing array of plain numbers, handed over to Arrow when it is done.
//
// Small ones come from malloc. Larger ones are mapped on their own, in huge pages where the system has them, and grow by mremap:
// touching fresh memory 4 KiB at a time, or copying it, costs more than matching does. What is given back is kept for the
// next results as it is, with its pages: several threads that ask the system for pages wait for each other.
// PERF: bench/million.py, warm; bench/threads.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>

namespace treecast {

// The memory of an Output after it was released.
struct OutputMemory {
    void* data = nullptr;
    size_t mapped_bytes = 0;        // 0: from malloc
    static constexpr size_t lent = ~size_t(0);       // in place of mapped_bytes: somebody else's
    void free();
};

// At least `bytes` of memory that is its own: `bytes` becomes how many there are.
OutputMemory take_output(size_t& bytes);

void drop_spare_outputs();          // gives back what is kept for the next results: see output.cpp
size_t spare_output_bytes();
// For tests: how much is kept at most, which never is more than 512 MiB; and how often the system was asked for a mapping.
void set_spare_output_bytes_max(size_t bytes);
size_t fresh_outputs();

void grow_output(OutputMemory& memory, size_t used_bytes, size_t wanted_bytes, size_t& capacity_bytes);

template <class T>
class Output {
public:
    Output() = default;
    Output(Output&& other) noexcept : memory_(other.memory_), size_(other.size_), capacity_(other.capacity_) { other.forget(); }
    Output& operator=(Output&& other) noexcept {
        std::swap(memory_, other.memory_);
        std::swap(size_, other.size_);
        std::swap(capacity_, other.capacity_);
        return *this;
    }
    ~Output() { memory_.free(); }
    T* data() { return static_cast<T*>(memory_.data); }
    const T* data() const { return static_cast<const T*>(memory_.data); }
    size_t size() const { return size_; }
    T* room(size_t count) {         // space for `count` more; what was written there is kept by added()
        if (size_ + count > capacity_) {
            size_t bytes = capacity_ * sizeof(T);
            grow_output(memory_, size_ * sizeof(T), (size_ + count) * sizeof(T), bytes);
            capacity_ = bytes / sizeof(T);
        }
        return data() + size_;
    }
    // Begins in memory of somebody else; what does not fit there goes to memory of its own.
    void lend(T* memory, size_t capacity) {
        memory_.free();
        memory_ = {memory, OutputMemory::lent};
        size_ = 0;
        capacity_ = capacity;
    }
    void added(size_t count) { size_ += count; }
    void cut(size_t size) { size_ = size; }        // to what was there before
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

// Text that grows at its end, for those who build what Arrow gets.
class Bytes : public Output<char> {
public:
    void append(const char* from, size_t count) {
        if (!count) return;
        std::memcpy(room(count), from, count);
        added(count);
    }
    void append_own(size_t begin, size_t count) {  // once more what is there already
        if (!count) return;
        char* to = room(count);
        std::memcpy(to, data() + begin, count);
        added(count);
    }
    Bytes& operator+=(std::string_view text) {
        append(text.data(), text.size());
        return *this;
    }
    Bytes& operator+=(char c) {
        *room(1) = c;
        added(1);
        return *this;
    }
    std::string_view view(size_t begin, size_t count) const { return {data() + begin, count}; }
};

}  // namespace treecast
