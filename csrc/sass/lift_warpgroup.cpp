// Matrix products of a warpgroup, which consists of four warps (sim/program/warpgroup.hpp).
#include <optional>

#include "sass/lifter.hpp"
#include "sim/program/warpgroup.hpp"

namespace coalesce::sass {

using Kind = Operand::Kind;
using sim::Element;

namespace {

std::optional<Element> element_of(std::string_view name) {
    static constexpr struct {
        std::string_view name;
        Element element;
    } elements[] = {{"F16", Element::f16},   {"F32", Element::f32},   {"BF16", Element::bf16},
                    {"TF32", Element::tf32}, {"E4M3", Element::e4m3}, {"E5M2", Element::e5m2},
                    {"S8", Element::s8},     {"U8", Element::u8}};
    for (const auto& e : elements)
        if (e.name == name) return e.element;
    return std::nullopt;
}

}  // namespace

// Returns the description of a product, from the modifiers after the shape. HGMMA and QGMMA name
// the types of d and of the factors there (HGMMA does not name F16 factors). IGMMA names the types
// of the factors. BGMMA multiplies bits.
sim::WarpgroupProduct Lifter::warpgroup_form(const Instruction& in) const {
    std::optional<sim::WarpgroupShape> shape;
    if (!in.modifiers.empty()) shape = sim::warpgroup_shape(in.modifiers[0]);
    if (!shape) unsupported("its shape");
    std::vector<std::string_view> names(in.modifiers.begin() + 1, in.modifiers.end());
    const bool saturates = in.opcode == "IGMMA" && !names.empty() && names.back() == "SAT";
    if (saturates) names.pop_back();
    std::vector<Element> types;
    if (in.opcode == "BGMMA") {
        if (names != std::vector<std::string_view>{"AND", "POPC"}) unsupported("its modifiers");
        types = {Element::s32, Element::b1, Element::b1};
    } else {
        if (in.opcode == "IGMMA") types.push_back(Element::s32);
        for (const std::string_view name : names) {
            const std::optional<Element> element = element_of(name);
            if (!element) unsupported("the modifier ." + std::string(name));
            types.push_back(*element);
        }
        if (in.opcode == "HGMMA" && types.size() == 1) types.push_back(Element::f16);
        if (in.opcode == "HGMMA" && types.size() == 2) types.push_back(types[1]);
    }
    if (types.size() != 3) unsupported("its types");
    const bool whole = types[0] == Element::s32;
    const bool small = types[1] == Element::e4m3 || types[1] == Element::e5m2;
    if (whole != (in.opcode == "IGMMA" || in.opcode == "BGMMA") || small != (in.opcode == "QGMMA"))
        unsupported("its types");
    std::optional<sim::WarpgroupProduct> w =
        sim::product_of_warpgroup(types[0], types[1], types[2], shape->columns, shape->depth);
    if (!w) unsupported("its types and shape");
    w->product.saturates = saturates;
    knows_modifiers_ = true;
    return *std::move(w);
}

// HGMMA.64x256x16.F32.BF16 R24, gdesc[UR4].tnspB, R24, UP0, gsb0 multiplies matrices in shared
// memory. UR4 and UR5 are the descriptor of a, and UR6 and UR7 the descriptor of b. If a is in
// registers, they come before gdesc: HGMMA.64x256x8.F32.TF32 R24, -R28, gdesc[UR4], R24, gsb0. The
// matrix is added to R24 and the following registers, if the predicate is true or missing. If the
// third operand is RZ, the predicate is !UPT, and nothing is added. gsb0 ends a group of products.
void Lifter::warpgroup_product(const Instruction& in) {
    sim::WarpgroupProduct w = warpgroup_form(in);
    sim::Matrices& x = w.product;
    if (in.guard.kind == Kind::predicate) unsupported("a guard");
    size_t n = 0;
    const Operand& d = operand(in, n++);
    w.a_in_registers = is_register(operand(in, n));
    const bool whole = x.d_type == Element::s32;
    if (w.a_in_registers) {
        Operand a = operand(in, n++);
        if (a.number < 0 || a.uniform || a.inverted || a.absolute || !a.part.empty() ||
            (a.negated && whole))
            unsupported("the operand " + std::string(a.text));
        w.negates_a = a.negated;
        a.negated = false;
        const Locator first = raw(a, x.a_count);
        for (uint32_t i = 0; i < x.a_count; ++i) x.a[i] = register_after(first, i);
    }
    const Operand& matrices = operand(in, n++);
    if (matrices.kind != Kind::descriptor) unsupported("the operand " + std::string(matrices.text));
    for (std::string_view rest = matrices.part; !rest.empty();) {
        const std::string_view word = rest.substr(0, rest.find('.'));
        rest = word.size() < rest.size() ? rest.substr(word.size() + 1) : "";
        const bool turns = word == "tnspA" || word == "tnspB";
        bool& flag = word == "tnspA"   ? w.transposed_a
                     : word == "tnspB" ? w.transposed_b
                     : word == "negA"  ? w.negates_a
                                       : w.negates_b;
        const bool of_a = word.ends_with('A');
        if ((!turns && word != "negA" && word != "negB") || flag || (of_a && w.a_in_registers) ||
            (turns ? sim::bits_of(x.a_type) != 16 : whole))
            unsupported("the operand " + std::string(matrices.text));
        flag = true;
    }
    const Operand& sums = operand(in, n++);
    if (!is_register(sums) || sums.uniform) unsupported();
    w.adds = truth(sums.number >= 0);
    if (n < in.operands.size() && is_predicate(in.operands[n])) {
        const Operand& p = operand(in, n++);
        if (!p.uniform) unsupported("the predicate " + std::string(p.text));
        if (sums.number < 0)
            expect_constant(p, false);
        else
            w.adds = predicate(p);
    } else if (sums.number < 0) {
        unsupported("a product that adds to RZ");
    }
    if (n < in.operands.size()) expect(in, n++, "gsb0");
    if (n < in.operands.size()) unsupported("a further operand");
    if (is_zero(d) && sums.number < 0 && matrices.uniform_base < 0 && !w.a_in_registers) {
        // HGMMA.64x8x16.F16 RZ, gdesc[URZ], RZ, !UPT, gsb0 ends a group without products.
        Op op;
        op.run = engine_.ops->machine(MachineOp::nothing);
        append(op);
        return;
    }
    if (!is_register(d) || d.uniform || d.number < 0 || matrices.uniform_base < 0 ||
        (sums.number >= 0 && sums.number != d.number))
        unsupported("other registers for the result than for the sums");
    if (size_t(d.number) + w.d.size() > 255) unsupported("its registers");
    const Locator first = result(d, int(w.d.size()));
    for (uint32_t i = 0; i < w.d.size(); ++i) w.d[i] = register_after(first, i);

    const auto descriptor = [&](int32_t number) {
        Operand pair;
        pair.kind = Kind::reg;
        pair.uniform = true;
        pair.number = number;
        const Locator whole_word = scratch();
        machine_to_scratch(MachineOp::join_pair, {whole_word, raw(pair, 2)});
        return whole_word;
    };
    if (!w.a_in_registers) w.a = descriptor(matrices.uniform_base);
    w.b = descriptor(matrices.uniform_base + 2);
    Op op;
    op.run = engine_.memory.warpgroup_product;
    op.set(sim::WarpgroupOperand{{.bytes = sim::part_bytes},
                                 uint32_t(program_.warpgroup_products.size())});
    program_.warpgroup_products.push_back(std::move(w));
    emit(op);
}

// WARPGROUP.ARRIVE orders accesses to registers before the next product. It has no effect on the
// simulator. WARPGROUP.DEPBAR.LE gsb0, 0x1 waits until at most one group of products is pending. On
// the simulator, it is a barrier for the four warps, as wgmma.wait_group is.
void Lifter::warpgroup_wait(const Instruction& in) {
    only(in, {"ARRIVE", "DEPBAR", "LE"});
    Op op;
    if (in.has("ARRIVE")) {
        if (in.modifiers.size() != 1 || !in.operands.empty()) unsupported();
        op.run = engine_.ops->machine(MachineOp::nothing);
        append(op);
        return;
    }
    if (in.modifiers.size() != 2 || !in.has("DEPBAR") || !in.has("LE")) unsupported();
    expect(in, 0, "gsb0");
    if (operand(in, 1).kind != Kind::integer || in.operands.size() != 2) unsupported();
    op.control = sim::Control::barrier;
    op.operand[1] = constant(0);
    op.operand[2] = constant(sim::warpgroup_warps * sim::warp_size);
    op.set(sim::BarrierOperand{.of_warpgroup = true});
    guarded_control(op);
}

// USETMAXREG.TRY_ALLOC.CTAPOOL UP0, 0xe8 asks for more registers. UP0 says whether the warp got
// them. On the simulator, it always does. USETMAXREG.DEALLOC.CTAPOOL 0x28 gives registers back.
void Lifter::set_registers(const Instruction& in) {
    only(in, {"TRY_ALLOC", "DEALLOC", "CTAPOOL"});
    if (!in.has("CTAPOOL") || in.has("TRY_ALLOC") == in.has("DEALLOC")) unsupported();
    size_t n = 0;
    if (in.has("TRY_ALLOC")) {
        const Operand& done = operand(in, n++);
        if (!is_predicate(done) || !done.uniform) unsupported();
        as_ptx(OpCode::or_, {"pred"}, {written_predicate(done), truth(true), truth(true)});
    } else {
        Op op;
        op.run = engine_.ops->machine(MachineOp::nothing);
        append(op);
    }
    const Operand& count = operand(in, n);
    if (count.kind != Kind::integer) unsupported();
}

}  // namespace coalesce::sass
