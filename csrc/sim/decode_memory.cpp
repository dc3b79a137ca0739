// Decoding of loads, stores, atomics and asynchronous copies.
#include "sim/decode.hpp"

#include <algorithm>

#include "errors.hpp"
#include "sim/memory.hpp"

namespace coalesce::sim {

using ptx::Operand;
using ptx::Space;
using ptx::Type;

namespace {

// The row of MemoryHandlers::access.
int row_of(Space space) {
    switch (space) {
        case Space::global:
            return 0;
        case Space::constant:
            return 5;
        case Space::shared:
            return 1;
        case Space::local:
            return 2;
        case Space::param:
            return 3;
        default:
            return 4;
    }
}

Space take_space(Modifiers& m) {
    if (m.take("global")) return Space::global;
    if (m.take("shared") || m.take("shared::cta")) return Space::shared;
    if (m.take("local")) return Space::local;
    if (m.take("const")) return Space::constant;
    if (m.take("param") || m.take("param::entry") || m.take("param::func")) return Space::param;
    return Space::generic;
}

// Orders, scopes and cache hints change nothing here: the simulator is sequentially consistent.
void drop_hints(Modifiers& m) {
    for (const char* hint : {"weak", "volatile", "relaxed", "acquire", "release", "acq_rel", "mmio",
                             "cta",  "cluster",  "gpu",     "sys",     "ca",      "cg",      "cs",
                             "lu",   "cv",       "wb",      "wt",      "nc",      "unified"}) {
        m.take(hint);
    }
    m.drop_prefix("L1::");
    m.drop_prefix("L2::");
}

}  // namespace

bool Decoder::decode_memory(const ptx::Instruction& in) {
    const std::string_view op = in.opcode;
    if (op == "ld" || op == "ldu" || op == "st") return decode_load_store(in);
    if (op == "atom" || op == "red") return decode_atomic(in);
    if (op == "cp") return decode_async_copy(in);
    if (op == "membar" || op == "fence") {
        Op fence;
        fence.run = engine_.memory.fence;
        emit(in, fence);
        return true;
    }
    return false;
}

void Decoder::set_address(Op& op, const Operand& address, Space space) {
    if (address.kind != Operand::Kind::address) throw LaunchError("an address operand is missing");
    op.immediate = address.offset;
    if (address.reg >= 0) {
        op.operand[5] = slot(address.reg);
        op.narrow_address =
            ptx::size_of(scope_->function->registers[size_t(address.reg)].type) == 4;
        return;
    }
    if (!address.name.empty()) {
        uint32_t offset = 0;
        if (find_local(address, offset)) {
            op.frame_relative = true;
            op.immediate += offset;
        } else {
            Operand symbol = address;
            symbol.offset = 0;
            op.immediate += int64_t(address_of_symbol(symbol));
            // A generic access by name is to the variable's own space.
            if (space == Space::generic && find_shared(address.name))
                op.immediate += int64_t(shared_window);
        }
    }
    op.operand[5] = constant(0, 8);
}

// What reports say of the instruction being decoded.
void Decoder::describe(Space space, Access access, uint8_t bytes) {
    InstructionInfo& info = program_.instructions.back();
    info.space = space;
    info.access = access;
    info.bytes = bytes;
}

bool Decoder::decode_load_store(const ptx::Instruction& in) {
    const bool is_load = in.opcode != "st";
    Modifiers m(in);
    Space space = take_space(m);
    drop_hints(m);
    const std::string_view vector = m.take_one({"v2", "v4", "v8"});
    const Type type = m.take_type();
    if (!m.empty() || type == Type::none || in.operands.size() < 2) return false;
    const int elements = vector.empty() ? 1 : vector[1] - '0';
    const Operand& address = in.operands[is_load ? 1 : 0];
    const Operand& data = in.operands[is_load ? 0 : 1];

    Op op;
    op.bytes = uint8_t(ptx::size_of(type) * uint32_t(elements));
    if (op.bytes > 16) return false;
    if (space != Space::param) describe(space, is_load ? Access::load : Access::store, op.bytes);
    set_address(op, address, space);

    const std::vector<Operand> single{data};
    const std::vector<Operand>& values =
        data.kind == Operand::Kind::vector ? data.elements : single;
    if (int(values.size()) != elements) return false;
    uint32_t width = 0;
    for (int n = 0; n < elements; ++n) {
        const Operand& v = values[size_t(n)];
        op.operand[n] = is_load ? destination(v, type) : source(v, type);
        width = std::max(width, register_bytes(v));
    }
    if (width == 0) width = std::max(2u, ptx::size_of(type));  // immediates, or all sinks
    if (!is_load) {
        // Immediates among registers were made as wide as the type; bring them to the registers'.
        for (int n = 0; n < elements; ++n) {
            const Operand& v = values[size_t(n)];
            if (v.kind == Operand::Kind::integer) op.operand[n] = constant(v.bits, width);
        }
    }
    op.mover =
        (is_load ? engine_.ops->load_mover : engine_.ops->store_mover)(type, width, elements);
    if (!op.mover) return false;

    // The .param space of a kernel holds the launch's arguments; that of a function, and of the
    // calls a function makes, lies in the frame.
    if (space == Space::param) {
        if (op.frame_relative) {
            space = Space::local;
        } else if (is_load && address.reg < 0) {
            op.run = engine_.memory.load_parameter;
            emit(in, op);
            return true;
        }
    }
    if (op.frame_relative && space == Space::generic) return false;
    const bool word = elements == 1 && width == 4 && ptx::size_of(type) == 4 &&
                      (op.narrow_address ? space == Space::shared : space == Space::global);
    op.run = word ? engine_.memory.words[row_of(space)][is_load ? 0 : 1][0]
                  : engine_.memory.access[row_of(space)][is_load ? 0 : 1];
    if (!op.run) return false;
    emit(in, op);
    return true;
}

bool Decoder::decode_atomic(const ptx::Instruction& in) {
    const bool returns = in.opcode == "atom";
    Modifiers m(in);
    const Space space = take_space(m);
    drop_hints(m);
    m.take("noftz");
    const std::string_view operation =
        m.take_one({"add", "min", "max", "exch", "cas", "and", "or", "xor", "inc", "dec"});
    const std::string_view vector = m.take_one({"v2", "v4", "v8"});
    Type type = m.take_type();
    if (!m.empty() || type == Type::none) return false;
    if (operation == "exch" || operation == "cas" || operation == "and" || operation == "or" ||
        operation == "xor") {
        type = ptx::size_of(type) == 2   ? Type::b16
               : ptx::size_of(type) == 4 ? Type::b32
                                         : Type::b64;
    }
    const size_t first = returns ? 1 : 0;
    if (in.operands.size() < first + (operation == "cas" ? 3 : 2)) return false;
    Op op;
    op.bytes = uint8_t(ptx::size_of(type));
    op.mover = engine_.ops->atomic_mover(operation, type);
    op.run = engine_.memory.access[row_of(space)][returns ? 2 : 3];
    if (!op.mover || !op.run) return false;
    describe(space, returns ? Access::atomic : Access::reduction, op.bytes);
    set_address(op, in.operands[first], space);
    if (operation == "cas") op.operand[2] = source(in.operands[first + 2], type);
    if (vector.empty()) {
        if (returns) op.operand[0] = destination(in.operands[0], type);
        op.operand[1] = source(in.operands[first + 1], type);
        emit(in, op);
        return true;
    }
    // A vector is atomic element by element (PTX ISA, "atom"), and so is executed.
    const size_t elements = size_t(vector[1] - '0');
    const Operand& values = in.operands[first + 1];
    const auto elements_of = [&](const Operand& o) {
        return o.kind == Operand::Kind::vector ? o.elements.size() : 0;
    };
    if (elements_of(values) != elements || (returns && elements_of(in.operands[0]) != elements))
        return false;
    for (size_t n = 0; n < elements; ++n) {
        if (returns) op.operand[0] = destination(in.operands[0].elements[n], type);
        op.operand[1] = source(values.elements[n], type);
        emit(in, op);
        op.immediate += op.bytes;
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
        op.immediate = -1;
    } else if (m.take("wait_group")) {
        op.run = engine_.memory.async_wait;
        op.immediate = int64_t(in.operands.at(0).bits);
    } else {
        drop_hints(m);
        if (!(m.take("shared") || m.take("shared::cta")) || !m.take("global") || !m.empty())
            return false;
        if (in.operands.size() < 3 || in.operands[2].kind != Operand::Kind::integer) return false;
        if (const uint64_t n = in.operands[2].bits; n != 4 && n != 8 && n != 16) return false;
        op.bytes = uint8_t(in.operands[2].bits);
        // The shared address goes with its own offset in op.target, the global one as usual.
        Op destination;
        set_address(destination, in.operands[0], Space::shared);
        set_address(op, in.operands[1], Space::global);
        op.operand[0] = destination.operand[5];
        op.extra = destination.narrow_address;
        op.target = uint32_t(destination.immediate);
        if (in.operands.size() > 3) {
            // The size of the source, or a predicate to ignore it.
            const Operand& size = in.operands[3];
            if (size.kind == Operand::Kind::reg && register_bytes(size) == 0) {
                op.operand[2] = slot(size.reg);
                if (size.negated) op.extra |= 2;
            } else {
                op.operand[1] = source(size, Type::u32);
            }
        }
        describe(Space::global, Access::async_copy, op.bytes);
        op.run = engine_.memory.async_copy;
    }
    if (!m.empty()) return false;
    emit(in, op);
    return true;
}

}  // namespace coalesce::sim
