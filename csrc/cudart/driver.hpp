// Declares how a function of the driver API is written: CUDRIVER(name)(parameters) { ... }
//
// METHOD
// Both APIs work on the same objects: a CUstream is a cudaStream_t, a CUdeviceptr is a pointer that
// cudaMalloc() could return. Many functions of the driver API do what a function of the runtime API
// does. They are written with FORWARD() and call this function. The others are written with
// driver_call(). Errors have the same numbers in both APIs, except for a few that only the runtime
// has; driver_error() replaces these.
#pragma once

#include "cudart/api.hpp"

namespace coalesce::cudart {

using DriverError = int;

// What must have happened before a call.
enum class Needs : uint8_t { nothing, initialization, context };

namespace detail {
// Throws Failure if the requirement is not met.
void check(Needs needs);
DriverError finish_driver(const Outcome& outcome, const char* function, void* caller);
// While it exists, functions of the runtime API throw their errors instead of returning them, and
// messages name the driver's function.
class DriverCall {
  public:
    explicit DriverCall(const char* function);
    ~DriverCall();
    DriverCall(const DriverCall&) = delete;
    DriverCall& operator=(const DriverCall&) = delete;
};
// The program's own functions may call either API.
class ProgramCall {
  public:
    ProgramCall();
    ~ProgramCall();
    ProgramCall(const ProgramCall&) = delete;
    ProgramCall& operator=(const ProgramCall&) = delete;

  private:
    const char* function_;
};
}  // namespace detail

[[nodiscard]] DriverError driver_error(Error error);

template <class Body>
__attribute__((always_inline)) inline DriverError driver_call(const char* function, Needs needs,
                                                              Waits waits, Body&& body) {
    const std::lock_guard guard(detail::lock());
    void* const caller = __builtin_return_address(0);
    detail::enter(caller);
    const detail::DriverCall call(function);
    const detail::Outcome outcome = detail::outcome_of(function, waits, [&] {
        detail::check(needs);
        std::forward<Body>(body)();
    });
    return detail::finish_driver(outcome, function, caller);
}

#define CUDRIVER(name) extern "C" __attribute__((visibility("default"))) DriverError name

// Defines a function of the driver API that does the same as one of the runtime API.
#define FORWARD(driver, runtime, parameters, arguments)                           \
    CUDART(runtime) parameters;                                                   \
    CUDRIVER(driver) parameters {                                                 \
        return driver_call(#driver, Needs::context, Waits::no,                    \
                           [&] { (void)::coalesce::cudart::runtime arguments; }); \
    }

}  // namespace coalesce::cudart
