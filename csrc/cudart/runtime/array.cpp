// Functions that allocate CUDA arrays and copy to and from them.
#include <algorithm>

#include "cudart/state/api.hpp"
#include "cudart/state/arrays.hpp"
#include "cudart/state/runtime.hpp"

namespace coalesce::cudart {

namespace {

Array array_handle(uint64_t address) { return reinterpret_cast<Array>(address); }

// Returns the description of a copy of rows. The caller then replaces the source or the destination
// of this copy by an array.
CopyWork array_rows(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                    size_t height, CopyKind kind) {
    CopyWork c = copy_of(to, from, width, kind);
    c.height = height, c.to_pitch = to_pitch, c.from_pitch = from_pitch;
    return c;
}

CopyWork to_array(Array array, size_t x, size_t y, const void* from, size_t pitch, size_t width,
                  size_t height, CopyKind kind) {
    const ArrayInfo& info = array_of(array);
    require(height <= 1 || (width <= pitch && pitch <= max_pitch), cudaErrorInvalidPitchValue);
    CopyWork c = array_rows(nullptr, 0, from, pitch, width, height, kind);
    copy_to(c, {&info, x, y});
    return c;
}

CopyWork from_array(void* to, size_t pitch, Array array, size_t x, size_t y, size_t width,
                    size_t height, CopyKind kind) {
    const ArrayInfo& info = array_of(array);
    require(height <= 1 || (width <= pitch && pitch <= max_pitch), cudaErrorInvalidPitchValue);
    CopyWork c = array_rows(to, pitch, nullptr, 0, width, height, kind);
    copy_from(c, {&info, x, y});
    return c;
}

CopyWork between_arrays(Array to, size_t to_x, size_t to_y, Array from, size_t from_x,
                        size_t from_y, size_t width, size_t height, CopyKind kind) {
    CopyWork c = array_rows(nullptr, 0, nullptr, 0, width, height, kind);
    copy_to(c, {&array_of(to), to_x, to_y});
    copy_from(c, {&array_of(from), from_x, from_y});
    return c;
}

// Returns the description of a copy of `count` bytes, which may fill several rows of an array. The
// older functions of the API need it. The simulator stores the rows of an array without gaps, so
// the bytes can be copied at once.
CopyWork bytes_of_rows(Array array, size_t x, size_t y, size_t count, CopyKind kind,
                       uint64_t& address) {
    const ArrayInfo& info = array_of(array);
    const sim::TextureObject& s = info.shape;
    const size_t all = s.slice_bytes_of(0), at = y * s.row_bytes + x;
    require(x <= s.row_bytes && y <= s.height && at <= all && count <= all - at,
            cudaErrorInvalidValue, "a copy goes past the end of the CUDA array");
    address = info.address + at;
    return copy_of(nullptr, nullptr, count, kind);
}

CopyWork bytes_to(Array array, size_t x, size_t y, const void* from, size_t count, CopyKind kind) {
    uint64_t address = 0;
    CopyWork c = bytes_of_rows(array, x, y, count, kind, address);
    c.to = reinterpret_cast<std::byte*>(address);
    c.from = static_cast<const std::byte*>(from);
    c.to_array = true;
    return c;
}

CopyWork bytes_from(void* to, Array array, size_t x, size_t y, size_t count, CopyKind kind) {
    uint64_t address = 0;
    CopyWork c = bytes_of_rows(array, x, y, count, kind, address);
    c.to = static_cast<std::byte*>(to);
    c.from = reinterpret_cast<const std::byte*>(address);
    c.from_array = true;
    return c;
}

}  // namespace

// Returns the description of a copy. If the copy has an array, its extent and positions count
// texels. Otherwise they count bytes.
CopyWork copy_of(const Copy3D& p) {
    // Returns the address at which one side of the copy starts in pitched memory.
    const auto at = [&](const PitchedPointer& base, const Position& pos) {
        size_t row = 0, offset = 0;
        const bool overflows = __builtin_mul_overflow(pos.z, base.ysize, &row) ||
                               __builtin_add_overflow(row, pos.y, &row) ||
                               __builtin_mul_overflow(row, base.pitch, &offset) ||
                               __builtin_add_overflow(offset, pos.x, &offset);
        // A start before the memory is also a mistake, although its address may be valid.
        require(!overflows && offset < arena_bytes, cudaErrorInvalidValue,
                "the position of a copy is too large");
        require(p.extent.depth <= 1 || p.extent.height <= base.ysize, cudaErrorInvalidValue,
                "a slice of the copy has more rows than a slice of the memory (ysize)");
        return static_cast<char*>(base.ptr) + offset;
    };
    const ArrayInfo* const to = p.dstArray ? &array_of(p.dstArray) : nullptr;
    const ArrayInfo* const from = p.srcArray ? &array_of(p.srcArray) : nullptr;
    const ArrayInfo* const one = to ? to : from;
    const size_t texel = one ? one->shape.texel_bytes() : 1;
    require(!to || !from || from->shape.texel_bytes() == texel, cudaErrorInvalidValue,
            "the texels of the two arrays of a copy have different sizes");
    const auto bytes_of = [&](size_t texels) {
        require(texels <= SIZE_MAX / texel, cudaErrorInvalidValue);
        return texels * texel;
    };
    const size_t width = bytes_of(p.extent.width);
    CopyWork c = copy_of(to ? nullptr : at(p.dstPtr, p.dstPos),
                         from ? nullptr : at(p.srcPtr, p.srcPos), width, p.kind);
    require(p.extent.height <= 1 ||
                ((to || (width <= p.dstPtr.pitch && p.dstPtr.pitch <= max_pitch)) &&
                 (from || (width <= p.srcPtr.pitch && p.srcPtr.pitch <= max_pitch))),
            cudaErrorInvalidPitchValue);
    c.height = p.extent.height, c.depth = p.extent.depth;
    const auto slice = [&](const PitchedPointer& base) {
        size_t bytes = 0;
        const bool overflows = __builtin_mul_overflow(base.pitch, base.ysize, &bytes);
        require(!overflows || p.extent.depth <= 1, cudaErrorInvalidValue);
        return bytes;
    };
    c.to_pitch = p.dstPtr.pitch, c.to_slice = to ? 0 : slice(p.dstPtr);
    c.from_pitch = p.srcPtr.pitch, c.from_slice = from ? 0 : slice(p.srcPtr);
    if (to) copy_to(c, {to, bytes_of(p.dstPos.x), p.dstPos.y, p.dstPos.z});
    if (from) copy_from(c, {from, bytes_of(p.srcPos.x), p.srcPos.y, p.srcPos.z});
    return c;
}

void core::cudaMallocArray(Array* array, const ChannelFormat* channel, size_t width, size_t height,
                           unsigned flags) {
    require(array && channel, cudaErrorInvalidValue);
    *array = array_handle(allocate_array(*channel, {width, height, 0}, flags));
}

void core::cudaMalloc3DArray(Array* array, const ChannelFormat* channel, Extent extent,
                             unsigned flags) {
    require(array && channel, cudaErrorInvalidValue);
    *array = array_handle(allocate_array(*channel, extent, flags));
}

void core::cudaFreeArray(Array array) {
    if (array) free_array(reinterpret_cast<uint64_t>(array), false);
}

void core::cudaMallocMipmappedArray(Mipmap* array, const ChannelFormat* channel, Extent extent,
                                    unsigned levels, unsigned flags) {
    require(array && channel && levels > 0, cudaErrorInvalidValue);
    // Each level halves the extents. So the last possible level is the one at which the largest
    // extent is 1. Further levels are left out.
    size_t most = 1;
    const size_t depth = flags & array_flag::layered ? 0 : extent.depth;
    for (size_t n = std::max({extent.width, extent.height, depth}); n > 1; n /= 2) ++most;
    *array = reinterpret_cast<Mipmap>(
        allocate_array(*channel, extent, flags, uint32_t(std::min<size_t>(levels, most))));
}

void core::cudaFreeMipmappedArray(Mipmap array) {
    if (array) free_array(reinterpret_cast<uint64_t>(array), true);
}

void core::cudaGetMipmappedArrayLevel(Array* level_array, Mipmap array, unsigned level) {
    require(level_array, cudaErrorInvalidValue);
    *level_array = level_of(array, level);
}

void core::cudaArrayGetInfo(ChannelFormat* channel, Extent* extent, unsigned* flags, Array array) {
    const ArrayInfo& info = array_of(array);
    if (channel) *channel = info.channel;
    if (extent) *extent = info.extent;
    if (flags) *flags = info.flags;
}

void core::cudaGetChannelDesc(ChannelFormat* channel, Array array) {
    require(channel, cudaErrorInvalidValue);
    *channel = array_of(array).channel;
}

void core::cudaMemcpy2DToArray(Array to, size_t x, size_t y, const void* from, size_t pitch,
                               size_t width, size_t height, CopyKind kind) {
    submit(to_array(to, x, y, from, pitch, width, height, kind), nullptr);
}
void core::cudaMemcpy2DToArrayAsync(Array to, size_t x, size_t y, const void* from, size_t pitch,
                                    size_t width, size_t height, CopyKind kind, Stream s) {
    submit(to_array(to, x, y, from, pitch, width, height, kind), s);
}
void core::cudaMemcpy2DFromArray(void* to, size_t pitch, Array from, size_t x, size_t y,
                                 size_t width, size_t height, CopyKind kind) {
    submit(from_array(to, pitch, from, x, y, width, height, kind), nullptr);
}
void core::cudaMemcpy2DFromArrayAsync(void* to, size_t pitch, Array from, size_t x, size_t y,
                                      size_t width, size_t height, CopyKind kind, Stream s) {
    submit(from_array(to, pitch, from, x, y, width, height, kind), s);
}
void core::cudaMemcpy2DArrayToArray(Array to, size_t to_x, size_t to_y, Array from, size_t from_x,
                                    size_t from_y, size_t width, size_t height, CopyKind kind) {
    submit(between_arrays(to, to_x, to_y, from, from_x, from_y, width, height, kind), nullptr);
}
void core::cudaMemcpyToArray(Array to, size_t x, size_t y, const void* from, size_t count,
                             CopyKind kind) {
    submit(bytes_to(to, x, y, from, count, kind), nullptr);
}
void core::cudaMemcpyToArrayAsync(Array to, size_t x, size_t y, const void* from, size_t count,
                                  CopyKind kind, Stream s) {
    submit(bytes_to(to, x, y, from, count, kind), s);
}
void core::cudaMemcpyFromArray(void* to, Array from, size_t x, size_t y, size_t count,
                               CopyKind kind) {
    submit(bytes_from(to, from, x, y, count, kind), nullptr);
}
void core::cudaMemcpyFromArrayAsync(void* to, Array from, size_t x, size_t y, size_t count,
                                    CopyKind kind, Stream s) {
    submit(bytes_from(to, from, x, y, count, kind), s);
}
void core::cudaMemcpyArrayToArray(Array to, size_t to_x, size_t to_y, Array from, size_t from_x,
                                  size_t from_y, size_t count, CopyKind kind) {
    CopyWork c = bytes_to(to, to_x, to_y, nullptr, count, kind);
    c.from = bytes_from(nullptr, from, from_x, from_y, count, kind).from;
    c.from_array = true;
    submit(c, nullptr);
}

}  // namespace coalesce::cudart
