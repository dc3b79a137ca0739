// The simulator compiled for the checker: once, since its own work is what takes the time. The
// operations are those of the best instruction set.
#include "analysis/check_state.hpp"
#include "analysis/engines.hpp"
#include "errors.hpp"
#include "sim/engine_impl.hpp"

namespace coalesce::analysis {

const sim::Engine& checking_engine() {
    static const sim::Engine engine = [] {
        sim::Engine e = sim::COALESCE_ISA::make_engine<CheckObserver>();
        e.ops = silent_engine().ops;
        return e;
    }();
    return engine;
}

Checked run_checked(const sim::Program& program, sim::Launch launch, sim::AddressSpace& memory,
                    const std::map<std::string, ArrayShape>& shared) {
    launch.workers = 1;
    CheckObserver observer(program, launch, memory, shared);
    void* const observers[] = {&observer};
    try {
        checking_engine().run(program, launch, memory, observers);
    } catch (const Deadlock& e) {
        observer.stopped(e.what(), e.of_warp ? FindingKind::warp_mask : FindingKind::barrier);
    } catch (const LaunchError& e) {
        observer.stopped(e.what(), FindingKind::stopped);
    }
    return {observer.findings().finish(), observer.findings().left_out()};
}

}  // namespace coalesce::analysis
