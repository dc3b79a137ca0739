#include "analysis/caches/l1_replay.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "analysis/caches/strides.hpp"

namespace coalesce::analysis {

using model::LineAccess;
using model::ReplayedBlock;
using model::Traffic;

namespace {

// Returns a pseudo-random number that depends only on x.
uint64_t scramble(uint64_t x) {
    x = (x * 0x9e3779b97f4a7c15) ^ 0x5851f42d4c957f2d;
    return (x * 0xd6e8feb86659fd93) >> 32;
}

constexpr int requests_ahead = 12;

// The place of a line in L1 depends on the address of the line. The replay uses relative addresses,
// so the place would be the same for all blocks. Therefore each variant of the replay adds another
// pseudo-random number to the relative addresses of each region. shift_of() returns this number, a
// multiple of the size of a line.
uint64_t shift_of(uint64_t region, uint32_t variant) {
    return scramble(region * RecordedBlock::variants + variant) % (1 << 20) * model::line_bytes;
}

std::vector<uint64_t> shifts_of(size_t regions, uint32_t variant) {
    std::vector<uint64_t> shifts;
    for (uint64_t region = 0; region < regions; ++region)
        shifts.push_back(shift_of(region, variant));
    return shifts;
}

// In a round of the replay, each warp replays one request. If the kernel has no barriers, each warp
// first waits for fewer than 64 rounds. The number is pseudo-random and depends only on the variant
// and the warp, so every run is the same. The limit of 64 was fitted to the kernels naive_2d and
// untiled on an H200. With this limit, the model merges about as many reads of the matrix `a` as
// the H200 does (model/request_coalescer.hpp).
uint32_t idle_rounds(uint32_t variant, uint32_t warp) {
    constexpr uint64_t most = 64;
    return uint32_t(scramble(uint64_t{variant} * 64 + warp + 1) * most >> 32);
}

// Returns those of the elements that have requests. `misses` has an element for each instruction.
std::vector<MissesOf> with_requests(const std::vector<Misses>& misses) {
    std::vector<MissesOf> found;
    for (uint32_t pc = 0; pc < misses.size(); ++pc)
        if (misses[pc].requests) found.push_back({pc, misses[pc]});
    return found;
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

void ApartLoad::start(const MemoryRequest& r) {
    first = r.first;
    stride = r.stride;
    std::array<uint8_t, sim::warp_size> of_lane;
    for (int lane = 0; lane < sim::warp_size; ++lane)
        of_lane[size_t(lane)] =
            uint8_t((uint32_t(first) + uint32_t(lane) * uint32_t(stride)) % model::sector_bytes);
    std::memcpy(in_sector.data(), of_lane.data(), sizeof in_sector);
}

// Adds `distance`, which is between -32 and 32, to all addresses. Returns the lanes that then
// access another sector than before. The 32 lanes are computed as the bytes of four numbers.
sim::LaneMask ApartLoad::move(int distance) {
    constexpr uint64_t ones = 0x0101010101010101;
    static_assert(model::sector_bytes == 32);
    first += uint64_t(int64_t{distance});
    sim::LaneMask moved = 0;
    for (size_t n = 0; n < in_sector.size(); ++n) {
        const uint64_t sum = in_sector[n] + uint64_t(distance + 32) * ones;
        in_sector[n] = sum & 31 * ones;
        const uint64_t other = (sum ^ 32 * ones) & 96 * ones;  // the bits 5 and 6 were 1 and 0
        // The multiplication collects the lowest bits of all bytes in the highest byte.
        const uint64_t lowest = (other >> 5 | other >> 6) & ones;
        moved |= sim::LaneMask(lowest * 0x0102040810204080 >> 56) << 8 * n;
    }
    return moved;
}

uint8_t PartialWrites::left_of(const LineAccess& a) {
    const uint8_t parts = a.sectors & ~a.whole;
    if (!parts) return a.sectors;
    if (LineAccess* const last = find(a.line)) {
        const bool separate = ++writes_ % 10 < 3;
        const uint8_t merged = separate ? 0 : uint8_t(parts & last->sectors);
        last->sectors |= parts;
        return uint8_t(a.sectors & ~merged);
    }
    if (count_ < most) {
        lines_[count_++] = {a.line, parts, 0};
    } else {
        lines_[oldest_++ % most] = {a.line, parts, 0};
        if (oldest_ % most == 0) {
            known_ = {};
            for (const LineAccess& each : lines_) mark(each.line);
        }
    }
    mark(a.line);
    return a.sectors;
}

// Returns the entry of the line, or null. Requests often write the same lines in the same order. So
// the search tries first the entry after the one that was found last.
LineAccess* PartialWrites::find(uint64_t line) {
    const uint32_t hash = hash_of(line);
    if (!(known_[hash / 64] >> hash % 64 & 1)) return nullptr;
    if (next_ >= count_ || lines_[next_].line != line) {
        next_ = 0;
        while (next_ < count_ && lines_[next_].line != line) ++next_;
        if (next_ == count_) return nullptr;
    }
    return &lines_[next_++];
}

L1Replay::L1Replay(const RecordedBlock& block, ReplayMemory& memory,
                   const std::vector<CacheSite>& sites, size_t regions, uint32_t variant,
                   bool has_barriers)
    : block_(block),
      memory_(memory),
      l1_(memory_.l1),
      sites_(sites),
      misses_(sites.size()),
      shifts_(shifts_of(regions, variant)),
      variant_(variant),
      has_barriers_(has_barriers) {
    l1_.clear();
    memory_.unwritten.assign(block.requests.size(), {});
    memory_.apart.assign(strides * block.requests.size(), {});
    result_.traffic.reserve(memory_.traffic);
}

L1Result L1Replay::run() {
    const size_t warps = block_.requests.size();
    struct Turn {
        const MemoryRequest *next, *end;
        uint32_t idle;  // rounds that the warp waits before its first request
    };
    std::vector<Turn> turns;
    for (uint32_t warp = 0; warp < warps; ++warp) {
        const std::vector<MemoryRequest>& own = block_.requests[warp];
        turns.push_back(
            {own.data(), own.data() + own.size(), has_barriers_ ? 0 : idle_rounds(variant_, warp)});
    }
    for (bool any = true; any;) {
        any = false;
        for (uint32_t warp = 0; warp < warps; ++warp) {
            Turn& turn = turns[warp];
            if (turn.next == turn.end) continue;
            any = true;
            if (turn.idle && turn.idle--) continue;
            const MemoryRequest* const request = turn.next++;
            // The requests of different warps are stored far apart in the host's memory.
            __builtin_prefetch(request + requests_ahead);
            replay(warp, *request);
        }
    }
    memory_.traffic = result_.traffic.size();
    result_.counts.l1_load_hits = result_.counts.l1_loads - fetched_;
    for (const Misses& m : misses_) result_.lines_sent += m.lines;
    return {std::make_shared<const ReplayedBlock>(std::move(result_)), shifts_,
            with_requests(misses_)};
}

inline void L1Replay::replay(uint32_t warp, const MemoryRequest& recorded) {
    MemoryRequest r = recorded;
    if (r.kind == MemoryRequest::pause) {
        result_.cycles += uint32_t(r.first);
        return;
    }
    missed_ = 0;
    const bool part = r.kind == MemoryRequest::apart && r.last_lane != sim::warp_size - 1;
    if (r.kind == MemoryRequest::lines || part || sites_[r.pc].effect != Effect::load)
        return replay_other(warp, r);
    r.first += shifts_[r.first >> model::region_bits];
    if (r.kind == MemoryRequest::dense)
        load_dense(r, sites_[r.pc].bytes);
    else
        load_apart(warp, r);
}

// Replays a request that is not a dense load, or an apart load of a full warp. It is a function of
// its own, so that the compiler optimizes the others.
[[gnu::noinline]] void L1Replay::replay_other(uint32_t warp, MemoryRequest r) {
    const CacheSite site = sites_[r.pc];
    if (r.kind == MemoryRequest::lines) {
        const RecordedLine* const lines = &block_.lines[r.first];
        replay_parts(warp, r.pc, uint32_t(r.stride), [&](uint32_t n) -> Part {
            const uint64_t relative = lines[n].line * model::line_bytes;
            const uint64_t address = relative + shifts_[relative >> model::region_bits];
            return {
                {address / model::line_bytes, uint8_t(lines[n].sectors), uint8_t(lines[n].whole)},
                address};
        });
        return;
    }
    r.first += shifts_[r.first >> model::region_bits];
    if (r.kind == MemoryRequest::apart) {
        replay_parts(warp, r.pc, r.last_lane + 1, [&](uint32_t n) {
            const uint64_t address = r.first + uint64_t(int64_t{r.stride} * n);
            return sector_at(address, site.bytes == model::sector_bytes);
        });
        return;
    }
    const uint64_t end = r.first + uint64_t(r.stride) * r.last_lane + site.bytes;
    const uint64_t first_sector = r.first / model::sector_bytes;
    const uint64_t end_sector = (end - 1) / model::sector_bytes + 1;
    // Every byte of a sector is accessed if there are no gaps between the lanes, and the range
    // neither begins nor ends in the sector.
    const bool has_gaps = r.stride != int32_t(site.bytes) && site.bytes < model::sector_bytes;
    const uint64_t first_whole = (r.first + model::sector_bytes - 1) / model::sector_bytes;
    const uint64_t end_whole = has_gaps ? first_whole : end / model::sector_bytes;
    const uint64_t first_line = first_sector / 4;
    replay_parts(warp, r.pc, uint32_t((end_sector - 1) / 4 - first_line) + 1,
                 [&](uint32_t n) -> Part {
                     const uint64_t line = first_line + n;
                     return {{line, sectors_of_line(line, first_sector, end_sector),
                              sectors_of_line(line, first_whole, std::max(end_whole, line * 4))},
                             line * model::line_bytes};
                 });
}

// Replays a load whose lanes touch all sectors of a range of addresses.
inline void L1Replay::load_dense(const MemoryRequest& r, uint32_t bytes) {
    const uint64_t last = r.first + uint64_t(r.stride) * r.last_lane + bytes - 1;
    const uint64_t begin = r.first / model::sector_bytes, after = last / model::sector_bytes + 1;
    const uint64_t first_line = begin / 4, last_line = (after - 1) / 4;
    for (uint64_t line = first_line; line <= last_line; ++line)
        load(r.pc, {{line, sectors_of_line(line, begin, after), 0}, line * model::line_bytes});
    end(r.pc, uint32_t(last_line - first_line) + 1, after - begin);
}

// Replays a load in which each lane accesses a line of its own.
void L1Replay::load_apart(uint32_t warp, const MemoryRequest& r) {
    const uint32_t hash = uint32_t(r.stride) * 0x9e3779b1u >> 16;
    ApartLoad& last = memory_.apart[warp * strides + hash % strides];
    const auto distance = int64_t(r.first - last.first);
    constexpr auto most = int64_t{model::sector_bytes};
    sim::LaneMask moved = sim::all_lanes;
    if (last.stride == r.stride && distance >= -most && distance <= most &&
        l1_.has_kept(last.before))
        moved = last.move(int(distance));
    else
        last.start(r);
    const auto load = [&](int lane) {
        const Part part = sector_at(r.first + uint64_t(lane * int64_t{r.stride}), false);
        model::L1Cache::Place& place = last.places[size_t(lane)];
        if (!l1_.is_at(place, part.line)) {
            place = l1_.find(part.line).place;
            l1_.use_at(place, l1_.now() + uint64_t(lane) + 1);
        }
        if (l1_.fetch(place, part.sectors)) send(part, part.sectors, Traffic::Kind::read, r.pc);
    };
    const uint64_t before = std::exchange(last.before, l1_.now());
    sim::for_each_lane(moved, load);
    // If L1 is tiny, the loads so far may have replaced a line of another lane.
    if (!l1_.has_kept(before)) [[unlikely]]
        sim::for_each_lane(~moved, load);
    l1_.use(last.places);
    end(r.pc, sim::warp_size, sim::warp_size);
}

// Returns the access to the sector that contains the address.
inline L1Replay::Part L1Replay::sector_at(uint64_t address, bool whole) {
    const auto sector = uint8_t(1u << address / model::sector_bytes % 4);
    return {{address / model::line_bytes, sector, whole ? sector : uint8_t{0}}, address};
}

// Replays a request of any kind. part_at(n) returns its part in its nth line.
template <class PartAt>
inline void L1Replay::replay_parts(uint32_t warp, uint32_t pc, uint32_t count, PartAt&& part_at) {
    uint64_t loaded = 0;
    switch (sites_[pc].effect) {
        case Effect::load:
            for (uint32_t n = 0; n < count; ++n) {
                const Part a = part_at(n);
                loaded += model::sectors_in(a.sectors);
                load(pc, a);
            }
            break;
        case Effect::bypassing_load:
            for (uint32_t n = 0; n < count; ++n) {
                const Part a = part_at(n);
                loaded += model::sectors_in(a.sectors);
                send(a, a.sectors, Traffic::Kind::read, pc);
            }
            break;
        case Effect::store:
            for (uint32_t n = 0; n < count; ++n) store(memory_.unwritten[warp], pc, part_at(n));
            break;
        case Effect::atomic:
            for (uint32_t n = 0; n < count; ++n) {
                const Part a = part_at(n);
                l1_.drop(a.line, a.sectors);
                send(a, a.sectors, Traffic::Kind::atomic, pc);
            }
            break;
    }
    end(pc, count, loaded);
}

inline void L1Replay::load(uint32_t pc, const Part& a) {
    const model::L1Cache::Place place = l1_.find(a.line).place;
    l1_.use(place);
    const uint8_t missing = l1_.fetch(place, a.sectors);
    if (missing) send(a, missing, Traffic::Kind::read, pc);
}

inline void L1Replay::store(PartialWrites& unwritten, uint32_t pc, const Part& a) {
    const model::L1Cache::Found found = l1_.find(a.line);
    l1_.use(found.place);
    result_.counts.l1_stores += model::sectors_in(a.sectors);
    if (found.before) result_.counts.l1_store_hits += model::sectors_in(a.sectors);
    const uint8_t sectors = unwritten.left_of(a);
    if (sectors) send(a, sectors, Traffic::Kind::write, pc);
}

// Counts a request of `lines` lines, after they have been replayed. It has loaded `loaded` sectors,
// or none if it is not a load.
inline void L1Replay::end(uint32_t pc, uint32_t lines, uint64_t loaded) {
    result_.counts.l1_loads += loaded;
    Misses& of_site = misses_[pc];
    ++of_site.requests;
    if (missed_) {
        ++of_site.missed;
        of_site.lines += missed_;
    }
    result_.cycles += std::max(1u, lines);
    result_.lines += lines;
}

// Sends a request for some of the sectors of a part to L2.
inline void L1Replay::send(const Part& a, uint8_t sectors, Traffic::Kind kind, uint32_t pc) {
    if (kind == Traffic::Kind::read) fetched_ += model::sectors_in(sectors);
    const auto sector = uint32_t(a.address / model::sector_bytes % 4);
    const auto from_sector = uint8_t(sectors >> sector), whole = uint8_t(a.whole >> sector);
    if (missed_++ && result_.traffic.back().extend({.address = a.address,
                                                    .time = result_.cycles,
                                                    .pc = pc,
                                                    .kind = kind,
                                                    .sectors = from_sector,
                                                    .whole = whole}))
        return;
    // The members are written one by one to their final place. If they were written to another
    // place and then copied from there, the host would have to wait for the writes.
    Traffic& t = result_.traffic.emplace_back();
    t.address = a.address;
    t.time = result_.cycles;
    t.pc = pc;
    t.kind = kind;
    t.sectors = from_sector;
    t.whole = whole;
}

}  // namespace coalesce::analysis
