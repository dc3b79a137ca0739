// Decodes texture and surface instructions. A register of the instruction contains the handle of
// the texture or surface object (the unified mode of PTX). Texture variables of the module
// (.texref, .surfref) are refused.
#include <algorithm>

#include "errors.hpp"
#include "sim/decode/decode.hpp"
#include "sim/handlers/memory/texture.hpp"
#include "sim/memory/texture.hpp"

namespace coalesce::sim {

using ptx::Operand;
using ptx::Space;
using ptx::Type;

namespace {

bool take_geometry(Modifiers& m, TextureGeometry& g) {
    static constexpr struct {
        Modifier word;
        TextureGeometry geometry;
    } all[] = {{"1d", {1, false, false}}, {"2d", {2, false, false}}, {"3d", {3, false, false}},
               {"a1d", {1, true, false}}, {"a2d", {2, true, false}}, {"cube", {2, false, true}},
               {"acube", {2, true, true}}};
    for (const auto& one : all) {
        if (!m.take(one.word)) continue;
        g = one.geometry;
        return true;
    }
    return false;
}

bool take_query(Modifiers& m, bool surface, TextureQuery& query) {
    using enum TextureQuery;
    static constexpr struct {
        Modifier word;
        TextureQuery query;
        bool of_surfaces;
    } all[] = {{"width", width, true},
               {"height", height, true},
               {"depth", depth, true},
               {"channel_data_type", channel_data_type, true},
               {"channel_order", channel_order, true},
               {"normalized_coords", normalized_coordinates, false},
               {"array_size", array_size, true},
               {"num_mipmap_levels", levels, false}};
    for (const auto& one : all) {
        if ((surface && !one.of_surfaces) || !m.take(one.word)) continue;
        query = one.query;
        return true;
    }
    return false;
}

const std::vector<Operand>& elements_of(const Operand& o, std::vector<Operand>& single) {
    if (o.kind == Operand::Kind::vector) return o.elements;
    single = {o};
    return single;
}

}  // namespace

// Emits the op of a texture or surface instruction. `address` is [handle] or [handle,
// {coordinates}]. The register with the handle becomes operand 5 of the op.
void Decoder::emit_texture(const ptx::Instruction& in, const Operand& address,
                           const TextureAccess& access, Handler run, Access kind) {
    if (address.kind != Operand::Kind::address) malformed("an object [...] is missing");
    if (address.reg < 0)
        unsupported(in,
                    "texture and surface references are variables of PTX; only objects, whose "
                    "handle is in a register, are simulated");
    Operand handle = address;
    handle.elements.clear();
    Op op;
    TextureOperand& operand = op.set(TextureOperand{});
    set_address(op, handle, Space::generic);
    if (op.memory().form != AddressForm::wide) malformed("a handle must have 64 bits");
    operand.memory.bytes = uint8_t(access.value_bytes * access.count);
    operand.index = uint32_t(program_.texture_accesses.size());
    program_.texture_accesses.push_back(access);
    describe(Space::global, kind, operand.memory.bytes);
    op.run = run;
    emit(in, op);
}

// Reads the coordinates {x, y, z}. PTX requires lists of certain lengths. So a list may have more
// elements than the texture has coordinates. The additional elements are ignored.
void Decoder::take_coordinates(const Operand& list, TextureAccess& access, Type type) {
    std::vector<Operand> single;
    const std::vector<Operand>& elements = elements_of(list, single);
    const uint32_t before = access.geometry.layered ? 1 : 0;
    const uint32_t count = access.geometry.coordinates();
    if (elements.size() < count + before || elements.size() > 4)
        malformed("it needs " + std::to_string(count + before) + " coordinates, not " +
                  std::to_string(elements.size()));
    if (before) access.layer = source(elements[0], Type::b32);
    for (uint32_t n = 0; n < count; ++n) access.coordinate[n] = source(elements[before + n], type);
}

void Decoder::take_values(const Operand& list, TextureAccess& access, Type type, size_t count,
                          bool written) {
    std::vector<Operand> single;
    const std::vector<Operand>& elements = elements_of(list, single);
    if (elements.size() != count)
        malformed("it moves " + std::to_string(count) + " values but lists " +
                  std::to_string(elements.size()));
    access.count = uint8_t(count);
    for (size_t n = 0; n < count; ++n)
        access.value[n] = written ? destination(elements[n], type) : source(elements[n], type);
}

bool Decoder::decode_texture(const ptx::Instruction& in) {
    switch (opcode_) {
        case OpCode::tex:
        case OpCode::tld4:
            return decode_fetch(in);
        case OpCode::suld:
        case OpCode::sust:
            return decode_surface(in);
        case OpCode::txq:
        case OpCode::suq: {
            Modifiers m(in);
            TextureAccess access;
            if (!take_query(m, opcode_ == OpCode::suq, access.query) ||
                m.take_type() != Type::b32 || !m.empty())
                return false;
            if (in.operands.size() != 2) malformed("it must have two operands");
            take_values(in.operands[0], access, Type::b32, 1, true);
            emit_texture(in, in.operands[1], access, &query_texture, Access::load);
            return true;
        }
        default:
            return false;
    }
}

// Decodes instructions such as
// tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}|%p1, [%rd1, {%f5, %f6}];
// tex.level.2d.v4.f32.f32 {...}, [...], %f7;   tex.grad.2d.v4.f32.f32 {...}, [...], {...}, {...};
// tld4.r.2d.v4.f32.f32 {...}, [...];
bool Decoder::decode_fetch(const ptx::Instruction& in) {
    const bool gathers = opcode_ == OpCode::tld4;
    Modifiers m(in);
    TextureAccess access;
    if (gathers) {
        const Modifier component = m.take_one({"r", "g", "b", "a"});
        if (!component) return false;
        access.component = component == "r" ? 0 : component == "g" ? 1 : component == "b" ? 2 : 3;
    } else if (m.take("level")) {
        access.level_form = LevelForm::level;
    } else if (m.take("grad")) {
        access.level_form = LevelForm::gradient;
    }
    if (!take_geometry(m, access.geometry) || !m.take("v4")) return false;
    if (gathers && (access.geometry.dimensions != 2 || access.geometry.cube)) return false;
    const Type result = m.take_type(), coordinates = m.take_type();
    access.halves = result == Type::f16;
    const bool known = result == Type::f32 || result == Type::s32 || result == Type::u32 ||
                       (access.halves && !gathers);
    access.integer_coordinates = coordinates == Type::s32;
    if (!known || !m.empty() ||
        (coordinates != Type::f32 && (!access.integer_coordinates || access.geometry.cube ||
                                      gathers || access.level_form == LevelForm::gradient)))
        return false;
    const size_t levels = access.level_form == LevelForm::base    ? 0
                          : access.level_form == LevelForm::level ? 1
                                                                  : 2;
    if (in.operands.size() < 2 + levels) malformed("operands are missing");
    if (in.operands.size() > 2 + levels)
        unsupported(
            in, "offsets of texels, comparisons of depth and separate samplers are not simulated");
    const Operand* values = &in.operands[0];
    if (values->kind == Operand::Kind::pair) {
        access.resident = destination(values->elements.at(1), Type::pred);
        values = &in.operands[0].elements[0];
    }
    const Operand& address = in.operands[1];
    if (address.elements.size() != 1) {
        if (address.elements.size() == 2) unsupported(in, "separate samplers are not simulated");
        malformed("an object and coordinates, [object, {...}], are missing");
    }
    take_coordinates(address.elements[0], access, coordinates);
    if (access.level_form == LevelForm::level) access.level = source(in.operands[2], coordinates);
    for (size_t k = 0; k < 2 && access.level_form == LevelForm::gradient; ++k) {
        std::vector<Operand> single;
        const auto& elements = elements_of(in.operands[2 + k], single);
        const uint32_t count = access.geometry.coordinates();
        if (elements.size() < count || elements.size() > 4)
            malformed("a gradient must have one component for each coordinate");
        for (uint32_t n = 0; n < count; ++n) access.gradient[k][n] = source(elements[n], Type::f32);
    }
    take_values(*values, access, access.halves ? Type::b16 : Type::b32, 4, true);
    emit_texture(in, address, access, engine_.memory.textures[gathers ? 1 : 0], Access::load);
    return true;
}

// Decodes instructions such as
// suld.b.2d.v4.b32.trap {%r1, %r2, %r3, %r4}, [%rd1, {%r5, %r6}];
// sust.b.2d.b32.clamp [%rd1, {%r5, %r6}], %r1;
bool Decoder::decode_surface(const ptx::Instruction& in) {
    const bool loads = opcode_ == OpCode::suld;
    Modifiers m(in);
    TextureAccess access;
    access.integer_coordinates = true;
    if (!m.take("b") || !take_geometry(m, access.geometry) || access.geometry.cube) return false;
    m.take_one({"ca", "cg", "cs", "cv", "wb", "wt"});
    const Modifier vector = m.take_one({"v2", "v4"});
    const size_t count = vector == "v2" ? 2 : vector == "v4" ? 4 : 1;
    const Type type = m.take_type();
    if (type != Type::b8 && type != Type::b16 && type != Type::b32 && type != Type::b64)
        return false;
    const Modifier out_of_range = m.take_one({"trap", "clamp", "zero"});
    access.out_of_range = out_of_range == "clamp"  ? OutOfRange::clamp
                          : out_of_range == "zero" ? OutOfRange::zero
                                                   : OutOfRange::trap;
    access.value_bytes = uint8_t(ptx::size_of(type));
    access.register_bytes = std::max<uint8_t>(2, access.value_bytes);
    if (!m.empty() || access.value_bytes * count > 16) return false;
    if (in.operands.size() < 2) malformed("operands are missing");
    if (in.operands.size() > 2) malformed("it has too many operands");
    const Operand& address = in.operands[loads ? 1 : 0];
    if (address.elements.size() != 1)
        malformed("an object and coordinates, [object, {...}], are missing");
    take_coordinates(address.elements[0], access, Type::s32);
    take_values(in.operands[loads ? 0 : 1], access, type == Type::b8 ? Type::b16 : type, count,
                loads);
    emit_texture(in, address, access, engine_.memory.surfaces[loads ? 0 : 1],
                 loads ? Access::load : Access::store);
    return true;
}

}  // namespace coalesce::sim
