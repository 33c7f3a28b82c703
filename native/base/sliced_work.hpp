// Long work that is done in slices, each a part of a call that has something else to do: a coroutine that stops when its slice is
// used up, and goes on where it was with the next.
//
// Theory of operation. Who must not wait for a large machine to be built does a little of it with every change, as in an
// incremental garbage collector. The work is counted in units, about as much as looking at one entry of an array, never in time:
// the same calls in the same order do the same.
//
//     SlicedWork build(Pace& pace) {
//         for (...) {
//             ...                                  // something that takes about 100 units
//             co_await pace.spend(100);            // may stop here
//         }
//         co_await sort(pace, items);              // other work, of which the same slices are taken
//     }
//
// What such a function is given by reference has to live as long as the work.
#pragma once

#include "base/interrupt.hpp"

#include <coroutine>
#include <cstdint>
#include <exception>
#include <utility>

namespace treecast {

class Pace {
public:
    static constexpr uint64_t unlimited = ~0ull;
    struct Stop {
        Pace& pace;
        bool await_ready() const noexcept { return pace.left_ != 0; }
        void await_suspend(std::coroutine_handle<> innermost) const noexcept { pace.innermost_ = innermost; }
        void await_resume() const noexcept {}
    };
    Stop spend(uint64_t units) {
        Interrupt::check(units * nanoseconds_per_unit);
        spent_ += units;
        if (left_ != unlimited) left_ -= units < left_ ? units : left_;
        return {*this};
    }
    uint64_t spent() const { return spent_; }              // in all slices

private:
    friend class SlicedWork;
    static constexpr uint64_t nanoseconds_per_unit = 8;
    uint64_t left_ = unlimited, spent_ = 0;
    std::coroutine_handle<> innermost_;                     // where to go on
};

class SlicedWork {
public:
    struct promise_type {
        std::coroutine_handle<> outer = std::noop_coroutine();
        std::exception_ptr thrown;
        SlicedWork get_return_object() { return SlicedWork(std::coroutine_handle<promise_type>::from_promise(*this)); }
        std::suspend_always initial_suspend() noexcept { return {}; }
        struct Return {
            bool await_ready() const noexcept { return false; }
            std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> done) const noexcept { return done.promise().outer; }
            void await_resume() const noexcept {}
        };
        Return final_suspend() noexcept { return {}; }
        void return_void() noexcept {}
        void unhandled_exception() noexcept { thrown = std::current_exception(); }
    };

    SlicedWork() = default;
    SlicedWork(SlicedWork&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)), has_begun_(other.has_begun_) {}
    SlicedWork& operator=(SlicedWork&& other) noexcept {
        std::swap(handle_, other.handle_);
        std::swap(has_begun_, other.has_begun_);
        return *this;
    }
    ~SlicedWork() {
        if (handle_) handle_.destroy();
    }

    // Does one slice. Returns whether all is done. What it throws ends the work.
    bool advance(Pace& pace, uint64_t units) {
        pace.left_ = units;
        if (!has_begun_) pace.innermost_ = handle_;
        has_begun_ = true;
        pace.innermost_.resume();
        if (handle_.done() && handle_.promise().thrown) std::rethrow_exception(handle_.promise().thrown);
        return handle_.done();
    }
    void finish(Pace& pace) { advance(pace, Pace::unlimited); }

    // For work that waits for other work.
    auto operator co_await() && noexcept {
        struct Awaiter {
            std::coroutine_handle<promise_type> inner;
            bool await_ready() const noexcept { return false; }
            std::coroutine_handle<> await_suspend(std::coroutine_handle<> outer) const noexcept {
                inner.promise().outer = outer;
                return inner;
            }
            void await_resume() const {
                if (inner.promise().thrown) std::rethrow_exception(inner.promise().thrown);
            }
        };
        return Awaiter{handle_};
    }

private:
    explicit SlicedWork(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
    std::coroutine_handle<promise_type> handle_;
    bool has_begun_ = false;
};

}  // namespace treecast
