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

#include "model/caches.hpp"
#include "model/unlimited_cache.hpp"

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
        void add(const Sectors& other) {
            read += other.read;
            written += other.written;
            partly_written += other.partly_written;
            atomic += other.atomic;
            read_first += other.read_first;
        }
    };

  public:
    // The sample has 1 / 2^`exponent` of the lines (L2Cache::is_in_sample).
    explicit L2Sample(uint32_t exponent) : exponent_(exponent) {}

    [[nodiscard]] bool has(uint64_t line) const { return L2Cache::is_in_sample(line, exponent_); }

    // Requests that are added one after the other. Their sums are added to those of the sample only
    // by end(), so that the compiler can keep them in registers until then.
    class Batch {
      public:
        explicit Batch(L2Sample& sample) : to_(sample), reads_again_(sample.reads_again_) {}

        // Adds requests. `origin` is the difference between their lines and those in `traffic`. For
        // each of their lines that belongs to the sample, calls sampled(line, repeats): `repeats`
        // is true if there was an earlier request for this line. If there is no sample and a line
        // has been read again, `repeats` is always true, because nobody needs it.
        template <class Sampled>
        void add(const Traffic& traffic, uint64_t origin, Sampled&& sampled) {
            all_.add(traffic, traffic.count);
            uint64_t line = origin + traffic.line, lines = 0;
            for (uint32_t left = traffic.count; left > 0; --left) {
                lines += add_line(traffic, line, sampled);
                line += uint64_t(int64_t{traffic.step});
            }
            if (lines) sampled_.add(traffic, lines);
        }
        // Returns the number of sectors of all requests.
        uint64_t end() {
            to_.all_.add(all_);
            to_.sampled_.add(sampled_);
            to_.reads_again_ = reads_again_;
            return all_.read + all_.written + all_.atomic;
        }

      private:
        template <class Sampled>
        bool add_line(const Traffic& traffic, uint64_t line, Sampled&& sampled) {
            if (to_.exponent_ == 0 && reads_again_) {
                sampled(line, true);
                return true;
            }
            const auto [fetched, is_new] =
                to_.unlimited_.handle(traffic.kind, line, traffic.sectors);
            const uint64_t first = sectors_in(uint32_t(fetched));
            all_.read_first += first;
            if (!to_.has(line)) return false;
            sampled_.read_first += first;
            reads_again_ |= !is_new && traffic.kind != Traffic::Kind::write;
            sampled(line, !is_new);
            return true;
        }

        L2Sample& to_;
        Sectors all_, sampled_;
        bool reads_again_;
    };

    // Returns true if any line of the sample was read after another request for it. An atomic also
    // reads.
    [[nodiscard]] bool reads_again() const { return reads_again_; }

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
    const uint32_t exponent_;
    Sectors all_, sampled_;  // sums over all requests, and over those for lines of the sample
    bool reads_again_ = false;
    UnlimitedCache unlimited_;
};

}  // namespace coalesce::model
