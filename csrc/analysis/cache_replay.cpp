#include "analysis/cache_replay.hpp"

#include <algorithm>
#include <cstdlib>

#include "model/block_schedule.hpp"
#include "model/coalescing.hpp"
#include "model/request_coalescer.hpp"
#include "sim/launch.hpp"

namespace coalesce::analysis {

using model::Filtered;
using model::LineAccess;
using model::Traffic;
using ptx::Space;
using sim::Access;

namespace {

// Threads' local memory lies interleaved, a word of each lane of a warp in a line; far from what
// arrays have for addresses.
constexpr uint64_t local_base = uint64_t(1) << 52, local_of_warp = uint64_t(1) << 26;

bool passes_first_level(const std::string& opcode) {
    // In PTX, and in machine code.
    for (const char* how : {".volatile", ".cg", ".cv", ".relaxed", ".acquire", ".mmio",
                            ".STRONG.GPU", ".STRONG.SYS", ".BYPASS"})
        if (opcode.find(how) != std::string::npos) return true;
    return false;
}

bool is_barrier(const std::string& opcode) {
    return opcode.starts_with("BAR.") || opcode.starts_with("bar.") ||
           opcode.starts_with("barrier");
}

// Before its first request, of a warp that no barrier holds back: at random, but of its number. So
// far warps drift apart in naive_2d and untiled, judging by the reads of `a` that are merged.
uint32_t idle_rounds(uint64_t block, uint32_t warp) {
    constexpr uint64_t most = 64;
    const uint64_t x = ((block * 64 + warp + 1) * 0x9e3779b97f4a7c15) ^ 0x5851f42d4c957f2d;
    return uint32_t(((x * 0xd6e8feb86659fd93) >> 32) * most >> 32);
}

// Adds an access of `bytes` to the lines of a request; `covered` counts each sector's bytes.
void add_access(uint64_t address, uint32_t bytes, LineAccess* lines, uint8_t (*covered)[4],
                int& n) {
    const uint64_t line = address / model::line_bytes;
    int at = n - 1;  // lanes that are neighbours mostly touch one line, or follow each other
    if (n == 0 || lines[at].line != line) {
        at = n && line > lines[n - 1].line ? n : 0;
        while (at < n && lines[at].line != line) ++at;
        if (at == n) {
            lines[n] = {line, 0, 0};
            std::fill_n(covered[n++], 4, uint8_t(0));
        }
    }
    const uint32_t sector = uint32_t(address / model::sector_bytes % 4);
    lines[at].sectors |= uint8_t(1u << sector);
    covered[at][sector] =
        uint8_t(std::min<uint32_t>(model::sector_bytes, covered[at][sector] + bytes));
}

}  // namespace

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

struct CacheReplay::Machine {
    Machine(const model::Gpu& gpu, uint32_t resident)
        : schedule(gpu, resident), coalescer(gpu), second(gpu) {}

    void ask(const model::BlockSchedule::Request& r) {
        const uint32_t cluster = coalescer.cluster_of(r.multiprocessor);
        Traffic t = *r.traffic;
        if (t.kind == Traffic::Kind::read) {
            t.sectors = coalescer.missing(cluster, t.line, t.sectors, r.time);
            merged += uint64_t(std::popcount(uint8_t(r.traffic->sectors & ~t.sectors)));
            if (!t.sectors) return;
        }
        const bool from_dram = second.handle(t, cluster);
        if (t.kind == Traffic::Kind::read)
            coalescer.ask(cluster, t.line, t.sectors, r.time, from_dram);
    }

    model::BlockSchedule schedule;
    model::RequestCoalescer coalescer;
    model::SecondLevel second;
    uint64_t merged = 0;  // sectors
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
      machine_(std::make_unique<Machine>(gpu, occupancy.blocks)) {
    for (const sim::InstructionInfo& i : program.instructions) {
        Effect effect = Effect::load;
        if (i.access == Access::store) {
            effect = Effect::store;
        } else if (i.access == Access::atomic || i.access == Access::reduction) {
            effect = Effect::atomic;
        } else if (passes_first_level(i.opcode)) {
            effect = Effect::load_past;
        }
        effects_.push_back(effect);
        has_barriers_ = has_barriers_ || is_barrier(i.opcode);
    }
    first_round_ = std::min<uint64_t>(limit_, uint64_t(gpu.multiprocessors) * resident_);
}

std::unique_ptr<BlockRequests> CacheReplay::begin(const sim::Block& block) {
    const std::lock_guard lock(mutex_);
    if (block.linear >= limit_) return nullptr;
    return std::make_unique<BlockRequests>(block.warp_count);
}

void CacheReplay::end(const sim::Block& block, std::unique_ptr<BlockRequests> requests) {
    auto filtered = std::make_shared<const Filtered>(filter(block, *requests));
    requests.reset();
    const std::lock_guard lock(mutex_);
    if (block.linear >= limit_) return;
    if (block.linear < first_round_) {
        first_round_lines_ += filtered->lines;
        if (++first_round_ended_ == first_round_) decide();
        if (block.linear >= limit_) return;
    }
    waiting_.emplace(block.linear, std::move(filtered));
    advance(false);
}

// The lines of a request, in the order of its lanes; returns how many.
int CacheReplay::lines_of(const sim::Block& block, uint32_t warp, const BlockRequests& requests,
                          const BlockRequests::Request& r, LineAccess* lines) const {
    const sim::InstructionInfo& info = program_.instructions[r.pc];
    const uint32_t bytes = info.bytes;
    uint8_t covered[sim::warp_size][4];
    int n = 0;
    if (info.space == Space::local) {
        const uint64_t slot = block.linear % first_round_ * block.warp_count + warp;
        const uint64_t base = local_base + slot * local_of_warp;
        const auto add_local = [&](int lane, uint64_t address) {
            for (uint32_t word = 0; word < std::max(1u, bytes / 4) && n < sim::warp_size; ++word)
                add_access(base + (address / 4 + word) * model::line_bytes + uint64_t(lane) * 4,
                           std::min(bytes, 4u), lines, covered, n);
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
                           [&](int) { add_access(*address++, bytes, lines, covered, n); });
    } else if (r.stride == 0) {
        add_access(r.first, bytes, lines, covered, n);
    } else if (std::abs(r.stride) >= int(model::line_bytes)) {  // a line a lane
        for (; n < sim::warp_size; ++n) {
            const uint64_t address = r.first + uint64_t(int64_t(n) * r.stride);
            const auto sector = uint8_t(1u << (address / model::sector_bytes % 4));
            const bool whole = bytes == model::sector_bytes;
            lines[n] = {address / model::line_bytes, sector, whole ? sector : uint8_t(0)};
        }
        return n;
    } else {
        for (int lane = 0; lane < sim::warp_size; ++lane)
            add_access(r.first + uint64_t(int64_t(lane) * r.stride), bytes, lines, covered, n);
    }
    for (int i = 0; i < n; ++i)
        for (uint32_t sector = 0; sector < 4; ++sector)
            lines[i].whole |=
                uint8_t(uint32_t(covered[i][sector] == model::sector_bytes) << sector);
    return n;
}

Filtered CacheReplay::filter(const sim::Block& block, const BlockRequests& requests) const {
    Filtered result;
    model::FirstLevel cache(share_bytes_);
    std::vector<size_t> next(requests.warps_.size());
    std::vector<uint32_t> idle(next.size());  // rounds before a warp's first request
    if (!has_barriers_)
        for (uint32_t warp = 0; warp < next.size(); ++warp)
            idle[warp] = idle_rounds(block.linear, warp);
    LineAccess lines[sim::warp_size];
    // The last request, if it was a regular load: others of the same lines follow in many kernels.
    BlockRequests::Request last{};
    uint64_t last_sectors = 0;
    uint32_t last_lines = 0;
    for (bool any = true; any;) {
        any = false;
        for (uint32_t warp = 0; warp < next.size(); ++warp) {
            const auto& own = requests.warps_[warp].requests;
            if (next[warp] == own.size()) continue;
            any = true;
            if (idle[warp] && idle[warp]--) continue;
            const BlockRequests::Request& r = own[next[warp]++];
            if (r.pc == BlockRequests::pause) {
                result.cycles += uint32_t(r.first);
                continue;
            }
            if (last_lines && r.first == last.first && r.stride == last.stride && r.pc == last.pc &&
                !r.scattered) {
                cache.load_again(last_sectors);
                result.cycles += last_lines;
                continue;
            }
            const int n = lines_of(block, warp, requests, r, lines);
            const Effect effect = effects_[r.pc];
            const uint64_t loads_before = cache.counts().l1_loads;
            for (int i = 0; i < n; ++i) {
                Traffic t{lines[i].line, result.cycles, lines[i].sectors, lines[i].whole,
                          Traffic::Kind::read};
                switch (effect) {
                    case Effect::load:
                        t.sectors = cache.load(lines[i]);
                        break;
                    case Effect::load_past:
                        t.sectors = cache.load_past(lines[i]);
                        break;
                    case Effect::store:
                        cache.store(lines[i]);
                        t.kind = Traffic::Kind::write;
                        break;
                    case Effect::atomic:
                        cache.atomic(lines[i]);
                        t.kind = Traffic::Kind::atomic;
                        break;
                }
                if (t.sectors) result.traffic.push_back(t);
            }
            // Where the lines are few they cannot have displaced each other.
            const bool repeatable = effect == Effect::load && !r.scattered &&
                                    program_.instructions[r.pc].space != Space::local &&
                                    share_bytes_ >= 8 * model::line_bytes * sim::warp_size;
            last = r;
            last_lines = repeatable ? uint32_t(n) : 0;
            last_sectors = cache.counts().l1_loads - loads_before;
            result.cycles += uint32_t(std::max(1, n));
            result.lines += uint64_t(n);
        }
    }
    result.counts = cache.counts();
    return result;
}

// The first round is complete: is there time for all of them?
void CacheReplay::decide() {
    const double of_a_block = double(first_round_lines_) / double(first_round_);
    const auto affordable = uint64_t(double(most_lines_) / std::max(1.0, of_a_block));
    const uint64_t enough = std::max(2 * first_round_, affordable);
    if (enough >= limit_ - limit_ / 5) return;
    limit_ = enough;
    waiting_.erase(waiting_.lower_bound(limit_), waiting_.end());
}

// Runs the multiprocessors as far as the blocks they need next are there.
void CacheReplay::advance(bool ended) {
    if (!ended && first_round_ended_ < first_round_) return;
    machine_->schedule.leave_out(double(blocks_ - limit_) / double(first_round_));
    while (fill(ended)) run_slice();
}

// Gives free places to the next blocks. False if one of them has not been simulated yet, or none
// is left.
bool CacheReplay::fill(bool ended) {
    // While all are full nothing is needed.
    while (next_block_ < limit_ && machine_->schedule.has_place()) {
        const auto found = waiting_.find(next_block_);
        if (found == waiting_.end()) {
            if (!ended) return false;
            ++next_block_;  // it never ended
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
    for (const auto& filtered : slice.ended) first_levels_.add(filtered->counts);
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
    c = machine_->second.counts();
    c.add(first_levels_);
    c.l2_merged = machine_->merged;
    if (retired_ == 0 || retired_ >= blocks_) return result;
    // The rest is like the second half: a rate of the second level, a share of the first.
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
