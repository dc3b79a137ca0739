// The state of the process: one simulated GPU, its memory, modules, streams, and what it is to
// tell.
//
// Each part has a file of its own. The process that starts the program passes its wishes in
// environment variables:
//   COALESCE_PROGRAM_GPU     the simulated GPU, "h200"
//   COALESCE_PROGRAM_CODE    a folder with what is known of the machine code (code_file.hpp)
//   COALESCE_PROGRAM_REPORT  the file to write the report to, at exit (report.cpp)
//   COALESCE_PROGRAM_CHECK   "1": launches are checked, and so is what the host does
//   COALESCE_PROGRAM_KEEP    a folder for launches to be profiled afterwards (snapshots.hpp)
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

    // The error that stays after a kernel's fault, and whether a call that waits has returned it.
    Error fault = cudaSuccess;
    bool fault_told = false;
    std::string unasked_mistake;  // what was wrong with the last launch that failed
    std::string printed;          // by kernels, until the host waits for them

    [[nodiscard]] uint64_t gpu_bytes() const;  // of the GPU's memory
    // " (at file:line)" is the parent's to find: here the address is kept; "" where unknown.
    [[nodiscard]] std::string place_of(void* caller) const;
    // The host waits for all that was launched: what kernels printed is shown.
    void waited();
    // cudaDeviceReset(): frees all memory and forgets the error that stays.
    void reset();
};

// Made at the first call and never destroyed, as destructors of the program may still use it.
[[nodiscard]] Runtime& runtime();

// Says something on stderr, each text once.
void say_once(const std::string& text);

}  // namespace coalesce::cudart
