// What the parent process knows of a module's machine code: registers, addresses of functions,
// names of parameters, and the disassembly.
//
// The file is named after the container's key. Lines of "registers ENTRY NUMBER",
// "function NAME ADDRESS" and "parameters ENTRY NAME:BYTES:TYPE..." (of a pointer: of its items,
// else 0 bytes) come first, then an empty line and the text of nvdisasm, which may be empty.
// "reason TEXT" says why it is (compile/program.py writes it).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace coalesce::cudart {

// A parameter as the source declares it.
struct DeclaredParameter {
    std::string name;
    uint32_t item_bytes = 0;
    std::string type;
};

struct CodeFile {
    std::map<std::string, uint32_t> registers;
    std::map<std::string, uint64_t, std::less<>> functions;
    std::map<std::string, std::vector<DeclaredParameter>> parameters;
    std::string listing, reason = "there is no machine code";
};

// Empty where the folder has no such file.
[[nodiscard]] CodeFile read_code_file(const std::string& folder, const std::string& key);

}  // namespace coalesce::cudart
