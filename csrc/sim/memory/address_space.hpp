// The simulated device memory: named buffers at addresses like those of cudaMalloc.
//
// METHOD
// A buffer is host memory that the kernel sees at a simulated address. The address is a multiple of
// 256 bytes, whatever the alignment on the host. Neighbouring buffers are at least `guard_gap`
// bytes apart. So an access shortly past the end of a buffer is in no buffer, and is detected.
// Buffers are never copied: each access converts its simulated address to a host address.
//
// A generic address (PTX ISA, "Generic Addressing") can point to any state space: global, shared,
// local or parameter memory. Shared, local and parameter memory each have their own range of
// generic addresses, called a window. All other generic addresses are the addresses of buffers. The
// windows are below the buffers. Address 0 is in no window, so it stays invalid.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace coalesce::sim {

inline constexpr uint64_t window_bytes = 1u << 24;
inline constexpr uint64_t shared_window = uint64_t{0x7f} << 32;
// The size of the window through which a block accesses the shared memory of its whole cluster.
// Each block of the cluster has 16 MiB of this window. Conventions (program.hpp) says which part
// belongs to which block.
inline constexpr uint64_t cluster_window_bytes = uint64_t{1} << 32;
inline constexpr uint64_t local_window = 2u << 24;
// The offset of the parameters in constant bank 0, for compute capability 9.0. The assembler aligns
// a parameter to a position in the whole bank, and not to one in the list of parameters. For
// example, a structure that is aligned to 64 bytes begins at offset 0x240 or 0x280 of the bank.
// Runs of PTX use the same positions.
inline constexpr uint32_t first_parameter = 0x210;
inline constexpr uint64_t param_window = (3u << 24) + first_parameter;
// The start of the module's __device__ and __constant__ variables.
inline constexpr uint64_t module_base = 0x7e00'0000'0000;
// The start of the arrays that the launch passes as arguments.
inline constexpr uint64_t global_base = 0x7f00'0000'0000;
// The address of the memory through which the blocks of a cooperative launch wait for each other;
// see prepare_grid_workspace().
inline constexpr uint64_t grid_workspace = 0x7d00'0000'0000;
inline constexpr uint64_t guard_gap = 1u << 21;
// The start and the end of the addresses of texture and surface objects.
inline constexpr uint64_t objects_base = uint64_t{3} << 30;
inline constexpr uint64_t objects_end = uint64_t{1} << 32;

// Host memory that the kernel accesses at a simulated address.
struct Buffer {
    std::string name;
    uint64_t address = 0;
    uint64_t bytes = 0;
    std::byte* host = nullptr;
    bool writable = true;
    // `undefined[i]` is true if byte i was never written. Only runs with a checker use this array:
    // the checker reports reads of such bytes. If the pointer is null, all bytes are defined.
    bool* undefined = nullptr;
    // Messages describe the buffer as an array with this shape, whose elements have the type
    // `type`. The shape is empty if the buffer is plain bytes.
    std::vector<int64_t> shape;
    uint32_t item_bytes = 0;
    std::string type;
    // Elements of a variable have names in C++ notation, such as "tile[1][3]". Elements of an array
    // of NumPy have names such as "a[1, 3]".
    bool variable = false;
    // The arguments of the launch that are in this buffer. An argument may be a view of a larger
    // array. Then the buffer is the larger array.
    struct Part {
        std::string name;
        uint64_t offset, bytes;
    };
    std::vector<Part> parts;
    bool has_gaps = false;  // the parts are views, and some bytes of the buffer are in no view
    // The buffer may be a view of a larger array of the user, which the kernel may not access.
    // These are the numbers of bytes of the larger array before and after the view.
    uint64_t whole_before = 0;
    uint64_t whole_after = 0;
    [[nodiscard]] uint64_t end() const { return address + bytes; }
    // Returns true if the byte at this offset is in no part.
    [[nodiscard]] bool in_gap(uint64_t offset) const {
        return std::ranges::none_of(
            parts, [offset](const Part& p) { return offset - p.offset < p.bytes; });
    }
    // Returns the part that is nearest to an offset, or null if there are no parts.
    [[nodiscard]] const Part* part_at(int64_t offset) const;
    // Returns the name of the part that is nearest to an offset.
    [[nodiscard]] const std::string& name_at(int64_t offset) const {
        const Part* const part = part_at(offset);
        return part ? part->name : name;
    }
};

// What a launch knows about the heap of malloc; see device_heap.hpp.
struct HeapUse {
    uint64_t launch = 0;  // the number of the launch
    // The contents of all allocations that are buffers of this memory. The key is the address.
    // Another launch may free an allocation while this launch accesses it. The contents then stay
    // until this launch ends.
    std::map<uint64_t, std::shared_ptr<const void>> held;
};

// The buffers of a launch, sorted by address.
class AddressSpace {
  public:
    // Adds a buffer at the next free address and returns that address.
    uint64_t add(Buffer buffer);

    // Like add(), for a texture or surface object (texture.hpp). The address has 32 bits.
    uint64_t add_object(Buffer buffer);

    // Adds a buffer whose member `address` is already set.
    void add_at(Buffer buffer);

    // Prepares the memory at `grid_workspace`, through which the blocks of a cooperative launch
    // wait for each other. This memory has two words, as cooperative_groups.h expects: its size in
    // bytes, and the barrier of the grid.
    void prepare_grid_workspace();

    // Removes all buffers that start at this address or above.
    void remove_from(uint64_t address);
    // Frees the buffer that starts at this address. Its bytes can no longer be accessed, but
    // freed() still returns its description.
    void free_at(uint64_t address);
    // Returns the freed buffer that contained this address, or null.
    [[nodiscard]] const Buffer* freed(uint64_t address) const;
    // Returns the memory that contained this address and that was freed before the launch. Null if
    // the owner of the buffers does not remember freed memory.
    std::function<std::optional<Buffer>(uint64_t address)> freed_before;

    // Returns the buffer that contains all of [address, address + bytes), or null. `hint` is the
    // index of the buffer that the same instruction found last time. This buffer is tried first,
    // and a new result is stored in `hint`. The function must always be inlined; selection.hpp says
    // why.
    [[nodiscard, gnu::always_inline]] const Buffer* find(uint64_t address, uint64_t bytes,
                                                         uint16_t& hint) const {
        const Buffer* const b = buffers_.data() + hint;
        if (b < buffers_.data() + buffers_.size() && holds(*b, address, bytes)) return b;
        return search(address, bytes, hint);
    }

    // Returns the buffer whose start or end is nearest to the address, or null if there is no
    // buffer. Messages use it.
    [[nodiscard]] const Buffer* nearest(uint64_t address) const;

    [[nodiscard]] const std::vector<Buffer>& buffers() const { return buffers_; }

    HeapUse heap;

  private:
    static bool holds(const Buffer& b, uint64_t address, uint64_t bytes) {
        return address - b.address < b.bytes && address - b.address + bytes <= b.bytes;
    }
    [[nodiscard]] size_t number_at(uint64_t address) const;
    const Buffer* search(uint64_t address, uint64_t bytes, uint16_t& hint) const;

    std::vector<Buffer> buffers_;  // sorted by address
    std::map<uint64_t, Buffer> freed_;
    std::shared_ptr<std::array<uint32_t, 2>> workspace_;
    uint64_t next_ = global_base, next_object_ = objects_base;
};

}  // namespace coalesce::sim
