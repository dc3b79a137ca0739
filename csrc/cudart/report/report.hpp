// Collects what the program did on the GPU: its launches with their counts, findings of checks,
// mistakes in the host code, and functions that are not simulated.
//
// The runtime has one Report. Each part of the library adds to it while the program runs. At the
// end of the process, write() stores it as JSON, and python/coalesce/programs/report.py shows it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "analysis/launch.hpp"
#include "cudart/abi/abi.hpp"

namespace coalesce::cudart {

struct Function;

// Sums over the launches of one kernel.
struct KernelTotal {
    std::string entry, name, file;
    uint32_t line = 0;
    uint64_t launches = 0, blocks = 0, counted = 0;  // `counted` is the number of counted launches
    uint64_t blocks_counted = 0;
    bool machine_code = false;
    std::string why_ptx;
    double load_requests = 0, load_sectors = 0, store_requests = 0, store_sectors = 0;
    double instructions = 0;
    double ms = 0;  // modelled time of all launches
    // Why the time of a launch cannot be modelled. The text is empty if it can.
    std::string no_time;
};

// A mistake in the host code.
struct HostFinding {
    std::string kind, text;
    // The return address of the call, as an offset in `object`.
    uint64_t caller = 0;
    std::string object;  // the file that contains the address
    uint64_t count = 1;
};

// Reads outside every array, after which the kernel continued (sim::OutsideReads).
struct OutsideRead {
    std::string key;           // the hash of the code, and the entry
    std::string kernel, text;  // the kernel, and the message for the first read
    uint64_t count = 0;        // instructions of a warp, in all launches of the kernel
};

class Report {
  public:
    KernelTotal& kernel(const Function& function);
    // Returns the names of the kernels whose time cannot be modelled.
    [[nodiscard]] std::vector<std::string> untimed() const;
    // Adds the findings of a checked launch to the report. They refer to the decoded program, which
    // may be gone when the report is written. So they are converted to JSON now.
    void add(const Function& function, const analysis::Checked& checked,
             const sim::Program& program);
    // Adds a race that a run without --check has found in the kernel's first launch.
    void add_race(const Function& function, const analysis::Finding& race,
                  const sim::Program& program);
    void add_mistake(const std::string& kind, const std::string& text, void* caller);
    void add_outside_reads(const Function& function, const std::string& first, uint64_t count);
    void missing(const std::string& function) { missing_.push_back(function); }
    void snapshot(const std::string& file) { snapshots_.push_back(file); }
    double copies_ms = 0;
    std::string failure;   // the message of a kernel's fault
    std::string unusable;  // why kernels of the program cannot run; empty if they can

    // Writes the report to a file as JSON.
    void write(const std::string& file) const;

  private:
    std::vector<std::string> order_;              // kernels in the order of their first launches
    std::map<std::string, KernelTotal> kernels_;  // the key has the hash of the code and the entry
    std::vector<std::string> findings_, races_;   // JSON
    std::vector<HostFinding> mistakes_;
    std::vector<OutsideRead> outside_reads_;
    std::vector<std::string> missing_, snapshots_;
};

// Returns the file that contains an address of code, and the offset in this file.
[[nodiscard]] std::pair<std::string, uint64_t> object_of(const void* address);

}  // namespace coalesce::cudart
