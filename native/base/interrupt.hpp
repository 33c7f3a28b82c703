// How a call that takes long is ended early.
//
// Theory of operation. Whoever makes a call that may take long puts an Interrupt into its block, with a function that knows whether
// the call is still wanted; the bindings ask Python for signals.
//
// The loops that do the work tell Interrupt::check() now and then, roughly, how many nanoseconds they have spent. That is an
// addition. Every millisecond or so the clock is read; every `ask_every` the function is asked, and never in calls that take less.
// If the call is to end, check() throws Interrupted, in the thread that asked and, a moment later, in the worker threads of the
// same call. Without an Interrupt, check() does nothing.
//
// Interrupted is no std::exception and no Failure: nobody is to catch it, but to put things right and throw it on.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace treecast {

struct Interrupted {};

class Interrupt {
public:
    using IsAsked = bool (*)(void* context);
    static constexpr std::chrono::milliseconds ask_every{50};

    // For this thread, until the end of the block.
    Interrupt(IsAsked is_asked, void* context) : is_asked_(is_asked), context_(context), outer_(running_) { running_ = this; }
    // For a worker thread of the call that `of` is for; null does nothing.
    explicit Interrupt(Interrupt* of) : stop_(of ? of->stop_ : &own_stop_), outer_(running_) { running_ = of ? this : nullptr; }
    ~Interrupt() { running_ = outer_; }
    Interrupt(const Interrupt&) = delete;
    Interrupt& operator=(const Interrupt&) = delete;

    static Interrupt* running() { return running_; }       // that of this thread, if any

    // After about so much work.
    static void check(uint64_t nanoseconds) {
        Interrupt* self = running_;
        if (self && (self->worked_ += nanoseconds) >= look_every) self->look();
    }
    // Before something that cannot be taken back.
    static void check_now();
    // Whether this thread is in a signal handler, or whatever else is_asked runs, in the middle of a call.
    static bool in_handler();
    // For a thread that waits for its workers: asks, and informs them. Returns whether the call is to end.
    static bool ask();

private:
    static constexpr uint64_t look_every = 1'000'000;
    void look();
    bool is_asked_now();               // if it is time to ask
    bool ask_now();

    static thread_local constinit Interrupt* running_;
    std::atomic<bool> own_stop_{false};
    std::atomic<bool>* stop_ = &own_stop_;
    IsAsked is_asked_ = nullptr;                            // none in workers
    void* context_ = nullptr;
    Interrupt* outer_;                                      // a signal handler may call again
    bool asking_ = false;
    uint64_t worked_ = 0;
    std::chrono::steady_clock::time_point next_{};
};

// For loops whose turns take less than check() does.
class InterruptTicks {
public:
    explicit InterruptTicks(uint64_t nanoseconds_each) : each_(nanoseconds_each) {}
    void tick() {
        if (++turns_ % turns_per_check == 0) Interrupt::check(turns_per_check * each_);
    }

private:
    static constexpr uint32_t turns_per_check = 1024;
    const uint64_t each_;
    uint32_t turns_ = 0;
};

}  // namespace treecast
