// Functions that create texture and surface objects.
#include "cudart/state/api.hpp"
#include "cudart/state/arrays.hpp"
#include "cudart/state/runtime.hpp"

namespace coalesce::cudart {

CUDART(cudaCreateTextureObject)
(TextureHandle* object, const ResourceDescription* resource, const TextureDescription* texture,
 const ResourceView* view) {
    return call("cudaCreateTextureObject", Waits::no, [&] {
        require(object && resource && texture, cudaErrorInvalidValue);
        if (view) {
            print_once("coalesce: texture objects with a resource view are not simulated");
            throw Failure{cudaErrorNotSupported};
        }
        *object = create_object(*resource, texture, "cudaCreateTextureObject");
    });
}

CUDART(cudaDestroyTextureObject)(TextureHandle object) {
    return call("cudaDestroyTextureObject", Waits::no,
                [&] { destroy_object(object, false, "cudaDestroyTextureObject"); });
}

CUDART(cudaGetTextureObjectResourceDesc)(ResourceDescription* resource, TextureHandle object) {
    return call("cudaGetTextureObjectResourceDesc", Waits::no, [&] {
        require(resource, cudaErrorInvalidValue);
        *resource = object_of_handle(object, false, "cudaGetTextureObjectResourceDesc").resource;
    });
}

CUDART(cudaGetTextureObjectTextureDesc)(TextureDescription* texture, TextureHandle object) {
    return call("cudaGetTextureObjectTextureDesc", Waits::no, [&] {
        require(texture, cudaErrorInvalidValue);
        *texture = object_of_handle(object, false, "cudaGetTextureObjectTextureDesc").texture;
    });
}

// This library refuses resource views, so no texture object has one.
CUDART(cudaGetTextureObjectResourceViewDesc)(ResourceView* view, TextureHandle object) {
    return call("cudaGetTextureObjectResourceViewDesc", Waits::no, [&] {
        (void)object_of_handle(object, false, "cudaGetTextureObjectResourceViewDesc");
        require(view && false, cudaErrorInvalidValue);
    });
}

CUDART(cudaCreateSurfaceObject)(TextureHandle* object, const ResourceDescription* resource) {
    return call("cudaCreateSurfaceObject", Waits::no, [&] {
        require(object && resource, cudaErrorInvalidValue);
        *object = create_object(*resource, nullptr, "cudaCreateSurfaceObject");
    });
}

CUDART(cudaDestroySurfaceObject)(TextureHandle object) {
    return call("cudaDestroySurfaceObject", Waits::no,
                [&] { destroy_object(object, true, "cudaDestroySurfaceObject"); });
}

CUDART(cudaGetSurfaceObjectResourceDesc)(ResourceDescription* resource, TextureHandle object) {
    return call("cudaGetSurfaceObjectResourceDesc", Waits::no, [&] {
        require(resource, cudaErrorInvalidValue);
        *resource = object_of_handle(object, true, "cudaGetSurfaceObjectResourceDesc").resource;
    });
}

// Texture references, which CUDA 12 removed.
CUDART(__cudaBindTexture)
(TextureHandle* object, size_t* offset, const ResourceDescription* resource,
 const TextureDescription* texture) {
    return call(binding_function, Waits::no, [&] {
        require(object && resource && texture, cudaErrorInvalidValue);
        uint64_t handle = *object;
        const uint64_t bytes = bind_texture(handle, *resource, *texture);
        *object = handle;
        require(offset || bytes == 0, cudaErrorInvalidValue,
                "a texture reference was bound to a pointer that is not a multiple of 512 bytes; "
                "in this case, the parameter `offset` must not be null");
        if (offset) *offset = bytes;
    });
}

CUDART(__cudaUnbindTexture)(TextureHandle* object) {
    return call("cudaUnbindTexture", Waits::no, [&] {
        require(object, cudaErrorInvalidValue);
        destroy_object(*object, false, "cudaUnbindTexture");
        *object = 0;
    });
}

// This limit holds for compute capability 9.0 (CUDA C++ Programming Guide, "Technical
// Specifications per Compute Capability").
CUDART(cudaDeviceGetTexture1DLinearMaxWidth)
(size_t* width, const ChannelFormat* channel, int device) {
    return call("cudaDeviceGetTexture1DLinearMaxWidth", Waits::no, [&] {
        require(width && channel && device == 0, cudaErrorInvalidValue);
        *width = size_t{1} << 28;
    });
}

}  // namespace coalesce::cudart
