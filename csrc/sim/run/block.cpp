// Starts a block of threads, and manages its barriers.
#include <algorithm>
#include <bit>
#include <iterator>
#include <optional>
#include <ranges>
#include <vector>

#include "errors.hpp"
#include "sim/run/scheduler.hpp"

namespace coalesce::sim {

void index_threads(Block& block, Dim3 extent, std::vector<uint32_t> (&storage)[3]) {
    block.threads = uint32_t(extent.count());
    block.warp_count = (block.threads + warp_size - 1) / warp_size;
    for (int axis = 0; axis < 3; ++axis) {
        storage[axis].resize(size_t(block.warp_count) * warp_size);
        block.thread_index[axis] = storage[axis].data();
    }
    for (uint32_t t = 0; t < block.warp_count * warp_size; ++t) {
        storage[0][t] = t % extent.x;
        storage[1][t] = t / extent.x % extent.y;
        storage[2][t] = t / extent.x / extent.y;
    }
}

namespace {

// Returns the byte with which the local memory of a warp starts. A GPU does not initialize local
// memory. The simulator fills it with NaNs, so that the use of uninitialized data shows in the
// results. But kernels that call printf start with zeros. The reason is the mistake
// printf("%ld", 13): printf reads 8 bytes of local memory, of which only the int's 4 bytes are
// written. On an H200, the other 4 bytes are 0, so this call prints 13.
std::byte initial_local_byte(const Program& program) {
    using enum CallSite::Builtin;
    const auto prints = [](CallSite::Builtin builtin) { return builtin == vprintf; };
    const bool printf_called =
        std::ranges::any_of(program.calls, prints, &CallSite::builtin) ||
        (program.machine &&
         std::ranges::any_of(program.machine->outside | std::views::values, prints));
    return printf_called ? std::byte{0} : std::byte{0xff};
}

}  // namespace

uint64_t blocks_at_once(const GridRun& launch) {
    const uint32_t threads = uint32_t(launch.block.count());
    return uint64_t{launch.gpu.multiprocessors} *
           std::max(1u, launch.gpu.resident_threads / threads);
}

void start(Block& block, uint64_t linear) {
    const Program& program = *block.program;
    const Dim3 grid = block.launch->grid;
    block.linear = linear;
    block.full_turns = 0;
    block.index = {uint32_t(linear % grid.x), uint32_t(linear / grid.x % grid.y),
                   uint32_t(linear / grid.x / grid.y)};
    if (block.warps.empty()) {
        block.shared_bytes = program.shared_bytes + block.launch->shared_bytes;
        if (program.system_shared_bytes)
            block.shared_bytes =
                system_shared_offset(program, *block.launch) + program.system_shared_bytes;
        constexpr uint32_t largest_load = 16;  // accessible_shared() in memory_ops.hpp
        block.shared_storage.resize(block.shared_bytes + 64 + largest_load);
        std::byte* const storage = block.shared_storage.data();
        block.shared = storage + (64 - reinterpret_cast<uintptr_t>(storage) % 64) % 64;
        block.warps.resize(block.warp_count);
        for (uint32_t i = 0; i < block.warp_count; ++i) {
            Warp& w = block.warps[i];
            w.index = i;
            w.block = &block;
            w.registers.resize(program.functions[0].register_bytes + 64);
            w.local.assign(size_t(program.local_bytes) * warp_size, initial_local_byte(program));
        }
    }
    // A GPU does not set shared memory to zero when a block starts. The simulator fills it with
    // NaNs, so that the use of uninitialized data shows in the results.
    std::fill_n(block.shared, block.shared_bytes, std::byte{0xff});
    std::fill_n(block.shared + block.shared_bytes - program.system_shared_bytes,
                program.system_shared_bytes, std::byte{0});
    std::fill(std::begin(block.barriers), std::end(block.barriers), Barrier{});
    block.used_barriers = 0;
    block.threads_left = block.threads;
    block.bulk_copies.clear();
    block.boxes.clear();
    block.ended = false;
    for (Warp& w : block.warps) {
        const uint32_t threads = std::min<uint32_t>(warp_size, block.threads - w.index * warp_size);
        w.live = threads == warp_size ? all_lanes : (1u << threads) - 1;
        w.paths.clear();
        w.guests.clear();
        w.joins.clear();
        w.join_lists.clear();
        w.free_joins.clear();
        w.async_open.clear();
        w.async_groups.clear();
        w.reads_open.clear();
        w.read_groups.clear();
        w.running = w.released_early = false;
        w.expected = w.yielded = w.skipped = 0;
        w.repeated_wavefronts = 0;
        w.at_cluster = w.pending_cluster = 0;
        w.strides.known = w.strides.given_up = 0;
        Path path;
        path.pc = program.functions[0].entry;
        path.mask = w.live;
        w.paths.push_back(path);
    }
}

namespace {

// The value of Barrier::expected for a barrier that waits for all threads that have not left the
// kernel.
constexpr uint32_t all_remaining = UINT32_MAX;

// Opens a barrier at which all threads have arrived. The waiting threads continue.
void open_barrier(Block& block, uint32_t id);

}  // namespace

std::optional<uint32_t> barrier_open_after_exit(Warp& w) {
    Block& block = *w.block;
    const LaneMask gone = w.current.mask;
    for (const Path& p : w.paths) {
        // A barrier for a certain number of threads counts whole warps. If all remaining lanes of
        // this warp wait at such a barrier, the lanes that leave now must be counted, too. So
        // `arrived` is increased to all 32 lanes. Paths for which this is not the case are skipped.
        if (p.wait != Wait::barrier || p.mask != w.live || !(gone & ~w.live)) continue;
        Barrier& barrier = block.barriers[p.barrier];
        if (barrier.expected != all_remaining)
            barrier.arrived += warp_size - uint32_t(std::popcount(p.mask));
    }
    w.current.mask = 0;  // so that these lanes are removed only once
    for (uint32_t left = block.used_barriers; left; left &= left - 1) {
        const auto id = uint32_t(std::countr_zero(left));
        const Barrier& barrier = block.barriers[id];
        if (barrier.arrived == 0) continue;
        const bool everyone = barrier.expected == all_remaining;
        if (barrier.arrived < (everyone ? block.threads_left : barrier.expected)) continue;
        open_barrier(block, id);
        return id;
    }
    return std::nullopt;
}

LaneMask barrier_lanes(Warp& w, const Op& op) {
    if (op.guard == no_operand) return w.current.mask;
    const LaneMask p = w.predicate(op.guard);
    return w.current.mask & (op.guard_negated ? ~p : p);
}

uint32_t barrier_number(Warp& w, const Op& op) {
    if (op.get<BarrierOperand>().of_warpgroup)
        return first_warpgroup_barrier + w.index / warpgroup_warps;
    const int lane = std::countr_zero(barrier_lanes(w, op));
    const uint32_t id = w.lanes<const uint32_t>(op.operand[1])[lane];
    if (id >= named_barriers)
        throw KernelFault(Fault::misuse,
                          "barrier " + std::to_string(id) +
                              " does not exist; a block has the barriers 0 to 15\n  " +
                              where(*w.block->program, op));
    return id;
}

bool reach_barrier(Warp& w, const Op& op, uint32_t at) {
    Block& block = *w.block;
    const LaneMask path = w.current.mask, lanes = barrier_lanes(w, op);
    const int lane = std::countr_zero(lanes);
    const uint32_t id = barrier_number(w, op);
    Barrier& barrier = block.barriers[id];
    const auto& operand = op.get<BarrierOperand>();
    const bool everyone =
        op.operand[2] == no_operand || w.lanes<const uint32_t>(op.operand[2])[lane] == 0;

    // A barrier for a certain number of threads counts whole warps. Each warp counts as 32 threads,
    // even if some of its lanes have left the kernel, or if it is the last warp of the block and
    // has fewer threads.
    uint32_t count = uint32_t(std::popcount(everyone ? path : lanes));
    if (!everyone && lanes == w.live) count = warp_size;
    barrier.expected = everyone ? all_remaining : w.lanes<const uint32_t>(op.operand[2])[lane];
    barrier.arrived += count;
    block.used_barriers |= 1u << id;
    if (op.operand[3] != no_operand) {
        const LaneMask p = w.predicate(op.operand[3]);
        barrier.true_count += uint32_t(std::popcount((operand.negated ? ~p : p) & lanes));
        barrier.contributors += uint32_t(std::popcount(lanes));
    }
    if (operand.kind == BarrierKind::arrive) {
        go_to(w, at + 1);
    } else {
        Path waiting = w.current;
        waiting.pc = at;
        waiting.wait = Wait::barrier;
        waiting.barrier = uint8_t(id);
        w.paths.push_back(waiting);
        w.running = false;
    }
    if (everyone && (w.skipped & lanes)) throw_deadlock(block);
    if (everyone) w.skipped |= path & ~lanes;
    if (barrier.arrived < (everyone ? block.threads_left : barrier.expected)) return false;
    open_barrier(block, id);
    return true;
}

namespace {

void open_barrier(Block& block, uint32_t id) {
    const Program& program = *block.program;
    Barrier& barrier = block.barriers[id];
    // Lanes of one warp may have arrived at different barrier instructions. If a barrier is in
    // conditional code, CUDA requires that all threads take the same branch. It does not define
    // what happens otherwise, so this is reported as an error. PTX allows it for barrier.sync
    // without .aligned.
    const auto is_aligned = [&](uint32_t at) {
        return program.instructions[program.ops[at].pc].traits.aligned;
    };
    for (Warp& other : block.warps) {
        if (other.index >= block.warp_count) continue;
        uint32_t first = no_op;
        for (const Path& p : other.paths) {
            if (p.wait != Wait::barrier || p.barrier != id) continue;
            if (first == no_op) first = p.pc;
            if (p.pc != first && (is_aligned(p.pc) || is_aligned(first))) throw_deadlock(block);
        }
    }
    const uint32_t truths = barrier.true_count;
    const bool all = barrier.true_count == barrier.contributors;
    barrier = {};
    for (Warp& other : block.warps) {
        if (other.index >= block.warp_count) continue;
        // Usually the whole warp waits, and its lanes continue at the next op.
        if (other.paths.size() == 1 && !other.running) {
            Path& p = other.paths[0];
            const bool waits = p.wait == Wait::barrier && p.barrier == id;
            const bool has_join = p.join.one >= 0 || p.join.list >= 0;
            if (waits && !has_join && program.ops[p.pc].operand[0] == no_operand) {
                p.wait = Wait::none;
                ++p.pc;
                continue;
            }
        }
        std::vector<Path> released;
        std::erase_if(other.paths, [&](const Path& p) {
            if (p.wait != Wait::barrier || p.barrier != id) return false;
            released.push_back(p);
            return true;
        });
        for (Path& p : released) {
            const Op& its = program.ops[p.pc];
            if (its.operand[0] != no_operand) {
                const bool running = other.running;
                const Path current = other.current;
                run_path(other, p);
                const BarrierKind result = its.get<BarrierOperand>().kind;
                if (result == BarrierKind::popc) {
                    uint32_t* d = other.lanes<uint32_t>(its.operand[0]);
                    for_each_lane(p.mask, [&](int i) { d[i] = truths; });
                } else {
                    LaneMask& d = other.predicate(its.operand[0]);
                    const bool value = result == BarrierKind::all ? all : truths > 0;
                    d = value ? d | p.mask : d & ~p.mask;
                }
                if (running)
                    run_path(other, current);
                else
                    other.running = false;
            }
            p.wait = Wait::none;
            ++p.pc;
            place(other, p);
        }
    }
}

}  // namespace

}  // namespace coalesce::sim
