// METHOD
// Each machine instruction is translated into operations of the simulator, which work on 32-bit
// registers. Machine code uses pairs and groups of four neighbouring registers for larger values.
// The simulator stores neighbouring registers of a warp next to each other, too. So an operation
// can use such a group where it is, without a copy. Many operations also exist in PTX: they use the
// handlers of the PTX operations. The handlers of all other operations are in
// sim/handlers/machine.cpp. Operands in a constant bank become constant registers, which the launch
// fills. In PTX, the simulator finds the points at which lanes reconverge. In machine code, the
// instructions BSSY and BSYNC say where these points are (sim/run/convergence.cpp).
#include "sass/lift.hpp"

#include <algorithm>
#include <cstring>

#include "errors.hpp"
#include "round_up.hpp"
#include "sass/lifter.hpp"
#include "sass/possible_reconvergence.hpp"
#include "sass/schedule.hpp"
#include "sass/waits.hpp"
#include "sim/decode/outline.hpp"
#include "sim/decode/waiting_reads.hpp"
#include "sim/ptx_analysis/symbols.hpp"

namespace coalesce::sass {

namespace {

std::string full_name(const Instruction& in) {
    std::string name(in.opcode);
    for (const std::string_view m : in.modifiers) (name += '.') += m;
    return name;
}

}  // namespace

sim::Program lift(const Listing& listing, const ptx::Module& module, const ptx::Function& entry,
                  std::shared_ptr<sim::ModuleMemory> memory, const sim::Engine& engine) {
    const auto code = listing.codes.find(entry.name);
    if (code == listing.codes.end())
        throw UnsupportedInstruction("the machine code has no kernel " + entry.name);
    for (const ptx::Function& function : module.functions)
        if (std::ranges::find(function.body, "tensormap", &ptx::Instruction::opcode) !=
            function.body.end())
            throw UnsupportedInstruction(
                "the machine code of tensormap.replace stores to a tensor map, whose layout is not "
                "documented");
    return Lifter(listing, code->second, module, entry, std::move(memory), engine).lift();
}

sim::Program Lifter::lift() {
    lay_out_registers();
    lay_out_banks();
    check_shared();
    describe_instructions();
    // If there is recursion or a call through a pointer, the depth of the stack is not known.
    program_.recursive = graph_.recursive();
    program_.calls_pointers = graph_.through_pointers;
    program_.local_bytes = program_.local_end = program_.least_stack = stack_bytes();
    for (uint32_t i = 0; i < code_.instructions.size(); ++i) lift_instruction(i);
    link();
    sim::limit_stack(program_, sim::default_stack);
    return std::move(program_);
}

// Lays out the frame, which is the memory for all registers. It has general registers, uniform
// registers and both kinds of predicates. Scratch registers are added behind them when they are
// needed.
void Lifter::lay_out_registers() {
    int32_t general = 0, uniform = 0;
    const auto see = [&](const Operand& o) {
        if (o.kind == Operand::Kind::reg)
            (o.uniform ? uniform : general) = std::max(o.uniform ? uniform : general, o.number);
        general = std::max(general, o.base);
        uniform = std::max(uniform, o.uniform_base);
    };
    bool of_warpgroups = false;
    for (const Instruction& in : code_.instructions) {
        for (const Operand& o : in.operands) see(o);
        of_warpgroups = of_warpgroups || sim::operation(in.code).has(sim::trait::warpgroup);
    }
    const uint32_t widest = of_warpgroups ? max_sums : max_registers;
    // The functions outside the cubin take their arguments in R4 to R13.
    general = std::max(general, 12);
    general_ = 0;
    uniforms_ = general_ + (uint32_t(general) + widest) * register_bytes;
    predicates_ = uniforms_ + (uint32_t(uniform) + widest) * register_bytes;
    voted_ = (predicates_ + sim::slot_alignment) << 1;
    voted_predicate_ = voted_ + (register_bytes << 1);
    frame_.bytes = predicates_ + 2 * sim::slot_alignment + register_bytes;
}

void Lifter::lay_out_banks() {
    for (uint32_t b = 1; b < sim::MachineCode::banks; ++b) {
        const std::string number = std::to_string(b);
        for (const std::string& name : {number + "." + code_.name, number}) {
            const auto bank = listing_.banks.find(name);
            if (bank == listing_.banks.end() || !machine_->bank[b].empty()) continue;
            std::vector<std::byte>& bytes = machine_->bank[b];
            for (const uint8_t byte : bank->second.bytes) bytes.push_back(std::byte(byte));
            for (const SymbolWord& word : bank->second.symbols) {
                const auto address = program_.memory->address_of.find(word.symbol);
                const bool known = address != program_.memory->address_of.end();
                const uint64_t value =
                    known ? address->second + uint64_t(word.by) : address_outside(word.symbol);
                for (size_t i = 0; i < 8 && word.offset + i < bytes.size(); ++i)
                    bytes[word.offset + i] = std::byte(value >> (8 * i));
            }
            for (const BankVariable& v : bank->second.variables) {
                for (size_t i = 0; i < program_.memory->items.size(); ++i) {
                    const auto& item = program_.memory->items[i];
                    if (item.name == v.name)
                        machine_->variables.push_back(
                            {i, v.offset, uint32_t(item.bytes.size()), item.address});
                }
            }
        }
    }
}

// Returns an address for a symbol that is not in the cubin.
uint64_t Lifter::address_outside(std::string_view symbol) {
    using Builtin = sim::CallSite::Builtin;
    const auto builtin = symbol == "vprintf"        ? Builtin::vprintf
                         : symbol == "__assertfail" ? Builtin::assertfail
                         : symbol == "malloc"       ? Builtin::malloc
                         : symbol == "free"         ? Builtin::free
                                                    : Builtin::none;
    const uint64_t address = sim::MachineCode::first_outside + 16 * machine_->outside.size();
    machine_->outside.emplace(address, builtin);
    return address;
}

// Checks that the machine code has as much shared memory as the PTX (sim/ptx_analysis/symbols.hpp).
// If it has, the shared variables have the same addresses in the machine code as in the PTX.
void Lifter::check_shared() const {
    const auto shared = listing_.shared_bytes.find(code_.name);
    if (shared == listing_.shared_bytes.end()) return;
    const uint64_t known = uint64_t{program_.reserved_shared} + program_.shared_bytes;
    if (round_up(shared->second, 16) != round_up(uint32_t(known), 16))
        throw UnsupportedInstruction(
            "the machine code of " + program_.kernel + " has " + std::to_string(shared->second) +
            " bytes of shared memory, but the PTX has " + std::to_string(known) +
            ", so the shared variables may have other addresses in the machine code than in the "
            "PTX");
}

// Finds the functions that can be called through a pointer, and checks their addresses. An address
// has one of two forms. If several kernels call through pointers, constant bank 2 begins with a
// table of functions. Each entry is the offset of a function in the code. The address of a function
// is the offset of its entry in the table. The first entry of the table is for the null pointer,
// and is 1. If there is no table, the address of a function is its offset in the code. Functions
// outside this code section are left out, because this code never calls them.
void Lifter::find_functions() {
    if (!machine_->functions.empty()) return;
    const std::vector<std::byte>& bank = machine_->bank[2];
    const auto entry = [&](uint64_t address) {
        uint64_t offset = 0;
        if (address + sizeof offset <= bank.size())
            std::memcpy(&offset, bank.data() + address, sizeof offset);
        return offset;
    };
    const bool table = entry(0) == 1;
    for (const auto& [address, f] : sim::function_addresses(module_)) {
        const auto at = code_.functions.find("$" + code_.name + "$" + f->name);
        if (at == code_.functions.end()) continue;
        const uint64_t offset = uint64_t{at->second} * instruction_bytes;
        if ((table ? entry(address) : address) != offset)
            unsupported("the address of " + f->name + " differs from the PTX's");
        machine_->functions.insert(uint32_t(offset));
    }
    if (machine_->functions.empty()) unsupported("no function that it could call");
}

// Sets the text of each machine instruction, its source line, and the variable that it accesses.
// The source line and the variable are those of the PTX line from which the machine instruction was
// assembled.
void Lifter::describe_instructions() {
    struct Line {
        ptx::SourceLine source;
        sim::Origin origin;
        bool is_volatile, is_barrier, waits;
    };
    std::map<uint32_t, Line> by_line;
    for (const ptx::Function* f : graph_.functions) {
        const std::vector<sim::Traits> traits = sim::traits_of(*f);
        const std::vector<sim::Origin> origins = sim::address_origins(module_, *f, traits);
        const std::vector<bool> waits =
            sim::waiting_reads(*f, traits, sim::control_flow(*f, traits));
        for (size_t i = 0; i < f->body.size(); ++i) {
            Line line{f->body[i].written, origins[i], traits[i].strong && !traits[i].atomic,
                      sim::operation(traits[i].code).has(sim::trait::block_barrier), waits[i]};
            if (f != &entry_) line.origin.parameter = -1;
            by_line.emplace(f->body[i].position.line, line);
        }
    }
    for (const Instruction& in : code_.instructions) {
        sim::InstructionInfo info;
        info.set_text(one_line(in.text), one_line(full_name(in)));
        info.ptx_line = in.ptx_line;
        info.source.file = program_.source_file;
        volatile_loads_.push_back(false);
        of_barriers_.push_back(false);
        if (const auto line = by_line.find(in.ptx_line); line != by_line.end()) {
            info.source = line->second.source;
            info.origin = line->second.origin;
            volatile_loads_.back() = line->second.is_volatile;
            of_barriers_.back() = line->second.is_barrier;
            info.waits = line->second.waits;
        }
        program_.instructions.push_back(std::move(info));
        machine_->schedule.push_back(schedule_of(in));
    }
}

// Returns how many bytes of stack the code needs: the sum of all numbers by which its functions
// decrease the stack pointer. This is enough if no function is recursive.
uint32_t Lifter::stack_bytes() const {
    int64_t bytes = 0;
    for (const Instruction& in : code_.instructions) {
        if (in.operands.size() < 2 || in.operands[0].kind != Operand::Kind::reg ||
            in.operands[0].number != 1 || in.operands[0].uniform)
            continue;
        for (const Operand& o : in.operands) {
            if (o.kind == Operand::Kind::integer && int64_t(int32_t(o.bits)) < 0)
                bytes -= int32_t(o.bits);
        }
    }
    return round_up(uint32_t(std::min<int64_t>(bytes, 512 * 1024)), 16);
}

void Lifter::lift_instruction(uint32_t at) {
    const Instruction& in = code_.instructions[at];
    in_ = &in;
    begin_instruction(at);
    used_ = 0;
    knows_modifiers_ = in.modifiers.empty();
    uniform_ = in.opcode.starts_with('U');
    op_of_.push_back(uint32_t(program_.ops.size()));
    const Lift lift = find(in.opcode);
    if (!lift || opcode_ == OpCode::unknown) unsupported();
    if (in.operands.size() > 64) unsupported("its many operands");
    if (in.guard.kind != Operand::Kind::predicate && !in.guard.text.empty())
        unsupported("its guard");
    (this->*lift)(in);
    if (first_op_) unsupported();  // each instruction must have an op, so that it is counted
    // To a GPU, a guard in a uniform predicate turns no lane off: @!UP0 UIADD3 counts 32 lanes (of
    // an H100). But @!UPT UIADD3, with which the assembler waits, counts none (of an H200).
    if (in.guard.uniform && in.guard.number >= 0)
        for (uint32_t i = op_of_.back(); i < program_.ops.size(); ++i)
            program_.ops[i].starts_guarded = false;
    if (!knows_modifiers_) unsupported("its modifiers");
    for (size_t n = 0; n < in.operands.size(); ++n) {
        if (!(used_ >> n & 1)) unsupported("the operand " + std::string(in.operands[n].text));
    }
}

// Replaces the targets of branches, which are still indices of instructions, by indices of ops.
void Lifter::link() {
    op_of_.push_back(uint32_t(program_.ops.size()));
    append_between(sim::Control::exit);
    for (Op& op : program_.ops) {
        uint32_t* target = nullptr;
        if (op.is<sim::Branch>() && !op.skips_guarded())
            target = &op.get<sim::Branch>().target;
        else if (op.control == sim::Control::set_barrier)
            target = &op.get<sim::ReconvergenceBarrier>().target;
        if (target) *target = op_of_[*target];
    }
    machine_->op_of = op_of_;
    // Accesses to mbarriers are not in the counts of memory instructions.
    const auto counts = [&](uint32_t i) {
        const sim::InstructionInfo& info = program_.instructions[i];
        return info.space != ptx::Space::reg &&
               !sim::operation(info.traits.code).has(sim::trait::mbarrier);
    };
    machine_->possible_reconvergence = possible_reconvergence(code_, counts);
    // Other metrics count the instructions of tensor cores.
    const auto measured = [&](uint32_t i) {
        return counts(i) || program_.instructions[i].traits.uses_tensor_cores();
    };
    machine_->after_waits =
        accesses_after_waits(code_, program_.instructions, measured, volatile_loads_);
    program_.machine = machine_;
    program_.conventions = {.explicit_reconvergence = true, .first_tag = 0};
    program_.functions.resize(1);
    program_.functions[0].name = program_.kernel;
    program_.functions[0].entry = 0;
    program_.functions[0].register_bytes = round_up(frame_.bytes, sim::slot_alignment);
    program_.functions[0].local_bytes = program_.local_bytes;
    sim::find_segments(program_);
    join_sums();
    find_families();
    sim::find_spins(program_);
}

// Returns the function that lifts an instruction, or null if the instruction is not known.
Lifter::Lift Lifter::find(std::string_view opcode) {
    static const auto& table = *new auto([] {
        const std::pair<Lift, std::vector<std::string_view>> rows[] = {
            {&Lifter::iadd3, {"IADD3", "UIADD3"}},
            {&Lifter::imad, {"IMAD", "UIMAD"}},
            {&Lifter::lea, {"LEA", "ULEA"}},
            {&Lifter::lop3, {"LOP3", "ULOP3"}},
            {&Lifter::plop3, {"PLOP3", "UPLOP3"}},
            {&Lifter::shf, {"SHF", "USHF"}},
            {&Lifter::isetp, {"ISETP", "UISETP"}},
            {&Lifter::mov, {"MOV", "UMOV"}},
            {&Lifter::sel, {"SEL", "USEL"}},
            {&Lifter::prmt, {"PRMT", "UPRMT"}},
            {&Lifter::viadd, {"VIADD"}},
            {&Lifter::min_max, {"VIMNMX", "IMNMX", "VIMNMX3"}},
            {&Lifter::add_min_max, {"VIADDMNMX"}},
            {&Lifter::difference, {"VABSDIFF", "VABSDIFF4"}},
            {&Lifter::dot_product, {"IDP"}},
            {&Lifter::bits,
             {"POPC", "UPOPC", "FLO", "UFLO", "BREV", "UBREV", "IABS", "SGXT", "USGXT"}},
            {&Lifter::bmsk, {"BMSK", "UBMSK"}},
            {&Lifter::p2r, {"P2R", "UP2UR"}},
            {&Lifter::r2p, {"R2P"}},
            {&Lifter::floating, {"FADD", "FMUL", "FFMA"}},
            {&Lifter::fsetp, {"FSETP"}},
            {&Lifter::fset, {"FSET"}},
            {&Lifter::fsel, {"FSEL"}},
            {&Lifter::fmnmx, {"FMNMX"}},
            {&Lifter::mufu, {"MUFU"}},
            {&Lifter::fchk, {"FCHK"}},
            {&Lifter::doubles, {"DADD", "DMUL", "DFMA"}},
            {&Lifter::dsetp, {"DSETP"}},
            {&Lifter::halves, {"HADD2", "HMUL2", "HFMA2"}},
            {&Lifter::hsetp, {"HSETP2"}},
            {&Lifter::hset, {"HSET2"}},
            {&Lifter::hmnmx, {"HMNMX2", "VHMNMX"}},
            {&Lifter::convert, {"F2F", "F2I", "I2F", "I2FP", "FRND"}},
            {&Lifter::clamp_integer, {"I2I"}},
            {&Lifter::pack_integers, {"I2IP"}},
            {&Lifter::pack_bytes_of_floats, {"F2IP"}},
            {&Lifter::pack_floats, {"F2FP"}},
            {&Lifter::load_store, {"LDG", "STG", "LDS", "STS", "LDL", "STL", "LD", "ST"}},
            {&Lifter::atomic, {"ATOM", "ATOMG", "ATOMS", "RED", "REDG"}},
            {&Lifter::matrix_access, {"LDSM", "STSM"}},
            {&Lifter::matrix_transposition, {"MOVM"}},
            {&Lifter::matrix_product, {"HMMA", "IMMA", "BMMA", "DMMA"}},
            {&Lifter::warpgroup_product, {"HGMMA", "QGMMA", "IGMMA", "BGMMA"}},
            {&Lifter::warpgroup_wait, {"WARPGROUP"}},
            {&Lifter::set_registers, {"USETMAXREG"}},
            {&Lifter::bulk_copy, {"UBLKCP"}},
            {&Lifter::box_copy, {"UTMALDG", "UTMASTG"}},
            {&Lifter::copy_control, {"UTMACMDFLUSH", "UTMACCTL", "UBLKPF", "UTMAPF"}},
            {&Lifter::load_constant, {"LDC", "ULDC"}},
            {&Lifter::async_copy, {"LDGSTS"}},
            {&Lifter::async_group, {"LDGDEPBAR", "DEPBAR"}},
            {&Lifter::mbarrier, {"SYNCS"}},
            {&Lifter::copies_arrive, {"ARRIVES"}},
            {&Lifter::fetch, {"TEX", "TLD", "TLD4", "TXD"}},
            {&Lifter::query_extent, {"TXQ"}},
            {&Lifter::surface, {"SULD", "SUST"}},
            {&Lifter::fence, {"MEMBAR", "FENCE"}},
            {&Lifter::nothing,
             {"ERRBAR", "CCTL", "CGAERRBAR", "NOP", "YIELD", "ENDCOLLECTIVE", "PREEXIT",
              "ACQBULK"}},
            {&Lifter::query_space, {"QSPC"}},
            {&Lifter::branch, {"BRA"}},
            {&Lifter::call, {"CALL"}},
            {&Lifter::jump, {"RET", "BRX", "BRXU"}},
            {&Lifter::return_address, {"LEPC"}},
            {&Lifter::exit, {"EXIT"}},
            {&Lifter::convergence, {"BSSY", "BSYNC", "BREAK", "WARPSYNC"}},
            {&Lifter::save_barrier, {"BMOV"}},
            {&Lifter::barrier, {"BAR"}},
            {&Lifter::barrier_result, {"B2R"}},
            {&Lifter::cluster_barrier, {"UCGABAR_ARV", "UCGABAR_WAIT"}},
            {&Lifter::trap, {"BPT"}},
            {&Lifter::special, {"S2R", "S2UR", "CS2R"}},
            {&Lifter::vote, {"VOTE", "VOTEU"}},
            {&Lifter::shuffle, {"SHFL"}},
            {&Lifter::match, {"MATCH"}},
            {&Lifter::redux, {"REDUX"}},
            {&Lifter::elect, {"ELECT"}},
            {&Lifter::to_uniform, {"R2UR"}},
            {&Lifter::sleep, {"NANOSLEEP"}},
        };
        std::map<std::string_view, Lift> lift_of;
        for (const auto& [lift, opcodes] : rows)
            for (const std::string_view opcode_of_row : opcodes)
                lift_of.emplace(opcode_of_row, lift);
        return lift_of;
    }());
    const auto entry = table.find(opcode);
    return entry == table.end() ? nullptr : entry->second;
}

void Lifter::unsupported(const std::string& why) const {
    throw UnsupportedInstruction("the simulator cannot execute `" + one_line(in_->text) + "`" +
                                 " of the machine code of " + program_.kernel +
                                 (why.empty() ? "" : "; not supported: " + one_line(why)));
}

// Refuses the instruction if the operand does not have this text.
void Lifter::expect(const Instruction& in, size_t n, std::string_view text) const {
    const Operand& o = operand(in, n);
    if (o.text != text) unsupported("the operand " + std::string(o.text));
}

// Refuses the instruction if the operand is not the constant `value`: PT for true, !PT for false.
void Lifter::expect_constant(const Operand& o, bool value) const {
    if (!is_predicate(o) || o.number >= 0 || o.negated == value)
        unsupported("the predicate " + std::string(o.text));
}

void Lifter::only(const Instruction& in, std::initializer_list<std::string_view> known) const {
    knows_modifiers_ = true;
    for (const std::string_view m : in.modifiers) {
        if (std::find(known.begin(), known.end(), m) == known.end())
            unsupported("the modifier ." + std::string(m));
    }
}

}  // namespace coalesce::sass
