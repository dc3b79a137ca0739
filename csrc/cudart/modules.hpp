// The program's device code: its modules, kernels and variables. The compiled code registers them
// before main().
//
// METHOD
// Registration only stores pointers. The PTX of a module is read when the module is first used. A
// kernel is decoded once for each purpose (run, count or check), at its first launch for it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "analysis/launch.hpp"
#include "cudart/abi.hpp"
#include "cudart/code_file.hpp"
#include "cudart/fatbin.hpp"
#include "sass/listing.hpp"

namespace coalesce::cudart {

struct ModuleRecord;

// A kernel. The program identifies it by the address of its host function.
struct Function {
    ModuleRecord* module = nullptr;
    std::string entry;  // the kernel's name in the PTX
    std::string name;   // the short name: "scale" of "scale(float*, int)"
    // The limit for dynamic shared memory. cudaFuncSetAttribute raises it.
    uint32_t most_dynamic_shared = 48 << 10;
    int carveout = -1;
};

struct Variable {
    ModuleRecord* module = nullptr;
    std::string name;
    uint64_t bytes = 0;
    // The place where the host code expects the address of a __managed__ variable.
    void** managed = nullptr;
};

struct ModuleRecord {
    std::span<const std::byte> container;
    bool ready = false;
    std::string error;  // why the module cannot be used
    Code code;
    CodeFile known;
    ptx::Module parsed;
    std::shared_ptr<sim::ModuleMemory> memory;
    std::optional<sass::Listing> machine;
    std::map<std::pair<std::string, analysis::Purpose>, sim::Program> programs;
    // For each entry, why the PTX is counted instead of the machine code.
    std::map<std::string, std::string> why_ptx;
    std::map<const sim::Program*, std::shared_ptr<const analysis::Listing>> listings;

    [[nodiscard]] const ptx::Function& entry(const std::string& name) const;
    const sim::Program& program(const std::string& entry, analysis::Purpose purpose);
    std::shared_ptr<const analysis::Listing> listing(const sim::Program& program);
    // Returns the lines of a source file, for messages.
    [[nodiscard]] const std::vector<std::string>& source(const std::string& file);

  private:
    std::map<std::string, std::vector<std::string>> sources_;
};

class Modules {
  public:
    ModuleRecord* add(std::span<const std::byte> container);
    void add_function(ModuleRecord* module, const void* host, const char* entry);
    void add_variable(ModuleRecord* module, const void* host, const char* name, uint64_t bytes,
                      void** managed);
    void forget(ModuleRecord* module);
    // Reads all modules with __managed__ variables, because the host code needs the addresses of
    // these variables.
    void place_managed(ModuleRecord* module);

    // Throws Failure if the pointer is not a kernel, or if the module cannot be used.
    Function& function(const void* host);
    // Returns the address and the size of a variable. Throws Failure if the pointer is not a
    // variable.
    std::pair<uint64_t, uint64_t> variable(const void* host);
    void use(ModuleRecord& module);  // reads the module, unless it was read before
    [[nodiscard]] uint64_t count() const { return functions_.size(); }

  private:
    std::vector<std::unique_ptr<ModuleRecord>> modules_;
    std::map<const void*, Function> functions_;
    std::map<const void*, Variable> variables_;
};

}  // namespace coalesce::cudart
