#include "bindings/sim/compile.hpp"

#include "bindings/gil.hpp"

namespace py = pybind11;

namespace coalesce::bindings {

namespace {

struct Compiler {
    py::object start = py::none();
    double seconds = 0;
};

Compiler& compiler() {
    static auto* const it = new Compiler;  // not destroyed, because Python may have ended then
    return *it;
}

}  // namespace

void KernelCode::set_compiler(py::object start, double seconds) {
    compiler() = {std::move(start), seconds};
}

bool KernelCode::has_compiler() { return !compiler().start.is_none(); }

bool KernelCode::needs_part() const {
    // So often, warps with inactive lanes must have been interpreted.
    const uint64_t least = compiler().seconds > 0 ? 20000 : 0;
    return !code_.part.empty() && !kernel_.part && kernel_.wanted_part >= least;
}

void KernelCode::consider(const py::object& module, double elapsed, double done) {
    if (!has_compiler() || busy_ || !failure_.empty()) return;
    const double least = compiler().seconds;
    const bool needs_whole = !kernel_.whole && spent_ + elapsed >= least &&
                             (done == 0 || elapsed * (1 - done) >= least * done);
    if (!needs_whole && !needs_part()) return;
    busy_ = true;
    module_ = module;
    try {
        compiler().start(py::cast(shared_from_this()));
    } catch (...) {
        end();
        throw;
    }
}

std::optional<std::pair<std::string, std::string>> KernelCode::next() {
    if (!std::exchange(translated_, true)) {
        const ReleasedGil no_gil;
        code_ = sim::translate(program_, sim::engine(sim::Watch::nothing), shape_);
        kernel_.whole_entries = std::move(code_.whole_entries);
        kernel_.part_entries = std::move(code_.part_entries);
    }
    if (code_.whole.empty()) {
        fail(code_.why_not);
        return {};
    }
    if (!kernel_.whole) return std::pair("whole", code_.whole);
    if (needs_part()) return std::pair("part", code_.part);
    end();
    return {};
}

void KernelCode::set(uint64_t address, py::object owner) {
    owners_.push_back(std::move(owner));
    auto& function = kernel_.whole ? kernel_.part : kernel_.whole;
    function = reinterpret_cast<sim::CompiledFunction>(address);
}

void KernelCode::fail(std::string reason) {
    failure_ = std::move(reason);
    end();
}

void KernelCode::end() {
    busy_ = false;
    module_ = {};
}

std::string KernelCode::description() const {
    if (!failure_.empty()) return "not compiled: " + failure_;
    if (!kernel_.whole) return busy_ ? "being compiled" : "not compiled";
    return "compiled: " + std::to_string(code_.translated) + " operations, and " +
           std::to_string(code_.called) + " calls of the interpreter" +
           (kernel_.part ? "; also for warps with inactive lanes" : "");
}

}  // namespace coalesce::bindings
