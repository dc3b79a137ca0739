// Decodes loads, stores, atomics and asynchronous copies.
#include "sim/decode/decode.hpp"

#include <algorithm>

#include "errors.hpp"
#include "sim/warp/memory.hpp"

namespace coalesce::sim {

using ptx::Operand;
using ptx::Space;
using ptx::Type;

namespace {

Space take_space(Modifiers& m) {
    if (m.take("global")) return Space::global;
    if (m.take("shared") || m.take("shared::cta")) return Space::shared;
    if (m.take("local")) return Space::local;
    if (m.take("const")) return Space::constant;
    if (m.take("param") || m.take("param::entry") || m.take("param::func")) return Space::param;
    return Space::generic;
}

// Returns the number of elements that each lane moves: 4 for .v4.
int take_elements(Modifiers& m) {
    const Modifier vector = m.take_one({"v2", "v4", "v8"});
    return vector == "v2" ? 2 : vector == "v4" ? 4 : vector == "v8" ? 8 : 1;
}

bool take_update(Modifiers& m, AtomicUpdate& update) {
    using enum AtomicUpdate;
    static constexpr struct {
        Modifier word;
        AtomicUpdate update;
    } all[] = {{"add", add},       {"min", minimum},          {"max", maximum},
               {"exch", exchange}, {"cas", compare_and_swap}, {"and", bit_and},
               {"or", bit_or},     {"xor", bit_xor},          {"inc", increment},
               {"dec", decrement}};
    for (const auto& one : all) {
        if (!m.take(one.word)) continue;
        update = one.update;
        return true;
    }
    return false;
}

// Ignores the modifiers for memory order, scope and caches. On the simulator, they have no effect,
// because every write is immediately visible to all threads (sequential consistency).
void drop_hints(Modifiers& m) {
    for (const Modifier hint : std::initializer_list<Modifier>{
             "weak", "volatile", "relaxed", "acquire", "release", "acq_rel", "mmio",
             "cta",  "cluster",  "gpu",     "sys",     "ca",      "cg",      "cs",
             "lu",   "cv",       "wb",      "wt",      "nc",      "unified"}) {
        m.take(hint);
    }
    m.drop_prefix("L1::");
    m.drop_prefix("L2::");
}

}  // namespace

bool Decoder::decode_memory(const ptx::Instruction& in) {
    switch (opcode_) {
        case OpCode::ld:
        case OpCode::ldu:
        case OpCode::st:
            return decode_load_store(in);
        case OpCode::atom:
        case OpCode::red:
            return decode_atomic(in);
        case OpCode::cp_async:
        case OpCode::cp_async_commit:
        case OpCode::cp_async_wait:
        case OpCode::cp_async_wait_all:
            return decode_async_copy(in);
        case OpCode::membar:
        case OpCode::fence_: {
            Op op;
            op.run = engine_.memory.fence;
            emit(in, op);
            return true;
        }
        default:
            return false;
    }
}

// Returns the state space of a variable or parameter, or `reg` for any other name.
Space Decoder::space_of(const Operand& symbol) const {
    const ptx::Function& f = *current_->function;
    if (symbol.variable >= 0) return f.variables[size_t(symbol.variable)].space;
    if (find_shared(symbol.name)) return Space::shared;
    for (const auto* list : {&f.parameters, &f.results}) {
        for (const ptx::Parameter& p : *list) {
            if (p.name == symbol.name) return p.space;
        }
    }
    const ptx::Variable* v = module_.find_variable(symbol.name);
    return v ? v->space : Space::reg;
}

void Decoder::set_address(Op& op, const Operand& address, Space space) {
    if (address.kind != Operand::Kind::address) malformed("an address [...] is missing");
    if (!address.elements.empty())
        malformed("an address must be a register or a name, with or without an offset");
    const uint64_t before = space == Space::shared ? program_.reserved_shared : 0;
    MemoryOperand& memory = op.memory();
    memory.offset = int64_t(uint64_t(address.offset) - before);
    if (address.reg >= 0) {
        op.operand[5] = address_slot(address.reg);
        const Type type = current_->function->registers[size_t(address.reg)].type;
        memory.form = ptx::size_of(type) == 4 ? AddressForm::narrow : AddressForm::wide;
        return;
    }
    if (!address.name.empty()) {
        const Space named = space_of(address);
        const bool reached = named == space || (space == Space::generic && named != Space::param);
        if (!reached)
            malformed("`" + std::string(address.name) + "` is not in the state space that the " +
                      "instruction names");
        uint32_t offset = 0;
        if (find_local(address, offset)) {
            memory.frame_relative = true;
            memory.offset = int64_t(uint64_t(memory.offset) + offset);
        } else {
            Operand symbol = address;
            symbol.offset = 0;
            uint64_t at = uint64_t(memory.offset) + address_of_symbol(symbol);
            // A generic access may name a variable in shared memory. Then it needs the generic
            // address of this variable.
            if (space == Space::generic && find_shared(address.name)) at += shared_window;
            memory.offset = int64_t(at);
        }
    }
    op.operand[5] = constant(0, 8);
}

// Converts an address in shared memory that is an operand of an asynchronous copy. The op of the
// copy has two addresses, but its operand 5 and its MemoryOperand have room for the address in
// global memory only. So this function returns another op, which contains only the address in
// shared memory. The caller copies operand 5 and the offset of this op to other places in the op of
// the copy.
Op Decoder::shared_end(const Operand& address) {
    Op end;
    const MemoryOperand& memory = end.set(MemoryOperand{});
    set_address(end, address, Space::shared);
    if (memory.offset != int32_t(memory.offset))
        malformed("the shared address's offset has more than 32 bits");
    return end;
}

// Returns the parameter or variable that an address names, or null. Its bytes may be next to other
// data: for a kernel, next to other parameters; for a function and for the arguments of calls, in
// the function's frame (its part of local memory). Therefore an access through the name of a
// parameter must stay within the parameter.
const ptx::Variable* Decoder::named_parameter(const Operand& address) const {
    const ptx::Function& f = *current_->function;
    if (address.variable >= 0) return &f.variables[size_t(address.variable)];
    for (const auto* list : {&f.parameters, &f.results}) {
        for (const ptx::Parameter& p : *list) {
            if (p.name == address.name) return &p;
        }
    }
    return nullptr;
}

// Stores the space, kind and size of the current instruction's access for reports
// (InstructionInfo).
void Decoder::describe(Space space, Access access, uint8_t bytes) {
    InstructionInfo& info = program_.instructions.back();
    info.space = space;
    info.access = access;
    info.bytes = bytes;
}

// Sets operands 0 to 3 of a load or store: the registers that a load writes, or the registers and
// immediate values that a store reads. Returns the width of one such register in bytes. The
// registers may be wider than the type, but all of them must have the same width.
uint32_t Decoder::set_values(Op& op, const Operand& data, Type type, int elements, bool is_load) {
    const std::vector<Operand> single{data};
    const std::vector<Operand>& values =
        data.kind == Operand::Kind::vector ? data.elements : single;
    if (int(values.size()) != elements)
        malformed("it moves " + std::to_string(elements) + " elements but lists " +
                  std::to_string(values.size()));
    uint32_t width = 0;
    for (const Operand& v : values) {
        const uint32_t bytes = register_bytes(v);
        if (width != 0 && bytes != 0 && bytes != width)
            malformed("the vector's registers have different widths");
        width = std::max(width, bytes);
    }
    // No element is a register: all are immediate values or sinks (_).
    if (width == 0) width = std::max(2u, ptx::size_of(type));
    const Type as_wide = width == 8 ? Type::b64 : width == 4 ? Type::b32 : Type::b16;
    for (int n = 0; n < elements; ++n) {
        const Operand& v = values[size_t(n)];
        if (is_load)
            op.operand[n] = destination(v, type);
        else if (v.kind == Operand::Kind::reg || width == ptx::size_of(type))
            op.operand[n] = source(v, type);
        else  // an immediate has the same width as the other registers
            op.operand[n] = v.kind == Operand::Kind::f32 || v.kind == Operand::Kind::f64
                                ? constant(immediate_bits(v, type), width)
                                : source(v, as_wide);
    }
    return width;
}

bool Decoder::decode_load_store(const ptx::Instruction& in) {
    const bool is_load = opcode_ != OpCode::st;
    Modifiers m(in);
    // At run time, the address is converted to a generic address.
    const bool in_cluster = m.take("shared::cluster");
    Space space = take_space(m);
    const bool hinted = m.has("L2::cache_hint");
    drop_hints(m);
    const int elements = take_elements(m);
    const Type type = m.take_type();
    if (!m.empty() || type == Type::none) return false;
    if (in.operands.size() < 2) malformed("operands are missing");
    const Operand& address = in.operands[is_load ? 1 : 0];
    const Operand& data = in.operands[is_load ? 0 : 1];
    if (type == Type::pred) malformed("predicates cannot be loaded or stored");
    if (in.operands.size() > (hinted ? 3 : 2)) malformed("it has too many operands");

    Op op;
    if (ptx::size_of(type) > 8 || ptx::size_of(type) * uint32_t(elements) > 16) return false;
    MemoryOperand& memory = op.set(MemoryOperand{});
    memory.bytes = uint8_t(ptx::size_of(type) * uint32_t(elements));
    memory.in_cluster = in_cluster;
    if (space != Space::param)
        describe(space, is_load ? Access::load : Access::store, memory.bytes);
    set_address(op, address, space);

    const uint32_t width = set_values(op, data, type, elements, is_load);
    op.mover = (is_load ? engine_.ops->load : engine_.ops->store)(type, width, elements);
    if (!op.mover) return false;

    // A kernel's .param space holds the arguments of the launch. The .param space of other
    // functions, and of all calls, is in the frame.
    if (space == Space::param) {
        const uint64_t at = uint64_t(memory.offset), end = program_.parameter_bytes;
        const ptx::Variable* const named = named_parameter(address);
        const uint64_t size = named ? named->bytes() : 0, offset = uint64_t(address.offset);
        const bool outside = named && (offset > size || memory.bytes > size - offset);
        memory.other_parameter = outside;
        if (memory.frame_relative) {
            if (outside)
                malformed(std::to_string(memory.bytes) + " bytes at offset " +
                          std::to_string(address.offset) + " are not within `" + named->name +
                          "`, which has " + std::to_string(size) + " bytes");
            space = Space::local;
        } else if (function_ != 0) {
            // This function is not a kernel. Its parameters are in the frame, even if the address
            // is in a register.
            space = Space::local;
        } else if (is_load && address.reg < 0 && !outside && at <= end &&
                   memory.bytes <= end - at) {
            op.run = engine_.memory.load_parameter;
            emit(in, op);
            return true;
        }
    }
    if (memory.frame_relative && space == Space::generic) return false;
    const Space of_words = memory.form == AddressForm::narrow ? Space::shared : Space::global;
    const bool word = elements == 1 && width == 4 && ptx::size_of(type) == 4 && space == of_words;
    op.run = word ? engine_.memory.words[row_of(space)][is_load ? 0 : 1][0]
                  : engine_.memory.access[row_of(space)][is_load ? 0 : 1];
    if (!op.run) return false;
    // Only plain runs of PTX have the families' changes (Decoder::decode_function).
    if (address.reg >= 0 && engine_.memory.multiply_chain)
        memory.family = current_->families.of_register[size_t(address.reg)];
    emit(in, op);
    return true;
}

bool Decoder::decode_atomic(const ptx::Instruction& in) {
    const bool returns = opcode_ == OpCode::atom;
    Modifiers m(in);
    // At run time, the address is converted to a generic address.
    const bool in_cluster = m.take("shared::cluster");
    const Space space = take_space(m);
    const bool hinted = m.has("L2::cache_hint");
    drop_hints(m);
    m.take("noftz");
    AtomicUpdate update{};
    if (!take_update(m, update)) return false;
    const bool swaps = update == AtomicUpdate::compare_and_swap;
    const int elements = take_elements(m);
    Type type = m.take_type();
    if (!m.empty() || type == Type::none) return false;
    if (is_bitwise(update)) {
        type = ptx::size_of(type) == 2   ? Type::b16
               : ptx::size_of(type) == 4 ? Type::b32
                                         : Type::b64;
    }
    const size_t first = returns ? 1 : 0, expected = first + (swaps ? 3 : 2);
    if (in.operands.size() < expected) malformed("operands are missing");
    if (in.operands.size() > expected + (hinted ? 1 : 0)) malformed("it has too many operands");
    Op op;
    MemoryOperand& memory = op.set(MemoryOperand{});
    memory.bytes = uint8_t(ptx::size_of(type));
    memory.in_cluster = in_cluster;
    op.mover = engine_.ops->atomic(update, type, 1);
    op.run = engine_.memory.access[row_of(space)][returns ? 2 : 3];
    if (!op.mover || !op.run) return false;
    describe(space, returns ? Access::atomic : Access::reduction, memory.bytes);
    set_address(op, in.operands[first], space);
    if (swaps) op.operand[2] = source(in.operands[first + 2], type);
    if (elements == 1) {
        if (returns) op.operand[0] = destination(in.operands[0], type);
        op.operand[1] = source(in.operands[first + 1], type);
        emit(in, op);
        return true;
    }
    // A vector atomic is executed element by element, because it is atomic only for each element
    // (PTX ISA, "atom").
    const Operand& values = in.operands[first + 1];
    const auto elements_of = [&](const Operand& o) {
        return o.kind == Operand::Kind::vector ? o.elements.size() : 0;
    };
    const auto fits = [&](const Operand& o) { return elements_of(o) == size_t(elements); };
    if (!fits(values) || (returns && !fits(in.operands[0])))
        malformed(
            "the number of elements of a vector differs from the one in the instruction's "
            "modifiers");
    for (size_t n = 0; n < size_t(elements); ++n) {
        if (returns) op.operand[0] = destination(in.operands[0].elements[n], type);
        op.operand[1] = source(values.elements[n], type);
        emit(in, op);
        memory.offset = int64_t(uint64_t(memory.offset) + memory.bytes);
    }
    return true;
}

bool Decoder::decode_async_copy(const ptx::Instruction& in) {
    Modifiers m(in);
    if (!m.take("async")) return false;
    Op op;
    if (m.take("commit_group")) {
        op.run = engine_.memory.async_commit;
    } else if (m.take("wait_all")) {
        op.run = engine_.memory.async_wait;
        op.set(AsyncGroups{.all = true});
    } else if (m.take("wait_group")) {
        if (in.operands.at(0).kind != Operand::Kind::integer || in.operands[0].bits >> 32)
            malformed("the number of groups must be a constant that is not negative");
        op.run = engine_.memory.async_wait;
        op.set(AsyncGroups{.pending = uint32_t(in.operands[0].bits)});
    } else {
        drop_hints(m);
        if (!(m.take("shared") || m.take("shared::cta")) || !m.take("global") || !m.empty())
            return false;
        if (in.operands.size() < 3 || in.operands[2].kind != Operand::Kind::integer) return false;
        if (const uint64_t n = in.operands[2].bits; n != 4 && n != 8 && n != 16) return false;
        AsyncCopyOperand& copy = op.set(AsyncCopyOperand{});
        copy.source.bytes = uint8_t(in.operands[2].bits);
        const Op destination = shared_end(in.operands[0]);
        set_address(op, in.operands[1], Space::global);
        op.operand[0] = destination.operand[5];
        copy.narrow_destination = destination.memory().form == AddressForm::narrow;
        copy.destination_offset = int32_t(destination.memory().offset);
        if (in.operands.size() > 3) {
            // The fourth operand is the number of bytes to read, or a predicate that is true in
            // lanes that read nothing.
            const Operand& size = in.operands[3];
            if (size.kind == Operand::Kind::reg && register_bytes(size) == 0) {
                op.operand[2] = slot(size.reg, Type::pred);
                copy.negated = size.negated;
            } else {
                op.operand[1] = source(size, Type::u32);
            }
        }
        describe(Space::global, Access::async_copy, copy.source.bytes);
        op.run = engine_.memory.async_copy;
    }
    if (!m.empty()) return false;
    emit(in, op);
    return true;
}

}  // namespace coalesce::sim
