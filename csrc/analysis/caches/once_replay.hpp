// Replays a block that requests each line only once, for example because it copies an array.
//
// METHOD
// Nothing is ever found in L1, whatever its size, so L1 need not be modelled (l1_replay.hpp). Then
// the requests that an instruction sends to L2 depend neither on the other instructions nor on the
// variant of the replay. They are computed once for all variants. The variant only decides in which
// order the warps take turns. So the replay of a variant merges the requests of the warps, and
// computes their times (model/turns.hpp).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "analysis/caches/block_requests.hpp"
#include "analysis/caches/l1_replay.hpp"
#include "model/block_schedule.hpp"
#include "model/turns.hpp"

namespace coalesce::analysis {

class OnceReplay {
  public:
    // Returns null if any line is requested twice, or if there are atomics. `regions` is the number
    // of regions of relative addresses.
    [[nodiscard]] static std::shared_ptr<const OnceReplay> of(const RecordedBlock& block,
                                                              const std::vector<CacheSite>& sites,
                                                              size_t regions);

    // The result is the same as that of L1Replay::run(), except that it adds no shifts. If the
    // block is large, the requests to L2 are not merged yet (ReplayedBlock::turns).
    [[nodiscard]] L1Result run(uint32_t variant, bool has_barriers) const;

  private:
    OnceReplay() = default;

    std::shared_ptr<model::WarpTraffic> traffic_ = std::make_shared<model::WarpTraffic>();
    std::vector<MissesOf> misses_;
    model::ReplayedBlock replayed_;  // without requests to L2
};

}  // namespace coalesce::analysis
