#include "cuda/texture.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "errors.hpp"

namespace coalesce::cuda {
namespace {

// Structures of the driver API, with the layout of cuda.h.
struct ArrayDescription {  // CUDA_ARRAY3D_DESCRIPTOR
    size_t width = 0, height = 0, depth = 0;
    int format = 0;
    unsigned channels = 0, flags = 0;
};
struct CopyEnd {  // one half of CUDA_MEMCPY3D
    size_t x_bytes = 0, y = 0, z = 0, level = 0;
    int memory_type = 0;
    void* host = nullptr;
    Address address = 0;
    ArrayHandle array = nullptr;
    void* reserved = nullptr;
    size_t row_bytes = 0, rows = 0;
};
struct Copy {  // CUDA_MEMCPY3D
    CopyEnd from, to;
    size_t width_bytes = 0, height = 0, depth = 0;
};
struct Resource {  // CUDA_RESOURCE_DESC
    int type = 0;
    union {
        ArrayHandle array;
        MipmapHandle mipmap;
        struct {
            Address address;
            int format;
            unsigned channels;
            size_t bytes;
        } linear;
        int reserved[32];
    } of{};
    unsigned flags = 0;
};
struct Sampler {  // CUDA_TEXTURE_DESC
    std::array<int, 3> modes{};
    int filter = 0;
    unsigned flags = 0, anisotropy = 0;
    int filter_between_levels = 0;
    float level_bias = 0, min_level = 0, max_level = 0;
    std::array<float, 4> border{};
    int reserved[12]{};
};
static_assert(sizeof(ArrayDescription) == 40 && sizeof(Copy) == 200 && sizeof(Resource) == 144 &&
              sizeof(Sampler) == 104);

constexpr int of_device = 2, of_array = 3;                                   // CUmemorytype
constexpr int array_resource = 0, mipmap_resource = 1, linear_resource = 2;  // CUresourcetype
constexpr unsigned layered = 1, surface = 2, cube = 4, gathered = 8;         // CUDA_ARRAY3D_...
constexpr unsigned as_integers = 1, normalized = 2;                          // CU_TRSF_...

size_t texel_bytes(const TextureDescription& d) { return d.channels * d.channel_bits / 8; }

size_t halved(size_t extent, unsigned level) { return std::max<size_t>(extent >> level, 1); }

// Returns the CUarray_format.
int format_of(const TextureDescription& d) {
    if (d.kind == TextureDescription::Kind::floating) return d.channel_bits == 16 ? 0x10 : 0x20;
    const int size = d.channel_bits == 8 ? 0 : d.channel_bits == 16 ? 1 : 2;
    return size + (d.kind == TextureDescription::Kind::integer ? 8 : 1);
}

// A limit of a GPU: the CUdevice_attribute, the name of the extent, and the extent of the array.
struct Limit {
    int attribute;
    const char* name;
    size_t extent;
};

std::vector<Limit> limits_of(const TextureDescription& d) {
    const auto [x, y, z] = d.extent;
    if (d.linear_memory) return {};  // the attribute for it is deprecated
    if (d.cube && d.layered)
        return {{d.surface ? 67 : 53, "width", x}, {d.surface ? 68 : 54, "layers", d.layers}};
    if (d.cube) return {{d.surface ? 66 : 52, "width", x}};
    if (d.layered && d.dimensions == 1)
        return {{d.surface ? 61 : 42, "width", x}, {d.surface ? 62 : 43, "layers", d.layers}};
    if (d.layered)
        return {{d.surface ? 63 : 27, "width", x},
                {d.surface ? 64 : 28, "height", y},
                {d.surface ? 65 : 29, "layers", d.layers}};
    if (d.dimensions == 1) return {{d.surface ? 55 : d.levels > 1 ? 77 : 21, "width", x}};
    if (d.dimensions == 2)
        return {{d.surface      ? 56
                 : d.levels > 1 ? 73
                                : 22,
                 "width", x},
                {d.surface      ? 57
                 : d.levels > 1 ? 74
                                : 23,
                 "height", y}};
    return {{d.surface ? 58 : 24, "width", x},
            {d.surface ? 59 : 25, "height", y},
            {d.surface ? 60 : 26, "depth", z}};
}

}  // namespace

Texture::Texture(Device& device, const TextureDescription& description, Address elements,
                 std::string what)
    : device_(device),
      d_(description),
      elements_(elements),
      what_(std::move(what)),
      generation_(device.generation()) {
    try {
        create();
    } catch (...) {
        destroy();
        throw;
    }
}

void Texture::create() {
    const Device::CurrentContext current(device_);
    const Driver& driver = device_.driver();
    Resource resource;
    if (d_.linear_memory) {
        constexpr int texture_alignment = 14;  // a CUdevice_attribute
        const int alignment = std::max(device_.attribute(texture_alignment), 1);
        if (elements_ % Address(alignment) != 0)
            throw LaunchError(
                what_ + " shares memory with another argument, and its first byte is " +
                std::to_string(elements_ % Address(alignment)) + " bytes after a multiple of " +
                std::to_string(alignment) +
                " bytes. On a GPU, the linear memory of a texture must begin at such a multiple. "
                "Pass a copy of the array");
        resource.type = linear_resource;
        resource.of.linear = {elements_, format_of(d_), d_.channels,
                              d_.extent[0] * texel_bytes(d_)};
    } else {
        create_array();
        resource.type = mipmap_ ? mipmap_resource : array_resource;
        if (mipmap_)
            resource.of.mipmap = mipmap_;
        else
            resource.of.array = array_;
    }
    if (d_.surface) {
        device_.check(driver.surface_create(&handle_, &resource), "making " + what_);
        return;
    }
    Sampler sampler;
    sampler.modes = d_.modes;
    sampler.filter = d_.linear_filter ? 1 : 0;
    const bool integers = d_.kind != TextureDescription::Kind::floating && !d_.normalized_read;
    sampler.flags =
        (integers ? as_integers : 0) | (d_.normalized_coordinates || d_.cube ? normalized : 0);
    sampler.filter_between_levels = d_.linear_between_levels ? 1 : 0;
    sampler.level_bias = d_.level_bias;
    sampler.min_level = d_.min_level;
    sampler.max_level = d_.max_level;
    sampler.border = d_.border;
    const Result result = driver.texture_create(&handle_, &resource, &sampler, nullptr);
    device_.check(result, "making " + what_ + (is_sticky(result) ? "" : limits()));
}

void Texture::create_array() {
    const Driver& driver = device_.driver();
    ArrayDescription a;
    a.width = d_.extent[0];
    a.height = d_.dimensions >= 2 ? d_.extent[1] : 0;
    a.depth = d_.layered || d_.cube ? d_.layers : d_.dimensions == 3 ? d_.extent[2] : 0;
    a.format = format_of(d_);
    a.channels = d_.channels;
    a.flags = (d_.layered ? layered : 0) | (d_.cube ? cube : 0) | (d_.surface ? surface : 0);
    constexpr int gather_width = 45, gather_height = 46;  // values of CUdevice_attribute
    if (!d_.surface && !d_.layered && !d_.cube && d_.dimensions == 2 && d_.levels == 1 &&
        a.width <= size_t(device_.attribute(gather_width)) &&
        a.height <= size_t(device_.attribute(gather_height)))
        a.flags |= gathered;
    const auto make = [&] {
        return d_.levels > 1 ? driver.mipmap_create(&mipmap_, &a, d_.levels)
                             : driver.array_create(&array_, &a);
    };
    Result result = make();
    if (result == out_of_memory && device_.pool().trim() > 0) result = make();
    device_.check(result, "making a CUDA array for " + what_ + (is_sticky(result) ? "" : limits()));
}

void Texture::destroy() {
    // A reset of the GPU, which follows a fault, has already destroyed everything.
    if (generation_ != device_.generation()) return;
    const Driver& driver = device_.driver();
    const Device::CurrentContext current(device_);
    if (handle_ != 0)
        d_.surface ? driver.surface_destroy(handle_) : driver.texture_destroy(handle_);
    if (array_ != nullptr) driver.array_destroy(array_);
    if (mipmap_ != nullptr) driver.mipmap_destroy(mipmap_);
    handle_ = 0, array_ = nullptr, mipmap_ = nullptr;
}

// Returns which extents the GPU allows, for the message of an error.
std::string Texture::limits() const {
    std::string extents, most;
    for (const Limit& limit : limits_of(d_)) {
        extents += (extents.empty() ? "" : ", ") + std::string(limit.name) + " " +
                   std::to_string(limit.extent);
        most += (most.empty() ? "" : ", ") + std::string(limit.name) + " " +
                std::to_string(device_.attribute(limit.attribute));
    }
    return extents.empty() ? "" : " (" + extents + "; the GPU allows " + most + ")";
}

void Texture::fill(Stream stream) { copy(stream, true); }
void Texture::read_back(Stream stream) { copy(stream, false); }

void Texture::copy(Stream stream, bool to_array) {
    if (!in_array()) return;
    const Device::CurrentContext current(device_);
    const Driver& driver = device_.driver();
    Address at = elements_;
    for (unsigned level = 0; level < d_.levels; ++level) {
        ArrayHandle array = array_;
        if (mipmap_) device_.check(driver.mipmap_level(&array, mipmap_, level), "copying " + what_);
        Copy copy;
        copy.width_bytes = halved(d_.extent[0], level) * texel_bytes(d_);
        copy.height = halved(d_.extent[1], level);
        copy.depth = d_.layered || d_.cube ? d_.layers : halved(d_.extent[2], level);
        CopyEnd linear, texels;
        linear.memory_type = of_device;
        linear.address = at;
        linear.row_bytes = copy.width_bytes;
        linear.rows = copy.height;
        texels.memory_type = of_array;
        texels.array = array;
        copy.from = to_array ? linear : texels;
        copy.to = to_array ? texels : linear;
        device_.check(driver.copy_3d(&copy, stream), "copying " + what_);
        at += copy.width_bytes * copy.height * copy.depth;
    }
}

}  // namespace coalesce::cuda
