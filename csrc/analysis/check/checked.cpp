// Runs a program with the checker as its observer.
#include "analysis/check/state.hpp"
#include "errors.hpp"
#include "sim/run/worker.hpp"

namespace coalesce::analysis {

Checked run_checked(const sim::Program& program, sim::GridRun launch, sim::AddressSpace& memory,
                    const CheckSettings& settings) {
    launch.workers = 1;
    CheckObserver observer(program, launch, memory, settings);
    CheckObserver* const observers[] = {&observer};
    try {
        sim::run_grid<CheckObserver>(program, launch, memory, observers);
        observer.lost_memory();
        observer.note_coverage();
    } catch (const Deadlock& e) {
        observer.stopped(e, e.of_warp ? FindingKind::warp_mask : FindingKind::barrier);
    } catch (const LaunchError& e) {
        observer.stopped(e, FindingKind::stopped);
    }
    Checked checked{observer.findings().finish(), observer.findings().left_out(),
                    observer.first_fault(), observer.called(),
                    settings.wants_touched ? observer.touched() : Touched{}};
    for (Finding& note : observer.notes().finish()) checked.findings.push_back(std::move(note));
    return checked;
}

}  // namespace coalesce::analysis
