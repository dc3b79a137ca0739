// Chooses a sample of the lines of L2, and estimates the counts of all lines from this sample.
//
// METHOD
// Modelling L2 takes long. For launches that request many lines, the models of L2 and of the
// coalescer therefore get only the requests for a part of the lines, the sample. Each of their
// counts is multiplied by a ratio: the sectors of all requests, divided by the sectors of the
// sample. Two counts do not depend on the size of L2, and are not estimated. They are the requested
// sectors, and the sectors that are read from DRAM for the first time (unlimited_cache.hpp).
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "model/caches.hpp"
#include "model/unlimited_cache.hpp"

namespace coalesce::model {

class L2Sample {
  public:
    // The sample has 1 / 2^`exponent` of the lines (L2Cache::is_in_sample).
    explicit L2Sample(uint32_t exponent) : exponent_(exponent) {}

    [[nodiscard]] bool has(uint64_t line) const { return L2Cache::is_in_sample(line, exponent_); }

    // Adds requests to the sums over all requests. Returns the number of their sectors. The caller
    // then also passes each of the requests to add_one(), in the same order.
    uint64_t add(std::span<const Traffic> requests) {
        Sectors sum;
        for (const Traffic& t : requests) sum.add(t, t.count);
        if (exponent_ != 0) all_.add(sum);
        return sum.read + sum.written + sum.atomic;
    }

    // Adds a request to the other sums: those over the sample, and the sectors that are read from
    // DRAM for the first time. `origin` is the difference between its lines and those in `traffic`.
    // Returns true if at least one of its lines belongs to the sample.
    bool add_one(const Traffic& traffic, uint64_t origin) {
        if (exponent_ == 0) return true;
        uint64_t lines = 0, line = origin + traffic.line;
        const auto add = [&] {
            const uint64_t first =
                sectors_in(unlimited_.handle(traffic.kind, line, traffic.sectors));
            all_.read_first += first;
            if (!has(line)) return;
            sampled_.read_first += first;
            ++lines;
        };
        add();
        for (uint32_t left = traffic.count - 1u; left > 0; --left) {
            line += uint64_t(int64_t{traffic.step});
            add();
        }
        if (lines == 0) return false;
        sampled_.add(traffic, lines);
        return true;
    }

    // Estimates the counts of all requests. `c` has the counts of L2 for the sample, and `merged`
    // is the number of its sectors that were merged before L2.
    [[nodiscard]] CacheCounts estimate(CacheCounts c, uint64_t merged) const {
        if (exponent_ == 0) {
            c.l2_merged = merged;
            return c;
        }
        const auto scaled = [](uint64_t value, uint64_t whole, uint64_t part) {
            return uint64_t(double(value) * double(whole) / double(std::max<uint64_t>(1, part)) +
                            0.5);
        };
        const uint64_t fetched = all_.read + all_.atomic, changed = all_.written + all_.atomic;
        const uint64_t fetched_here = sampled_.read + sampled_.atomic;
        const uint64_t changed_here = sampled_.written + sampled_.atomic;
        c.l2_merged = scaled(merged, all_.read, sampled_.read);
        c.l2_reads = all_.read - c.l2_merged;
        c.l2_writes = all_.written;
        c.l2_partial_writes = all_.partly_written;
        for (uint64_t* lookups : {&c.l2_lookups, &c.l2_hits})
            *lookups = scaled(*lookups, fetched + changed, fetched_here + changed_here);
        const uint64_t first = sector_bytes * sampled_.read_first;
        c.dram_read_bytes =
            sector_bytes * all_.read_first +
            scaled(c.dram_read_bytes - std::min(c.dram_read_bytes, first), fetched, fetched_here);
        c.dram_written_bytes = scaled(c.dram_written_bytes, changed, changed_here);
        return c;
    }

  private:
    // The numbers of requested sectors. `read_first` are those that were read from DRAM for the
    // first time, including the other sectors of their half lines.
    struct Sectors {
        uint64_t read = 0, written = 0, partly_written = 0, atomic = 0, read_first = 0;

        // Adds the sectors of `lines` lines of a request.
        void add(const Traffic& t, uint64_t lines) {
            const uint64_t sectors = lines * sectors_in(t.sectors);
            switch (t.kind) {
                case Traffic::Kind::read:
                    read += sectors;
                    break;
                case Traffic::Kind::write:
                    written += sectors;
                    partly_written += lines * sectors_in(t.sectors & ~uint32_t{t.whole});
                    break;
                case Traffic::Kind::atomic:
                    atomic += sectors;
                    break;
            }
        }
        void add(const Sectors& other) {
            read += other.read;
            written += other.written;
            partly_written += other.partly_written;
            atomic += other.atomic;
            read_first += other.read_first;
        }
    };

    const uint32_t exponent_;
    Sectors all_, sampled_;  // sums over all requests, and over those for lines of the sample
    UnlimitedCache unlimited_;
};

}  // namespace coalesce::model
