// The payload of an operation: its properties besides its registers. The type of the payload
// depends on the kind of operation.
//
// METHOD
// A branch has a target, a shuffle a mode, a load an offset and a size. Each kind of operation has
// its own struct for these. An Op stores one such struct, and a number that says which type it is.
// Decoders set the payload. Handlers and the scheduler read it with get<Type>(). In builds with
// assertions (the C++ tests under sanitizers), it is an error to read another type than the type
// that was set. Release builds do not check this, so reading a payload is as fast as reading a
// member.
//
// To add a payload, write a struct of at most 24 bytes and add it to Payload::Types.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>

#include "ptx/module.hpp"
#include "sim/memory/address_space.hpp"
#include "sim/memory/locator.hpp"
#include "sim/program/mbarrier.hpp"
#include "sim/program/shuffle.hpp"
#include "sim/program/special_registers.hpp"
#include "sim/ptx_analysis/address_families.hpp"

namespace coalesce::sim {

// The form of the address register, which is operand 5 of the op. It has 64 bits (wide) or 32 bits
// (narrow). In machine code, it may also be a pair of 32-bit registers (pair).
enum class AddressForm : uint8_t { wide, narrow, pair };

struct MemoryOperand {
    int64_t offset = 0;  // added to the address register
    uint8_t bytes = 0;   // the bytes that each lane accesses, for all its elements together
    // The family of the address register (sim/ptx_analysis/address_families.hpp): a group of
    // registers whose addresses have the same stride. `family_renewed` is true if the stride may
    // have changed since the previous memory op of the segment with this family. For the first such
    // op of a segment, `family_renewed` is true if the stride may have changed since the start of
    // the segment. (A segment is a sequence of ops up to the next branch or barrier; see
    // Program::segment_end.)
    uint8_t family = AddressFamilies::none;
    bool family_renewed = false;
    AddressForm form = AddressForm::wide;
    bool frame_relative = false;  // the address is relative to the frame's local memory
    bool in_cluster = false;      // the address is in the shared memory of the cluster
    // True for a load in a chain of multiply-adds (multiply_chain.hpp) if only the chain reads the
    // loaded value. Only plain runs (runs without observers) use this.
    bool read_once : 1 = false;
    // A chain computes one product after another, and each product has two loads. True if the
    // address register of this load has the same value as for the corresponding load of the
    // previous product.
    bool same_address : 1 = false;
    // True for a load of memory that no thread writes while the kernel runs (LDG.CONSTANT). Only
    // set in machine code.
    bool read_only : 1 = false;
    // True for a load of a kernel's parameter by its name, such as [q-4], if the bytes are not in
    // this parameter. The load is a fault.
    bool other_parameter : 1 = false;
};

// cp.async. Operand 5 is the global address, operand 0 the shared address, and operand 1 the number
// of bytes to read. Operand 2 is a predicate: in lanes in which it is true, nothing is read.
struct AsyncCopyOperand {
    MemoryOperand source;
    int32_t destination_offset = 0;
    bool narrow_destination = false;
    bool negated = false;  // the predicate is negated
    // The lowest bits of the source address are the number of bytes that are not read, but filled
    // with zeros. They are the last bytes.
    bool fill_in_address = false;
};

// cp.async.bulk. Operand 5 is the global address, operand 0 the shared address, and operand 1 the
// size. The address of the mbarrier is the sum of operands 2 and 3.
struct BulkCopyOperand {
    MemoryOperand global;
    int32_t shared_offset = 0;
    bool narrow_shared = false, narrow_barrier = false;
};

// An instruction on an mbarrier. Operand 5 is the address of the mbarrier.
struct MbarrierOperand {
    MemoryOperand memory;
    // What the instruction does to the mbarrier. Not used by instructions that wait for an
    // mbarrier.
    MbarrierUpdate update = MbarrierUpdate::init;
    bool generic = false;    // the address is generic
    bool by_parity = false;  // the instruction waits for a parity, not for a state
};

// The payload of LDC (load from a constant bank) with an index in a register.
struct BankOperand {
    MemoryOperand index;
    uint8_t bank = 0;
};

// An instruction on matrices. The address register of loads and stores is in Program::matrices.
struct MatrixOperand {
    MemoryOperand memory;
    uint32_t index = 0;  // an index into Program::matrices
};

// A copy of a box: a rectangular part of an array that a tensor map describes (tensor_map.hpp). The
// address register contains the address of the tensor map.
struct TensorCopyOperand {
    MemoryOperand memory;
    uint32_t index = 0;  // an index into Program::tensor_copies
};

// A texture or surface instruction. The address register contains the handle of the object.
struct TextureOperand {
    MemoryOperand memory;
    uint32_t index = 0;  // an index into Program::texture_accesses
};

// A matrix product by a warpgroup (wgmma), whose operands are in shared memory.
struct WarpgroupOperand {
    MemoryOperand memory;
    uint32_t index = 0;  // an index into Program::warpgroup_products
};

// cp.async.wait: waits until all groups of copies are complete, except the latest `pending` groups.
// If `all` is true, it waits for all groups.
struct AsyncGroups {
    uint32_t pending = 0;
    bool all = false;
};

// Payloads of control flow.
struct Branch {
    uint32_t target = 0;  // the number of an op
    // true if the decoder added this branch, to skip the following guarded op
    bool skips_guarded = false;
    bool spins = false;  // the branch closes a loop that only reads memory; see find_spins()
};
struct BranchTable {
    uint32_t table = 0;  // an index into Program::tables
};
struct Call {
    uint32_t site = 0;  // an index into Program::calls
};
// The payload of a jump to the code offset in a register (machine code).
struct Jump {
    uint32_t offset = 0;       // added to the register
    bool to_function = false;  // the target must be the start of a function
};
// The effect of a barrier instruction besides waiting.
enum class BarrierKind : uint8_t { sync, arrive, popc, all, any };
// The payload of bar and barrier.
struct BarrierOperand {
    BarrierKind kind = BarrierKind::sync;
    bool negated = false;       // for bar.red: the predicate that the threads provide is negated
    bool of_warpgroup = false;  // the barrier belongs to a warpgroup: wgmma.wait_group
};
// The payload of BSSY, BSYNC, BREAK and BMOV in machine code. `number` is the number of the
// barrier, 0 to 15 for B0 to B15.
struct ReconvergenceBarrier {
    int8_t number = 0;
    uint32_t target = 0;  // for BSSY: the op at which lanes are expected to reconverge
};
// The payload of WARPSYNC in machine code.
struct WarpSync {
    bool splits = false;  // groups of lanes with different member masks continue separately
    // The number of the section: the following code, which all lanes execute together. Lanes that
    // wait at two WARPSYNCs wait for each other only if the numbers are equal. 0 means that there
    // is no section.
    uint32_t section = 0;
    bool before_barrier = false;  // the assembler has added it to a barrier of the block
};

// Payloads of operations between lanes.
struct ShuffleOperand {
    ShuffleMode mode = ShuffleMode::up;
};
enum class VoteKind : uint8_t { all, any, uniform, ballot };
struct VoteOperand {
    VoteKind kind = VoteKind::all;
    bool negated = false;     // the predicate is negated
    bool whole_warp = false;  // for VOTEU: inactive lanes also get the result
};

// Comparisons. Two values have one of four relations: less, equal, greater, or unordered (an
// operand is a NaN). A comparison is stored as the set of relations for which it is true: less |
// equal for `le`, and less | equal | unordered for `leu`. So if an operand is a NaN, `le` is false
// and `leu` is true.
namespace relation {
inline constexpr uint8_t less = 1, equal = 2, greater = 4, unordered = 8;
}
// How the result of a comparison is combined with another predicate.
enum class Combination : uint8_t { none, conjunction, disjunction, difference };
// The payload of a comparison.
struct ComparisonOperand {
    uint8_t relations = 0;
    Combination combination = Combination::none;
    bool negated = false;  // the other predicate is negated
    uint32_t truth = 0;    // for `set`: the result if the comparison is true
};

// The rounding of a conversion.
enum class Round : uint8_t { none, rn, rz, rm, rp, rna };
enum class Clip : uint8_t { none, relu, sat };
// The payload of a conversion: its types, and the steps of which it consists.
struct ConversionOperand {
    ptx::Type to = ptx::Type::none, from = ptx::Type::none;
    Round round = Round::none;
    Clip clip = Clip::none;
    bool integral = false;  // the result is an integer value
    bool ftz = false;
};
// The payload of arithmetic with a rounding mode.
struct RoundingOperand {
    Round round = Round::rz;
    bool ftz = false, saturates = false;
};

struct VideoOperand {
    uint8_t width = 32;  // the bits of an element
    bool signed_a = false, signed_b = false, signed_result = false;
    bool saturates = false, adds = false;  // `adds`: the results are added to operand c
};

// Payloads of operations on bits, and of moves.
struct TruthTables {
    // Truth tables with three inputs. PLOP3 has two results, and therefore two tables.
    uint8_t first = 0, second = 0;
};
struct ShiftOperand {
    uint8_t by = 0;
    bool right = false, is_signed = false;
    bool upper = false;    // the result is the upper word
    bool wide = false;     // the operand has 64 bits
    bool wraps = false;    // the shift count is taken modulo the number of bits
    bool negated = false;  // the value that is shifted is negated
    // The shifted value is added to a word that is already negated; this matters for the carry out.
    bool negative_addend = false;
};
// The payload of a read of a special register.
struct SpecialRegister {
    Special which = Special::unknown;
};
struct Registers {
    uint8_t count = 0;  // the number of a vector's elements, or of adjacent registers
};
// The payload of a test whether an address is in a window of generic addresses (isspacep).
struct AddressWindow {
    uint64_t start = 0;
    uint64_t bytes = window_bytes;
};
// The payload of an op that adds a constant, such as cvta.
struct AddedOffset {
    uint64_t by = 0;
};
// The payload of an op that computes an address in local memory.
struct LocalAddress {
    uint64_t offset = 0;  // the offset in the local memory of the frame
    uint8_t bytes = 8;    // the size of the destination register
};

// The payload of sums in machine code. Bit i of `negated` says whether term i is negated. Bit i of
// `inverted` says whether the bits of term i are inverted.
struct CarryOperand {
    uint8_t negated = 0, inverted = 0;
    Locator carry_in[2] = {no_operand, no_operand};  // the carries into a sum of three terms
};
// The payload of a 64-bit sum in machine code (sass/lift_sums.cpp).
struct WideSum {
    Locator upper = no_operand;  // the register for the upper words of the result
    // If the result is an address with the same stride as the first term: the families of that term
    // and of the result (lane_strides.hpp). Otherwise none. `from_renewed` is true if the stride of
    // the first term may have changed, as in MemoryOperand.
    uint8_t from = AddressFamilies::none, to = AddressFamilies::none;
    bool from_renewed = false;
};
// The payload of an op that changes the sign of a double.
struct SignOperand {
    bool negated = false, absolute = false;
};
// The payload of copies between predicates and the bits of a word.
struct PredicateBits {
    uint32_t mask = 0;  // a bit for each selected predicate
    uint8_t shift = 0;  // the position of the predicates' bits in the word
};
// The payload of a load from a constant bank.
struct ConstantBank {
    uint8_t bank = 0;
    uint32_t offset = 0;
};

// One of the structs above, with a number that says which one it is.
class Payload {
    template <class... Ts>
    struct List {
        // Returns the number of a payload type, starting with 1. Returns 0 for a type that is not
        // listed.
        template <class P>
        static constexpr uint8_t number = [] {
            uint8_t n = 0, number_of_type = 0;
            (void)((++n, std::is_same_v<P, Ts> ? (number_of_type = n, true) : false) || ...);
            return number_of_type;
        }();
        static constexpr size_t bytes = 24;
        static_assert(((sizeof(Ts) <= bytes) && ...));
        static_assert((std::is_trivially_copyable_v<Ts> && ...));
    };
    // The payloads of memory instructions come first in the list. Such a payload is a
    // MemoryOperand, or a struct whose first member is a MemoryOperand.
    using Types =
        List<MemoryOperand, AsyncCopyOperand, BulkCopyOperand, MbarrierOperand, BankOperand,
             TensorCopyOperand, TextureOperand, WarpgroupOperand, MatrixOperand, AsyncGroups,
             Branch, BranchTable, Call, Jump, BarrierOperand, ReconvergenceBarrier, WarpSync,
             ShuffleOperand, VoteOperand, ComparisonOperand, ConversionOperand, RoundingOperand,
             VideoOperand, TruthTables, ShiftOperand, SpecialRegister, Registers, AddressWindow,
             AddedOffset, LocalAddress, CarryOperand, WideSum, SignOperand, PredicateBits,
             ConstantBank>;
    static constexpr uint8_t last_of_memory = Types::number<MatrixOperand>;

  public:
    Payload() = default;
    template <class P>
        requires(Types::number<P> != 0)
    Payload(const P& payload) : number_(Types::number<P>) {
        new (bytes_) P(payload);
    }

    template <class P>
    [[nodiscard]] bool is() const {
        static_assert(Types::number<P> != 0);
        return number_ == Types::number<P>;
    }
    template <class P>
    [[nodiscard]] const P& get() const {
        assert(is<P>());
        return *std::launder(reinterpret_cast<const P*>(bytes_));
    }
    template <class P>
    [[nodiscard]] P& get() {
        assert(is<P>());
        return *std::launder(reinterpret_cast<P*>(bytes_));
    }
    template <class P>
    P& set(const P& payload) {
        static_cast<Payload&>(*this) = Payload(payload);
        return get<P>();
    }

    [[nodiscard]] Payload& payload() { return *this; }

    // Returns true for the payload of a memory instruction. The first member of such a payload is a
    // MemoryOperand, which memory() returns.
    [[nodiscard]] bool has_memory() const { return number_ != 0 && number_ <= last_of_memory; }
    [[nodiscard]] const MemoryOperand& memory() const {
        assert(has_memory());
        return *std::launder(reinterpret_cast<const MemoryOperand*>(bytes_));
    }
    [[nodiscard]] MemoryOperand& memory() {
        assert(has_memory());
        return *std::launder(reinterpret_cast<MemoryOperand*>(bytes_));
    }

  private:
    alignas(8) std::byte bytes_[Types::bytes] = {};
    uint8_t number_ = 0;
};

}  // namespace coalesce::sim
