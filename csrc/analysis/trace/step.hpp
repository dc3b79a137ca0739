// Steps through one block of a launch, instruction by instruction.
//
// METHOD
// In a normal run, the simulator executes operations in its own loop. Here the caller has the loop,
// and calls a Stepper, which owns one block. Each call of step() executes one PTX instruction of
// one warp, with the same operations and the same scheduler as in a normal run. Nothing runs
// between two calls, so the caller may stop after any of them. Other blocks run only if this block
// waits for them in a cooperative launch or a cluster.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analysis/trace/trace.hpp"
#include "sim/decode/registers.hpp"
#include "sim/warp/engine.hpp"
#include "sim/warp/memory.hpp"

namespace coalesce::analysis {

// The state of a warp before its next step.
struct Position {
    enum class State : uint8_t {
        ready,
        at_barrier,  // waits for other threads of the block
        at_lanes,    // waits for other lanes of the warp, in an operation such as a shuffle
        ended        // all threads of the warp have ended
    } state = State::ready;
    // The next instruction. For a waiting warp, the instruction at which it waits.
    uint32_t pc = 0;
    sim::LaneMask mask = 0;
};

// A PTX instruction that a warp has executed.
struct Executed {
    uint32_t warp = 0;
    uint32_t pc = 0;
    // Active lanes of the path. A guard may exclude some of them.
    sim::LaneMask mask = 0;
};

// The condition at which run() stops.
struct Until {
    // Stop if a warp arrives at one of these instructions. If `warp` is set, only this warp counts.
    // The last call of run() has stopped at an instruction. This instruction does not count until
    // the warp arrives there again, from another instruction or in a loop.
    std::vector<bool> instructions;
    std::optional<uint32_t> warp;
    bool barrier = false;  // stop when a barrier of the block opens
    // If set, only this warp runs. Stop when the warp has left `instructions`, when it waits, or
    // when it has ended.
    std::optional<uint32_t> off_lines;
};

class Stepper {
  public:
    enum class Outcome : uint8_t { reached, ended, paused };

    // The program must be decoded for Watch::accesses. The Stepper keeps references to all
    // arguments except the launch. It keeps at most `most_events` events until the next
    // take_events().
    Stepper(const sim::Program& program, const sim::RegisterMap& registers, sim::GridRun launch,
            sim::AddressSpace& memory, uint64_t block, size_t most_events);
    ~Stepper();
    Stepper(const Stepper&) = delete;
    Stepper& operator=(const Stepper&) = delete;

    [[nodiscard]] uint32_t warps() const;
    [[nodiscard]] bool ended() const;
    // Returns the warp that runs next. It is the warp that ran last, as long as this warp can
    // continue.
    [[nodiscard]] uint32_t warp() const;
    [[nodiscard]] Position position(uint32_t warp);
    [[nodiscard]] uint64_t barriers() const;  // number of barriers that have opened
    [[nodiscard]] uint64_t steps() const;     // number of executed instructions

    // Executes one instruction of `warp`, or of the warp that runs next if `warp` has no value.
    // Returns nothing if the warp waits or has ended. Throws the errors of the kernel; the block
    // then stays as it is.
    std::optional<Executed> step(std::optional<uint32_t> warp);

    // Executes at most `most` instructions, of all warps in turn. Returns `paused` at this limit.
    Outcome run(const Until& until, uint64_t most);

    // A register of the function that a warp is in, for the lanes of the running path.
    struct Register {
        const sim::RegisterPlace* place;
        sim::LaneMask known;  // lanes that hold a value
        const std::byte* bytes;
        bool needed;  // a later instruction reads the value
    };
    // Returns the registers that hold a value in at least one lane.
    [[nodiscard]] std::vector<Register> registers(uint32_t warp);

    // The .local variables of the function that a warp is in.
    struct Locals {
        std::vector<std::byte> bytes;  // of all lanes
        std::vector<bool> written;     // for each of these bytes, since the call of the function
    };
    // Returns the variable number `index`, or nothing if the function has no such variable.
    [[nodiscard]] Locals local(uint32_t warp, size_t index);

    [[nodiscard]] const std::byte* shared() const;
    [[nodiscard]] const std::vector<bool>& shared_written() const;

    [[nodiscard]] Trace take_events();
    // Returns the text that the kernel has printed since the last call.
    [[nodiscard]] std::string take_output();

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace coalesce::analysis
