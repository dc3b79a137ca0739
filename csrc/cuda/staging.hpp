// Copies between ordinary (pageable) host memory and the GPU at the speed of the link.
//
// METHOD
// The GPU can only copy from pinned memory, and pinning a user's array takes much longer than one
// copy. Therefore a ring of pinned slots is kept.
//
// For a copy to the GPU, worker threads copy pieces of the array into a slot, while the copy engine
// sends earlier slots. For a copy from the GPU, the copy engine fills slots, while workers empty
// earlier ones. The calling thread starts the copy engine. While it waits, it copies pieces, too,
// so that small arrays are finished before the workers wake up. The amount of pinned memory is the
// size of the ring and does not depend on the array.
//
//  array   |piece piece ... | piece piece ... | ...        workers, many pieces at a time
//  ring    [ slot 0         ][ slot 1         ] ... reused in turn
//  GPU     |<--------------- one asynchronous copy per slot
//
// Small copies and arrays that are already pinned are copied directly.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <mutex>

#include "cuda/driver.hpp"
#include "cuda/workers.hpp"
#include "fork.hpp"

namespace coalesce::cuda {

class Staging {
  public:
    static constexpr size_t slot_bytes = size_t{4} << 20;
    static constexpr size_t slot_count = 8;
    static constexpr size_t piece_bytes = size_t{512} << 10;
    // Arrays of at most these sizes (to the GPU, from the GPU) are copied by the driver alone. For
    // them, waking the workers would take as long as the copy.
    static constexpr size_t direct_up = size_t{1} << 20;
    static constexpr size_t direct_down = size_t{256} << 10;

    explicit Staging(const Driver& driver) : driver_(driver) {}

    // Enqueues the copy on `stream`. After the return, the caller may change `source`. For this
    // function and the following ones, the device's context must be current in the calling thread.
    [[nodiscard]] Result to_device(Address target, const void* source, size_t bytes, Stream stream);

    // Waits for the earlier work on `stream`, and then copies from the GPU. After the return,
    // `target` has the data.
    [[nodiscard]] Result to_host(void* target, Address source, size_t bytes, Stream stream);

    // Makes the system allocate the pages of [target, target + bytes) now, with all workers. The
    // contents stay the same. Without this call, the pages are allocated one by one during the
    // copy, which then takes several times as long. Call this function while the kernel runs.
    void prefault(void* target, size_t bytes);

    // Makes the ring and starts the workers. Without this call, the first large copy does so.
    [[nodiscard]] Result prepare();

    // Forgets the ring without calling the driver. Call this when the context of the ring has
    // ended.
    void forget();

  private:
    struct Slot {
        char* memory = nullptr;
        EventHandle event = nullptr;
        // True if `event` was recorded, and nothing has waited for it yet.
        bool pending = false;
    };

    Result prepare_locked();
    Result wait(Slot& slot);
    [[nodiscard]] bool is_pinned(const void* pointer) const;

    const Driver& driver_;
    ForkSafe<std::mutex> mutex_;
    std::array<Slot, slot_count> slots_;
    std::unique_ptr<Workers> workers_;
};

}  // namespace coalesce::cuda
