// Maps each error type of errors.hpp to a Python exception of the same name.
#include "errors.hpp"

#include <new>
#include <string>
#include <system_error>

#include "bindings/bindings.hpp"

namespace py = pybind11;

namespace coalesce::bindings {

void add_errors(py::module_& m) {
    auto base = py::register_exception<Error>(m, "CoalesceError", PyExc_RuntimeError);
    py::register_exception<CompileError>(m, "CompileError", base);
    py::register_exception<PtxError>(m, "PtxError", base);
    py::register_exception<UnsupportedInstruction>(m, "UnsupportedInstruction", base);
    auto launch = py::register_exception<LaunchError>(m, "LaunchError", base);
    py::register_exception<InstructionLimit>(m, "InstructionLimit", launch);
    py::register_exception<DeviceUnavailable>(m, "DeviceUnavailable", base);
    py::register_exception<MemoryFault>(m, "MemoryFault", base);
    // This replaces pybind11's own translations, whose messages are only the names of types.
    py::register_exception_translator([](std::exception_ptr error) {
        try {
            if (error) std::rethrow_exception(error);
        } catch (const std::bad_alloc&) {
            PyErr_SetString(PyExc_MemoryError,
                            "out of memory: this process cannot get as much host memory as the "
                            "call needs (ulimit -v, or a container's limit)");
        } catch (const std::system_error& failure) {
            const std::string message = std::string("the system refused a thread or a file: ") +
                                        failure.what() + " (ulimit -a shows this process's limits)";
            PyErr_SetString(py::module_::import("coalesce._core").attr("LaunchError").ptr(),
                            message.c_str());
        }
    });
}

}  // namespace coalesce::bindings
