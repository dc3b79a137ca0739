// Executes cp.async and the instructions that wait for its copies. cp.async copies 4, 8 or 16 bytes
// per lane from global to shared memory in the background.
//
// METHOD
// The addresses are checked when the copy is issued. The data are copied later: when the thread
// waits for the group of the copy. So a thread that reads without waiting gets the old data.
//
// A copy has two events for observers: first the access to global memory, then the access to shared
// memory. A checker also learns when the data have arrived (Announcements::async_complete).
#pragma once

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "sim/handlers/memory/memory_ops.hpp"

namespace coalesce::sim::COALESCE_ISA {

// Performs a pending copy for the lanes in w.mask.
template <Watch watch>
void finish(Warp& w, AsyncCopy& copy) {
    const LaneMask lanes = w.mask;
    if (watch != Watch::nothing && (copy.mask & lanes))
        w.block->announce->async_complete(w.block->observer, w, copy, copy.mask & lanes);
    for_each_lane(copy.mask & lanes, [&](int i) {
        std::memset(copy.destination[i], 0, copy.bytes);
        if (copy.source_bytes[i])
            std::memcpy(copy.destination[i], copy.source[i], copy.source_bytes[i]);
    });
    copy.mask &= ~lanes;
}

// Determines how many source bytes each lane of a cp.async reads. The rest of the copy is filled
// with zeros. w.address has the source addresses.
inline void read_source_bytes(Warp& w, const Op& op, AsyncCopy& copy) {
    const uint32_t* size =
        op.operand[1] == no_operand ? nullptr : w.lanes<const uint32_t>(op.operand[1]);
    const auto& operand = op.get<AsyncCopyOperand>();
    const uint32_t bytes = operand.source.bytes;
    LaneMask ignored = 0;
    if (op.operand[2] != no_operand)
        ignored = w.predicate(op.operand[2]) ^ (operand.negated ? all_lanes : 0u);
    for_each_lane(w.mask, [&](int i) {
        uint32_t n = size ? std::min(size[i], bytes) : bytes;
        if (operand.fill_in_address) {
            const uint32_t filled = uint32_t(w.address[i]) & (bytes - 1);
            w.address[i] -= filled;
            n = bytes - filled;
        }
        copy.source_bytes[i] = uint8_t(has_lane(ignored, i) ? 0 : n);
    });
}

// Executes cp.async: checks both addresses, and stores the copy in w.async_open.
template <Watch watch>
void async_copy(Warp& w, const Op& op) {
    AsyncCopy copy{};
    copy.pc = op.pc;
    const uint8_t bytes = copy.bytes = op.memory().bytes;
    copy.mask = w.mask;
    read_addresses(w, op);
    read_source_bytes(w, op, copy);
    Resolved r;
    const auto each = [&](auto&& put) {
        for_each_lane(w.mask, [&](int i) {
            put(i, r.shape == Shape::scattered ? r.lane[i]
                   : r.shape == Shape::uniform ? r.host
                                               : r.host + size_t(i) * bytes);
        });
    };
    // A lane that reads nothing may have any source address. If a lane reads only a part of the
    // copied bytes, only this part must be in an array.
    const LaneMask active = w.mask;
    LaneMask whole = 0, part = 0, faulty = 0;
    for_each_lane(active, [&](int i) {
        LaneMask& m = copy.source_bytes[i] == bytes ? whole : part;
        if (copy.source_bytes[i] > 0) m |= 1u << i;
    });
    if (whole) {
        w.mask = whole;
        resolve<watch, ptx::Space::global>(w, op, Access::async_copy, r);
        w.mask = r.mask;
        each([&](int i, std::byte* p) { copy.source[i] = p; });
        faulty = whole & ~r.mask;
    }
    for_each_lane(part, [&](int i) {
        const Buffer* b =
            w.block->memory->find(w.address[i], copy.source_bytes[i], w.block->hints[op.pc]);
        const bool misaligned = w.address[i] & (bytes - 1u);
        if (b && !misaligned) {
            copy.source[i] = b->host + (w.address[i] - b->address);
            return;
        }
        fault<watch>(w, op, Access::async_copy, ptx::Space::global,
                     misaligned ? Fault::misaligned : Fault::outside, 1u << i);
        faulty |= 1u << i;
    });
    w.mask = (whole | part) & ~faulty;
    if (w.mask) {
        const Shape shape = w.mask == whole ? r.shape : Shape::scattered;
        announce<watch>(w, op, ptx::Space::global, Access::async_copy, shape);
    }

    Op destination = op;
    destination.operand[5] = op.operand[0];
    const auto& operand = op.get<AsyncCopyOperand>();
    destination.set(MemoryOperand{
        .offset = operand.destination_offset,
        .bytes = bytes,
        .form = operand.narrow_destination ? AddressForm::narrow : AddressForm::wide});
    uint64_t sources[warp_size];
    std::copy_n(w.address, warp_size, sources);
    w.mask = active & ~faulty;
    if (w.mask) {
        read_addresses(w, destination);
        resolve<watch, ptx::Space::shared>(w, destination, Access::store, r);
        w.mask = r.mask;
    }
    if (w.mask) {
        announce<watch>(w, destination, ptx::Space::shared, Access::async_copy, r.shape, nullptr,
                        sources);
        each([&](int i, std::byte* p) { copy.destination[i] = p; });
        copy.mask = w.mask;
        w.async_open.push_back(copy);
    }
    w.mask = active;
}

// Executes cp.async.commit_group: the copies since the last commit become a group.
inline void async_commit(Warp& w, const Op&) {
    w.async_groups.push_back(std::move(w.async_open));
    w.async_open.clear();
}

// Executes cp.async.wait_group and wait_all. wait_group N performs the pending copies of all groups
// except the latest N. wait_all performs all pending copies.
template <Watch watch>
void async_wait(Warp& w, const Op& op) {
    const auto finish_all = [&](std::vector<AsyncCopy>& copies) {
        for (AsyncCopy& copy : copies) finish<watch>(w, copy);
        std::erase_if(copies, [](const AsyncCopy& c) { return c.mask == 0; });
    };
    const auto& left = op.get<AsyncGroups>();
    if (left.all) finish_all(w.async_open);
    const size_t keep = left.all ? 0 : left.pending;
    const size_t groups = w.async_groups.size() > keep ? w.async_groups.size() - keep : 0;
    for (size_t g = 0; g < groups; ++g) finish_all(w.async_groups[g]);
    while (!w.async_groups.empty() && w.async_groups.front().empty() &&
           w.async_groups.size() > keep) {
        w.async_groups.erase(w.async_groups.begin());
    }
}

}  // namespace coalesce::sim::COALESCE_ISA
