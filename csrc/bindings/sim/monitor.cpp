// The work of the launching thread while a grid runs: printing, checking for Ctrl-C, progress.
#include "bindings/gil.hpp"
#include "bindings/sim/sim.hpp"

namespace py = pybind11;

namespace coalesce::bindings {

LaunchMonitor::LaunchMonitor(sim::GridRun& launch, py::object progress)
    : progress_(std::move(progress)), blocks_(launch.block_count()) {
    launch.print = [this](const std::string& text) {
        const std::lock_guard lock(mutex_);
        printed_.add(text);
    };
    launch.stopped = [this](const std::string& place) { stopped_at_ = place; };
    launch.poll = [this](uint64_t finished) { poll(finished); };
}

void LaunchMonitor::poll(uint64_t finished) {
    const HeldGil gil;
    flush();
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    report_progress(finished);
}

void LaunchMonitor::finish() {
    flush();
    if (!progress_.is_none()) progress_(blocks_, blocks_);
}

void LaunchMonitor::add_place(py::error_already_set& error) const {
    if (stopped_at_.empty() || !error.matches(PyExc_KeyboardInterrupt)) return;
    // Python 3.10 has no notes.
    if (py::hasattr(error.value(), "add_note")) error.value().attr("add_note")(stopped_at_);
}

void LaunchMonitor::flush() {
    std::string text;
    {
        const std::lock_guard lock(mutex_);
        text = printed_.take();
    }
    if (!text.empty()) py::print(text, py::arg("end") = "", py::arg("flush") = true);
}

void LaunchMonitor::report_progress(uint64_t finished) {
    using namespace std::chrono_literals;
    const auto now = std::chrono::steady_clock::now();
    if (progress_.is_none() || now - last_report_ < 200ms) return;
    last_report_ = now;
    progress_(finished, blocks_);
}

}  // namespace coalesce::bindings
