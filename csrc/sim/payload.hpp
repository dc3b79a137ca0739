// What an operation has besides registers: a payload of one of the types listed here.
//
// METHOD
// A branch has a target, a shuffle a mode, a load an offset and a size. Each kind of operation has
// a struct of its own, and an Op holds one of them, whose number it knows. Decoders set it;
// handlers and the scheduler get it by its type. In a build with assertions (the C++ tests under
// sanitizers) it is an error to get another type than was set; in a release nothing is checked, so
// that getting one costs as much as reading a member.
//
// To add a payload, write a struct of at most 24 bytes and name it in Payload::Types.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>

#include "ptx/address_families.hpp"
#include "ptx/module.hpp"
#include "sim/address_space.hpp"
#include "sim/locator.hpp"
#include "sim/mbarrier.hpp"
#include "sim/shuffle.hpp"

namespace coalesce::sim {

// Memory. The address register is the op's operand 5; it has 32 or 64 bits, or is a pair of
// registers of 32 bits (machine code).
enum class AddressForm : uint8_t { wide, narrow, pair };

struct MemoryOperand {
    int64_t offset = 0;  // to the address register
    uint8_t bytes = 0;   // of a lane's access, all its elements
    // The family of the address (ptx/address_families.hpp), and whether that may have been renewed
    // since the op before it that is of the family, or since the segment's start.
    uint8_t family = ptx::AddressFamilies::none;
    bool family_renewed = false;
    AddressForm form = AddressForm::wide;
    bool frame_relative = false;  // to the frame's local memory
    bool in_cluster = false;      // in the cluster's shared memory
    // Of a plain run; see multiply_chain.hpp.
    bool read_once : 1 = false;  // a chain's load: nothing else reads what it loads
    bool same_address : 1 =
        false;  // and its address register holds what it held for the load before
};

// cp.async: operand 5 is the global address, operand 0 the shared one, 1 the number of bytes to
// read, 2 a predicate to read nothing.
struct AsyncCopyOperand {
    MemoryOperand source;
    int32_t destination_offset = 0;
    bool narrow_destination = false;
    bool negated = false;  // the predicate
};

// cp.async.bulk: operand 5 is the global address, operand 0 the shared one, 1 the size, 2 and 3 the
// mbarrier's address and an offset to it.
struct BulkCopyOperand {
    MemoryOperand global;
    int32_t shared_offset = 0;
    bool narrow_shared = false, narrow_barrier = false;
};

struct MbarrierOperand {
    MemoryOperand memory;
    MbarrierUpdate update = MbarrierUpdate::init;  // what it does, unless it waits
    bool generic = false;                          // the address is
    bool by_parity = false;                        // a wait names a parity, not a state
};

// LDC by an index in a register.
struct BankOperand {
    MemoryOperand index;
    uint8_t bank = 0;
};

// An instruction on matrices; of loads and stores the address register is in the table.
struct MatrixOperand {
    MemoryOperand memory;
    uint32_t index = 0;  // in Program::matrices
};

// cp.async.wait: leaves at most so many of the latest groups pending, or nothing at all.
struct AsyncGroups {
    uint32_t pending = 0;
    bool all = false;
};

// Control.
struct Branch {
    uint32_t target = 0;         // op
    bool skips_guarded = false;  // made by a decoder: it leads around the guarded op behind it
    bool spins = false;          // it closes a loop that only watches memory (find_spins)
};
struct BranchTable {
    uint32_t table = 0;  // in Program::tables
};
struct Call {
    uint32_t site = 0;  // in Program::calls
};
// Machine code: to the code at the offset in a register.
struct Jump {
    uint32_t offset = 0;       // to the register's
    bool to_function = false;  // it must lead to a function's start
};
// What a barrier instruction does besides.
enum class BarrierKind : uint8_t { sync, arrive, popc, all, any };
struct BarrierOperand {
    BarrierKind kind = BarrierKind::sync;
    bool negated = false;  // the predicate that it reduces
};
// Machine code: BSSY, BSYNC, BREAK and BMOV name one of B0 to B15.
struct ReconvergenceBarrier {
    int8_t number = 0;
    uint32_t meeting = 0;  // BSSY: the op where lanes are expected to meet
};
struct WarpSync {
    bool splits = false;  // groups of lanes with different member masks go on by themselves
};

// Lanes among each other.
struct ShuffleOperand {
    ShuffleMode mode = ShuffleMode::up;
};
enum class VoteKind : uint8_t { all, any, uniform, ballot };
struct VoteOperand {
    VoteKind kind = VoteKind::all;
    bool negated = false;     // the predicate
    bool whole_warp = false;  // VOTEU: also inactive lanes get the result
};

// Comparisons. Two values have one of four relations: less, equal, greater, or unordered (an
// operand is a NaN). A comparison is the set of relations for which it is true. For a NaN, an
// ordered comparison (eq, ...) is false, and an unordered comparison (equ, ...) is true.
namespace relation {
inline constexpr uint8_t less = 1, equal = 2, greater = 4, unordered = 8;
}
// What is done with the truth and a further predicate.
enum class Combination : uint8_t { none, conjunction, disjunction, difference };
struct ComparisonOperand {
    uint8_t relations = 0;
    Combination combination = Combination::none;
    bool negated = false;  // the further predicate
    uint32_t truth = 0;    // set: the result where the comparison is true
};

// Conversions. How a value is rounded, and what is done to it besides.
enum class Round : uint8_t { none, rn, rz, rm, rp, rna };
enum class Clip : uint8_t { none, relu, sat };
struct ConversionOperand {
    ptx::Type to = ptx::Type::none, from = ptx::Type::none;
    Round round = Round::none;
    Clip clip = Clip::none;
    bool integral = false;  // the result is a whole number
    bool ftz = false;
};
struct RoundingOperand {
    Round round = Round::rz;
    bool ftz = false, saturates = false;
};

// Bits and moves.
struct TruthTables {
    uint8_t first = 0, second = 0;  // of three bits; PLOP3 has two results
};
struct ShiftOperand {
    uint8_t by = 0;
    bool right = false, is_signed = false;
    bool upper = false;    // the result is the upper word
    bool wide = false;     // of a type of 64 bits
    bool wraps = false;    // the shift is taken modulo the type's bits
    bool negated = false;  // the value that is shifted
};
struct SpecialRegister {
    uint8_t number = 0;  // in ops_move.cpp
};
struct Registers {
    uint8_t count = 0;  // elements of a vector, or neighbouring registers
};
struct AddressWindow {
    uint64_t start = 0;
    uint64_t bytes = window_bytes;
};
struct AddedOffset {
    uint64_t by = 0;
};
struct LocalAddress {
    uint64_t offset = 0;  // in the frame's local memory
    uint8_t bytes = 8;    // of the register for it
};

// Sums of machine code: a bit for each term says whether it is negated or inverted.
struct CarryOperand {
    uint8_t negated = 0, inverted = 0;
    Locator carry_in[2] = {no_operand, no_operand};  // of sums of three
};
struct SignOperand {
    bool negated = false, absolute = false;
};
struct PredicateBits {
    uint32_t mask = 0;  // which predicates
    uint8_t shift = 0;  // where their bits are in the word
};
struct ConstantBank {
    uint8_t bank = 0;
    uint32_t offset = 0;
};

class Payload {
    template <class... Ts>
    struct List {
        // From 1 on; 0 for a type that is not listed.
        template <class P>
        static constexpr uint8_t number = [] {
            uint8_t n = 0, found = 0;
            (void)((++n, std::is_same_v<P, Ts> ? (found = n, true) : false) || ...);
            return found;
        }();
        static constexpr size_t bytes = 24;
        static_assert(((sizeof(Ts) <= bytes) && ...));
        static_assert((std::is_trivially_copyable_v<Ts> && ...));
    };
    // Those of memory instructions come first; they begin with a MemoryOperand.
    using Types = List<MemoryOperand, AsyncCopyOperand, BulkCopyOperand, MbarrierOperand,
                       BankOperand, MatrixOperand, AsyncGroups, Branch, BranchTable, Call, Jump,
                       BarrierOperand, ReconvergenceBarrier, WarpSync, ShuffleOperand, VoteOperand,
                       ComparisonOperand, ConversionOperand, RoundingOperand, TruthTables,
                       ShiftOperand, SpecialRegister, Registers, AddressWindow, AddedOffset,
                       LocalAddress, CarryOperand, SignOperand, PredicateBits, ConstantBank>;
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

    // What all payloads of memory instructions begin with.
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
