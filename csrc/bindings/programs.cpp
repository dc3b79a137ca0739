// Finds the device code in executables, for whole programs.
#include <pybind11/stl.h>

#include "bindings/bindings.hpp"
#include "cudart/binary/fatbin.hpp"

namespace py = pybind11;

namespace coalesce::bindings {

void add_programs(py::module_ m) {
    m.def(
        "device_code",
        [](const py::bytes& section, uint32_t most) {
            const std::string_view text = section;
            py::list list;
            for (const auto container :
                 cudart::containers(std::as_bytes(std::span(text.data(), text.size())))) {
                const cudart::Code code = cudart::code_of(container, most);
                list.append(py::make_tuple(code.key, code.ptx, py::bytes(code.cubin), code.arch));
            }
            return list;
        },
        py::arg("section"), py::arg("most"),
        "(key, PTX, cubin, architecture) of each fat binary in a section .nv_fatbin: the PTX of\n"
        "the newest architecture that a GPU of architecture `most` runs, \"\" if there is none.");
}

}  // namespace coalesce::bindings
