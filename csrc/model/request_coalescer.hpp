// Models the unit between multiprocessors and L2 that merges reads. If a sector has already been
// requested and has not arrived, the unit does not send a second read of this sector to L2.
//
// METHOD
// From compute capability 9.0 on, some reads do not reach L2. A GPC (graphics processing cluster)
// has 16 to 18 multiprocessors. If one of them waits for a sector and another one reads the same
// sector, both get the same answer. Nsight Compute's Profiling Guide calls the unit L2 Request
// Coalescer (LRC). The guide says neither which multiprocessors share a unit nor how long reads can
// be merged with a request. Both were derived from an H200's counters
// (tests/data/models_h200.json): a merged read is missing in lts__t_sectors_srcunit_tex_op_read,
// but counted in l1tex__m_xbar2l1tex_read_sectors.
//
// - `access/gather` reads sectors at random. The share of merged reads shows how many sectors a GPC
//   waits for at the same time: about 1600 if L2 answers, and about 2900 if DRAM answers most
//   requests. Nine sectors arrive per cycle from L2, and four from DRAM. Dividing the number of
//   sectors by the sectors per cycle gives the waiting times: about 200 and 700 cycles. They agree
//   with the latencies of L2 and DRAM. They would not agree if only two or six multiprocessors, or
//   half a GPC, shared a unit. So the model has one unit for each GPC.
// - `matmul/coalesced` and `naive_2d` read two operands. Blocks with neighbouring numbers share one
//   of them, and only reads of this operand are merged. Therefore the model places neighbouring
//   blocks in one GPC. This is not the whole rule: in `access/offset` each block shares a sector
//   with the next block, but no read is merged.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "model/caches/kept_memory.hpp"
#include "model/gpu.hpp"

namespace coalesce::model {

class RequestCoalescer {
  public:
    explicit RequestCoalescer(const Gpu& gpu)
        : merges_(gpu.major >= 9), table_(merges_ ? 1 << 10 : 0) {
        pending_.emplace_back();
    }

    // Call this when no later request will have an earlier time than `now`.
    void advance(double now) { start_ = now; }

    // The entry of a line in the table. It is valid until the next call of mark_pending().
    struct Entry {
        uint32_t slot;
        size_t at;
    };
    [[nodiscard]] Entry entry_of(uint32_t gpc, uint64_t line) const {
        const uint32_t slot = slot_of(gpc, line);
        return {slot, merges_ ? find(slot) : 0};
    }

    // Returns the sectors of a read that are not pending, and must be requested from L2.
    [[nodiscard]] uint8_t missing(Entry entry, uint64_t line, uint8_t sectors, double now) const {
        if (!merges_) return sectors;
        const Pending& p = pending_[table_[entry.at].index];
        if (p.line != line) return sectors;
        uint8_t left = 0;
        for (uint32_t s = 0; s < 4; ++s) {
            const bool under_way = now > p.requested_at[s] - l2 && now < p.arrival_time(s);
            if ((sectors >> s & 1) && !under_way) left |= uint8_t(1u << s);
        }
        return left;
    }

    // Marks these sectors as pending. `from_dram` means that DRAM must answer the request.
    void mark_pending(Entry entry, uint64_t line, uint8_t sectors, double now, bool from_dram) {
        if (!merges_) return;
        if (table_[entry.at].slot == no_slot) {
            if (2 * pending_.size() > table_.size()) {
                clean();
                entry.at = find(entry.slot);
            }
            table_[entry.at] = {entry.slot, uint32_t(pending_.size())};
            pending_.emplace_back();
        }
        Pending& p = pending_[table_[entry.at].index];
        const bool same = p.line == line;
        for (uint32_t s = 0; s < 4; ++s) {
            const double before = same ? p.requested_at[s] : never;
            p.requested_at[s] = sectors >> s & 1 ? now : before;
        }
        p.from_dram = uint8_t((same ? p.from_dram & ~sectors : 0) | (from_dram ? sectors : 0));
        p.line = line;
        p.slot = entry.slot;
    }

    // Both functions prepare missing() and mark_pending(): they load data that these functions will
    // need into the host's own cache. Call prefetch_pending() some time after prefetch().
    void prefetch(uint32_t gpc, uint64_t line) const {
        if (merges_) __builtin_prefetch(&table_[first_of(slot_of(gpc, line))], 1);
    }
    void prefetch_pending(uint32_t gpc, uint64_t line) const {
        if (!merges_) return;
        __builtin_prefetch(&pending_[table_[first_of(slot_of(gpc, line))].index], 1);
    }

  private:
    static constexpr double l2 = 200, dram = 600;  // waiting times in cycles
    static constexpr double never = -1e30;
    // The number of slots per GPC. A slot remembers one line. There are enough slots: almost no
    // pending line is replaced by another line.
    static constexpr uint32_t slots = 1 << 14;
    static constexpr uint32_t no_slot = UINT32_MAX;

    // A line with pending sectors. For each of its sectors, `requested_at` has the time of the
    // request, and a bit of `from_dram` says whether DRAM must deliver the sector. The model does
    // not handle all requests in the order of their times. So a time in `requested_at` may be later
    // than the time of a request that is handled afterwards.
    struct Pending {
        uint64_t line = ~uint64_t(0);
        double requested_at[4] = {never, never, never, never};
        uint32_t slot = no_slot;
        uint8_t from_dram = 0;  // a bit for each sector

        // Returns the time at which a sector arrives.
        [[nodiscard]] double arrival_time(uint32_t sector) const {
            return requested_at[sector] + (from_dram >> sector & 1 ? dram : l2);
        }
        [[nodiscard]] bool has_arrived(double now) const {
            bool all = true;
            for (uint32_t s = 0; s < 4; ++s) all = all && arrival_time(s) <= now;
            return all;
        }
    };

    static uint32_t slot_of(uint32_t gpc, uint64_t line) {
        return gpc * slots + uint32_t((line * 0x9e3779b97f4a7c15) >> 50);
    }

    // Several lines have the same slot. The slot remembers which of them was requested last. Only a
    // few slots are in use at the same time, so a small hash table is enough. It has an entry for
    // each slot in use. The entry says where in `pending_` the line of the slot is.
    struct Place {
        uint32_t slot = no_slot;
        uint32_t index = 0;  // pending_[0] is for free entries, and never has a line
    };
    [[nodiscard]] size_t first_of(uint32_t slot) const {
        return (slot * uint32_t{0x9e3779b1}) >> 7 & (table_.size() - 1);
    }
    // Returns the position of a slot in the table. If the slot is not in the table, returns the
    // free position where it can be stored.
    [[nodiscard]] size_t find(uint32_t slot) const {
        size_t at = first_of(slot);
        while (table_[at].slot != slot && table_[at].slot != no_slot)
            at = (at + 1) & (table_.size() - 1);
        return at;
    }

    // Removes lines that have arrived. If many are left, doubles the table.
    void clean() {
        pending_.erase(std::remove_if(pending_.begin() + 1, pending_.end(),
                                      [this](const Pending& p) { return p.has_arrived(start_); }),
                       pending_.end());
        table_.assign(4 * pending_.size() > table_.size() ? 2 * table_.size() : table_.size(), {});
        for (uint32_t n = 1; n < pending_.size(); ++n) {
            const uint32_t slot = pending_[n].slot;
            table_[find(slot)] = {slot, n};
        }
    }

    bool merges_;
    std::vector<Place> table_;
    std::vector<Pending, KeptPages<Pending>> pending_;
    double start_ = 0;  // no later request has an earlier time
};

}  // namespace coalesce::model
