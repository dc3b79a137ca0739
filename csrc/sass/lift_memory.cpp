// Loads, stores, atomics, constant banks and asynchronous copies.
#include "sass/lifter.hpp"

namespace coalesce::sass {

using Kind = Operand::Kind;
using ptx::Space;
using ptx::Type;

namespace {

// Sets `update` to the update that a modifier names. Returns false if no modifier names one.
bool find_update(const Instruction& in, sim::AtomicUpdate& update) {
    using enum sim::AtomicUpdate;
    static constexpr struct {
        std::string_view modifier;
        sim::AtomicUpdate update;
    } all[] = {{"ADD", add},       {"MIN", minimum},         {"MAX", maximum}, {"INC", increment},
               {"DEC", decrement}, {"AND", bit_and},         {"OR", bit_or},   {"XOR", bit_xor},
               {"EXCH", exchange}, {"CAS", compare_and_swap}};
    for (const auto& one : all) {
        if (!in.has(one.modifier)) continue;
        update = one.update;
        return true;
    }
    return false;
}

// Returns true if the address is in a register pair.
bool is_wide(const Instruction& in) { return in.has("E"); }

}  // namespace

Space Lifter::space_of(std::string_view opcode) {
    if (opcode == "LD" || opcode == "ST" || opcode == "ATOM") return Space::generic;
    if (opcode == "LDS" || opcode == "STS" || opcode == "ATOMS") return Space::shared;
    return opcode == "LDL" || opcode == "STL" ? Space::local : Space::global;
}

void Lifter::describe(Space space, sim::Access access, uint8_t bytes) {
    sim::InstructionInfo& info = program_.instructions[pc_];
    info.space = space;
    info.access = access;
    info.bytes = bytes;
    // Before some copies from global memory, the assembler inserts loads from shared memory that
    // are never executed. Such a load belongs to the same PTX line as the copy. This line accesses
    // an array in global memory, which is not the array of the load. So the load gets no array
    // name.
    if (space == Space::shared && info.origin.parameter >= 0) info.origin = {};
}

void Lifter::set_address(Op& op, const Operand& address, Space space) {
    if (address.kind != Kind::address || address.negated || address.inverted || address.absolute)
        unsupported("the address " + std::string(address.text));
    Operand base, uniform;
    base.kind = uniform.kind = Kind::reg;
    base.number = address.base;
    uniform.uniform = true;
    uniform.number = address.uniform_base;
    sim::MemoryOperand& memory = op.memory();
    memory.offset = address.offset;
    if (space == Space::shared || space == Space::local) {
        if (space == Space::shared)
            memory.offset = int64_t(uint64_t(memory.offset) - program_.reserved_shared);
        memory.form = sim::AddressForm::narrow;
        Locator at = address.base >= 0 ? raw(base) : constant(0);
        if (address.scale != 1) {
            const Locator scaled = scratch();
            as_ptx_to_scratch(OpCode::mul, {"lo", "u32"}, {scaled, at, constant(address.scale)});
            at = scaled;
        }
        if (address.uniform_base >= 0 && address.base >= 0) {
            const Locator sum = scratch();
            as_ptx_to_scratch(OpCode::add, {"u32"}, {sum, at, raw(uniform)});
            at = sum;
        } else if (address.uniform_base >= 0) {
            at = raw(uniform);
        }
        op.operand[5] = at;
        return;
    }
    memory.form = sim::AddressForm::pair;
    if (!is_wide(*in_)) unsupported("an address of 32 bits");
    if (address.scale != 1) unsupported("the address " + std::string(address.text));
    if (address.uniform_base < 0) {
        op.operand[5] = address.base >= 0 ? raw(base, 2) : constant(0);
    } else if (address.base < 0) {
        op.operand[5] = raw(uniform, 2);
    } else {
        const bool wide = address.wide || !address.wide_uniform;
        const Locator sum = scratch();
        machine_to_scratch(
            wide && address.wide_uniform ? MachineOp::add_pairs : MachineOp::add_word_to_pair,
            {sum, wide ? raw(base, 2) : raw(uniform, 2), wide ? raw(uniform, 2) : raw(base)});
        op.operand[5] = sum;
    }
}

// Returns the family of an address register (sim/warp/lane_strides.hpp).
uint8_t Lifter::family_of(const Operand& address, Space space) {
    if (address.base < 0 || address.uniform_base >= 0 || address.scale != 1)
        return sim::AddressFamilies::none;
    const int count = space == Space::shared ? 1 : 2;
    const auto known = std::ranges::find_if(
        families_, [&](const Registers& r) { return r.first == address.base && r.count == count; });
    const auto family = uint8_t(known - families_.begin());
    if (known != families_.end()) return family;
    if (family == sim::AddressFamilies::most) return sim::AddressFamilies::none;
    families_.push_back({pc_, address.base, count});
    return family;
}

// Finds out when the strides of address registers change (sim/warp/lane_strides.hpp). In machine
// code, each address register is a family of its own. So the stride changes whenever an instruction
// writes the register, unless it is a sum that keeps the stride (find_family_of_sum). result()
// notes what instructions write, with these exceptions: results of textures, of functions outside
// the code, and of products of warpgroups. A program with such instructions gets no families.
void Lifter::find_families() {
    const bool has_others = std::ranges::any_of(program_.instructions, [](const auto& info) {
        return info.traits.texture || info.traits.warpgroup;
    });
    if (has_others || !machine_->outside.empty()) {
        for (Op& op : program_.ops)
            if (op.has_memory()) op.memory().family = sim::AddressFamilies::none;
        return;
    }
    sim::AddressFamilies families;
    families.changed.resize(program_.instructions.size());
    for (const Registers& w : written_) {
        for (size_t f = 0; f < families_.size(); ++f) {
            const Registers& address = families_[f];
            if (w.first < address.first + address.count && address.first < w.first + w.count)
                families.changed[w.pc] |= uint64_t{1} << f;
        }
    }
    families.renewed = families.changed;
    for (Op& op : program_.ops)
        if (op.is<sim::WideSum>()) find_family_of_sum(op);
    find_family_changes(families, 0, 0);
}

void Lifter::load_store(const Instruction& in) {
    // All other modifiers name cache policies and memory orders, which have no effect on the
    // simulator.
    only(in, {"E",        "U",      "U8",   "S8",   "U16",     "S16",    "32",      "64",     "128",
              "CONSTANT", "STRONG", "WEAK", "GPU",  "SYS",     "SM",     "CTA",     "EF",     "EL",
              "LU",       "EU",     "NA",   "MMIO", "PRIVATE", "LTC64B", "LTC128B", "LTC256B"});
    const Space space = space_of(in.opcode);
    const bool is_load = in.opcode.starts_with('L');
    const Type type = in.has("U8")    ? Type::u8
                      : in.has("S8")  ? Type::s8
                      : in.has("U16") ? Type::u16
                      : in.has("S16") ? Type::s16
                                      : Type::b32;
    const int registers = in.has("128") ? 4 : in.has("64") ? 2 : 1;
    if (in.operands.size() != 2) unsupported("a further operand");
    Op op;
    const uint8_t bytes = uint8_t(ptx::size_of(type) * uint32_t(registers));
    op.set(sim::MemoryOperand{.bytes = bytes, .read_only = in.has("CONSTANT")});
    describe(space, is_load ? sim::Access::load : sim::Access::store, bytes);
    set_address(op, operand(in, is_load ? 1 : 0), space);
    const Operand& data = operand(in, is_load ? 0 : 1);
    const Locator first = is_load ? result(data, registers) : raw(data, registers);
    for (int n = 0; n < registers; ++n) op.operand[n] = register_after(first, uint32_t(n));
    op.mover = (is_load ? engine_.ops->load : engine_.ops->store)(type, 4, registers);
    const bool words = (space == Space::shared || space == Space::global) && type == Type::b32;
    const int row = sim::row_of(space), column = is_load ? 0 : 1;
    op.run = words ? engine_.memory.words[row][column][registers / 2]
                   : engine_.memory.access[row][column];
    if (words) op.memory().family = family_of(operand(in, is_load ? 1 : 0), space);
    emit(op);
}

void Lifter::atomic(const Instruction& in) {
    only(in, {"E",   "ADD",   "MIN",   "MAX",    "INC",   "DEC",    "AND",    "OR",  "XOR", "EXCH",
              "CAS", "CAST",  "SPIN",  "POPC",   "64",    "32",     "U64",    "S64", "S32", "U32",
              "F32", "F64",   "F16x2", "BF16x2", "FTZ",   "RN",     "STRONG", "GPU", "SYS", "CTA",
              "SM",  "F32x2", "F32x4", "F16x4",  "F16x8", "BF16x4", "BF16x8"});
    const Space space = space_of(in.opcode);
    const bool tries = in.has("CAST");  // for ATOMS.CAST.SPIN, a swap that may have to be repeated
    sim::AtomicUpdate update{};
    if (!tries && !find_update(in, update)) unsupported();
    const bool wide = in.has("64") || in.has("U64") || in.has("S64") || in.has("F64");
    const bool counts_lanes = in.has("POPC");  // for ATOMS.POPC.INC, which adds the number of lanes
    // The types, and how many words each lane updates: F16x8 has four pairs of halves.
    static constexpr struct {
        std::string_view modifier;
        Type type;
        int words = 1;
    } types[] = {{"F32", Type::f32},          {"F32x2", Type::f32, 2},  {"F32x4", Type::f32, 4},
                 {"F64", Type::f64},          {"F16x2", Type::f16x2},   {"F16x4", Type::f16x2, 2},
                 {"F16x8", Type::f16x2, 4},   {"BF16x2", Type::bf16x2}, {"BF16x4", Type::bf16x2, 2},
                 {"BF16x8", Type::bf16x2, 4}, {"S32", Type::s32},       {"S64", Type::s64}};
    const auto* const found =
        std::ranges::find_if(types, [&](const auto& each) { return in.has(each.modifier); });
    const bool typed = found != std::end(types);
    Type type = typed ? found->type : wide ? Type::u64 : Type::u32;
    const int words = typed ? found->words : 1;
    if (is_bitwise(update)) type = wide ? Type::b64 : Type::b32;
    if (counts_lanes) {
        if (tries || update != sim::AtomicUpdate::increment || type != Type::u32)
            unsupported("a counting atomic of another type");
        update = sim::AtomicUpdate::add;
    }

    size_t n = 0;
    const bool reduces = in.opcode.starts_with("RED");
    Locator done = no_operand;
    if (!reduces && is_predicate(operand(in, n))) done = predicate_result(operand(in, n++));
    Op op;
    const uint8_t bytes = uint8_t(wide ? 8 : 4 * words);
    op.set(sim::MemoryOperand{.bytes = bytes});
    const Operand* const d = reduces ? nullptr : &operand(in, n++);
    describe(space, reduces ? sim::Access::reduction : sim::Access::atomic, bytes);
    set_address(op, operand(in, n++), space);
    const bool wanted = d && d->number >= 0;
    op.run = engine_.memory.access[sim::row_of(space)][reduces ? 3 : 2];
    if (tries) {
        op.mover = engine_.ops->swap_attempt(bytes);
        op.operand[0] = d ? result(*d, wide ? 2 : 1) : no_operand;
        op.operand[1] = raw(operand(in, n), wide ? 2 : 1);
        op.operand[2] = raw(operand(in, n + 1), wide ? 2 : 1);
        emit(op);
        return;
    }
    op.mover = engine_.ops->atomic(update, type, words);
    if (!op.mover || !op.run) unsupported();
    // The mover of several words reads neighbouring registers, beginning with the given one.
    const auto has_registers = [&](const Operand& o) {
        return o.kind == Kind::reg && o.number >= 0 && o.number + words <= 255;
    };
    if (words > 1 && !(has_registers(operand(in, n)) && (!wanted || has_registers(*d))))
        unsupported("its registers");
    const auto source = [&](const Operand& o) {
        if (!wide) return raw(o, words);
        const Locator whole = scratch();
        machine_to_scratch(MachineOp::join_pair, {whole, raw(o, 2)});
        return whole;
    };
    if (update == sim::AtomicUpdate::compare_and_swap) {
        op.operand[1] = source(operand(in, n));
        op.operand[2] = source(operand(in, n + 1));
    } else {
        op.operand[1] = counts_lanes ? constant(1) : source(operand(in, n));
    }
    if (wanted) op.operand[0] = wide ? scratch() : result(*d, words);
    if (done != no_operand) {
        // This form of the instruction works only on global memory. For lanes whose address is in
        // shared memory, it sets the predicate to false. The code that follows then accesses the
        // shared memory in another way.
        if (in.guard.kind == Kind::predicate) unsupported("a guard");
        const Locator elsewhere = scratch_predicate();
        machine_to_scratch(MachineOp::in_window, {elsewhere, op.operand[5]},
                           sim::AddressWindow{sim::shared_window});
        append_not(done, elsewhere);
        Emitter::emit(op, {done});
    } else {
        emit(op);
    }
    if (wanted && wide) {
        const Locator whole = op.operand[0];
        machine(MachineOp::split_pair, {result(*d, 2), whole});
    }
}

// Translates LDC R1, c[0x0][0x28] or LDC.U8 R2, c[0x0][R4+0x210]
void Lifter::load_constant(const Instruction& in) {
    only(in, {"U8", "S8", "U16", "S16", "64", "128"});
    const int registers = in.has("128") ? 4 : in.has("64") ? 2 : 1;
    const Operand& from = operand(in, 1);
    const Locator d = result(operand(in, 0), registers);
    if (from.kind != Kind::bank) unsupported();
    const bool narrow = in.has("U8") || in.has("S8") || in.has("U16") || in.has("S16");
    if (!narrow && from.base < 0 && from.uniform_base < 0) {
        machine(MachineOp::move, {d, raw(from, registers)}, sim::Registers{uint8_t(registers)});
        return;
    }
    if (registers > 2) unsupported("a wide constant by an index");
    if (uint32_t(from.number) >= sim::MachineCode::banks) unsupported("an unknown constant bank");
    Operand index;
    index.kind = Kind::reg;
    index.uniform = from.base < 0;
    index.number = index.uniform ? from.uniform_base : from.base;
    if (!index.uniform) {  // lanes may read different words, which takes more time
        const Type type = in.has("U8")    ? Type::u8
                          : in.has("S8")  ? Type::s8
                          : in.has("U16") ? Type::u16
                          : in.has("S16") ? Type::s16
                                          : Type::b32;
        Op op;
        const uint8_t bytes = uint8_t(ptx::size_of(type) * uint32_t(registers));
        describe(Space::constant, sim::Access::load, bytes);
        op.operand[5] = raw(index);
        op.set(sim::BankOperand{
            {.offset = from.offset, .bytes = bytes, .form = sim::AddressForm::narrow},
            uint8_t(from.number)});
        for (int n = 0; n < registers; ++n) op.operand[n] = register_after(d, uint32_t(n));
        op.mover = engine_.ops->load(type, 4, registers);
        op.run = engine_.memory.load_bank;
        emit(op);
        return;
    }
    const MachineOp name = in.has("U8")     ? MachineOp::load_bank_u8
                           : in.has("S8")   ? MachineOp::load_bank_s8
                           : in.has("U16")  ? MachineOp::load_bank_u16
                           : in.has("S16")  ? MachineOp::load_bank_s16
                           : registers == 2 ? MachineOp::load_bank_b64
                                            : MachineOp::load_bank_b32;
    machine(name, {d, raw(index)}, sim::ConstantBank{uint8_t(from.number), uint32_t(from.offset)});
}

// LDGSTS.E.BYPASS.128 [R5], desc[UR4][R2.64], P0 copies to shared memory. Lanes whose predicate is
// false read nothing and write zeros. With ZFILL, the lowest bits of the source address are the
// number of bytes that are not read. This is known from the code that computes the address from the
// fourth operand of cp.async.
void Lifter::async_copy(const Instruction& in) {
    only(in, {"E", "BYPASS", "64", "128", "ACCESS", "LTC64B", "LTC128B", "LTC256B", "ZFILL"});
    if (in.operands.size() > 3) unsupported("a further operand");
    Op op, destination;
    sim::AsyncCopyOperand& copy = op.set(sim::AsyncCopyOperand{});
    copy.source.bytes = in.has("128") ? 16 : in.has("64") ? 8 : 4;
    copy.fill_in_address = in.has("ZFILL");
    describe(Space::global, sim::Access::async_copy, copy.source.bytes);
    destination.set(sim::MemoryOperand{});
    set_address(destination, operand(in, 0), Space::shared);
    set_address(op, operand(in, 1), Space::global);
    op.operand[0] = destination.operand[5];
    copy.narrow_destination = destination.memory().form == sim::AddressForm::narrow;
    copy.destination_offset = int32_t(destination.memory().offset);
    if (in.operands.size() == 3) {
        op.operand[2] = predicate(operand(in, 2));
        // In the simulator's operation, a true predicate means that nothing is read.
        copy.negated = true;
    }
    op.run = engine_.memory.async_copy;
    emit(op);
}

// Translates LDGDEPBAR or DEPBAR.LE SB0, 0x1. Scoreboard SB0 counts the groups of asynchronous
// copies. The other scoreboards, as in DEPBAR.LE SB5, 0x1, count results that have not arrived yet.
// In the simulator, results arrive at once, so there is nothing to wait for.
void Lifter::async_group(const Instruction& in) {
    Op op;
    if (in.opcode == "LDGDEPBAR") {
        op.run = engine_.memory.async_commit;
    } else if (in.modifiers.empty()) {  // DEPBAR {5,4,3,2,1,0} waits for all scoreboards
        expect(in, 0, "{5,4,3,2,1,0}");
        op.run = engine_.memory.async_wait;
        op.set(sim::AsyncGroups{.all = true});
    } else {
        only(in, {"LE"});
        if (!in.has("LE")) unsupported();
        const std::string_view board = operand(in, 0).text;
        if (board.size() != 3 || !board.starts_with("SB") || board[2] < '0' || board[2] > '5')
            unsupported("the scoreboard " + std::string(board));
        if (board != "SB0") {
            for (const Instruction& other : code_.instructions)
                if (other.opcode == "LDGDEPBAR") unsupported("the scoreboard beside copies");
            static_cast<void>(operand(in, 1));
            op.run = engine_.ops->machine(MachineOp::nothing);
            append(op);
            return;
        }
        op.run = engine_.memory.async_wait;
        op.set(sim::AsyncGroups{.pending = uint32_t(operand(in, 1).bits)});
    }
    emit(op);
}

void Lifter::fence(const Instruction& in) {
    only(in, {"SC", "ALL", "GPU", "CTA", "SYS", "VC", "VIEW", "ASYNC", "S"});
    Op op;
    op.run = engine_.memory.fence;
    emit(op);
}

// QSPC.E.S P0, RZ, [R2] tests if an address is in shared memory, and QSPC.E.L if it is in local
// memory. QSPC.E.D tests if it is in the shared memory of any block of the cluster.
void Lifter::query_space(const Instruction& in) {
    only(in, {"E", "S", "L", "D"});
    if (in.has("S") + in.has("L") + in.has("D") != 1) unsupported();
    expect(in, 1, "RZ");
    Op address;
    address.set(sim::MemoryOperand{});
    set_address(address, operand(in, 2), Space::generic);
    const uint64_t start = in.has("L") ? sim::local_window : sim::shared_window;
    machine(MachineOp::in_window, {written_predicate(operand(in, 0)), address.operand[5]},
            sim::AddressWindow{start - uint64_t(address.memory().offset),
                               in.has("D") ? sim::cluster_window_bytes : sim::window_bytes});
}

}  // namespace coalesce::sass
