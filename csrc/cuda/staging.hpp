// Copies between ordinary (pageable) host memory and the GPU at the speed of the link.
//
// METHOD
// The GPU can only fetch from pinned memory, and pinning a user's array costs far more than one
// copy of it. So a ring of pinned slots is kept. Going up, workers copy pieces of the array into a
// slot while the copy engine sends the slots before it; coming down, the copy engine fills slots
// while workers empty the ones before. The calling thread feeds the copy engine and, while it
// waits, copies pieces too, so a small array is done before the workers wake up. The ring bounds
// the pinned memory, whatever the array's size.
//
//   array   |piece piece ... | piece piece ... | ...        workers, many pieces at a time
//   ring    [ slot 0         ][ slot 1         ] ... reused in turn
//   GPU     |<--------------- one asynchronous copy a slot
//
// Small copies and arrays that are already pinned go directly.
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
    // Up to these sizes the driver copies. Its own staging is then as fast as waking the workers.
    static constexpr size_t direct_up = size_t{1} << 20;
    static constexpr size_t direct_down = size_t{256} << 10;

    explicit Staging(const Driver& driver) : driver_(driver) {}

    // Enqueues the copy on `stream`; on return `source` may change. The caller's thread must have
    // the device's context current, here and below.
    [[nodiscard]] Result to_device(Address target, const void* source, size_t bytes, Stream stream);

    // Copies what `stream` has computed; on return `target` holds it.
    [[nodiscard]] Result to_host(void* target, Address source, size_t bytes, Stream stream);

    // Has the system back [target, target + bytes) with pages now, with all workers, leaving the
    // contents alone. Fresh memory is otherwise backed page by page during the copy, which then
    // takes several times as long. Meant for the time in which the kernel runs.
    void prefault(void* target, size_t bytes);

    // Makes the ring and starts the workers, which the first large copy otherwise does.
    [[nodiscard]] Result prepare();

    // Drops the ring without a call to the driver: its context is gone.
    void forget();

  private:
    struct Slot {
        char* memory = nullptr;
        EventHandle event = nullptr;
        bool pending = false;  // `event` is recorded and was not waited for
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
