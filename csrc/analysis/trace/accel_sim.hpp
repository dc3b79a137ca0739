// Writes the machine instructions that a launch executes as a trace for the simulator Accel-Sim.
//
// METHOD
// Accel-Sim's own tracer runs the kernel on a GPU. Here, the simulator runs it. The file has the
// format of version 5 of the tracer, grouped by blocks (.traceg), which Accel-Sim 2.0 reads
// (accel-sim-framework, gpu-simulator/trace-parser/trace_parser.cc). Each executed instruction is a
// line: code offset, lanes, destination register, opcode, source registers, bytes per lane and the
// addresses, and an immediate operand. Addresses in shared and local memory start at 0.
//
// A segment is announced before it runs. So its instructions are kept as `pending_` until the next
// announcement. Then the addresses and the guards are known. If a guard is true in some lanes and
// the instruction does not access memory, it is not known in which; then all lanes are written.
#pragma once

#include <cstdint>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "sim/program/program.hpp"
#include "sim/warp/observer.hpp"

namespace coalesce::analysis {

class AccelSimTrace {
  public:
    static constexpr sim::Hooks hooks = sim::Hook::start | sim::Hook::finish | sim::Hook::segment |
                                        sim::Hook::access | sim::Hook::copied;

    // Throws LaunchError if the program is not machine code, or if the file cannot be written.
    AccelSimTrace(const sim::Program& program, const sim::GridRun& launch, uint32_t registers,
                  uint32_t architecture, const std::string& path);

    void start(sim::Block& block);
    void finish(const sim::Block& block);
    void segment(const sim::Warp& w, uint32_t op, sim::LaneMask mask);
    void access(const sim::Warp& w, const sim::MemoryEvent& e);
    [[noreturn]] void copied(const sim::Warp& w, const sim::CopyEvent& e);
    // Throws LaunchError if not all was written.
    void close();

  private:
    // What the lines of an instruction have in common: the text between the lanes and the
    // addresses.
    struct Form {
        std::string offset, middle, end;
        bool memory = false, guarded = false;
    };
    struct Pending {
        uint32_t pc = 0;
        sim::LaneMask mask = 0;
        std::string addresses;
    };
    struct Lines {
        std::string text;
        uint64_t count = 0;
    };
    void write_pending();

    const sim::Program& program_;
    std::vector<Form> forms_;
    std::vector<uint64_t> guarded_;  // Warp::guarded_lanes, since the segment began
    std::vector<Pending> pending_;
    const sim::Warp* running_ = nullptr;  // the warp whose segment is pending
    std::map<const sim::Block*, std::vector<Lines>> blocks_;
    std::ofstream file_;
};
static_assert(sim::Observer<AccelSimTrace>);

}  // namespace coalesce::analysis
