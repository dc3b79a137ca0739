// Decodes matrix products of a warpgroup (wgmma): four warps that work together.
#include <charconv>
#include <string>
#include <string_view>

#include "errors.hpp"
#include "sim/decode/decode.hpp"
#include "sim/program/warpgroup.hpp"

namespace coalesce::sim {

using ptx::Operand;
using ptx::Type;

namespace {

constexpr uint32_t depth_bytes = 32;  // the size of a and b along k

// Reads a shape such as "m64n256k16".
bool shape_named(std::string_view text, uint32_t& n, uint32_t& k) {
    if (!text.starts_with("m64n")) return false;
    const char* const end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data() + 4, end, n);
    if (error != std::errc{} || at == end || *at != 'k') return false;
    const auto [rest, wrong] = std::from_chars(at + 1, end, k);
    return wrong == std::errc{} && rest == end;
}

bool is_fp8(Element e) { return e == Element::e4m3 || e == Element::e5m2; }
bool is_byte(Element e) { return e == Element::s8 || e == Element::u8; }

// Returns true if the instruction exists for these types and this number of columns (PTX ISA,
// "wgmma.mma_async").
bool is_form(Element d, Element a, Element b, uint32_t n, uint32_t k) {
    using enum Element;
    if (k * uint32_t(bits_of(a)) != 8 * depth_bytes) return false;
    const bool whole = a == b1 || is_byte(a);
    if (n < 8 || n > 256 || n % (whole && n > 32 ? 16 : 8) != 0) return false;
    if (whole) return d == s32 && (a == b1 ? b == b1 : is_byte(b));
    if (is_fp8(a)) return is_fp8(b) && (d == f16 || d == f32);
    if (a != b) return false;
    return a == f16 ? d == f16 || d == f32 : (a == bf16 || a == tf32) && d == f32;
}

}  // namespace

std::optional<WarpgroupProduct> product_of_warpgroup(Element d, Element a, Element b, uint32_t n,
                                                     uint32_t k) {
    if (!is_form(d, a, b, n, k)) return std::nullopt;
    WarpgroupProduct w;
    w.n = n;
    Matrices& x = w.product;
    x.d_type = x.c_type = d, x.a_type = a, x.b_type = b;
    x.k = uint16_t(k);
    x.a_count = 4;
    if (d == Element::s32) {
        x.arithmetic = a == Element::b1 ? Arithmetic::bits_and : Arithmetic::integers;
    } else {
        x.step = uint8_t(k);
        x.fraction_bits = 25;
        // Source: Xie, Wang, Yang and Yang, "MMA-Sim" (2025).
        if (is_fp8(a)) x.fraction_bits = x.result_bits = 13;
    }
    // The number of registers that d has for a tile of 8 columns.
    x.c_count = x.d_count = d == Element::f16 ? 2 : 4;
    w.d.resize(size_t{n} / 8 * x.d_count);
    return w;
}

Locator Decoder::descriptor(const Operand& operand) {
    if (operand.kind != Operand::Kind::reg && operand.kind != Operand::Kind::integer)
        malformed("a matrix descriptor must be a register of 64 bits");
    return source(operand, Type::b64);
}

// Decodes wgmma.wait_group. It is also a barrier for the four warps of a warpgroup, because these
// warps execute their products together.
void Decoder::decode_warpgroup_wait(const ptx::Instruction& in) {
    if (in.operands.at(0).kind != Operand::Kind::integer)
        malformed("the number of groups must be a constant");
    if (engine_.memory.warpgroup_wait) {
        Op reads;
        reads.run = engine_.memory.warpgroup_wait;
        reads.set(AsyncGroups{.pending = uint32_t(in.operands[0].bits)});
        emit(in, reads);
    }
    Op op;
    op.control = Control::barrier;
    op.operand[1] = constant(0, 4);
    op.operand[2] = constant(warpgroup_warps * warp_size, 4);
    op.set(BarrierOperand{.of_warpgroup = true});
    emit_control(in, op, no_block);
}

// Reads the operands of a product: {d...}, a, b-descriptor, p, imm-scale-a, imm-scale-b
// {, imm-trans-a}, imm-trans-b. Products of integers and bits have no scales.
void Decoder::take_warpgroup_operands(const ptx::Instruction& in, WarpgroupProduct& w) {
    Matrices& x = w.product;
    const bool whole = x.d_type == Element::s32;
    w.a_in_registers = in.operands.at(1).kind == Operand::Kind::vector;
    const size_t directions = bits_of(x.a_type) == 16 ? (w.a_in_registers ? 1 : 2) : 0;
    const size_t expected = size_t{4} + (whole ? 0 : 2) + directions;
    if (in.operands.size() < expected) malformed("operands are missing");
    if (in.operands.size() > expected) malformed("it has too many operands");
    take_registers(in.operands[0], Type::b32, w.d.size(), true, w.d.data(), "d");
    if (w.a_in_registers)
        take_registers(in.operands[1], Type::b32, x.a_count, false, x.a, "a");
    else
        w.a = descriptor(in.operands[1]);
    w.b = descriptor(in.operands[2]);
    w.adds = source(in.operands[3], Type::pred);
    w.adds_negated = in.operands[3].negated;
    const auto number = [&](size_t i) {
        if (in.operands[i].kind != Operand::Kind::integer)
            malformed("scales and directions must be constants");
        return int64_t(in.operands[i].bits);
    };
    if (!whole) {
        for (const size_t i : {size_t{4}, size_t{5}}) {
            if (number(i) != 1 && number(i) != -1)
                malformed("the scale of a matrix must be 1 or -1");
        }
        w.negates_a = number(4) < 0, w.negates_b = number(5) < 0;
    }
    for (size_t i = 6; i < 6 + directions; ++i) {
        if (number(i) != 0 && number(i) != 1) malformed("the direction of a matrix must be 0 or 1");
    }
    if (directions == 2) w.transposed_a = number(6) != 0;
    if (directions > 0) w.transposed_b = number(5 + directions) != 0;
}

// Decodes instructions such as
// wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16
//     {d...}, a, b-descriptor, p, imm-scale-a, imm-scale-b{, imm-trans-a}, imm-trans-b;
bool Decoder::decode_warpgroup(const ptx::Instruction& in) {
    if (opcode_ == OpCode::wgmma_wait) {
        decode_warpgroup_wait(in);
        return true;
    }
    if (opcode_ == OpCode::wgmma_commit && engine_.memory.warpgroup_commit) {
        Op op;
        op.run = engine_.memory.warpgroup_commit;
        emit(in, op);
        return true;
    }
    if (opcode_ != OpCode::wgmma) return false;
    std::vector<Element> types;
    uint32_t n = 0, k = 0;
    bool bits = false, saturates = false;
    for (const std::string_view m : in.modifiers) {
        Element element{};
        if (m == "satfinite")
            saturates = true;
        else if (m == "and")
            bits = true;
        else if (element_named(m, element))
            types.push_back(element);
        else if (m != "mma_async" && m != "sync" && m != "aligned" && m != "popc" &&
                 !shape_named(m, n, k))
            return false;
    }
    if (types.size() != 3) return false;
    std::optional<WarpgroupProduct> w = product_of_warpgroup(types[0], types[1], types[2], n, k);
    if (!w || (saturates && !is_byte(types[1])) || bits != (types[1] == Element::b1)) return false;
    w->product.saturates = saturates;
    if (module_.target.find("sm_90a") == std::string::npos)
        unsupported(in, "it needs sm_90a; the PTX is for " + module_.target);
    take_warpgroup_operands(in, *w);

    Op op;
    op.run = engine_.memory.warpgroup_product;
    op.control = Control::synchronize;
    op.operand[5] = constant(all_lanes, 4);
    op.set(WarpgroupOperand{{.bytes = part_bytes}, uint32_t(program_.warpgroup_products.size())});
    program_.warpgroup_products.push_back(*std::move(w));
    describe(ptx::Space::shared, Access::load, part_bytes);
    emit(in, op);
    return true;
}

}  // namespace coalesce::sim
