#include "analysis/caches/l1_replay.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include "model/atomics.hpp"
#include "model/coalescing.hpp"

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

}  // namespace

// In a round of the replay, each warp replays one request. If the kernel has no barriers, each warp
// first waits for fewer than 64 rounds. The number is pseudo-random and depends only on the variant
// and the warp, so every run is the same. The limit of 64 was fitted to the kernels naive_2d and
// untiled on an H200. With this limit, the model merges about as many reads of the matrix `a` as
// the H200 does (model/request_coalescer.hpp).
uint32_t idle_rounds(uint32_t variant, uint32_t warp) {
    constexpr uint64_t most = 64;
    return uint32_t(scramble(uint64_t{variant} * 64 + warp + 1) * most >> 32);
}

// Returns the address by which a regular load is found among the remembered loads. Usually this is
// the address of its first lane. If the lanes access the same sectors in every line, the result is
// the start of the first line. The offset in the line is not needed then, because the accessed
// sectors are compared, too.
inline uint64_t L1Replay::start_of(const MemoryRequest& r) {
    const bool other = r.form == uint32_t(RequestForm::other);
    return r.first & ~uint64_t(other ? 0 : model::line_bytes - 1);
}

void Misses::add(const Misses& other) {
    requests += other.requests;
    missed += other.missed;
    lines += other.lines;
    read += other.read;
    slow += other.slow;
    cycles += other.cycles;
}

std::vector<MissesOf> with_requests(const std::vector<Misses>& misses) {
    std::vector<MissesOf> found;
    for (uint32_t pc = 0; pc < misses.size(); ++pc)
        if (misses[pc].requests) found.push_back({pc, misses[pc]});
    return found;
}

// L1 merges some partial writes before they go to L2. A partial write may be merged if the same
// warp was the last writer of the sector. The exact rule is not known: in recorded kernels, a GPU
// merges between 0 and 83 % of such writes. The model merges 70 % of them. Writes of different
// warps are not merged (`transpose/naive_read`).
class L1Replay::PartialWrites {
  public:
    // Returns the sectors that must be sent to L2.
    uint8_t left_of(const LineAccess& a) {
        const uint8_t parts = a.sectors & ~a.whole;
        if (!parts) return a.sectors;
        if (LineAccess* const last = find(a.line)) {
            const bool separate = ++writes_ % 10 < 3;
            const uint8_t merged = separate ? 0 : uint8_t(parts & last->sectors);
            last->sectors |= parts;
            return uint8_t(a.sectors & ~merged);
        }
        if (lines_.size() < most) {
            lines_.reserve(most);
            lines_.push_back({a.line, parts, 0});
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

  private:
    static constexpr size_t most = sim::warp_size;  // the largest number of lines of one request

    // Returns the entry of the line, or null. Requests often write the same lines in the same
    // order. So the search tries first the entry after the one that was found last.
    LineAccess* find(uint64_t line) {
        const uint32_t hash = hash_of(line);
        if (!(known_[hash / 64] >> hash % 64 & 1)) return nullptr;
        if (next_ >= lines_.size() || lines_[next_].line != line) {
            next_ = 0;
            while (next_ < lines_.size() && lines_[next_].line != line) ++next_;
            if (next_ == lines_.size()) return nullptr;
        }
        return &lines_[next_++];
    }
    void mark(uint64_t line) { known_[hash_of(line) / 64] |= uint64_t{1} << hash_of(line) % 64; }
    static uint32_t hash_of(uint64_t line) { return uint32_t((line * 0x9e3779b97f4a7c15) >> 56); }

    std::vector<LineAccess> lines_;
    size_t next_ = 0;  // the entry after the one that was found last
    size_t oldest_ = 0;
    uint32_t writes_ = 0;
    std::array<uint64_t, 4> known_{};  // a bit for each hash that a line in `lines_` may have
};

L1Replay::L1Replay(const RecordedBlock& block, ReplayMemory& memory,
                   const std::vector<CacheSite>& sites, model::AtomicUnits* atomics,
                   const std::vector<uint64_t>& origins, uint32_t variant, bool has_barriers)
    : block_(block),
      memory_(memory),
      cache_(memory_.l1),
      sites_(sites),
      misses_(sites.size()),
      atomics_(atomics),
      origins_(origins),
      lines_of_(block, sites, shifts_of(origins.size(), variant)),
      variant_(variant),
      has_barriers_(has_barriers),
      keeps_a_request_(cache_.lines().lines() >= 8 * sim::warp_size),
      unwritten_(block.requests.size()),
      recent_(block.requests.size(), memory_.patterns.data()) {
    cache_.clear();
    result_.traffic.reserve(memory_.traffic);
}

L1Replay::~L1Replay() = default;

L1Result L1Replay::run() {
    const size_t warps = block_.requests.size();
    std::vector<size_t> next(warps);
    std::vector<uint32_t> idle(warps);  // rounds that a warp waits before its first request
    if (!has_barriers_)
        for (uint32_t warp = 0; warp < warps; ++warp) idle[warp] = idle_rounds(variant_, warp);
    for (bool any = true; any;) {
        any = false;
        for (uint32_t warp = 0; warp < warps; ++warp) {
            const std::vector<MemoryRequest>& own = block_.requests[warp];
            if (next[warp] == own.size()) continue;
            any = true;
            if (idle[warp] && idle[warp]--) continue;
            const MemoryRequest* const request = &own[next[warp]++];
            // The requests of different warps are stored far apart in the host's memory.
            __builtin_prefetch(request + requests_ahead);
            const MemoryRequest r = lines_of_.shifted(*request);
            if (r.pc == MemoryRequest::pause)
                result_.cycles += uint32_t(r.first);
            else if (!replay_simple(r))
                replay(warp, r);
        }
    }
    memory_.traffic = result_.traffic.size();
    result_.counts = cache_.counts();
    return {std::make_shared<const ReplayedBlock>(std::move(result_)), lines_of_.shifts(),
            with_requests(misses_)};
}

// Replays the simple requests, and returns false for all others. The simple ones are a load with
// AlikeLines, and a load that was replayed before and whose lines are still in L1.
inline bool L1Replay::replay_simple(const MemoryRequest& r) {
    if (last_lines_ && r.first == last_.first && r.stride == last_.stride && r.pc == last_.pc &&
        !r.scattered) {
        cache_.load_again(last_sectors_);
        ++misses_[r.pc].requests;
        misses_[r.pc].cycles += last_cycles_;
        result_.cycles += last_lines_;
        return true;
    }
    const CacheSite site = sites_[r.pc];
    if (r.scattered || site.local || site.effect != Effect::load) return false;
    const AlikeLines alike = alike_lines(r, site.bytes);
    const uint64_t first = start_of(r);
    Pattern& p = pattern_of(first, r.stride);
    // With `&` instead of `&&`, the compiler needs only one branch.
    const bool known = (p.first == first) & (p.stride == r.stride) & (p.bytes == site.bytes) &
                       !(alike.first.sectors & ~p.sectors) & cache_.lines().is_intact(p.lines);
    if (!known && !(alike.count && find(r, alike, p))) {
        if (alike.count) load(r, alike, p);
        return alike.count != 0;
    }
    use(r, p, alike.count ? p.lines.count * model::sectors_in(alike.first.sectors) : p.loaded);
    return true;
}

// Replays a load of `sectors` sectors, all of which L1 has in the lines of the pattern.
inline void L1Replay::use(const MemoryRequest& r, Pattern& p, uint64_t sectors) {
    last_sectors_ = sectors;
    cache_.load_again(p.lines, last_sectors_);
    const uint32_t lines = p.lines.count;
    last_ = r;
    last_lines_ = keeps_a_request_ ? lines : 0;
    last_cycles_ = p.cycles;
    ++misses_[r.pc].requests;
    misses_[r.pc].cycles += p.cycles;
    result_.cycles += lines;
    result_.lines += lines;
}

// Looks for the lines of a load at the places in L1 where they were found last. Returns true if L1
// still has all sectors that the load reads.
bool L1Replay::find(const MemoryRequest& r, const AlikeLines& alike, Pattern& p) {
    const uint8_t sectors =
        cache_.lines().find(p.lines, alike.first.line, alike.step, uint32_t(alike.count));
    if (!sectors) return false;
    p.first = start_of(r);
    p.stride = r.stride;
    p.bytes = sites_[r.pc].bytes;
    p.sectors = sectors;
    p.cycles = uint32_t(alike.count);
    return !(alike.first.sectors & ~sectors);
}

// The same for a load whose lines are not alike: each lane reads one sector of another line. If
// this load was not remembered, most of its lines are where the warp has found those of its last
// load.
bool L1Replay::find(const MemoryRequest& r, const Pattern& recent, Pattern& p) {
    if (p.first != start_of(r) || p.stride != r.stride) {
        cache_.lines().open(p.lines);
        std::ranges::copy(recent.lines.places, p.lines.places);
    }
    const CacheSite site = sites_[r.pc];
    if (std::abs(r.stride) < int32_t(model::line_bytes) || site.bytes > model::sector_bytes)
        return false;
    const auto word_of = [&](uint64_t lane) {
        const uint64_t address = r.first + uint64_t(int64_t(lane) * r.stride);
        return address / model::line_bytes << 8 | 1u << (address / model::sector_bytes % 4);
    };
    if (!cache_.lines().find(p.lines, sim::warp_size, word_of)) return false;
    p.first = start_of(r);
    p.stride = r.stride;
    p.bytes = site.bytes;
    p.sectors = 0;
    p.cycles = 0;
    p.loaded = sim::warp_size;
    return true;
}

// Adds an atomic, with its real addresses.
void L1Replay::add_atomic(const MemoryRequest& r) {
    uint64_t addresses[sim::warp_size];
    const sim::LaneMask mask = r.scattered ? sim::LaneMask(r.stride) : sim::all_lanes;
    const uint64_t* next = r.scattered ? &block_.addresses[r.first] : nullptr;
    sim::for_each_lane(mask, [&](int lane) {
        const uint64_t shift = r.scattered ? 0 : lines_of_.shifts()[r.first >> region_bits];
        const uint64_t relative =
            r.scattered ? *next++ : r.first + uint64_t(int64_t(lane) * r.stride) - shift;
        addresses[lane] = relative + origins_[relative >> region_bits];
    });
    atomics_->add(mask, sites_[r.pc].adds_floats, [&](int lane) { return addresses[lane]; });
}

// Replays a load, and remembers it in `p`.
void L1Replay::load(const MemoryRequest& r, const AlikeLines& alike, Pattern& p) {
    model::SectoredCache& lines = cache_.lines();
    lines.open(p.lines);
    const uint64_t state = lines.state();
    uint64_t missed = 0;
    LineAccess a = alike.first;
    for (int i = 0; i < alike.count; ++i, a.line += alike.step) {
        const uint8_t sectors = cache_.load(a, p.lines.places[i]);
        if (sectors) send(a, Traffic::Kind::read, sectors, r.pc, missed++);
    }
    const auto count = uint32_t(alike.count);
    last_ = r;
    last_lines_ = keeps_a_request_ ? count : 0;
    last_cycles_ = count;
    last_sectors_ = count * model::sectors_in(alike.first.sectors);
    remember(r, alike.first.sectors, p, count, state);
    add(r, count, missed);
}

// Sends a request for sectors of a line to L2. `before` is how many requests of the same
// instruction were sent before.
inline void L1Replay::send(const LineAccess& a, Traffic::Kind kind, uint8_t sectors, uint32_t pc,
                           uint64_t before) {
    if (before && result_.traffic.back().extend({.line = a.line,
                                                 .time = result_.cycles,
                                                 .pc = pc,
                                                 .kind = kind,
                                                 .sectors = sectors,
                                                 .whole = a.whole}))
        return;
    append(a, kind, sectors, pc);
}

inline Traffic& L1Replay::append(const LineAccess& a, Traffic::Kind kind, uint8_t sectors,
                                 uint32_t pc) {
    // The members are written one by one to their final place. If they were written to another
    // place and then copied from there, the host would have to wait for the writes.
    Traffic& t = result_.traffic.emplace_back();
    t.line = a.line;
    t.time = result_.cycles;
    t.pc = pc;
    t.kind = kind;
    t.sectors = sectors;
    t.whole = a.whole;
    return t;
}

// Remembers the last load, whose lines are at the places of `p`. L1 had the given state before.
inline void L1Replay::remember(const MemoryRequest& r, uint8_t sectors, Pattern& p, uint32_t lines,
                               uint64_t state) {
    cache_.lines().close(p.lines, lines, state);
    p.first = start_of(r);
    p.stride = r.stride;
    p.bytes = sites_[r.pc].bytes;
    p.sectors = sectors;
    p.cycles = last_cycles_;
    p.loaded = last_sectors_;
}

// Counts the last request, of which `missed` lines were sent to L2.
inline void L1Replay::add(const MemoryRequest& r, uint32_t lines, uint64_t missed) {
    Misses& of_site = misses_[r.pc];
    ++of_site.requests;
    of_site.missed += missed != 0;
    of_site.lines += missed;
    of_site.cycles += last_cycles_;
    result_.lines_sent += missed;
    result_.cycles += std::max(1u, lines);
    result_.lines += lines;
}

void L1Replay::replay(uint32_t warp, const MemoryRequest& r) {
    const CacheSite site = sites_[r.pc];
    const bool regular_load = site.effect == Effect::load && !r.scattered && !site.local;
    const AlikeLines alike = r.scattered ? AlikeLines{} : alike_lines(r, site.bytes);
    Pattern& p = pattern_of(start_of(r), r.stride);
    if (regular_load) {
        const Pattern& recent = *std::exchange(recent_[warp], &p);
        if (find(r, recent, p)) return use(r, p, p.loaded);
    }
    LineAccess lines[sim::warp_size];
    const int n = lines_of_.of(warp, r, lines);
    cache_.lines().open(p.lines);
    p.bytes = 0;
    const uint64_t state = cache_.lines().state();
    const uint64_t loads_before = cache_.counts().l1_loads;
    uint64_t missed = 0;
    for (int i = 0; i < n; ++i) {
        Traffic::Kind kind = Traffic::Kind::read;
        uint8_t sectors = lines[i].sectors;
        switch (site.effect) {
            case Effect::load:
                sectors = cache_.load(lines[i], p.lines.places[i]);
                break;
            case Effect::bypassing_load:
                sectors = cache_.bypassing_load(lines[i]);
                break;
            case Effect::store:
                cache_.store(lines[i], p.lines.places[i]);
                kind = Traffic::Kind::write;
                sectors = unwritten_[warp].left_of(lines[i]);
                break;
            case Effect::atomic:
                cache_.atomic(lines[i]);
                kind = Traffic::Kind::atomic;
                break;
        }
        if (sectors) send(lines[i], kind, sectors, r.pc, missed++);
    }
    if (site.effect == Effect::atomic && atomics_) add_atomic(r);
    last_ = r;
    last_lines_ = regular_load && keeps_a_request_ ? uint32_t(n) : 0;
    last_cycles_ = site.local || alike.count ? uint32_t(n) : 0;
    last_sectors_ = cache_.counts().l1_loads - loads_before;
    if (regular_load) remember(r, alike.first.sectors, p, uint32_t(n), state);
    add(r, uint32_t(n), missed);
}

}  // namespace coalesce::analysis
