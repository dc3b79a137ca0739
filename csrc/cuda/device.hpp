// One GPU: its primary context, its memory, and what happens when a kernel breaks the context.
//
// The primary context is the one that CuPy, PyTorch and the CUDA runtime use, so their arrays and
// streams are valid here as they are.
//
// GENERATIONS. After a kernel fault (an illegal address, a failed assert) every call in the context
// fails, for good. check() then resets the context and counts up the generation: memory of an older
// generation is known to be lost, and modules are loaded again when next used. Drivers differ in
// whether a process may go on after a reset; CUDA does not promise it. Where it may not, the device
// is broken for the rest of the process, and every call says so and by what.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cuda/driver.hpp"
#include "cuda/pool.hpp"
#include "cuda/staging.hpp"
#include "fork.hpp"

namespace coalesce::cuda {

class Device;

// Device memory from the pool, returned to it at the end of its life.
class Memory {
  public:
    Memory(Device& device, Pool::Block block);
    ~Memory();
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    [[nodiscard]] Device& device() const { return device_; }
    [[nodiscard]] Address address() const { return block_.address; }
    [[nodiscard]] bool lost() const;  // a kernel fault reset the context since

    // Work may be enqueued on a stream that the default stream does not order with. Then the memory
    // is reused only when everything has ended that the GPU has to do at the end of its life.
    void used_elsewhere() { elsewhere_ = true; }

  private:
    Device& device_;
    Pool::Block block_;
    uint64_t generation_;
    bool elsewhere_ = false;
};

class Device {
  public:
    // The GPU of that number, opened by the first call. Throws DeviceUnavailable.
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

    // Makes the device's context current for a scope, and what was current again after it. A thread
    // without a context keeps this one. Throws LaunchError in a process that was forked since the
    // device was opened.
    class Scope {
      public:
        explicit Scope(const Device& device);
        ~Scope();
        Scope(const Scope&) = delete;
        Scope& operator=(const Scope&) = delete;

      private:
        const Driver& driver_;
        ContextHandle before_ = nullptr;
    };

    // At least `bytes` of device memory for `what` (a phrase for the message). Throws LaunchError
    // that says how much was asked for and how much is free.
    [[nodiscard]] std::shared_ptr<Memory> allocate(size_t bytes, const std::string& what);

    // See Staging; these have the context current and report errors as check() does.
    void to_device(Address target, const void* source, size_t bytes, Stream stream);
    void to_host(void* target, Address source, size_t bytes, Stream stream);
    void copy(Address target, Address source, size_t bytes, Stream stream);
    void fill(Address target, unsigned char value, size_t bytes, Stream stream);
    void prefault(void* target, size_t bytes) {
        const Scope scope(*this);
        staging_.prefault(target, bytes);
    }
    void prepare_staging();  // now rather than in the first large copy
    void synchronize(Stream stream, const std::string& what = "waiting for the GPU");

    // Whether the work on a stream ends within a time. The driver's own wait cannot be interrupted.
    [[nodiscard]] bool finishes_within(Stream stream, std::chrono::milliseconds time,
                                       const std::string& what);

    // The kernel that was launched last; empty if there was none.
    [[nodiscard]] std::string last_kernel();

    // Has later work on `second` wait for the work that is on `first` now; the host goes on.
    void order(Stream first, Stream second);

    // Throws LaunchError unless the result is success. `what` says what was tried ("kernel
    // `naive`"). After a fault it resets the context first, so that later calls work. The message
    // names the kernel and the GPU: drivers report one GPU's fault in calls for others, too.
    void check(Result result, const std::string& what);

    // Notes the kernel that is launched, for the message of a fault that a later call meets.
    void launches(const std::string& kernel);

    [[nodiscard]] Pool& pool() { return pool_; }
    void free_memory(size_t& free, size_t& total) const;  // bytes

    // Gives the block back to the pool when everything has ended that the GPU has to do now. Does
    // not wait for it where the driver can record that.
    void give_back_later(const Pool::Block& block);

  private:
    Device(const Driver& driver, int ordinal);
    [[nodiscard]] bool recover();  // whether the device works again
    void give_back_idle();         // what give_back_later() kept and is free by now

    const Driver& driver_;
    int ordinal_;
    int handle_ = 0;
    std::string name_;
    size_t total_memory_ = 0;
    ContextHandle context_ = nullptr;
    std::atomic<uint64_t> generation_{1};
    const uint64_t forks_ = fork::count();  // when it was opened; CUDA does not work in a child
    ForkSafe<std::mutex> recovery_;
    std::string broken_by_;                // empty: it works
    std::atomic<uint64_t> seen_fault_{0};  // what happened until then did not end this GPU
    ForkSafe<std::mutex> launched_;
    std::string last_kernel_;
    Pool pool_;
    struct Busy {
        Pool::Block block;
        EventHandle idle;  // has happened when nothing uses the block any more
    };
    ForkSafe<std::mutex> busy_mutex_;
    std::vector<Busy> busy_;
    Staging staging_;
};

}  // namespace coalesce::cuda
