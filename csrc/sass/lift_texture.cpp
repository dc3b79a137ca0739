// Textures and surfaces. The handle of a texture is in a pair of uniform registers, whose upper
// half is zero. The handle of a surface is in one uniform register. The coordinates are in
// consecutive registers.
#include "sass/lifter.hpp"
#include "sim/handlers/memory/texture.hpp"
#include "sim/memory/texture.hpp"

namespace coalesce::sass {

using Kind = Operand::Kind;
using sim::Access;
using sim::LevelForm;
using sim::TextureAccess;

namespace {

bool find_geometry(std::string_view text, sim::TextureGeometry& g) {
    static constexpr struct {
        std::string_view fetch, surface;
        sim::TextureGeometry geometry;
    } all[] = {{"1D", "1D", {1, false, false}},
               {"2D", "2D", {2, false, false}},
               {"3D", "3D", {3, false, false}},
               {"ARRAY_1D", "1D_ARRAY", {1, true, false}},
               {"ARRAY_2D", "2D_ARRAY", {2, true, false}},
               {"CUBE", "", {2, false, true}},
               {"ARRAY_CUBE", "", {2, true, true}}};
    for (const auto& one : all) {
        if (text.empty() || (text != one.fetch && text != one.surface)) continue;
        g = one.geometry;
        return true;
    }
    return false;
}

}  // namespace

// Reads `UR4, 0x0`.
Locator Lifter::handle(const Instruction& in, size_t n, bool pair) {
    const Operand& o = operand(in, n);
    if (!is_register(o) || !o.uniform || o.number < 0) unsupported("the object");
    expect(in, n + 1, "0x0");
    const Locator whole = scratch();
    if (pair) {
        machine_to_scratch(MachineOp::join_pair, {whole, raw(o, 2)});
        return whole;
    }
    Op widen;
    widen.run = engine_.ops->resize(ptx::Type::u32, 8);
    widen.operand[0] = whole;
    widen.operand[1] = raw(o);
    append(widen);
    return whole;
}

void Lifter::emit_texture(const TextureAccess& access, Locator handle, sim::Handler run,
                          Access kind) {
    Op op;
    auto& texture = op.set(sim::TextureOperand{});
    texture.memory.bytes = uint8_t(access.value_bytes * access.count);
    texture.index = uint32_t(program_.texture_accesses.size());
    program_.texture_accesses.push_back(access);
    op.operand[5] = handle;
    describe(ptx::Space::global, kind, texture.memory.bytes);
    op.run = run;
    emit(op);
}

// TEX.LL P0, R14, R12, R10, R4, UR4, 0x0, 2D, 0x7 fetches at the coordinates in the registers from
// R10 on, at the level in R4. The bits of the last operand say which channels are results. The
// first two results are in the registers from R12 on, and the others from R14 on. The predicate
// says whether texels are absent. In the simulator, they never are.
//
// The other instructions differ from TEX.LL as follows:
// - TEX.LZ fetches at level 0, and has no register for the level.
// - TLD.LZ and TLD.LL.CL have integer coordinates.
// - TLD4.R returns one channel of four texels, and has no level.
// - TXD has gradients in place of the level, in the order dx.x, dy.x, dx.y, dy.y.
//
// The layer of an array is before the coordinates; for TXD, it is after them.
void Lifter::fetch(const Instruction& in) {
    TextureAccess access;
    const bool gathers = in.opcode == "TLD4", gradients = in.opcode == "TXD";
    access.integer_coordinates = in.opcode == "TLD";
    if (gathers) {
        only(in, {"R", "G", "B", "A"});
        if (in.modifiers.size() != 1) unsupported("its modifiers");
        access.component = uint8_t(std::string_view("RGBA").find(in.modifiers[0]));
    } else if (gradients) {
        only(in, {});
        access.level_form = LevelForm::gradient;
    } else {
        only(in, {"LL", "LZ", "CL"});
        access.level_form = LevelForm::level;
        if (in.has("LL") == in.has("LZ")) unsupported("its modifiers");
        if (in.has("CL") != (access.integer_coordinates && in.has("LL")))
            unsupported("its modifiers");
    }
    size_t n = 0;
    Locator absent = no_operand;
    if (is_predicate(operand(in, 0))) absent = predicate_result(in.operands[n++]);
    const Operand& upper = operand(in, n);
    const Operand& lower = operand(in, n + 1);
    const Operand& point = operand(in, n + 2);
    n += 3;
    const Operand* by = nullptr;
    if (gradients || in.has("LL")) by = &operand(in, n++);
    const Locator object = handle(in, n, true);
    n += 2;
    sim::TextureGeometry& g = access.geometry;
    if (!find_geometry(operand(in, n).text, g)) unsupported("its geometry");
    if (gathers && (g.dimensions != 2 || g.cube)) unsupported("its geometry");
    if ((access.integer_coordinates || gradients) && g.cube) unsupported("its geometry");
    if (gradients && g.dimensions > 2) unsupported("its geometry");
    access.divided = g.cube;
    uint32_t channels = 15;
    if (++n < in.operands.size()) {
        const Operand& mask = operand(in, n);
        if (mask.kind != Kind::integer || mask.bits == 0 || mask.bits > 15) unsupported("its mask");
        channels = uint32_t(mask.bits);
    }
    if (in.operands.size() > n + 1) unsupported("a further operand");

    if (!is_register(point) || point.uniform) unsupported();
    const uint32_t count = g.coordinates();
    const Locator first = raw(point, int(count + g.layered));
    const bool before = g.layered && !gradients;
    for (uint32_t k = 0; k < count; ++k) access.coordinate[k] = register_after(first, k + before);
    if (g.layered) access.layer = before ? first : register_after(first, count);
    if (gradients) {
        const Locator all = raw(*by, int(2 * count));
        for (uint32_t k = 0; k < 2 * count; ++k)
            access.gradient[k % 2][k / 2] = register_after(all, k);
    } else if (by) {
        access.level = word(*by);
    } else if (gathers) {
        access.level_form = LevelForm::base;
    } else {
        access.level = constant(0);
    }
    for (const Operand* o : {&upper, &lower})
        if (!is_register(*o) || o->uniform) unsupported();
    uint32_t results = 0;
    for (uint32_t c = 0; c < 4; ++c) {
        if (!(channels >> c & 1)) continue;
        const Operand& to = results < 2 ? lower : upper;
        if (!is_zero(to)) access.value[c] = register_after(raw(to, 2), results % 2);
        ++results;
    }
    if (results <= 2 && !is_zero(upper)) unsupported("its results");
    emit_texture(access, object, engine_.memory.textures[gathers ? 1 : 0], Access::load);
    if (absent != no_operand) as_ptx(OpCode::and_, {"pred"}, {absent, truth(false), truth(false)});
}

// TXQ RZ, R11, R2, TEX_HEADER_DIMENSION, UR4, 0x0, 0x1 returns an extent of the level in R2.
void Lifter::query_extent(const Instruction& in) {
    only(in, {});
    expect(in, 0, "RZ");
    expect(in, 3, "TEX_HEADER_DIMENSION");
    TextureAccess access;
    const std::string_view which = operand(in, 6).text;
    if (which != "0x1" && which != "0x2" && which != "0x4") unsupported("its mask");
    using enum sim::TextureQuery;
    access.query = which == "0x1" ? width : which == "0x2" ? height : depth;
    access.count = 1;
    access.value[0] = result(operand(in, 1));
    access.queried_level = word(operand(in, 2));
    emit_texture(access, handle(in, 4, true), &sim::query_texture, Access::load);
}

// SULD.D.BA.2D.U16.STRONG.SM.TRAP R7, [R6], UR6, 0x0 loads, and SUST.D.BA.2D_ARRAY.64.STRONG.SM
// [R8], R12, UR6, 0x0 stores. The register in brackets is the first of several registers. They have
// the coordinates, of which the first is in bytes (.BA), and then the layer of an array.
void Lifter::surface(const Instruction& in) {
    only(in, {"D", "BA", "1D", "2D", "3D", "1D_ARRAY", "2D_ARRAY", "U8", "U16", "64", "128",
              "STRONG", "SM", "TRAP", "IGN"});
    if (in.modifiers.size() < 3 || in.modifiers[0] != "D" || in.modifiers[1] != "BA") unsupported();
    const bool loads = in.opcode == "SULD";
    TextureAccess access;
    access.integer_coordinates = true;
    sim::TextureGeometry& g = access.geometry;
    if (!find_geometry(in.modifiers[2], g)) unsupported("its geometry");
    access.out_of_range = in.has("TRAP")  ? sim::OutOfRange::trap
                          : in.has("IGN") ? sim::OutOfRange::zero
                                          : sim::OutOfRange::clamp;
    access.value_bytes = in.has("U8") ? 1 : in.has("U16") ? 2 : 4;
    access.count = in.has("128") ? 4 : in.has("64") ? 2 : 1;
    const Operand& at = operand(in, loads ? 1 : 0);
    if (at.kind != Kind::address || at.base < 0 || at.uniform_base >= 0 || at.offset != 0 ||
        at.scale != 1 || at.wide || at.negated || at.inverted || at.absolute)
        unsupported("the coordinates " + std::string(at.text));
    Operand point;
    point.kind = Kind::reg;
    point.number = at.base;
    const Locator first = raw(point, int(g.dimensions + g.layered));
    for (uint32_t k = 0; k < g.dimensions; ++k) access.coordinate[k] = register_after(first, k);
    if (g.layered) access.layer = register_after(first, g.dimensions);
    const Operand& data = operand(in, loads ? 0 : 1);
    if (!is_register(data) || data.uniform) unsupported();
    const Locator values = loads ? result(data, access.count) : raw(data, access.count);
    for (uint32_t k = 0; k < access.count; ++k) access.value[k] = register_after(values, k);
    emit_texture(access, handle(in, 2, false), engine_.memory.surfaces[loads ? 0 : 1],
                 loads ? Access::load : Access::store);
}

}  // namespace coalesce::sass
