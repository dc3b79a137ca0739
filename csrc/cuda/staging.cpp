#include "cuda/staging.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

namespace coalesce::cuda {

namespace {

// How a transfer is divided. A transfer consists of chunks, and a chunk of pieces. A chunk fills
// one slot. A worker copies one piece at a time.
struct Plan {
    size_t bytes;

    [[nodiscard]] size_t chunks() const {
        return (bytes + Staging::slot_bytes - 1) / Staging::slot_bytes;
    }
    [[nodiscard]] size_t chunk_bytes(size_t chunk) const {
        return std::min(Staging::slot_bytes, bytes - chunk * Staging::slot_bytes);
    }
    [[nodiscard]] size_t pieces() const {
        return (bytes + Staging::piece_bytes - 1) / Staging::piece_bytes;
    }
    [[nodiscard]] unsigned pieces_of(size_t chunk) const {
        return static_cast<unsigned>((chunk_bytes(chunk) + Staging::piece_bytes - 1) /
                                     Staging::piece_bytes);
    }
};
static_assert(Staging::slot_bytes % Staging::piece_bytes == 0);

// The state of a transfer that the workers and the calling thread share.
struct Progress {
    explicit Progress(const Plan& plan) : done(plan.chunks()) {}
    std::vector<std::atomic<unsigned>> done;  // number of finished pieces of each chunk
    std::atomic<size_t> open{0};              // number of chunks that workers may process
    std::atomic<size_t> next{0};              // number of the next piece that no thread has taken
    std::atomic<bool> abort{false};
};

template <class Copy>
void copy_piece(const Plan& plan, Progress& progress, const Copy& copy, size_t piece) {
    const size_t offset = piece * Staging::piece_bytes;
    const size_t chunk = offset / Staging::slot_bytes;
    copy(chunk, offset, std::min(Staging::piece_bytes, plan.bytes - offset));
    progress.done[chunk].fetch_add(1, std::memory_order_release);
}

// Runs on a worker: takes pieces in order, waits until the chunk of the piece is open, and copies.
template <class Copy>
void work(const Plan& plan, Progress& progress, const Copy& copy) {
    for (;;) {
        const size_t piece = progress.next.fetch_add(1, std::memory_order_relaxed);
        if (piece >= plan.pieces()) return;
        const size_t chunk = piece * Staging::piece_bytes / Staging::slot_bytes;
        while (progress.open.load(std::memory_order_acquire) <= chunk) {
            if (progress.abort.load(std::memory_order_relaxed)) return;
            std::this_thread::yield();
        }
        copy_piece(plan, progress, copy, piece);
    }
}

// Copies one piece, if one can be copied at once. The calling thread uses this while it waits.
template <class Copy>
void help(const Plan& plan, Progress& progress, const Copy& copy) {
    size_t piece = progress.next.load(std::memory_order_relaxed);
    if (piece < plan.pieces() &&
        piece * Staging::piece_bytes / Staging::slot_bytes <
            progress.open.load(std::memory_order_acquire) &&
        progress.next.compare_exchange_strong(piece, piece + 1, std::memory_order_relaxed))
        copy_piece(plan, progress, copy, piece);
    else
        std::this_thread::yield();
}

bool finished(const Plan& plan, const Progress& progress, size_t chunk) {
    return progress.done[chunk].load(std::memory_order_acquire) == plan.pieces_of(chunk);
}

}  // namespace

Result Staging::prepare() {
    const std::lock_guard lock(mutex_);
    return prepare_locked();
}

Result Staging::prepare_locked() {
    if (!workers_) workers_ = std::make_unique<Workers>(Workers::usual_count());
    for (Slot& slot : slots_) {
        if (slot.memory == nullptr) {
            void* memory = nullptr;
            if (const Result result = driver_.host_allocate(&memory, slot_bytes, 0)) return result;
            slot.memory = static_cast<char*>(memory);
        }
        constexpr unsigned without_timing = 2;
        if (slot.event == nullptr)
            if (const Result result = driver_.event_create(&slot.event, without_timing))
                return result;
    }
    return success;
}

Result Staging::wait(Slot& slot) {
    if (!slot.pending) return success;
    slot.pending = false;
    return driver_.event_synchronize(slot.event);
}

bool Staging::is_pinned(const void* pointer) const {
    // The driver function takes a list of attributes; this list has one. For memory that the driver
    // does not know, it reports no error. (compute-sanitizer would show such an error to the user.)
    constexpr int memory_type = 2;
    // 1 means host memory that is registered with the driver.
    unsigned type = 0;
    void* results[] = {&type};
    return driver_.pointer_attributes(1, &memory_type, results,
                                      reinterpret_cast<Address>(pointer)) == success &&
           type == 1;
}

Result Staging::to_device(Address target, const void* source, size_t bytes, Stream stream) {
    if (bytes == 0) return success;
    if (bytes <= direct_up) return driver_.copy_to_device(target, source, bytes, stream);
    if (is_pinned(source)) {
        const Result result = driver_.copy_to_device(target, source, bytes, stream);
        return result != success ? result : driver_.stream_synchronize(stream);
    }

    const std::lock_guard lock(mutex_);
    if (const Result result = prepare_locked()) return result;
    const Plan plan{bytes};
    Progress progress(plan);
    Result failure = success;
    const auto fill = [&](size_t chunk, size_t offset, size_t size) {
        std::memcpy(slots_[chunk % slot_count].memory + offset % slot_bytes,
                    static_cast<const char*>(source) + offset, size);
    };
    const auto send = [&]() -> Result {
        size_t open = 0;
        for (size_t chunk = 0; chunk < plan.chunks(); ++chunk) {
            while (!finished(plan, progress, chunk)) {
                if (open == std::min(plan.chunks(), chunk + slot_count)) {
                    help(plan, progress, fill);
                    continue;
                }
                Slot& slot = slots_[open % slot_count];
                if (open > chunk && slot.pending && driver_.event_query(slot.event) == not_ready) {
                    help(plan, progress, fill);
                    continue;
                }
                if (const Result result = wait(slot)) return result;
                progress.open.store(++open, std::memory_order_release);
            }
            Slot& slot = slots_[chunk % slot_count];
            if (const Result result = driver_.copy_to_device(
                    target + chunk * slot_bytes, slot.memory, plan.chunk_bytes(chunk), stream))
                return result;
            if (const Result result = driver_.event_record(slot.event, stream)) return result;
            slot.pending = true;
        }
        return success;
    };
    workers_->run([&] { work(plan, progress, fill); },
                  [&] {
                      failure = send();
                      progress.abort = failure != success;
                  });
    return failure;
}

Result Staging::to_host(void* target, Address source, size_t bytes, Stream stream) {
    if (bytes == 0) return success;
    if (bytes <= direct_down || is_pinned(target)) {
        const Result result = driver_.copy_to_host(target, source, bytes, stream);
        return result != success ? result : driver_.stream_synchronize(stream);
    }

    const std::lock_guard lock(mutex_);
    if (const Result result = prepare_locked()) return result;
    const Plan plan{bytes};
    Progress progress(plan);
    Result failure = success;
    const auto drain = [&](size_t chunk, size_t offset, size_t size) {
        std::memcpy(static_cast<char*>(target) + offset,
                    slots_[chunk % slot_count].memory + offset % slot_bytes, size);
    };
    const auto fetch = [&]() -> Result {
        size_t issued = 0;
        for (size_t chunk = 0; chunk < plan.chunks(); ++chunk) {
            while (issued < std::min(plan.chunks(), chunk + slot_count)) {
                if (issued >= slot_count && !finished(plan, progress, issued - slot_count)) {
                    if (issued > chunk) break;
                    help(plan, progress, drain);
                    continue;
                }
                Slot& slot = slots_[issued % slot_count];
                if (const Result result = wait(slot)) return result;
                if (const Result result =
                        driver_.copy_to_host(slot.memory, source + issued * slot_bytes,
                                             plan.chunk_bytes(issued), stream))
                    return result;
                if (const Result result = driver_.event_record(slot.event, stream)) return result;
                slot.pending = true;
                ++issued;
            }
            if (const Result result = wait(slots_[chunk % slot_count])) return result;
            progress.open.store(chunk + 1, std::memory_order_release);
        }
        while (progress.next.load(std::memory_order_relaxed) < plan.pieces())
            help(plan, progress, drain);
        return success;
    };
    workers_->run([&] { work(plan, progress, drain); },
                  [&] {
                      failure = fetch();
                      progress.abort = failure != success;
                  });
    return failure;
}

void Staging::prefault(void* target, size_t bytes) {
#if defined(__linux__)
    constexpr int populate_write = 23;  // MADV_POPULATE_WRITE; Linux before 5.14 returns an error
    constexpr size_t page = 4096, stride = size_t{4} << 20;
    const auto first = (reinterpret_cast<uintptr_t>(target) + page - 1) / page * page;
    const auto last = (reinterpret_cast<uintptr_t>(target) + bytes) / page * page;
    if (last <= first + stride) return;
    const std::lock_guard lock(mutex_);
    if (!workers_) workers_ = std::make_unique<Workers>(Workers::usual_count());
    std::atomic<uintptr_t> next{first};
    workers_->run(
        [&] {
            for (;;) {
                const uintptr_t begin = next.fetch_add(stride, std::memory_order_relaxed);
                if (begin >= last) return;
                const size_t size = std::min<size_t>(stride, last - begin);
                if (madvise(reinterpret_cast<void*>(begin), size, populate_write) != 0) return;
            }
        },
        [] {});
#else
    (void)target;
    (void)bytes;
#endif
}

void Staging::forget() {
    const std::lock_guard lock(mutex_);
    slots_ = {};
}

}  // namespace coalesce::cuda
