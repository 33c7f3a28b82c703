#include "interrupt.hpp"

namespace treecast {

thread_local constinit Interrupt* Interrupt::running_ = nullptr;

void Interrupt::look() {
    worked_ = 0;
    if (is_asked_now()) throw Interrupted();
}

bool Interrupt::is_asked_now() {
    if (stop_->load(std::memory_order_relaxed)) return true;
    if (!is_asked_) return false;
    auto now = std::chrono::steady_clock::now();
    if (now < next_) return false;
    next_ = now + ask_every;
    asking_ = true;
    bool asked = is_asked_(context_);
    asking_ = false;
    if (!asked) return false;
    stop_->store(true, std::memory_order_relaxed);
    return true;
}

void Interrupt::check_now() {
    if (!running_) return;
    running_->next_ = {};
    running_->look();
}

bool Interrupt::in_handler() {
    for (const Interrupt* call = running_; call; call = call->outer_)
        if (call->asking_) return true;
    return false;
}

bool Interrupt::ask() { return running_ && running_->is_asked_now(); }

}  // namespace treecast
