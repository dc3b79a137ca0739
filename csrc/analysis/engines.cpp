#include "analysis/engines.hpp"

#include <memory>

#include "sim/isa.hpp"

namespace coalesce::analysis {

#define COALESCE_DECLARE(isa)             \
    namespace isa {                       \
    const sim::Engine& silent_engine();   \
    const sim::Engine& counting_engine(); \
    }
COALESCE_FOR_EACH_ISA(COALESCE_DECLARE)
#undef COALESCE_DECLARE

#define COALESCE_CASE(isa) \
    case sim::Isa::isa:    \
        return isa::COALESCE_ENGINE();

const sim::Engine& silent_engine() {
#define COALESCE_ENGINE silent_engine
    switch (sim::best_isa()) { COALESCE_FOR_EACH_ISA(COALESCE_CASE) }
#undef COALESCE_ENGINE
    __builtin_unreachable();
}

const sim::Engine& counting_engine() {
#define COALESCE_ENGINE counting_engine
    switch (sim::best_isa()) { COALESCE_FOR_EACH_ISA(COALESCE_CASE) }
#undef COALESCE_ENGINE
    __builtin_unreachable();
}

void run(const sim::Program& program, const sim::Launch& launch, sim::AddressSpace& memory) {
    sim::SilentObserver observer;
    const std::vector<void*> observers(sim::worker_count(launch), &observer);
    silent_engine().run(program, launch, memory, observers.data());
}

Counts run_counted(const sim::Program& program, const sim::Launch& launch,
                   sim::AddressSpace& memory, GroupedCounts* groups, Recorder* recorder,
                   CacheReplay* caches) {
    std::vector<std::unique_ptr<CountObserver>> owned;
    std::vector<void*> observers;
    for (uint32_t n = 0; n < sim::worker_count(launch); ++n) {
        owned.push_back(std::make_unique<CountObserver>(program, groups, recorder, caches));
        observers.push_back(owned.back().get());
    }
    counting_engine().run(program, launch, memory, observers.data());
    Counts counts;
    for (const auto& o : owned) {
        o->add_to(counts);
        if (recorder) recorder->add_firsts(o->firsts());
    }
    return counts;
}

}  // namespace coalesce::analysis
