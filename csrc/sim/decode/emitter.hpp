// Functions that the decoder of PTX and the lifter of machine code share. They append operations
// (ops) to a program, and choose the places of its constants and scratch registers. A scratch
// register holds an intermediate result when one instruction needs several ops. A frame is the
// memory for the registers of one function.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "sim/program/program.hpp"
#include "sim/program/red_zones.hpp"
#include "sim/warp/engine.hpp"

namespace coalesce::sim {

// Registers and constants start at multiples of this number of bytes, so that vector loads are
// aligned.
inline constexpr uint32_t slot_alignment = 64;

// Returns the index of a state space: the first of the two indices of MemoryHandlers::access
// (engine.hpp).
[[nodiscard]] constexpr int row_of(ptx::Space space) {
    switch (space) {
        case ptx::Space::global:
            return 0;
        case ptx::Space::constant:
            return 5;
        case ptx::Space::shared:
            return 1;
        case ptx::Space::local:
            return 2;
        case ptx::Space::param:
            return 3;
        default:
            return 4;
    }
}

// The guard of an instruction: the predicate that says in which lanes the instruction has an
// effect. For `@!p add`, the predicate is p and `negated` is true.
struct Guard {
    Locator predicate = no_operand;
    bool negated = false;
};

// Appends ops to a program.
class Emitter {
  protected:
    // Says whether there may be gaps between the registers and between the constants. The gaps are
    // for AddressSanitizer (red_zones.hpp). In machine code, registers and constants must be
    // adjacent: two adjacent registers form a pair with a 64-bit value, and a launch copies its
    // constants as one block.
    enum class Spacing : uint8_t { apart, adjacent };

    Emitter(const Engine& engine, Spacing spacing)
        : engine_(engine), red_zone_(spacing == Spacing::apart ? red_zone_bytes : 0) {}

    // The registers of a function. The frame grows when more scratch registers are needed.
    struct Frame {
        uint32_t bytes = 0;
        RedZones red_zones;
        struct Pool {
            std::vector<Locator> registers;
            size_t used = 0;  // the number of scratch registers that the current instruction uses
        };
        // The key is the size in bytes of a register, for all lanes.
        std::map<uint32_t, Pool> scratch;
    };

    // Starts the instruction with this number. All ops that are appended from now on belong to this
    // instruction.
    void begin_instruction(uint32_t pc);
    // Appends an op of the current instruction.
    Op& append(Op op);
    // Like append(), but the op has an effect only in lanes in which the guard is true. If the op
    // already has a guard, it keeps this guard.
    Op& emit(Op op, Guard guard);
    // Appends an op that belongs to no instruction, and is therefore not counted.
    Op& append_between(Control control);

    // Returns a constant with the same value in all lanes. It consists of `count` adjacent
    // registers with `width` bytes per lane, the lowest bits first. A width of 0 means a predicate.
    // Equal constants share a register.
    Locator constant(uint64_t bits, uint32_t width, uint32_t count = 1);
    // Returns a constant register whose value is filled in later. `bytes` is its size for all
    // lanes.
    Locator new_constant(uint32_t bytes);
    // Returns a scratch register for the current instruction. `bytes` is its size for all lanes.
    // All instructions of a function share the same few scratch registers.
    Locator scratch(uint32_t bytes);
    // Appends an op that stores the negation of a predicate.
    void append_not(Locator result, Locator predicate);

    // Sets Program::family_changes and MemoryOperand::family_renewed for the ops from `first_op`
    // on, which must be all ops of a function. `families` has an entry for each of its
    // instructions, from `first_instruction` on.
    void find_family_changes(const AddressFamilies& families, uint32_t first_op,
                             uint32_t first_instruction);

    // Places a register of `size` bytes at `at` in the frame. Returns the position of the next
    // register.
    uint32_t place(uint32_t at, uint32_t size);

    const Engine& engine_;
    Program program_;
    Frame frame_;
    uint32_t pc_ = 0;
    OpCode opcode_ = OpCode::unknown;  // the opcode of the current instruction
    bool first_op_ = true;             // true until an op is appended for the current instruction
    bool first_guarded_op_ = true;     // the same for an op with a guard
    RedZones constant_zones_;

  private:
    uint32_t red_zone_;
    std::map<std::tuple<uint64_t, uint32_t, uint32_t>, Locator> constants_;
};

}  // namespace coalesce::sim
