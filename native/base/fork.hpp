// Locks for a process that forks.
//
// A child of fork() has one thread, the one that forked. A lock that another thread held stays locked in it forever, and what
// that thread was changing stays half changed. So there are two kinds:
//
//   - MomentaryMutex and MomentarySharedMutex are held for moments, by threads that wait for nothing meanwhile. fork() waits for
//     them, and what they guard is whole in the child.
//   - LastingMutex and LastingSharedMutex may be held for seconds, by threads that may wait for what the forking one holds
//     (Python's GIL). fork() does not wait for them. If one was held, then in the child its lock() throws from then on, because
//     what it guards is lost.
//
// Both are found by handlers that pthread_atfork() runs.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <thread>

namespace treecast {

// A lock that fork() takes and gives back, in both processes.
class MomentaryLock {
public:
    virtual void lock() = 0;
    virtual void unlock() = 0;
    // In the child, instead of unlock(): a lock of many readers knows its writer by a number that the child's thread has not got.
    virtual void after_fork() = 0;
    int rank() const { return rank_; }

protected:
    // One that is locked while another is held has the greater rank.
    explicit MomentaryLock(int rank) : rank_(rank) {}
    ~MomentaryLock() = default;
    MomentaryLock(const MomentaryLock&) = delete;
    void enlist();                   // for as long as it is whole
    void delist();

private:
    const int rank_;
};

class MomentaryMutex final : public MomentaryLock {
public:
    explicit MomentaryMutex(int rank = 0) : MomentaryLock(rank) { enlist(); }
    ~MomentaryMutex() { delist(); }
    void lock() override { mutex_.lock(); }
    void unlock() override { mutex_.unlock(); }

private:
    void after_fork() override { new (&mutex_) std::mutex; }
    std::mutex mutex_;
};

class MomentarySharedMutex final : public MomentaryLock {
public:
    explicit MomentarySharedMutex(int rank = 0) : MomentaryLock(rank) { enlist(); }
    ~MomentarySharedMutex() { delist(); }
    void lock() override { mutex_.lock(); }
    void unlock() override { mutex_.unlock(); }
    void lock_shared() { mutex_.lock_shared(); }
    void unlock_shared() { mutex_.unlock_shared(); }

private:
    void after_fork() override { new (&mutex_) std::shared_mutex; }
    std::shared_mutex mutex_;
};

// What fork() leaves of a lock that is not waited for.
class LastingLock {
public:
    bool orphaned() const { return orphaned_; }
    virtual void after_fork() = 0;   // in the child, whose only thread calls it

protected:
    LastingLock() = default;
    ~LastingLock() = default;
    LastingLock(const LastingLock&) = delete;
    void enlist();
    void delist();
    [[noreturn]] static void refuse_orphan();
    [[noreturn]] static void refuse_nested();

    bool orphaned_ = false;
};

class LastingMutex final : public LastingLock {
public:
    LastingMutex() { enlist(); }
    ~LastingMutex() { delist(); }
    void lock() {
        if (orphaned_) refuse_orphan();
        if (owner_.load(std::memory_order_relaxed) == std::this_thread::get_id()) refuse_nested();
        mutex_.lock();
        owner_.store(std::this_thread::get_id(), std::memory_order_relaxed);
    }
    // For what can wait for another time: false where lock() would wait or throw.
    bool try_lock() {
        if (orphaned_ || owner_.load(std::memory_order_relaxed) == std::this_thread::get_id() || !mutex_.try_lock()) return false;
        owner_.store(std::this_thread::get_id(), std::memory_order_relaxed);
        return true;
    }
    void unlock() {
        owner_.store({}, std::memory_order_relaxed);
        mutex_.unlock();
    }
    void after_fork() override;

private:
    std::mutex mutex_;
    std::atomic<std::thread::id> owner_{};
};

// For many readers or one writer, whom readers that keep coming do not keep waiting. Readers change nothing: only a writer can
// leave something half changed.
class LastingSharedMutex final : public LastingLock {
public:
    LastingSharedMutex() { enlist(); }
    ~LastingSharedMutex() { delist(); }
    void lock();
    void unlock() { mutex_.unlock(); }
    void lock_shared();
    void unlock_shared() { mutex_.unlock_shared(); }
    void after_fork() override;

private:
    std::mutex gate_;                // a writer that waits holds it
    std::shared_mutex mutex_;
};

}  // namespace treecast
