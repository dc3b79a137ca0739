// Walking one block of a launch instruction by instruction.
//
// METHOD
// The engine runs segments of operations in a loop of its own; here the loop is the caller's. A
// Stepper is a worker of the engine that owns one block and executes one PTX instruction of one
// warp at a time, through the same operations and the same scheduler. Nothing runs in between, so
// that a stepper may be left at any instruction: there is no thread to end. Only this block runs;
// of a cooperative launch the others, too, while this one waits for them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analysis/trace.hpp"
#include "sim/engine.hpp"
#include "sim/memory.hpp"
#include "sim/registers.hpp"

namespace coalesce::analysis {

// What a warp is about to do.
struct Position {
    enum class State : uint8_t {
        ready,
        at_barrier,  // waits for other threads of the block
        at_lanes,    // waits for other lanes, in a warp operation
        ended        // all its threads have left
    } state = State::ready;
    uint32_t pc = 0;  // the next instruction; of a warp that waits, the one that it waits at
    sim::LaneMask mask = 0;
};

// A PTX instruction that a warp has executed.
struct Executed {
    uint32_t warp = 0;
    uint32_t pc = 0;
    sim::LaneMask mask = 0;  // of the path; a guard may leave fewer
};

// When run() is to stop.
struct Until {
    // A warp, or this one, comes to one of them: from an instruction that is none, or by a loop.
    // Where the last call stopped for that reason does not count again.
    std::vector<bool> instructions;
    std::optional<uint32_t> warp;
    bool barrier = false;  // a barrier of the block opens
    // Only this warp runs, and is to stop where it is at none of `instructions`, waits or ends.
    std::optional<uint32_t> off_lines;
};

class Stepper {
  public:
    enum class Outcome : uint8_t { reached, ended, paused };

    // The program is decoded for Watch::accesses. Keeps references to all but the launch;
    // `most_events` are kept between two take_events().
    Stepper(const sim::Program& program, const sim::RegisterMap& registers, sim::Launch launch,
            sim::AddressSpace& memory, uint64_t block, size_t most_events);
    ~Stepper();
    Stepper(const Stepper&) = delete;
    Stepper& operator=(const Stepper&) = delete;

    [[nodiscard]] uint32_t warps() const;
    [[nodiscard]] bool ended() const;
    // The warp whose turn it is: the last one, while it can go on.
    [[nodiscard]] uint32_t warp() const;
    [[nodiscard]] Position position(uint32_t warp);
    [[nodiscard]] uint64_t barriers() const;  // that have opened
    [[nodiscard]] uint64_t steps() const;     // instructions executed

    // Executes an instruction of the warp, or of the one whose turn it is. Nothing if that warp
    // waits or has ended, or if all have. Throws what a kernel can do wrong; the block then stays
    // as it is.
    std::optional<Executed> step(std::optional<uint32_t> warp);

    // Executes instructions, of all warps in turn, at most so many (`paused`).
    Outcome run(const Until& until, uint64_t most);

    // A register of the function that a warp's path is in, for the lanes of that path.
    struct Register {
        const sim::RegisterPlace* place;
        sim::LaneMask known;  // lanes that hold a value
        const std::byte* bytes;
    };
    // Those that hold something in some lane.
    [[nodiscard]] std::vector<Register> registers(uint32_t warp);

    [[nodiscard]] const std::byte* shared() const;
    [[nodiscard]] const std::vector<bool>& shared_written() const;

    [[nodiscard]] Trace take_events();
    // What the kernel has printed since the last call.
    [[nodiscard]] std::string take_output();

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace coalesce::analysis
