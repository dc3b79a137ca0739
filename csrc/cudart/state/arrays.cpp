#include "cudart/state/arrays.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <string>

#include "cudart/state/api.hpp"
#include "cudart/state/runtime.hpp"

namespace coalesce::cudart {

namespace {

// Values of cudaChannelFormatKind, cudaResourceType, cudaTextureReadMode, cudaTextureFilterMode.
constexpr int signed_channels = 0, unsigned_channels = 1, floating_channels = 2;
constexpr int of_array = 0, of_mipmap = 1, of_linear = 2, of_pitched = 3;
constexpr int read_normalized = 1, filter_linear = 1;
// Alignments of texture memory, as cudaDeviceProp has them.
constexpr uint64_t base_alignment = 512, pitch_alignment = 32;

uint64_t number_of(const void* handle) { return reinterpret_cast<uint64_t>(handle); }

void take_channels(const ChannelFormat& c, sim::TextureObject& shape) {
    const int bits[] = {c.x, c.y, c.z, c.w};
    const auto count = size_t(std::count_if(bits, bits + 4, [](int n) { return n != 0; }));
    const bool same = std::all_of(bits, bits + count, [&](int n) { return n == c.x; });
    const bool kinds = c.f >= signed_channels && c.f <= floating_channels;
    require(kinds && same && (count == 1 || count == 2 || count == 4) &&
                (c.x == 8 || c.x == 16 || c.x == 32) && !(c.f == floating_channels && c.x == 8),
            cudaErrorInvalidChannelDescriptor,
            "a channel description must have 1, 2 or 4 channels: integers of 8, 16 or 32 bits, or "
            "floats of 16 or 32 bits");
    shape.channels = uint8_t(count);
    shape.channel_bits = uint8_t(c.x);
    shape.kind = c.f == signed_channels     ? sim::TexelKind::integer
                 : c.f == unsigned_channels ? sim::TexelKind::unsigned_integer
                                            : sim::TexelKind::floating;
    shape.row_bytes = uint64_t{shape.width} * shape.texel_bytes();
}

// Throws for a handle of the wrong kind. `what` is "array" or the like.
[[noreturn]] void refuse(uint64_t handle, const char* what) {
    Memory& memory = runtime().memory;
    const std::string before = memory.freed_at(handle);
    const Allocation* const a = memory.find(handle);
    throw Failure{cudaErrorInvalidValue,
                  std::string(called()) + "() was called with " +
                      (!before.empty() ? "a " + std::string(what) + " that was freed: " + before
                       : a ? a->described() + ", which is not a " + what
                           : std::string("a value that is not the handle of a ") + what)};
}

const ArrayInfo& find(const std::map<uint64_t, ArrayInfo>& all, uint64_t handle, const char* what) {
    const auto known = all.find(handle);
    if (known == all.end()) refuse(handle, what);
    return known->second;
}

// Throws if an extent of an array is larger than that of any array of this kind.
void check_extent(const Extent& e, unsigned flags, bool mipmapped) {
    using namespace array_flag;
    constexpr const ArrayLimits& most = array_limits;
    const auto within = [&](size_t width, size_t height, size_t depth) {
        return e.width <= width && e.height <= height && e.depth <= depth;
    };
    bool fits = true;
    for (const bool as_surface : {false, true}) {
        if (as_surface && !(flags & surface)) continue;
        const auto one_of = [&](const auto& of_texture, const auto& of_surface) -> const auto& {
            return as_surface ? of_surface : of_texture;
        };
        if (flags & cube) {
            const auto& layered_cube = one_of(most.texture_cube_layered, most.surface_cube_layered);
            const size_t side =
                flags & layered ? layered_cube[0] : one_of(most.texture_cube, most.surface_cube);
            fits = fits && within(side, side, flags & layered ? layered_cube[1] : 6);
        } else if (flags & layered && e.height == 0) {
            const auto& l = one_of(most.texture_1d_layered, most.surface_1d_layered);
            fits = fits && within(l[0], 0, l[1]);
        } else if (flags & layered) {
            const auto& l = one_of(most.texture_2d_layered, most.surface_2d_layered);
            fits = fits && within(l[0], l[1], l[2]);
        } else if (e.height == 0) {
            const int of_texture = mipmapped ? most.texture_1d_mipmap : most.texture_1d;
            fits = fits && within(one_of(of_texture, most.surface_1d), 0, 0);
        } else if (e.depth == 0) {
            const auto& of_texture = mipmapped        ? most.texture_2d_mipmap
                                     : flags & gather ? most.texture_2d_gather
                                                      : most.texture_2d;
            const auto& l = one_of(of_texture, most.surface_2d);
            fits = fits && within(l[0], l[1], 0);
        } else {
            const auto& l = one_of(most.texture_3d, most.surface_3d);
            const auto& other = one_of(most.texture_3d_alternative, most.surface_3d);
            fits = fits && (within(l[0], l[1], l[2]) || within(other[0], other[1], other[2]));
        }
    }
    require(fits, cudaErrorInvalidValue,
            "the array is larger than the GPU supports; cudaGetDeviceProperties() returns the "
            "largest extents");
}

sim::TextureObject shape_of(const ChannelFormat& channel, const Extent& e, unsigned flags,
                            uint32_t levels) {
    using namespace array_flag;
    const auto number = [](size_t n) {
        require(n <= UINT32_MAX, cudaErrorInvalidValue);
        return uint32_t(std::max<size_t>(n, 1));
    };
    require(e.width > 0 && !(flags & ~(layered | surface | cube | gather)), cudaErrorInvalidValue,
            "an array needs a width, and no flags except cudaArrayLayered, "
            "cudaArraySurfaceLoadStore, cudaArrayCubemap and cudaArrayTextureGather");
    check_extent(e, flags, levels > 1);
    sim::TextureObject s;
    s.width = number(e.width), s.height = number(e.height);
    s.cube = (flags & cube) != 0, s.layered = (flags & layered) != 0;
    (s.cube || s.layered ? s.layers : s.depth) = number(e.depth);
    s.dimensions = e.height == 0 ? 1 : s.layered || s.cube || e.depth == 0 ? 2 : 3;
    s.levels = levels;
    s.max_level = float(levels - 1);
    s.surface = true;  // it has no sampler
    take_channels(channel, s);
    require(!s.layered || e.depth > 0, cudaErrorInvalidValue, "a layered array needs a depth");
    require(e.depth == 0 || e.height > 0 || s.layered, cudaErrorInvalidValue,
            "an array with a depth needs a height");
    require(
        !s.cube || (s.layered ? s.layers % 6 == 0 : s.layers == 6), cudaErrorInvalidValue,
        "the depth of a cube map must be 6, and the depth of a layered cube map a multiple of 6");
    const std::string wrong = sim::problem(s);
    if (!wrong.empty()) throw Failure{cudaErrorInvalidValue, wrong};
    return s;
}

void place(std::byte*& at, size_t& pitch, size_t& slice, const CopyWork& c, const ArrayEnd& end,
           const char* side) {
    const sim::TextureObject& s = end.array->shape;
    const size_t slices = std::max(s.depth, s.layers), row = s.row_bytes;
    const auto within = [](size_t start, size_t count, size_t size) {
        return start <= size && count <= size - start;
    };
    if (!within(end.x, c.width, row) || !within(end.y, c.height, s.height) ||
        !within(end.z, c.depth, slices)) {
        const auto box = [](size_t x, size_t y, size_t z) {
            return std::to_string(x) + " bytes, " + std::to_string(y) +
                   (y == 1 ? " row" : " rows") + " and " + std::to_string(z) +
                   (z == 1 ? " slice" : " slices");
        };
        throw Failure{cudaErrorInvalidValue,
                      std::string(c.function) + "(): the " + side + ", " +
                          box(c.width, c.height, c.depth) + " from (" + std::to_string(end.x) +
                          ", " + std::to_string(end.y) + ", " + std::to_string(end.z) +
                          "), is not within the array of " + box(row, s.height, slices)};
    }
    pitch = row, slice = s.slice_bytes_of(0);
    at = reinterpret_cast<std::byte*>(end.array->address + end.x + end.y * pitch + end.z * slice);
}

}  // namespace

uint64_t allocate_array(const ChannelFormat& channel, const Extent& extent, unsigned flags,
                        uint32_t levels) {
    ArrayInfo info;
    info.shape = shape_of(channel, extent, flags, std::max(1u, levels));
    info.channel = channel, info.extent = extent, info.flags = flags;
    Allocation& a = runtime().memory.allocate(info.shape.bytes(), Kind::array, flags);
    // Kernels write to arrays by surface instructions only.
    a.writable = false;
    info.address = info.shape.address = a.address;
    (levels ? runtime().arrays.mipmaps : runtime().arrays.arrays)[a.address] = info;
    return a.address;
}

void free_array(uint64_t handle, bool mipmapped) {
    Arrays& all = runtime().arrays;
    auto& of_kind = mipmapped ? all.mipmaps : all.arrays;
    const ArrayInfo info = find(of_kind, handle, mipmapped ? "mipmapped array" : "CUDA array");
    require(!info.is_level, cudaErrorInvalidValue,
            "a level of a mipmapped array cannot be freed alone; cudaFreeMipmappedArray() frees "
            "all levels");
    of_kind.erase(handle);
    if (mipmapped)
        std::erase_if(all.arrays,
                      [&](const auto& level) { return level.first - handle < info.shape.bytes(); });
    runtime().memory.release(handle);
}

const ArrayInfo& array_of(Array handle) {
    return find(runtime().arrays.arrays, number_of(handle), "CUDA array");
}

const ArrayInfo& mipmap_of(Mipmap handle) {
    return find(runtime().arrays.mipmaps, number_of(handle), "mipmapped array");
}

Array level_of(Mipmap handle, uint32_t level) {
    const ArrayInfo& whole = mipmap_of(handle);
    require(level < whole.shape.levels, cudaErrorInvalidValue,
            "the mipmapped array does not have this level");
    ArrayInfo info = whole;
    sim::TextureObject& s = info.shape;
    info.address += whole.shape.offset_of(level);
    s.width = whole.shape.width_of(level);
    s.height = whole.shape.height_of(level);
    s.depth = whole.shape.depth_of(level);
    s.row_bytes = whole.shape.row_bytes_of(level);
    s.levels = 1, s.max_level = 0, s.address = info.address;
    info.extent.width = s.width;
    if (info.extent.height) info.extent.height = s.height;
    if (info.extent.depth && !s.layered && !s.cube) info.extent.depth = s.depth;
    info.is_level = true;
    runtime().arrays.arrays[info.address] = info;
    return reinterpret_cast<Array>(info.address);
}

void forget_freed_arrays() {
    const auto freed = [](const auto& entry) { return !runtime().memory.find(entry.first); };
    std::erase_if(runtime().arrays.arrays, freed);
    std::erase_if(runtime().arrays.mipmaps, freed);
    std::erase_if(runtime().arrays.objects, freed);
}

void copy_to(CopyWork& c, const ArrayEnd& end) {
    place(c.to, c.to_pitch, c.to_slice, c, end, "destination");
    c.to_array = true;
}

void copy_from(CopyWork& c, const ArrayEnd& end) {
    std::byte* at = nullptr;
    place(at, c.from_pitch, c.from_slice, c, end, "source");
    c.from = at;
    c.from_array = true;
}

namespace {

// Fills in linear or pitched memory.
void take_memory(sim::TextureObject& o, const void* pointer, uint64_t bytes) {
    o.address = number_of(pointer);
    require(o.address % base_alignment == 0, cudaErrorInvalidValue,
            "the memory of a texture object must begin at a multiple of 512 bytes");
    const Memory::View view =
        runtime().memory.view(pointer, bytes, (std::string(called()) + "(): the memory").c_str());
    const bool plain = view.allocation && view.allocation->kind != Kind::array &&
                       view.allocation->kind != Kind::object;
    require(plain, cudaErrorInvalidValue, "the memory of a texture object must be device memory");
}

sim::TextureObject described(const ResourceDescription& r, bool surface) {
    sim::TextureObject o;
    switch (r.resType) {
        case of_array: {
            const ArrayInfo& array = array_of(r.res.array);
            require(!surface || (array.flags & array_flag::surface), cudaErrorInvalidValue,
                    "a surface object needs an array that was made with "
                    "cudaArraySurfaceLoadStore");
            o = array.shape;
            break;
        }
        case of_mipmap:
            require(
                !surface, cudaErrorInvalidValue,
                "a surface object needs a CUDA array, for example one level of a mipmapped array");
            o = mipmap_of(r.res.mipmap).shape;
            break;
        case of_linear: {
            require(!surface, cudaErrorInvalidValue, "a surface object needs a CUDA array");
            o.memory = sim::TextureMemory::linear;
            take_channels(r.res.linear.desc, o);
            const uint64_t texels = r.res.linear.sizeInBytes / o.texel_bytes();
            require(texels > 0 && texels <= UINT32_MAX, cudaErrorInvalidValue);
            o.width = uint32_t(texels);
            o.row_bytes = texels * o.texel_bytes();
            take_memory(o, r.res.linear.devPtr, o.row_bytes);
            break;
        }
        case of_pitched: {
            require(!surface, cudaErrorInvalidValue, "a surface object needs a CUDA array");
            const auto& p = r.res.pitch2D;
            const auto rows = size_t(array_limits.texture_2d_linear[1]);
            require(p.width > 0 && p.height > 0 && p.width <= UINT32_MAX && p.height <= rows,
                    cudaErrorInvalidValue);
            o.memory = sim::TextureMemory::pitched;
            o.dimensions = 2;
            o.width = uint32_t(p.width), o.height = uint32_t(p.height);
            take_channels(p.desc, o);
            require(
                p.pitchInBytes >= o.row_bytes && p.pitchInBytes % pitch_alignment == 0,
                cudaErrorInvalidValue,
                "the pitch of a texture object must be a multiple of 32 bytes and not smaller than "
                "a row");
            o.row_bytes = p.pitchInBytes;
            take_memory(o, p.devPtr, o.bytes());
            break;
        }
        default:
            throw Failure{cudaErrorInvalidValue, "the value of resType is not a cudaResourceType"};
    }
    o.surface = surface;
    return o;
}

void take_sampler(sim::TextureObject& o, const TextureDescription& t) {
    for (int d = 0; d < 3; ++d) {
        require(t.addressMode[d] >= 0 && t.addressMode[d] <= 3, cudaErrorInvalidValue);
        o.mode[d] = sim::AddressMode(t.addressMode[d]);
    }
    const bool linear = o.memory == sim::TextureMemory::linear;
    o.linear_filter = t.filterMode == filter_linear && !linear;
    o.normalized_coordinates = t.normalizedCoords != 0 && !linear;
    // The read mode applies to integers of 8 and 16 bits only.
    o.normalized_read =
        t.readMode == read_normalized && o.kind != sim::TexelKind::floating && o.channel_bits < 32;
    o.linear_between_levels = t.mipmapFilterMode == filter_linear;
    o.level_bias = t.mipmapLevelBias;
    o.min_level = t.minMipmapLevelClamp;
    o.max_level = t.maxMipmapLevelClamp;
    std::copy(std::begin(t.borderColor), std::end(t.borderColor), o.border);
    if (t.sRGB && o.channel_bits == 8) {
        print_once("coalesce: texture objects that convert from sRGB are not simulated");
        throw Failure{cudaErrorNotSupported};
    }
    if (t.seamlessCubemap && o.cube && o.linear_filter) {
        print_once("coalesce: filtering across the faces of a cube map is not simulated");
        throw Failure{cudaErrorNotSupported};
    }
    const bool floats = o.kind == sim::TexelKind::floating || o.normalized_read;
    require(!o.linear_filter || floats, cudaErrorInvalidFilterSetting,
            "cudaFilterModeLinear needs texels that are read as floats");
    require(o.levels == 1 || o.normalized_coordinates, cudaErrorInvalidNormSetting,
            "a mipmapped texture needs normalized coordinates");
}

}  // namespace

uint64_t create_object(const ResourceDescription& resource, const TextureDescription* texture) {
    sim::TextureObject o = described(resource, !texture);
    if (texture) take_sampler(o, *texture);
    const std::string wrong = sim::problem(o);
    if (!wrong.empty()) throw Failure{cudaErrorInvalidValue, wrong};
    const sim::TextureObjectBytes bytes = sim::encode(o);
    Allocation& a = runtime().memory.allocate(bytes.size(), Kind::object);
    a.writable = false;
    std::memcpy(a.host, bytes.data(), bytes.size());
    ObjectInfo& info = runtime().arrays.objects[a.address];
    info.resource = resource;
    if (texture) info.texture = *texture;
    info.surface = !texture;
    return a.address;
}

uint64_t bind_texture(uint64_t& object, ResourceDescription r, const TextureDescription& texture) {
    uint64_t offset = 0;
    if (r.resType == of_linear) {
        auto& linear = r.res.linear;
        offset = number_of(linear.devPtr) % base_alignment;
        linear.devPtr = static_cast<char*>(linear.devPtr) - offset;
        // By default, cudaBindTexture() gives no size. Then the texture ends where the memory ends.
        const Allocation* const a = runtime().memory.find(linear.devPtr);
        const uint64_t size = linear.sizeInBytes + offset;
        linear.sizeInBytes = a ? std::min(size, a->end() - number_of(linear.devPtr)) : size;
    }
    const uint64_t made = create_object(r, &texture);
    runtime().memory.find(made)->stays = true;
    if (object) destroy_object(object, false);
    object = made;
    return offset;
}

const ObjectInfo& object_of_handle(uint64_t handle, bool surface) {
    const auto known = runtime().arrays.objects.find(handle);
    if (known == runtime().arrays.objects.end() || known->second.surface != surface)
        refuse(handle, surface ? "surface object" : "texture object");
    return known->second;
}

void destroy_object(uint64_t handle, bool surface) {
    if (handle == 0) return;
    (void)object_of_handle(handle, surface);
    runtime().arrays.objects.erase(handle);
    runtime().memory.release(handle);
}

}  // namespace coalesce::cudart
