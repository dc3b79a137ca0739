// Fat binaries: what nvcc puts into a program for each of its modules.
//
// METHOD
// A container is a header (magic number, version, its own size, the size of what follows) and
// images, each with a header of its own: kind (PTX or machine code), sizes, architecture, and
// whether it is compressed, with LZ4 or Zstandard. The layout was read from files that nvcc 12 and
// 13 wrote. Zstandard's library is loaded when first needed: a container that needs it on a machine
// without it is refused, with what to do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace coalesce::cudart {

// The code that the simulator uses of a container.
struct Code {
    std::string key;      // of its contents: names the file that says more (code_file.hpp)
    std::string ptx;      // of the newest architecture that the GPU can run; "" if there is none
    std::string cubin;    // for the same architecture; "" if there is none
    uint32_t arch = 0;    // 90
    bool linked = false;  // machine code that nvcc -rdc=true linked, of which there is no PTX
};

// Bytes of the container that starts here; 0 if none does.
[[nodiscard]] size_t container_bytes(std::span<const std::byte> bytes);
// Throws LaunchError with the reason where an image cannot be read. `most` is the GPU's
// architecture.
[[nodiscard]] Code code_of(std::span<const std::byte> container, uint32_t most);
// Every container in a section of an executable.
[[nodiscard]] std::vector<std::span<const std::byte>> containers(
    std::span<const std::byte> section);

}  // namespace coalesce::cudart
