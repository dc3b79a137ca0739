#include "cuda/memory/transfers.hpp"

#include <algorithm>
#include <cstring>

#include "cuda/memory/pauses.hpp"

namespace coalesce::cuda {

namespace {

using Kind = Step::Kind;

constexpr unsigned without_timing = 2;  // CU_EVENT_DISABLE_TIMING

}  // namespace

StepBytes bytes_of(std::span<const Step> steps) {
    StepBytes sum;
    for (const Step& step : steps) {
        if (step.kind == Kind::to_device) sum.up += step.bytes;
        if (step.kind == Kind::to_host) sum.down += step.bytes;
    }
    return sum;
}

void copy_rows(char* to, const char* from, size_t bytes, size_t row, size_t pitch) {
    if (row == 0) row = bytes;
    for (size_t at = 0; at < bytes; at += row, from += pitch) std::memcpy(to + at, from, row);
}

bool Transfers::is_small(std::span<const Step> steps) {
    const auto [up, down] = bytes_of(steps);
    return std::max(up, down) <= small_bytes && steps.size() <= small_steps;
}

Transfers::~Transfers() {
    if (forgotten_) return;
    for (Ring* ring : {&up_, &down_})
        for (Slot& slot : *ring) {
            if (slot.pending) driver_.event_synchronize(slot.event);
            if (slot.event != nullptr) driver_.event_destroy(slot.event);
            if (slot.memory != nullptr) driver_.host_free(slot.memory);
        }
    if (small_buffer_ != nullptr) driver_.host_free(small_buffer_);
    for (const EventHandle made : computed_) driver_.event_destroy(made);
    for (const EventHandle made : {arrived_, abandoned_})
        if (made != nullptr) driver_.event_destroy(made);
    for (const Stream stream : {streams_.up, streams_.compute, streams_.down})
        if (stream != nullptr) driver_.stream_destroy(stream);
}

void Transfers::start_workers() {
    if (!workers_) workers_ = std::make_unique<Workers>(Workers::usual_count());
}

void Transfers::on_workers(const std::function<void()>& task) {
    start_workers();
    workers_->run(task, task);
}

Result Transfers::event(EventHandle& made) {
    return made != nullptr ? success : driver_.event_create(&made, without_timing);
}

Result Transfers::make(Ring& ring) {
    for (Slot& slot : ring) {
        if (slot.memory == nullptr) {
            void* memory = nullptr;
            if (const Result result = driver_.host_allocate(&memory, slot_bytes, 0)) return result;
            slot.memory = static_cast<char*>(memory);
        }
        if (const Result result = event(slot.event)) return result;
    }
    return success;
}

Result Transfers::prepare() {
    start_workers();
    const Result result = make(up_);
    return result != success ? result : make(down_);
}

Result Transfers::overlapping(Streams& streams) {
    for (Stream* stream : {&streams_.up, &streams_.compute, &streams_.down})
        if (*stream == nullptr)
            if (const Result result = driver_.stream_create(stream, 0)) return result;
    streams = streams_;
    return success;
}

bool Transfers::is_pinned(const void* pointer) const {
    // Asks with cuPointerGetAttributes(), which takes a list of attributes. The list has only one.
    // Unlike cuPointerGetAttribute(), it reports no error for memory that the driver does not know.
    // (The user would see such an error in compute-sanitizer.)
    constexpr int memory_type = 2;
    // 1 means host memory that is registered with the driver.
    unsigned type = 0;
    void* results[] = {&type};
    return driver_.pointer_attributes(1, &memory_type, results,
                                      reinterpret_cast<Address>(pointer)) == success &&
           type == 1;
}

Result Transfers::run(std::span<const Step> steps, const Streams& streams, const Waiting& waiting) {
    if (const Result result = wait_for_abandoned(waiting)) return result;
    try {
        return is_small(steps) ? run_small(steps, streams, waiting)
                               : run_overlapped(steps, streams, waiting);
    } catch (...) {
        // Each slot of a ring has an event, which says when its copy has ended. `small_buffer_` has
        // none. So the end of the work on the stream is recorded.
        is_abandoned_ = event(abandoned_) == success &&
                        driver_.event_record(abandoned_, streams.compute) == success;
        throw;
    }
}

// Waits for launches that an earlier call, ended by an exception, left running.
Result Transfers::wait_for_abandoned(const Waiting& waiting) {
    Pause pause;
    PeriodicCall call_waiting(waiting);
    while (is_abandoned_) {
        const Result result = driver_.event_query(abandoned_);
        if (result == not_ready) {
            pause();
            call_waiting();
            continue;
        }
        is_abandoned_ = false;
        return result;
    }
    return success;
}

Result Transfers::run_small(std::span<const Step> steps, const Streams& streams,
                            const Waiting& waiting) {
    // One stream is enough. Copies to neighbouring memory of the GPU are joined to one copy.
    const Stream stream = streams.compute;
    // Copies are joined if the gap between them has at most `gap` bytes. The gap is copied, too. So
    // `small_buffer_`, the pinned memory in which joined copies are collected, has room for the
    // gaps.
    constexpr size_t gap = 512, half = small_bytes + small_steps * gap;
    if (small_buffer_ == nullptr) {
        void* memory = nullptr;
        if (const Result result = driver_.host_allocate(&memory, 2 * half, 0)) return result;
        small_buffer_ = static_cast<char*>(memory);
    }
    // `used` is the number of bytes of `small_buffer_` that are in use. `begin` is the position
    // there of the next copy, which has not been started yet. The copy goes to the GPU's addresses
    // from `first` to `end`.
    size_t used = 0, begin = 0;
    Address first = 0, end = 0;  // where that copy goes
    const auto send = [&]() -> Result {
        if (first == end) return success;
        const Result result =
            driver_.copy_to_device(first, small_buffer_ + begin, size_t(end - first), stream);
        first = end = 0;
        return result;
    };
    size_t fetched = half;
    for (const Step& step : steps) {
        if (step.bytes == 0 && step.kind != Kind::launch) continue;
        if (step.kind == Kind::to_device) {
            if (first == end || step.device < end || step.device - end > gap) {
                if (const Result result = send()) return result;
                begin = used;
                first = end = step.device;
            }
            const size_t at = begin + size_t(step.device - first);
            copy_rows(small_buffer_ + at, step.host, step.bytes, step.row, step.pitch);
            end = step.device + step.bytes;
            used = at + step.bytes;
            continue;
        }
        if (const Result result = send()) return result;
        if (step.kind == Kind::launch) {
            step.launch(stream, reinterpret_cast<Address>(small_buffer_ + half));
            continue;
        }
        if (step.written) continue;
        if (const Result result =
                driver_.copy_to_host(small_buffer_ + fetched, step.device, step.bytes, stream))
            return result;
        fetched += step.bytes;
    }
    if (const Result result = send()) return result;
    Pause pause;
    PeriodicCall call_waiting(waiting);
    for (;;) {
        const Result result = driver_.stream_query(stream);
        if (result == success) break;
        if (result != not_ready) return result;
        pause();
        call_waiting();
    }
    fetched = half;
    for (const Step& step : steps) {
        if (step.kind != Kind::to_host || step.bytes == 0) continue;
        std::memcpy(step.host, small_buffer_ + fetched, step.bytes);
        fetched += step.bytes;
    }
    return success;
}

}  // namespace coalesce::cuda
