#include "cuda/memory/staging.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>

namespace coalesce::cuda {

template <class Work>
auto Staging::with_transfers(const Work& work) {
    struct Borrowed {
        explicit Borrowed(Staging& owner) : from(owner) {
            const std::lock_guard lock(from.mutex_);
            context = from.contexts_;
            if (from.kept_.empty()) return;
            own = std::move(from.kept_.back());
            from.kept_.pop_back();
        }
        ~Borrowed() {
            if (!own) return;
            const std::lock_guard lock(from.mutex_);
            if (context != from.contexts_)
                own->forget();
            else if (from.kept_.size() < max_kept)
                from.kept_.push_back(std::move(own));
        }
        Staging& from;
        uint64_t context = 0;
        std::unique_ptr<Transfers> own;
    };
    Borrowed borrowed(*this);
    if (!borrowed.own) borrowed.own = std::make_unique<Transfers>(driver_);
    return work(*borrowed.own);
}

Result Staging::to_device(Address target, const void* source, size_t bytes, Stream stream) {
    if (bytes == 0) return success;
    if (bytes <= direct_up) return driver_.copy_to_device(target, source, bytes, stream);
    const Step step{.kind = Step::Kind::to_device,
                    .host = static_cast<char*>(const_cast<void*>(source)),
                    .device = target,
                    .bytes = bytes};
    return with_transfers([&](Transfers& transfers) {
        return transfers.run({&step, 1}, {stream, stream, stream}, {});
    });
}

Result Staging::to_host(void* target, Address source, size_t bytes, Stream stream) {
    if (bytes == 0) return success;
    if (bytes <= direct_down) {
        const Result result = driver_.copy_to_host(target, source, bytes, stream);
        return result != success ? result : driver_.stream_synchronize(stream);
    }
    const Step step{.kind = Step::Kind::to_host,
                    .host = static_cast<char*>(target),
                    .device = source,
                    .bytes = bytes};
    return with_transfers([&](Transfers& transfers) {
        return transfers.run({&step, 1}, {stream, stream, stream}, {});
    });
}

Result Staging::run(std::span<const Step> steps, bool overlap, const Waiting& waiting) {
    return with_transfers([&](Transfers& transfers) {
        Streams streams;
        if (overlap)
            if (const Result result = transfers.overlapping(streams)) return result;
        return transfers.run(steps, streams, waiting);
    });
}

Result Staging::prepare() {
    return with_transfers([](Transfers& transfers) { return transfers.prepare(); });
}

void Staging::prefault(void* target, size_t bytes) {
#if defined(__linux__)
    constexpr int populate_write = 23;  // MADV_POPULATE_WRITE; Linux before 5.14 returns an error
    constexpr size_t page = 4096, stride = size_t{4} << 20;
    const auto first = (reinterpret_cast<uintptr_t>(target) + page - 1) / page * page;
    const auto last = (reinterpret_cast<uintptr_t>(target) + bytes) / page * page;
    if (last <= first + stride) return;
    std::atomic<uintptr_t> next{first};
    const auto populate = [&] {
        for (;;) {
            const uintptr_t begin = next.fetch_add(stride, std::memory_order_relaxed);
            if (begin >= last) return;
            const size_t size = std::min<size_t>(stride, last - begin);
            if (madvise(reinterpret_cast<void*>(begin), size, populate_write) != 0) return;
        }
    };
    with_transfers([&](Transfers& transfers) {
        transfers.on_workers(populate);
        return success;
    });
#else
    (void)target;
    (void)bytes;
#endif
}

void Staging::forget() {
    const std::lock_guard lock(mutex_);
    for (const auto& transfers : kept_) transfers->forget();
    kept_.clear();
    ++contexts_;
}

}  // namespace coalesce::cuda
