// Locks that survive fork(). fork.hpp explains the two kinds.
//
// fork() copies only the calling thread. A lock that another thread held would stay locked for good in the child.
// So short locks are all taken before the fork and released after it. Long ones are examined in the child.
#include "base/fork.hpp"

#include "base/interrupt.hpp"

#include <algorithm>
#include <pthread.h>
#include <stdexcept>
#include <vector>

namespace treecast {

namespace {

// All locks that exist.
class Registry {
public:
    static Registry& only() {
        static Registry* const registry = new Registry;      // never destroyed: locks may outlive all statics
        return *registry;
    }

    void add(MomentaryLock* mutex) {
        std::lock_guard lock(mutex_);
        momentary_.insert(std::upper_bound(momentary_.begin(), momentary_.end(), mutex, by_rank), mutex);
    }
    void add(LastingLock* lasting) {
        std::lock_guard lock(mutex_);
        lasting_.push_back(lasting);
    }
    void remove(MomentaryLock* mutex) {
        std::lock_guard lock(mutex_);
        std::erase(momentary_, mutex);
    }
    void remove(LastingLock* lasting) {
        std::lock_guard lock(mutex_);
        std::erase(lasting_, lasting);
    }

private:
    // POSIX calls these around every fork of the process.
    Registry() { pthread_atfork(&Registry::before, &Registry::in_parent, &Registry::in_child); }
    static bool by_rank(const MomentaryLock* a, const MomentaryLock* b) { return a->rank() < b->rank(); }

    // Taken in the order of their ranks, as everywhere, so that this cannot deadlock.
    static void before() {
        Registry& registry = only();
        registry.mutex_.lock();
        for (MomentaryLock* mutex : registry.momentary_) mutex->lock();
    }
    static void in_parent() {
        Registry& registry = only();
        for (MomentaryLock* mutex : registry.momentary_) mutex->unlock();
        registry.mutex_.unlock();
    }
    // In the child no other thread exists, so locks can be replaced without synchronization.
    static void in_child() {
        Registry& registry = only();
        for (LastingLock* lasting : registry.lasting_) lasting->after_fork();
        for (MomentaryLock* mutex : registry.momentary_) mutex->after_fork();
        registry.mutex_.unlock();
    }

    std::mutex mutex_;
    std::vector<MomentaryLock*> momentary_;         // by rank
    std::vector<LastingLock*> lasting_;
};

}  // namespace

void MomentaryLock::enlist() { Registry::only().add(this); }
void MomentaryLock::delist() { Registry::only().remove(this); }

void LastingLock::enlist() { Registry::only().add(this); }
void LastingLock::delist() { Registry::only().remove(this); }

void LastingLock::refuse_orphan() {
    throw std::runtime_error("this index was being changed by another thread when the process was forked: here it can only match; "
                             "load it or build it again");
}

void LastingLock::refuse_nested() {
    throw std::runtime_error("this thread is at work on the index: a signal handler that runs meanwhile cannot change it");
}

// Held by a thread that does not exist here: what it protects may be half changed, so it becomes an orphan.
void LastingMutex::after_fork() {
    if (owner_.load() == std::this_thread::get_id()) return;     // a signal handler forks: the work goes on in both processes
    if (mutex_.try_lock()) {
        mutex_.unlock();
        return;
    }
    new (&mutex_) std::mutex;
    owner_.store({});
    orphaned_ = true;
}

// The gate makes readers that arrive later wait behind a waiting writer, so writers do not starve.
void LastingSharedMutex::lock() {
    if (orphaned_) refuse_orphan();
    if (Interrupt::in_handler()) refuse_nested();        // it may be this very thread that reads
    std::lock_guard gate(gate_);
    mutex_.lock();
}

void LastingSharedMutex::lock_shared() {
    if (orphaned_) refuse_orphan();
    std::lock_guard gate(gate_);
    mutex_.lock_shared();
}

// Only a writer leaves something half changed. Readers of the parent merely disappear.
void LastingSharedMutex::after_fork() {
    new (&gate_) std::mutex;
    if (mutex_.try_lock()) {
        mutex_.unlock();
        return;
    }
    if (!mutex_.try_lock_shared()) orphaned_ = true;
    new (&mutex_) std::shared_mutex;
}

}  // namespace treecast
