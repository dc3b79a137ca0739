// One GPU: its primary context, its memory, and what happens after a kernel fault.
//
// CuPy, PyTorch and the CUDA runtime also use the primary context. Therefore this package can use
// their arrays and streams.
//
// GENERATIONS. After a kernel fault (an illegal address, a failed assert) every call in the context
// fails permanently. check() then resets the context. Each reset begins a new generation of the
// device, and the generations are numbered. Memory of an older generation is lost. Modules are
// loaded again at their next use. CUDA does not guarantee that a process can continue after a
// reset, and drivers differ. If the process cannot continue, the device is marked as broken. Every
// later call then fails with a message that names the cause.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "cuda/driver.hpp"
#include "cuda/memory/pool.hpp"
#include "cuda/memory/staging.hpp"
#include "fork.hpp"

namespace coalesce::cuda {

class Device;

// Device memory from the pool. The destructor returns it to the pool.
class Memory {
  public:
    Memory(Device& device, Pool::Block block);
    ~Memory();
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    [[nodiscard]] Device& device() const { return device_; }
    [[nodiscard]] Address address() const { return block_.address; }
    // Returns whether a kernel fault has reset the context since the allocation.
    [[nodiscard]] bool lost() const;

    // Call this if a stream that does not wait for the default stream may use the memory. Then,
    // when this object is destroyed, the memory is not reused until all current work of the GPU has
    // ended.
    void used_elsewhere() { elsewhere_ = true; }

  private:
    Device& device_;
    Pool::Block block_;
    uint64_t generation_;
    bool elsewhere_ = false;
};

class Device {
  public:
    // Returns the GPU with this number. The first call opens it. Throws DeviceUnavailable.
    static Device& get(int ordinal);

    [[nodiscard]] int ordinal() const { return ordinal_; }
    [[nodiscard]] const std::string& name() const { return name_; }      // "NVIDIA H200"
    [[nodiscard]] std::string label() const;                             // "cuda:0 (NVIDIA H200)"
    [[nodiscard]] size_t total_memory() const { return total_memory_; }  // bytes
    [[nodiscard]] int attribute(int number) const;                       // a CU_DEVICE_ATTRIBUTE
    [[nodiscard]] std::pair<int, int> compute_capability() const;        // {9, 0}
    [[nodiscard]] uint64_t generation() const {
        return generation_.load() + ((fork::count() - forks_) << 32);
    }
    [[nodiscard]] const Driver& driver() const { return driver_; }

    // While this object exists, the context of the device is the thread's current context.
    // Afterwards the previous context is current again. If the thread had no current context
    // before, the device's context stays current. Throws LaunchError if the process was forked
    // after the device was opened.
    class CurrentContext {
      public:
        explicit CurrentContext(const Device& device);
        ~CurrentContext();
        CurrentContext(const CurrentContext&) = delete;
        CurrentContext& operator=(const CurrentContext&) = delete;

      private:
        const Driver& driver_;
        ContextHandle before_ = nullptr;
    };

    // Allocates at least `bytes` of device memory. `what` names the purpose of the memory in
    // messages. If there is not enough memory, throws LaunchError with the requested and the free
    // memory.
    [[nodiscard]] std::shared_ptr<Memory> allocate(size_t bytes, const std::string& what);

    // These functions make the context current, and report errors as check() does. Staging
    // describes to_device(), to_host(), run() and prefault().
    void to_device(Address target, const void* source, size_t bytes, Stream stream);
    void to_host(void* target, Address source, size_t bytes, Stream stream);
    void run(std::span<const Step> steps, bool overlap, const Waiting& waiting);
    void copy(Address target, Address source, size_t bytes, Stream stream);
    void fill(Address target, unsigned char value, size_t bytes, Stream stream);
    void prefault(void* target, size_t bytes) {
        const CurrentContext current(*this);
        staging_.prefault(target, bytes);
    }
    void prepare_staging();  // makes the first large copy faster
    void synchronize(Stream stream, const std::string& what = "waiting for the GPU");

    // Returns whether the work on a stream ends within `time`. This function exists because Ctrl-C
    // cannot interrupt the wait of the driver.
    [[nodiscard]] bool finishes_within(Stream stream, std::chrono::milliseconds time,
                                       const std::string& what);

    // Returns the name of the kernel that was launched last. It is empty if there was none.
    [[nodiscard]] std::string last_kernel();

    // Makes later work on `second` wait for the current work on `first`. The host does not wait.
    void order(Stream first, Stream second);

    // Throws LaunchError unless the result is success. `what` names the failed operation ("kernel
    // `naive`"). After a fault, the function first resets the context, so that later calls work.
    // The message names the kernel and the GPU, because drivers also report the fault of one GPU in
    // calls for other GPUs.
    void check(Result result, const std::string& what);

    // Records the kernel that is launched, because a later call may report its fault.
    void launches(const std::string& kernel);

    [[nodiscard]] Pool& pool() { return pool_; }
    void free_memory(size_t& free, size_t& total) const;  // bytes

    // Returns the block to the pool when all current work of the GPU has ended. Does not wait if
    // the driver can record an event for this.
    void give_back_later(const Pool::Block& block);

  private:
    Device(const Driver& driver, int ordinal);
    [[nodiscard]] bool recover();  // returns whether the device works after a reset
    // Returns blocks from give_back_later() to the pool if they are no longer in use.
    void give_back_idle();

    const Driver& driver_;
    int ordinal_;
    int handle_ = 0;
    std::string name_;
    size_t total_memory_ = 0;
    ContextHandle context_ = nullptr;
    std::atomic<uint64_t> generation_{1};
    // The number of forks of the process when the device was opened. CUDA does not work in a forked
    // child.
    const uint64_t forks_ = fork::count();
    ForkSafe<std::mutex> recovery_;
    std::string broken_by_;  // the fault that broke the device; empty if it works
    // Faults up to this number did not break this GPU.
    std::atomic<uint64_t> seen_fault_{0};
    ForkSafe<std::mutex> launched_;
    std::string last_kernel_;
    Pool pool_;
    struct Busy {
        Pool::Block block;
        EventHandle idle;  // occurs when the block is no longer in use
    };
    ForkSafe<std::mutex> busy_mutex_;
    std::vector<Busy> busy_;
    Staging staging_;
};

}  // namespace coalesce::cuda
