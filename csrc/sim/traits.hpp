// What an instruction is to those who observe it.
//
// METHOD
// A row of ops.inc says what holds for every instruction of an operation, modifiers say the rest:
// `ld` is a load, `ld.volatile` a strong one. traits_of() puts both together and is the only place
// that reads modifiers for anybody but the executing operation. An opcode's text alone determines
// its traits, so that they need not be stored with saved counts.
#pragma once

#include <cstdint>
#include <string_view>

#include "sim/opcode.hpp"

namespace coalesce::sim {

// The constants of the traits column in ops.inc.
namespace trait {
inline constexpr uint32_t block_barrier = 1u << 0;    // of the threads of a block
inline constexpr uint32_t warp_barrier = 1u << 1;     // of the lanes of a member mask
inline constexpr uint32_t aligned = 1u << 2;          // all lanes must reach it together
inline constexpr uint32_t shuffle = 1u << 3;          // reads registers of other lanes
inline constexpr uint32_t atomic = 1u << 4;           // updates memory in one piece
inline constexpr uint32_t fence = 1u << 5;            // orders accesses
inline constexpr uint32_t ends_copy_group = 1u << 6;  // of asynchronous copies
inline constexpr uint32_t awaits_copies = 1u << 7;
inline constexpr uint32_t no_result = 1u << 8;  // it writes no register
// For the decoder: the handler negates a predicate operand itself, where the payload says so;
// registers may be wider than the types (cvt).
inline constexpr uint32_t negates = 1u << 9;
inline constexpr uint32_t any_width = 1u << 10;
inline constexpr uint32_t mbarrier = 1u << 11;  // arrives at one (releases), or waits (acquires)
inline constexpr uint32_t bulk = 1u << 12;      // a copy that does not pass the load/store unit
inline constexpr uint32_t matrix = 1u << 13;    // lanes give the addresses of a matrix's rows
}  // namespace trait

// What the tensor cores multiply.
enum class TensorSource : uint8_t { none, fp16, bf16, tf32, fp64, int8, int4, int1, fp8 };

// How an atomic updates memory, as far as its cost depends on that.
enum class AtomicForm : uint8_t {
    plain,             // add, min, exch, ...
    compare_and_swap,  // cas
    spinning,          // ATOMS.CAST.SPIN: one turn of a loop of compare-and-swap
    counting,          // ATOMS.POPC.INC: adds the number of lanes
};

// Among which threads a strong access or a fence orders: `.cta`, or anything wider.
enum class Scope : uint8_t { block, device };

struct Traits {
    OpCode code = OpCode::unknown;
    Pipe pipe = Pipe::other;  // never by_type
    AtomicForm form = AtomicForm::plain;
    Scope scope = Scope::device;
    bool machine_code = false;     // of machine code, not of PTX
    bool has_result = false;       // writes a register
    bool block_barrier = false;    // the warp waits for its block (an arrival does not)
    bool warp_barrier = false;     // bar.warp.sync, WARPSYNC
    bool aligned = false;          // of a barrier: the warp must not have diverged
    bool shuffle = false;          // reads registers of other lanes
    bool orders = false;           // a fence of memory
    bool atomic = false;           // atom, red
    bool strong = false;           // an access other threads may rely on: volatile, relaxed, ...
    bool releases = false;         // .release, .acq_rel
    bool read_only = false;        // .nc
    bool adds_floats = false;      // an atomic sum of floating-point numbers
    bool passes_l1 = false;        // a load that does not look into L1
    bool ends_copy_group = false;  // cp.async.commit_group
    bool awaits_copies = false;    // cp.async.wait_group
    bool bulk = false;             // a bulk copy: its accesses are not counted
    bool matrix = false;           // ldmatrix, stmatrix
    // Of an instruction of tensor cores: multiplications and additions of a warp, and, of machine
    // code, for how many cycles it occupies the tensor cores of a multiprocessor's quarter.
    TensorSource tensor_source = TensorSource::none;
    uint32_t tensor_operations = 0;
    uint32_t tensor_cycles = 0;
    bool operator==(const Traits&) const = default;
};

// Fills in what is told of tensor cores; tensor_traits.cpp.
void read_tensor(Traits& traits, std::string_view opcode);

// The traits of an opcode with its modifiers: "ld.volatile.global.u32", "ATOMS.CAS".
[[nodiscard]] Traits traits_of(std::string_view opcode);

}  // namespace coalesce::sim
