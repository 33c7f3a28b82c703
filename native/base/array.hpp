// The arrays that an index is made of: plain numbers in a row, so that a saved index *is* these arrays.
//
// An Array owns its memory or looks into a mapped file. Readers may share the memory while one writer appends: growing moves
// the array and leaves the old memory to those who hold it. A mapped file is mapped privately, so writing to an element copies
// a page. Behind a large array of a file there is room to grow; beyond that, growing copies the array out of the file.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "base/large_pages.hpp"

namespace treecast {

// Of this thread: what arrays that grew or shrank have copied.
inline uint64_t& array_bytes_copied() {
    static thread_local constinit uint64_t bytes = 0;
    return bytes;
}

// Counting who holds something takes longer than looking whether it is held already.
template <class Held, class Now>
void hold(std::shared_ptr<Held>& held, const std::shared_ptr<Now>& now) noexcept {
    if (held != now) held = now;
}

template <class T>
class Array {
    static_assert(std::is_trivially_copyable_v<T>);

public:
    using value_type = T;
    Array() = default;
    Array(const std::vector<T>& items) { append(items.data(), items.size()); }

    size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    T* data() { return data_.get(); }
    const T* data() const { return data_.get(); }
    T& operator[](size_t i) { return data_[i]; }
    const T& operator[](size_t i) const { return data_[i]; }
    T& back() { return data_[size_ - 1]; }
    const T* begin() const { return data(); }
    const T* end() const { return data() + size_; }
    T* begin() { return data(); }
    T* end() { return data() + size_; }

    void push(const T& value) {
        T copy = value;             // it may lie in this array
        append(&copy, 1);
    }
    void append(const T* values, size_t count) {
        reserve(size_ + count);
        std::copy(values, values + count, data_.get() + size_);
        size_ += count;
    }
    void resize(size_t size, const T& value) {
        reserve(size);
        if (size > size_) std::fill(data_.get() + size_, data_.get() + size, value);
        written_ = std::max(written_, size_);
        size_ = size;
    }
    void assign(size_t size, const T& value) {
        Array other;                // if there is no memory for it, this one stays as it is
        other.resize(size, value);
        *this = std::move(other);
    }
    bool has_room(size_t wanted) const { return wanted <= capacity_; }
    void reserve(size_t wanted) {
        // Grows by a quarter: copying is cheap compared with the rest of an index, and half-empty arrays are not. A large one grows by
        // half, as pages that nobody has written to take no memory: so an addition seldom has to copy it.
        if (wanted > capacity_) relocate(std::max<size_t>(wanted, capacity_ + capacity_ / (is_large(capacity_) ? 2 : 4) + 16));
    }
    void shrink() {
        if (capacity_ > size_ && !is_mapped_) relocate(size_);
    }
    void cut(size_t size) noexcept {                         // to what was there before
        written_ = std::max(written_, size_);
        size_ = size;
    }
    void move() { relocate(capacity_); }      // to memory that no reader has seen

    std::shared_ptr<T[]> share() const { return data_; }
    void share_with(std::shared_ptr<T[]>& reader) const noexcept { hold(reader, data_); }
    // Into a file; the pointer keeps it open. `capacity`: up to there the memory is this array's own.
    void map(std::shared_ptr<T[]> memory, size_t size, size_t capacity) {
        data_ = std::move(memory);
        size_ = size;
        capacity_ = capacity;
        is_mapped_ = true;
        written_ = 0;
    }
    // What is vacant behind a file or a large array takes no memory.
    uint64_t bytes() const {
        const uint64_t written = std::max(written_, size_) * sizeof(T);
        if (is_mapped_) return written;
        const uint64_t all = capacity_ * sizeof(T);
        return is_large(capacity_) ? std::min(all, (written + large_page - 1) / large_page * large_page) : all;
    }

private:
    static bool is_large(size_t capacity) { return capacity * sizeof(T) >= large_page; }
    // A reader that holds the old memory keeps it alive through its own shared pointer.
    void relocate(size_t capacity) {
        std::shared_ptr<T[]> other = allocate(capacity);
        std::copy(data_.get(), data_.get() + size_, other.get());
        array_bytes_copied() += size_ * sizeof(T);
        written_ = 0;
        data_ = std::move(other);
        capacity_ = capacity;
        is_mapped_ = false;
    }
    static std::shared_ptr<T[]> allocate(size_t capacity) {
        if (!capacity) return nullptr;
        size_t bytes = capacity * sizeof(T);
        if (bytes < large_page) return std::shared_ptr<T[]>(new T[capacity]);
        static_assert(std::is_trivially_destructible_v<T>);
        T* memory = static_cast<T*>(allocate_large(bytes));
        std::shared_ptr<T[]> array(memory, [bytes](T* old) { free_large(old, bytes); });
        std::uninitialized_default_construct_n(memory, capacity);
        return array;
    }
    std::shared_ptr<T[]> data_;
    size_t size_ = 0, capacity_ = 0;
    size_t written_ = 0;            // the largest size there was, if it was larger than it is
    bool is_mapped_ = false;
};

}  // namespace treecast
