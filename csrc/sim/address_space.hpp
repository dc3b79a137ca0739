// The simulated device memory: named buffers at addresses like those of cudaMalloc.
//
// METHOD
// A buffer is host memory that the kernel sees at a simulated address. The address is a multiple of
// 256 bytes, whatever the alignment on the host. Neighbouring buffers are at least `guard_gap`
// bytes apart, so an access past the end of a buffer is in no buffer. Memory is never copied: each
// access translates its address to the host's.
//
// In generic addresses (PTX ISA, "Generic Addressing"), the other state spaces have windows below
// the buffers. Address 0 is in no window.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace coalesce::sim {

inline constexpr uint64_t window_bytes = 1u << 24;
inline constexpr uint64_t shared_window = uint64_t{0x7f} << 32;
// Shared memory of all blocks of a cluster, with 16 MiB for each. The block's own memory comes
// first.
inline constexpr uint64_t cluster_window_bytes = uint64_t{1} << 32;
inline constexpr uint64_t local_window = 2u << 24;
inline constexpr uint64_t param_window = 3u << 24;
inline constexpr uint64_t module_base = 0x7e00'0000'0000;  // __device__ and __constant__ variables
inline constexpr uint64_t global_base = 0x7f00'0000'0000;  // the launch's arguments
inline constexpr uint64_t grid_workspace = 0x7d00'0000'0000;  // used by cooperative launches
inline constexpr uint64_t guard_gap = 1u << 21;

struct Buffer {
    std::string name;
    uint64_t address = 0;
    uint64_t bytes = 0;
    std::byte* host = nullptr;
    bool writable = true;
    // For each byte, whether it is undefined because it was never written. If null, all bytes are
    // defined. Used by checked runs.
    bool* undefined = nullptr;
    // The owner's view of the buffer, for messages: an array of `type` items. Empty for plain
    // bytes.
    std::vector<int64_t> shape;
    uint32_t item_bytes = 0;
    std::string type;
    // If the owner's array is a slice: the bytes of the whole array before and after it.
    uint64_t whole_before = 0;
    uint64_t whole_after = 0;
    [[nodiscard]] uint64_t end() const { return address + bytes; }
};

class AddressSpace {
  public:
    // Adds a buffer at the next free address and returns that address.
    uint64_t add(Buffer buffer);

    // Adds a buffer at its own address.
    void add_at(Buffer buffer);

    // Prepares the memory at `grid_workspace`, through which the blocks of a cooperative launch
    // wait for each other. It has the layout that cooperative_groups.h expects: the size in bytes,
    // and the barrier.
    void prepare_grid_workspace();

    // Removes all buffers from this address on.
    void forget_from(uint64_t address);
    // The buffer that starts at an address, or null.
    [[nodiscard]] const Buffer* at(uint64_t address) const;
    // Frees this buffer: it remains, but has no bytes. freed() then describes it.
    void free_at(uint64_t address);
    // The freed buffer that contained this address, or null.
    [[nodiscard]] const Buffer* freed(uint64_t address) const;

    // The buffer that contains all of [address, address + bytes), or null. `hint` is the result of
    // the instruction's last search, and is tried first. (Always inline; selection.hpp says why.)
    [[nodiscard, gnu::always_inline]] const Buffer* find(uint64_t address, uint64_t bytes,
                                                         uint16_t& hint) const {
        if (hint < buffers_.size() && holds(buffers_[hint], address, bytes)) return &buffers_[hint];
        return search(address, bytes, hint);
    }

    // The buffer whose start or end is nearest to the address, for messages; null if there is none.
    [[nodiscard]] const Buffer* nearest(uint64_t address) const;

    [[nodiscard]] const std::vector<Buffer>& buffers() const { return buffers_; }

  private:
    static bool holds(const Buffer& b, uint64_t address, uint64_t bytes) {
        return address - b.address < b.bytes && address - b.address + bytes <= b.bytes;
    }
    [[nodiscard]] size_t number_at(uint64_t address) const;
    const Buffer* search(uint64_t address, uint64_t bytes, uint16_t& hint) const;

    std::vector<Buffer> buffers_;  // by address
    std::map<uint64_t, Buffer> freed_;
    std::shared_ptr<std::array<uint32_t, 2>> workspace_;
    uint64_t next_ = global_base;
};

}  // namespace coalesce::sim
