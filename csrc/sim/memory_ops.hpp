// Loads, stores and atomics: find the memory, tell the observer, move the data.
//
// METHOD
// The addresses of a full warp are recognised as uniform or consecutive with one pass of vector
// code; both need a single bounds check. Everything else is checked by its lowest and highest
// address first (one buffer holds them all, nearly always) and lane by lane only if that fails.
// A fault is thrown before anything is moved.
#pragma once

#include <algorithm>
#include <cstring>

#include "sim/address_space.hpp"
#include "sim/engine.hpp"
#include "sim/isa.hpp"
#include "sim/memory.hpp"
#include "sim/warp.hpp"

namespace coalesce::sim::COALESCE_ISA {

// The shape of 32 addresses that `bytes` each are accessed at; w.mask must be full for the first
// two.
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
    A different = 0;
    for (int i = 0; i < warp_size; ++i) different |= A(a[i] ^ A(first + A(i) * bytes));
    return different ? Shape::scattered : Shape::consecutive;
}

// Copies the address register, 32 or 64 bits, plus the offset to w.address.
inline void read_addresses(Warp& w, const Op& op) {
    const uint64_t by = uint64_t(op.immediate) + (op.frame_relative ? w.current.frame.local : 0);
    if (op.narrow_address) {
        const uint32_t* a = w.lanes<const uint32_t>(op.operand[5]);
        for (int i = 0; i < warp_size; ++i) w.address[i] = uint32_t(a[i] + uint32_t(by));
    } else {
        const uint64_t* a = w.lanes<const uint64_t>(op.operand[5]);
        for (int i = 0; i < warp_size; ++i) w.address[i] = a[i] + by;
    }
}

// base + by, also for lanes that are not active, whose addresses mean nothing.
inline std::byte* displaced(std::byte* base, uint64_t by) {
    return reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(base) + by);
}

// The lanes of w.mask whose address fails the test.
template <class F>
inline LaneMask lanes_where(const Warp& w, F&& test) {
    LaneMask m = 0;
    for_each_lane(w.mask, [&](int i) { m |= LaneMask(bool(test(w.address[i]))) << i; });
    return m;
}

// Resolves w.address in one space. `writes` for anything but a load.
template <ptx::Space space>
inline void resolve(Warp& w, const Op& op, Access access, Resolved& r) {
    const uint32_t bytes = op.bytes;
    const bool writes = access != Access::load && access != Access::async_copy;
    const auto fault = [&](Fault why, LaneMask lanes) {
        throw_memory_fault(w, op, access, space, why, lanes, w.address);
    };
    r.mask = w.mask;
    r.shape = shape_of(w.address, w.mask, bytes);
    r.shared_by_blocks = space == ptx::Space::global;

    uint64_t low = w.address[0], high = w.address[warp_size - 1], together = low;
    if (r.shape == Shape::scattered) {
        low = UINT64_MAX, high = 0, together = 0;
        if (w.mask == all_lanes) {
            for (int i = 0; i < warp_size; ++i) {
                low = std::min(low, w.address[i]);
                high = std::max(high, w.address[i]);
                together |= w.address[i];
            }
        } else {
            for_each_lane(w.mask, [&](int i) {
                low = std::min(low, w.address[i]);
                high = std::max(high, w.address[i]);
                together |= w.address[i];
            });
        }
    }
    if (together & (bytes - 1)) {
        fault(Fault::misaligned, lanes_where(w, [&](uint64_t a) { return a & (bytes - 1); }));
    }

    if constexpr (space == ptx::Space::global || space == ptx::Space::constant) {
        uint16_t& hint = w.block->hints[op.pc];
        const AddressSpace& memory = *w.block->memory;
        if (const Buffer* b = memory.find(low, high - low + bytes, hint)) [[likely]] {
            if (writes && !b->writable) fault(Fault::read_only, w.mask);
            if (r.shape != Shape::scattered) {
                r.host = b->host + (low - b->address);
            } else {
                const uint64_t origin = 0 - b->address;
                for (int i = 0; i < warp_size; ++i)
                    r.lane[i] = displaced(b->host, origin + w.address[i]);
            }
            return;
        }
        // The lanes are in several buffers, or some in none.
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
        if (outside) fault(Fault::outside, outside);
        if (read_only) fault(Fault::read_only, read_only);
    } else if constexpr (space == ptx::Space::local) {
        const uint64_t size = w.block->program->local_bytes;
        if (high + bytes > size || high + bytes < high) {
            fault(Fault::outside,
                  lanes_where(w, [&](uint64_t a) { return a + bytes > size || a + bytes < a; }));
        }
        r.shape = Shape::scattered;
        std::byte* const base = w.local.data();
        for (int i = 0; i < warp_size; ++i)
            r.lane[i] = displaced(base, uint64_t(i) * size + w.address[i]);
    } else {
        const bool shared = space == ptx::Space::shared;
        std::byte* const base =
            shared ? w.block->shared : const_cast<std::byte*>(w.block->launch->parameters.data());
        const uint64_t size = shared ? w.block->shared_bytes : w.block->launch->parameters.size();
        if (writes && !shared) fault(Fault::read_only, w.mask);
        if (high + bytes > size || high + bytes < high) {
            fault(Fault::outside,
                  lanes_where(w, [&](uint64_t a) { return a + bytes > size || a + bytes < a; }));
        }
        if (r.shape != Shape::scattered) {
            r.host = base + low;
        } else {
            for (int i = 0; i < warp_size; ++i) r.lane[i] = displaced(base, w.address[i]);
        }
    }
}

template <class Observer>
inline void announce(Warp& w, const Op& op, ptx::Space space, Access access, Shape shape) {
    MemoryEvent event;
    event.pc = op.pc;
    event.space = space;
    event.access = access;
    event.shape = shape;
    event.bytes = op.bytes;
    event.mask = w.mask;
    event.first = w.address[0];
    event.addresses = w.address;
    static_cast<Observer*>(w.block->observer)->access(w, event);
}

// A load, store or atomic in a known space; op.mover moves the data.
template <class Observer, ptx::Space space, Access access>
void access_memory(Warp& w, const Op& op) {
    Resolved r;
    read_addresses(w, op);
    resolve<space>(w, op, access, r);
    if (!op.frame_relative || space != ptx::Space::local)
        announce<Observer>(w, op, space, access, r.shape);
    op.mover(w, op, r);
}

// A load, store or atomic by generic addresses: the lanes are taken space by space.
template <class Observer, Access access>
void access_generic(Warp& w, const Op& op) {
    read_addresses(w, op);
    const LaneMask all = w.mask;
    const auto in = [&](uint64_t window) {
        return lanes_where(w, [window](uint64_t a) { return a - window < window_bytes; });
    };
    const auto within = [&](LaneMask lanes, uint64_t window, auto space) {
        if (!lanes) return;
        constexpr ptx::Space s = decltype(space)::value;
        read_addresses(w, op);
        for (int i = 0; i < warp_size; ++i) w.address[i] -= window;
        w.mask = lanes;
        Resolved r;
        resolve<s>(w, op, access, r);
        announce<Observer>(w, op, s, access, r.shape);
        op.mover(w, op, r);
        w.mask = all;
    };
    const LaneMask shared = in(shared_window), local = in(local_window), param = in(param_window);
    within(all & ~(shared | local | param), 0,
           std::integral_constant<ptx::Space, ptx::Space::global>{});
    within(shared, shared_window, std::integral_constant<ptx::Space, ptx::Space::shared>{});
    within(local, local_window, std::integral_constant<ptx::Space, ptx::Space::local>{});
    within(param, param_window, std::integral_constant<ptx::Space, ptx::Space::param>{});
}

// The most frequent instructions of tiled kernels: 4 bytes a lane of shared memory through a 32-bit
// address register. What is left of access_memory when all that is known beforehand.
template <class Observer, Access access>
void access_shared_word(Warp& w, const Op& op) {
    const uint32_t* a = w.lanes<const uint32_t>(op.operand[5]);
    const Shape shape = shape_of(a, w.mask, 4);
    const uint64_t first = uint32_t(a[0] + uint32_t(op.immediate));
    const uint64_t span = shape == Shape::uniform ? 4 : 4 * warp_size;
    if (shape == Shape::scattered || (first & 3) || first + span > w.block->shared_bytes)
        [[unlikely]] {
        return access_memory<Observer, ptx::Space::shared, access>(w, op);
    }
    if constexpr (!std::is_same_v<Observer, SilentObserver>) {
        MemoryEvent event;
        event.pc = op.pc;
        event.space = ptx::Space::shared;
        event.access = access;
        event.shape = shape;
        event.bytes = 4;
        event.mask = w.mask;
        event.first = first;
        static_cast<Observer*>(w.block->observer)->access(w, event);
    }
    std::byte* const host = w.block->shared + first;
    uint32_t* const d = w.lanes<uint32_t>(op.operand[0]);
    if constexpr (access == Access::load) {
        if (shape == Shape::uniform) {
            uint32_t value;
            std::memcpy(&value, host, 4);
            for (int i = 0; i < warp_size; ++i) d[i] = value;
        } else {
            std::memcpy(d, host, 4 * warp_size);
        }
    } else if (shape == Shape::uniform) {
        std::memcpy(host, &d[warp_size - 1], 4);
    } else {
        std::memcpy(host, d, 4 * warp_size);
    }
}

// ld.param of a kernel parameter: the same for all lanes, known at the launch; no memory is
// accessed.
inline void load_parameter(Warp& w, const Op& op) {
    Resolved r;
    r.shape = w.mask == all_lanes ? Shape::uniform : Shape::scattered;
    r.mask = w.mask;
    r.host = const_cast<std::byte*>(w.block->launch->parameters.data()) + op.immediate;
    if (r.shape == Shape::scattered) std::fill_n(r.lane, warp_size, r.host);
    op.mover(w, op, r);
}

inline void finish(AsyncCopy& copy, LaneMask lanes) {
    for_each_lane(copy.mask & lanes, [&](int i) {
        std::memset(copy.destination[i], 0, copy.bytes);
        if (copy.source_bytes[i])
            std::memcpy(copy.destination[i], copy.source[i], copy.source_bytes[i]);
    });
    copy.mask &= ~lanes;
}

// How many bytes of its source each lane of a cp.async reads; the rest of op.bytes becomes zeros.
inline void read_source_bytes(Warp& w, const Op& op, AsyncCopy& copy) {
    const uint32_t* size =
        op.operand[1] == no_operand ? nullptr : w.lanes<const uint32_t>(op.operand[1]);
    LaneMask ignored = 0;
    if (op.operand[2] != no_operand)
        ignored = w.predicate(op.operand[2]) ^ (op.extra & 2 ? all_lanes : 0u);
    for_each_lane(w.mask, [&](int i) {
        const uint32_t n = size ? std::min<uint32_t>(size[i], op.bytes) : op.bytes;
        copy.source_bytes[i] = uint8_t(has_lane(ignored, i) ? 0 : n);
    });
}

// cp.async: operand 0 the shared address (narrow: bit 0 of extra), 5 the global one, 1 the number
// of bytes to read (or none), 2 a predicate to read nothing (or none; bit 1 of extra: negated).
template <class Observer>
void async_copy(Warp& w, const Op& op) {
    AsyncCopy copy{};
    copy.pc = op.pc;
    copy.bytes = op.bytes;
    copy.mask = w.mask;
    read_source_bytes(w, op, copy);
    Resolved r;
    const auto each = [&](auto&& put) {
        for_each_lane(w.mask, [&](int i) {
            put(i, r.shape == Shape::scattered ? r.lane[i]
                   : r.shape == Shape::uniform ? r.host
                                               : r.host + size_t(i) * op.bytes);
        });
    };
    // A lane that reads nothing may have any source address, one that reads a part needs only that.
    const LaneMask all = w.mask;
    LaneMask whole = 0, part = 0;
    for_each_lane(all, [&](int i) {
        LaneMask& m = copy.source_bytes[i] == op.bytes ? whole : part;
        if (copy.source_bytes[i] > 0) m |= 1u << i;
    });
    read_addresses(w, op);
    if (whole) {
        w.mask = whole;
        resolve<ptx::Space::global>(w, op, Access::async_copy, r);
        each([&](int i, std::byte* p) { copy.source[i] = p; });
    }
    for_each_lane(part, [&](int i) {
        const auto fault = [&](Fault why) {
            throw_memory_fault(w, op, Access::async_copy, ptx::Space::global, why, 1u << i,
                               w.address);
        };
        if (w.address[i] & (op.bytes - 1u)) fault(Fault::misaligned);
        const Buffer* b =
            w.block->memory->find(w.address[i], copy.source_bytes[i], w.block->hints[op.pc]);
        if (!b) fault(Fault::outside);
        copy.source[i] = b->host + (w.address[i] - b->address);
    });
    w.mask = whole | part;
    if (w.mask) {
        const Shape shape = part || whole != all ? Shape::scattered : r.shape;
        announce<Observer>(w, op, ptx::Space::global, Access::async_copy, shape);
    }
    w.mask = all;

    Op destination = op;
    destination.operand[5] = op.operand[0];
    destination.narrow_address = op.extra & 1;
    destination.immediate = op.target;
    read_addresses(w, destination);
    resolve<ptx::Space::shared>(w, destination, Access::store, r);
    announce<Observer>(w, destination, ptx::Space::shared, Access::async_copy, r.shape);
    each([&](int i, std::byte* p) { copy.destination[i] = p; });
    w.async_open.push_back(copy);
}

inline void async_commit(Warp& w, const Op&) {
    w.async_groups.push_back(std::move(w.async_open));
    w.async_open.clear();
}

// Leaves at most op.immediate of the latest groups pending; -1: waits for everything.
inline void async_wait(Warp& w, const Op& op) {
    if (op.immediate < 0) {
        for (AsyncCopy& copy : w.async_open) finish(copy, w.mask);
        std::erase_if(w.async_open, [](const AsyncCopy& c) { return c.mask == 0; });
    }
    const size_t keep = op.immediate < 0 ? 0 : size_t(op.immediate);
    const size_t groups = w.async_groups.size() > keep ? w.async_groups.size() - keep : 0;
    for (size_t g = 0; g < groups; ++g) {
        for (AsyncCopy& copy : w.async_groups[g]) finish(copy, w.mask);
        std::erase_if(w.async_groups[g], [](const AsyncCopy& c) { return c.mask == 0; });
    }
    while (!w.async_groups.empty() && w.async_groups.front().empty() &&
           w.async_groups.size() > keep) {
        w.async_groups.erase(w.async_groups.begin());
    }
}

// The handlers decode chooses from.
template <class Observer>
MemoryHandlers memory_handlers() {
    using enum ptx::Space;
    constexpr auto L = Access::load, S = Access::store, A = Access::atomic, R = Access::reduction;
    return {
        {{&access_memory<Observer, global, L>, &access_memory<Observer, global, S>,
          &access_memory<Observer, global, A>, &access_memory<Observer, global, R>},
         {&access_memory<Observer, shared, L>, &access_memory<Observer, shared, S>,
          &access_memory<Observer, shared, A>, &access_memory<Observer, shared, R>},
         {&access_memory<Observer, local, L>, &access_memory<Observer, local, S>, nullptr, nullptr},
         {&access_memory<Observer, param, L>, nullptr, nullptr, nullptr},
         {&access_generic<Observer, L>, &access_generic<Observer, S>, &access_generic<Observer, A>,
          &access_generic<Observer, R>},
         {&access_memory<Observer, constant, L>, nullptr, nullptr, nullptr}},
        &access_shared_word<Observer, L>,
        &access_shared_word<Observer, S>,
        &load_parameter,
        &async_copy<Observer>,
        &async_commit,
        &async_wait};
}

}  // namespace coalesce::sim::COALESCE_ISA
