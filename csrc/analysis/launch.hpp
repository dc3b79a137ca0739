// Runs a launch on the simulator. A launch can be plain (it only computes), counted, traced,
// profiled or checked.
//
// METHOD
// A LaunchRequest says what to run and which results to compute. The same kernel is decoded
// differently for different purposes: purpose_of() returns the purpose of a request. The caller
// decodes the kernel once for each purpose, and keeps the decoded program. prepare() checks the
// request and chooses the blocks. launch() combines the observers that the request needs
// (observers.hpp). It then runs the grid, and computes counts, cache results and a modelled time.
// The Python bindings only translate arguments into a LaunchRequest, and a Result into objects.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "analysis/caches/cache_result.hpp"
#include "analysis/check/check.hpp"
#include "analysis/counts/counts.hpp"
#include "analysis/trace/trace.hpp"
#include "model/gpu.hpp"
#include "model/time.hpp"
#include "sim/warp/engine.hpp"

namespace coalesce::analysis {

// The purpose for which a program is decoded. Counted launches execute the machine code if
// possible. Launches for the other purposes execute the PTX.
enum class Purpose : uint8_t { run, count, trace, check, step };

// Returns which memory events the instructions of a program for this purpose announce.
[[nodiscard]] sim::Watch watch_for(Purpose purpose);

// The launch to run, and the results to compute.
struct LaunchRequest {
    sim::GridRun launch;  // the grid, the block, the parameters and the chosen blocks
    const model::Gpu* gpu = nullptr;
    uint32_t registers = 0;  // registers per thread; 0 means not known
    // The total size of the arrays. If the caches are not replayed, it limits the bytes from DRAM.
    uint64_t buffer_bytes = 0;
    // The largest number of blocks in a cluster. All GPUs with clusters accept 8 (CUDA C++
    // Programming Guide, "Thread Block Clusters").
    uint64_t most_cluster_blocks = 8;

    bool counts = false;
    // If true, the caches are replayed (cache_replay.hpp). The request must then run the whole
    // grid, or use `first_rounds`.
    bool caches = false;
    // If this is not 0, only the first blocks of the grid run: as many as the GPU holds at once,
    // multiplied by `first_rounds`. The modelled time is still the time of the whole grid.
    uint32_t first_rounds = 0;
    std::optional<Recording> record;  // which events to keep
    // If not 0, keeps this number of events per instruction. This setting replaces `record`.
    uint32_t exemplars = 0;
    std::optional<CheckSettings> check;  // if set, the run is checked
    // If not empty, the executed machine instructions are written to this file (accel_sim.hpp).
    std::string accel_sim;

    [[nodiscard]] bool counting() const { return counts || exemplars || record; }
};

[[nodiscard]] Purpose purpose_of(const LaunchRequest& request);

// The results of a launch. Optional members are set only if they were requested.
struct Result {
    std::optional<Counts> counts;  // counts of all blocks that ran
    std::optional<Trace> trace;
    std::optional<Checked> checked;
    std::optional<CacheResult> caches;
    model::Occupancy occupancy;
    model::Work work;  // work of the whole grid
    // The modelled time. It is set if the launch was counted and Counts::not_modelled() returns no
    // reason.
    std::optional<model::Time> time;
};

// Sets the GPU's properties in the launch, and chooses the blocks to run and the events to keep.
// Throws LaunchError if the GPU cannot run the launch; the message says what is too large. Also
// throws LaunchError if parts of the request contradict each other.
void prepare(const sim::Program& program, LaunchRequest& request);

// Maps the memory that a launch has besides its arrays: the device heap and the workspace of a
// cooperative launch.
void prepare_memory(const sim::GridRun& launch, sim::AddressSpace& memory);

// Runs a prepared request. The program must be decoded for watch_for(purpose_of(request)).
// `code` describes the program. All Counts of a kernel share the same description.
[[nodiscard]] Result launch(const sim::Program& program, const LaunchRequest& request,
                            sim::AddressSpace& memory, std::shared_ptr<const CountedCode> code);

}  // namespace coalesce::analysis
