// Functions that create texture and surface objects.
#include "cudart/state/api.hpp"
#include "cudart/state/arrays.hpp"
#include "cudart/state/runtime.hpp"

namespace coalesce::cudart {

void core::cudaCreateTextureObject(TextureHandle* object, const ResourceDescription* resource,
                                   const TextureDescription* texture, const ResourceView* view) {
    require(object && resource && texture, cudaErrorInvalidValue);
    if (view) {
        print_once("coalesce: texture objects with a resource view are not simulated");
        throw Failure{cudaErrorNotSupported};
    }
    *object = create_object(*resource, texture);
}

void core::cudaDestroyTextureObject(TextureHandle object) { destroy_object(object, false); }

void core::cudaGetTextureObjectResourceDesc(ResourceDescription* resource, TextureHandle object) {
    require(resource, cudaErrorInvalidValue);
    *resource = object_of_handle(object, false).resource;
}

void core::cudaGetTextureObjectTextureDesc(TextureDescription* texture, TextureHandle object) {
    require(texture, cudaErrorInvalidValue);
    *texture = object_of_handle(object, false).texture;
}

// This library refuses resource views, so no texture object has one.
void core::cudaGetTextureObjectResourceViewDesc(ResourceView* view, TextureHandle object) {
    (void)object_of_handle(object, false);
    require(view && false, cudaErrorInvalidValue);
}

void core::cudaCreateSurfaceObject(TextureHandle* object, const ResourceDescription* resource) {
    require(object && resource, cudaErrorInvalidValue);
    *object = create_object(*resource, nullptr);
}

void core::cudaDestroySurfaceObject(TextureHandle object) { destroy_object(object, true); }

void core::cudaGetSurfaceObjectResourceDesc(ResourceDescription* resource, TextureHandle object) {
    require(resource, cudaErrorInvalidValue);
    *resource = object_of_handle(object, true).resource;
}

// Texture references, which CUDA 12 removed.
void core::__cudaBindTexture(TextureHandle* object, size_t* offset,
                             const ResourceDescription* resource,
                             const TextureDescription* texture) {
    require(object && resource && texture, cudaErrorInvalidValue);
    uint64_t handle = *object;
    const uint64_t bytes = bind_texture(handle, *resource, *texture);
    *object = handle;
    require(offset || bytes == 0, cudaErrorInvalidValue,
            "a texture reference was bound to a pointer that is not a multiple of 512 bytes; "
            "in this case, the parameter `offset` must not be null");
    if (offset) *offset = bytes;
}

void core::__cudaUnbindTexture(TextureHandle* object) {
    require(object, cudaErrorInvalidValue);
    destroy_object(*object, false);
    *object = 0;
}

// This limit holds for compute capability 9.0 (CUDA C++ Programming Guide, "Technical
// Specifications per Compute Capability").
void core::cudaDeviceGetTexture1DLinearMaxWidth(size_t* width, const ChannelFormat* channel,
                                                int device) {
    require(width && channel && device == 0, cudaErrorInvalidValue);
    *width = size_t{1} << 28;
}

}  // namespace coalesce::cudart
