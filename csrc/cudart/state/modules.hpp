// The program's device code: its modules, kernels and variables. The compiled code registers them
// before main(), or the program loads them with the driver API.
//
// METHOD
// Registration only stores pointers. The PTX of a registered module is read when the module is
// first used. A module that the program loads is read at once, and a Python process disassembles
// its machine code (jit.hpp). A kernel is decoded separately for running, counting and checking,
// each at the first launch of this kind.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "analysis/launch.hpp"
#include "cudart/abi/abi.hpp"
#include "cudart/binary/code_file.hpp"
#include "cudart/binary/fatbin.hpp"
#include "cudart/state/contexts.hpp"
#include "sass/listing.hpp"

namespace coalesce::cudart {

struct ModuleRecord;

// What a program has set for the next launch with the functions of CUDA 3 and older.
struct OldLaunch {
    Dim block;
    unsigned shared = 0;
    std::vector<std::byte> arguments;
};

// The launches of one kernel with one geometry.
struct Counted {
    uint64_t launches = 0;
    double ms = 0;  // modelled time of the last counted launch
};

// A kernel. The program identifies it by the address of its host function. A kernel of a loaded
// module has no host function; the address of its record identifies it (CUfunction and CUkernel).
struct Function {
    ModuleRecord* module = nullptr;
    std::string entry;  // the kernel's name in the PTX
    std::string name;   // the short name: "scale" of "scale(float*, int)"
    // The limit for dynamic shared memory, if cudaFuncSetAttribute has set it.
    std::optional<uint32_t> max_dynamic_shared;
    int carveout = -1;
    bool large_clusters = false;  // cudaFuncAttributeNonPortableClusterSizeAllowed
    OldLaunch old_launch;
    std::map<std::tuple<Dim, Dim, uint32_t>, Counted> counted;  // grid, block and shared bytes

    // Returns the largest number of blocks in a cluster. An H200 allows 16, if the program asks.
    [[nodiscard]] uint32_t most_cluster_blocks() const { return large_clusters ? 16 : 8; }
    // Returns the limit for dynamic shared memory. `own` is the kernel's other shared memory.
    [[nodiscard]] uint32_t most_dynamic_shared(uint32_t own) const {
        constexpr uint32_t usual = 48 << 10;
        return max_dynamic_shared.value_or(usual - std::min(usual, own));
    }
};

// A __device__, __constant__ or __managed__ variable.
struct Variable {
    ModuleRecord* module = nullptr;
    std::string name;
    uint64_t bytes = 0;
    // The place where the host code expects the address of a __managed__ variable.
    void** managed = nullptr;
};

// A module: its code, and what was read from it so far.
struct ModuleRecord {
    std::span<const std::byte> container;
    bool ready = false;
    std::string error;  // why the module cannot be used
    Error error_number = cudaSuccess;
    // The following members are for modules that the program has loaded.
    bool loaded = false, unloaded = false;
    Context owner = nullptr;
    std::vector<std::byte> image;      // a copy, in which `container` lies
    std::vector<std::string> options;  // options of ptxas
    std::string log;                   // what ptxas said
    std::map<std::string, std::unique_ptr<Function>> functions;
    Code code;
    CodeFile known;
    ptx::Module parsed;
    std::shared_ptr<sim::ModuleMemory> memory;
    std::optional<sass::Listing> machine;
    std::map<std::pair<std::string, analysis::Purpose>, sim::Program> programs;
    // For each entry, why the PTX is counted instead of the machine code.
    std::map<std::string, std::string> why_ptx;
    std::map<const sim::Program*, std::shared_ptr<const analysis::CountedCode>> counted_codes;

    [[nodiscard]] const ptx::Function& entry(const std::string& name) const;
    const sim::Program& program(const std::string& entry, analysis::Purpose purpose);
    std::shared_ptr<const analysis::CountedCode> counted_code(const sim::Program& program);
    // Returns the lines of a source file, for messages.
    [[nodiscard]] const std::vector<std::string>& source(const std::string& file);

  private:
    std::map<std::string, std::vector<std::string>> sources_;
};

// All modules of the program.
class Modules {
  public:
    ModuleRecord* add(std::span<const std::byte> container);
    void add_function(ModuleRecord* module, const void* host, const char* entry);
    void add_variable(ModuleRecord* module, const void* host, const char* name, uint64_t bytes,
                      void** managed);
    void forget(ModuleRecord* module);
    // Reads the modules that have __managed__ variables, and gives these variables addresses. Host
    // code can use such variables before it launches a kernel.
    void place_managed(ModuleRecord* module);

    // Loads an image: PTX as text, machine code, or a fat binary. The module belongs to a context.
    // If the module cannot be used, throws Failure, and `log` gets the compiler's messages.
    ModuleRecord* load(std::span<const std::byte> image, Context owner,
                       std::vector<std::string> options = {}, std::string* log = nullptr);
    // Throws Failure unless the handle is a module that was loaded and not unloaded.
    ModuleRecord& loaded(ModuleRecord* handle);
    void unload(ModuleRecord* handle);
    void unload_all(Context owner);
    // Returns a kernel of a loaded module. Throws Failure{cudaErrorSymbolNotFound}.
    Function* function_named(ModuleRecord& module, const std::string& name);
    // Returns the address and the size of a variable of a loaded module.
    static std::pair<uint64_t, uint64_t> variable_named(const ModuleRecord& module,
                                                        const std::string& name);

    // Throws Failure if the pointer is not a kernel, or if the module cannot be used.
    Function& function(const void* host);
    // Returns the address and the size of a variable. Throws Failure if the pointer is not a
    // variable.
    std::pair<uint64_t, uint64_t> variable(const void* host);
    void use(ModuleRecord& module);  // reads the module, unless it was read before
    [[nodiscard]] uint64_t count() const { return functions_.size(); }

  private:
    void read(ModuleRecord& module);

    std::vector<std::unique_ptr<ModuleRecord>> modules_;
    std::set<const ModuleRecord*> loaded_;
    std::set<const void*> handles_;  // the kernels of loaded modules
    std::map<const void*, Function> functions_;
    std::map<const void*, Variable> variables_;
};

}  // namespace coalesce::cudart
