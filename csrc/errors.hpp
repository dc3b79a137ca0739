// The errors a user can meet, one type each, so that they can be caught by type.
//
// Every message names what was wrong, what came and what is needed; bindings/errors.cpp gives each
// type its Python class of the same name.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace coalesce {

// An instruction's text for messages: one line, of characters that can be printed.
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

// PTX text that is not PTX; `line` and `column` count from 1.
struct PtxError : Error {
    PtxError(const std::string& message, uint32_t line, uint32_t column)
        : Error(message), line(line), column(column) {}
    uint32_t line;
    uint32_t column;
};

// A PTX instruction, or a form of one, that the simulator cannot execute. Thrown before a run.
struct UnsupportedInstruction : Error {
    using Error::Error;
};

// A launch that cannot start (geometry, arguments, resources) or cannot go on (a barrier that only
// some threads reach, the instruction limit, a failed assert).
struct LaunchError : Error {
    using Error::Error;
};

// No thread of a block can continue: only some threads reach a barrier, or lanes of a warp wait
// for others that never arrive.
struct Deadlock : LaunchError {
    Deadlock(const std::string& message, bool of_warp) : LaunchError(message), of_warp(of_warp) {}
    bool of_warp;
};

// No device to run on: no driver, a driver too old, no GPU; the message says what to install.
struct DeviceUnavailable : Error {
    using Error::Error;
};

// A load or store outside every buffer, misaligned, or into read-only memory.
struct MemoryFault : Error {
    using Error::Error;
};

}  // namespace coalesce
