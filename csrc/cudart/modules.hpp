// The program's device code: its modules, kernels and variables, as the compiled code registers
// them before main().
//
// METHOD
// Registering only notes pointers. A module's PTX is read when something of it is first used, and a
// kernel is decoded when it is first launched, once for each purpose.
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

// A kernel, by the address of its host function.
struct Function {
    ModuleRecord* module = nullptr;
    std::string entry;                        // its name in the PTX
    std::string name;                         // "scale" of "scale(float*, int)"
    uint32_t most_dynamic_shared = 48 << 10;  // cudaFuncSetAttribute raises it
    int carveout = -1;
};

struct Variable {
    ModuleRecord* module = nullptr;
    std::string name;
    uint64_t bytes = 0;
    void** managed = nullptr;  // where the host code wants the address of a __managed__ one
};

struct ModuleRecord {
    std::span<const std::byte> container;
    bool ready = false;
    std::string error;  // why it cannot be used
    Code code;
    CodeFile known;
    ptx::Module parsed;
    std::shared_ptr<sim::ModuleMemory> memory;
    std::optional<sass::Listing> machine;
    std::map<std::pair<std::string, analysis::Purpose>, sim::Program> programs;
    std::map<std::string, std::string> why_ptx;  // by entry: why counts are the PTX's
    std::map<const sim::Program*, std::shared_ptr<const analysis::Listing>> listings;

    [[nodiscard]] const ptx::Function& entry(const std::string& name) const;
    const sim::Program& program(const std::string& entry, analysis::Purpose purpose);
    std::shared_ptr<const analysis::Listing> listing(const sim::Program& program);
    // The text whose lines messages quote, and its file.
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
    // Reads every module that has __managed__ variables, whose addresses the host code waits for.
    void place_managed(ModuleRecord* module);

    // Failure if the pointer is no kernel, or the module cannot be used.
    Function& function(const void* host);
    // The address and size of a variable; Failure if the pointer is none.
    std::pair<uint64_t, uint64_t> variable(const void* host);
    void use(ModuleRecord& module);  // reads it, if that was not done
    [[nodiscard]] uint64_t count() const { return functions_.size(); }

  private:
    std::vector<std::unique_ptr<ModuleRecord>> modules_;
    std::map<const void*, Function> functions_;
    std::map<const void*, Variable> variables_;
};

}  // namespace coalesce::cudart
