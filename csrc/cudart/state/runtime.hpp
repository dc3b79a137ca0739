// The state of the process: one simulated GPU, its memory, modules and streams, and the report.
//
// Each part has a file of its own. The parent process, which starts the program, passes its
// settings in environment variables:
//   COALESCE_PROGRAM_GPU     the simulated GPU, such as "h200"
//   COALESCE_PROGRAM_CODE    a folder with information on the machine code (code_file.hpp)
//   COALESCE_PROGRAM_REPORT  the file for the report at exit (report.cpp)
//   COALESCE_PROGRAM_CHECK   "1": check launches and the host's use of memory
//   COALESCE_PROGRAM_KEEP    a folder for launches that are profiled afterwards (snapshots.hpp)
//   COALESCE_PROGRAM_HELPER  the path of Python, which reads modules loaded at run time (jit.hpp)
//   COALESCE_PROGRAM_NVRTC   NVIDIA's libnvrtc.so (csrc/cudart/nvrtc/nvrtc.cpp)
//   COALESCE_PROGRAM_LAUNCHES "first", "all" or the number of the launch to keep
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "cudart/report/report.hpp"
#include "cudart/state/arrays.hpp"
#include "cudart/state/contexts.hpp"
#include "cudart/state/memory.hpp"
#include "cudart/state/modules.hpp"
#include "cudart/state/streams.hpp"
#include "model/gpu.hpp"

namespace coalesce::cudart {

// The CUDA version of both APIs.
inline constexpr int runtime_version = 13000;

// The settings from the environment variables above.
struct Settings {
    std::string gpu = "h200", code, report, keep, launches = "first";
    bool check = false, strict = false;
    std::string helper = {};
    uint64_t instruction_limit = 0;
};

// The numbers of limits (cudaLimit).
namespace Limit {
inline constexpr int stack_size = 0, printf_buffer = 1, malloc_heap = 2, pending_launches = 4,
                     l2_fetch_granularity = 5, persisting_l2 = 6;
}
[[nodiscard]] std::map<int, size_t> default_limits();

class Runtime {
  public:
    Runtime();

    const Settings settings;
    const model::Gpu& gpu;
    Contexts contexts;
    Memory memory;
    Modules modules;
    Streams streams;
    Order order;
    Arrays arrays;
    Pools pools;
    VirtualMemory virtual_memory;
    std::map<Graph, std::shared_ptr<GraphRecord>> graphs;  // those that the program owns
    std::set<Executable> executables;
    std::set<Link> links;
    Report report;

    // `fault` is the error of a kernel that faulted; it is permanent. `fault_returned` is true if
    // the program already got this error from a call that waits for the GPU.
    Error fault = cudaSuccess;
    bool fault_returned = false;
    // The mistake in the last launch that failed.
    std::string unread_error_mistake;
    // The limits of cudaDeviceSetLimit().
    std::map<int, size_t> limits = default_limits();
    // A kernel that calls malloc() was launched.
    bool heap_used = false;
    // The text that kernels have printed and that is not shown yet.
    std::string printed;
    std::set<std::string> said;  // the messages of print_once()
    std::recursive_mutex lock;   // a call holds it

    [[nodiscard]] uint64_t gpu_bytes() const;  // size of the GPU's memory
    // Returns " <address>" for messages, or "" if it is unknown. The parent process replaces the
    // address by file and line.
    [[nodiscard]] std::string place_of(void* caller) const;
    // Called when the host waits for the GPU. Shows the text that kernels have printed.
    void waited();
    // Implements cudaDeviceReset(): frees all memory and clears the permanent error.
    void reset();
};

// The first call creates the runtime. It is never destroyed, because destructors of the program may
// still use it.
[[nodiscard]] Runtime& runtime();

// Writes the report for the parent process, if it wants one and the program has used the runtime.
void write_report();

// Writes a message to stderr, unless the same message was written before.
void print_once(const std::string& text);

}  // namespace coalesce::cudart
