#include "cuda/explain.hpp"

namespace coalesce::cuda {

bool is_sticky(Result result) {
    switch (result) {
        case illegal_address:
        case timeout:
        case context_is_destroyed:
        case assert_failed:
        case hardware_stack_error:
        case illegal_instruction:
        case misaligned_address:
        case invalid_address_space:
        case invalid_pc:
        case launch_failed:
            return true;
        default:
            return false;
    }
}

std::string_view explain(Result result) {
    switch (result) {
        case out_of_memory:
            return "the GPU does not have that much free memory";
        case no_device:
            return "the driver sees no CUDA GPU";
        case no_binary_for_gpu:
            return "it was compiled for another architecture than the architecture of this GPU";
        case invalid_ptx:
            return "the driver's assembler refused the PTX";
        case unsupported_ptx_version:
            return "the PTX is of a newer version than the driver understands";
        case illegal_address:
            return "it read or wrote memory outside every allocation";
        case out_of_resources:
            return "a block needs more registers or shared memory than a multiprocessor has";
        case timeout:
            return "the driver stopped it because it ran too long";
        case assert_failed:
            return "an assert in the kernel failed";
        case hardware_stack_error:
            return "its call stack overflowed or was corrupted";
        case illegal_instruction:
            return "it ran an instruction that this GPU does not have";
        case misaligned_address:
            return "a load or store was not aligned to its size (a float4 needs 16 bytes)";
        case invalid_address_space:
            return "it read or wrote an address of another memory space, for example through an "
                   "invalid pointer";
        case invalid_pc:
            return "it jumped to an address that holds no code";
        case launch_failed:
            return "it was stopped by a hardware exception";
        default:
            return {};
    }
}

std::string needed_driver(int major) {
    // By CUDA's minor-version compatibility, the first driver of a major release runs programs of
    // all its minor versions.
    switch (major) {
        case 11:
            return "450";
        case 12:
            return "525";
        case 13:
            return "580";
        default:
            return {};
    }
}

std::string cuda_version(int number) {
    return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

}  // namespace coalesce::cuda
