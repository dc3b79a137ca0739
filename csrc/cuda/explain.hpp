// Explains the driver's result codes to users who run kernels from Python.
#pragma once

#include <string>
#include <string_view>

namespace coalesce::cuda {

using Result = int;  // CUresult

// The result codes that this package tests for. All others are only reported.
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

// Returns whether the code is a kernel fault, after which every call in the context fails.
[[nodiscard]] bool is_sticky(Result result);

// Returns one sentence about the code. It is empty if the driver's own text is sufficient.
[[nodiscard]] std::string_view explain(Result result);

// Returns the oldest driver release that runs programs of CUDA `major`: "580" for 13.
[[nodiscard]] std::string needed_driver(int major);

// Converts the number that cuDriverGetVersion returns to a version: 13000 to "13.0".
[[nodiscard]] std::string cuda_version(int number);

}  // namespace coalesce::cuda
