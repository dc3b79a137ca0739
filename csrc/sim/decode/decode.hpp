// The decoder: it translates one kernel from PTX to a Program. A Program is a list of operations
// (ops) that the simulator executes; see program.hpp. decode.cpp describes the method. The other
// decode_*.cpp files decode instructions that are not plain arithmetic.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "round_up.hpp"
#include "sim/decode/emitter.hpp"
#include "sim/decode/registers.hpp"
#include "sim/program/program.hpp"
#include "sim/ptx_analysis/call_graph.hpp"
#include "sim/ptx_analysis/data_flow.hpp"
#include "sim/ptx_analysis/modifiers.hpp"
#include "sim/ptx_analysis/symbols.hpp"

namespace coalesce::sim {

// While a function is decoded, an entry of Program::reconvergence is first the number of a basic
// block. Later it is replaced by the number of an op. This bit marks the entries that have been
// replaced.
inline constexpr uint32_t resolved_op = 1u << 31;
static_assert(no_op == no_block);

// The limit on local memory of a thread (CUDA C++ Programming Guide, "Technical Specifications per
// Compute Capability").
inline constexpr uint64_t max_local_bytes = 512 * 1024;

class Decoder : private Emitter {
  public:
    // If `registers` is not null, it receives the description of the registers.
    Decoder(const ptx::Module& module, std::shared_ptr<ModuleMemory> memory, const Engine& engine,
            RegisterMap* registers = nullptr)
        : Emitter(engine, Spacing::apart),
          module_(module),
          memory_(std::move(memory)),
          registers_(registers) {}
    Program decode(const ptx::Function& entry);

  private:
    // The PTX function that is being decoded.
    struct CurrentFunction {
        const ptx::Function* function = nullptr;
        std::vector<Traits> traits;  // one entry for each instruction of the body
        ControlFlow flow;
        std::vector<LiveRange> ranges;  // the live ranges of the function's registers
        AddressFamilies families;
        std::vector<Locator> slots;  // the slots of the function's registers
        // Byte offsets in the local memory of the function's frame. `variables` has one offset for
        // each variable of the function. `formals` has the offsets of the parameters and results of
        // a function that is not the kernel; the key is their name.
        std::vector<uint32_t> variables;
        std::map<std::string, uint32_t, std::less<>> formals;
        std::vector<uint32_t> op_of;  // the first op of each instruction
        // For each basic block: true if lanes may reconverge at its start.
        std::vector<bool> is_reconvergence;
    };

    // Defined in decode.cpp.
    void decode_function(uint32_t index);
    void allocate_registers(CurrentFunction& current);
    void lay_out_frame(uint32_t index);
    void decode_instruction(uint32_t at);
    void describe_function(uint32_t first_instruction);
    bool decode_lanewise(const ptx::Instruction& in);
    void resize_operands(const ptx::Instruction& in, Op op, const Selection& selection);
    void finish_depth();

    // Defined in plain.cpp: optimizations for plain runs (runs without observers).
    void find_chains(uint32_t first_op, uint32_t first_instruction);
    [[nodiscard]] bool begins_multiply_add(uint32_t op) const;
    [[nodiscard]] std::vector<bool> registers_read_once() const;

    // Defined in memory.cpp.
    bool decode_memory(const ptx::Instruction& in);
    bool decode_load_store(const ptx::Instruction& in);
    uint32_t set_values(Op& op, const ptx::Operand& data, ptx::Type type, int elements,
                        bool is_load);
    bool decode_atomic(const ptx::Instruction& in);
    bool decode_async_copy(const ptx::Instruction& in);
    // Sets the address of a memory op: the address register becomes operand 5, and the offset goes
    // to the MemoryOperand in the op's payload (payload.hpp).
    void set_address(Op& op, const ptx::Operand& address, ptx::Space space);
    Op shared_end(const ptx::Operand& address);
    [[nodiscard]] ptx::Space space_of(const ptx::Operand& symbol) const;
    [[nodiscard]] const ptx::Variable* named_parameter(const ptx::Operand& address) const;
    void describe(ptx::Space space, Access access, uint8_t bytes);

    // Defined in mbarrier.cpp.
    bool decode_mbarrier(const ptx::Instruction& in);
    bool decode_bulk_copy(const ptx::Instruction& in);
    bool decode_mbarrier_update(const ptx::Instruction& in);
    bool decode_mbarrier_wait(const ptx::Instruction& in);

    // Defined in tensor.cpp and warpgroup.cpp.
    bool decode_tensor_copy(const ptx::Instruction& in);
    bool decode_tensor_map(const ptx::Instruction& in);
    bool decode_map_copy(const ptx::Instruction& in);
    bool decode_warpgroup(const ptx::Instruction& in);
    void decode_warpgroup_wait(const ptx::Instruction& in);
    void take_warpgroup_operands(const ptx::Instruction& in, WarpgroupProduct& w);
    Locator descriptor(const ptx::Operand& operand);

    // Defined in texture.cpp.
    bool decode_texture(const ptx::Instruction& in);
    bool decode_fetch(const ptx::Instruction& in);
    bool decode_surface(const ptx::Instruction& in);
    void take_coordinates(const ptx::Operand& list, TextureAccess& access, ptx::Type type);
    void take_values(const ptx::Operand& list, TextureAccess& access, ptx::Type type, size_t count,
                     bool written);
    void emit_texture(const ptx::Instruction& in, const ptx::Operand& address,
                      const TextureAccess& access, Handler run, Access kind);

    // Defined in matrix.cpp.
    bool decode_matrix(const ptx::Instruction& in);
    bool decode_matrix_access(const ptx::Instruction& in);
    bool decode_matrix_product(const ptx::Instruction& in);
    bool decode_fragment_access(const ptx::Instruction& in);
    bool decode_fragment_product(const ptx::Instruction& in);
    void emit_matrices(const ptx::Instruction& in, const Matrices& matrices, Handler run,
                       const MemoryOperand& memory = {});
    MemoryOperand set_matrix_address(Matrices& matrices, const ptx::Operand& address,
                                     uint8_t bytes);
    void take_registers(const ptx::Operand& list, ptx::Type type, size_t count, bool written,
                        Locator* registers, const char* what);
    void require_architecture(uint32_t least);
    [[nodiscard]] uint32_t architecture() const;

    // Defined in control.cpp.
    bool decode_control(uint32_t at);
    void decode_call(const ptx::Instruction& in);
    void decode_barrier(const ptx::Instruction& in);
    void decode_cluster_barrier(const ptx::Instruction& in);
    void emit_control(const ptx::Instruction& in, Op op, uint32_t reconvergence);
    uint32_t argument_layout(const ptx::Function& f, std::vector<uint32_t>& offsets) const;
    void check_call(const ptx::Function& f, const std::vector<ptx::Operand>& arguments,
                    const std::vector<ptx::Operand>& results) const;
    [[nodiscard]] const ptx::Variable& passed(const ptx::Operand& operand) const;
    void call_builtin(CallSite& site, std::string_view name) const;

    // Defined in operands.cpp.
    static uint64_t immediate_bits(const ptx::Operand& operand, ptx::Type type);
    Locator source(const ptx::Operand& operand, ptx::Type type);
    Locator destination(const ptx::Operand& operand, ptx::Type type);
    // Returns a scratch register that is wide enough for any type: 8 bytes per lane.
    Locator scratch() { return Emitter::scratch(8 * warp_size); }
    Locator negated(Locator predicate);
    [[nodiscard]] uint32_t register_bytes(const ptx::Operand& operand) const;
    // Returns the slot of a register that the instruction reads or writes as `type`. This function
    // is the only way to get a register's slot. So the width and the class of the register are
    // checked for every operand.
    [[nodiscard]] Locator slot(int32_t reg, ptx::Type type) const;
    // Like slot(), but for a register that holds an address: an integer of 32 or 64 bits.
    [[nodiscard]] Locator address_slot(int32_t reg) const;
    uint64_t address_of_symbol(const ptx::Operand& operand);
    bool find_local(const ptx::Operand& symbol, uint32_t& offset) const;
    [[nodiscard]] const ptx::Variable* find_shared(std::string_view name) const;

    [[nodiscard]] Guard guard_of(const ptx::Instruction& in) const;
    // Appends an op that is executed only in the lanes in which the guard of the instruction is
    // true.
    Op& emit(const ptx::Instruction& in, const Op& op) { return Emitter::emit(op, guard_of(in)); }
    // Throws PtxError with line and column. Call it if the current instruction is not valid PTX.
    [[noreturn]] void malformed(const std::string& why) const;
    [[noreturn]] void unsupported(const ptx::Instruction& in, const std::string& why = "") const;

    const ptx::Module& module_;
    std::shared_ptr<ModuleMemory> memory_;
    RegisterMap* registers_;
    CurrentFunction* current_ = nullptr;
    uint32_t function_ = 0;
    const ptx::Instruction* instruction_ = nullptr;  // the current instruction
    CallGraph graph_;
    uint32_t kernel_end_ = 0;  // the end of the kernel's last variable in local memory
};

}  // namespace coalesce::sim
