// A module is a cubin or PTX text on a GPU. It is loaded at its first use, with its kernels and
// variables.
//
// A fault of a kernel makes the context of a GPU unusable. The package then makes a new context,
// and the device gets a new generation (device.hpp). Handles of the old context are no longer
// valid. So load() and Function::handle() compare generations at each call, and load the module
// again if necessary. Therefore, do not store handles.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "cuda/device.hpp"
#include "cuda/driver.hpp"
#include "fork.hpp"

namespace coalesce::cuda {

// A cubin or PTX text on one GPU, with one copy of its __device__ and __constant__ variables.
class LoadedModule {
  public:
    // `image` is a cubin, or PTX text that the driver compiles. `name` is used in messages.
    LoadedModule(Device& device, std::string image, std::string name);

    [[nodiscard]] Device& device() const { return device_; }

    // Loads the module at the first call, and again after a fault has reset the context. Sets
    // `generation` to the generation of the device for which the module is loaded. Throws
    // CompileError with the driver's log if the driver refuses the image.
    [[nodiscard]] ModuleHandle load(uint64_t& generation);

    struct Global {
        Address address = 0;
        size_t bytes = 0;
    };
    // Throws LaunchError if there is no such variable.
    [[nodiscard]] Global global(const std::string& name);

  private:
    Device& device_;
    std::string image_;  // ends with the zero byte that PTX text needs
    std::string name_;
    ForkSafe<std::mutex> mutex_;
    ModuleHandle handle_ = nullptr;
    // The generation of the device when the module was loaded. 0 means never loaded.
    uint64_t generation_ = 0;
};

// A kernel of a module.
class Function {
  public:
    // Loads the module. Throws LaunchError if it does not contain the kernel.
    Function(std::shared_ptr<LoadedModule> module, std::string name);
    Function(Device& device, std::string image, const std::string& name)
        : Function(std::make_shared<LoadedModule>(device, std::move(image), name), name) {}

    [[nodiscard]] Device& device() const { return module_->device(); }
    [[nodiscard]] const std::string& name() const { return name_; }

    [[nodiscard]] FunctionHandle handle();

    // The resources that the compiled kernel needs.
    struct Resources {
        int registers = 0;          // registers per thread
        int static_shared = 0;      // bytes per block
        int local = 0;              // bytes per thread, for spilled registers and indexed arrays
        int constant = 0;           // bytes
        int max_block_threads = 0;  // largest block, limited by registers or __launch_bounds__
    };
    [[nodiscard]] Resources resources();

    // Allows launches with `bytes` of dynamic shared memory. CUDA requires this call for more than
    // 48 KB. Throws LaunchError with the GPU's limit if `bytes` is too large.
    void allow_dynamic_shared(unsigned bytes);

    // Lets launches start before earlier launches on their stream have ended (programmatic
    // dependent launch). Each thread of the kernel must execute griddepcontrol.wait before it reads
    // or writes global memory. If the driver or the GPU is too old, launches start in turn.
    void start_early();
    [[nodiscard]] bool starts_early() const {
        return starts_early_.load(std::memory_order_relaxed);
    }

  private:
    void load();
    [[nodiscard]] int attribute(int number);

    std::shared_ptr<LoadedModule> module_;
    std::string name_;
    ForkSafe<std::mutex> mutex_;
    FunctionHandle handle_ = nullptr;
    // The device's generation (device.hpp) when the kernel was loaded. 0 means never loaded.
    std::atomic<uint64_t> generation_{0};
    unsigned dynamic_shared_ = 48 * 1024;
    std::atomic<bool> starts_early_{false};
};

}  // namespace coalesce::cuda
