#include "cuda/memory/host_memory.hpp"

#include <sys/mman.h>

#include <cstdint>
#include <deque>
#include <mutex>
#include <string>

#include "errors.hpp"
#include "fork.hpp"
#include "round_up.hpp"

namespace coalesce::cuda {

namespace {

constexpr size_t huge_page = size_t{2} << 20;

struct Block {
    std::byte* data;
    size_t bytes;
};

struct Kept {
    ForkSafe<std::mutex> mutex;
    std::deque<Block> blocks;  // the oldest first
    size_t bytes = 0;

    // Returns the only object of this class. It is never destroyed, because arrays may outlive all
    // other objects when the interpreter exits.
    static Kept& get() {
        static auto& kept = *new Kept;
        return kept;
    }
};

std::byte* allocate(size_t bytes) {
    // Huge pages begin at multiples of their size. The memory before and after them is freed.
    const size_t whole = bytes + huge_page;
    void* memory = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        throw LaunchError("out of memory: a result needs " + std::to_string(bytes) +
                          " bytes of host memory, and the system does not have so much");
    auto* const begin = static_cast<std::byte*>(memory);
    const auto address = reinterpret_cast<uintptr_t>(begin);
    const size_t before = round_up(address, huge_page) - address, after = whole - before - bytes;
    if (before != 0) munmap(begin, before);
    if (after != 0) munmap(begin + before + bytes, after);
#if defined(MADV_HUGEPAGE)
    // If this fails, the first use of the memory only takes longer.
    madvise(begin + before, bytes, MADV_HUGEPAGE);
#endif
    return begin + before;
}

}  // namespace

HostMemory::HostMemory(size_t bytes) : bytes_(round_up(bytes, huge_page)) {
    Kept& kept = Kept::get();
    {
        const std::lock_guard lock(kept.mutex);
        for (auto block = kept.blocks.begin(); block != kept.blocks.end(); ++block) {
            if (block->bytes != bytes_) continue;
            data_ = block->data;
            kept.bytes -= block->bytes;
            kept.blocks.erase(block);
            return;
        }
    }
    data_ = allocate(bytes_);
}

HostMemory::~HostMemory() {
    if (bytes_ > max_kept) {
        munmap(data_, bytes_);
        return;
    }
    Kept& kept = Kept::get();
    const std::lock_guard lock(kept.mutex);
    kept.blocks.push_back({data_, bytes_});
    kept.bytes += bytes_;
    while (kept.bytes > max_kept) {
        munmap(kept.blocks.front().data, kept.blocks.front().bytes);
        kept.bytes -= kept.blocks.front().bytes;
        kept.blocks.pop_front();
    }
}

size_t HostMemory::trim() {
    Kept& kept = Kept::get();
    const std::lock_guard lock(kept.mutex);
    const size_t released = kept.bytes;
    for (const Block& block : kept.blocks) munmap(block.data, block.bytes);
    kept.blocks.clear();
    kept.bytes = 0;
    return released;
}

}  // namespace coalesce::cuda
