// How long calls notice Ctrl-C. interrupt.hpp explains who asks, and how often.
#include "base/interrupt.hpp"

namespace treecast {

thread_local constinit Interrupt* Interrupt::running_ = nullptr;

// Called after enough work has been reported; only now is the clock read.
void Interrupt::look() {
    worked_ = 0;
    if (is_asked_now()) throw Interrupted();
}

// Another thread may have noticed already. Only a thread that can ask Python does so, and not more often than needed.
bool Interrupt::is_asked_now() {
    if (stop_->load(std::memory_order_relaxed)) return true;
    if (!is_asked_) return false;
    auto now = std::chrono::steady_clock::now();
    bool first = next_ == std::chrono::steady_clock::time_point();       // a call that has just begun is not asked about
    if (!first && now < next_) return false;
    next_ = now + ask_every;
    return !first && ask_now();
}

// The flag marks that a signal handler may be running, so that locks can refuse to be taken again.
bool Interrupt::ask_now() {
    asking_ = true;
    bool asked = is_asked_(context_);
    asking_ = false;
    if (asked) stop_->store(true, std::memory_order_relaxed);
    return asked;
}

void Interrupt::check_now() {
    if (running_ && running_->is_asked_ && running_->ask_now()) throw Interrupted();
}

// Calls can nest: a handler may call the library again.
bool Interrupt::in_handler() {
    for (const Interrupt* call = running_; call; call = call->outer_)
        if (call->asking_) return true;
    return false;
}

bool Interrupt::ask() { return running_ && running_->is_asked_now(); }

}  // namespace treecast
