// What the driver's result codes mean to someone who runs kernels from Python.
#pragma once

#include <string>
#include <string_view>

namespace coalesce::cuda {

using Result = int;  // CUresult

// The codes that the code tests for; every other one is only reported.
enum Code : Result {
    success = 0,
    out_of_memory = 2,
    not_initialized = 3,
    deinitialized = 4,
    no_device = 100,
    no_binary_for_gpu = 209,
    invalid_ptx = 218,
    unsupported_ptx_version = 222,
    not_found = 500,
    not_ready = 600,
    illegal_address = 700,
    out_of_resources = 701,
    timeout = 702,
    context_is_destroyed = 709,
    assert_failed = 710,
    hardware_stack_error = 714,
    illegal_instruction = 715,
    misaligned_address = 716,
    invalid_address_space = 717,
    invalid_pc = 718,
    launch_failed = 719,
};

// True for the errors after which every call in the context fails: a kernel faulted.
[[nodiscard]] bool is_sticky(Result result);

// One sentence; empty where the driver's own string says enough.
[[nodiscard]] std::string_view explain(Result result);

// The release that a driver must be of, at least, for programs of CUDA `major`: 13 -> "580".
[[nodiscard]] std::string needed_driver(int major);

// cuDriverGetVersion's number as a version: 13000 -> "13.0".
[[nodiscard]] std::string cuda_version(int number);

}  // namespace coalesce::cuda
