// Executes loads, stores, atomics and fences. Asynchronous copies are in async_copy.hpp. Each
// load, store or atomic finds the host memory, announces the access to observers, and moves the
// data.
//
// METHOD
// One vectorized pass over the addresses of a full warp detects whether they are uniform or
// consecutive. For such accesses, one bounds check is enough. A plain run (a run without observers)
// remembers the result of the pass for the next access (lane_strides.hpp). For other address
// patterns, the lowest and the highest address are checked first. Nearly always, the same buffer
// contains both, and so all lanes are inside. Otherwise each lane is checked.
//
// A fault is thrown before any data are moved. If an observer listens to faults, it is notified
// instead, and the faulting lanes do not access memory.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>

#include "sim/memory/address_space.hpp"
#include "sim/warp/engine.hpp"
#include "sim/warp/isa.hpp"
#include "sim/warp/memory.hpp"
#include "sim/warp/observer.hpp"
#include "sim/warp/warp.hpp"

namespace coalesce::sim::COALESCE_ISA {

// Returns the pattern of 32 addresses, for accesses of `bytes` bytes each. The pattern is uniform
// or consecutive only if all 32 lanes are active (`mask`).
template <class A>
inline Shape shape_of(const A* a, LaneMask mask, uint32_t bytes) {
    if (mask != all_lanes) return Shape::scattered;
    const A first = a[0], last = a[warp_size - 1];
    if (last == first) {
        A different = 0;
        for (int i = 0; i < warp_size; ++i) different |= A(a[i] ^ first);
        return different ? Shape::scattered : Shape::uniform;
    }
    if (last != A(first + (warp_size - 1) * bytes)) return Shape::scattered;
    // `bytes` is a power of two. So i * bytes is computed with a shift, which is much faster than a
    // multiplication.
    const int by = std::countr_zero(bytes);
    A different = 0;
    for (int i = 0; i < warp_size; ++i) different |= A(a[i] ^ A(first + (A(i) << by)));
    return different ? Shape::scattered : Shape::consecutive;
}

// Returns the stride of the lanes' addresses, or `irregular`. It is not inlined, because most
// accesses know their stride already and do not need it.
template <class A>
[[gnu::noinline]] int64_t stride_of(const A* a) {
    const A stride = a[1] - a[0];
    A different = 0;
    for (int i = 0; i < warp_size; ++i) different |= A(a[i] ^ A(a[0] + A(i) * stride));
    return different ? LaneStrides::irregular : int64_t(std::make_signed_t<A>(stride));
}

// Returns the stride of the op's address register in a full warp.
template <class Find>
inline int64_t known_stride(Warp& w, const Op& op, Find&& find) {
    return w.strides.of(op.memory().family, op.memory().family_renewed, find);
}

// Sets w.address to the address register plus the offset. The register has 32 or 64 bits.
inline void read_addresses(Warp& w, const Op& op) {
    const MemoryOperand& at = op.memory();
    const uint64_t by = uint64_t(at.offset) + (at.frame_relative ? w.current.frame.local : 0);
    if (at.form == AddressForm::narrow) {
        const uint32_t* a = w.lanes<const uint32_t>(op.operand[5]);
        for (int i = 0; i < warp_size; ++i) w.address[i] = uint32_t(a[i] + uint32_t(by));
    } else if (at.form == AddressForm::pair) {
        const uint32_t* a = w.lanes<const uint32_t>(op.operand[5]);
        for (int i = 0; i < warp_size; ++i)
            w.address[i] = (uint64_t{a[i]} | uint64_t{a[warp_size + i]} << 32) + by;
    } else {
        const uint64_t* a = w.lanes<const uint64_t>(op.operand[5]);
        for (int i = 0; i < warp_size; ++i) w.address[i] = a[i] + by;
    }
}

// Returns true if a space of `size` bytes contains all bytes from `at` to at + bytes - 1. For
// consecutive addresses, call this for the first and for the last address. It is not enough to test
// the last one, because the addresses may wrap around at 2^64.
inline bool holds(uint64_t size, uint64_t at, uint64_t bytes) {
    return at <= size && bytes <= size - at;
}

// Returns the size of the shared memory that an access of `bytes` bytes may touch. In machine code,
// a load may exceed the block's shared memory, if its first byte is within. The assembler (ptxas)
// joins neighbouring loads, also if only the first of them is always executed. It relies on the
// GPU, which allocates shared memory in larger units than those of a load.
inline uint64_t accessible_shared(const Block& block, Access access, uint32_t bytes) {
    const bool joined = access == Access::load && block.program->machine;
    return joined ? round_up(block.shared_bytes, bytes) : block.shared_bytes;
}

// Returns base + by. The function is also called for inactive lanes, whose addresses have no
// meaning. The sum may point outside all memory, and C++ does not define such sums of a pointer and
// a number. Therefore the function adds integers.
inline std::byte* offset_pointer(std::byte* base, uint64_t by) {
    return reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(base) + by);
}

// Returns the lanes of w.mask whose address satisfies the test.
template <class F>
inline LaneMask lanes_where(const Warp& w, F&& test) {
    LaneMask m = 0;
    for_each_lane(w.mask, [&](int i) { m |= LaneMask(bool(test(w.address[i]))) << i; });
    return m;
}

// Throws the fault, or announces it if the observer listens to faults.
template <Watch watch>
inline void fault(Warp& w, const Op& op, Access access, ptx::Space space, Fault why,
                  LaneMask lanes) {
    if constexpr (watch == Watch::faults)
        w.block->announce->fault(w.block->observer, w, op, access, space, why, lanes, w.address);
    else
        throw_memory_fault(w, op, access, space, why, lanes, w.address);
}

// Removes the upper byte from addresses in the block's own shared memory. In machine code, this
// byte may be the rank of the block.
inline void remove_own_tag(Warp& w) {
    const uint64_t tag = w.block->shared_tag;
    for (int i = 0; i < warp_size; ++i)
        if ((w.address[i] & 0xff000000) == tag) w.address[i] -= tag;
}

// The lowest and the highest address of an access. `together` is the bitwise OR of all addresses.
struct AddressRange {
    uint64_t low, high, together;
};

// Returns the range of the addresses in w.address, for the lanes of w.mask, and stores their
// pattern in `shape`.
template <Watch watch>
[[gnu::always_inline]] inline AddressRange range_of(Warp& w, const Op& op, Shape& shape) {
    const uint32_t bytes = op.memory().bytes;
    AddressRange range{w.address[0], w.address[warp_size - 1], w.address[0]};
    if (watch == Watch::nothing && w.mask == all_lanes &&
        op.memory().family != AddressFamilies::none) {
        const int64_t stride = known_stride(w, op, [&] { return stride_of(w.address); });
        shape = shape_of_stride(stride, bytes);
        if (shape == Shape::strided) shape = Shape::scattered;
        // If the addresses have a constant positive stride, the first and the last address show the
        // range of all addresses. The first address and the stride show whether all are aligned.
        const bool rising = stride > 0 && range.high > range.low &&
                            range.high - range.low == uint64_t(stride) * (warp_size - 1);
        if (rising) {
            range.together = range.low | uint64_t(stride);
            return range;
        }
    } else {
        shape = shape_of(w.address, w.mask, bytes);
    }
    if (shape != Shape::scattered) return range;
    range = {UINT64_MAX, 0, 0};
    const auto extend = [&](int i) {
        range.low = std::min(range.low, w.address[i]);
        range.high = std::max(range.high, w.address[i]);
        range.together |= w.address[i];
    };
    if (w.mask == all_lanes)
        for (int i = 0; i < warp_size; ++i) extend(i);
    else
        for_each_lane(w.mask, extend);
    return range;
}

// Finds the host memory for the addresses in w.address, for the lanes of w.mask, and stores it in
// `r`. r.mask is set to the lanes whose access is allowed. If the lanes access the shared memory of
// another block of the cluster, `of` is that block. Otherwise `of` is null.
template <Watch watch, ptx::Space space>
inline void resolve(Warp& w, const Op& op, Access access, Resolved& r, const Block* of = nullptr) {
    const uint32_t bytes = op.memory().bytes;
    const bool writes = access != Access::load && access != Access::async_copy;
    r.mask = w.mask;
    // Reports the fault. If the kernel continues, calls resolve() again for the other lanes only.
    const auto fault = [&](Fault why, LaneMask lanes) {
        sim::COALESCE_ISA::fault<watch>(w, op, access, space, why, lanes);
        if constexpr (watch == Watch::faults) {
            const LaneMask all = w.mask;
            r.mask = w.mask &= ~lanes;
            if (r.mask) resolve<watch, space>(w, op, access, r, of);
            w.mask = all;
        }
    };
    if constexpr (space == ptx::Space::shared) {
        if (w.block->shared_tag && !of) remove_own_tag(w);
    }
    const auto [low, high, together] = range_of<watch>(w, op, r.shape);
    r.shared_by_blocks = space == ptx::Space::global;
    if (together & (bytes - 1)) {
        return fault(Fault::misaligned,
                     lanes_where(w, [&](uint64_t a) { return a & (bytes - 1); }));
    }

    if constexpr (space == ptx::Space::global || space == ptx::Space::constant) {
        uint16_t& hint = w.block->hints[op.pc];
        const AddressSpace& memory = *w.block->memory;
        if (const Buffer* b = memory.find(low, high - low + bytes, hint)) [[likely]] {
            if (writes && !b->writable) return fault(Fault::read_only, w.mask);
            if (r.shape != Shape::scattered) {
                r.host = b->host + (low - b->address);
                // memory_words.hpp loads words. For bytes and halves, the lines are prefetched
                // here.
                if (space == ptx::Space::global && access == Access::load && bytes < 4 &&
                    r.shape == Shape::consecutive && w.mask == all_lanes) {
                    const uint64_t end = b->address + b->bytes;
                    w.block->latest_loads[op.pc].prefetch_next<2 * warp_size>(
                        r.host, low - b->address, end - high - bytes);
                }
            } else {
                const uint64_t origin = 0 - b->address;
                for (int i = 0; i < warp_size; ++i)
                    r.lane[i] = offset_pointer(b->host, origin + w.address[i]);
            }
            return;
        }
        // The lanes access several buffers, or some lanes access no buffer.
        r.shape = Shape::scattered;
        LaneMask outside = 0, read_only = 0;
        for_each_lane(w.mask, [&](int i) {
            const Buffer* b = memory.find(w.address[i], bytes, hint);
            if (!b)
                outside |= 1u << i;
            else if (writes && !b->writable)
                read_only |= 1u << i;
            else
                r.lane[i] = b->host + (w.address[i] - b->address);
        });
        if (outside && !(watch != Watch::faults && space == ptx::Space::global && !writes &&
                         read_outside(w, op, access, outside, w.address, r.lane)))
            return fault(Fault::outside, outside);
        if (read_only) return fault(Fault::read_only, read_only);
    } else if constexpr (space == ptx::Space::local) {
        const uint64_t size = w.block->program->local_bytes;
        const uint64_t end = w.block->program->local_end;
        if (!holds(end, low, bytes) || !holds(end, high, bytes))
            return fault(Fault::outside,
                         lanes_where(w, [&](uint64_t a) { return !holds(end, a, bytes); }));
        r.shape = Shape::scattered;
        std::byte* const base = w.local.data();
        for (int i = 0; i < warp_size; ++i)
            r.lane[i] = offset_pointer(base, uint64_t(i) * size + w.address[i]);
    } else {
        const bool shared = space == ptx::Space::shared;
        std::byte* const base = shared ? (of ? of : w.block)->shared
                                       : const_cast<std::byte*>(w.block->launch->parameters.data());
        const uint64_t size = shared ? accessible_shared(*w.block, access, bytes)
                                     : w.block->launch->parameters.size();
        if (writes && !shared) return fault(Fault::read_only, w.mask);
        if (!shared && op.memory().other_parameter) return fault(Fault::outside, w.mask);
        if (!holds(size, low, bytes) || !holds(size, high, bytes))
            return fault(Fault::outside,
                         lanes_where(w, [&](uint64_t a) { return !holds(size, a, bytes); }));
        if (r.shape != Shape::scattered) {
            r.host = base + low;
        } else {
            for (int i = 0; i < warp_size; ++i) r.lane[i] = offset_pointer(base, w.address[i]);
        }
    }
}

template <Watch watch>
inline void announce(Warp& w, const Op& op, ptx::Space space, Access access, Shape shape,
                     const Block* of = nullptr, const uint64_t* sources = nullptr) {
    if constexpr (watch == Watch::nothing) return;
    MemoryEvent event;
    event.pc = op.pc;
    event.space = space;
    event.access = access;
    event.shape = shape;
    event.bytes = op.memory().bytes;
    event.mask = w.mask;
    event.first = w.address[0];
    event.addresses = w.address;
    event.sources = sources;
    event.op = &op;
    event.of = of;
    w.block->announce->access(w.block->observer, w, event);
}

template <Watch watch>
void access_generic_as(Warp& w, const Op& op, Access access);

// Executes a load, store or atomic in a known space. op.mover moves the data.
template <Watch watch, ptx::Space space, Access access>
void access_memory(Warp& w, const Op& op) {
    Resolved r;
    read_addresses(w, op);
    if constexpr (space == ptx::Space::param) {
        // For compute capability 10.0 and later, the compiler (NVRTC 13.5) also applies ld.param to
        // generic addresses, even to those of a local copy of a parameter.
        constexpr uint64_t last = INT64_MAX;  // a larger number is a negative distance
        if (lanes_where(w, [](uint64_t a) { return a >= window_bytes && a <= last; })) [[unlikely]]
            return access_generic_as<watch>(w, op, access);
    }
    resolve<watch, space>(w, op, access, r);
    const LaneMask all = w.mask;
    if constexpr (watch == Watch::faults) {
        if (!r.mask) return;
        w.mask = r.mask;
    }
    if (watch == Watch::faults || !op.memory().frame_relative || space != ptx::Space::local)
        announce<watch>(w, op, space, access, r.shape);
    op.mover(w, op, r);
    w.mask = all;
}

// Like read_addresses, but for generic addresses. An address of .shared::cluster has 32 bits. It is
// converted to a generic address by adding the start of the window of shared memory.
inline void read_generic_addresses(Warp& w, const Op& op) {
    read_addresses(w, op);
    if (!op.memory().in_cluster) return;
    for (int i = 0; i < warp_size; ++i) w.address[i] = shared_window | uint32_t(w.address[i]);
}

// Executes a load, store or atomic with generic addresses. A generic address can be in any space.
// So the lanes are executed in groups, one group for each space.
template <Watch watch>
[[gnu::noinline]] void access_generic_as(Warp& w, const Op& op, Access access) {
    read_generic_addresses(w, op);
    const LaneMask all = w.mask;
    const auto in = [&](uint64_t window) {
        return lanes_where(w, [window](uint64_t a) { return a - window < window_bytes; });
    };
    const auto within = [&](LaneMask lanes, uint64_t window, auto space,
                            const Block* of = nullptr) {
        if (!lanes) return;
        constexpr ptx::Space s = decltype(space)::value;
        read_generic_addresses(w, op);
        for (int i = 0; i < warp_size; ++i) w.address[i] -= window;
        w.mask = lanes;
        Resolved r;
        resolve<watch, s>(w, op, access, r, of);
        if constexpr (watch == Watch::faults) w.mask = r.mask;
        if (w.mask) {
            announce<watch>(w, op, s, access, r.shape, of);
            op.mover(w, op, r);
        }
        w.mask = all;
    };
    const uint64_t reserved = w.block->program->reserved_shared;
    const uint64_t shared_start = shared_window + w.block->shared_tag + reserved;
    const LaneMask shared = in(shared_start), local = in(local_window), param = in(param_window);
    LaneMask remote = 0;
    if (w.block->cluster)
        remote =
            lanes_where(w, [](uint64_t a) { return a - shared_window < cluster_window_bytes; }) &
            ~in(shared_window + w.block->shared_tag);
    within(all & ~(shared | local | param | remote), 0,
           std::integral_constant<ptx::Space, ptx::Space::global>{});
    within(shared, shared_start, std::integral_constant<ptx::Space, ptx::Space::shared>{});
    while (remote) {
        read_generic_addresses(w, op);
        const int lane = std::countr_zero(remote);
        const uint64_t tag = (w.address[lane] - shared_window) >> 24;
        const auto rank = uint32_t(tag - w.block->program->conventions.first_tag);
        LaneMask same = 0;
        for_each_lane(remote, [&](int i) {
            same |= LaneMask((w.address[i] - shared_window) >> 24 == tag) << i;
        });
        remote &= ~same;
        within(same, shared_window + (tag << 24) + reserved,
               std::integral_constant<ptx::Space, ptx::Space::shared>{},
               &block_of_rank(w, op, lane, rank));
    }
    within(local, local_window, std::integral_constant<ptx::Space, ptx::Space::local>{});
    within(param, param_window, std::integral_constant<ptx::Space, ptx::Space::param>{});
}
template <Watch watch, Access access>
void access_generic(Warp& w, const Op& op) {
    access_generic_as<watch>(w, op, access);
}

// Executes ld.param of a kernel parameter. The value is the same for all lanes and known at the
// launch. No memory is accessed.
inline void load_parameter(Warp& w, const Op& op) {
    Resolved r;
    r.shape = w.mask == all_lanes ? Shape::uniform : Shape::scattered;
    r.mask = w.mask;
    r.host = const_cast<std::byte*>(w.block->launch->parameters.data()) + op.memory().offset;
    if (r.shape == Shape::scattered) std::fill_n(r.lane, warp_size, r.host);
    op.mover(w, op, r);
}

// Returns the address that observers get for an offset in a constant bank. If a variable of the
// module is at this offset, the result is the address in that variable. If the offset belongs to
// the parameters or to constants of the compiler, the result is the offset itself.
inline uint64_t bank_address(const MachineCode& code, uint32_t bank, uint64_t offset) {
    if (bank != MachineCode::of_variables) return offset;
    for (const MachineCode::Variable& v : code.variables) {
        if (offset - v.offset < v.bytes) return v.address + (offset - v.offset);
    }
    return offset;
}

// Executes LDC, which reads from a constant bank at an address that differs between lanes. Bytes
// beyond the end of the bank are read as zeros. In bank 0, LDC reads only parameters, so an access
// outside the parameters is an error. In all machine code that we have seen, the assembler executes
// LDC only if the kernel reads the element. So this is no error of a correct kernel.
template <Watch watch>
void load_bank(Warp& w, const Op& op) {
    static constexpr std::byte nothing[16] = {};
    const uint8_t number = op.get<BankOperand>().bank, bytes = op.memory().bytes;
    const std::vector<std::byte>& bank = w.block->banks[number];
    const MachineCode& code = *w.block->program->machine;
    Resolved r;
    r.mask = w.mask;
    read_addresses(w, op);
    if (number == 0) require_parameters(w, op, w.mask, bytes, w.address);
    for_each_lane(w.mask, [&](int i) {
        const uint64_t at = w.address[i];
        const bool within = holds(bank.size(), at, bytes);
        r.lane[i] = const_cast<std::byte*>(within ? bank.data() + at : nothing);
        w.address[i] = bank_address(code, number, at);
    });
    const Shape shape = shape_of(w.address, w.mask, bytes);
    announce<watch>(w, op, ptx::Space::constant, Access::load, shape);
    op.mover(w, op, r);
}

// Executes a fence. The blocks of a grid run on several host threads, so a fence must also order
// the accesses of different host threads.
template <Watch watch>
void fence(Warp& w, const Op& op) {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if constexpr (watch != Watch::nothing) w.block->announce->fence(w.block->observer, w, op);
}

}  // namespace coalesce::sim::COALESCE_ISA
