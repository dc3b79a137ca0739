// Decodes instructions on matrices: mma, wmma, ldmatrix, stmatrix, movmatrix.
#include <algorithm>
#include <charconv>
#include <string>
#include <vector>

#include "errors.hpp"
#include "sim/decode/decode.hpp"
#include "sim/decode/matrix_forms.hpp"
#include "sim/program/matrix.hpp"

namespace coalesce::sim {

using ptx::Operand;
using ptx::Space;
using ptx::Type;

static Type register_type(Element e) { return e == Element::f64 ? Type::f64 : Type::b32; }

uint32_t Decoder::architecture() const {
    uint32_t number = 0;
    const size_t digits =
        std::min(module_.target.find_first_of("0123456789"), module_.target.size());
    const char* const first = module_.target.data() + digits;
    std::from_chars(first, module_.target.data() + module_.target.size(), number);
    return number;
}

void Decoder::require_architecture(uint32_t least) {
    if (architecture() >= least) return;
    unsupported(*instruction_,
                "it needs sm_" + std::to_string(least) + "; the PTX is for " + module_.target);
}

void Decoder::take_registers(const Operand& list, Type type, size_t count, bool written,
                             Locator* registers, const char* what) {
    const std::vector<Operand> single{list};
    const std::vector<Operand>& elements =
        list.kind == Operand::Kind::vector ? list.elements : single;
    if (elements.size() != count)
        malformed(std::string("its fragment ") + what + " must have " + std::to_string(count) +
                  " registers; it has " + std::to_string(elements.size()));
    for (size_t n = 0; n < count; ++n)
        registers[n] = written ? destination(elements[n], type) : source(elements[n], type);
}

// Emits an operation before which the scheduler makes all lanes of the warp reconverge.
void Decoder::emit_matrices(const ptx::Instruction& in, const Matrices& matrices, Handler run,
                            const MemoryOperand& memory) {
    Op op;
    op.run = run;
    op.control = Control::synchronize;
    op.operand[5] = constant(all_lanes, 4);
    op.set(MatrixOperand{memory, uint32_t(program_.matrices.size())});
    program_.matrices.push_back(matrices);
    emit(in, op);
}

// Stores the address of a load or store in `x`, and returns its MemoryOperand. `bytes` is the size
// of one access: a row of a matrix, or a register of a lane.
MemoryOperand Decoder::set_matrix_address(Matrices& x, const Operand& address, uint8_t bytes) {
    Op op;
    MemoryOperand& memory = op.set(MemoryOperand{});
    memory.bytes = bytes;
    set_address(op, address, x.space);
    x.address = op.operand[5];
    return memory;
}

bool Decoder::decode_matrix(const ptx::Instruction& in) {
    switch (opcode_) {
        case OpCode::ldmatrix:
        case OpCode::stmatrix:
            return decode_matrix_access(in);
        case OpCode::movmatrix: {
            Modifiers m(in);
            const bool named = m.take("sync") && m.take("aligned") && m.take("m8n8") &&
                               m.take("trans") && m.take("b16");
            if (!named || !m.empty()) return false;
            require_architecture(75);
            Matrices x;
            if (in.operands.size() > 2) malformed("it has too many operands");
            take_registers(in.operands.at(0), Type::b32, 1, true, x.d, "d");
            take_registers(in.operands.at(1), Type::b32, 1, false, x.a, "a");
            emit_matrices(in, x, engine_.ops->matrix(MatrixKind::transpose));
            return true;
        }
        case OpCode::mma:
            return decode_matrix_product(in);
        case OpCode::wmma_mma:
            return decode_fragment_product(in);
        case OpCode::wmma_load:
        case OpCode::wmma_store:
            return decode_fragment_access(in);
        default:
            return false;
    }
}

// Decodes instructions such as ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r0, %r1, %r2, %r3},
// [%r4];
bool Decoder::decode_matrix_access(const ptx::Instruction& in) {
    const bool loads = opcode_ == OpCode::ldmatrix;
    Modifiers m(in);
    Matrices x;
    const bool named = m.take("sync") && m.take("aligned") && m.take("m8n8");
    const Modifier count = m.take_one({"x1", "x2", "x4"});
    x.transposed = m.take("trans");
    x.space = m.take("shared") || m.take("shared::cta") ? Space::shared : Space::generic;
    if (!named || !count || !m.take("b16") || !m.empty()) return false;
    require_architecture(loads ? 75 : 90);
    x.count = count == "x1" ? 1 : count == "x2" ? 2 : 4;
    if (in.operands.size() < 2) malformed("operands are missing");
    if (in.operands.size() > 2) malformed("it has too many operands");
    const Operand& registers = in.operands[loads ? 0 : 1];
    take_registers(registers, Type::b32, x.count, loads, loads ? x.d : x.a, loads ? "d" : "a");
    const MemoryOperand memory =
        set_matrix_address(x, in.operands[loads ? 1 : 0], x.transposed ? 2 : 4);
    describe(Space::shared, loads ? Access::load : Access::store, 16);
    emit_matrices(in, x, engine_.memory.matrices[loads ? 0 : 1], memory);
    return true;
}

bool Decoder::decode_matrix_product(const ptx::Instruction& in) {
    const Form f = form_of(in);
    if (!f.known || f.elements.size() != 4 || f.by_rows.size() != 2) return false;
    const Shape3 s = f.shape;
    const Element d = f.elements[0], a = f.elements[1], b = f.elements[2], c = f.elements[3];
    if (!is_form_of_mma(s, a)) return false;
    const bool in_quads = a == Element::f16 && s.k == 4;
    const bool integers = is_integer(a) && is_integer(b) && bits_of(a) == bits_of(b);
    const bool bits = a == Element::b1 && b == a;
    const bool fp8 = a == Element::e4m3 || a == Element::e5m2;
    const bool fp8_pair = fp8 && (b == Element::e4m3 || b == Element::e5m2);
    if (!integers && !fp8_pair && a != b) return false;
    const bool halves = a == Element::f16 || fp8;
    const bool sums = a == Element::f64  ? d == a && c == a
                      : integers || bits ? d == Element::s32 && c == d
                      : halves           ? (d == Element::f16 || d == Element::f32) &&
                                               (c == d || (in_quads && c == Element::f16))
                                         : d == Element::f32 && c == d;
    if (!sums || (f.saturates && !integers) || bits != (f.and_popc || f.xor_popc)) return false;
    if (!in_quads && (!f.by_rows[0] || f.by_rows[1])) return false;
    require_architecture(least_architecture(s, a, f.and_popc));
    if (in_quads && architecture() < 75)
        unsupported(in, "its arithmetic on compute capability 7.0 is not simulated");

    Matrices x;
    x.m = uint8_t(s.m);
    x.k = uint16_t(s.k);
    x.a_type = a, x.b_type = b, x.c_type = c, x.d_type = d;
    x.saturates = f.saturates;
    x.row_a = f.by_rows[0], x.row_b = f.by_rows[1];
    const auto registers = [](int elements, Element e) {
        return uint8_t(e == Element::f64 ? elements / 32 : elements * bits_of(e) / 32 / 32);
    };
    x.a_count = in_quads ? 2 : registers(s.m * s.k, a);
    x.b_count = in_quads ? 2 : registers(8 * s.k, b);
    x.c_count = in_quads ? (c == Element::f16 ? 4 : 8) : registers(s.m * 8, c);
    x.d_count = in_quads ? (d == Element::f16 ? 4 : 8) : registers(s.m * 8, d);
    if (in.operands.size() < 4) malformed("operands are missing");
    if (in.operands.size() > 4) malformed("it has too many operands");
    take_registers(in.operands[1], register_type(a), x.a_count, false, x.a, "a");
    take_registers(in.operands[2], register_type(b), x.b_count, false, x.b, "b");
    take_registers(in.operands[3], register_type(c), x.c_count, false, x.c, "c");
    take_registers(in.operands[0], register_type(d), x.d_count, true, x.d, "d");
    const MatrixKind kind = choose_arithmetic(x, f, architecture(), in_quads, false);
    emit_matrices(in, x, engine_.ops->matrix(kind));
    return true;
}

bool Decoder::decode_fragment_product(const ptx::Instruction& in) {
    Form f = form_of(in);
    if (!f.known || f.by_rows.size() != 2) return false;
    // If a and b hold halves, the modifiers of the instruction are only the types of d and c.
    if (f.elements.size() == 2)
        f.elements = {f.elements[0], Element::f16, Element::f16, f.elements[1]};
    if (f.elements.size() != 4) return false;
    const Shape3 s = f.shape;
    const Element d = f.elements[0], a = f.elements[1], b = f.elements[2], c = f.elements[3];
    if (!is_form_of_wmma(s, a) || a != b) return false;
    const bool integers = is_integer(a), bits = a == Element::b1;
    const auto is_sum = [&](Element e) {
        if (a == Element::f64) return e == Element::f64;
        if (integers || bits) return e == Element::s32;
        return e == Element::f32 || (a == Element::f16 && e == Element::f16);
    };
    if (!is_sum(d) || !is_sum(c) || bits != (f.and_popc || f.xor_popc)) return false;
    if (f.saturates && !integers && a != Element::f16) return false;
    // For halves, .satfinite replaces NaNs by 0. The simulator does not support this.
    if (f.saturates && !integers) return false;
    require_architecture(a == Element::f16                      ? 70
                         : a == Element::s8 || a == Element::u8 ? 72
                         : bits                                 ? (f.and_popc ? 80 : 75)
                         : integers                             ? 75
                                                                : 80);
    Matrices x;
    const bool is_transposed = s.m == 8 && s.n == 32;
    x.m = uint8_t(is_transposed ? 16 : std::min(16, s.m));
    x.k = uint16_t(s.k);
    x.saturates = f.saturates;
    x.a_type = x.b_type = a, x.c_type = c, x.d_type = d;
    const size_t a_registers = fragment_registers(s, 'a', a),
                 b_registers = fragment_registers(s, 'b', a);
    const size_t c_registers = fragment_registers(s, 'c', c),
                 d_registers = fragment_registers(s, 'd', d);
    if (in.operands.size() < 4) malformed("operands are missing");
    if (in.operands.size() > 4) malformed("it has too many operands");
    // The shape m8n32 is computed as the transposed product. Then a and b exchange their roles.
    take_registers(in.operands[1], register_type(a), a_registers, false, is_transposed ? x.b : x.a,
                   "a");
    take_registers(in.operands[2], register_type(a), b_registers, false, is_transposed ? x.a : x.b,
                   "b");
    take_registers(in.operands[3], register_type(c), c_registers, false, x.c, "c");
    take_registers(in.operands[0], register_type(d), d_registers, true, x.d, "d");
    const auto of_tile = [&](int elements) {
        return uint8_t(
            std::max(1, a == Element::f64 ? elements / 32 : elements * bits_of(a) / 32 / 32));
    };
    x.a_count = of_tile(x.m * s.k);
    x.b_count = of_tile(8 * s.k);
    x.tiles = uint8_t(s.m * s.n / (x.m * 8));
    x.c_count = uint8_t(c_registers / x.tiles), x.d_count = uint8_t(d_registers / x.tiles);
    x.c_step = x.c_count, x.d_step = x.d_count;
    if (x.tiles == 2 && s.m == 16)
        x.b_step = x.b_count;
    else if (x.tiles == 2)
        x.a_step = x.a_count;
    const MatrixKind kind = choose_arithmetic(x, f, architecture(), false, true);
    emit_matrices(in, x, engine_.ops->matrix(kind));
    return true;
}

// Decodes instructions such as wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {%r0, ...},
// [%rd0], %r8;
bool Decoder::decode_fragment_access(const ptx::Instruction& in) {
    const bool loads = opcode_ == OpCode::wmma_load;
    const Form f = form_of(in);
    if (!f.known || f.elements.size() != 1 || f.by_rows.size() != 1 || !f.operand) return false;
    const bool sums = f.operand == 'c' || f.operand == 'd';
    const Element e = f.elements[0];
    const Shape3 s = f.shape;
    const auto shaped_for = [&](std::initializer_list<Element> factors) {
        return std::any_of(factors.begin(), factors.end(),
                           [&](Element factor) { return is_form_of_wmma(s, factor); });
    };
    using enum Element;
    const bool fits = !sums      ? shaped_for({e})
                      : e == f16 ? shaped_for({f16})
                      : e == f32 ? shaped_for({f16, bf16, tf32})
                      : e == f64 ? shaped_for({f64})
                      : e == s32 ? shaped_for({s8, s4, b1})
                                 : false;
    if (!fits || (loads ? f.operand == 'd' : f.operand != 'd')) return false;
    const bool packed = bits_of(e) < 8;
    if (packed && f.by_rows[0] != (f.operand == 'a')) return false;
    Matrices x;
    x.operand = sums ? 'c' : f.operand;
    x.a_type = e;
    x.m = uint8_t(s.m), x.n = uint8_t(s.n), x.k = uint16_t(s.k);
    x.by_rows = f.by_rows[0];
    x.space = f.space;
    const size_t count = fragment_registers(s, x.operand, e);
    const size_t address = loads ? 1 : 0;
    if (in.operands.size() < 2) malformed("operands are missing");
    if (in.operands.size() > 3) malformed("it has too many operands");
    take_registers(in.operands[1 - address], register_type(e), count, loads, loads ? x.d : x.a,
                   loads ? "d" : "a");
    (loads ? x.d_count : x.a_count) = uint8_t(count);
    const uint8_t bytes = e == f64 ? 8 : 4;
    const int least = bits_of(e) == 16 ? 2 : bits_of(e) == 8 ? 1 : bytes;
    const MemoryOperand memory = set_matrix_address(x, in.operands[address], uint8_t(least));
    if (in.operands.size() == 3) x.stride = source(in.operands[2], Type::u32);
    describe(x.space, loads ? Access::load : Access::store, bytes);
    emit_matrices(in, x, engine_.memory.fragments[loads ? 0 : 1], memory);
    return true;
}

}  // namespace coalesce::sim
