// Executes the instructions on mbarriers (mbarrier.hpp), and the bulk copies (cp.async.bulk) that
// use them. An mbarrier counts the bytes of the bulk copies that threads wait for.
//
// METHOD
// The addresses of a bulk copy to shared memory are checked when the copy is issued. The data are
// copied later: when a thread tests the mbarrier of the copy and the phase is not complete. So a
// thread that reads without waiting gets the old data. All threads of a block run on one host
// thread, so updates of an mbarrier need no atomics.
//
// Observers get an atomic for an arrival, and a load of the mbarrier for a successful wait. A bulk
// copy is announced to checkers as accesses of 16 bytes, and to other observers as one CopyEvent.
#pragma once

#include <algorithm>
#include <cstring>

#include "sim/handlers/memory/memory_ops.hpp"
#include "sim/program/mbarrier.hpp"

namespace coalesce::sim::COALESCE_ISA {

// Sizes and addresses of bulk copies are multiples of this number of bytes.
inline constexpr uint32_t bulk_unit = 16;

// Resolves the shared-memory addresses of the mbarriers of the lanes in w.mask.
template <Watch watch>
inline void resolve_mbarriers(Warp& w, const Op& op, Access access, Resolved& r) {
    read_addresses(w, op);
    if (op.get<MbarrierOperand>().generic) {
        const uint64_t start = shared_window + w.block->program->reserved_shared;
        for (int i = 0; i < warp_size; ++i) w.address[i] -= start;
    }
    resolve<watch, ptx::Space::shared>(w, op, access, r);
}

inline std::byte* host_of(const Resolved& r, const Op& op, int lane) {
    return r.shape == Shape::scattered ? r.lane[lane]
           : r.shape == Shape::uniform ? r.host
                                       : r.host + size_t(lane) * op.memory().bytes;
}

inline Mbarrier read_mbarrier(const Warp& w, const Op& op, int lane, const std::byte* host) {
    uint64_t word;
    std::memcpy(&word, host, sizeof word);
    if (!Mbarrier(word).is_valid())
        throw_misuse(w, op, lane, "the mbarrier was not initialised (mbarrier.init)");
    return Mbarrier(word);
}

inline void must_be(const Warp& w, const Op& op, int lane, const char* wrong) {
    if (*wrong) throw_misuse(w, op, lane, wrong);
}

// Announces an access of one lane to checkers.
template <Watch watch>
inline void announce_lane(Warp& w, const Op& op, ptx::Space space, Access access, int lane,
                          uint64_t address, uint8_t bytes) {
    if constexpr (watch == Watch::nothing) return;
    w.address[lane] = address;
    MemoryEvent event;
    event.pc = op.pc;
    event.space = space;
    event.access = access;
    event.bytes = bytes;
    event.mask = 1u << lane;
    event.addresses = w.address;
    event.op = &op;
    w.block->announce->access(w.block->observer, w, event);
}

// Calls `act` for one lane. Meanwhile, w.mask has only this lane, so that checkers see that no
// other lane is active.
template <class F>
inline void with_only_lane(Warp& w, int lane, F&& act) {
    const LaneMask all = w.mask;
    w.mask = 1u << lane;
    act();
    w.mask = all;
}

// Performs a pending bulk copy, and counts its bytes at its mbarrier.
template <Watch watch>
void perform_bulk_copy(Block& block, const BulkCopy& copy) {
    std::byte* const to = block.shared + copy.destination;
    Warp& issuer = block.warps[copy.warp];
    Op op;
    op.pc = copy.pc;
    if constexpr (watch == Watch::faults) {
        AsyncCopy piece{};
        piece.pc = copy.pc;
        piece.bytes = bulk_unit;
        piece.mask = 1u << copy.lane;
        for (uint32_t at = 0; at < copy.bytes; at += bulk_unit) {
            piece.destination[copy.lane] = to + at;
            block.announce->async_complete(block.observer, issuer, piece, piece.mask);
        }
    }
    if (copy.source)
        std::memcpy(to, copy.source, copy.bytes);
    else
        write_stored_box(block, copy.box);
    std::byte* const host = block.shared + copy.barrier;
    Mbarrier barrier = read_mbarrier(issuer, op, int(copy.lane), host);
    must_be(issuer, op, int(copy.lane), barrier.expect_bytes(-int64_t{copy.bytes}));
    barrier.advance_if_complete();
    const uint64_t word = barrier.word();
    std::memcpy(host, &word, sizeof word);
    if constexpr (watch == Watch::faults)
        with_only_lane(issuer, int(copy.lane), [&] {
            announce_lane<watch>(issuer, op, ptx::Space::shared, Access::atomic, int(copy.lane),
                                 copy.barrier, sizeof word);
        });
}

// Executes mbarrier.init, arrive and similar instructions. Operand 5 is the address, and operand 1
// the number of arrivals or bytes. Operand 0 is optional: it receives the state that
// mbarrier.arrive returns. For init_word, operands 1 and 2 are the lower and the upper half of the
// word.
template <Watch watch>
void mbarrier_update(Warp& w, const Op& op) {
    const auto kind = op.get<MbarrierOperand>().update;
    const LaneMask active = w.mask;
    Resolved r;
    const bool inits = kind == MbarrierUpdate::init || kind == MbarrierUpdate::init_word;
    const Access access = inits || kind == MbarrierUpdate::inval ? Access::store : Access::atomic;
    resolve_mbarriers<watch>(w, op, access, r);
    w.mask = r.mask;
    if (w.mask) {
        announce<watch>(w, op, ptx::Space::shared, access, r.shape);
        const uint32_t* amounts =
            op.operand[1] == no_operand ? nullptr : w.lanes<const uint32_t>(op.operand[1]);
        uint64_t* states = op.operand[0] == no_operand ? nullptr : w.lanes<uint64_t>(op.operand[0]);
        for_each_lane(w.mask, [&](int i) {
            std::byte* const host = host_of(r, op, i);
            uint32_t amount = amounts ? amounts[i] : 1;
            uint64_t word = Mbarrier::invalid;
            if (inits) {
                if (kind == MbarrierUpdate::init_word &&
                    !Mbarrier::from_machine_code(amount, w.lanes<const uint32_t>(op.operand[2])[i],
                                                 amount))
                    throw_misuse(w, op, i, "the stored word is not the state of an mbarrier");
                if (amount == 0 || amount > Mbarrier::max_arrivals)
                    throw_misuse(w, op, i, "an mbarrier can expect 1 to 1,048,575 arrivals; got #",
                                 {amount});
                word = Mbarrier::with(amount).word();
            } else {
                Mbarrier b = read_mbarrier(w, op, i, host);
                if (states) states[i] = b.word();
                const auto expect = [&] { must_be(w, op, i, b.expect_bytes(int64_t{amount})); };
                const auto arrive = [&](uint32_t n) { must_be(w, op, i, b.arrive(n)); };
                switch (kind) {
                    case MbarrierUpdate::arrive:
                        arrive(amount);
                        break;
                    case MbarrierUpdate::arrive_drop:
                        arrive(amount);
                        for (uint32_t n = 0; n < amount; ++n) must_be(w, op, i, b.drop());
                        break;
                    case MbarrierUpdate::arrive_expect:
                        expect();
                        arrive(1);
                        break;
                    case MbarrierUpdate::arrive_drop_expect:
                        expect();
                        arrive(1);
                        must_be(w, op, i, b.drop());
                        break;
                    case MbarrierUpdate::expect:
                        expect();
                        break;
                    case MbarrierUpdate::complete:
                        must_be(w, op, i, b.expect_bytes(-int64_t{amount}));
                        break;
                    case MbarrierUpdate::arrive_more:
                        must_be(w, op, i, b.expect_one_more());
                        arrive(1);
                        break;
                    default:
                        break;  // mbarrier.inval: nothing to count
                }
                if (kind != MbarrierUpdate::inval) {
                    if (kind != MbarrierUpdate::expect) b.advance_if_complete();
                    word = b.word();
                }
            }
            std::memcpy(host, &word, sizeof word);
        });
    }
    w.mask = active;
}

// Performs the pending bulk copies whose mbarrier one of these lanes waits for.
template <Watch watch>
void perform_awaited_copies(Warp& w, const Op& op, const Resolved& r, LaneMask lanes) {
    Block& block = *w.block;
    for (size_t n = 0; n < block.bulk_copies.size();) {
        const BulkCopy copy = block.bulk_copies[n];
        bool awaited = false;
        for_each_lane(lanes, [&](int i) {
            awaited = awaited || host_of(r, op, i) == block.shared + copy.barrier;
        });
        if (!awaited) {
            ++n;
            continue;
        }
        block.bulk_copies.erase(block.bulk_copies.begin() + ptrdiff_t(n));
        perform_bulk_copy<watch>(block, copy);
    }
}

// Executes mbarrier.test_wait and try_wait. Operand 5 is the address, and operand 0 the predicate.
// Operand 1 is the state that an arrival returned, or the parity of a phase.
template <Watch watch>
void mbarrier_wait(Warp& w, const Op& op) {
    Resolved r;
    const LaneMask active = w.mask;
    resolve_mbarriers<watch>(w, op, Access::load, r);
    const bool by_parity = op.get<MbarrierOperand>().by_parity;
    const auto* parities = w.lanes<const uint32_t>(op.operand[1]);
    const auto* states = w.lanes<const uint64_t>(op.operand[1]);
    LaneMask done = 0;
    const auto test_phases = [&] {
        for_each_lane(r.mask & ~done, [&](int i) {
            const Mbarrier b = read_mbarrier(w, op, i, host_of(r, op, i));
            const uint32_t phase = by_parity ? parities[i] & 1 : Mbarrier(states[i]).parity();
            if (b.parity() != phase) done |= 1u << i;
        });
    };
    test_phases();
    if (done != r.mask && !w.block->bulk_copies.empty()) {
        perform_awaited_copies<watch>(w, op, r, r.mask & ~done);
        test_phases();
    }
    if (done && watch != Watch::nothing) {
        w.mask = done;
        resolve_mbarriers<watch>(w, op, Access::load, r);
        announce<watch>(w, op, ptx::Space::shared, Access::load, r.shape);
        w.mask = active;
    }
    LaneMask& result = w.predicate(op.operand[0]);
    result = (result & ~active) | done;
}

// Returns the address in shared memory that lane i provides, as an offset from the start of the
// block's memory.
inline uint64_t shared_place(Warp& w, Locator at, int64_t offset, bool narrow, int i) {
    if (!narrow) return w.lanes<const uint64_t>(at)[i] + uint64_t(offset);
    const uint32_t place = w.lanes<const uint32_t>(at)[i] + uint32_t(offset);
    const uint32_t tag = w.block->shared_tag;
    return (place & 0xff000000) == tag ? place - tag : place;
}

// The bulk copy of one lane. `shared` and `global` are its addresses in shared and in global
// memory.
struct Bulk {
    uint32_t bytes;
    uint64_t shared, global;
    std::byte* host;  // the host address of the global memory
};

// Checks the copy of lane i and describes it in `bulk`. Returns false if an address is not valid.
// Operand 0 is the address in shared memory, operand 1 the size, and operand 5 the address in
// global memory.
template <Watch watch>
inline bool bulk_of(Warp& w, const Op& op, int i, Access global_access, Bulk& bulk) {
    const auto& copy = op.get<BulkCopyOperand>();
    bulk.shared = shared_place(w, op.operand[0], copy.shared_offset, copy.narrow_shared, i);
    bulk.bytes = w.lanes<const uint32_t>(op.operand[1])[i];
    read_addresses(w, op);
    bulk.global = w.address[i];
    if (bulk.bytes % bulk_unit)
        throw_misuse(w, op, i, "a bulk copy must move a multiple of 16 bytes; got #", {bulk.bytes});
    const auto refuse = [&](Access access, ptx::Space space, Fault why, uint64_t address) {
        w.address[i] = address;
        fault<watch>(w, op, access, space, why, 1u << i);
        return false;
    };
    const Access shared_access = global_access == Access::store ? Access::load : Access::store;
    if (bulk.shared % bulk_unit)
        return refuse(shared_access, ptx::Space::shared, Fault::misaligned, bulk.shared);
    if (!holds(w.block->shared_bytes, bulk.shared, bulk.bytes))
        return refuse(shared_access, ptx::Space::shared, Fault::outside,
                      bulk.shared < w.block->shared_bytes
                          ? w.block->shared_bytes / bulk_unit * bulk_unit
                          : bulk.shared);
    if (bulk.global % bulk_unit)
        return refuse(global_access, ptx::Space::global, Fault::misaligned, bulk.global);
    AddressSpace& memory = *w.block->memory;
    const Buffer* b = memory.find(bulk.global, std::max(bulk.bytes, 1u), w.block->hints[op.pc]);
    if (!b) {
        const Buffer* start = memory.find(bulk.global, 1, w.block->hints[op.pc]);
        return refuse(global_access, ptx::Space::global, Fault::outside,
                      start
                          ? start->address + (start->bytes + bulk_unit - 1) / bulk_unit * bulk_unit
                          : bulk.global);
    }
    if (global_access == Access::store && !b->writable)
        return refuse(global_access, ptx::Space::global, Fault::read_only, bulk.global);
    bulk.host = b->host + (bulk.global - b->address);
    return true;
}

// Announces the reads or writes of a copy to checkers.
template <Watch watch>
inline void announce_bulk(Warp& w, const Op& op, ptx::Space space, Access access, int lane,
                          uint64_t address, uint32_t bytes) {
    if constexpr (watch == Watch::faults)
        with_only_lane(w, lane, [&] {
            for (uint32_t at = 0; at < bytes; at += bulk_unit)
                announce_lane<watch>(w, op, space, access, lane, address + at, bulk_unit);
        });
}

// Announces a copy to observers that do not listen to faults.
template <Watch watch>
inline void announce_copy(Warp& w, const CopyEvent& e) {
    if constexpr (watch == Watch::accesses) w.block->announce->copied(w.block->observer, w, e);
}
template <Watch watch>
inline void announce_copy(Warp& w, const Op& op, const Bulk& bulk, bool stores) {
    const CopyPiece piece{bulk.global, bulk.bytes};
    announce_copy<watch>(w, {.pc = op.pc, .stores = stores, .pieces = {&piece, 1}});
}

// Checks the mbarrier that counts the bytes of a lane's copy. `at` is the offset of the mbarrier in
// shared memory. If `at` is misaligned or outside shared memory, reports a fault and returns false.
template <Watch watch>
bool check_mbarrier_of_copy(Warp& w, const Op& op, int i, uint32_t at) {
    if (at % sizeof(uint64_t) || !holds(w.block->shared_bytes, at, sizeof(uint64_t))) {
        Op update = op;
        update.memory().bytes = sizeof(uint64_t);
        w.address[i] = at;
        fault<watch>(w, update, Access::atomic, ptx::Space::shared,
                     at % sizeof(uint64_t) ? Fault::misaligned : Fault::outside, 1u << i);
        return false;
    }
    (void)read_mbarrier(w, op, i, w.block->shared + at);
    return true;
}

// Executes cp.async.bulk.shared.global. The address of the mbarrier is the sum of operands 2 and 3.
template <Watch watch>
void bulk_copy_to_shared(Warp& w, const Op& op) {
    for_each_lane(w.mask, [&](int i) {
        Bulk bulk{};
        if (!bulk_of<watch>(w, op, i, Access::async_copy, bulk)) return;
        const uint32_t by = w.lanes<const uint32_t>(op.operand[3])[i];
        const auto at = uint32_t(
            shared_place(w, op.operand[2], by, op.get<BulkCopyOperand>().narrow_barrier, i));
        if (!check_mbarrier_of_copy<watch>(w, op, i, at)) return;
        announce_bulk<watch>(w, op, ptx::Space::global, Access::async_copy, i, bulk.global,
                             bulk.bytes);
        announce_bulk<watch>(w, op, ptx::Space::shared, Access::async_copy, i, bulk.shared,
                             bulk.bytes);
        announce_copy<watch>(w, op, bulk, false);
        w.block->bulk_copies.push_back(
            {op.pc, w.index, uint32_t(i), bulk.bytes, at, uint32_t(bulk.shared), bulk.host});
    });
}

// Executes cp.async.bulk.global.shared and tensormap.cp_fenceproxy. The copy is performed at once,
// because no thread could observe a delay.
template <Watch watch>
void bulk_copy_to_global(Warp& w, const Op& op) {
    // tensormap.cp_fenceproxy has an operand 2. Its lanes make one copy together.
    const bool once = op.operand[2] != no_operand;
    for_each_lane(once ? w.mask & (0 - w.mask) : w.mask, [&](int i) {
        Bulk bulk{};
        if (!bulk_of<watch>(w, op, i, Access::store, bulk)) return;
        announce_bulk<watch>(w, op, ptx::Space::shared, Access::load, i, bulk.shared, bulk.bytes);
        announce_bulk<watch>(w, op, ptx::Space::global, Access::store, i, bulk.global, bulk.bytes);
        announce_copy<watch>(w, op, bulk, true);
        std::memcpy(bulk.host, w.block->shared + bulk.shared, bulk.bytes);
    });
}

}  // namespace coalesce::sim::COALESCE_ISA
