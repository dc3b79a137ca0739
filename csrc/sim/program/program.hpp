// A kernel that is ready to run. Its PTX or machine code was decoded once, into operations for
// whole warps.
//
// METHOD
// Each instruction becomes one Op, in a few cases several. An Op is a record of fixed size. An Op
// has a handler (the function that executes it for a whole warp), the locations of its operands,
// and a payload with other properties (payload.hpp).
//
// Each register of PTX has a slot: a place in the memory of a warp. Registers that are never needed
// at the same time share a slot. So a warp needs little memory for its registers, and they stay in
// the host's L1 cache.
//
// The location of an operand is a Locator. A Locator is a position in the registers or, if its
// lowest bit is set, a position in the table of constants (locator.hpp). A constant is stored like
// a register, with the same value in all 32 lanes. So the same code executes an instruction with
// registers and with constants.
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

#include "ptx/module.hpp"
#include "sim/memory/address_space.hpp"
#include "sim/memory/lanes.hpp"
#include "sim/memory/locator.hpp"
#include "sim/memory/texture.hpp"
#include "sim/program/matrix.hpp"
#include "sim/program/payload.hpp"
#include "sim/program/red_zones.hpp"
#include "sim/program/tensor_map.hpp"
#include "sim/program/warpgroup.hpp"
#include "sim/ptx_analysis/address_families.hpp"
#include "sim/ptx_analysis/data_flow.hpp"
#include "sim/ptx_analysis/origins.hpp"
#include "sim/ptx_analysis/traits.hpp"

namespace coalesce::sim {

struct Warp;
struct Op;

// Executes an operation for the lanes of warp.mask.
using Handler = void (*)(Warp& warp, const Op& op);

// Moves data between registers and memory. `where` is the host memory for the addresses of the
// lanes; see Resolved in memory.hpp.
struct Resolved;
using Mover = void (*)(Warp& warp, const Op& op, const Resolved& where);

// Tells the scheduler how to execute an operation. `none` means that the scheduler runs the handler
// and continues.
enum class Control : uint8_t {
    none,
    // shfl, vote, match, mma, bar.warp.sync: the lanes of the member mask must reconverge.
    synchronize,
    branch,        // a branch: bra
    branch_table,  // a branch to an entry of a table of targets: brx.idx
    call,
    call_indirect,
    ret,
    exit,
    barrier,         // bar, barrier: the lanes wait for other threads of the block
    join,            // marks that lanes may reconverge at the next op
    yield,           // nanosleep: lets other warps run
    may_yield,       // YIELD in machine code: other lanes of the warp may run next
    cluster_arrive,  // barrier.cluster.arrive and wait: for the threads of the cluster
    cluster_wait,
    // In machine code, the following instructions say where lanes reconverge (convergence.cpp).
    set_barrier,      // BSSY
    sync_barrier,     // BSYNC
    break_barrier,    // BREAK
    keep_barrier,     // BMOV: a function saves the barrier of its caller
    restore_barrier,  // BMOV: a function restores the barrier of its caller
    end_section,      // ENDCOLLECTIVE
    jump,             // a jump to the code offset in a register
    call_outside,     // CALL.ABS: calls code that is not in the cubin
};

// The payload is a base class of Op and not a member. So the compiler can place the small members
// of Op in the unused bytes at the end of the payload. This makes an Op small, so that the loop
// over the ops reads little memory.
struct Op : Payload {
    // true for the first of two loads before a multiply-add in a chain (multiply_chain.hpp)
    bool loads_factor = false;
    OpCode code = OpCode::unknown;  // the opcode of the op's instruction
    Control control = Control::none;
    bool guard_negated = false;
    // True for the first op of an instruction, and for its first op that has a guard. The two share
    // a byte.
    bool starts : 1 = true, starts_guarded : 1 = false;
    // The number of ops that `run` executes, starting with this op. It is larger than 1 only for a
    // chain (multiply_chain.hpp).
    uint8_t length = 1;
    Handler run = nullptr;
    // For a guarded op: the handler that runs in the lanes in which the guard is true.
    Handler inner = nullptr;
    Mover mover = nullptr;  // for memory accesses: moves the data when the addresses are known
    Locator operand[6] = {no_operand, no_operand, no_operand, no_operand, no_operand, no_operand};
    Locator guard = no_operand;  // the predicate that guards the op
    uint32_t pc = 0;             // an index into Program::instructions

    [[nodiscard]] bool skips_guarded() const { return is<Branch>() && get<Branch>().skips_guarded; }
};
static_assert(sizeof(Op) == 88);

// The largest number of multiply-adds in a chain; see multiply_chain.hpp.
inline constexpr size_t longest_chain = 64;

// The kind of a memory access. A reduction is an atomic that returns no value.
enum class Access : uint8_t { load, store, atomic, reduction, async_copy };

// Information on an instruction for messages and reports.
struct InstructionInfo {
    std::string text;
    std::string opcode;      // with its modifiers, as users see it: "ld.global.nc.f32"
    Traits traits;           // the properties of the instruction that all other code uses
    uint32_t ptx_line = 0;   // lines are numbered from 1
    ptx::SourceLine source;  // the line that the kernel's author wrote (ptx::Instruction::written)
    uint32_t function = 0;
    // The space of a memory instruction; `reg` for other instructions. It is `generic` if the space
    // is known only when the address is known.
    ptx::Space space = ptx::Space::reg;
    Access access = Access::load;
    uint8_t bytes = 0;  // the bytes that each lane accesses, for all its elements together
    // The origin of the address. `parameter` is an index into the kernel's parameters.
    Origin origin;
    // For a load whose address is computed from the address of a parameter: the index of the
    // parameter. Otherwise -1. See parameter_addresses.hpp.
    int32_t in_parameter = -1;
    bool waits = false;  // a thread waits with this read for another thread (waiting_reads.hpp)
    bool operator==(const InstructionInfo&) const = default;
    // Sets the text of the instruction, its opcode, and the traits that they determine.
    void set_text(std::string whole, std::string name) {
        traits = traits_of(name, whole);
        text = std::move(whole);
        opcode = std::move(name);
    }
};

// The position of a variable, from the start of its space or frame.
struct VariablePlace {
    uint32_t offset = 0, bytes = 0;
};

// A function of the program. Each call gets a frame with the function's registers and local memory.
struct FunctionInfo {
    std::string name;
    uint32_t entry = 0;           // the first op of the function
    uint32_t register_bytes = 0;  // the size of a frame's registers, for all lanes
    // A frame's local memory per lane. It holds .local variables and the .param space.
    uint32_t local_bytes = 0;
    // The first part of local_bytes. It holds arguments and results.
    uint32_t argument_bytes = 0;
    std::vector<VariablePlace> locals;  // the .local variables in the frame
    RedZones red_zones;                 // the red zones between the frame's registers
};

// A function call. Caller and called function (callee) each have a .param space, in the local
// memory of their frame. `arguments` says which bytes are copied from the caller to the callee
// before the call, and `results` which bytes are copied back after it. In the callee, the arguments
// come first, in order, each at a multiple of its alignment. The results follow.
struct CallSite {
    struct Copy {
        uint32_t caller, callee, bytes;
    };
    std::vector<Copy> arguments;
    std::vector<Copy> results;
    uint32_t argument_bytes = 0;  // the size of all arguments and results together
    uint32_t function = 0;        // the function that a direct call calls
    enum class Builtin : uint8_t {
        none,
        vprintf,
        assertfail,
        malloc,
        free,
        outside_member  // only in checks; see outside_member.hpp
    } builtin = Builtin::none;
};

// An access of the source to an element of a member that is an array, such as `s.a[i]`.
struct MemberAccess {
    std::string array;  // "s.a"
    std::string verb;   // "read" or "write"
};

// A kernel parameter, with its place in the kernel's .param space.
struct ParameterInfo {
    std::string name;
    ptx::Type type;
    uint32_t offset, bytes, alignment;
    bool pointer;
};

// The memory of a module's variables (__device__ and __constant__). There is one copy, at fixed
// addresses. It exists as long as the module.
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

// How the assembler scheduled a machine instruction. A warp has six scoreboards. With them, an
// instruction waits for earlier instructions that take a varying time. For example, a load sets a
// scoreboard, which is cleared when the loaded value is available. An instruction that uses the
// value waits until this scoreboard is clear.
struct Schedule {
    static constexpr uint32_t no_branch = UINT32_MAX;
    static constexpr int scoreboards = 6, no_scoreboard = 7;
    // The cycles until the warp may issue its next instruction. 0 means that they are not known.
    uint8_t cycles = 0;
    // One bit for each scoreboard that must be clear before the instruction is issued.
    uint8_t awaits = 0;
    uint8_t result = no_scoreboard;  // the scoreboard that is cleared when the result is available
    // The scoreboard that is cleared when the operands have been read.
    uint8_t operands = no_scoreboard;
    uint32_t target = no_branch;  // for a branch: the number of the target instruction
    // True for an unguarded branch or exit: control does not continue with the next instruction.
    bool ends = false;
};

// Additional data of a program from machine code: the constant banks, the constant registers that
// each launch fills, and the op at each code offset.
struct MachineCode {
    static constexpr uint32_t banks = 5;
    struct Word {               // a constant register that the launch fills
        uint32_t constant = 0;  // a byte offset into Program::constants
        uint32_t bank = 0, offset = 0;
    };
    struct Variable {  // a variable of the module, in bank 3
        size_t item = 0;
        uint32_t offset = 0, bytes = 0;
        uint64_t address = 0;
    };
    static constexpr uint32_t of_variables = 3;  // the constant bank of the variables
    // The called functions that are not in the cubin, such as malloc. The key is the address that
    // the lifter has chosen for the function.
    std::map<uint64_t, CallSite::Builtin> outside;
    static constexpr uint64_t first_outside = uint64_t{4} << 24;
    std::vector<std::byte> bank[banks];
    std::vector<Word> words;
    std::vector<Variable> variables;
    std::vector<uint32_t> op_of;  // the index is the code offset / 16
    // Code offsets of the functions that a call through a pointer may call.
    std::set<uint32_t> functions;
    std::vector<Schedule> schedule;  // one entry per instruction
    // The places where diverged lanes may reconverge by chance. The key is the number of an
    // instruction at which lanes may diverge. The value lists memory instructions after it. The
    // diverged lanes may execute these instructions either together or separately, because no
    // barrier makes the lanes reconverge before them. See sass/possible_reconvergence.hpp.
    std::map<uint32_t, std::vector<uint32_t>> possible_reconvergence;
    // The memory instructions that depend on how often a thread waits; see sass/waits.hpp. Each
    // pair has the number of such an instruction, and then the number of the branch on which it
    // depends. If the address of the instruction depends on a test, both numbers are that of the
    // instruction.
    std::vector<std::pair<uint32_t, uint32_t>> after_waits;
};

// Rules for running a program that are different for PTX and for machine code.
struct Conventions {
    // True for machine code: diverged lanes reconverge where instructions (BSSY, BSYNC) say so.
    // False for PTX: diverged lanes reconverge when they arrive at the same op. They do so at the
    // reconvergence point of the branch at which they diverged, or earlier.
    bool explicit_reconvergence = false;
    // In a cluster, the upper byte of a shared-memory address is first_tag + the rank of the block
    // whose memory is meant. If first_tag is not 0, an upper byte of 0 means the memory of the
    // block that executes the instruction.
    uint32_t first_tag = 1;
    [[nodiscard]] uint32_t own_tag(uint32_t rank) const { return first_tag == 0 ? rank : 0; }
};

// The constant registers and constant banks of one launch of machine code.
struct MachineConstants {
    std::vector<std::byte> constants;
    std::vector<std::byte> bank[MachineCode::banks];
};

// The stack of a kernel that calls functions through pointers, if its limit is smaller. The
// assembler knows how deep such calls can be; the simulator does not.
inline constexpr uint32_t unknown_depth_stack = 64 * 1024;
// The limit of the stack of a kernel whose depth of calls is not known, unless the program has set
// another one (cudaLimitStackSize).
inline constexpr uint32_t default_stack = 1024;

// A decoded kernel.
struct Program {
    std::string kernel;  // The kernel's name in C++. Messages use it.
    std::vector<Op> ops;
    // For each op: the end of its segment. A segment is a sequence of ops in which only the last
    // one can have a control other than Control::none (such as a branch). The end is the index of
    // this last op, plus 1.
    std::vector<uint32_t> segment_end;
    // Used by handlers that remember strides (lane_strides.hpp). There is one entry per op, or none
    // if no stride is remembered. It describes the ops from this op to the end of its segment. An
    // address family is a group of registers whose addresses have the same stride between lanes,
    // and each family has one bit. Its bit in `changed` is set if these ops write a register of the
    // family. Its bit in `renewed` is set if the stride of the family may be different after these
    // ops.
    struct FamilyChanges {
        uint64_t changed = 0, renewed = 0;
    };
    std::vector<FamilyChanges> family_changes;
    // For each branch op: the op where its lanes reconverge, or no_op.
    std::vector<uint32_t> reconvergence;
    std::vector<InstructionInfo> instructions;
    // For PTX: the data flow of each instruction. Machine code has none.
    std::vector<DataFlow> data_flow;
    std::vector<FunctionInfo> functions;  // functions[0] is the kernel
    std::vector<CallSite> calls;
    // the payload of an instruction on matrices has an index into this list
    std::vector<Matrices> matrices;
    // the payload of a wgmma has an index into this list
    std::vector<WarpgroupProduct> warpgroup_products;
    // the payload of tex, suld, ... has an index into this list
    std::vector<TextureAccess> texture_accesses;
    // the payload of cp.async.bulk.tensor has an index into this list
    std::vector<TensorCopy> tensor_copies;
    // For calls through pointers: the index of the function with an address; see symbols.hpp.
    std::unordered_map<uint64_t, uint32_t> function_of_address;
    std::vector<std::vector<uint32_t>> tables;  // each table has the target ops of a branch_table
    std::vector<std::byte> constants;
    std::vector<ParameterInfo> parameters;
    uint32_t parameter_bytes = 0;
    // `shared_bytes` is the size of static shared memory. The dynamic part starts after it. The GPU
    // itself uses the first `reserved_shared` bytes of shared memory. The addresses that a kernel
    // sees are counted from the start of these bytes. The offsets that observers get are counted
    // from their end.
    uint32_t shared_bytes = 0, reserved_shared = 0;
    // The bytes of the system's part that the kernel itself accesses, through
    // %reserved_smem_offset_1. The simulator places them after the kernel's own shared memory; see
    // system_shared_offset().
    uint32_t system_shared_bytes = 0;
    std::shared_ptr<ModuleMemory> memory;
    std::map<uint32_t, std::string> files;  // the key is SourceLine::file
    uint32_t source_file = 0;               // the number of the file that contains the kernel
    std::vector<std::string> source;  // the lines of the CUDA source; empty if they are not known
    // For checks: the accesses to elements of array members (outside_member.hpp).
    std::vector<MemberAccess> member_accesses;
    uint32_t local_bytes = 0;  // the bytes of a lane's stack for the deepest chain of calls
    // The part of local_bytes that a lane may access. If the kernel calls no functions, this is the
    // end of its last variable.
    uint32_t local_end = 0;
    // The kernel may recurse or call through pointers, so the depth is not known. The stack then
    // has the bytes of limit_stack().
    bool recursive = false;
    bool calls_pointers = false;
    uint32_t least_stack = 0;  // the bytes that calls without recursion need
    bool allocates = false;    // the kernel calls malloc or free
    // True if the kernel reads the address of a cooperative launch's workspace (grid_workspace).
    bool uses_grid_workspace = false;
    // The size from __cluster_dims__. Zeros mean that the kernel has none.
    uint32_t cluster[3] = {};
    bool has_clusters = false;  // the kernel can only be launched with clusters
    // The largest number of threads per block: the product of the three numbers of .maxntid or
    // .reqntid. 0 means that the kernel has neither.
    uint32_t max_block_threads = 0;
    std::unordered_map<std::string, std::pair<uint32_t, uint32_t>>
        shared_variables;  // the offset and the size in bytes of each shared variable
    // The name of the dynamic variable in shared memory, or an empty string.
    std::string dynamic_shared;
    Conventions conventions;
    std::shared_ptr<const MachineCode> machine;  // null if the program is not from machine code
};

// Sets the size of the stack, if the depth of calls is not known.
void limit_stack(Program& program, uint32_t bytes);

inline constexpr uint32_t no_op = UINT32_MAX;

// Returns the constants of a launch. `parameters` have the layout of the kernel's .param space.
struct GridRun;
[[nodiscard]] MachineConstants machine_constants(const Program& program, const GridRun& launch);

// The handlers of one instruction set for one kind of observers; see isa.hpp and engine.hpp.
struct Engine;

// Returns the memory of the variables of a parsed module. All programs that are made from the
// module share it.
[[nodiscard]] std::shared_ptr<ModuleMemory> lay_out_memory(const ptx::Module& module);

// Decodes the kernel `entry`, with the handlers of `engine`. Throws UnsupportedInstruction if an
// instruction cannot be executed, and LaunchError if there is no such entry.
[[nodiscard]] Program decode(const ptx::Module& module, const ptx::Function& entry,
                             std::shared_ptr<ModuleMemory> memory, const Engine& engine);

// Sets Program::segment_end for all ops.
void find_segments(Program& program);

// Marks loops in which a thread waits for another thread: the loop only reads memory until the
// other thread has changed it. The mark is Branch::spins of the loop's backward branch.
void find_spins(Program& program);

// Returns the layout of an entry's parameters. Their offsets are relative to `first_parameter` in
// constant bank 0.
[[nodiscard]] std::vector<ParameterInfo> lay_out_parameters(const ptx::Function& entry,
                                                            uint32_t& total_bytes);

}  // namespace coalesce::sim
