// Every error type of errors.hpp becomes a Python exception of the same name.
#include "errors.hpp"

#include "bindings/bindings.hpp"

namespace py = pybind11;

namespace coalesce::bindings {

void add_errors(py::module_& m) {
    auto base = py::register_exception<Error>(m, "CoalesceError", PyExc_RuntimeError);
    py::register_exception<CompileError>(m, "CompileError", base);
    py::register_exception<PtxError>(m, "PtxError", base);
    py::register_exception<UnsupportedInstruction>(m, "UnsupportedInstruction", base);
    py::register_exception<LaunchError>(m, "LaunchError", base);
    py::register_exception<DeviceUnavailable>(m, "DeviceUnavailable", base);
    py::register_exception<MemoryFault>(m, "MemoryFault", base);
}

}  // namespace coalesce::bindings
