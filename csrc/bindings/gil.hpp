// The interpreter's lock, given up and taken back by C++ that runs for long.
//
// Where a thread outlives the interpreter (a daemon thread at exit), asking for the lock ends the
// thread by unwinding its stack. No destructor may be passed that way: pybind11's own guards then
// end the process with "terminate called". These wait for the end of the process instead.
#pragma once

#include <Python.h>
#include <cxxabi.h>

#include <chrono>
#include <thread>

namespace coalesce::bindings {

// The lock is given up in this scope.
class ReleasedGil {
  public:
    ReleasedGil() : outer_(innermost()), state_(PyEval_SaveThread()) { innermost() = this; }
    ~ReleasedGil() {
        take();
        innermost() = outer_;
    }
    ReleasedGil(const ReleasedGil&) = delete;
    ReleasedGil& operator=(const ReleasedGil&) = delete;

  private:
    friend class HeldGil;

    static ReleasedGil*& innermost() {
        static thread_local ReleasedGil* released = nullptr;
        return released;
    }

    void take() const {
        try {
            PyEval_RestoreThread(state_);
        } catch (const abi::__forced_unwind&) {
            for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
        }
    }

    ReleasedGil* outer_;
    PyThreadState* state_;
};

// The lock is held in this scope, which lies in one of the same thread that gave it up.
class HeldGil {
  public:
    HeldGil() { ReleasedGil::innermost()->take(); }
    ~HeldGil() { PyEval_SaveThread(); }
    HeldGil(const HeldGil&) = delete;
    HeldGil& operator=(const HeldGil&) = delete;
};

}  // namespace coalesce::bindings
