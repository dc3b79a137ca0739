// Releases the interpreter's lock (GIL) during long C++ calls, and acquires it again.
//
// A thread may outlive the interpreter, for example a daemon thread at exit. If it then requests
// the lock, Python ends the thread by unwinding its stack. If the stack then has objects with
// destructors, such as pybind11's own guards, the process ends with "terminate called". The guards
// here wait for the end of the process instead.
#pragma once

#include <Python.h>
#include <cxxabi.h>

#include <chrono>
#include <thread>

namespace coalesce::bindings {

// Releases the lock until the end of the scope.
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

// Acquires the lock until the end of the scope. It is used within the scope of a ReleasedGil of the
// same thread.
class HeldGil {
  public:
    HeldGil() { ReleasedGil::innermost()->take(); }
    ~HeldGil() { PyEval_SaveThread(); }
    HeldGil(const HeldGil&) = delete;
    HeldGil& operator=(const HeldGil&) = delete;
};

}  // namespace coalesce::bindings
