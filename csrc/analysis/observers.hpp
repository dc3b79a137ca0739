// The combinations of observers for counted launches. Each combination is compiled separately.
//
// To add an observer: write its file, then add a member to Observation and a combination below.
#pragma once

#include "analysis/caches/cache_replay.hpp"
#include "analysis/counts/contention.hpp"
#include "analysis/counts/count_observer.hpp"
#include "analysis/trace/trace.hpp"
#include "sim/warp/observer.hpp"

namespace coalesce::analysis {

// The order matters: an observer must come after the observers whose results it reads.
// CacheObserver reads results of CountObserver.
using Counting = sim::Observers<CountObserver, ContentionObserver>;
using Tracing =
    sim::Observers<CountObserver, ContentionObserver, TraceObserver, FirstEventObserver>;
using Replaying = sim::Observers<CountObserver, ContentionObserver, CacheObserver>;
using Profiling = sim::Observers<CountObserver, ContentionObserver, CacheObserver, TraceObserver,
                                 FirstEventObserver>;

}  // namespace coalesce::analysis
