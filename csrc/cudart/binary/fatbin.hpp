// Fat binaries. nvcc puts one into a program for each module.
//
// METHOD
// A container is a header and a list of images. The header has a magic number, a version, its own
// size and the size of the rest. Each image has a header with its kind (PTX or machine code),
// sizes, architecture and compression (LZ4, Zstandard or none). The layout was derived from files
// that nvcc 12 and 13 wrote. The Zstandard library is loaded at its first use. If it is needed and
// missing, the error says what to do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace coalesce::cudart {

// nvcc's generated code passes the address of this structure for a fat binary (crt/host_runtime.h).
struct Wrapper {
    int magic, version;
    const std::byte* container;
    void* more;
};

// The code of a container, as far as the simulator uses it.
struct Code {
    std::string key;  // hash of the contents; names the file with more information (code_file.hpp)
    // The PTX for the newest architecture that the GPU can run. It is empty if there is none.
    std::string ptx;
    std::string cubin;  // machine code for the same architecture; empty if there is none
    uint32_t arch = 0;  // the architecture, such as 90
    // Whether nvcc -rdc=true linked the machine code. Then there is no PTX for it.
    bool linked = false;
};

// Returns the size of the container that starts here, or 0 if there is none.
[[nodiscard]] size_t container_bytes(std::span<const std::byte> bytes);
// Finds out which kind of code starts at an address, and returns its size in bytes. The code is a
// container, a file of machine code (ELF), or PTX that ends with a null character. Returns 0 for
// anything else.
[[nodiscard]] size_t code_bytes(const std::byte* start);
// Returns a container of PTX and its machine code, which may be empty.
[[nodiscard]] std::string container_of(const std::string& ptx, const std::string& cubin,
                                       uint32_t arch);
// Returns the architecture for which PTX was compiled, such as 90.
[[nodiscard]] uint32_t arch_of(std::string_view ptx);
// Reads a container, a file of machine code or PTX. `most` is the GPU's architecture: images for
// newer architectures are ignored. Throws LaunchError with the reason if an image cannot be read.
[[nodiscard]] Code code_of(std::span<const std::byte> container, uint32_t most);
// Returns all containers in a section of an executable.
[[nodiscard]] std::vector<std::span<const std::byte>> containers(
    std::span<const std::byte> section);

}  // namespace coalesce::cudart
