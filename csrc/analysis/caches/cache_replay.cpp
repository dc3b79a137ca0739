#include "analysis/caches/cache_replay.hpp"

#include <algorithm>

#include "analysis/caches/l1_replay.hpp"
#include "analysis/caches/l2_replay.hpp"
#include "model/atomics.hpp"
#include "model/block_schedule.hpp"
#include "model/units.hpp"
#include "sim/program/launch.hpp"

namespace coalesce::analysis {

using model::ReplayedBlock;
using ptx::Space;
using sim::Access;

namespace {

// If more requests than this (elements of ReplayedBlock::traffic) are kept, threads wait until L2
// has been replayed. This number of requests takes 4 MB. So the requests are usually still in the
// host's caches when they are replayed.
constexpr size_t max_waiting_requests = size_t{1} << 17;

// If L2 gets more requests than this (one for each line), only the requests for a sample of its
// lines are replayed. The sample has at least this number of requests, and at least 1 /
// 2^max_sample of the lines.
constexpr double enough_requests = 1 << 14;
constexpr uint32_t max_sample = 5;

// The base address of local memory in the replay. It is far from the addresses of arrays.
constexpr uint64_t local_base = uint64_t{1} << 52;

// The largest number of blocks with which other blocks are compared. More of them are kept if they
// are small, that is, if they have at most `small_block` requests. Blocks are no longer compared if
// the requests of more than `enough_failures` blocks differ from those of all kept blocks, and such
// blocks are the majority.
constexpr size_t kept_blocks = 8, kept_small_blocks = 32;
constexpr size_t small_block = 4096;
constexpr uint64_t enough_failures = 2 * kept_small_blocks;

}  // namespace

struct CacheReplay::Machine {
    Machine(const model::Gpu& gpu, uint32_t resident, size_t instructions, uint32_t sample)
        : l2(gpu, instructions, sample), schedule(gpu, resident, l2.sample()) {}

    L2Replay l2;
    model::BlockSchedule schedule;
};

CacheReplay::~CacheReplay() = default;

CacheReplay::CacheReplay(const sim::Program& program, const sim::GridRun& launch,
                         const model::Gpu& gpu, const model::Occupancy& occupancy,
                         uint64_t max_lines)
    : gpu_(gpu),
      blocks_(launch.grid.count()),
      resident_(occupancy.blocks),
      share_bytes_(
          occupancy.cache_bytes /
          uint32_t(std::clamp<uint64_t>((blocks_ + gpu.multiprocessors - 1) / gpu.multiprocessors,
                                        1, occupancy.blocks))),
      max_lines_(max_lines),
      limit_(launch.block_count()) {
    for (const sim::InstructionInfo& i : program.instructions) {
        using enum CacheSite::Effect;
        CacheSite::Effect effect = load;
        if (i.access == Access::store) {
            effect = store;
        } else if (i.access == Access::atomic || i.access == Access::reduction) {
            effect = atomic;
        } else if (i.traits.bypasses_l1) {
            effect = bypassing_load;
        }
        sites_.push_back({effect, i.bytes, i.space == Space::local, i.traits.adds_floats});
        if (effect == atomic && !atomics_) atomics_ = std::make_unique<model::AtomicUnits>();
        has_barriers_ = has_barriers_ || i.traits.block_barrier;
    }
    misses_.resize(sites_.size());
    cycles_.resize(sites_.size());
    first_round_ = std::min<uint64_t>(limit_, uint64_t(gpu.multiprocessors) * resident_);
}

std::unique_ptr<BlockRequests> CacheReplay::begin(const sim::Block& block,
                                                  std::unique_ptr<BlockRequests> spare) {
    const std::lock_guard lock(mutex_);
    if (block.linear >= limit_) return nullptr;
    if (!spare)
        spare =
            std::make_unique<BlockRequests>(sites_, block.warp_count, share_bytes_, atomics_.get());
    spare->start();
    return spare;
}

void CacheReplay::end(const sim::Block& block, BlockRequests& requests) {
    const std::shared_ptr<const L1Result> result = replay(block, requests);
    // If another thread replays L2, it also replays this block, or a later call does.
    std::unique_lock lock(machine_mutex_, std::defer_lock);
    if (keep(block, requests, result))
        lock.lock();
    else if (!lock.try_lock())
        return;
    advance(false);
}

// Returns the result of the block's L1 replay. The result does not depend on the order in which
// host threads replay blocks: it is determined by the requests of the block and by its number.
std::shared_ptr<const L1Result> CacheReplay::replay(const sim::Block& block,
                                                    BlockRequests& requests) {
    const auto variant = uint32_t(block.linear % RecordedBlock::variants);
    std::shared_ptr<RecordedBlock> recorded = requests.get();
    std::vector<std::shared_ptr<RecordedBlock>> known;
    {
        const std::lock_guard lock(mutex_);
        known = known_;
    }
    const auto is_like = [&](const auto& other) { return recorded->has_same_requests(*other); };
    const auto same = std::ranges::find_if(known, is_like);
    const bool equal = same != known.end();
    if (equal) recorded = *same;
    {
        const std::lock_guard lock(mutex_);
        ++(equal ? equal_ : different_);
        if (different_ >= enough_failures + equal_)
            known_.clear();
        else if (!equal)
            keep_to_compare(recorded);
        if (recorded->results[variant]) return recorded->results[variant];
    }
    L1Replay replay(*recorded, requests.memory(), sites_, requests.origins().size(), variant,
                    has_barriers_);
    auto result = std::make_shared<const L1Result>(replay.run());
    const std::lock_guard lock(mutex_);
    return recorded->results[variant] = std::move(result);
}

void CacheReplay::keep_to_compare(const std::shared_ptr<RecordedBlock>& recorded) {
    const size_t most = recorded->size() <= small_block ? kept_small_blocks : kept_blocks;
    while (known_.size() >= most) known_.erase(known_.begin());
    recorded->is_kept = true;
    known_.push_back(recorded);
}

// Keeps the result of a block's L1 replay. Returns true if so much is kept that the caller should
// wait until L2 has been replayed.
bool CacheReplay::keep(const sim::Block& block, const BlockRequests& requests,
                       std::shared_ptr<const L1Result> result) {
    const uint64_t operations = requests.operations(), most = requests.max_operations();
    const model::ReplayedBlock& filtered = *result->filtered;
    std::vector<uint64_t> origins = requests.origins();
    origins[0] = local_base + block.linear % first_round_ * block.warp_count * local_of_warp;
    for (uint64_t region = 0; region < origins.size(); ++region)
        origins[region] -= result->shifts[region];
    const std::lock_guard lock(mutex_);
    if (block.linear >= limit_) return false;
    if (block.linear < first_round_) {
        first_round_lines_ += filtered.lines;
        first_round_requests_ += filtered.lines_sent;
        if (++first_round_ended_ == first_round_) decide();
        if (block.linear >= limit_) return false;
    }
    for (const MissesOf& m : result->misses) misses_[m.pc].add(m.misses);
    for (size_t i = 0; i < cycles_.size(); ++i) cycles_[i] += requests.cycles()[i];
    ++blocks_ended_;
    warps_ended_ += block.warp_count;
    operations_ += operations;
    most_in_blocks_ += most;
    most_ = std::max(most_, most);
    waiting_requests_ += filtered.traffic.size();
    waiting_.emplace(block.linear, Waiting{result->filtered, std::move(origins)});
    return waiting_requests_ > max_waiting_requests;
}

// Called when the first blocks have ended: as many as the GPU holds at once. Estimates from these
// blocks how long a replay of the whole grid would take. If it would take too long, reduces
// `limit_`, the number of blocks to replay. Also chooses the sample of the lines of L2.
void CacheReplay::decide() {
    const double lines_per_block = double(first_round_lines_) / double(first_round_);
    const auto affordable = uint64_t(double(max_lines_) / std::max(1.0, lines_per_block));
    const uint64_t enough = std::max(2 * first_round_, affordable);
    const bool all = enough >= limit_ - limit_ / 5;
    const double requests =
        double(first_round_requests_) / double(first_round_) * double(all ? limit_ : enough);
    while (sample_ < max_sample && requests >= 2 * enough_requests * double(1 << sample_))
        ++sample_;
    if (all) return;
    limit_ = enough;
    const auto beyond = waiting_.lower_bound(limit_);
    for (auto each = beyond; each != waiting_.end(); ++each)
        waiting_requests_ -= each->second.filtered->traffic.size();
    waiting_.erase(beyond, waiting_.end());
}

// Advances the modelled multiprocessors until they need a block that is not simulated yet.
void CacheReplay::advance(bool ended) {
    {
        const std::lock_guard lock(mutex_);
        if (!ended && first_round_ended_ < first_round_) return;
        if (!machine_)
            machine_ = std::make_unique<Machine>(gpu_, resident_, sites_.size(), sample_);
        machine_->schedule.leave_out(double(blocks_ - limit_) / double(first_round_));
    }
    while (fill(ended)) run_slice();
}

// Starts blocks in the free slots of the modelled multiprocessors. `ended` is true after the run,
// when no further block will be simulated. Returns false if the next block has not been simulated
// yet, or if no block is left.
bool CacheReplay::fill(bool ended) {
    const std::lock_guard lock(mutex_);
    // If all slots are in use, no further block is needed.
    while (next_block_ < limit_ && machine_->schedule.has_place()) {
        const auto entry = waiting_.find(next_block_);
        if (entry == waiting_.end()) {
            if (!ended) return false;
            ++next_block_;  // the run ended without this block
            continue;
        }
        Waiting& block = entry->second;
        waiting_requests_ -= block.filtered->traffic.size();
        machine_->schedule.start(next_block_++, std::move(block.filtered),
                                 std::move(block.origins));
        waiting_.erase(entry);
    }
    return !machine_->schedule.is_empty();
}

void CacheReplay::run_slice() {
    const model::BlockSchedule::Slice& slice = machine_->schedule.run_slice();
    machine_->l2.handle(slice);
    for (const auto& filtered : slice.ended) l1_counts_.add(filtered->counts);
    retired_ += slice.ended.size();
    // `limit_` no longer changes. If all blocks are replayed, the counts at half are not needed.
    if (retired_at_half_ == 0 && 2 * retired_ >= limit_ && limit_ < blocks_) {
        retired_at_half_ = retired_;
        at_half_ = machine_->l2.counts();
    }
}

CacheResult CacheReplay::finish() {
    advance(true);
    CacheResult result;
    result.blocks = blocks_;
    result.blocks_replayed = retired_;
    model::CacheCounts& c = result.counts;
    for (size_t i = 0; i < misses_.size(); ++i) {
        misses_[i].add(machine_->l2.misses()[i]);
        misses_[i].cycles += cycles_[i];
    }
    result.misses = std::move(misses_);
    result.operations = double(operations_) / double(std::max<uint64_t>(1, warps_ended_));
    result.most_in_block = double(most_in_blocks_) / double(std::max<uint64_t>(1, blocks_ended_));
    result.most = double(most_);
    if (atomics_)
        result.atomics =
            atomics_->cycles() * double(blocks_) / double(std::max<uint64_t>(1, retired_));
    c = machine_->l2.counts();
    c.add(l1_counts_);
    if (retired_ == 0 || retired_ >= blocks_) return result;
    // The model assumes that the other blocks send the same requests as the replayed blocks, and
    // hit L2 as often as the second half of them.
    const double left = double(blocks_ - retired_);
    const double later = left / double(std::max<uint64_t>(1, retired_ - retired_at_half_));
    const double whole = double(blocks_) / double(retired_);
    const auto scale = [](uint64_t& value, double by) {
        value = uint64_t(double(value) * by + 0.5);
    };
    const auto extend = [later](uint64_t& value, uint64_t at_half) {
        value += uint64_t(double(value - std::min(value, at_half)) * later + 0.5);
    };
    for (uint64_t* v : {&c.l1_loads, &c.l1_load_hits, &c.l1_stores, &c.l1_store_hits, &c.l2_reads,
                        &c.l2_writes, &c.l2_partial_writes, &c.l2_merged})
        scale(*v, whole);
    extend(c.l2_lookups, at_half_.l2_lookups);
    extend(c.l2_hits, at_half_.l2_hits);
    extend(c.dram_read_bytes, at_half_.dram_read_bytes);
    extend(c.dram_written_bytes, at_half_.dram_written_bytes);
    return result;
}

}  // namespace coalesce::analysis
