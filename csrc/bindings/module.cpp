// coalesce._core: the C++ core as a Python module. Each area has a file of its own.
#include "bindings/bindings.hpp"
#include "printable.hpp"
#include "ptx/demangle.hpp"

namespace py = pybind11;

PYBIND11_MODULE(_core, m) {
    m.doc() = "The C++ core of coalesce: the simulator, the GPU driver and the kernel catalogue.";
    coalesce::bindings::add_errors(m);
    m.def("demangled", &coalesce::ptx::demangled, py::arg("name"),
          "The demangled form of a C++ name; other names are returned unchanged.");
    m.def("printable", &coalesce::printable, py::arg("text"),
          "The text, in which numbers replace control characters and changes of direction.");
    coalesce::bindings::add_sim(m.def_submodule("sim", "The warp-level simulator."));
    coalesce::bindings::add_model(m.def_submodule("model", "The GPU table and the time model."));
    coalesce::bindings::add_cuda(
        m.def_submodule("cuda", "NVRTC, the CUDA driver and its devices."));
    coalesce::bindings::add_ops(m.def_submodule("ops", "The catalogue of operations."));
    coalesce::bindings::add_programs(
        m.def_submodule("programs", "The device code in executables."));
}
