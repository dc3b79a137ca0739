// Copies between ordinary (pageable) host memory and the GPU, at the speed of the link, overlapped
// with kernels.
//
// METHOD
// The GPU can only copy from and to pinned memory, and pinning a user's array takes much longer
// than copying it once. Therefore an array is copied through slots of pinned memory. Worker threads
// copy pieces of an array into a slot, while the copy engine sends earlier slots. In the other
// direction, the copy engine fills slots, while workers empty earlier ones.
//
//  array   |piece piece ... | piece piece ... | ...        workers, many pieces at a time
//  ring    [ slot 0         ][ slot 1         ] ... reused in turn, one ring for each direction
//  GPU     |<--------------- one asynchronous copy per slot
//
// The calling thread starts the copy engine and the kernels. While it waits, it copies pieces, too,
// so that small arrays are finished before the workers wake up. The amount of pinned memory is the
// size of the rings and does not depend on the arrays. Pinned arrays are copied directly.
//
// STEPS. A list of steps has copies to the GPU, launches, and copies to the host. A launch waits
// for the copies to the GPU before it in the list. A copy to the host waits for the launches before
// it. Nothing else waits, so that later copies overlap with earlier launches.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "cuda/driver.hpp"
#include "cuda/memory/workers.hpp"

namespace coalesce::cuda {

// A step of a list: a copy or a launch.
struct Step {
    enum class Kind : uint8_t { to_device, launch, to_host };
    Kind kind;
    // A copy.
    char* host = nullptr;
    Address device = 0;
    size_t bytes = 0;
    // A copy to the GPU may take a part of each row of a matrix: `row` bytes of rows whose begins
    // are `pitch` bytes apart. On the GPU, the parts follow each other. 0 means one row.
    size_t row = 0, pitch = 0;
    // A copy to the host in a small list: the launches write the bytes to pinned memory, and the
    // GPU copies nothing. Such a list has no other copy to the host.
    bool written = false;
    // A launch: enqueues work on the stream. The address is that of the pinned memory to which
    // launches of a small list may write. May throw.
    std::function<void(Stream, Address)> launch = nullptr;
};

// The number of bytes that a list of steps copies in each direction.
struct StepBytes {
    size_t up = 0, down = 0;
};
[[nodiscard]] StepBytes bytes_of(std::span<const Step> steps);

// The streams of the steps. They may be the same stream.
struct Streams {
    Stream up = nullptr, compute = nullptr, down = nullptr;
};

// Copies `bytes` bytes. If `row` is not 0, they lie in rows; see Step.
void copy_rows(char* to, const char* from, size_t bytes, size_t row, size_t pitch);

// Is called about every 100 ms while the GPU works (to check for Ctrl-C). It may throw.
using Waiting = std::function<void()>;

// Executes lists of steps, one at a time, with its own pinned memory and threads. The device's
// context must be current in the thread that calls these functions.
class Transfers {
  public:
    static constexpr size_t slot_bytes = size_t{4} << 20;
    static constexpr size_t slot_count = 8;
    // Limits for a small list of steps: the bytes in each direction, and the number of steps. The
    // calling thread executes a small list without the workers. Arrays that lie side by side on the
    // GPU are then sent to the GPU with one copy.
    static constexpr size_t small_bytes = size_t{512} << 10;
    static constexpr size_t small_steps = 64;
    [[nodiscard]] static bool is_small(std::span<const Step> steps);

    explicit Transfers(const Driver& driver) : driver_(driver) {}
    ~Transfers();
    Transfers(const Transfers&) = delete;
    Transfers& operator=(const Transfers&) = delete;

    // Executes the steps. After the return, the caller may change the host arrays that were copied
    // to the GPU. The host arrays that were copied from the GPU contain the results. A launch has
    // ended if a copy to the host follows it in the list; otherwise it may still run. It may also
    // still run if `waiting` throws.
    [[nodiscard]] Result run(std::span<const Step> steps, const Streams& streams,
                             const Waiting& waiting);

    // Sets `streams` to streams for copies that overlap with launches. These streams are ordered
    // with the legacy default stream, but not with each other.
    [[nodiscard]] Result overlapping(Streams& streams);

    // Makes a ring for each direction and starts the workers. Otherwise the first use does so.
    [[nodiscard]] Result prepare();

    // Runs a task on the workers and on the calling thread.
    void on_workers(const std::function<void()>& task);

    // Call this when the context has ended: the destructor then does not call the driver.
    void forget() { forgotten_ = true; }

  private:
    struct Slot {
        char* memory = nullptr;
        EventHandle event = nullptr;
        // True if `event` was recorded, and nothing has waited for it yet.
        bool pending = false;
        std::atomic<unsigned> left{0};  // number of pieces that are not finished
    };
    using Ring = std::array<Slot, slot_count>;
    class Overlapped;  // defined in overlapped_transfers.cpp

    Result run_small(std::span<const Step> steps, const Streams& streams, const Waiting& waiting);
    Result run_overlapped(std::span<const Step> steps, const Streams& streams,
                          const Waiting& waiting);
    Result wait_for_abandoned(const Waiting& waiting);
    Result make(Ring& ring);
    Result event(EventHandle& made);
    void start_workers();
    [[nodiscard]] bool is_pinned(const void* pointer) const;

    const Driver& driver_;
    bool forgotten_ = false;
    Ring up_, down_;
    char* small_buffer_ =
        nullptr;  // pinned memory for small lists: first the way up, then the way down
    Streams streams_;
    EventHandle arrived_ = nullptr;      // the copies to the GPU before a launch
    std::vector<EventHandle> computed_;  // the launches before each copy to the host
    EventHandle abandoned_ = nullptr;    // the end of launches that a caller did not wait for
    bool is_abandoned_ = false;
    std::unique_ptr<Workers> workers_;
};

}  // namespace coalesce::cuda
