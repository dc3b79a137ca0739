// Machine code on a GPU: a cubin or PTX text, loaded when first used, and its kernels.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "cuda/device.hpp"
#include "cuda/driver.hpp"

namespace coalesce::cuda {

// A kernel of a cubin or of PTX text on one GPU. Loaded by the first call of handle(), and again
// after a fault reset the context.
class Function {
  public:
    // `image` is a cubin, or PTX text that the driver compiles. Throws CompileError with the
    // driver's log where the driver refuses the image, LaunchError where it lacks the kernel.
    Function(Device& device, std::string image, std::string name);

    [[nodiscard]] Device& device() const { return device_; }
    [[nodiscard]] const std::string& name() const { return name_; }

    [[nodiscard]] FunctionHandle handle();

    // What the compiler made of it.
    struct Resources {
        int registers = 0;          // a thread
        int static_shared = 0;      // bytes a block
        int local = 0;              // bytes a thread: spills and indexed arrays
        int constant = 0;           // bytes
        int max_block_threads = 0;  // what its registers or __launch_bounds__ allow
    };
    [[nodiscard]] Resources resources();

    // Allows launches with `bytes` of dynamic shared memory; above 48 KB a kernel has to opt in.
    // Throws LaunchError with the GPU's limit.
    void allow_dynamic_shared(unsigned bytes);

  private:
    void load();
    [[nodiscard]] int attribute(int number);

    Device& device_;
    std::string image_;  // with the terminator that PTX text needs
    std::string name_;
    std::mutex mutex_;
    ModuleHandle module_ = nullptr;
    FunctionHandle handle_ = nullptr;
    std::atomic<uint64_t> generation_{0};  // of the device when loaded; 0: never
    unsigned dynamic_shared_ = 48 * 1024;
};

}  // namespace coalesce::cuda
