// Chooses a sample of the lines of L2, and estimates the counts of all lines from this sample.
//
// METHOD
// Modelling L2 takes long. For launches that request many lines, the models of L2 and of the
// coalescer therefore get only the requests for a part of the lines, the sample. Each of their
// counts is multiplied by a ratio: the sectors of all requests, divided by the sectors of the
// sample. Two counts do not depend on the size of L2, and are not estimated. They are the requested
// sectors, and the sectors that are read from DRAM for the first time (first_reads.hpp).
//
// EXAMPLE
// All requests are for 80,000 sectors, and those for lines of the sample are for 10,000. The model
// of L2 finds 2,500 of these: a hit rate of 25 %, so the estimate is 20,000 hits for all lines.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <utility>

#include "model/caches/first_reads.hpp"
#include "model/caches/l2_cache.hpp"
#include "model/caches/traffic.hpp"

namespace coalesce::model {

class L2Sample {
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
    };

  public:
    // The sample has 1 / 2^`exponent` of the lines (L2Cache::is_in_sample).
    explicit L2Sample(uint32_t exponent) : exponent_(exponent) {}

    [[nodiscard]] bool has(uint64_t line) const { return L2Cache::is_in_sample(line, exponent_); }

    // Adds requests, one after the other. For each request for a line that belongs to the sample,
    // it calls sampled(traffic, line access).
    //
    // Whether a line belongs to the sample is random, so the host could not predict a branch on it.
    // Therefore the lines are collected first, without a branch, and are handled later.
    template <class Handle>
    class Batch {
      public:
        Batch(L2Sample& sample, Handle sampled) : to_(sample), handle_(std::move(sampled)) {}

        // Adds requests, which must exist until end(). `origin` is the difference between their
        // addresses and those in `traffic`.
        void add(const Traffic& traffic, uint64_t origin) {
            to_.all_.add(traffic, traffic.count);
            sectors_ += traffic.count * sectors_in(traffic.sectors);
            const uint64_t first = origin + traffic.address;
            if (exponent_) to_.count_first_reads(traffic, first);
            uint64_t address = first;
            for (uint32_t left = traffic.count; left > 0; --left) {
                const LineAccess a = traffic.access_at(address);
                waiting_[count_] = {a, &traffic};
                count_ += L2Cache::is_in_sample(a.line, exponent_);
                address += uint64_t(int64_t{traffic.step});
            }
            if (count_ >= enough) [[unlikely]]
                handle_waiting();
        }
        // Returns the number of sectors of all requests.
        uint64_t end() {
            handle_waiting();
            return sectors_;
        }

      private:
        struct Waiting {
            LineAccess access;
            const Traffic* traffic;
        };

        [[gnu::noinline]] void handle_waiting() {
            for (const Waiting& w : std::span(waiting_).first(count_)) {
                to_.sampled_.add(*w.traffic, 1);
                handle_(*w.traffic, w.access);
            }
            count_ = 0;
        }

        L2Sample& to_;
        Handle handle_;
        const uint32_t exponent_ = to_.exponent_;
        uint64_t sectors_ = 0;
        static constexpr size_t enough = 64;
        std::array<Waiting, enough + Traffic::most> waiting_;
        size_t count_ = 0;
    };

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
    // Counts what the requests, of which the first has this address, read from DRAM for the first
    // time.
    void count_first_reads(const Traffic& traffic, uint64_t address) {
        const bool write = traffic.kind == Traffic::Kind::write;
        for (uint32_t left = traffic.count; left > 0; --left) {
            const LineAccess a = traffic.access_at(address);
            if (write) {
                first_reads_.write(a.line, a.sectors);
            } else {
                const uint64_t first = first_reads_.read(a.line, a.sectors);
                all_.read_first += first;
                sampled_.read_first += has(a.line) ? first : 0;
            }
            address += uint64_t(int64_t{traffic.step});
        }
    }

    const uint32_t exponent_;
    Sectors all_, sampled_;  // sums over all requests, and over those for lines of the sample
    FirstReads first_reads_;
};

}  // namespace coalesce::model
