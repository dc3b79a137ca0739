// Reads a file about the machine code of a module, which the parent process has written. It has the
// numbers of registers, the addresses of functions, the names of parameters, and the disassembly.
//
// The file is named after the container's key (fatbin.hpp). compile/executables.py writes it. It
// begins with lines of these kinds, in any number:
//  registers ENTRY NUMBER
//  function NAME ADDRESS
//  parameters ENTRY NAME:BYTES:TYPE...  (BYTES: item size of a pointer, otherwise 0)
//  shared NAME BYTES EXTENT,... TYPE    (a shared array of the source; BYTES: size of an element)
//  device NAME BYTES EXTENT,... TYPE    (a variable in the memory of the device)
//  reason TEXT                          (why there is no disassembly)
// An empty line and the text of nvdisasm follow. The text may be empty.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "analysis/check/check.hpp"

namespace coalesce::cudart {

// A parameter as the source declares it.
struct DeclaredParameter {
    std::string name;
    uint32_t item_bytes = 0;
    std::string type;
    bool restricted = false;  // a __restrict__ pointer
};

struct CodeFile {
    std::map<std::string, uint32_t> registers;
    std::map<std::string, uint64_t, std::less<>> functions;
    std::map<std::string, std::vector<DeclaredParameter>> parameters;
    std::map<std::string, analysis::ArrayShape> shared, device;
    std::string listing, reason = "there is no machine code";
};

// Returns an empty object if the folder has no such file.
[[nodiscard]] CodeFile read_code_file(const std::string& folder, const std::string& key);

}  // namespace coalesce::cudart
