// The list of what observes a counted launch, in the combinations that are compiled.
//
// To add an observer: write its file, add a member to Observation and a combination below.
#pragma once

#include "analysis/cache_replay.hpp"
#include "analysis/contention.hpp"
#include "analysis/count_observer.hpp"
#include "analysis/trace.hpp"
#include "sim/observer.hpp"

namespace coalesce::analysis {

// In each list an observer stands behind those it asks: CacheObserver asks CountObserver.
using Counting = sim::Observers<CountObserver, ContentionObserver>;
using Tracing = sim::Observers<CountObserver, ContentionObserver, TraceObserver>;
using Replaying = sim::Observers<CountObserver, ContentionObserver, CacheObserver>;
using Profiling = sim::Observers<CountObserver, ContentionObserver, CacheObserver, TraceObserver,
                                 FirstEventObserver>;
using Sampling =
    sim::Observers<CountObserver, ContentionObserver, TraceObserver, FirstEventObserver>;

}  // namespace coalesce::analysis
