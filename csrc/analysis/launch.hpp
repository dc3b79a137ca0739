// A launch on the simulator with all that may be wanted of it: plain, counted, traced, profiled or
// checked.
//
// METHOD
// A Request says what to run and what to find out. purpose_of() tells which kind of program that
// takes, which the caller decodes once and keeps; prepare() checks the request and chooses blocks;
// launch() brings together the observers that the request needs (observers.hpp), runs the grid and
// makes counts, cache results and a modelled time of what they saw. Python's bindings translate
// arguments into a Request and a Result into objects, and decide nothing.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analysis/cache_replay.hpp"
#include "analysis/check.hpp"
#include "analysis/counts.hpp"
#include "analysis/trace.hpp"
#include "model/gpu.hpp"
#include "model/time.hpp"
#include "sim/engine.hpp"

namespace coalesce::analysis {

// What a program is decoded for. Counting is of the machine code where there is some that can be
// executed; the others are of the PTX.
enum class Purpose : uint8_t { run, count, trace, check, step };

// What the memory instructions of such a program announce.
[[nodiscard]] sim::Watch watch_for(Purpose purpose);

struct Request {
    sim::Launch launch;  // its geometry, parameters and blocks
    const model::Gpu* gpu = nullptr;
    uint32_t registers = 0;     // of a thread; 0: not known
    uint64_t buffer_bytes = 0;  // of the arrays: without `caches`, no more comes from DRAM

    bool counts = false;
    bool caches = false;  // replayed; needs the whole grid, or its first rounds
    // Only so many times as many blocks as the GPU holds at once are run, and the modelled time is
    // that of the whole grid; 0: all blocks.
    uint32_t first_rounds = 0;
    // The group that each of launch.blocks belongs to; each is counted apart.
    std::optional<std::vector<uint32_t>> groups;
    std::optional<Recording> record;  // which events to keep
    uint32_t exemplars = 0;           // instead of `record`: so many events of each instruction
    // A checked run: how the source declares the shared variables.
    std::optional<std::map<std::string, ArrayShape>> check;

    [[nodiscard]] bool counting() const { return counts || groups || exemplars || record; }
};

[[nodiscard]] Purpose purpose_of(const Request& request);

struct Result {
    std::optional<Counts> counts;  // of all blocks that ran
    std::vector<Counts> groups;
    std::optional<Trace> trace;
    std::optional<Checked> checked;
    std::optional<CacheResult> caches;
    model::Occupancy occupancy;
    model::Work work;                 // of the whole grid
    std::optional<model::Time> time;  // modelled, where it was counted
};

// Gives the launch the GPU's figures, and chooses the blocks to run and the events to keep. Throws
// LaunchError where the GPU could not make the launch, naming what is too large, and where a part
// of the request contradicts another.
void prepare(const sim::Program& program, Request& request);

// Maps what a launch has besides its arrays: the device heap, a cooperative launch's workspace.
void prepare_memory(const sim::Launch& launch, sim::AddressSpace& memory);

// Runs a prepared request. The program was decoded for watch_for(purpose_of(request)); `listing` is
// the program's, which all counts of a kernel share.
[[nodiscard]] Result launch(const sim::Program& program, const Request& request,
                            sim::AddressSpace& memory, std::shared_ptr<const Listing> listing);

}  // namespace coalesce::analysis
