// Declares how a function of the driver API is written: CUDRIVER(name)(parameters) { ... }
//
// METHOD
// Both APIs work on the same objects. For example, a CUstream is a cudaStream_t, and a CUdeviceptr
// is a pointer that cudaMalloc() could return. Many functions of the driver API do the same as a
// function of the runtime API. Such a function is written with FORWARD(), which calls the runtime
// function. The other functions are written with driver_call(). Errors have the same numbers in
// both APIs, except for a few that only the runtime has; driver_error() replaces these.
#pragma once

#include "cudart/state/api.hpp"

namespace coalesce::cudart {

using DriverError = int;

// What must have happened before a call.
enum class Needs : uint8_t { nothing, initialization, context };

namespace detail {
// Throws Failure if the requirement is not met.
void check(Needs needs);
}  // namespace detail

[[nodiscard]] DriverError driver_error(Error error);

DriverError driver_call(const char* function, Needs needs, Waits waits, const Body& body,
                        void* caller = __builtin_return_address(0));

#define CUDRIVER(name) extern "C" __attribute__((visibility("default"))) DriverError name

// Defines a function of the driver API that does the same as one of the runtime API.
#define FORWARD(driver, runtime, parameters, arguments)                           \
    CUDART(runtime) parameters;                                                   \
    CUDRIVER(driver) parameters {                                                 \
        return driver_call(#driver, Needs::context, Waits::no,                    \
                           [&] { (void)::coalesce::cudart::runtime arguments; }); \
    }

}  // namespace coalesce::cudart
