// Matrices: loads and stores of their rows, transpositions, products on tensor cores.
//
// Each lane holds a part of a matrix, called a fragment. Fragments are in the same registers as in
// PTX (sim/program/matrix.hpp). Doubles are in register pairs.
#include <charconv>

#include "sass/lifter.hpp"
#include "sim/program/matrix.hpp"

namespace coalesce::sass {

using sim::Arithmetic;
using sim::Element;
using sim::Matrices;

namespace {

void fill(Locator* registers, Locator first, int count, int each = 1) {
    for (int n = 0; n < count; ++n) registers[n] = register_after(first, uint32_t(n * each));
}

// Returns the number of elements along k from a shape: "16816", "8816", "168256", "16x8x4".
int depth_of(std::string_view shape, int& m) {
    m = shape.starts_with("16") ? 16 : 8;
    shape.remove_prefix(m == 16 ? 2 : 1);
    if (shape.starts_with('x')) shape.remove_prefix(1);
    if (!shape.starts_with('8')) return 0;
    shape.remove_prefix(1);
    if (shape.starts_with('x')) shape.remove_prefix(1);
    int k = 0;
    std::from_chars(shape.data(), shape.data() + shape.size(), k);
    return k;
}

}  // namespace

Op& Lifter::emit_matrices(Op op, const Matrices& matrices, const sim::MemoryOperand& memory) {
    op.set(sim::MatrixOperand{memory, uint32_t(program_.matrices.size())});
    program_.matrices.push_back(matrices);
    return emit(op);
}

// Translates LDSM.16.MT88.4 R8, [R4+UR6+0x400] or STSM.16.M88.2 [R4], R8
void Lifter::matrix_access(const Instruction& in) {
    only(in, {"16", "M88", "MT88", "2", "4"});
    const bool loads = in.opcode == "LDSM";
    if (!in.has("16") || in.has("M88") == in.has("MT88")) unsupported();
    Matrices x;
    x.count = in.has("4") ? 4 : in.has("2") ? 2 : 1;
    x.transposed = in.has("MT88");
    const Operand& data = operand(in, loads ? 0 : 1);
    fill(loads ? x.d : x.a, loads ? result(data, x.count) : raw(data, x.count), x.count);
    describe(ptx::Space::shared, loads ? sim::Access::load : sim::Access::store, 16);
    Op op;
    op.set(sim::MemoryOperand{.bytes = uint8_t(x.transposed ? 2 : 4)});
    set_address(op, operand(in, loads ? 1 : 0), ptx::Space::shared);
    x.address = op.operand[5];
    op.run = engine_.memory.matrices[loads ? 0 : 1];
    emit_matrices(op, x, op.memory());
}

// Translates MOVM.16.MT88 R0, R2
void Lifter::matrix_transposition(const Instruction& in) {
    only(in, {"16", "MT88"});
    if (!in.has("16") || !in.has("MT88")) unsupported();
    Matrices x;
    x.d[0] = result(operand(in, 0));
    x.a[0] = raw(operand(in, 1));
    Op op;
    op.run = engine_.ops->matrix(sim::MatrixKind::transpose);
    emit_matrices(op, x);
}

// Translates HMMA.16816.F32.BF16 R4, R8, R12, R4 or IMMA.16832.S8.U8.SAT R4, R8.ROW, R12.COL, RZ
void Lifter::matrix_product(const Instruction& in) {
    Matrices x;
    const bool halves = in.opcode == "HMMA", doubles = in.opcode == "DMMA";
    const bool bits = in.opcode == "BMMA";
    if (in.modifiers.empty()) unsupported();
    int m = 0;
    x.k = uint16_t(depth_of(in.modifiers[0], m));
    x.m = uint8_t(m);
    if (x.k == 0) unsupported("the shape ." + std::string(in.modifiers[0]));
    sim::MatrixKind kind = sim::MatrixKind::product;
    int elements = 1;  // the number of elements of a in one register
    if (halves) {
        only(in, {in.modifiers[0], "F16", "F32", "BF16", "TF32"});
        if (in.has("F16") == in.has("F32") || m != 16) unsupported();
        x.a_type = in.has("BF16") ? Element::bf16 : in.has("TF32") ? Element::tf32 : Element::f16;
        x.d_type = in.has("F16") ? Element::f16 : Element::f32;
        // The default of fraction_bits is the value for compute capability 9.0.
        x.step = uint8_t(x.k);
        elements = x.a_type == Element::tf32 ? 1 : 2;
    } else if (doubles) {
        only(in, {in.modifiers[0]});
        kind = sim::MatrixKind::doubles;
        x.pairs = true;
        x.a_type = x.d_type = Element::f64;
    } else if (bits) {
        only(in, {in.modifiers[0], "AND", "XOR", "POPC"});
        if (!in.has("POPC") || in.has("AND") == in.has("XOR")) unsupported();
        x.arithmetic = in.has("AND") ? Arithmetic::bits_and : Arithmetic::bits_xor;
        x.a_type = Element::b1, x.d_type = Element::s32;
        elements = 32;
    } else {
        only(in, {in.modifiers[0], "S8", "U8", "SAT"});
        if (in.modifiers.size() < 3) unsupported();
        x.arithmetic = Arithmetic::integers;
        x.saturates = in.has("SAT");
        const auto type = [&](size_t n) {
            if (in.modifiers[n] != "S8" && in.modifiers[n] != "U8") unsupported();
            return in.modifiers[n] == "S8" ? Element::s8 : Element::u8;
        };
        x.a_type = type(1), x.b_type = type(2), x.d_type = Element::s32;
        elements = 4;
    }
    if (x.arithmetic != Arithmetic::integers) x.b_type = x.a_type;
    x.c_type = x.d_type;
    const int each = doubles ? 2 : 1;
    const int a = m * x.k / 32 / elements, b = 8 * x.k / 32 / elements;
    const int sums = m * 8 / 32 / (x.d_type == Element::f16 ? 2 : 1);
    if (a < 1 || b < 1 || a * each > max_registers) unsupported();
    if (in.operands.size() != 4) unsupported("its operands");
    const auto factor = [&](size_t n, int count, std::string_view part) {
        Operand o = operand(in, n);
        if (o.part != part && !o.part.empty()) unsupported("the operand " + std::string(o.text));
        o.part = {};
        return raw(o, count * each);
    };
    fill(x.a, factor(1, a, "ROW"), a, each);
    fill(x.b, factor(2, b, "COL"), b, each);
    fill(x.c, raw(operand(in, 3), sums * each), sums, each);
    if (is_zero(operand(in, 0))) unsupported("a result that is dropped");
    fill(x.d, result(operand(in, 0), sums * each), sums, each);
    x.a_count = uint8_t(a), x.b_count = uint8_t(b), x.c_count = x.d_count = uint8_t(sums);
    Op op;
    op.run = engine_.ops->matrix(kind);
    emit_matrices(op, x);
}

}  // namespace coalesce::sass
