// Functions that copy and fill bytes, rows, boxes and variables.
#include <algorithm>

#include "cudart/state/api.hpp"
#include "cudart/state/runtime.hpp"
#include "cudart/state/work.hpp"

namespace coalesce::cudart {

CopyWork copy_of(void* to, const void* from, size_t bytes, CopyKind kind) {
    CopyWork c;
    c.to = static_cast<std::byte*>(to);
    c.from = static_cast<const std::byte*>(from);
    c.width = bytes;
    c.kind = kind;
    require(int(kind) >= 0 && int(kind) <= 4, cudaErrorInvalidMemcpyDirection);
    return c;
}

CopyWork copy_to_symbol(const void* symbol, const void* from, size_t bytes, size_t offset,
                        CopyKind kind) {
    const auto [address, size] = runtime().modules.variable(symbol);
    require(offset <= size && bytes <= size - offset, cudaErrorInvalidValue,
            "cudaMemcpyToSymbol() would write past the end of the variable");
    return copy_of(reinterpret_cast<void*>(address + offset), from, bytes, kind);
}

CopyWork copy_from_symbol(void* to, const void* symbol, size_t bytes, size_t offset,
                          CopyKind kind) {
    const auto [address, size] = runtime().modules.variable(symbol);
    require(offset <= size && bytes <= size - offset, cudaErrorInvalidValue,
            "cudaMemcpyFromSymbol() would read past the end of the variable");
    return copy_of(to, reinterpret_cast<void*>(address + offset), bytes, kind);
}

namespace {

CopyWork rows(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
              size_t height, CopyKind kind) {
    require(height <= 1 || (width <= to_pitch && width <= from_pitch &&
                            std::max(to_pitch, from_pitch) <= max_pitch),
            cudaErrorInvalidPitchValue);
    CopyWork c = copy_of(to, from, width, kind);
    c.height = height, c.to_pitch = to_pitch, c.from_pitch = from_pitch;
    return c;
}

SetWork fill(void* to, size_t pitch, int value, size_t width, size_t height) {
    SetWork s;
    s.to = static_cast<std::byte*>(to);
    s.pitch = pitch, s.value = uint32_t(value) & 0xff, s.width = width, s.height = height;
    require(height <= 1 || (width <= pitch && pitch <= max_pitch), cudaErrorInvalidValue);
    return s;
}

// Fills a box. A box consists of slices, and a slice consists of rows. Each slice is filled
// separately, because the memory may have other rows between two slices of the box.
void fill_box(const PitchedPointer& p, int value, const Extent& e, Stream stream) {
    require(e.depth <= 1 || e.height <= p.ysize, cudaErrorInvalidValue,
            "a slice of the box has more rows than a slice of the memory (ysize)");
    if (e.width == 0 || e.height == 0) return;
    size_t slice = 0;
    require(
        e.depth <= 1 || (e.width <= p.pitch && !__builtin_mul_overflow(p.pitch, p.ysize, &slice)),
        cudaErrorInvalidValue, "the pitch is smaller than a row, or a slice is too large");
    (void)runtime().memory.view(p.ptr, extent(e.width, p.pitch, e.height, slice, e.depth),
                                "cudaMemset3D(): the destination");
    for (size_t z = 0; z < e.depth; ++z)
        submit(fill(static_cast<char*>(p.ptr) + z * slice, p.pitch, value, e.width, e.height),
               stream);
}

Copy3D plain(const Copy3DPeer& p) {
    return {p.srcArray, p.srcPos, p.srcPtr, p.dstArray,
            p.dstPos,   p.dstPtr, p.extent, CopyKind::any};
}

// Throws if a capture forbids work in the default stream.
void refuse_in_capture() {
    Streams& streams = runtime().streams;
    streams.refuse_implicit_wait(nullptr);
    streams.refuse_in_capture();
}

}  // namespace

void core::cudaMemcpy(void* to, const void* from, size_t bytes, CopyKind kind) {
    if (bytes) refuse_in_capture();
    const CopyWork copy = copy_of(to, from, bytes, kind);
    if (bytes) submit(copy, nullptr);
}
void core::cudaMemcpyAsync(void* to, const void* from, size_t bytes, CopyKind kind, Stream s) {
    submit(copy_of(to, from, bytes, kind), s);
}
void core::cudaMemcpyPeer(void* to, int to_device, const void* from, int from_device,
                          size_t bytes) {
    require(to_device == 0 && from_device == 0, cudaErrorInvalidDevice);
    submit(copy_of(to, from, bytes, CopyKind::device_to_device), nullptr);
}
void core::cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device,
                               size_t bytes, Stream s) {
    require(to_device == 0 && from_device == 0, cudaErrorInvalidDevice);
    submit(copy_of(to, from, bytes, CopyKind::device_to_device), s);
}
void core::cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                        size_t width, size_t height, CopyKind kind) {
    submit(rows(to, to_pitch, from, from_pitch, width, height, kind), nullptr);
}
void core::cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                             size_t width, size_t height, CopyKind kind, Stream s) {
    submit(rows(to, to_pitch, from, from_pitch, width, height, kind), s);
}
void core::cudaMemcpy3D(const Copy3D* p) {
    require(p, cudaErrorInvalidValue);
    submit(copy_of(*p), nullptr);
}
void core::cudaMemcpy3DAsync(const Copy3D* p, Stream s) {
    require(p, cudaErrorInvalidValue);
    submit(copy_of(*p), s);
}
void core::cudaMemcpy3DPeer(const Copy3DPeer* p) {
    require(p && p->srcDevice == 0 && p->dstDevice == 0, cudaErrorInvalidValue);
    submit(copy_of(plain(*p)), nullptr);
}
void core::cudaMemcpy3DPeerAsync(const Copy3DPeer* p, Stream s) {
    require(p && p->srcDevice == 0 && p->dstDevice == 0, cudaErrorInvalidValue);
    submit(copy_of(plain(*p)), s);
}

void core::cudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes, size_t offset,
                              CopyKind kind) {
    submit(copy_to_symbol(symbol, from, bytes, offset, kind), nullptr);
}
void core::cudaMemcpyToSymbolAsync(const void* symbol, const void* from, size_t bytes,
                                   size_t offset, CopyKind kind, Stream s) {
    submit(copy_to_symbol(symbol, from, bytes, offset, kind), s);
}
void core::cudaMemcpyFromSymbol(void* to, const void* symbol, size_t bytes, size_t offset,
                                CopyKind kind) {
    submit(copy_from_symbol(to, symbol, bytes, offset, kind), nullptr);
}
void core::cudaMemcpyFromSymbolAsync(void* to, const void* symbol, size_t bytes, size_t offset,
                                     CopyKind kind, Stream s) {
    submit(copy_from_symbol(to, symbol, bytes, offset, kind), s);
}
void core::cudaGetSymbolAddress(void** pointer, const void* symbol) {
    require(pointer, cudaErrorInvalidValue);
    *pointer = reinterpret_cast<void*>(runtime().modules.variable(symbol).first);
}
void core::cudaGetSymbolSize(size_t* bytes, const void* symbol) {
    require(bytes, cudaErrorInvalidValue);
    *bytes = runtime().modules.variable(symbol).second;
}

void core::cudaMemset(void* to, int value, size_t bytes) {
    if (!bytes) return;
    refuse_in_capture();
    submit(fill(to, 0, value, bytes, 1), nullptr);
}
void core::cudaMemsetAsync(void* to, int value, size_t bytes, Stream s) {
    submit(fill(to, 0, value, bytes, 1), s);
}
void core::cudaMemset2D(void* to, size_t pitch, int value, size_t width, size_t height) {
    submit(fill(to, pitch, value, width, height), nullptr);
}
void core::cudaMemset2DAsync(void* to, size_t pitch, int value, size_t width, size_t height,
                             Stream s) {
    submit(fill(to, pitch, value, width, height), s);
}
void core::cudaMemset3D(PitchedPointer p, int value, Extent extent) {
    fill_box(p, value, extent, nullptr);
}
void core::cudaMemset3DAsync(PitchedPointer p, int value, Extent extent, Stream s) {
    fill_box(p, value, extent, s);
}

}  // namespace coalesce::cudart
