// The numbers that the models of the caches count.
#pragma once

#include <cstdint>

namespace coalesce::model {

struct CacheCounts {
    uint64_t l1_loads = 0, l1_load_hits = 0;    // sectors
    uint64_t l1_stores = 0, l1_store_hits = 0;  // sectors
    uint64_t l2_reads = 0, l2_writes = 0;       // sectors between L1 and L2
    uint64_t l2_partial_writes = 0;             // partly written sectors
    // Reads that were merged with an earlier read, because that read was still pending
    // (request_coalescer.hpp).
    uint64_t l2_merged = 0;
    uint64_t l2_lookups = 0, l2_hits = 0;  // sectors, summed over the partitions
    uint64_t dram_read_bytes = 0, dram_written_bytes = 0;

    void add(const CacheCounts& other);
    bool operator==(const CacheCounts&) const = default;
};

}  // namespace coalesce::model
