// What the launching thread does while a grid runs: prints, looks for Ctrl-C, tells the progress.
#include <cxxabi.h>

#include <thread>

#include "bindings/sim.hpp"

namespace py = pybind11;

namespace coalesce::bindings {

namespace {

bool is_finalizing() {
#if PY_VERSION_HEX >= 0x030D0000
    return Py_IsFinalizing() != 0;
#else
    return _Py_IsFinalizing() != 0;
#endif
}

[[noreturn]] void wait_for_the_end() {
    for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

}  // namespace

Attendant::Attendant(sim::Launch& launch, py::object progress)
    : progress_(std::move(progress)), blocks_(launch.block_count()) {
    launch.print = [this](const std::string& text) {
        const std::lock_guard lock(mutex_);
        printed_ += text;
    };
    launch.poll = [this](uint64_t finished) { poll(finished); };
}

void Attendant::poll(uint64_t finished) {
    // A thread that outlives the interpreter (a daemon thread) may not touch it any more: it waits
    // here for the end of the process.
    if (is_finalizing()) wait_for_the_end();
    try {
        const py::gil_scoped_acquire gil;
        flush();
        if (PyErr_CheckSignals() != 0) throw py::error_already_set();
        tell(finished);
    } catch (const abi::__forced_unwind&) {
        wait_for_the_end();
    }
}

void Attendant::finish() {
    flush();
    if (!progress_.is_none()) progress_(blocks_, blocks_);
}

void Attendant::flush() {
    std::string text;
    {
        const std::lock_guard lock(mutex_);
        text.swap(printed_);
    }
    if (!text.empty()) py::print(text, py::arg("end") = "", py::arg("flush") = true);
}

void Attendant::tell(uint64_t finished) {
    using namespace std::chrono_literals;
    const auto now = std::chrono::steady_clock::now();
    if (progress_.is_none() || now - told_ < 200ms) return;
    told_ = now;
    progress_(finished, blocks_);
}

}  // namespace coalesce::bindings
