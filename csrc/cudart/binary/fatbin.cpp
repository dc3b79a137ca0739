#include "cudart/binary/fatbin.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cudart/binary/jit.hpp"
#include "errors.hpp"

namespace coalesce::cudart {

namespace {

constexpr uint32_t container_magic = 0xBA55ED50;
constexpr size_t header_bytes = 16, image_header_bytes = 64;
constexpr uint16_t kind_ptx = 1, kind_elf = 2;
constexpr uint64_t flag_lz4 = 0x2000, flag_zstd = 0x8000;
constexpr size_t max_bytes = size_t{1} << 30;

template <class T>
T read(std::span<const std::byte> bytes, size_t at) {
    T value{};
    if (at + sizeof value <= bytes.size()) std::memcpy(&value, bytes.data() + at, sizeof value);
    return value;
}

[[noreturn]] void broken(const char* what) {
    throw LaunchError(std::string("the program's device code cannot be read: ") + what);
}

// Unpacks LZ4 data. Source: LZ4 Block Format Description
// (github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md).
std::string unpack_lz4(std::span<const std::byte> in, size_t size) {
    std::string out;
    out.reserve(size);
    size_t at = 0;
    const auto next = [&] {
        if (at >= in.size()) broken("an LZ4 image ends early");
        return uint8_t(in[at++]);
    };
    const auto length = [&](size_t n) {
        if (n == 15)
            for (uint8_t more = 255; more == 255; n += more) more = next();
        return n;
    };
    while (at < in.size()) {
        const uint8_t token = next();
        const size_t literals = length(token >> 4);
        if (literals > in.size() - at || literals > size - out.size())
            broken("an LZ4 image ends early");
        out.append(reinterpret_cast<const char*>(in.data()) + at, literals);
        at += literals;
        if (at >= in.size() || out.size() == size) break;
        const size_t low = next(), offset = low | size_t{next()} << 8;
        const size_t match = length(token & 15) + 4;
        if (offset == 0 || offset > out.size() || match > size - out.size())
            broken("an LZ4 image refers to data before its start");
        for (size_t n = 0; n < match; ++n) out += out[out.size() - offset];
    }
    return out;
}

std::string unpack_zstd(std::span<const std::byte> in, size_t size) {
    using Decompress = size_t (*)(void*, size_t, const void*, size_t);
    static const auto decompress = [] {
        void* const library = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL);
        return library ? reinterpret_cast<Decompress>(dlsym(library, "ZSTD_decompress")) : nullptr;
    }();
    if (!decompress)
        broken(
            "it is compressed with Zstandard, and libzstd.so.1 is not on this machine. Build the "
            "program with nvcc -no-compress, or install libzstd");
    std::string out(size, '\0');
    const size_t got = decompress(out.data(), size, in.data(), in.size());
    if (got != size) broken("a Zstandard image is damaged");
    return out;
}

struct Image {
    uint16_t kind;
    uint32_t arch;
    std::span<const std::byte> bytes;  // the data as stored, perhaps compressed
    uint64_t flags, full;              // size when unpacked; 0: stored uncompressed
};

std::vector<Image> images_of(std::span<const std::byte> container) {
    std::vector<Image> images;
    size_t at = read<uint16_t>(container, 6);
    while (at + image_header_bytes <= container.size()) {
        const auto image = container.subspan(at);
        const uint32_t header = read<uint32_t>(image, 4);
        const uint64_t size = read<uint64_t>(image, 8);
        if (header < image_header_bytes || header > image.size() || size > image.size() - header)
            broken("an image extends past the end of its container");
        const uint64_t flags = read<uint64_t>(image, 40);
        const bool packed = flags & (flag_lz4 | flag_zstd);
        const uint32_t stored = read<uint32_t>(image, 16);
        const uint64_t bytes = packed ? stored : size;
        const uint64_t full = packed ? read<uint64_t>(image, 56) : 0;
        if (bytes > size || full > max_bytes) broken("an image has an impossible size");
        images.push_back({read<uint16_t>(image, 0), read<uint32_t>(image, 28),
                          image.subspan(header, bytes), flags, full});
        at += header + size;
    }
    return images;
}

std::string text_of(const Image& image) {
    if (image.flags & flag_zstd) return unpack_zstd(image.bytes, image.full);
    if (image.flags & flag_lz4) return unpack_lz4(image.bytes, image.full);
    return {reinterpret_cast<const char*>(image.bytes.data()), image.bytes.size()};
}

// Returns a hash (FNV-1a). It only distinguishes the modules of one program.
std::string key_of(std::span<const std::byte> bytes) {
    uint64_t hash = 0xcbf29ce484222325;
    for (const std::byte b : bytes) hash = (hash ^ uint64_t(b)) * 0x100000001b3;
    char text[17];
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
    return text;
}

template <class T>
void put(std::string& bytes, size_t at, T value) {
    std::memcpy(bytes.data() + at, &value, sizeof value);
}

// Returns the size of an ELF file. The ELF-64 file format says where its numbers are.
size_t elf_bytes(const std::byte* start) {
    constexpr size_t file_header = 64, no_bits = 8;
    const std::span<const std::byte> header(start, file_header);
    const uint64_t programs = read<uint64_t>(header, 32), sections = read<uint64_t>(header, 40);
    size_t end = programs + size_t{read<uint16_t>(header, 54)} * read<uint16_t>(header, 56);
    const size_t bytes = read<uint16_t>(header, 58), count = read<uint16_t>(header, 60);
    end = std::max(end, size_t(sections + bytes * count));
    for (size_t i = 0; i < count; ++i) {
        const std::span<const std::byte> section(start + sections + i * bytes, bytes);
        if (read<uint32_t>(section, 4) != no_bits)
            end = std::max(end, size_t(read<uint64_t>(section, 24) + read<uint64_t>(section, 32)));
    }
    return end;
}

}  // namespace

size_t container_bytes(std::span<const std::byte> bytes) {
    if (bytes.size() < header_bytes || read<uint32_t>(bytes, 0) != container_magic) return 0;
    const uint64_t header = read<uint16_t>(bytes, 6), size = read<uint64_t>(bytes, 8);
    return header < header_bytes || size > max_bytes ? 0 : size_t(header + size);
}

uint32_t arch_of(std::string_view ptx) {
    const size_t at = ptx.find(".target");
    const size_t name = at == ptx.npos ? at : ptx.find("sm_", at);
    if (name == ptx.npos) return 0;
    return uint32_t(std::strtoul(std::string(ptx.substr(name + 3, 8)).c_str(), nullptr, 10));
}

size_t code_bytes(const std::byte* start) {
    // A short text must not be read past its end.
    const auto* const first = reinterpret_cast<const char*>(start);
    if (std::strncmp(first, "\x50\xED\x55\xBA", 4) == 0)
        return container_bytes({start, header_bytes});
    if (std::strncmp(first,
                     "\x7f"
                     "ELF",
                     4) == 0)
        return elf_bytes(start);
    const std::string_view text(first);
    return text.find(".version") != text.npos ? text.size() : 0;
}

std::string container_of(const std::string& ptx, const std::string& cubin, uint32_t arch) {
    std::string images;
    const auto add = [&](uint16_t kind, std::string bytes) {
        bytes.resize((bytes.size() + 8) / 8 * 8);  // at least one null character ends the text
        std::string header(image_header_bytes, '\0');
        put<uint16_t>(header, 0, kind);
        put<uint32_t>(header, 4, image_header_bytes);
        put<uint64_t>(header, 8, bytes.size());
        put<uint32_t>(header, 28, arch);
        images += header + bytes;
    };
    add(kind_ptx, ptx);
    if (!cubin.empty()) add(kind_elf, cubin);
    std::string header(header_bytes, '\0');
    put<uint32_t>(header, 0, container_magic);
    put<uint16_t>(header, 4, 1);  // the version
    put<uint16_t>(header, 6, header_bytes);
    put<uint64_t>(header, 8, images.size());
    return header + images;
}

Code code_of(std::span<const std::byte> container, uint32_t most) {
    Code code;
    code.key = key_of(container);
    if (!container_bytes(container)) {
        const std::string bytes(reinterpret_cast<const char*>(container.data()), container.size());
        if (bytes.starts_with("\x7f"
                              "ELF")) {
            code.cubin = bytes;
            return code;
        }
        code.arch = arch_of(bytes);
        if (code.arch > most)
            throw BadImage(cudaErrorInvalidPtx, "the PTX is for the compute capability " +
                                                    std::to_string(code.arch) +
                                                    ", which is newer than the simulated GPU");
        code.ptx = bytes.substr(0, std::strlen(bytes.c_str()));
        return code;
    }
    const std::vector<Image> images = images_of(container);
    const Image* best = nullptr;
    for (const Image& image : images)
        if (image.kind == kind_ptx && image.arch <= most && (!best || image.arch > best->arch))
            best = &image;
    if (best) {
        code.ptx = text_of(*best);
        code.ptx.resize(std::strlen(code.ptx.c_str()));  // padding follows the text
        code.arch = best->arch;
    }
    for (const Image& image : images) {
        if (image.kind != kind_elf) continue;
        if (best && image.arch == best->arch)
            code.cubin = text_of(image);
        else if (!best)
            code.linked = true;
    }
    return code;
}

std::vector<std::span<const std::byte>> containers(std::span<const std::byte> section) {
    std::vector<std::span<const std::byte>> parts;
    size_t at = 0;
    while (at + header_bytes <= section.size()) {
        const size_t bytes = container_bytes(section.subspan(at));
        if (bytes == 0 || bytes > section.size() - at) {
            at += 8;  // containers are aligned to 8 bytes
            continue;
        }
        parts.push_back(section.subspan(at, bytes));
        at += (bytes + 7) / 8 * 8;
    }
    return parts;
}

}  // namespace coalesce::cudart
