// METHOD
// The lanes of a warp that use the same texture object are processed together, so that the object
// and its memory are looked up only once. Checkers get one access event for each texel that a lane
// reads or writes. Other observers get no events for these instructions: they count requests of the
// load/store unit, but the texture unit executes these instructions.
#include "sim/handlers/memory/texture.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

#include "sim/memory/floats.hpp"
#include "sim/memory/texture.hpp"
#include "sim/warp/observer.hpp"

namespace coalesce::sim {

namespace {

const TextureAccess& access_of(const Warp& w, const Op& op) {
    return w.block->program->texture_accesses[op.get<TextureOperand>().index];
}

uint64_t handle_of(Warp& w, const Op& op, int lane) {
    const MemoryOperand& at = op.memory();
    return w.lanes<const uint64_t>(op.operand[5])[lane] + uint64_t(at.offset);
}

std::string shape_of(const TextureObject& o) {
    if (o.memory == TextureMemory::linear) return "linear memory";
    if (o.cube) return o.layered ? "a layered cube map" : "a cube map";
    return std::string(o.layered ? "a layered array of " : "an array of ") +
           std::to_string(o.dimensions) + (o.dimensions == 1 ? " dimension" : " dimensions");
}

// Returns an error message if an instruction cannot use an object, or an empty string. An array of
// two dimensions may be used like one of one dimension if its height is 1. A GPU returns zeros if
// an array of three dimensions is used like one of two. For a surface instruction, the faces of a
// cube map are layers.
std::string mismatch(const TextureObject& o, const TextureAccess& access, bool surface) {
    const TextureGeometry& g = access.geometry;
    if (surface != o.surface)
        return surface ? "the handle belongs to a texture object, but the instruction needs a "
                         "surface object (cudaCreateSurfaceObject)"
                       : "the handle belongs to a surface object, but the instruction needs a "
                         "texture object (cudaCreateTextureObject)";
    if (!surface && o.memory == TextureMemory::linear)
        return g.dimensions == 1 && !g.layered && access.integer_coordinates
                   ? ""
                   : "the texture object is for linear memory, which only tex1Dfetch() can read";
    const bool layers = surface ? o.layered || o.cube : o.layered;
    const uint32_t needed = o.dimensions == 3 ? 3 : o.height > 1 ? 2 : 1;
    const bool fits = g.dimensions >= needed && g.dimensions <= std::max<uint32_t>(o.dimensions, 2);
    if (fits && g.layered == layers && (surface || g.cube == o.cube)) return "";
    return "the object is for " + shape_of(o) + ", but the instruction is for " +
           shape_of({.dimensions = g.dimensions, .layered = g.layered, .cube = g.cube});
}

// An object, and the memory of its array.
struct BoundObject {
    TextureObject object;
    std::byte* data = nullptr;
};

// Returns the object that belongs to a handle. Throws LaunchError if there is none.
BoundObject find_object(Warp& w, const Op& op, int lane, uint64_t handle) {
    const AddressSpace& memory = *w.block->memory;
    uint16_t hint = w.block->hints[op.pc];
    const Buffer* const place = memory.find(handle, texture_object_bytes, hint);
    std::optional<TextureObject> object;
    if (place) object = texture_object_in(place->host + (handle - place->address));
    if (!object) {
        char hex[32];
        std::snprintf(hex, sizeof hex, "0x%llx", static_cast<unsigned long long>(handle));
        const Buffer* const near = memory.find(handle, 1, hint);
        KernelFault fault(
            Fault::no_object,
            std::string("there is no texture or surface object with the handle ") + hex +
                (handle == 0 ? ": it was not set"
                 : near      ? ": it is an address in `" + near->name + "`"
                             : ": it was never created, or was destroyed") +
                "\n  " + where(*w.block->program, op) + "\n  " + thread_name(w, lane));
        fault.handle = handle;
        throw fault;
    }
    if (const std::string wrong = problem(*object); !wrong.empty())
        throw_misuse(w, op, lane, "the texture object is not valid: " + wrong);
    const bool surface = op.code == OpCode::suld || op.code == OpCode::sust ||
                         op.code == OpCode::suq || op.code == OpCode::SULD ||
                         op.code == OpCode::SUST;
    const bool query = op.code == OpCode::txq || op.code == OpCode::suq || op.code == OpCode::TXQ;
    if (!query) {
        const std::string wrong = mismatch(*object, access_of(w, op), surface);
        if (!wrong.empty()) throw_misuse(w, op, lane, wrong);
    }
    const Buffer* const array = memory.find(object->address, object->bytes(), hint);
    if (!array)
        throw_misuse(w, op, lane,
                     std::string("the memory of this ") + (surface ? "surface" : "texture") +
                         " object was freed");
    return {*object, array->host + (object->address - array->address)};
}

// Calls act(bound, lane) for each active lane.
template <class F>
void for_each_object(Warp& w, const Op& op, F&& act) {
    uint64_t known = 0;
    BoundObject bound;
    for_each_lane(w.mask, [&](int i) {
        const uint64_t handle = handle_of(w, op, i);
        if (!bound.data || handle != known) bound = find_object(w, op, i, handle);
        known = handle;
        act(bound, i);
    });
}

// Announces the access of one lane to checkers.
template <Watch watch>
void announce(Warp& w, const Op& op, Access access, int lane, uint64_t address, uint32_t bytes) {
    if constexpr (watch != Watch::faults) return;
    const LaneMask all = w.mask;
    w.mask = 1u << lane;
    w.address[lane] = address;
    MemoryEvent event;
    event.pc = op.pc;
    event.space = ptx::Space::global;
    event.access = access;
    event.bytes = uint8_t(bytes);
    event.mask = w.mask;
    event.addresses = w.address;
    event.op = &op;
    w.block->announce->access(w.block->observer, w, event);
    w.mask = all;
}

TexturePoint point_of(Warp& w, const TextureObject& o, const TextureAccess& a, int i) {
    TexturePoint p;
    if (a.layer != no_operand) p.layer = w.lanes<const uint32_t>(a.layer)[i];
    const uint32_t count = a.geometry.coordinates();
    for (uint32_t n = 0; n < count; ++n) {
        if (a.integer_coordinates)
            p.integer[n] = w.lanes<const int32_t>(a.coordinate[n])[i];
        else
            p.coordinate[n] = w.lanes<const float>(a.coordinate[n])[i];
    }
    if (a.level_form == LevelForm::level)
        p.level = a.integer_coordinates ? float(w.lanes<const int32_t>(a.level)[i])
                                        : w.lanes<const float>(a.level)[i];
    if (a.level_form == LevelForm::gradient) {
        float d[2][3] = {};
        for (uint32_t n = 0; n < count; ++n)
            for (int k = 0; k < 2; ++k) d[k][n] = w.lanes<const float>(a.gradient[k][n])[i];
        p.level = level_of(o, d[0], d[1]);
    }
    return p;
}

template <Watch watch, class Read>
void read_texture(Warp& w, const Op& op, Read&& read) {
    const TextureAccess& a = access_of(w, op);
    TexelBits values[warp_size];
    // Results are written after all coordinates were read, because they may share registers.
    for_each_object(w, op, [&](const BoundObject& f, int i) {
        TexelList texels;
        values[i] = read(f, a, point_of(w, f.object, a, i), texels);
        for (uint32_t n = 0; n < texels.count; ++n)
            announce<watch>(w, op, Access::load, i, f.object.address + texels.offset[n],
                            f.object.texel_bytes());
    });
    for_each_lane(w.mask, [&](int i) {
        for (uint32_t n = 0; n < a.count; ++n) {
            if (a.value[n] == no_operand) continue;
            if (a.halves)
                w.lanes<uint16_t>(a.value[n])[i] =
                    COALESCE_ISA::float_to_half(std::bit_cast<float>(values[i][n]));
            else
                w.lanes<uint32_t>(a.value[n])[i] = values[i][n];
        }
    });
    if (a.resident != no_operand) w.predicate(a.resident) |= w.mask;
}

// The place of a surface access: the byte offset in the array, or the reason why the access is not
// possible.
struct SurfacePlace {
    uint64_t offset = 0;
    bool outside = false, misaligned = false;
};

SurfacePlace surface_place(Warp& w, const TextureObject& o, const TextureAccess& a, int i) {
    const int64_t bytes = int64_t{a.value_bytes} * a.count;
    SurfacePlace at;
    int64_t place[3] = {}, layer = 0;
    for (uint32_t d = 0; d < a.geometry.dimensions; ++d)
        place[d] = w.lanes<const int32_t>(a.coordinate[d])[i];
    if (a.layer != no_operand) layer = w.lanes<const int32_t>(a.layer)[i];
    const auto hold = [&](int64_t& x, int64_t most) {
        if (x >= 0 && x <= most) return;
        if (a.out_of_range == OutOfRange::clamp)
            x = std::clamp<int64_t>(x, 0, std::max<int64_t>(most, 0));
        else
            at.outside = true;
    };
    at.misaligned = place[0] % bytes != 0;
    const int64_t row = int64_t{o.width} * o.texel_bytes();
    if (row < bytes) at.outside = true;
    hold(place[0], row - bytes);
    hold(place[1], int64_t{o.height} - 1);
    hold(place[2], int64_t{o.depth} - 1);
    // A negative layer is clamped to the last one, as if it were unsigned.
    if (layer < 0 && a.out_of_range == OutOfRange::clamp) layer = o.layers;
    hold(layer, int64_t{o.layers} - 1);
    at.offset = uint64_t(place[0]) + uint64_t(place[1]) * o.row_bytes +
                uint64_t(o.layered || o.cube ? layer : place[2]) * o.slice_bytes_of(0);
    return at;
}

// Calls act(memory, lane) for each lane that accesses the surface. For a lane outside the surface,
// `memory` is null.
template <Watch watch, class F>
void access_surface(Warp& w, const Op& op, Access access, F&& act) {
    const TextureAccess& a = access_of(w, op);
    const uint32_t bytes = uint32_t{a.value_bytes} * a.count;
    for_each_object(w, op, [&](const BoundObject& f, int i) {
        const SurfacePlace at = surface_place(w, f.object, a, i);
        const bool trapped = at.outside && a.out_of_range == OutOfRange::trap;
        if (trapped || at.misaligned) {
            const Fault why = at.misaligned ? Fault::misaligned : Fault::outside;
            // The address is only used to find the name of the array.
            w.address[i] = f.object.address;
            const LaneMask lane = 1u << i;
            if constexpr (watch != Watch::faults)
                throw_memory_fault(w, op, access, ptx::Space::global, why, lane, w.address);
            w.block->announce->fault(w.block->observer, w, op, access, ptx::Space::global, why,
                                     lane, w.address);
            return act(nullptr, i);
        }
        if (at.outside) return act(nullptr, i);
        announce<watch>(w, op, access, i, f.object.address + at.offset, bytes);
        act(f.data + at.offset, i);
    });
}

void put(Warp& w, const TextureAccess& a, int i, uint32_t n, uint64_t value) {
    if (a.register_bytes == 2)
        w.lanes<uint16_t>(a.value[n])[i] = uint16_t(value);
    else if (a.register_bytes == 4)
        w.lanes<uint32_t>(a.value[n])[i] = uint32_t(value);
    else
        w.lanes<uint64_t>(a.value[n])[i] = value;
}

uint64_t get(Warp& w, const TextureAccess& a, int i, uint32_t n) {
    return a.register_bytes == 2   ? w.lanes<const uint16_t>(a.value[n])[i]
           : a.register_bytes == 4 ? w.lanes<const uint32_t>(a.value[n])[i]
                                   : w.lanes<const uint64_t>(a.value[n])[i];
}

}  // namespace

template <Watch watch>
void fetch_texture(Warp& w, const Op& op) {
    read_texture<watch>(w, op,
                        [](const BoundObject& f, const TextureAccess& a, const TexturePoint& p,
                           TexelList& texels) { return fetch(f.object, a, p, f.data, texels); });
}

template <Watch watch>
void gather_texture(Warp& w, const Op& op) {
    read_texture<watch>(w, op,
                        [](const BoundObject& f, const TextureAccess& a, const TexturePoint& p,
                           TexelList& texels) { return gather(f.object, a, p, f.data, texels); });
}

template <Watch watch>
void load_surface(Warp& w, const Op& op) {
    const TextureAccess& a = access_of(w, op);
    uint64_t values[warp_size][4] = {};
    access_surface<watch>(w, op, Access::load, [&](const std::byte* from, int i) {
        if (!from) return;
        for (uint32_t n = 0; n < a.count; ++n)
            std::memcpy(&values[i][n], from + size_t{n} * a.value_bytes, a.value_bytes);
    });
    for_each_lane(w.mask, [&](int i) {
        for (uint32_t n = 0; n < a.count; ++n) put(w, a, i, n, values[i][n]);
    });
}

template <Watch watch>
void store_surface(Warp& w, const Op& op) {
    const TextureAccess& a = access_of(w, op);
    access_surface<watch>(w, op, Access::store, [&](std::byte* to, int i) {
        if (!to) return;
        for (uint32_t n = 0; n < a.count; ++n) {
            const uint64_t value = get(w, a, i, n);
            std::memcpy(to + size_t{n} * a.value_bytes, &value, a.value_bytes);
        }
    });
}

void query_texture(Warp& w, const Op& op) {
    const TextureAccess& a = access_of(w, op);
    uint32_t values[warp_size];
    for_each_object(w, op, [&](const BoundObject& f, int i) {
        const uint32_t level =
            a.queried_level == no_operand ? 0 : w.lanes<const uint32_t>(a.queried_level)[i];
        values[i] = query_result(f.object, a.query, level);
    });
    for_each_lane(w.mask, [&](int i) { w.lanes<uint32_t>(a.value[0])[i] = values[i]; });
}

FaultText describe_surface_fault(const Warp& warp, const Op& op, int lane, Access access,
                                 Fault fault) {
    Warp& w = const_cast<Warp&>(warp);  // registers are only read
    const TextureAccess& a = access_of(w, op);
    const BoundObject f = find_object(w, op, lane, handle_of(w, op, lane));
    const TextureObject& o = f.object;
    const uint32_t bytes = uint32_t{a.value_bytes} * a.count;
    const std::string what = (access == Access::store ? "surface write of " : "surface read of ") +
                             std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes");
    uint16_t hint = 0;
    const Buffer* const array = w.block->memory->find(o.address, 1, hint);
    const std::string name = array ? "`" + array->name + "`" : "the surface";
    std::string place;
    for (uint32_t d = 0; d < a.geometry.dimensions; ++d) {
        const int32_t x = w.lanes<const int32_t>(a.coordinate[d])[lane];
        place += std::string(d ? ", " : "") + "xyz"[d] + " = " + std::to_string(x);
        if (d == 0) place += " bytes";
    }
    if (a.layer != no_operand)
        place += ", layer " + std::to_string(w.lanes<const int32_t>(a.layer)[lane]);
    std::string size = std::to_string(uint64_t{o.width} * o.texel_bytes()) + " bytes";
    if (o.dimensions >= 2) size += " x " + std::to_string(o.height);
    if (o.dimensions >= 3) size += " x " + std::to_string(o.depth);
    if (o.layers > 1) size += ", with " + std::to_string(o.layers) + " layers";
    if (fault == Fault::misaligned)
        return {
            what + " of " + name + " at a byte that is not a multiple of " + std::to_string(bytes),
            "the access is at " + place +
                "; the first coordinate of a surface access counts bytes, not elements"};
    return {what + " outside " + name,
            "the access is at " + place + ", but the surface has " + size +
                "; the first coordinate of a surface access counts bytes, not elements"};
}

#define COALESCE_TEXTURE_HANDLERS(watch)                          \
    template void fetch_texture<Watch::watch>(Warp&, const Op&);  \
    template void gather_texture<Watch::watch>(Warp&, const Op&); \
    template void load_surface<Watch::watch>(Warp&, const Op&);   \
    template void store_surface<Watch::watch>(Warp&, const Op&);
COALESCE_TEXTURE_HANDLERS(nothing)
COALESCE_TEXTURE_HANDLERS(accesses)
COALESCE_TEXTURE_HANDLERS(faults)
#undef COALESCE_TEXTURE_HANDLERS

}  // namespace coalesce::sim
