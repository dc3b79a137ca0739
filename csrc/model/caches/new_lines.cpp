#include "model/caches/new_lines.hpp"

#include <algorithm>

namespace coalesce::model {

namespace {

// The counts for sets in which no line is requested twice.
class EvictedInOrder {
  public:
    explicit EvictedInOrder(const L2Cache& l2)
        : l2_(l2), stored_later_(l2.partitions() * l2.sets()) {}

    // Adds a request. The last request must be added first. The first requests, before any line is
    // modified, cannot cause a write to DRAM. For these, `modifies` is false.
    void add(const L2Request& r, bool modifies) {
        const uint64_t sectors = sectors_in(r.sectors);
        const uint32_t home = l2_.home_of(r.line), near = l2_.partition_of(r.from);
        const uint64_t passes = near == home ? 1 : 2;
        if (r.kind != Traffic::Kind::write)
            counts_.dram_read_bytes += sector_bytes * sectors_in(half_lines(r.sectors));
        switch (r.kind) {
            case Traffic::Kind::read:
                counts_.l2_reads += sectors;
                counts_.l2_lookups += passes * sectors;
                if (!modifies) return;
                store(home, r.line, 0);
                if (near != home) store(near, r.line, 0);
                break;
            case Traffic::Kind::write:
                counts_.l2_writes += sectors;
                counts_.l2_partial_writes += sectors_in(r.sectors & ~r.whole);
                counts_.l2_lookups += passes * sectors;
                counts_.l2_hits += passes * sectors;
                store(home, r.line, sectors);
                break;
            case Traffic::Kind::atomic:  // a read and a write, both in the home partition
                counts_.l2_lookups += 2 * sectors;
                counts_.l2_hits += sectors;
                store(home, r.line, sectors);
                break;
        }
    }
    [[nodiscard]] const CacheCounts& counts() const { return counts_; }

  private:
    void store(uint32_t partition, uint64_t line, uint64_t modified_sectors) {
        uint8_t& later = stored_later_[partition * l2_.sets() + l2_.set_of(line)];
        if (later == L2Cache::ways)
            counts_.dram_written_bytes += sector_bytes * modified_sectors;
        else
            ++later;
    }

    const L2Cache& l2_;
    // For each set of each partition: how many lines are stored after the request that is added,
    // but at most L2Cache::ways.
    std::vector<uint8_t> stored_later_;
    CacheCounts counts_;
};

}  // namespace

CacheCounts NewLines::counts() const {
    L2Cache l2(gpu_, sample_);
    std::vector<uint8_t> is_modelled(l2.sets());
    for (const uint64_t line : rewritten_) is_modelled[l2.set_of(line)] = true;
    for (const L2Request& r : requests_)
        if (is_modelled[l2.set_of(r.line)]) l2.handle(r.kind, r.access(), r.from);
    EvictedInOrder others(l2);
    const auto first_write = std::ranges::find_if(
        requests_, [](const L2Request& r) { return r.kind != Traffic::Kind::read; });
    for (auto r = requests_.end(); r != requests_.begin();)
        if (--r; !is_modelled[l2.set_of(r->line)]) others.add(*r, r >= first_write);
    CacheCounts sum = l2.counts();
    sum.add(others.counts());
    return sum;
}

}  // namespace coalesce::model
