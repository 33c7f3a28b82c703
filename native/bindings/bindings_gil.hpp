// Native work without the GIL: others run meanwhile, Ctrl-C ends it, and the end of the process does no harm.
#pragma once

#include "base/interrupt.hpp"

#include <Python.h>
#include <exception>
#include <sys/syscall.h>
#include <unistd.h>

namespace treecast {

// Runs f, which enters Python. When the interpreter has ended meanwhile, Python ends the thread that comes back to it (a daemon thread)
// by unwinding its stack, through destructors that would need Python, and through frames that must not be unwound, which aborts the
// process. Such a thread waits here for the end of the process instead.
template <class F>
decltype(auto) enter_python(F&& f) {
    try {
        return f();
    } catch (const std::exception&) {
        throw;
    } catch (...) {                  // no exception of C++
        for (;;) pause();
    }
}

// Without the GIL until the end of the block.
class WithoutGil {
public:
    WithoutGil() : state_(PyEval_SaveThread()) {}
    ~WithoutGil() { take(); }
    WithoutGil(const WithoutGil&) = delete;
    WithoutGil& operator=(const WithoutGil&) = delete;

protected:
    void take() { enter_python([this] { PyEval_RestoreThread(state_); }); }
    void leave() { state_ = PyEval_SaveThread(); }

private:
    PyThreadState* state_;
};

// The same for work that may be given up halfway: in the main thread a signal whose handler raises ends it. The exception is set
// then, and Interrupted is thrown; see bindings.cpp.
class Interruptible : public WithoutGil {
public:
    Interruptible() : interrupt_(&Interruptible::is_asked, this) {}

private:
    static bool is_asked(void* self) {
        if (syscall(SYS_gettid) != getpid()) return false;      // signals are for the main thread
        auto* call = static_cast<Interruptible*>(self);
        call->take();
        bool raised = PyErr_CheckSignals() != 0;
        call->leave();
        return raised;
    }

    Interrupt interrupt_;
};

}  // namespace treecast
