// The errors that users can get. Each has a type of its own, so that it can be caught.
//
// Every message says what is wrong, what was passed and what is needed. bindings/errors.cpp maps
// each type to the Python class with the same name.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace coalesce {

// Returns the text of an instruction for messages, as one line of printable characters.
inline std::string one_line(std::string_view text) {
    std::string line;
    for (const char c : text) {
        const bool space = c == ' ' || c == '\t' || c == '\n' || c == '\r';
        if (space && line.ends_with(' ')) continue;
        line += space ? ' ' : c > ' ' && c <= '~' ? c : '?';
    }
    return line;
}

struct Error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// CUDA C++ that NVRTC refused; the message is the compiler's log.
struct CompileError : Error {
    using Error::Error;
};

// Text that is not valid PTX. `line` and `column` start at 1.
struct PtxError : Error {
    PtxError(const std::string& message, uint32_t line, uint32_t column)
        : Error(message), line(line), column(column) {}
    uint32_t line;
    uint32_t column;
};

// A PTX instruction, or a form of it, that the simulator cannot execute. Thrown before the run.
struct UnsupportedInstruction : Error {
    using Error::Error;
};

// A launch that cannot start because of its geometry, arguments or resources, or that cannot
// continue (KernelFault).
struct LaunchError : Error {
    using Error::Error;
};

// A launch whose blocks need more registers than a multiprocessor of the GPU has.
struct OutOfRegisters : LaunchError {
    using LaunchError::LaunchError;
};

// A launch whose clusters do not fit the grid, the kernel or the GPU.
struct InvalidCluster : LaunchError {
    using LaunchError::LaunchError;
};

// Why a running kernel cannot continue. cudart/state/launches.cpp has the error code that a GPU
// returns for each reason.
enum class Fault : uint8_t {
    // An access to memory that is not possible.
    outside,
    misaligned,
    read_only,
    // Other reasons.
    stack_overflow,
    no_function,          // a call or jump to an address that is not one of code
    no_object,            // there is no texture or surface object with this handle
    assertion,            // assert() failed
    trap,                 // __trap()
    illegal_instruction,  // wrong operands, for which a GPU returns this error
    misuse,               // other wrong use of an instruction
    instruction_limit,
    deadlock,
};

// A running kernel that cannot continue, for another reason than an access to memory.
struct KernelFault : LaunchError {
    KernelFault(Fault fault, const std::string& message) : LaunchError(message), fault(fault) {}
    Fault fault;
    uint64_t handle = 0;  // no_object: the handle; no_function: the address
};

// The kernel was stopped because it executed more instructions than the launch allows.
struct InstructionLimit : KernelFault {
    explicit InstructionLimit(const std::string& message)
        : KernelFault(Fault::instruction_limit, message) {}
};

// No thread of a block can continue: only some threads reach a barrier, or lanes of a warp wait
// for others that never arrive.
struct Deadlock : KernelFault {
    Deadlock(const std::string& message, bool of_warp)
        : KernelFault(Fault::deadlock, message), of_warp(of_warp) {}
    bool of_warp;
};

// No device can be used: no driver, a driver that is too old, or no GPU. The message says what to
// install.
struct DeviceUnavailable : Error {
    using Error::Error;
};

// A load or store outside every buffer, misaligned, or into read-only memory.
struct MemoryFault : Error {
    MemoryFault(Fault fault, const std::string& message, std::string array = {},
                std::optional<uint64_t> address = {})
        : Error(message), fault(fault), array(std::move(array)), address(address) {}
    Fault fault;
    std::string array;                // the array that the message names, if it names one
    std::optional<uint64_t> address;  // the address in global memory; empty for other spaces
};

}  // namespace coalesce
