// What the decoder of PTX and the lifter of machine code do alike: they append operations to a
// program, and lay out its constants and the scratch registers of its frames.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "sim/engine.hpp"
#include "sim/program.hpp"
#include "sim/red_zones.hpp"

namespace coalesce::sim {

// Registers and constants start at multiples of this, for vector loads.
inline constexpr uint32_t slot_alignment = 64;

// The predicate under which an instruction is executed.
struct Guard {
    Locator predicate = no_operand;
    bool negated = false;
};

class Emitter {
  protected:
    // Whether red zones lie between registers and between constants. Those of machine code are
    // neighbours, and a launch copies its constants.
    enum class Spacing : uint8_t { apart, adjacent };

    Emitter(const Engine& engine, Spacing spacing)
        : engine_(engine), red_zone_(spacing == Spacing::apart ? red_zone_bytes : 0) {}

    // A function's registers: its frame grows as scratch registers are needed.
    struct Frame {
        uint32_t bytes = 0;
        RedZones red_zones;
        struct Pool {
            std::vector<Locator> registers;
            size_t used = 0;  // by this instruction
        };
        std::map<uint32_t, Pool> scratch;  // by the bytes of a register, all lanes
    };

    // From here on, ops belong to the instruction of this number.
    void begin_instruction(uint32_t pc);
    // Appends an op of the instruction.
    Op& append(Op op);
    // The same for the lanes that the guard leaves, unless the op has a guard already.
    Op& emit(Op op, Guard guard);
    // Appends an op that belongs to no instruction: nobody counts it.
    Op& append_between(Control control);

    // Registers that are constant and the same in all lanes: `count` neighbours of `width` bytes a
    // lane, the lowest bits first. A width of 0 is a predicate. Equal ones are the same register.
    Locator constant(uint64_t bits, uint32_t width, uint32_t count = 1);
    // A constant register of so many bytes, all lanes, that is filled later.
    Locator new_constant(uint32_t bytes);
    // A register of so many bytes, all lanes, that lives for one instruction. Those of a function
    // share a few.
    Locator scratch(uint32_t bytes);
    // The opposite of a predicate.
    void append_not(Locator result, Locator predicate);

    // A register of `size` bytes at `at` in the frame; returns where the next one may lie.
    uint32_t place(uint32_t at, uint32_t size);

    const Engine& engine_;
    Program program_;
    Frame frame_;
    uint32_t pc_ = 0;
    OpCode opcode_ = OpCode::unknown;  // of the instruction
    bool first_op_ = true;             // none was appended for the instruction yet
    RedZones constant_zones_;

  private:
    uint32_t red_zone_;
    std::map<std::tuple<uint64_t, uint32_t, uint32_t>, Locator> constants_;
};

}  // namespace coalesce::sim
