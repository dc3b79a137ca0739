#include "cudart/state/modules.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <sstream>

#include "cudart/binary/jit.hpp"
#include "cudart/state/api.hpp"
#include "cudart/state/runtime.hpp"
#include "errors.hpp"
#include "printable.hpp"
#include "ptx/demangle.hpp"
#include "round_up.hpp"
#include "sass/lift.hpp"
#include "sim/decode/module_memory.hpp"
#include "sim/ptx_analysis/contraction.hpp"

namespace coalesce::cudart {

namespace {

// Returns "scale" for "void ns::scale<float>(float*, int)". The tables of the report use this name.
std::string short_name(const std::string& mangled) {
    std::string name = ptx::demangled(mangled);
    int depth = 0;
    for (size_t i = 0; i < name.size(); ++i) {  // remove the parameters
        if (name[i] == '<') ++depth;
        if (name[i] == '>') --depth;
        if (name[i] == '(' && depth == 0) {
            name.resize(i);
            break;
        }
    }
    depth = 0;
    for (size_t i = name.size(); i-- > 0;) {  // remove the type of the result
        if (name[i] == '>') ++depth;
        if (name[i] == '<') --depth;
        if (name[i] == ' ' && depth == 0) return name.substr(i + 1);
    }
    return name;
}

// Returns the text of a source that PTX names. PTX can name any file, also an endless device or a
// pipe, so the text is empty if the file is not a regular file of limited size.
std::string text_of_file(const std::string& name) {
    constexpr off_t limit = 1 << 24;
    const int file = ::open(name.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (file < 0) return "";
    std::string text;
    struct stat status;
    if (::fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_size <= limit) {
        text.resize(static_cast<size_t>(status.st_size));
        text.resize(
            static_cast<size_t>(std::max<ssize_t>(0, ::read(file, text.data(), text.size()))));
    }
    ::close(file);
    return text;
}

}  // namespace

const ptx::Function& ModuleRecord::entry(const std::string& name) const {
    const ptx::Function* const f = parsed.find_function(name);
    if (!f || !f->entry) throw Failure{cudaErrorInvalidDeviceFunction};
    return *f;
}

const sim::Program& ModuleRecord::program(const std::string& name, analysis::Purpose purpose) {
    const std::pair key{name, purpose};
    const auto stack = uint32_t(runtime().limits[Limit::stack_size]);
    if (const auto known = programs.find(key); known != programs.end()) {
        sim::limit_stack(known->second, stack);
        return known->second;
    }
    const sim::Engine& engine = sim::engine(analysis::watch_for(purpose));
    const ptx::Function& function = entry(name);
    std::optional<sim::Program> made;
    if (purpose == analysis::Purpose::count) {
        try {
            if (known.listing.empty()) throw UnsupportedInstruction(known.reason);
            if (!machine) machine = sass::read(known.listing);
            made = sass::lift(*machine, parsed, function, memory, engine);
        } catch (const UnsupportedInstruction& e) {
            why_ptx[name] = e.what();
        }
    }
    if (!made) made = sim::decode(parsed, function, memory, engine);
    const auto file = made->files.find(made->source_file);
    if (file != made->files.end()) made->source = source(file->second);
    sim::limit_stack(*made, stack);
    return programs.emplace(key, std::move(*made)).first->second;
}

std::shared_ptr<const analysis::CountedCode> ModuleRecord::counted_code(
    const sim::Program& program) {
    auto& made = counted_codes[&program];
    if (!made) made = analysis::counted_code(program);
    return made;
}

const std::vector<std::string>& ModuleRecord::source(const std::string& file) {
    const auto [known, added] = sources_.try_emplace(file);
    if (added) {
        std::istringstream in(printable(text_of_file(file)));
        for (std::string line; std::getline(in, line);) known->second.push_back(line);
    }
    return known->second;
}

ModuleRecord* Modules::add(std::span<const std::byte> container) {
    modules_.push_back(std::make_unique<ModuleRecord>());
    modules_.back()->container = container;
    return modules_.back().get();
}

void Modules::add_function(ModuleRecord* module, const void* host, const char* entry) {
    Function& f = functions_[host];
    f.module = module;
    f.entry = entry;
    f.name = short_name(entry);
}

void Modules::add_variable(ModuleRecord* module, const void* host, const char* name, uint64_t bytes,
                           void** managed) {
    variables_[host] = {module, name, bytes, managed};
}

void Modules::forget(ModuleRecord* module) {
    std::erase_if(functions_, [&](const auto& item) { return item.second.module == module; });
    std::erase_if(variables_, [&](const auto& item) { return item.second.module == module; });
}

void Modules::use(ModuleRecord& m) {
    if (!m.ready) {
        m.ready = true;
        try {
            read(m);
        } catch (const BadImage& e) {
            m.error_number = e.error, m.error = e.what();
        } catch (const std::exception& e) {
            m.error_number = cudaErrorInvalidKernelImage, m.error = e.what();
        }
        if (!m.error.empty() && !m.loaded) {
            runtime().report.unusable = m.error;
            print_once("coalesce: this program's device code cannot be used: " + m.error);
        }
    }
    if (!m.error.empty()) throw Failure{m.error_number, m.loaded ? m.error : ""};
}

void Modules::read(ModuleRecord& m) {
    Runtime& rt = runtime();
    m.code = code_of(m.container, rt.gpu.major * 10 + rt.gpu.minor);
    if (m.loaded) complete(m.code, m.options, m.log);
    if (m.code.ptx.empty() && m.loaded)
        throw BadImage(
            cudaErrorNoKernelImageForDevice,
            "the module has no PTX that the simulated GPU could run. The simulator needs "
            "PTX: build the module with nvcc -ptx, or with nvcc -fatbin -gencode "
            "arch=compute_90,code=[compute_90,sm_90]");
    if (m.code.ptx.empty())
        throw BadImage(
            cudaErrorInvalidKernelImage,
            m.code.linked
                ? "it has no PTX, only machine code. If nvcc was called with -rdc=true (separate "
                  "compilation), the simulator cannot run the program. If not, build it with "
                  "-gencode arch=compute_90,code=[compute_90,sm_90]"
                : "the code has no PTX that the simulated GPU can run. Build the program with "
                  "-gencode "
                  "arch=compute_90,code=[compute_90,sm_90]");
    m.known = read_code_file(rt.settings.code, m.code.key);
    try {
        m.parsed = sim::contracted(ptx::parse(m.code.ptx));
    } catch (const std::exception& e) {
        if (m.log.empty()) m.log = e.what();
        throw BadImage(cudaErrorInvalidPtx, std::string("the PTX cannot be read: ") + e.what());
    }
    constexpr uint32_t newest = 9;  // the major version of the PTX of CUDA 13
    if (m.parsed.version_major > newest)
        throw BadImage(cudaErrorUnsupportedPtxVersion,
                       "the PTX has version " + std::to_string(m.parsed.version_major) + "." +
                           std::to_string(m.parsed.version_minor) +
                           ", which is newer than CUDA 13; compile it with an older nvcc");
    m.parsed.function_addresses = m.known.functions;
    m.memory = sim::lay_out_memory_at(m.parsed, rt.memory.next_module());
    uint64_t end = 0;
    for (sim::ModuleMemory::Item& item : m.memory->items) {
        Allocation a;
        a.address = item.address;
        a.bytes = item.bytes.size();
        a.host = item.bytes.data();
        a.kind = Kind::variable;
        a.writable = item.writable;
        a.name = ptx::demangled(item.name);
        const auto declared = m.known.device.find(ptx::plain_name(item.name));
        if (declared != m.known.device.end()) {
            a.item_bytes = declared->second.item_bytes;
            a.shape = sim::extents_in_memory(declared->second.shape, a.item_bytes, a.bytes);
            a.type = declared->second.type;
        }
        end = std::max(end, a.end());
        for (const auto& [host, variable] : variables_) {
            if (variable.module != &m || variable.name != item.name || !variable.managed) continue;
            // The variable keeps its own address, so that the host can use it, too.
            a.kind = Kind::managed;
            const uint64_t first = a.address / 4096 * 4096;
            mmap(reinterpret_cast<void*>(first), round_up(a.end() - first, 4096),
                 PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
            a.host = reinterpret_cast<std::byte*>(a.address);
            std::memcpy(a.host, item.bytes.data(), a.bytes);
            *variable.managed = a.host;
        }
        rt.memory.add(std::move(a));
    }
    rt.memory.after_module(end);
}

void Modules::place_managed(ModuleRecord* module) {
    for (const auto& [host, variable] : variables_)
        if (variable.module == module && variable.managed) {
            use(*module);
            return;
        }
}

Function& Modules::function(const void* host) {
    if (handles_.contains(host)) {
        auto* const f = static_cast<Function*>(const_cast<void*>(host));
        if (f->module->unloaded)
            throw Failure{cudaErrorInvalidResourceHandle,
                          "the module of the kernel `" + f->name +
                              "` was unloaded, or its context was destroyed"};
        return *f;
    }
    const auto entry = functions_.find(host);
    if (entry == functions_.end())
        throw Failure{cudaErrorInvalidResourceHandle,
                      "the function that was launched is not a kernel of this program"};
    use(*entry->second.module);
    return entry->second;
}

ModuleRecord* Modules::load(std::span<const std::byte> image, Context owner,
                            std::vector<std::string> options, std::string* log) {
    auto made = std::make_unique<ModuleRecord>();
    made->loaded = true;
    made->owner = owner;
    made->image.assign(image.begin(), image.end());
    made->container = made->image;
    made->options = std::move(options);
    ModuleRecord& m = *modules_.emplace_back(std::move(made));
    try {
        use(m);
    } catch (const Failure&) {
        if (log) *log = m.log;
        modules_.pop_back();
        throw;
    }
    if (log) *log = m.log;
    loaded_.insert(&m);
    return &m;
}

ModuleRecord& Modules::loaded(ModuleRecord* handle) {
    require(
        loaded_.contains(handle), cudaErrorInvalidResourceHandle,
        "the module was not loaded by cuModuleLoad() or a similar function, or it was unloaded");
    return *handle;
}

void Modules::unload(ModuleRecord* handle) {
    ModuleRecord& m = loaded(handle);
    // The record stays, because the report may name what the module contains.
    loaded_.erase(&m);
    m.unloaded = true;
    for (const sim::ModuleMemory::Item& item : m.memory->items)
        runtime().memory.remove(item.address);
}

void Modules::unload_all(Context owner) {
    std::vector<ModuleRecord*> own;
    for (const auto& m : modules_)
        if (m->owner == owner && loaded_.contains(m.get())) own.push_back(m.get());
    for (ModuleRecord* const m : own) unload(m);
}

Function* Modules::function_named(ModuleRecord& module, const std::string& name) {
    const auto known = module.functions.find(name);
    if (known != module.functions.end()) return known->second.get();
    const ptx::Function* const function = module.parsed.find_function(name);
    if (!function || !function->entry) {
        std::string names;
        for (const ptx::Function& f : module.parsed.functions)
            if (f.entry) names += (names.empty() ? "`" : ", `") + f.name + "`";
        throw Failure{cudaErrorSymbolNotFound,
                      "the module has no kernel `" + name + "`; " +
                          (names.empty() ? "it has no kernels" : "its kernels are " + names)};
    }
    auto made = std::make_unique<Function>();
    made->module = &module;
    made->entry = name;
    made->name = short_name(name);
    handles_.insert(made.get());
    return module.functions.emplace(name, std::move(made)).first->second.get();
}

std::pair<uint64_t, uint64_t> Modules::variable_named(const ModuleRecord& module,
                                                      const std::string& name) {
    for (const sim::ModuleMemory::Item& item : module.memory->items)
        if (item.name == name) return {item.address, item.bytes.size()};
    throw Failure{cudaErrorSymbolNotFound, "the module has no variable `" + name + "`"};
}

std::pair<uint64_t, uint64_t> Modules::variable(const void* host) {
    const auto entry = variables_.find(host);
    if (entry == variables_.end())
        throw Failure{cudaErrorInvalidSymbol,
                      "the symbol is not a __device__ or __constant__ variable of this program"};
    use(*entry->second.module);
    const auto& addresses = entry->second.module->memory->address_of;
    const auto address = addresses.find(entry->second.name);
    if (address == addresses.end()) throw Failure{cudaErrorInvalidSymbol};
    return {address->second, entry->second.bytes};
}

}  // namespace coalesce::cudart
