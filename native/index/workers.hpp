// Threads that a call starts and waits for. The call may be interrupted meanwhile. Private to the files of Index.
//
// No thread outlives its call: the destructor joins, whatever is thrown.
#pragma once

#include "base/interrupt.hpp"

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <new>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

namespace treecast {

class Workers {
public:
    Workers() = default;
    Workers(const Workers&) = delete;
    ~Workers() {
        for (std::thread& thread : threads_)
            if (thread.joinable()) thread.join();
    }
    template <class F>
    void start(F work) {
        std::lock_guard lock(mutex_);
        threads_.emplace_back([this, work] {
            work();
            std::lock_guard done(mutex_);
            --busy_;
            idle_.notify_one();
        });
        ++busy_;
    }
    // Waits for all threads. Returns whether the call was interrupted; the threads have been informed of it.
    bool join() {
        bool asked = false;
        std::unique_lock lock(mutex_);
        while (!idle_.wait_for(lock, Interrupt::ask_every, [this] { return busy_ == 0; })) {
            lock.unlock();
            asked = Interrupt::ask() || asked;
            lock.lock();
        }
        return asked;
    }

private:
    std::mutex mutex_;
    std::condition_variable idle_;
    size_t busy_ = 0;
    std::vector<std::thread> threads_;
};

// Runs work(thread) in that many threads, including this one, and waits for all. An exception of one of them is thrown here.
// `stop` is called first, in the thread that threw, so that the others need not finish. Throws Interrupted if the call was
// interrupted.
template <class Work, class Stop>
void run_in_threads(size_t threads, Work work, Stop stop) {
    std::vector<std::exception_ptr> thrown(threads);
    Interrupt* interrupt = Interrupt::running();
    auto guarded = [&](size_t thread) {
        try {
            std::optional<Interrupt> shared;
            if (thread) shared.emplace(interrupt);
            work(thread);
        } catch (...) {
            thrown[thread] = std::current_exception();
            stop();
        }
    };
    Workers workers;
    try {
        for (size_t t = 1; t < threads; ++t) workers.start([&, t] { guarded(t); });
    } catch (const std::system_error&) {
        // No more threads are available: those that exist do the work.
    } catch (const std::bad_alloc&) {
        // Nor is there memory for one.
    }
    guarded(0);
    if (workers.join()) throw Interrupted();
    for (const std::exception_ptr& exception : thrown)
        if (exception) std::rethrow_exception(exception);
}

}  // namespace treecast
