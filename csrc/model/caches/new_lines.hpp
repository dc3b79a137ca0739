// Counts what L2 does as long as no line is read after another request for it.
//
// METHOD
// Many kernels read each line only once, for example to copy an array, or to add up its elements.
// Then L2 never has what a read needs, and no read is merged with another one. So the counts of L2
// can be computed without a model of its contents, which takes long. Only one count depends on the
// contents: the sectors written to DRAM, because a line with modified sectors is evicted. If no
// line of a set is used again, the least recently used line of the set is the one that was stored
// first. So a line is evicted if later as many lines are stored in its set as the set has ways. If
// a line of a set is written again, the requests for the lines of this set are passed to a model of
// L2.
//
// Nobody knows in advance whether a line will be read again. Therefore the requests are kept. If a
// line is read again, the caller takes all of them back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "model/caches/caches.hpp"
#include "model/caches/kept_memory.hpp"

namespace coalesce::model {

class NewLines {
  public:
    // The parameters are those of L2Cache.
    NewLines(const Gpu& gpu, uint32_t sample) : gpu_(gpu), sample_(sample) {
        requests_.reserve(most);
    }

    // Adds a request. If there was an earlier request for its line, this one must be a write.
    void add(const L2Request& request) {
        requests_.push_back(request);
        if (request.repeats) rewritten_.push_back(request.line);
    }
    // Call this after the requests of each slice (BlockSchedule::Slice).
    void end_slice(double start) { slices_.push_back({start, requests_.size()}); }

    // Returns true if so many requests are kept that no further ones should be added.
    [[nodiscard]] bool is_full() const { return requests_.size() >= most; }
    // Returns the counts of L2 for all requests that were added.
    [[nodiscard]] CacheCounts counts() const;

    // Calls handle(start, requests) for each slice. Afterwards no request is kept.
    template <class Handle>
    void take_back(Handle&& handle) {
        const L2Request* next = requests_.data();
        for (const Slice& s : slices_) {
            const L2Request* const end = requests_.data() + s.end;
            handle(s.start, std::span(std::exchange(next, end), end));
        }
        requests_.clear();
        slices_.clear();
        rewritten_.clear();
    }

  private:
    // The requests of larger launches are not kept. This number of requests takes 1.5 MB.
    static constexpr size_t most = size_t{1} << 16;

    struct Slice {
        double start;
        size_t end;  // the number of requests of this and all earlier slices
    };
    const Gpu& gpu_;
    const uint32_t sample_;
    std::vector<L2Request, KeptPages<L2Request>> requests_;
    std::vector<uint64_t> rewritten_;  // the lines that were requested before, and then written
    std::vector<Slice> slices_;
};

}  // namespace coalesce::model
