// The errors that users can get. Each has a type of its own, so that it can be caught.
//
// Every message says what is wrong, what was passed and what is needed. bindings/errors.cpp maps
// each type to the Python class with the same name.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

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

// A launch that cannot start because of its geometry, arguments or resources. Or a launch that
// cannot continue, for example because of a failed assert or the instruction limit.
struct LaunchError : Error {
    using Error::Error;
};

// No thread of a block can continue: only some threads reach a barrier, or lanes of a warp wait
// for others that never arrive.
struct Deadlock : LaunchError {
    Deadlock(const std::string& message, bool of_warp) : LaunchError(message), of_warp(of_warp) {}
    bool of_warp;
};

// No device can be used: no driver, a driver that is too old, or no GPU. The message says what to
// install.
struct DeviceUnavailable : Error {
    using Error::Error;
};

// A load or store outside every buffer, misaligned, or into read-only memory.
struct MemoryFault : Error {
    using Error::Error;
};

}  // namespace coalesce
