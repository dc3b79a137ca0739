// The barrier of a cluster of blocks (PTX ISA, "barrier.cluster").
//
// METHOD
// A thread first arrives at the barrier (barrier.cluster.arrive), and later waits
// (barrier.cluster.wait). The wait ends when all threads of the cluster have arrived, except those
// that have left the kernel. Then the next phase of the barrier begins. Each warp stores which of
// its lanes have arrived in the current phase.
#include <algorithm>
#include <bit>
#include <vector>

#include "sim/run/scheduler.hpp"

namespace coalesce::sim {

namespace {

// Returns true if all threads of the cluster that are still in the kernel have arrived. At least
// one thread must still be in the kernel.
bool is_complete(const Cluster& cluster) {
    bool any = false;
    for (const Block* block : cluster.blocks) {
        for (const Warp& w : block->warps) {
            if (w.live & ~w.at_cluster) return false;
            any = any || w.at_cluster;
        }
    }
    return any;
}

void open(Cluster& cluster) {
    for (Block* block : cluster.blocks) {
        for (Warp& w : block->warps) {
            w.at_cluster = 0;
            std::vector<Path> released;
            std::erase_if(w.paths, [&](const Path& p) {
                if (p.wait != Wait::cluster) return false;
                released.push_back(p);
                return true;
            });
            for (Path& p : released) {
                p.wait = Wait::none;
                ++p.pc;
                place(w, p);
            }
        }
    }
}

}  // namespace

bool arrive_at_cluster(Warp& w, const Op& op, uint32_t at) {
    const LaneMask lanes = w.current.mask;
    if (w.pending_cluster & lanes)
        throw_misuse(w, op, std::countr_zero(w.pending_cluster & lanes),
                     "a thread arrives at the barrier of the cluster twice without waiting there");
    w.at_cluster |= lanes;
    w.pending_cluster |= lanes;
    go_to(w, at + 1);
    if (!is_complete(*w.block->cluster)) return false;
    open(*w.block->cluster);
    return true;
}

void wait_for_cluster(Warp& w, const Op& op, uint32_t at) {
    const LaneMask lanes = w.current.mask;
    if (lanes & ~w.pending_cluster)
        throw_misuse(w, op, std::countr_zero(lanes & ~w.pending_cluster),
                     "a thread waits at the barrier of the cluster without having arrived there");
    w.pending_cluster &= ~lanes;
    if (!(lanes & w.at_cluster)) return go_to(w, at + 1);
    Path waiting = w.current;
    waiting.pc = at;
    waiting.wait = Wait::cluster;
    w.paths.push_back(waiting);
    w.running = false;
}

bool cluster_complete_after_exit(Warp& w) {
    w.at_cluster &= w.live;
    w.pending_cluster &= w.live;
    if (!is_complete(*w.block->cluster)) return false;
    open(*w.block->cluster);
    return true;
}

Block& block_of_rank(const Warp& w, const Op& op, int lane, uint32_t rank) {
    const Cluster& cluster = *w.block->cluster;
    if (rank >= cluster.blocks.size())
        throw_misuse(w, op, lane,
                     "an address is in the shared memory of a block of rank " +
                         std::to_string(rank) + "; the cluster has " +
                         std::to_string(cluster.blocks.size()) + " blocks");
    Block& block = *cluster.blocks[rank];
    if (block.ended)
        throw_misuse(w, op, lane,
                     "the block whose shared memory is accessed has ended; let the blocks of the "
                     "cluster wait for each other (cluster.sync()) before they end");
    return block;
}

}  // namespace coalesce::sim
