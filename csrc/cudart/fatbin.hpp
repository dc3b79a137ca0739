// Fat binaries: nvcc puts one into a program for each of its modules.
//
// METHOD
// A container is a header (magic number, version, its own size, size of the rest) and images. Each
// image has a header with its kind (PTX or machine code), sizes, architecture, and whether it is
// compressed with LZ4 or Zstandard. The layout was derived from files that nvcc 12 and 13 wrote.
// The Zstandard library is loaded at its first use. If a container needs it and it is missing, the
// error says what to do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace coalesce::cudart {

// The code of a container that the simulator uses.
struct Code {
    std::string key;  // hash of the contents; names the file with more information (code_file.hpp)
    std::string ptx;  // for the newest architecture that the GPU can run; "" if there is none
    std::string cubin;    // for the same architecture; "" if there is none
    uint32_t arch = 0;    // 90
    bool linked = false;  // machine code that nvcc -rdc=true linked, for which there is no PTX
};

// The size of the container that starts here; 0 if there is none.
[[nodiscard]] size_t container_bytes(std::span<const std::byte> bytes);
// Throws LaunchError with the reason if an image cannot be read. `most` is the GPU's architecture.
[[nodiscard]] Code code_of(std::span<const std::byte> container, uint32_t most);
// All containers in a section of an executable.
[[nodiscard]] std::vector<std::span<const std::byte>> containers(
    std::span<const std::byte> section);

}  // namespace coalesce::cudart
