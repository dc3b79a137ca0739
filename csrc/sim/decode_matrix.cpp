// Decodes instructions on matrices: mma, wmma, ldmatrix, stmatrix, movmatrix.
#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <vector>

#include "errors.hpp"
#include "sim/decode.hpp"
#include "sim/matrix.hpp"

namespace coalesce::sim {

using ptx::Operand;
using ptx::Space;
using ptx::Type;

bool element_named(std::string_view name, Element& element) {
    using enum Element;
    static constexpr struct {
        std::string_view name;
        Element element;
    } all[] = {{"f16", f16},   {"bf16", bf16}, {"tf32", tf32}, {"f32", f32}, {"f64", f64},
               {"e4m3", e4m3}, {"e5m2", e5m2}, {"s8", s8},     {"u8", u8},   {"s4", s4},
               {"u4", u4},     {"b1", b1},     {"s32", s32}};
    for (const auto& one : all) {
        if (one.name != name) continue;
        element = one.element;
        return true;
    }
    return false;
}

namespace {

struct Shape3 {
    int m = 0, n = 0, k = 0;
    bool operator==(const Shape3&) const = default;
};

// Reads a shape such as "m16n8k16".
bool shape_named(std::string_view text, Shape3& shape) {
    int* const parts[] = {&shape.m, &shape.n, &shape.k};
    for (int i = 0; i < 3; ++i) {
        if (text.empty() || text[0] != "mnk"[i]) return false;
        text.remove_prefix(1);
        const auto [end, error] =
            std::from_chars(text.data(), text.data() + text.size(), *parts[i]);
        if (error != std::errc{}) return false;
        text.remove_prefix(size_t(end - text.data()));
    }
    return text.empty();
}

// The modifiers that an instruction on matrices may have.
struct Form {
    Shape3 shape;
    std::vector<Element> elements;  // in the order of the modifiers
    std::vector<bool> by_rows;  // true for .row and false for .col, in the order of the modifiers
    bool saturates = false, known = true;
    bool and_popc = false, xor_popc = false;
    Space space = Space::generic;
    char operand = 0;  // the operand that wmma.load or wmma.store accesses
};

Form form_of(const ptx::Instruction& in) {
    Form f;
    for (const std::string_view m : in.modifiers) {
        Element element{};
        if (m == "row" || m == "col")
            f.by_rows.push_back(m == "row");
        else if (element_named(m, element))
            f.elements.push_back(element);
        else if (m == "satfinite")
            f.saturates = true;
        else if (m == "and" || m == "xor")
            (m == "and" ? f.and_popc : f.xor_popc) = true;
        else if (m == "global" || m == "shared" || m == "shared::cta")
            f.space = m == "global" ? Space::global : Space::shared;
        else if (m == "a" || m == "b" || m == "c" || m == "d")
            f.operand = m[0];
        else if (m != "sync" && m != "aligned" && m != "popc" && m != "load" && m != "store" &&
                 m != "mma" && m != "rn" && !shape_named(m, f.shape))
            f.known = false;
    }
    return f;
}

bool is_integer(Element e) {
    return e == Element::s8 || e == Element::u8 || e == Element::s4 || e == Element::u4;
}

// Sets how tensor cores add and round products of floating-point numbers (matrix_arithmetic.hpp).
// This depends on the compute capability (`architecture`).
void choose_rounding(Matrices& x, uint32_t architecture, bool of_fragments) {
    const bool fp8 = x.a_type == Element::e4m3 || x.a_type == Element::e5m2;
    x.step = uint8_t(x.k);
    x.fraction_bits = 25;
    if (fp8 && (architecture == 89 || architecture >= 120)) {
        if (architecture >= 120) return;
        x.fraction_bits = x.result_bits = 13;
        x.step = 16;
        return;
    }
    if (fp8) {
        x.arithmetic = Arithmetic::in_halves;
        return;
    }
    const bool tf32 = x.a_type == Element::tf32;
    if (tf32 && of_fragments) x.step = 4;  // ptxas does the same
    if (architecture >= 90) return;
    x.fraction_bits = architecture >= 75 ? 24 : 23;
    x.step = std::min<uint8_t>(x.step, architecture < 75 || tf32 ? 4 : 8);
}

// Sets how a product is computed, and returns the kind of handler for it. `in_quads` is true for a
// product of halves with the shape m8n8k4. `of_fragments` is true for wmma.mma.
MatrixKind choose_arithmetic(Matrices& x, const Form& f, uint32_t architecture, bool in_quads,
                             bool of_fragments) {
    if (in_quads) return MatrixKind::in_floats;
    if (x.a_type == Element::f64) return MatrixKind::doubles;
    if (is_integer(x.a_type))
        x.arithmetic = Arithmetic::integers;
    else if (x.a_type == Element::b1)
        x.arithmetic = f.xor_popc ? Arithmetic::bits_xor : Arithmetic::bits_and;
    else
        choose_rounding(x, architecture, of_fragments);
    return MatrixKind::product;
}

// Returns the lowest compute capability that supports a form of mma (PTX ISA, "mma").
uint32_t least_architecture(const Shape3& s, Element a, bool and_popc) {
    switch (a) {
        case Element::f16:
            return s.k == 4 ? 70 : s.k == 8 ? 75 : 80;
        case Element::f64:
            return s.m == 8 ? 80 : 90;
        case Element::e4m3:
        case Element::e5m2:
            return 89;
        case Element::bf16:
        case Element::tf32:
            return 80;
        case Element::b1:
            return s.m == 8 && !and_popc ? 75 : 80;
        default:
            return s.m == 8 ? 75 : 80;
    }
}

bool is_form_of_mma(const Shape3& s, Element a) {
    const auto one_of = [&](std::initializer_list<Shape3> shapes) {
        return std::find(shapes.begin(), shapes.end(), s) != shapes.end();
    };
    switch (a) {
        case Element::f16:
            return one_of({{8, 8, 4}, {16, 8, 8}, {16, 8, 16}});
        case Element::bf16:
            return one_of({{16, 8, 8}, {16, 8, 16}});
        case Element::tf32:
            return one_of({{16, 8, 4}, {16, 8, 8}});
        case Element::f64:
            return one_of({{8, 8, 4}, {16, 8, 4}, {16, 8, 8}, {16, 8, 16}});
        case Element::e4m3:
        case Element::e5m2:
            return one_of({{16, 8, 16}, {16, 8, 32}});
        case Element::s8:
        case Element::u8:
            return one_of({{8, 8, 16}, {16, 8, 16}, {16, 8, 32}});
        case Element::s4:
        case Element::u4:
            return one_of({{8, 8, 32}, {16, 8, 32}, {16, 8, 64}});
        case Element::b1:
            return one_of({{8, 8, 128}, {16, 8, 128}, {16, 8, 256}});
        default:
            return false;
    }
}

bool is_form_of_wmma(const Shape3& s, Element a) {
    const bool of_16 = s == Shape3{16, 16, 16} || s == Shape3{32, 8, 16} || s == Shape3{8, 32, 16};
    switch (a) {
        case Element::f16:
        case Element::bf16:
        case Element::s8:
        case Element::u8:
            return of_16;
        case Element::tf32:
            return s == Shape3{16, 16, 8};
        case Element::f64:
            return s == Shape3{8, 8, 4};
        case Element::s4:
        case Element::u4:
            return s == Shape3{8, 8, 32};
        case Element::b1:
            return s == Shape3{8, 8, 128};
        default:
            return false;
    }
}

// Returns the number of registers of a wmma fragment (PTX ISA, "Matrix Fragments for WMMA").
size_t fragment_registers(const Shape3& s, char operand, Element e) {
    if (operand == 'c' || operand == 'd')
        return size_t(s.m * s.n / 32) / (e == Element::f16 ? 2 : 1);
    if (e == Element::f16) return 8;
    const int elements = (operand == 'a' ? s.m : s.n) * s.k / 32;
    return size_t(std::max(1, e == Element::f64 ? elements : elements * bits_of(e) / 32));
}

Type register_type(Element e) { return e == Element::f64 ? Type::f64 : Type::b32; }

}  // namespace

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
    const Word count = m.take_one({"x1", "x2", "x4"});
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
    const bool turned = s.m == 8 && s.n == 32;
    x.m = uint8_t(turned ? 16 : std::min(16, s.m));
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
    take_registers(in.operands[1], register_type(a), a_registers, false, turned ? x.b : x.a, "a");
    take_registers(in.operands[2], register_type(a), b_registers, false, turned ? x.a : x.b, "b");
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
