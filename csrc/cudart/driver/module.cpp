// The driver API: modules, libraries and the linker of PTX.
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>

#include "cudart/binary/fatbin.hpp"
#include "cudart/binary/jit.hpp"
#include "cudart/state/api.hpp"
#include "cudart/state/runtime.hpp"

namespace coalesce::cudart {

namespace {

// The options of CUjit_option that have an effect in this library.
enum JitOption : int {
    max_registers = 0,
    wall_time = 2,
    info_log = 3,
    info_log_bytes = 4,
    error_log = 5,
    error_log_bytes = 6,
    optimization_level = 7,
    line_info = 13
};

}  // namespace

// The options of a call that compiles PTX. Their values are pointers, or numbers in place of them.
class Options {
  public:
    Options(unsigned count, const int* names, void** values)
        : count_(count), names_(names), values_(values) {
        require(count == 0 || (names && values), cudaErrorInvalidValue);
    }

    [[nodiscard]] std::vector<std::string> of_ptxas() const {
        std::vector<std::string> words;
        for (unsigned i = 0; i < count_; ++i) {
            const auto number = unsigned(reinterpret_cast<uintptr_t>(values_[i]));
            if (names_[i] == max_registers && number)
                words.push_back("--maxrregcount=" + std::to_string(number));
            if (names_[i] == optimization_level && number <= 4)
                words.push_back("--opt-level=" + std::to_string(std::min(number, 3u)));
        }
        return words;
    }

    // Writes the messages of the compiler to the program's buffers.
    void show(const std::string& log, bool failed) const {
        write(info_log, info_log_bytes, failed ? "" : log);
        write(error_log, error_log_bytes, failed ? log : "");
        if (const auto i = find(wall_time); i < count_) values_[i] = nullptr;  // 0 ms as a float
    }

  private:
    [[nodiscard]] unsigned find(int name) const {
        unsigned i = 0;
        while (i < count_ && names_[i] != name) ++i;
        return i;
    }
    void write(int buffer, int bytes, const std::string& text) const {
        const unsigned at = find(buffer), size = find(bytes);
        if (size == count_) return;
        const auto room = size_t(unsigned(reinterpret_cast<uintptr_t>(values_[size])));
        size_t written = 0;
        if (at < count_ && values_[at] && room > 0) {
            written = std::min(room - 1, text.size());
            auto* const to = static_cast<char*>(values_[at]);
            std::memcpy(to, text.data(), written);
            to[written] = '\0';
        }
        values_[size] = reinterpret_cast<void*>(uintptr_t(written));
    }

    unsigned count_;
    const int* names_;
    void** values_;
};

namespace {

constexpr int wrapper_magic = 0x466243b1;

std::span<const std::byte> image_at(const void* image) {
    require(image, cudaErrorInvalidValue, "the image is null");
    const auto* start = static_cast<const std::byte*>(image);
    int magic = 0;
    if (std::strncmp(static_cast<const char*>(image), "\xb1\x43\x62\x46", 4) == 0)
        std::memcpy(&magic, image, sizeof magic);
    if (magic == wrapper_magic) start = static_cast<const Wrapper*>(image)->container;
    const size_t bytes = code_bytes(start);
    require(bytes > 0, cudaErrorInvalidKernelImage,
            "the image is not PTX, machine code (cubin) or a fat binary");
    return {start, bytes};
}

std::string content_of(const char* file) {
    require(file, cudaErrorInvalidValue);
    std::ifstream in(file, std::ios::binary);
    if (!in) {
        const std::string name = file;
        const bool code =
            name.ends_with(".ptx") || name.ends_with(".cubin") || name.ends_with(".fatbin");
        throw Failure{cudaErrorFileNotFound,
                      "there is no file " + name +
                          (code ? "; nvcc -ptx or nvcc -fatbin builds it from a .cu file" : "")};
    }
    std::string text{std::istreambuf_iterator<char>(in), {}};
    text.push_back('\0');
    return text;
}

Module load(std::span<const std::byte> image, const Options& options) {
    std::string log;
    Runtime& rt = runtime();
    try {
        const Module made = rt.modules.load(image, rt.contexts.owner(), options.of_ptxas(), &log);
        options.show(log, false);
        return made;
    } catch (const Failure& f) {
        options.show(log.empty() ? f.mistake : log, true);
        throw;
    }
}

Module load_file(const char* file, const Options& options) {
    const std::string content = content_of(file);
    return load(image_at(content.data()), options);
}

const Options none{0, nullptr, nullptr};

std::vector<std::string> kernels_of(const ModuleRecord& module) {
    std::vector<std::string> names;
    for (const ptx::Function& f : module.parsed.functions)
        if (f.entry) names.push_back(f.name);
    return names;
}

void find_function(const void** function, Module module, const char* name) {
    require(function && name, cudaErrorInvalidValue);
    Modules& modules = runtime().modules;
    *function = modules.function_named(modules.loaded(module), name);
}
void count_functions(unsigned* count, Module module) {
    require(count, cudaErrorInvalidValue);
    *count = unsigned(kernels_of(runtime().modules.loaded(module)).size());
}
void list_functions(const void** functions, unsigned count, Module module) {
    require(functions, cudaErrorInvalidValue);
    Modules& modules = runtime().modules;
    const std::vector<std::string> names = kernels_of(modules.loaded(module));
    for (unsigned i = 0; i < count && i < names.size(); ++i)
        functions[i] = modules.function_named(*module, names[i]);
}
void find_variable(uint64_t* address, size_t* bytes, Module module, const char* name) {
    require(name && (address || bytes), cudaErrorInvalidValue);
    const auto variable = Modules::variable_named(runtime().modules.loaded(module), name);
    if (address) *address = variable.first;
    if (bytes) *bytes = variable.second;
}

}  // namespace

void core::cuModuleLoad(Module* module, const char* file) {
    require(module, cudaErrorInvalidValue);
    *module = load_file(file, none);
}
void core::cuModuleLoadData(Module* module, const void* image) {
    require(module, cudaErrorInvalidValue);
    *module = load(image_at(image), none);
}
void core::cuModuleLoadDataEx(Module* module, const void* image, unsigned count, int* options,
                              void** values) {
    require(module, cudaErrorInvalidValue);
    *module = load(image_at(image), Options(count, options, values));
}
void core::cuModuleLoadFatBinary(Module* module, const void* image) {
    require(module, cudaErrorInvalidValue);
    *module = load(image_at(image), none);
}
void core::cuModuleUnload(Module module) { runtime().modules.unload(module); }
void core::cuModuleGetLoadingMode(int* mode) {
    require(mode, cudaErrorInvalidValue);
    *mode = 1;  // modules are loaded at once
}
void core::cuModuleGetFunction(const void** function, Module module, const char* name) {
    find_function(function, module, name);
}
void core::cuModuleGetFunctionCount(unsigned* count, Module module) {
    count_functions(count, module);
}
void core::cuModuleEnumerateFunctions(const void** functions, unsigned count, Module module) {
    list_functions(functions, count, module);
}
void core::cuModuleGetGlobal_v2(uint64_t* address, size_t* bytes, Module module, const char* name) {
    find_variable(address, bytes, module, name);
}

// A library is a module that belongs to no context. On the simulator, CUkernel and CUfunction are
// the same.
void core::cuLibraryLoadData(Module* library, const void* code, int* options, void** values,
                             unsigned count, void*, void**, unsigned) {
    require(library, cudaErrorInvalidValue);
    *library = load(image_at(code), Options(count, options, values));
    (*library)->owner = nullptr;
}
void core::cuLibraryLoadFromFile(Module* library, const char* file, int* options, void** values,
                                 unsigned count, void*, void**, unsigned) {
    require(library, cudaErrorInvalidValue);
    *library = load_file(file, Options(count, options, values));
    (*library)->owner = nullptr;
}
void core::cuLibraryUnload(Module library) { runtime().modules.unload(library); }
void core::cuLibraryGetKernel(const void** kernel, Module library, const char* name) {
    find_function(kernel, library, name);
}
void core::cuLibraryGetKernelCount(unsigned* count, Module library) {
    count_functions(count, library);
}
void core::cuLibraryEnumerateKernels(const void** kernels, unsigned count, Module library) {
    list_functions(kernels, count, library);
}
void core::cuLibraryGetModule(Module* module, Module library) {
    require(module, cudaErrorInvalidValue);
    *module = &runtime().modules.loaded(library);
}
void core::cuLibraryGetGlobal(uint64_t* address, size_t* bytes, Module library, const char* name) {
    find_variable(address, bytes, library, name);
}
void core::cuKernelGetFunction(const void** function, const void* kernel) {
    require(function, cudaErrorInvalidValue);
    (void)runtime().modules.function(kernel);
    *function = kernel;
}
void core::cuKernelGetLibrary(Module* library, const void* kernel) {
    require(library, cudaErrorInvalidValue);
    *library = runtime().modules.function(kernel).module;
}
void core::cuFuncGetModule(Module* module, const void* function) {
    require(module, cudaErrorInvalidValue);
    *module = runtime().modules.function(function).module;
}

// The linker. Its result is a fat binary, because cuModuleLoadData() needs the PTX, too.
struct LinkRecord {
    Options options;  // CUDA requires that their arrays exist as long as the linker
    std::vector<std::string> inputs;
    std::string result;
};

namespace {

constexpr int input_cubin = 0, input_ptx = 1, input_fatbin = 2;

LinkRecord& link_of(Link handle) {
    require(runtime().links.contains(handle), cudaErrorInvalidResourceHandle,
            "the handle was not created by cuLinkCreate(), or it was destroyed");
    return *handle;
}
void add(LinkRecord& link, int type, const void* data, size_t bytes) {
    require(data && bytes, cudaErrorInvalidValue);
    require(type == input_cubin || type == input_ptx || type == input_fatbin, cudaErrorNotSupported,
            "the simulator links PTX and fat binaries, but not objects or archives");
    const std::span image(static_cast<const std::byte*>(data), bytes);
    const model::Gpu& gpu = runtime().gpu;
    Code code;
    try {
        code = code_of(image, gpu.major * 10 + gpu.minor);
    } catch (const std::exception& e) {
        throw Failure{cudaErrorInvalidPtx, e.what()};
    }
    require(!code.ptx.empty(), cudaErrorNoKernelImageForDevice,
            "the input has no PTX, which the simulator needs");
    link.inputs.push_back(std::move(code.ptx));
}
std::string linked(const LinkRecord& link) {
    const std::string& ptx = link.inputs[0];
    const auto* const bytes = reinterpret_cast<const std::byte*>(ptx.c_str());
    std::string log;
    try {
        Code code = code_of({bytes, ptx.size()}, UINT32_MAX);
        complete(code, link.options.of_ptxas(), log);
        link.options.show(log, false);
        return container_of(ptx, code.cubin, code.arch);
    } catch (const BadImage& e) {
        link.options.show(e.what(), true);
        throw Failure{e.error, e.what()};
    }
}

}  // namespace

void core::cuLinkCreate_v2(unsigned count, int* options, void** values, Link* link) {
    require(link, cudaErrorInvalidValue);
    auto made = std::make_unique<LinkRecord>(LinkRecord{{count, options, values}, {}, {}});
    *link = *runtime().links.insert(made.release()).first;
}
void core::cuLinkAddData_v2(Link link, int type, void* data, size_t bytes, const char*, unsigned,
                            int*, void**) {
    add(link_of(link), type, data, bytes);
}
void core::cuLinkAddFile_v2(Link link, int type, const char* file, unsigned, int*, void**) {
    const std::string content = content_of(file);
    add(link_of(link), type, content.data(), content.size() - 1);
}
void core::cuLinkComplete(Link link, void** cubin, size_t* bytes) {
    LinkRecord& l = link_of(link);
    require(cubin && !l.inputs.empty(), cudaErrorInvalidValue);
    require(l.inputs.size() == 1, cudaErrorNotSupported, "linking several inputs is not simulated");
    l.result = linked(l);
    *cubin = l.result.data();
    if (bytes) *bytes = l.result.size();
}
void core::cuLinkDestroy(Link link) {
    runtime().links.erase(&link_of(link));
    delete link;
}

}  // namespace coalesce::cudart
