// The state of the process: one simulated GPU, its memory, modules and streams, and the report.
//
// Each part has a file of its own. The process that starts the program passes settings in
// environment variables:
//   COALESCE_PROGRAM_GPU     the simulated GPU, such as "h200"
//   COALESCE_PROGRAM_CODE    a folder with information on the machine code (code_file.hpp)
//   COALESCE_PROGRAM_REPORT  the file for the report at exit (report.cpp)
//   COALESCE_PROGRAM_CHECK   "1": check launches and the host's use of memory
//   COALESCE_PROGRAM_KEEP    a folder for launches that are profiled afterwards (snapshots.hpp)
//   COALESCE_PROGRAM_LAUNCHES "first", "all" or the number of the launch to keep
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cudart/memory.hpp"
#include "cudart/modules.hpp"
#include "cudart/report.hpp"
#include "cudart/streams.hpp"
#include "model/gpu.hpp"

namespace coalesce::cudart {

struct Settings {
    std::string gpu = "h200", code, report, keep, launches = "first";
    bool check = false;
};

class Runtime {
  public:
    Runtime();

    const Settings settings;
    const model::Gpu& gpu;
    Memory memory;
    Modules modules;
    Streams streams;
    Report report;

    // The permanent error after a kernel's fault, and whether a waiting call has returned it.
    Error fault = cudaSuccess;
    bool fault_returned = false;
    std::string unasked_mistake;  // the mistake in the last launch that failed
    std::string printed;          // text that kernels printed and that is not shown yet

    [[nodiscard]] uint64_t gpu_bytes() const;  // size of the GPU's memory
    // " <address>", which the parent process replaces by file and line; "" if unknown.
    [[nodiscard]] std::string place_of(void* caller) const;
    // Called when the host waits for the GPU: shows what kernels have printed.
    void waited();
    // cudaDeviceReset(): frees all memory and clears the permanent error.
    void reset();
};

// Created at the first call. Never destroyed, because destructors of the program may still use it.
[[nodiscard]] Runtime& runtime();

// Writes a message to stderr, unless the same message was written before.
void say_once(const std::string& text);

}  // namespace coalesce::cudart
