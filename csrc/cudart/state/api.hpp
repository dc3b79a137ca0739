// Declares how a function of the API is written: CUDART(name)(parameters) { return call(...); }
//
// METHOD
// call() acquires the runtime's only lock, runs the body, and translates exceptions into the errors
// that CUDA returns. Each host thread has its own last error, as in CUDA. A kernel fault leaves a
// permanent error: calls that wait for the GPU return it, and so do all later calls.
#pragma once

#include <exception>
#include <mutex>
#include <string>
#include <type_traits>

#include "cudart/abi/abi.hpp"

#define CUDART(name) extern "C" __attribute__((visibility("default"))) Error name

namespace coalesce::cudart {

// An API function throws this to return an error code to the program. If the error is a mistake in
// the program's host code, `mistake` describes it, and --check reports it.
struct Failure {
    Error error;
    std::string mistake = {};
};

// Whether a call can return errors of earlier kernels.
enum class Waits : uint8_t {
    // Asynchronous. The call returns before the work is done, and thus before its faults.
    no,
    yes,  // waits for the GPU; the capture of a stream may forbid such calls
};

// A reference to the body of an API function, usually a lambda function. The body must live until
// the call returns. It is not a template parameter of call(), because the code of call() would then
// be compiled for hundreds of functions.
class Body {
  public:
    template <class F>
    Body(F&& f)  // not explicit: call(name, waits, [&] { ... })
        : object_(const_cast<void*>(static_cast<const void*>(&f))),
          run_([](void* object) { (*static_cast<std::remove_reference_t<F>*>(object))(); }) {}
    void operator()() const { run_(object_); }

  private:
    void* object_;
    void (*run_)(void*);
};

namespace detail {
std::recursive_mutex& lock();
// Returns the error of every call in a process that cannot use the GPU any more, or cudaSuccess.
// The process is ending (main() has returned, or exit() was called), or it is a child that was
// forked after its parent had used the GPU. Or the caller is the work of a stream (ProgramCall).
[[nodiscard]] Error process_error();
// Runs before the body. Returns the permanent error, if there is one.
[[nodiscard]] Error permanent_error(Waits waits);
void enter(void* caller);
// While a DriverCall exists, functions of the runtime API throw their errors instead of returning
// them, and messages name the driver's function.
class DriverCall {
  public:
    explicit DriverCall(const char* function);  // the name that messages use
    ~DriverCall();
    DriverCall(const DriverCall&) = delete;
    DriverCall& operator=(const DriverCall&) = delete;
};
// While a ProgramCall exists, a function of the program runs. It may call either API, unless it is
// the work of a stream (`is_work`).
class ProgramCall {
  public:
    explicit ProgramCall(bool is_work);
    ~ProgramCall();
    ProgramCall(const ProgramCall&) = delete;
    ProgramCall& operator=(const ProgramCall&) = delete;

  private:
    const char* function_;
    bool in_work_;
};

// The result of the body of an API function.
struct Outcome {
    Error error = cudaSuccess;
    std::string mistake = {};
};
// Runs after the body. Stores the thread's last error and the caller.
Error finish(const Outcome& outcome, const char* function, void* caller);
Outcome failed(const std::exception& e, const char* function);

// Runs the body and translates its exceptions.
Outcome outcome_of(const char* function, Waits waits, const Body& body) noexcept;
}  // namespace detail

// The default of `caller` is the address in the program to which the API function returns.
Error call(const char* function, Waits waits, const Body& body,
           void* caller = __builtin_return_address(0));

// Returns the last error of this host thread. If `forget` is true, it also clears the error.
Error take_last_error(bool forget);
[[nodiscard]] const char* name_of(Error error);  // "cudaErrorInvalidValue"

// Returns the name of the function that the program called, for messages. It differs from
// `function` if a function of the driver API has called this function of the runtime API.
[[nodiscard]] const char* called(const char* function);
// Returns the return address of the current API call, for findings.
[[nodiscard]] void* caller();
// Returns the address of the last <<<...>>> in the host code, or null if there was none.
[[nodiscard]] void* launched_from();

// Reports the last failed launch of this host thread, unless the program has read its error, for
// example with cudaGetLastError().
void report_unchecked_error();

inline void require(bool condition, Error error, const char* mistake = "") {
    if (!condition) throw Failure{error, mistake};
}

inline void check_device(int device) {
    require(device == 0, cudaErrorInvalidDevice, "there is one device, number 0");
}

}  // namespace coalesce::cudart
