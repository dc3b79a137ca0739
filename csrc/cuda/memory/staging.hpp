// The transfers between host arrays and one GPU, from any thread.
//
// Each call uses a `Transfers` of its own. The `Transfers` that are not in use are kept for later
// calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "cuda/driver.hpp"
#include "cuda/memory/transfers.hpp"
#include "fork.hpp"

namespace coalesce::cuda {

class Staging {
  public:
    // The driver alone copies an array of at most `direct_up` bytes to the GPU, or of at most
    // `direct_down` bytes from the GPU. For such an array, waking the workers would take as long as
    // the copy.
    static constexpr size_t direct_up = size_t{1} << 20;
    static constexpr size_t direct_down = size_t{256} << 10;

    explicit Staging(const Driver& driver) : driver_(driver) {}

    // Enqueues the copy on `stream`. After the return, the caller may change `source`. For this
    // function and the following ones, the device's context must be current in the calling thread.
    [[nodiscard]] Result to_device(Address target, const void* source, size_t bytes, Stream stream);

    // Waits for the earlier work on `stream`, and then copies from the GPU. After the return,
    // `target` has the data.
    [[nodiscard]] Result to_host(void* target, Address source, size_t bytes, Stream stream);

    // Executes the steps, ordered with the legacy default stream; see Transfers::run.
    // If `overlap` is true, copies overlap with launches.
    [[nodiscard]] Result run(std::span<const Step> steps, bool overlap, const Waiting& waiting);

    // Makes the system allocate the pages of [target, target + bytes) now, with all workers. The
    // contents stay the same. Without this call, the pages are allocated one by one during the
    // copy, which then takes several times as long. Call this function while the kernel runs.
    void prefault(void* target, size_t bytes);

    // Makes the rings and starts the workers. Without this call, the first large copy does so.
    [[nodiscard]] Result prepare();

    // Forgets all pinned memory without calling the driver. Call this when its context has ended.
    void forget();

  private:
    static constexpr size_t max_kept = 4;

    // Calls `work` with a Transfers that no other call uses.
    template <class Work>
    auto with_transfers(const Work& work);

    const Driver& driver_;
    ForkSafe<std::mutex> mutex_;
    std::vector<std::unique_ptr<Transfers>> kept_;
    uint64_t contexts_ = 0;  // number of contexts that have ended
};

}  // namespace coalesce::cuda
