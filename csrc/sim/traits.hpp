// The properties of an instruction, for observers.
//
// METHOD
// A row of ops.inc has the properties that all instructions of an operation share. Modifiers add
// others: `ld` is a load, `ld.volatile` a strong load. traits_of() combines both, and is the only
// function that reads modifiers, except for those that choose the handler. The text of an opcode
// determines its traits, so traits need not be stored with saved counts.
#pragma once

#include <cstdint>
#include <string_view>

#include "sim/opcode.hpp"

namespace coalesce::sim {

// Constants for the traits column in ops.inc.
namespace trait {
inline constexpr uint32_t block_barrier = 1u << 0;    // for the threads of a block
inline constexpr uint32_t warp_barrier = 1u << 1;     // for the lanes of a member mask
inline constexpr uint32_t aligned = 1u << 2;          // all lanes must reach it together
inline constexpr uint32_t shuffle = 1u << 3;          // reads registers of other lanes
inline constexpr uint32_t atomic = 1u << 4;           // updates memory atomically
inline constexpr uint32_t fence = 1u << 5;            // orders accesses
inline constexpr uint32_t ends_copy_group = 1u << 6;  // for asynchronous copies
inline constexpr uint32_t awaits_copies = 1u << 7;
inline constexpr uint32_t no_result = 1u << 8;  // it writes no register
// For the decoder. negates: the handler itself negates a predicate operand, if the payload says so.
// any_width: registers may be wider than the types (cvt).
inline constexpr uint32_t negates = 1u << 9;
inline constexpr uint32_t any_width = 1u << 10;
// Arrives at an mbarrier (releases), or waits for it (acquires)
inline constexpr uint32_t mbarrier = 1u << 11;
inline constexpr uint32_t bulk = 1u << 12;    // a copy that does not use the load/store unit
inline constexpr uint32_t matrix = 1u << 13;  // lanes provide the addresses of a matrix's rows
}  // namespace trait

// The format of the factors that tensor cores multiply.
enum class TensorSource : uint8_t { none, fp16, bf16, tf32, fp64, int8, int4, int1, fp8 };

// How an atomic updates memory, in so far as this affects its cost.
enum class AtomicForm : uint8_t {
    plain,             // add, min, exch, ...
    compare_and_swap,  // cas
    spinning,          // ATOMS.CAST.SPIN: one iteration of a compare-and-swap loop
    counting,          // ATOMS.POPC.INC: adds the number of lanes
};

// The threads among which a strong access or a fence orders: `.cta`, or anything wider.
enum class Scope : uint8_t { block, device };

struct Traits {
    OpCode code = OpCode::unknown;
    Pipe pipe = Pipe::other;  // never by_type
    AtomicForm form = AtomicForm::plain;
    Scope scope = Scope::device;
    bool machine_code = false;   // machine code, not PTX
    bool has_result = false;     // writes a register
    bool block_barrier = false;  // the warp waits for its block (not set if it only arrives)
    bool warp_barrier = false;   // bar.warp.sync, WARPSYNC
    bool aligned = false;        // for a barrier: the warp must not have diverged
    bool relaxed = false;        // an arrival at a cluster's barrier that orders no memory
    bool shuffle = false;        // reads registers of other lanes
    bool orders = false;         // a fence of memory
    bool atomic = false;         // atom, red
    bool strong = false;       // an access on which other threads may rely: volatile, relaxed, ...
    bool releases = false;     // .release, .acq_rel
    bool read_only = false;    // .nc
    bool adds_floats = false;  // an atomic addition of floating-point numbers
    bool passes_l1 = false;    // a load that bypasses L1
    bool ends_copy_group = false;  // cp.async.commit_group
    bool awaits_copies = false;    // cp.async.wait_group
    bool asynchronous = false;     // accesses shared memory through the asynchronous proxy
    bool proxy_fence = false;      // orders accesses before it and such accesses after it
    bool bulk = false;             // a bulk copy: its accesses are not counted
    bool matrix = false;           // ldmatrix, stmatrix
    // For tensor core instructions: multiplications and additions of a warp. For machine code, also
    // the cycles for which the instruction occupies the tensor core of a quarter of a
    // multiprocessor.
    TensorSource tensor_source = TensorSource::none;
    uint32_t tensor_operations = 0;
    uint32_t tensor_cycles = 0;
    bool operator==(const Traits&) const = default;
};

// Sets the traits of tensor core instructions; tensor_traits.cpp.
void read_tensor(Traits& traits, std::string_view opcode);

// The traits of an opcode with its modifiers: "ld.volatile.global.u32", "ATOMS.CAS".
[[nodiscard]] Traits traits_of(std::string_view opcode);

}  // namespace coalesce::sim
