#include "cuda/module.hpp"

#include <array>
#include <vector>

#include "errors.hpp"

namespace coalesce::cuda {

LoadedModule::LoadedModule(Device& device, std::string image, std::string name)
    : device_(device), image_(std::move(image)), name_(std::move(name)) {}

ModuleHandle LoadedModule::load(uint64_t& generation) {
    const std::lock_guard lock(mutex_);
    generation = device_.generation();
    if (generation_ == generation) return handle_;
    const Driver& driver = device_.driver();
    const Device::CurrentContext current(device_);

    std::vector<char> log(16384);
    constexpr int error_log = 5, error_log_size = 6, line_info = 13;
    std::array<int, 3> options{error_log, error_log_size, line_info};
    std::array<void*, 3> values{log.data(), reinterpret_cast<void*>(log.size()),
                                reinterpret_cast<void*>(uintptr_t{1})};
    const Result result =
        driver.module_load(&handle_, image_.c_str(), options.size(), options.data(), values.data());
    log.back() = '\0';
    if (is_sticky(result)) device_.check(result, "loading `" + name_ + "`");
    if (result == out_of_memory) device_.check(result, "loading `" + name_ + "`");
    if (result != success) {
        std::string message = "the CUDA driver refused `" + name_ + "` for " + device_.label() +
                              ": " + driver.describe(result);
        if (log.front() != '\0') message += std::string("\n") + log.data();
        if (result == unsupported_ptx_version)
            message += "\n  This driver supports CUDA " + cuda_version(driver.version) +
                       "; update the driver or compile with an NVRTC of that version.";
        throw CompileError(message);
    }
    generation_ = generation;
    return handle_;
}

LoadedModule::Global LoadedModule::global(const std::string& name) {
    uint64_t generation = 0;
    const ModuleHandle handle = load(generation);
    const Device::CurrentContext current(device_);
    Global variable;
    device_.check(
        device_.driver().module_global(&variable.address, &variable.bytes, handle, name.c_str()),
        "finding variable `" + name + "`");
    return variable;
}

Function::Function(std::shared_ptr<LoadedModule> module, std::string name)
    : module_(std::move(module)), name_(std::move(name)) {
    load();
}

FunctionHandle Function::handle() {
    if (generation_.load(std::memory_order_acquire) != device().generation()) load();
    return handle_;
}

void Function::load() {
    const std::lock_guard lock(mutex_);
    uint64_t generation = 0;
    const ModuleHandle module = module_->load(generation);
    if (generation_ == generation) return;
    const Device::CurrentContext current(device());
    device().check(device().driver().module_function(&handle_, module, name_.c_str()),
                   "finding kernel `" + name_ + "`");
    dynamic_shared_ = 48 * 1024;
    generation_ = generation;
}

int Function::attribute(int number) {
    int value = 0;
    const Device::CurrentContext current(device());
    device().check(device().driver().function_attribute(&value, number, handle()),
                   "cuFuncGetAttribute");
    return value;
}

Function::Resources Function::resources() {
    Resources r;
    r.max_block_threads = attribute(0);
    r.static_shared = attribute(1);
    r.constant = attribute(2);
    r.local = attribute(3);
    r.registers = attribute(4);
    return r;
}

void Function::allow_dynamic_shared(unsigned bytes) {
    const FunctionHandle function = handle();
    if (bytes <= dynamic_shared_) return;
    constexpr int max_dynamic_shared = 8, max_shared_opt_in = 97;
    const Device::CurrentContext current(device());
    const Result result = device().driver().set_function_attribute(function, max_dynamic_shared,
                                                                   static_cast<int>(bytes));
    if (result != success && !is_sticky(result))
        throw LaunchError("a block of kernel `" + name_ + "` needs " + std::to_string(bytes) +
                          " bytes of dynamic shared memory and " + std::to_string(attribute(1)) +
                          " bytes of static shared memory; a block on " + device().label() +
                          " can have at most " +
                          std::to_string(device().attribute(max_shared_opt_in)) +
                          " bytes in total");
    device().check(result, "kernel `" + name_ + "`");
    dynamic_shared_ = bytes;
}

void Function::start_early() {
    // Graphs record such launches from CUDA 12.3 on.
    constexpr int oldest_driver = 12030, major_capability = 75;
    const Driver& driver = device().driver();
    starts_early_ = driver.launch_with_attributes != nullptr && driver.version >= oldest_driver &&
                    device().attribute(major_capability) >= 9;
}

}  // namespace coalesce::cuda
