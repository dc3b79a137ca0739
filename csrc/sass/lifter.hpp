// The state of translating ("lifting") one kernel. lift.cpp describes the method, and has the table
// of opcodes. The other lift_*.cpp files translate the instructions.
//
// A function that translates an instruction does three things. It reads the operands with word(),
// real() and similar functions. It lists the modifiers that it understands with only(). And it
// appends operations with as_ptx() or machine(). If it does not read an operand, or if the
// instruction has another modifier, the instruction is refused. docs/adding_an_instruction.md shows
// an example.
#pragma once

#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "sass/lift.hpp"
#include "sim/decode/emitter.hpp"
#include "sim/decode/outline.hpp"
#include "sim/ptx_analysis/call_graph.hpp"
#include "sim/warp/memory.hpp"

namespace coalesce::sass {

using sim::Guard;
using sim::Locator;
using sim::MachineOp;
using sim::no_operand;
using sim::Op;
using sim::OpCode;

// The largest number of consecutive registers that an operand can stand for.
inline constexpr int max_registers = 16;
// The largest number of registers that the result of a product of a warpgroup has.
inline constexpr int max_sums = 128;
// The size in bytes of a 32-bit register for all lanes.
inline constexpr uint32_t register_bytes = 4 * sim::warp_size;

// Returns the place of the n-th register after `first`.
constexpr Locator register_after(Locator first, uint32_t n) {
    return first + n * (register_bytes << 1);
}

class Lifter : private sim::Emitter {
  public:
    Lifter(const Listing& listing, const Code& code, const ptx::Module& module,
           const ptx::Function& entry, std::shared_ptr<sim::ModuleMemory> memory,
           const sim::Engine& engine)
        : Emitter(engine, Spacing::adjacent),
          listing_(listing),
          code_(code),
          module_(module),
          entry_(entry),
          graph_(sim::call_graph(module, entry)) {
        program_ = sim::outline(module, entry, graph_, std::move(memory));
    }
    sim::Program lift();

  private:
    using Lift = void (Lifter::*)(const Instruction&);
    struct Named {
        std::string_view opcode;
        Lift lift;
    };

    // Defined in lift.cpp.
    void lay_out_registers();
    void lay_out_banks();
    uint64_t address_outside(std::string_view symbol);
    void check_shared() const;
    void find_functions();
    void describe_instructions();
    void lift_instruction(uint32_t at);
    void link();
    [[nodiscard]] uint32_t stack_bytes() const;
    static Lift find(std::string_view opcode);

    // Defined in lift_operands.cpp.
    //
    // Returns a 32-bit source, with its sign and complement applied.
    Locator word(const Operand& o);
    // Returns a source of several registers. It must have no sign.
    Locator raw(const Operand& o, int registers = 1);
    Locator bare(const Operand& o, int registers = 1);  // Like raw(), but ignores the sign
    [[nodiscard]] uint32_t immediate(const Operand& o, uint32_t printed) const;
    Locator real(const Operand& o);       // returns a float, with its sign applied
    Locator real_pair(const Operand& o);  // returns a double, with its sign applied
    // Returns the bits of a half or bfloat16 that is printed as a number.
    static uint32_t half_bits(const Operand& o, bool bfloat);
    // Returns two halves in the order that the operand's suffix (H0_H0, H1_H1) gives.
    Locator half_pair(const Operand& o);
    // Reads half_pair(), or two numbers, from operand `n` on.
    Locator halves_of(const Instruction& in, size_t& n, bool bfloat);
    [[nodiscard]] OpCode min_or_max(const Operand& o) const;
    // Returns the operand of a .XORSIGN instruction with its sign, which the listing leaves out.
    [[nodiscard]] Operand signed_magnitude(const Operand& o) const;
    Locator half(const Operand& o, std::string_view type);  // returns one half, with its sign
    // Returns a byte or half of a register (R1.B0, R1.H1), extended to 32 bits.
    Locator part(const Operand& o, std::string_view type);
    // Returns the place of a result of several registers. Notes that the instruction writes them.
    Locator result(const Operand& o, int registers = 1);
    // Returns a source predicate. It is negated if the operand says so.
    Locator predicate(const Operand& o);
    // Returns the register for a predicate result, or no_operand for PT.
    Locator predicate_result(const Operand& o);
    [[nodiscard]] Locator predicate_at(const Operand& o) const {
        return (predicates_ + 4 * uint32_t(o.number) + (o.uniform ? 32 : 0)) << 1;
    }
    // Returns the register for a predicate result. For PT, it is a scratch predicate.
    Locator written_predicate(const Operand& o);
    Locator constant(uint32_t bits);
    Locator constant_pair(uint64_t bits);
    Locator truth(bool value) { return Emitter::constant(value, 0); }
    Locator bank_word(uint32_t bank, uint32_t offset, int registers);
    Locator scratch() { return Emitter::scratch(4 * register_bytes); }
    Locator scratch_predicate() { return Emitter::scratch(sizeof(sim::LaneMask)); }
    // Returns operand `n` and marks it as handled. lift_instruction() refuses an instruction with
    // an operand that was not handled.
    [[nodiscard]] const Operand& operand(const Instruction& in, size_t n) const;
    void expect(const Instruction& in, size_t n, std::string_view text) const;
    void expect_constant(const Operand& o, bool value) const;
    [[nodiscard]] static bool is_zero(const Operand& o);  // true for RZ, URZ and 0
    [[nodiscard]] static bool is_register(const Operand& o) { return o.kind == Operand::Kind::reg; }
    [[nodiscard]] static bool is_predicate(const Operand& o) {
        return o.kind == Operand::Kind::predicate;
    }

    // machine() emits an operation that only machine code has. as_ptx() emits an operation that PTX
    // also has. The parameters of as_ptx() are the code of this operation, and its modifiers and
    // types as PTX writes them. Empty modifiers are ignored. Both functions apply the guard.
    using Words = std::initializer_list<std::string_view>;
    Op& machine(MachineOp code, std::initializer_list<Locator> operands,
                const sim::Payload& payload = {});
    void as_ptx(OpCode code, Words words, std::initializer_list<Locator> operands,
                int table = -1);  // `table` is the truth table of lop3
    void machine_to_scratch(MachineOp code, std::initializer_list<Locator> operands,
                            // the op has no guard, because it writes scratch registers
                            const sim::Payload& payload = {});
    void as_ptx_to_scratch(OpCode code, Words words, std::initializer_list<Locator> operands);
    [[nodiscard]] Op machine_op(MachineOp code, std::initializer_list<Locator> operands,
                                const sim::Payload& payload) const;
    void emit_ptx(OpCode code, Words words, std::initializer_list<Locator> operands, int table,
                  Guard guard);
    // emit() and append() append an op. With emit(), the op has an effect only in the lanes in
    // which the guard of the instruction is true. If the op writes uniform registers, both
    // functions let it run for all lanes.
    Op& emit(const Op& op) { return Emitter::emit(whole_warp(op), guard()); }
    Op& append(const Op& op) { return Emitter::append(whole_warp(op)); }
    Guard guard();
    [[nodiscard]] Op whole_warp(Op op) const;
    [[noreturn]] void unsupported(const std::string& why = "") const;
    void only(const Instruction& in, std::initializer_list<std::string_view> known) const;

    // The functions that lift instructions. The comment before each definition has examples of the
    // instructions that it lifts.

    // Defined in lift_integer.cpp.
    void iadd3(const Instruction& in);
    void add_pairs(const Instruction& in);
    void add_with_carries(const Instruction& in, size_t first, const Locator (&out)[2]);
    void imad(const Instruction& in);
    void lea(const Instruction& in);
    void lop3(const Instruction& in);
    void plop3(const Instruction& in);
    void shf(const Instruction& in);
    void isetp(const Instruction& in);
    void mov(const Instruction& in);
    void sel(const Instruction& in);
    void prmt(const Instruction& in);
    void viadd(const Instruction& in);
    void min_max(const Instruction& in);
    void add_min_max(const Instruction& in);
    void bits(const Instruction& in);
    void bmsk(const Instruction& in);
    void p2r(const Instruction& in);
    void r2p(const Instruction& in);
    void min_max_of_halves(const Instruction& in);
    Locator integer_halves(const Operand& o);
    struct Sum {  // the PTX operation that adds two pairs of halves, and its operands
        OpCode code;
        Locator a, b;
    };
    Sum sum_of_halves(Operand a, Operand b);
    void difference(const Instruction& in);
    void dot_product(const Instruction& in);
    void pack_integers(const Instruction& in);

    // Defined in lift_sums.cpp.
    struct SumOfPairs {
        uint32_t upper;  // the number of the instruction that adds the upper words
        uint32_t place;  // the number of the instruction at whose place all is computed
    };
    void join_sums();
    [[nodiscard]] const Op* sum_of_words(uint32_t instruction) const;
    [[nodiscard]] std::optional<SumOfPairs> sum_of_pairs(uint32_t lower,
                                                         const std::set<uint32_t>& targets) const;
    void find_family_of_sum(Op& op) const;
    [[nodiscard]] int32_t general_register(Locator at) const;
    [[nodiscard]] bool is_uniform(Locator at) const;

    // Defined in lift_floating.cpp.
    void floating(const Instruction& in);
    void fsetp(const Instruction& in);
    void fset(const Instruction& in);
    void fsel(const Instruction& in);
    void fmnmx(const Instruction& in);
    void mufu(const Instruction& in);
    void fchk(const Instruction& in);
    void doubles(const Instruction& in);
    void dsetp(const Instruction& in);
    void halves(const Instruction& in);
    void hsetp(const Instruction& in);
    void hset(const Instruction& in);
    void hmnmx(const Instruction& in);
    void hmnmx_of_magnitudes(const Instruction& in);
    void convert(const Instruction& in);
    void clamp_integer(const Instruction& in);
    void pack_bytes_of_floats(const Instruction& in);
    void pack_floats(const Instruction& in);
    void pack_fp8(const Instruction& in);

    // Defined in lift_memory.cpp.
    void load_store(const Instruction& in);
    void atomic(const Instruction& in);
    void load_constant(const Instruction& in);
    void async_copy(const Instruction& in);
    void async_group(const Instruction& in);
    void fence(const Instruction& in);
    void query_space(const Instruction& in);
    void set_address(Op& op, const Operand& address, ptx::Space space);
    [[nodiscard]] uint8_t family_of(const Operand& address, ptx::Space space);
    void find_families();
    void describe(ptx::Space space, sim::Access access, uint8_t bytes);
    static ptx::Space space_of(std::string_view opcode);

    // Defined in lift_mbarrier.cpp.
    void mbarrier(const Instruction& in);
    void mbarrier_init(const Instruction& in);
    void mbarrier_arrive(const Instruction& in);
    void mbarrier_wait(const Instruction& in);
    void copies_arrive(const Instruction& in);
    Op mbarrier_op(const Operand& address, sim::Access access);

    // Defined in lift_texture.cpp.
    void fetch(const Instruction& in);
    void query_extent(const Instruction& in);
    void surface(const Instruction& in);
    Locator handle(const Instruction& in, size_t n, bool pair);
    void emit_texture(const sim::TextureAccess& access, Locator handle, sim::Handler run,
                      sim::Access kind);

    // Defined in lift_matrix.cpp.
    void matrix_access(const Instruction& in);
    void matrix_transposition(const Instruction& in);
    void matrix_product(const Instruction& in);
    Op& emit_matrices(Op op, const sim::Matrices& matrices, const sim::MemoryOperand& memory = {});

    // Defined in lift_warpgroup.cpp.
    void warpgroup_product(const Instruction& in);
    void warpgroup_wait(const Instruction& in);
    void set_registers(const Instruction& in);
    [[nodiscard]] sim::WarpgroupProduct warpgroup_form(const Instruction& in) const;

    // Defined in lift_bulk.cpp.
    void bulk_copy(const Instruction& in);
    void box_copy(const Instruction& in);
    void copy_control(const Instruction& in);
    [[nodiscard]] int32_t uniform_group(const Operand& o) const;
    Locator uniform_word(int32_t number);
    void expect_policy_at_most(const Instruction& in, size_t n) const;
    void emit_once(Op op);

    // Defined in lift_control.cpp.
    void branch(const Instruction& in);
    void call(const Instruction& in);
    void call_outside(const Instruction& in);
    void return_address(const Instruction& in);
    void expect_code_start(const Operand& o) const;
    void exit(const Instruction& in);
    void jump(const Instruction& in);
    void convergence(const Instruction& in);
    uint32_t section(const Instruction& in);
    void barrier(const Instruction& in);
    void cluster_barrier(const Instruction& in);
    void barrier_result(const Instruction& in);
    void trap(const Instruction& in);
    void special(const Instruction& in);
    void vote(const Instruction& in);
    void shuffle(const Instruction& in);
    void match(const Instruction& in);
    void redux(const Instruction& in);
    void elect(const Instruction& in);
    void to_uniform(const Instruction& in);
    void nothing(const Instruction& in);
    void save_barrier(const Instruction& in);
    void sleep(const Instruction& in);
    void set_guard(Op& op);
    void guarded_control(Op op, const Operand* condition = nullptr);
    Locator both(Locator one, Locator other);

    const Listing& listing_;
    const Code& code_;
    const ptx::Module& module_;
    const ptx::Function& entry_;
    sim::CallGraph graph_;
    std::shared_ptr<sim::MachineCode> machine_ = std::make_shared<sim::MachineCode>();
    const Instruction* in_ = nullptr;       // the current instruction
    mutable uint64_t used_ = 0;             // a bit for each operand that was handled
    mutable bool knows_modifiers_ = false;  // true after only() was called
    bool uniform_ = false;                  // true if the instruction writes uniform registers
    // The offsets of the three kinds of registers in the frame.
    uint32_t general_ = 0, uniforms_ = 0, predicates_ = 0;
    // The results of BAR.RED, which B2R reads.
    Locator voted_ = no_operand, voted_predicate_ = no_operand;
    std::vector<bool> volatile_loads_;  // for each instruction: it is a volatile load in the PTX
    std::vector<bool> of_barriers_;  // for each instruction: it belongs to a barrier of the block
    std::vector<uint32_t> op_of_;    // the first op of each instruction
    // Consecutive general registers, from number `first` on. `pc` is the instruction that writes
    // them, or that has their address.
    struct Registers {
        uint32_t pc;
        int32_t first;
        int count;
    };
    std::vector<Registers> written_;   // the results of all instructions
    std::vector<Registers> families_;  // the address registers of each family; see find_families()
    std::map<std::tuple<uint32_t, uint32_t, int>, Locator> bank_words_;
    // The different sections of WARPSYNC.COLLECTIVE (sim::WarpSync). The number of a section is its
    // index plus 1.
    std::vector<std::span<const Instruction>> sections_;
};

}  // namespace coalesce::sass
