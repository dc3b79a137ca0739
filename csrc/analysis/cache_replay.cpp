#include "analysis/cache_replay.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "model/atomics.hpp"
#include "model/block_schedule.hpp"
#include "model/coalescing.hpp"
#include "model/request_coalescer.hpp"
#include "model/tag_sets.hpp"
#include "model/time.hpp"
#include "sim/launch.hpp"

namespace coalesce::analysis {

using model::Filtered;
using model::LineAccess;
using model::Traffic;
using ptx::Space;
using sim::Access;

namespace {

// The base address of local memory in the replay. It is far from the addresses of arrays. Local
// memory is interleaved: a line holds one word of each lane.
constexpr uint64_t local_base = uint64_t(1) << 52, local_of_warp = uint64_t(1) << 26;

// Returns how many rounds a warp waits before its first request, if the kernel has no barriers. In
// a round, each warp replays one request. The number is pseudo-random and depends only on the block
// and the warp. The maximum of 64 was fitted to the merged reads of `a` in naive_2d and untiled.
uint32_t idle_rounds(uint64_t block, uint32_t warp) {
    constexpr uint64_t most = 64;
    const uint64_t x = ((block * 64 + warp + 1) * 0x9e3779b97f4a7c15) ^ 0x5851f42d4c957f2d;
    return uint32_t(((x * 0xd6e8feb86659fd93) >> 32) * most >> 32);
}

// Adds an access of `bytes` bytes to the lines of a request. `highest` is the highest line so far.
// `covered` counts the accessed bytes of each sector.
void add_access(uint64_t address, uint32_t bytes, LineAccess* lines, uint8_t (*covered)[4], int& n,
                uint64_t& highest) {
    const uint64_t line = address / model::line_bytes;
    int at = n - 1;  // neighbouring lanes usually access the same line or the next one
    if (n == 0 || lines[at].line != line) {
        at = n && line > highest ? n : 0;
        while (at < n && lines[at].line != line) ++at;
        if (at == n) {
            lines[n] = {line, 0, 0};
            std::fill_n(covered[n++], 4, uint8_t(0));
            highest = std::max(highest, line);
        }
    }
    const uint32_t sector = uint32_t(address / model::sector_bytes % 4);
    lines[at].sectors |= uint8_t(1u << sector);
    covered[at][sector] =
        uint8_t(std::min<uint32_t>(model::sector_bytes, covered[at][sector] + bytes));
}

// Stores the L1 cycles of requests by their stride. Requests with the same stride and the same
// offset of the first address take equally long.
class CyclesByStride {
  public:
    template <class Compute>
    uint32_t of(uint64_t first, int32_t stride, uint32_t bytes, Compute&& compute) {
        // Tag sets depend on the lower bits of the line number. If all lanes have the same offset
        // within their lines, the offset does not matter.
        constexpr uint64_t bits = uint64_t{model::line_bytes} << model::tag_bits;
        const bool one_place = stride % int32_t(model::line_bytes) == 0;
        const uint64_t place = first % bits & ~uint64_t(one_place ? model::line_bytes - 1 : 0);
        const uint64_t key = place | uint64_t{bytes} << 24 | uint64_t{uint32_t(stride)} << 32;
        Entry& entry = entries_[(key * 0x9e3779b97f4a7c15) >> 56];
        if (entry.key != key) entry = {key, compute()};
        return entry.cycles;
    }

  private:
    struct Entry {
        uint64_t key = 0;  // no request has this key, because each accesses at least one byte
        uint32_t cycles = 0;
    };
    std::array<Entry, 256> entries_;
};

constexpr int requests_ahead = 12;

// For this many requests, the replay remembers where in L1 their lines are. Other warps, and the
// copies of an unrolled loop, access the same lines again.
constexpr uint32_t most_places = 256;

// Consecutive lines of a request, `step` apart, in which the lanes access the same sectors. If a
// request does not have this form, `count` is 0.
struct AlikeLines {
    LineAccess first;
    uint64_t step = 0;
    int count = 0;
};

AlikeLines alike_lines(uint64_t first, int32_t stride, uint32_t bytes) {
    constexpr auto line_bytes = int32_t{model::line_bytes};
    constexpr uint8_t all_sectors = 15;
    const uint64_t line = first / model::line_bytes;
    const auto sector = uint8_t(1u << (first / model::sector_bytes % 4));
    if (stride == 0) return {{line, sector, 0}, 0, 1};
    if (stride % line_bytes == 0)
        return {{line, sector, 0}, uint64_t(int64_t{stride / line_bytes}), sim::warp_size};
    const uint32_t whole = bytes * sim::warp_size / model::line_bytes;
    if (stride == int32_t(bytes) && whole && first % model::line_bytes == 0)
        return {{line, all_sectors, all_sectors}, 1, int(whole)};
    return {};
}

}  // namespace

void Misses::add(const Misses& other) {
    requests += other.requests;
    missed += other.missed;
    lines += other.lines;
    read += other.read;
    slow += other.slow;
    cycles += other.cycles;
}

void BlockRequests::clear() {
    for (OfWarp& own : warps_) {
        own.requests.clear();
        own.wavefronts = own.operations = 0;
    }
    addresses_.clear();
}

void BlockRequests::add(OfWarp& own, const sim::MemoryEvent& e) {
    if (own.wavefronts) own.requests.push_back({own.wavefronts, 0, pause, 0});
    own.wavefronts = 0;
    Request r{};
    r.pc = e.pc;
    if (e.shape != sim::Shape::scattered) {
        r.first = e.first;
        r.stride = e.shape == sim::Shape::uniform ? 0 : int32_t(e.bytes);
    } else if (const int64_t stride = sim::stride_of(e);
               stride != 0 && stride == int64_t(int32_t(stride))) {
        r.first = e.addresses[0];
        r.stride = int32_t(stride);
    } else {
        r.first = addresses_.size();
        r.stride = int32_t(e.mask);
        r.scattered = 1;
        sim::for_each_lane(e.mask, [&](int lane) { addresses_.push_back(e.addresses[lane]); });
    }
    own.requests.push_back(r);
}

// L1 merges some partial writes before they go to L2. A partial write may be merged if the same
// warp was the last writer of the sector. The rule is not known. In recorded kernels, 0 to 83 % of
// such writes are merged; the model merges 70 %. Writes of different warps are not merged
// (`transpose/naive_read`).
class PartialWrites {
  public:
    // Returns the sectors that must be sent to L2.
    uint8_t left_of(const LineAccess& a) {
        const uint8_t parts = a.sectors & ~a.whole;
        if (!parts) return a.sectors;
        for (LineAccess& last : lines_) {
            if (last.line != a.line) continue;
            const bool alone = ++writes_ % 10 < 3;
            const uint8_t merged = alone ? 0 : uint8_t(parts & last.sectors);
            last.sectors |= parts;
            return uint8_t(a.sectors & ~merged);
        }
        if (lines_.size() < most)
            lines_.push_back({a.line, parts, 0});
        else
            lines_[oldest_++ % most] = {a.line, parts, 0};
        return a.sectors;
    }

  private:
    static constexpr size_t most = sim::warp_size;  // lines of one request
    std::vector<LineAccess> lines_;
    size_t oldest_ = 0;
    uint32_t writes_ = 0;
};

struct CacheReplay::Machine {
    Machine(const model::Gpu& gpu, uint32_t resident, size_t instructions)
        : schedule(gpu, resident),
          coalescer(gpu),
          second(gpu),
          misses(instructions),
          arrivals(1 << 16) {}

    void ask(const model::BlockSchedule::Request& r) {
        const uint32_t cluster = coalescer.cluster_of(r.multiprocessor);
        Traffic t = *r.traffic;
        Arrival& arrival = arrivals[(t.line * 0x9e3779b97f4a7c15) >> 48];
        const bool waits = t.kind != Traffic::Kind::write;
        const bool on_the_way = waits && arrival.line == t.line && r.time < arrival.time;
        misses[t.pc].read += waits;
        misses[t.pc].slow += on_the_way;
        if (t.kind == Traffic::Kind::read) {
            t.sectors = coalescer.missing(cluster, t.line, t.sectors, r.time);
            merged += model::sectors_in(r.traffic->sectors & ~t.sectors);
            if (!t.sectors) return;
        }
        const bool from_dram = second.handle(t, cluster);
        if (from_dram && !on_the_way) {
            arrival = {t.line, r.time + model::dram_latency};
            ++misses[t.pc].slow;
        }
        if (t.kind == Traffic::Kind::read)
            coalescer.ask(cluster, t.line, t.sectors, r.time, from_dram);
    }

    model::BlockSchedule schedule;
    model::RequestCoalescer coalescer;
    model::L2Cache second;
    uint64_t merged = 0;         // number of sectors merged
    std::vector<Misses> misses;  // misses with L2's answers, by instruction
    // A line that DRAM is fetching. If two lines share a table entry, the older one is forgotten.
    struct Arrival {
        uint64_t line = ~uint64_t(0);
        double time = 0;
    };
    std::vector<Arrival> arrivals;
};

CacheReplay::~CacheReplay() = default;

CacheReplay::CacheReplay(const sim::Program& program, const sim::Launch& launch,
                         const model::Gpu& gpu, const model::Occupancy& occupancy,
                         uint64_t most_lines)
    : program_(program),
      blocks_(launch.grid.count()),
      resident_(occupancy.blocks),
      share_bytes_(
          occupancy.cache_bytes /
          uint32_t(std::clamp<uint64_t>((blocks_ + gpu.multiprocessors - 1) / gpu.multiprocessors,
                                        1, occupancy.blocks))),
      most_lines_(most_lines),
      limit_(launch.block_count()),
      atomics_(std::make_unique<model::AtomicUnits>()),
      machine_(std::make_unique<Machine>(gpu, occupancy.blocks, program.instructions.size())) {
    for (const sim::InstructionInfo& i : program.instructions) {
        Effect effect = Effect::load;
        if (i.access == Access::store) {
            effect = Effect::store;
        } else if (i.access == Access::atomic || i.access == Access::reduction) {
            effect = Effect::atomic;
        } else if (i.traits.passes_l1) {
            effect = Effect::load_past;
        }
        effects_.push_back(effect);
        adds_floats_.push_back(i.traits.adds_floats);
        has_barriers_ = has_barriers_ || i.traits.block_barrier;
    }
    misses_.resize(effects_.size());
    first_round_ = std::min<uint64_t>(limit_, uint64_t(gpu.multiprocessors) * resident_);
}

std::unique_ptr<BlockRequests> CacheReplay::begin(const sim::Block& block,
                                                  std::unique_ptr<BlockRequests> spare) {
    const std::lock_guard lock(mutex_);
    if (block.linear >= limit_) return nullptr;
    if (!spare) return std::make_unique<BlockRequests>(block.warp_count);
    spare->clear();
    return spare;
}

void CacheReplay::end(const sim::Block& block, BlockRequests& requests) {
    std::vector<Misses> misses(effects_.size());
    auto filtered = std::make_shared<const Filtered>(filter(block, requests, misses));
    uint64_t operations = 0, most = 0;
    for (const BlockRequests::OfWarp& own : requests.warps_) {
        operations += own.operations;
        most = std::max(most, own.operations);
    }
    const size_t warps = requests.warps_.size();
    const std::lock_guard lock(mutex_);
    if (block.linear >= limit_) return;
    if (block.linear < first_round_) {
        first_round_lines_ += filtered->lines;
        if (++first_round_ended_ == first_round_) decide();
        if (block.linear >= limit_) return;
    }
    for (size_t i = 0; i < misses.size(); ++i) misses_[i].add(misses[i]);
    ++blocks_ended_;
    warps_ended_ += warps;
    operations_ += operations;
    most_in_blocks_ += most;
    most_ = std::max(most_, most);
    waiting_.emplace(block.linear, std::move(filtered));
    advance(false);
}

// Computes the lines of a request, in the order of its lanes. Returns their number.
int CacheReplay::lines_of(const sim::Block& block, uint32_t warp, const BlockRequests& requests,
                          const BlockRequests::Request& r, LineAccess* lines) const {
    const sim::InstructionInfo& info = program_.instructions[r.pc];
    const uint32_t bytes = info.bytes;
    uint8_t covered[sim::warp_size][4];
    int n = 0;
    uint64_t highest = 0;
    if (info.space == Space::local) {
        const uint64_t slot = block.linear % first_round_ * block.warp_count + warp;
        const uint64_t base = local_base + slot * local_of_warp;
        const auto add_local = [&](int lane, uint64_t address) {
            for (uint32_t word = 0; word < std::max(1u, bytes / 4) && n < sim::warp_size; ++word)
                add_access(base + (address / 4 + word) * model::line_bytes + uint64_t(lane) * 4,
                           std::min(bytes, 4u), lines, covered, n, highest);
        };
        if (r.scattered) {
            const uint64_t* address = &requests.addresses_[r.first];
            sim::for_each_lane(uint32_t(r.stride), [&](int lane) { add_local(lane, *address++); });
        } else {
            for (int lane = 0; lane < sim::warp_size; ++lane)
                add_local(lane, r.first + uint64_t(int64_t(lane) * r.stride));
        }
    } else if (r.scattered) {
        const uint64_t* address = &requests.addresses_[r.first];
        sim::for_each_lane(uint32_t(r.stride),
                           [&](int) { add_access(*address++, bytes, lines, covered, n, highest); });
    } else if (r.stride == int32_t(bytes)) {  // a contiguous range
        const uint64_t end = r.first + uint64_t(sim::warp_size) * bytes;
        for (uint64_t sector = r.first / model::sector_bytes; sector * model::sector_bytes < end;
             ++sector) {
            if (n == 0 || lines[n - 1].line != sector / 4) lines[n++] = {sector / 4, 0, 0};
            const bool whole = sector * model::sector_bytes >= r.first &&
                               (sector + 1) * model::sector_bytes <= end;
            const auto bit = uint8_t(1u << sector % 4);
            lines[n - 1].sectors |= bit;
            if (whole) lines[n - 1].whole |= bit;
        }
        return n;
    } else if (r.stride == 0 || std::abs(r.stride) >= int(model::line_bytes)) {
        // The request accesses a single address, or a different line in each lane.
        const int most = r.stride == 0 ? 1 : sim::warp_size;
        for (; n < most; ++n) {
            const uint64_t address = r.first + uint64_t(int64_t(n) * r.stride);
            const auto sector = uint8_t(1u << (address / model::sector_bytes % 4));
            const bool whole = bytes == model::sector_bytes;
            lines[n] = {address / model::line_bytes, sector, whole ? sector : uint8_t(0)};
        }
        return n;
    } else {
        for (int lane = 0; lane < sim::warp_size; ++lane)
            add_access(r.first + uint64_t(int64_t(lane) * r.stride), bytes, lines, covered, n,
                       highest);
    }
    for (int i = 0; i < n; ++i)
        for (uint32_t sector = 0; sector < 4; ++sector)
            lines[i].whole |=
                uint8_t(uint32_t(covered[i][sector] == model::sector_bytes) << sector);
    return n;
}

template <class Use>
auto CacheReplay::with_lanes(const BlockRequests& requests, const BlockRequests::Request& r,
                             Use&& use) const {
    if (!r.scattered)
        return use(sim::all_lanes,
                   [&](int lane) { return r.first + uint64_t(int64_t(lane) * r.stride); });
    const uint64_t* next = &requests.addresses_[r.first];
    uint64_t by_lane[sim::warp_size];
    sim::for_each_lane(uint32_t(r.stride), [&](int lane) { by_lane[lane] = *next++; });
    return use(sim::LaneMask(r.stride), [&](int lane) { return by_lane[lane]; });
}

Filtered CacheReplay::filter(const sim::Block& block, BlockRequests& requests,
                             std::vector<Misses>& misses) const {
    Filtered result;
    model::L1Cache cache(share_bytes_);
    std::vector<size_t> next(requests.warps_.size());
    std::vector<uint32_t> idle(next.size());  // rounds that a warp waits before its first request
    if (!has_barriers_)
        for (uint32_t warp = 0; warp < next.size(); ++warp)
            idle[warp] = idle_rounds(block.linear, warp);
    std::vector<PartialWrites> unwritten(next.size());  // partial writes that L1 holds, by warp
    LineAccess lines[sim::warp_size];
    CyclesByStride cycles_by_stride;
    requests.places_.resize(most_places * sim::warp_size);
    // If the cache is large compared with a request, the lines of one request cannot evict each
    // other.
    const bool keeps_a_request = share_bytes_ >= 8 * model::line_bytes * sim::warp_size;
    // The last request, if it was a regular load. It is kept because the next request often loads
    // the same lines.
    BlockRequests::Request last{};
    uint64_t last_sectors = 0;
    uint32_t last_lines = 0, last_cycles = 0;
    for (bool any = true; any;) {
        any = false;
        for (uint32_t warp = 0; warp < next.size(); ++warp) {
            const auto& own = requests.warps_[warp].requests;
            if (next[warp] == own.size()) continue;
            any = true;
            if (idle[warp] && idle[warp]--) continue;
            const BlockRequests::Request& r = own[next[warp]++];
            // The requests of different warps are stored far apart in the host's memory.
            __builtin_prefetch(&r + requests_ahead);
            if (r.pc == BlockRequests::pause) {
                result.cycles += uint32_t(r.first);
                continue;
            }
            if (last_lines && r.first == last.first && r.stride == last.stride && r.pc == last.pc &&
                !r.scattered) {
                cache.load_again(last_sectors);
                ++misses[r.pc].requests;
                misses[r.pc].cycles += last_cycles;
                result.cycles += last_lines;
                continue;
            }
            const Effect effect = effects_[r.pc];
            const sim::InstructionInfo& info = program_.instructions[r.pc];
            const AlikeLines alike =
                r.scattered ? AlikeLines{} : alike_lines(r.first, r.stride, info.bytes);
            const uint64_t hash = (alike.first.line * 33 + uint32_t(r.stride)) * 0x9e3779b97f4a7c15;
            model::L1Cache::Place* const places =
                &requests.places_[(hash >> 32) % most_places * sim::warp_size];
            const uint64_t loads_before = cache.counts().l1_loads;
            const size_t traffic_before = result.traffic.size();
            int n = alike.count;
            // Usually all lines are where they were found last.
            const bool again = effect == Effect::load && n && info.space != Space::local &&
                               cache.load_again(alike.first, alike.step, uint32_t(n), places);
            if (!again) n = lines_of(block, warp, requests, r, lines);
            for (int i = 0; i < n && !again; ++i) {
                Traffic t{.line = lines[i].line,
                          .time = result.cycles,
                          .sectors = lines[i].sectors,
                          .whole = lines[i].whole,
                          .pc = r.pc};
                switch (effect) {
                    case Effect::load:
                        t.sectors = cache.load(lines[i], places[i]);
                        break;
                    case Effect::load_past:
                        t.sectors = cache.load_past(lines[i]);
                        break;
                    case Effect::store:
                        cache.store(lines[i], places[i]);
                        t.kind = Traffic::Kind::write;
                        t.sectors = unwritten[warp].left_of(lines[i]);
                        break;
                    case Effect::atomic:
                        cache.atomic(lines[i]);
                        t.kind = Traffic::Kind::atomic;
                        break;
                }
                if (t.sectors) result.traffic.push_back(t);
            }
            const size_t missed = result.traffic.size() - traffic_before;
            ++misses[r.pc].requests;
            misses[r.pc].missed += missed != 0;
            misses[r.pc].lines += missed;
            if (effect == Effect::atomic)
                with_lanes(requests, r, [&](sim::LaneMask mask, auto&& address) {
                    atomics_->add(mask, adds_floats_[r.pc], address);
                });
            const bool repeatable = effect == Effect::load && !r.scattered &&
                                    info.space != Space::local && keeps_a_request;
            last = r;
            last_lines = repeatable ? uint32_t(n) : 0;
            last_cycles = uint32_t(n);
            const auto cycles = [&] {
                return with_lanes(requests, r, [&](sim::LaneMask mask, auto&& address) {
                    return model::l1_cycles(mask, info.bytes, address).data;
                });
            };
            if (n > 1 && info.space != Space::local)
                last_cycles = r.scattered
                                  ? cycles()
                                  : cycles_by_stride.of(r.first, r.stride, info.bytes, cycles);
            misses[r.pc].cycles += last_cycles;
            last_sectors = cache.counts().l1_loads - loads_before;
            result.cycles += uint32_t(std::max(1, n));
            result.lines += uint64_t(n);
        }
    }
    result.counts = cache.counts();
    return result;
}

// Runs after the first round of blocks. Decides whether there is time to replay the whole grid.
void CacheReplay::decide() {
    const double of_a_block = double(first_round_lines_) / double(first_round_);
    const auto affordable = uint64_t(double(most_lines_) / std::max(1.0, of_a_block));
    const uint64_t enough = std::max(2 * first_round_, affordable);
    if (enough >= limit_ - limit_ / 5) return;
    limit_ = enough;
    waiting_.erase(waiting_.lower_bound(limit_), waiting_.end());
}

// Advances the modelled multiprocessors until they need a block that is not simulated yet.
void CacheReplay::advance(bool ended) {
    if (!ended && first_round_ended_ < first_round_) return;
    machine_->schedule.leave_out(double(blocks_ - limit_) / double(first_round_));
    while (fill(ended)) run_slice();
}

// Starts blocks in free slots. Returns false if the next block has not been simulated yet, or if no
// block is left.
bool CacheReplay::fill(bool ended) {
    // If all slots are in use, no further block is needed.
    while (next_block_ < limit_ && machine_->schedule.has_place()) {
        const auto found = waiting_.find(next_block_);
        if (found == waiting_.end()) {
            if (!ended) return false;
            ++next_block_;  // the run ended without this block
            continue;
        }
        machine_->schedule.start(next_block_++, std::move(found->second));
        waiting_.erase(found);
    }
    return !machine_->schedule.is_empty();
}

void CacheReplay::run_slice() {
    const model::BlockSchedule::Slice& slice = machine_->schedule.run_slice();
    for (const model::BlockSchedule::Request& r : slice.requests) machine_->ask(r);
    for (const auto& filtered : slice.ended) l1_counts_.add(filtered->counts);
    retired_ += slice.ended.size();
    if (retired_at_half_ == 0 && 2 * retired_ >= limit_) {
        retired_at_half_ = retired_;
        at_half_ = machine_->second.counts();
    }
}

CacheResult CacheReplay::finish() {
    const std::lock_guard lock(mutex_);
    advance(true);
    CacheResult result;
    result.blocks = blocks_;
    result.blocks_replayed = retired_;
    model::CacheCounts& c = result.counts;
    for (size_t i = 0; i < misses_.size(); ++i) misses_[i].add(machine_->misses[i]);
    result.misses = std::move(misses_);
    result.operations = double(operations_) / double(std::max<uint64_t>(1, warps_ended_));
    result.most_in_block = double(most_in_blocks_) / double(std::max<uint64_t>(1, blocks_ended_));
    result.most = double(most_);
    result.atomics = atomics_->cycles() * double(blocks_) / double(std::max<uint64_t>(1, retired_));
    c = machine_->second.counts();
    c.add(l1_counts_);
    c.l2_merged = machine_->merged;
    if (retired_ == 0 || retired_ >= blocks_) return result;
    // The remaining blocks are assumed to behave like the second half. They have the same rates in
    // L2 and the same shares in L1.
    const double left = double(blocks_ - retired_);
    const double later = left / double(std::max<uint64_t>(1, retired_ - retired_at_half_));
    const double whole = double(blocks_) / double(retired_);
    const auto scale = [](uint64_t& value, double by) {
        value = uint64_t(double(value) * by + 0.5);
    };
    const auto extend = [later](uint64_t& value, uint64_t at_half) {
        value += uint64_t(double(value - at_half) * later + 0.5);
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
