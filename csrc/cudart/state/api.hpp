// How a function of the API is called.
//
// METHOD
// abi/functions.inc lists all functions of both APIs. For each of them there is a function of the
// namespace `core`, which does the work and throws Failure. Both APIs work on the same objects: a
// CUstream is a cudaStream_t, and a CUdeviceptr is a pointer that cudaMalloc() could return. So one
// core function often serves both. The exported function (skins.cpp) passes it to call(), which
// acquires the runtime's only lock, runs it, and translates exceptions into the errors that CUDA
// returns. Each host thread has its own last error, as in CUDA. A kernel fault leaves a permanent
// error: calls that wait for the GPU return it, and so do all later calls.
#pragma once

#include <string>
#include <type_traits>

#include "cudart/abi/abi.hpp"
#include "cudart/abi/driver.hpp"

// A function that a program calls.
#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace coalesce::cudart {

// An API function throws this to return an error code to the program. If the error is a mistake in
// the program's host code, `mistake` describes it, and --check reports it.
struct Failure {
    Error error;
    std::string mistake = {};
};

// What call() must know about a function.
namespace traits {
inline constexpr unsigned no_trait = 0;
// Waits for the GPU, and thus returns errors of earlier kernels. The capture of a stream may forbid
// such calls.
inline constexpr unsigned waits = 1;
// A function of the runtime API makes no context current. One of the driver API needs only
// cuInit(); with no_init, not even that.
inline constexpr unsigned no_context = 2, no_init = 4;
// Launches a kernel for <<<...>>>, which returns no error code.
inline constexpr unsigned launches = 8;
// Loads code or launches kernels. If such a function of the driver API fails, its error code says
// little, and most programs then end. So the reason is printed even without --check.
inline constexpr unsigned about_code = 16;
// Does not return the error of a fault, but clears it.
inline constexpr unsigned resets = 32;
// Works in the default stream.
inline constexpr unsigned in_default_stream = 64;
// Looks at its arguments before it asks whether a capture forbids the call (`waits`, and
// `in_default_stream`).
inline constexpr unsigned checks_first = 128;
}  // namespace traits

// An exported function.
struct ApiFunction {
    const char* name;  // for messages, without its version: "cuMemAlloc"
    unsigned traits;
    bool driver;      // of the driver API
    bool per_thread;  // its default stream is that of the host thread
    [[nodiscard]] bool has(unsigned trait) const { return traits & trait; }
};

// A reference to the body of an API function, usually a lambda function. The body must live until
// the call returns. It is not a template parameter of call(), because the code of call() would then
// be compiled for hundreds of functions.
class Body {
  public:
    template <class F>
    Body(F&& f)  // not explicit: call(function, [&] { ... })
        : object_(const_cast<void*>(static_cast<const void*>(&f))),
          run_([](void* object) { (*static_cast<std::remove_reference_t<F>*>(object))(); }) {}
    void operator()() const { run_(object_); }

  private:
    void* object_;
    void (*run_)(void*);
};

// Returns true if more than one host thread has called a function of the API.
[[nodiscard]] bool several_threads();

// Calls the core function `body` for the program. The default of `caller` is the address in the
// program to which the API function returns.
Error call(const ApiFunction& function, const Body& body,
           void* caller = __builtin_return_address(0));

// The core functions.
namespace core {
#define RUNTIME(streams, traits, name, ...) void name(__VA_ARGS__);
#define DRIVER(streams, traits, name, ...) void name(__VA_ARGS__);
#define BOTH(streams, traits, runtime, driver, ...) void runtime(__VA_ARGS__);
#include "cudart/abi/functions.inc"
}  // namespace core

// Throws Failure unless cuInit() was called and a context is current.
void require_context();

// While a ProgramCall exists, a function of the program runs as the work of a stream. It must not
// call either API.
class ProgramCall {
  public:
    ProgramCall();
    ~ProgramCall();
    ProgramCall(const ProgramCall&) = delete;
    ProgramCall& operator=(const ProgramCall&) = delete;

  private:
    bool before_;
};

// Returns the last error of this host thread. If `forget` is true, it also clears the error.
Error take_last_error(bool forget);
[[nodiscard]] const char* name_of(Error error);  // "cudaErrorInvalidValue"

// Returns the name of the function that the program called, for messages.
[[nodiscard]] const char* called();
// Returns the return address of the current API call, for findings.
[[nodiscard]] void* caller();
// Returns whether null is the default stream of the host thread in the current call.
[[nodiscard]] bool default_is_per_thread();
// Returns whether the current call waits for the GPU (traits::waits).
[[nodiscard]] bool call_waits();
// Returns the address of the last <<<...>>> in the host code, or null if there was none.
[[nodiscard]] void* launched_from();
// Returns the address of the <<<...>>> or of the call that makes the current work.
[[nodiscard]] void* work_from();

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
