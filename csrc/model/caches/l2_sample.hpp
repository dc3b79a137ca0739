// Chooses a sample of the lines of L2, and estimates the counts of all lines from this sample.
//
// METHOD
// Modelling L2 takes long. For launches that request many lines, the models of L2 and of the
// coalescer therefore get only the requests for a part of the lines, the sample. Each of their
// counts is multiplied by a ratio: the sectors of all requests, divided by the sectors of the
// sample. Two counts do not depend on the size of L2, and are not estimated. They are the requested
// sectors, and the sectors that are read from DRAM for the first time (unlimited_cache.hpp). The
// latter are counted when a block has ended, because this is fast (block_sectors.hpp).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <utility>

#include "model/caches/caches.hpp"
#include "model/caches/unlimited_cache.hpp"

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

    // Adds requests, one after the other. For each line that belongs to the sample, it calls
    // sampled(traffic, line, time, repeats): `repeats` is true if there was an earlier request for
    // this line. If there is no sample and a line has been read again, `repeats` is always true,
    // because nobody needs it.
    //
    // Whether a line belongs to the sample is random, so the host could not predict a branch on it.
    // Therefore the lines are collected first, without a branch, and are handled later.
    template <class Handle>
    class Batch {
      public:
        Batch(L2Sample& sample, Handle sampled) : to_(sample), handle_(std::move(sampled)) {}

        // Adds requests, which must exist until end(). `origin` is the difference between their
        // lines and those in `traffic`.
        void add(const Traffic& traffic, uint64_t origin, uint32_t time) {
            all_.add(traffic, traffic.count);
            uint64_t line = origin + traffic.line;
            for (uint32_t left = traffic.count; left > 0; --left) {
                waiting_[count_] = {line, &traffic, time};
                count_ += L2Cache::is_in_sample(line, exponent_);
                if (count_ == waiting_.size()) [[unlikely]]
                    handle_waiting();
                line += uint64_t(int64_t{traffic.step});
            }
        }
        // Returns the number of sectors of all requests.
        uint64_t end() {
            handle_waiting();
            to_.all_.add(all_);
            return all_.read + all_.written + all_.atomic;
        }

      private:
        struct Waiting {
            uint64_t line;
            const Traffic* traffic;
            uint32_t time;
        };

        [[gnu::noinline]] void handle_waiting() {
            for (const Waiting& w : std::span(waiting_).first(count_))
                handle_(*w.traffic, w.line, w.time, to_.add_to_sample(*w.traffic, w.line));
            count_ = 0;
        }

        L2Sample& to_;
        Handle handle_;
        const uint32_t exponent_ = to_.exponent_;
        Sectors all_;
        std::array<Waiting, 64> waiting_;
        size_t count_ = 0;
    };

    // Returns true if the requests of all blocks must be passed to count_first_reads(), because the
    // sample has only a part of their lines.
    [[nodiscard]] bool counts_first_reads() const { return exponent_ != 0; }
    // Counts the sectors that are read from DRAM for the first time. Call this for all requests of
    // a block that has ended: either for each request, or for the list of their sectors. `origin`
    // is that of Batch::add().
    void count_first_reads(const Traffic& traffic, uint64_t origin) {
        for (uint32_t n = 0; n < traffic.count; ++n)
            all_.read_first += sectors_in(
                uint32_t(of_all_.handle(traffic.kind, origin + traffic.line_at(n), traffic.sectors)
                             .fetched));
    }
    void count_first_reads(const BlockSectors& sectors, uint64_t origin) {
        all_.read_first += of_all_.handle(sectors, origin);
    }

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
    // Adds a request for a line of the sample. Returns true if there was an earlier one.
    bool add_to_sample(const Traffic& traffic, uint64_t line) {
        if (exponent_ == 0 && reads_again_) return true;
        const auto [fetched, is_new] = of_sample_.handle(traffic.kind, line, traffic.sectors);
        sampled_.add(traffic, 1);
        sampled_.read_first += sectors_in(uint32_t(fetched));
        reads_again_ |= !is_new && traffic.kind != Traffic::Kind::write;
        return !is_new;
    }

    const uint32_t exponent_;
    Sectors all_, sampled_;  // sums over all requests, and over those for lines of the sample
    bool reads_again_ = false;
    UnlimitedCache of_sample_, of_all_;  // for lines of the sample, and for all lines
};

}  // namespace coalesce::model
