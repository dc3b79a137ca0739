// A kernel ready to run: PTX decoded once into operations on lanes.
//
// METHOD
// Each PTX instruction becomes one Op (a few become several), a record of fixed size: the function
// that executes it for a warp, where its operands lie, and what else it has (payload.hpp). Virtual
// registers whose live ranges do not overlap share a slot, so that a warp's registers stay in the
// host's L1 cache. An operand is a locator: where a slot lies in the frame's registers,
// or, with the lowest bit set, in the table of constants, which are registers too (32 equal lanes).
// So every form of an instruction, with registers or immediates, is executed by the same code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ptx/address_families.hpp"
#include "ptx/control_flow.hpp"
#include "ptx/module.hpp"
#include "ptx/origins.hpp"
#include "sim/address_space.hpp"
#include "sim/lanes.hpp"
#include "sim/locator.hpp"
#include "sim/matrix.hpp"
#include "sim/payload.hpp"
#include "sim/red_zones.hpp"
#include "sim/traits.hpp"

namespace coalesce::sim {

struct Warp;
struct Op;

// Executes an operation for the lanes of warp.mask.
using Handler = void (*)(Warp& warp, const Op& op);

// Moves data between registers and the memory found for a warp's addresses; see memory.hpp.
struct Resolved;
using Mover = void (*)(Warp& warp, const Op& op, const Resolved& where);

// What the scheduler does at an operation; everything else is `none`: execute it and go on.
enum class Control : uint8_t {
    none,
    synchronize,   // shfl, vote, match, mma, bar.warp.sync: needs the lanes of a member mask
                   // together
    branch,        // bra
    branch_table,  // brx.idx
    call,
    call_indirect,
    ret,
    exit,
    barrier,         // bar, barrier: the block's threads
    join,            // the next op starts a block where lanes may meet again
    yield,           // nanosleep: let other warps run
    cluster_arrive,  // barrier.cluster.arrive, wait: the threads of the cluster
    cluster_wait,
    // Of machine code: lanes meet where it says so (convergence.cpp).
    set_barrier,      // BSSY
    sync_barrier,     // BSYNC
    break_barrier,    // BREAK
    keep_barrier,     // BMOV: a function puts its caller's barrier by,
    restore_barrier,  // and back
    jump,             // to the code at the offset in a register
    call_outside,     // CALL.ABS: of code that is not in the cubin
};

// Op has the payload as its base so that its small members lie in the padding behind it: the loop
// over a segment's ops reads little memory.
struct Op : Payload {
    bool loads_factor = false;      // the first of two loads whose multiply-add follows
    OpCode code = OpCode::unknown;  // of the instruction it belongs to
    Control control = Control::none;
    bool guard_negated = false;
    bool starts = true;  // the first op of its instruction (false: one of its helpers)
    uint8_t length = 1;  // how many ops, from this one on, `run` executes (multiply_chain.hpp)
    Handler run = nullptr;
    Handler inner = nullptr;  // what a guarded op runs for the lanes its guard leaves
    Mover mover = nullptr;    // memory: moves the data once the addresses are known
    Locator operand[6] = {no_operand, no_operand, no_operand, no_operand, no_operand, no_operand};
    Locator guard = no_operand;  // predicate
    uint32_t pc = 0;             // index into Program::instructions

    [[nodiscard]] bool skips_guarded() const { return is<Branch>() && get<Branch>().skips_guarded; }
};
static_assert(sizeof(Op) == 88);

// The most multiply-adds of one chain; see multiply_chain.hpp.
inline constexpr size_t longest_chain = 64;

enum class Access : uint8_t { load, store, atomic, reduction, async_copy };

// What messages and reports say of an instruction.
struct InstructionInfo {
    std::string text;
    std::string opcode;      // with its modifiers, for people to read: "ld.global.nc.f32"
    Traits traits;           // what it is, for everybody else
    uint32_t ptx_line = 0;   // from 1
    ptx::SourceLine source;  // that the kernel's author wrote (ptx::Instruction::written)
    uint32_t function = 0;
    // Of a memory instruction, else `reg`; `generic` where only the address tells.
    ptx::Space space = ptx::Space::reg;
    Access access = Access::load;
    uint8_t bytes = 0;  // of a lane's access, all its elements
    // The origin of its address; `parameter` numbers the kernel's parameters.
    ptx::Origin origin;
    bool operator==(const InstructionInfo&) const = default;
    void set_opcode(std::string name) {
        traits = traits_of(name);
        opcode = std::move(name);
    }
};

// A variable's place, from the start of its space or frame.
struct VariablePlace {
    uint32_t offset = 0, bytes = 0;
};

struct FunctionInfo {
    std::string name;
    uint32_t entry = 0;                 // op
    uint32_t register_bytes = 0;        // of a frame, all lanes
    uint32_t local_bytes = 0;           // of a frame, a lane: .local variables and .param space
    uint32_t argument_bytes = 0;        // of that, its arguments and results, which lie first
    std::vector<VariablePlace> locals;  // the .local variables among them
    RedZones red_zones;                 // of a frame's registers
};

// A function call: which bytes of the caller's .param space go to the callee's (arguments laid out
// in order by their alignment, results after them) and back. The .param space of a function lies in
// its frame's local memory.
struct CallSite {
    struct Copy {
        uint32_t caller, callee, bytes;
    };
    std::vector<Copy> arguments;
    std::vector<Copy> results;
    uint32_t argument_bytes = 0;  // all arguments and results
    uint32_t function = 0;        // of a direct call
    enum class Builtin : uint8_t {
        none,
        vprintf,
        assertfail,
        malloc,
        free
    } builtin = Builtin::none;
};

// A kernel parameter as the .param space lays it out.
struct ParameterInfo {
    std::string name;
    ptx::Type type;
    uint32_t offset, bytes, alignment;
    bool pointer;
};

// Module-scope variables: one copy that lives as long as the module, at fixed addresses.
struct ModuleMemory {
    struct Item {
        std::string name;
        uint64_t address;
        std::vector<std::byte> bytes;
        bool writable;
    };
    std::vector<Item> items;
    std::unordered_map<std::string, uint64_t> address_of;
    void map_into(AddressSpace& memory);
};

// How the assembler scheduled a machine instruction.
struct Schedule {
    static constexpr uint32_t no_branch = UINT32_MAX;
    static constexpr int scoreboards = 6, no_scoreboard = 7;
    uint8_t cycles = 0;                // until the warp's next instruction; 0: not known
    uint8_t awaits = 0;                // a bit for each scoreboard that has to be clear before
    uint8_t result = no_scoreboard;    // is clear when the result is there
    uint8_t operands = no_scoreboard;  // is clear when the operands have been read
    uint32_t target = no_branch;       // instruction, of a branch
    bool ends = false;                 // none follows: an unguarded branch or exit
};

// What a program made of machine code has besides: constant banks, of which a launch makes the
// words that operands name, and where its code offsets are.
struct MachineCode {
    static constexpr uint32_t banks = 5;
    static constexpr uint32_t parameters = 0x210;  // in bank 0, of compute capability 9.0
    struct Word {                                  // a constant register filled at the launch
        uint32_t constant = 0;                     // byte offset in Program::constants
        uint32_t bank = 0, offset = 0;
    };
    struct Variable {  // a module's variable in bank 3
        size_t item = 0;
        uint32_t offset = 0, bytes = 0;
        uint64_t address = 0;
    };
    static constexpr uint32_t of_variables = 3;  // number of their bank
    // Functions that are not in the cubin, by the addresses that bank 4 has for them.
    std::map<uint64_t, CallSite::Builtin> outside;
    static constexpr uint64_t first_outside = uint64_t{4} << 24;
    std::vector<std::byte> bank[banks];
    std::vector<Word> words;
    std::vector<Variable> variables;
    std::vector<uint32_t> op_of;     // by code offset / 16
    std::set<uint32_t> functions;    // code offsets that a call through a pointer may lead to
    std::vector<Schedule> schedule;  // by instruction
    // By branch: memory instructions that its two sides may run together, or one after the other,
    // as no barrier brings them together before (sass/meetings.hpp).
    std::map<uint32_t, std::vector<uint32_t>> meetings;
};

// What differs between programs of PTX and of machine code while they run.
struct Conventions {
    // Diverged lanes reconverge where instructions say so (BSSY, BSYNC). Otherwise they do wherever
    // they come to one place, at the latest where the branch's sides meet.
    bool explicit_reconvergence = false;
};

// The constants and banks of a launch of machine code.
struct MachineConstants {
    std::vector<std::byte> constants;
    std::vector<std::byte> bank[MachineCode::banks];
};

// The local memory of a lane where nothing tells how deep calls become.
inline constexpr uint32_t unknown_depth_stack = 64 * 1024;

struct Program {
    std::string kernel;  // its name in C++, for messages
    std::vector<Op> ops;
    std::vector<uint32_t> segment_end;  // op -> one past the next op that is not Control::none
    // Of a plain run, op -> the address families that the ops from here to the segment's end
    // change, and renew; see lane_strides.hpp.
    struct FamilyChanges {
        uint64_t changed = 0, renewed = 0;
    };
    std::vector<FamilyChanges> family_changes;
    std::vector<uint32_t> reconvergence;  // op of a branch -> op where its lanes meet, or no_op
    std::vector<InstructionInfo> instructions;
    std::vector<FunctionInfo> functions;  // [0] is the kernel
    std::vector<CallSite> calls;
    std::vector<Matrices> matrices;                              // of instructions on matrices
    std::unordered_map<uint64_t, uint32_t> function_of_address;  // see symbols.hpp
    std::vector<std::vector<uint32_t>> tables;                   // branch_table: ops
    std::vector<std::byte> constants;
    std::vector<ParameterInfo> parameters;
    uint32_t parameter_bytes = 0;
    // Static shared memory, up to where the dynamic one starts. Addresses of shared memory count
    // the reserved bytes before it; offsets that observers see do not.
    uint32_t shared_bytes = 0, reserved_shared = 0;
    std::shared_ptr<ModuleMemory> memory;
    std::map<uint32_t, std::string> files;  // of SourceLine
    uint32_t source_file = 0;               // the file the kernel is in, and
    std::vector<std::string> source;        // lines of the CUDA source, where known
    uint32_t local_bytes = 0;               // a lane's stack, for the deepest chain of calls
    bool recursive = false;                 // or calls through pointers: the depth is not known
    bool allocates = false;                 // calls malloc or free
    bool asks_for_grid = false;             // reads where the workspace of a cooperative launch is
    uint32_t cluster[3] = {};               // __cluster_dims__; zeros: none
    bool has_clusters = false;              // it can only be launched in clusters
    uint32_t max_block_threads = 0;         // .maxntid / .reqntid product; 0: none
    std::unordered_map<std::string, std::pair<uint32_t, uint32_t>>
        shared_variables;        // offset, bytes
    std::string dynamic_shared;  // the name of the variable there, if the kernel has one
    Conventions conventions;
    std::shared_ptr<const MachineCode> machine;  // of a program of machine code
};

inline constexpr uint32_t no_op = UINT32_MAX;

// A handler chosen for a PTX instruction, and the types of its operands (destinations first), which
// say how wide registers are read and how immediates are converted.
struct Selection {
    Handler run = nullptr;
    std::vector<ptx::Type> types;
    uint8_t destinations = 1;
    Payload payload;
    bool synchronizes = false;  // the last operand is a member mask
};

// The constants of a launch. `parameters` are as the kernel's .param space lays them out.
struct Launch;
[[nodiscard]] MachineConstants machine_constants(const Program& program, const Launch& launch);

// The handlers of one instruction set and one observer; see isa.hpp and engine.hpp.
struct Engine;

// Module memory of a parsed module, to be shared by the programs made from it.
[[nodiscard]] std::shared_ptr<ModuleMemory> lay_out_memory(const ptx::Module& module);

// Decodes the entry for an engine. Throws UnsupportedInstruction for what cannot be executed and
// LaunchError if there is no such entry.
[[nodiscard]] Program decode(const ptx::Module& module, const ptx::Function& entry,
                             std::shared_ptr<ModuleMemory> memory, const Engine& engine);

// Fills Program::segment_end.
void find_segments(Program& program);

// Marks the branches back of loops that only read memory until another thread has written there.
void find_spins(Program& program);

// The offsets of an entry's parameters.
[[nodiscard]] std::vector<ParameterInfo> lay_out_parameters(const ptx::Function& entry,
                                                            uint32_t& total_bytes);

}  // namespace coalesce::sim
