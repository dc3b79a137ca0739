// Traits: the properties of an instruction that observers need.
//
// METHOD
// A row of ops.inc has the properties that are common to all instructions of an operation, such as
// `ld`. Modifiers add other properties: `ld` is a load, and `ld.volatile` is also strong.
// traits_of() combines both. Only traits_of() and the code that chooses the handler read modifiers.
// The traits can always be computed from the text of the instruction. So files with the counts of a
// run contain this text, and not the traits.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "sim/ptx_analysis/opcode.hpp"

namespace coalesce::ptx {
struct Function;
}

namespace coalesce::sim {

// The format of the factors that tensor cores multiply.
enum class TensorSource : uint8_t { none, fp16, bf16, tf32, fp64, int8, int4, int1, fp8 };

// The kinds of atomics that have different costs.
enum class AtomicForm : uint8_t {
    plain,             // add, min and similar
    compare_and_swap,  // compare and swap: atom.cas
    spinning,          // ATOMS.CAST.SPIN: one iteration of a compare-and-swap loop
    counting,          // ATOMS.POPC.INC: adds the number of lanes
    exchange,          // exch: writes without computing from the old value
};

// The threads for which a strong access or a fence orders memory: the threads of the block
// (`.cta`), or the threads of any larger group.
enum class ThreadScope : uint8_t { block, device };

// The traits of one instruction.
struct Traits {
    OpCode code = OpCode::unknown;
    Pipe pipe = Pipe::other;  // Pipe::by_type does not occur here
    AtomicForm form = AtomicForm::plain;
    ThreadScope scope = ThreadScope::device;
    bool machine_code = false;  // the instruction is machine code, not PTX
    bool has_result = false;    // the instruction writes a register
    // The warp waits for the other warps of its block. False if the warp only arrives (bar.arrive).
    bool block_barrier = false;
    bool warp_barrier = false;  // a barrier of a warp: bar.warp.sync, WARPSYNC
    bool aligned = false;       // for a barrier: the warp must not have diverged
    bool relaxed = false;       // arrives at the barrier of a cluster without ordering memory
    bool shuffle = false;       // reads registers of other lanes
    bool orders = false;        // the instruction is a fence of memory
    bool atomic = false;        // an atomic: atom, red
    // The access is volatile, relaxed or stronger, so other threads may rely on it.
    bool strong = false;
    bool is_volatile = false;
    bool releases = false;         // a release in the memory model: .release, .acq_rel
    bool acquires = false;         // an acquire in the memory model: .acquire, .acq_rel
    bool read_only = false;        // a read-only load: .nc, tex
    bool adds_floats = false;      // an atomic addition of floating-point numbers
    bool bypasses_l1 = false;      // a load that bypasses L1
    bool fills_parts = false;      // a copy that may read a part of its bytes: LDGSTS.ZFILL
    bool ends_copy_group = false;  // cp.async.commit_group ends a group of copies
    bool awaits_copies = false;    // cp.async.wait_group waits for copies
    bool asynchronous = false;     // accesses shared memory through the asynchronous proxy
    // Orders accesses before the fence, and accesses of the asynchronous proxy after it.
    bool proxy_fence = false;
    bool bulk = false;             // a copy by the copy engine (TMA)
    bool multicast = false;        // a bulk copy to the shared memory of several blocks
    bool ends_bulk_group = false;  // ends a group of bulk copies
    bool matrix = false;           // ldmatrix or stmatrix
    bool texture = false;          // an access to a texture or surface, which is not counted
    // Multiplies matrices by the four warps of a warpgroup: wgmma, HGMMA.
    bool warpgroup = false;
    // Communicates with other blocks of its cluster: barrier.cluster, mapa, or an ordinary access
    // to shared::cluster.
    bool cluster = false;
    // Machine code: calls a function that is not in the cubin, such as printf or malloc.
    bool calls_outside = false;
    // Machine code: a fence for the whole system, for which a GPU runs a routine of the driver.
    bool system_fence = false;
    // Machine code: tests whether a phase of an mbarrier is complete (SYNCS.PHASECHK).
    bool tests_mbarrier = false;
    // Machine code: asks for registers, which other warps may still have (USETMAXREG.TRY_ALLOC).
    bool requests_registers = false;
    // Machine code: an access of a form for which no counters of a GPU were recorded.
    bool unrecorded = false;
    // Machine code: adds a number to RZ, or multiplies by RZ. So it only moves or converts a
    // number, as in HFMA2 R1, -RZ, RZ, 0, 1.
    bool adds_zero = false;
    uint8_t elements = 1;  // the elements of a vector access: 4 for .v4
    // For tensor core instructions: `tensor_operations` is the number of multiplications and
    // additions that a warp executes. `tensor_cycles` is only for machine code: the number of
    // cycles for which the instruction occupies a tensor core. Each quarter of a multiprocessor has
    // one tensor core.
    TensorSource tensor_source = TensorSource::none;
    uint32_t tensor_operations = 0;
    uint32_t tensor_cycles = 0;
    // Machine code: the instruction occupies a tensor core for longer than `tensor_cycles` if other
    // warps execute certain instructions meanwhile.
    bool tensor_cycles_vary = false;
    // Machine code: the columns of the product of a warpgroup, and how many of its two factors are
    // in shared memory. An empty product only ends a group of products, and reads no memory.
    uint32_t columns = 0;
    uint32_t shared_factors = 0;
    bool empty_product = false;
    [[nodiscard]] bool uses_tensor_cores() const {
        return pipe == Pipe::tensor || tensor_cycles > 0;
    }
    bool operator==(const Traits&) const = default;
};

// Returns the parts of an opcode between its dots.
[[nodiscard]] std::vector<std::string_view> parts_of(std::string_view opcode);

// The columns (n) and the depth (k) of a product of a warpgroup.
struct WarpgroupShape {
    uint32_t columns = 0, depth = 0;
};

// Reads a shape as machine code writes it, such as "64x256x16". Returns nothing for other text.
[[nodiscard]] std::optional<WarpgroupShape> warpgroup_shape(std::string_view text);

// Sets the traits of tensor core instructions. It is defined in tensor_traits.cpp.
void read_tensor(Traits& traits, std::string_view opcode, std::string_view text);

// Returns the traits of an opcode with its modifiers: "ld.volatile.global.u32", "ATOMS.CAS". `text`
// is the whole instruction. Only products of warpgroups in machine code need it: their operands say
// which factors are in shared memory.
[[nodiscard]] Traits traits_of(std::string_view opcode, std::string_view text = {});

// Returns the traits of all instructions in the body of a PTX function, in order.
[[nodiscard]] std::vector<Traits> traits_of(const ptx::Function& function);

}  // namespace coalesce::sim
