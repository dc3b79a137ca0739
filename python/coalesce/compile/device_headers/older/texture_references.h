// Texture references, which CUDA 12 removed: texture<float, 1> t; tex1Dfetch(t, i).
//
// `coalesce run` includes this before a .cu file that declares texture references. A reference is
// an object in managed memory (see texture_references.py). When a program binds memory to a
// reference, this file creates a texture object, and stores the handle of the object in the
// reference.
#pragma once
#if defined(__cplusplus) && defined(CUDART_VERSION) && CUDART_VERSION >= 12000

struct textureReference {
    int normalized;
    cudaTextureFilterMode filterMode;
    cudaTextureAddressMode addressMode[3];
    cudaChannelFormatDesc channelDesc;
    int sRGB;
    unsigned maxAnisotropy;
    cudaTextureFilterMode mipmapFilterMode;
    float mipmapLevelBias, minMipmapLevelClamp, maxMipmapLevelClamp;
    int disableTrilinearOptimization;
    cudaTextureReadMode coalesceReadMode;
    cudaTextureObject_t coalesceObject;
};

// The channels of a texel, which nvcc stored in a reference.
template <class T>
struct coalesceChannels { static constexpr cudaChannelFormatDesc value{}; };
#define COALESCE_CHANNELS(type, bits, kind)                                         \
    template <>                                                                     \
    struct coalesceChannels<type##1> {                                              \
        static constexpr cudaChannelFormatDesc value{bits, 0, 0, 0, kind};          \
    };                                                                              \
    template <>                                                                     \
    struct coalesceChannels<type##2> {                                              \
        static constexpr cudaChannelFormatDesc value{bits, bits, 0, 0, kind};       \
    };                                                                              \
    template <>                                                                     \
    struct coalesceChannels<type##4> {                                              \
        static constexpr cudaChannelFormatDesc value{bits, bits, bits, bits, kind}; \
    };
COALESCE_CHANNELS(char, 8, cudaChannelFormatKindSigned)
COALESCE_CHANNELS(uchar, 8, cudaChannelFormatKindUnsigned)
COALESCE_CHANNELS(short, 16, cudaChannelFormatKindSigned)
COALESCE_CHANNELS(ushort, 16, cudaChannelFormatKindUnsigned)
COALESCE_CHANNELS(int, 32, cudaChannelFormatKindSigned)
COALESCE_CHANNELS(uint, 32, cudaChannelFormatKindUnsigned)
COALESCE_CHANNELS(float, 32, cudaChannelFormatKindFloat)
#undef COALESCE_CHANNELS
template <> struct coalesceChannels<char> : coalesceChannels<char1> {};
template <> struct coalesceChannels<signed char> : coalesceChannels<char1> {};
template <> struct coalesceChannels<unsigned char> : coalesceChannels<uchar1> {};
template <> struct coalesceChannels<short> : coalesceChannels<short1> {};
template <> struct coalesceChannels<unsigned short> : coalesceChannels<ushort1> {};
template <> struct coalesceChannels<int> : coalesceChannels<int1> {};
template <> struct coalesceChannels<unsigned int> : coalesceChannels<uint1> {};
template <> struct coalesceChannels<float> : coalesceChannels<float1> {};

template <class T, int type = cudaTextureType1D,
          cudaTextureReadMode mode = cudaReadModeElementType>
struct texture : textureReference {
    constexpr texture(int normalized = 0, cudaTextureFilterMode filter = cudaFilterModePoint,
                      cudaTextureAddressMode address = cudaAddressModeClamp,
                      cudaChannelFormatDesc channels = coalesceChannels<T>::value)
        : textureReference{normalized, filter, {address, address, address}, channels, 0, 0,
                           cudaFilterModePoint, 0, 0, 0, 0, mode, 0} {}
};

// The type of a fetched value: that of the texels, or floats.
template <class T>
struct coalesceFloats;
#define COALESCE_FLOATS(type) \
    template <>               \
    struct coalesceFloats<type> { using one = float; }; \
    template <>               \
    struct coalesceFloats<type##1> { using one = float1; }; \
    template <>               \
    struct coalesceFloats<type##2> { using one = float2; }; \
    template <>               \
    struct coalesceFloats<type##4> { using one = float4; };
typedef unsigned char coalesce_uchar;
typedef uchar1 coalesce_uchar1;
typedef uchar2 coalesce_uchar2;
typedef uchar4 coalesce_uchar4;
typedef unsigned short coalesce_ushort;
typedef ushort1 coalesce_ushort1;
typedef ushort2 coalesce_ushort2;
typedef ushort4 coalesce_ushort4;
COALESCE_FLOATS(char)
COALESCE_FLOATS(short)
COALESCE_FLOATS(coalesce_uchar)
COALESCE_FLOATS(coalesce_ushort)
#undef COALESCE_FLOATS
template <>
struct coalesceFloats<signed char> { using one = float; };

template <class T, cudaTextureReadMode mode>
struct coalesceFetched { using one = T; };
template <class T>
struct coalesceFetched<T, cudaReadModeNormalizedFloat> {
    using one = typename coalesceFloats<T>::one;
};

#ifdef __CUDACC__
#define COALESCE_FETCH(name, parameters, arguments)                                     \
    template <class T, int type, cudaTextureReadMode mode>                              \
    static __device__ __forceinline__ typename coalesceFetched<T, mode>::one name       \
        parameters {                                                                    \
        return name<typename coalesceFetched<T, mode>::one> arguments;                  \
    }
#define COALESCE_REFERENCE const texture<T, type, mode> &t
#define COALESCE_OBJECT t.coalesceObject
COALESCE_FETCH(tex1Dfetch, (COALESCE_REFERENCE, int x), (COALESCE_OBJECT, x))
COALESCE_FETCH(tex1D, (COALESCE_REFERENCE, float x), (COALESCE_OBJECT, x))
COALESCE_FETCH(tex2D, (COALESCE_REFERENCE, float x, float y), (COALESCE_OBJECT, x, y))
COALESCE_FETCH(tex3D, (COALESCE_REFERENCE, float x, float y, float z), (COALESCE_OBJECT, x, y, z))
COALESCE_FETCH(tex1DLayered, (COALESCE_REFERENCE, float x, int layer), (COALESCE_OBJECT, x, layer))
COALESCE_FETCH(tex2DLayered, (COALESCE_REFERENCE, float x, float y, int layer),
               (COALESCE_OBJECT, x, y, layer))
COALESCE_FETCH(texCubemap, (COALESCE_REFERENCE, float x, float y, float z),
               (COALESCE_OBJECT, x, y, z))
COALESCE_FETCH(texCubemapLayered, (COALESCE_REFERENCE, float x, float y, float z, int layer),
               (COALESCE_OBJECT, x, y, z, layer))
COALESCE_FETCH(tex1DLod, (COALESCE_REFERENCE, float x, float level), (COALESCE_OBJECT, x, level))
COALESCE_FETCH(tex2DLod, (COALESCE_REFERENCE, float x, float y, float level),
               (COALESCE_OBJECT, x, y, level))
COALESCE_FETCH(tex3DLod, (COALESCE_REFERENCE, float x, float y, float z, float level),
               (COALESCE_OBJECT, x, y, z, level))
#undef COALESCE_FETCH
#undef COALESCE_REFERENCE
#undef COALESCE_OBJECT
#endif

// A function of this package's runtime library. It replaces the object of a reference.
extern "C" cudaError_t __cudaBindTexture(cudaTextureObject_t *object, size_t *offset,
                                         const cudaResourceDesc *resource,
                                         const cudaTextureDesc *sampler);
extern "C" cudaError_t __cudaUnbindTexture(cudaTextureObject_t *object);

static inline cudaError_t coalesceBind(const textureReference *reference, size_t *offset,
                                       const cudaResourceDesc &resource) {
    textureReference *t = const_cast<textureReference *>(reference);
    cudaTextureDesc sampler = {};
    for (int d = 0; d < 3; ++d) sampler.addressMode[d] = t->addressMode[d];
    sampler.filterMode = t->filterMode;
    sampler.readMode = t->coalesceReadMode;
    sampler.sRGB = t->sRGB;
    sampler.normalizedCoords = t->normalized;
    sampler.maxAnisotropy = t->maxAnisotropy;
    sampler.mipmapFilterMode = t->mipmapFilterMode;
    sampler.mipmapLevelBias = t->mipmapLevelBias;
    sampler.minMipmapLevelClamp = t->minMipmapLevelClamp;
    sampler.maxMipmapLevelClamp = t->maxMipmapLevelClamp;
    return __cudaBindTexture(&t->coalesceObject, offset, &resource, &sampler);
}

// The functions of C.
static inline cudaError_t cudaBindTexture(size_t *offset, const textureReference *t, const void *p,
                                          const cudaChannelFormatDesc *channels,
                                          size_t bytes = 0xffffffffu) {
    cudaResourceDesc r = {};
    r.resType = cudaResourceTypeLinear;
    r.res.linear.devPtr = const_cast<void *>(p);
    r.res.linear.desc = *channels;
    r.res.linear.sizeInBytes = bytes;
    return coalesceBind(t, offset, r);
}
static inline cudaError_t cudaBindTexture2D(size_t *offset, const textureReference *t,
                                            const void *p, const cudaChannelFormatDesc *channels,
                                            size_t width, size_t height, size_t pitch) {
    cudaResourceDesc r = {};
    r.resType = cudaResourceTypePitch2D;
    r.res.pitch2D.devPtr = const_cast<void *>(p);
    r.res.pitch2D.desc = *channels;
    r.res.pitch2D.width = width;
    r.res.pitch2D.height = height;
    r.res.pitch2D.pitchInBytes = pitch;
    return coalesceBind(t, offset, r);
}
static inline cudaError_t cudaBindTextureToArray(const textureReference *t, cudaArray_const_t array,
                                                 const cudaChannelFormatDesc *) {
    cudaResourceDesc r = {};
    r.resType = cudaResourceTypeArray;
    r.res.array.array = const_cast<cudaArray_t>(array);
    return coalesceBind(t, 0, r);
}
static inline cudaError_t cudaBindTextureToMipmappedArray(const textureReference *t,
                                                          cudaMipmappedArray_const_t array,
                                                          const cudaChannelFormatDesc *) {
    cudaResourceDesc r = {};
    r.resType = cudaResourceTypeMipmappedArray;
    r.res.mipmap.mipmap = const_cast<cudaMipmappedArray_t>(array);
    return coalesceBind(t, 0, r);
}
static inline cudaError_t cudaUnbindTexture(const textureReference *t) {
    return __cudaUnbindTexture(&const_cast<textureReference *>(t)->coalesceObject);
}
static inline cudaError_t cudaGetTextureAlignmentOffset(size_t *offset, const textureReference *) {
    *offset = 0;
    return cudaSuccess;
}
static inline cudaError_t cudaGetTextureReference(const textureReference **t, const void *symbol) {
    *t = static_cast<const textureReference *>(symbol);
    return cudaSuccess;
}

// The functions of C++.
template <class T, int type, cudaTextureReadMode mode>
static inline cudaError_t cudaBindTexture(size_t *offset,
                                          const texture<T, type, mode> &t, const void *p,
                                          const cudaChannelFormatDesc &channels,
                                          size_t bytes = 0xffffffffu) {
    return cudaBindTexture(offset, static_cast<const textureReference *>(&t), p, &channels, bytes);
}
template <class T, int type, cudaTextureReadMode mode>
static inline cudaError_t cudaBindTexture(size_t *offset,
                                          const texture<T, type, mode> &t, const void *p,
                                          size_t bytes = 0xffffffffu) {
    return cudaBindTexture(offset, t, p, cudaCreateChannelDesc<T>(), bytes);
}
template <class T, int type, cudaTextureReadMode mode>
static inline cudaError_t cudaBindTexture2D(size_t *offset,
                                            const texture<T, type, mode> &t, const void *p,
                                            const cudaChannelFormatDesc &channels, size_t width,
                                            size_t height, size_t pitch) {
    return cudaBindTexture2D(offset, static_cast<const textureReference *>(&t), p, &channels, width,
                             height, pitch);
}
template <class T, int type, cudaTextureReadMode mode>
static inline cudaError_t cudaBindTexture2D(size_t *offset,
                                            const texture<T, type, mode> &t, const void *p,
                                            size_t width, size_t height, size_t pitch) {
    return cudaBindTexture2D(offset, t, p, cudaCreateChannelDesc<T>(), width, height, pitch);
}
template <class T, int type, cudaTextureReadMode mode>
static inline cudaError_t cudaBindTextureToArray(const texture<T, type, mode> &t,
                                                 cudaArray_const_t array,
                                                 const cudaChannelFormatDesc &channels) {
    return cudaBindTextureToArray(static_cast<const textureReference *>(&t), array, &channels);
}
template <class T, int type, cudaTextureReadMode mode>
static inline cudaError_t cudaBindTextureToArray(const texture<T, type, mode> &t,
                                                 cudaArray_const_t array) {
    return cudaBindTextureToArray(static_cast<const textureReference *>(&t), array, nullptr);
}
template <class T, int type, cudaTextureReadMode mode>
static inline cudaError_t cudaUnbindTexture(const texture<T, type, mode> &t) {
    return cudaUnbindTexture(static_cast<const textureReference *>(&t));
}
template <class T, int type, cudaTextureReadMode mode>
static inline cudaError_t cudaGetTextureAlignmentOffset(size_t *offset,
                                                        const texture<T, type, mode> &) {
    *offset = 0;
    return cudaSuccess;
}

#endif
