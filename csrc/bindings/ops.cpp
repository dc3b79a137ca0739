// coalesce._core.ops: binds the catalogue.
#include "catalogue/catalogue.hpp"

#include <pybind11/stl.h>

#include "bindings/bindings.hpp"

namespace py = pybind11;

namespace coalesce::bindings {
namespace {

py::tuple extent(const Dim3& e) { return py::make_tuple(e.x, e.y, e.z); }

py::object arguments_of(const catalogue::Variant& v) {
    return py::str(py::cast(v.arguments)).attr("split")();
}

py::tuple tiles_of(const catalogue::Variant& v) {
    return py::tuple(py::cast(std::vector<uint32_t>(v.tiles.begin(), v.tiles.end())));
}

py::tuple launch_of_shape(const catalogue::Variant& variant, uint64_t rows, uint64_t cols,
                          uint32_t tile, uint32_t item_size, uint32_t multiprocessors,
                          uint32_t slices, uint32_t parts) {
    if (tile == 0) tile = 32;
    const Launch l =
        variant.geometry({rows, cols, tile, item_size, multiprocessors, slices, parts});
    return py::make_tuple(extent(l.grid), extent(l.block), l.shared_bytes);
}

}  // namespace

void add_ops(py::module_ m) {
    m.attr("max_extent") = catalogue::max_extent;

    Class<catalogue::Variant>(m, "Variant", "A kernel of the catalogue: one row of variants.inc.")
        .property<&catalogue::Variant::operation>("operation")
        .property<&catalogue::Variant::name>("name")
        .property<&catalogue::Variant::file>("file")
        .property<&catalogue::Variant::sentence>("sentence")
        .property<&catalogue::Variant::topic>("topic")
        .property<&catalogue::Variant::name>("entry")
        .property<&catalogue::Variant::rung>("rung")
        .property<&arguments_of>("arguments")
        .property<&tiles_of>("tiles")
        .property<[](const catalogue::Variant& v) { return catalogue::name_of(v.preparation); }>(
            "preparation")
        .property<&catalogue::Variant::dtype>("dtype")
        .property<&catalogue::Variant::hopper>("hopper")
        .property<&catalogue::Variant::tensor_maps>("tensor_maps")
        .property<&catalogue::Variant::starts_early>("starts_early")
        .def(
            "static_shared_bytes",
            [](const catalogue::Variant& v, uint32_t tile, uint32_t item_size) {
                return v.shared_bytes(tile == 0 ? 32 : tile, item_size);
            },
            py::arg("tile") = 0, py::arg("item_size") = 4)
        .def("launch", &launch_of_shape, py::arg("rows"), py::arg("cols") = 1, py::arg("tile") = 0,
             py::arg("item_size") = 4, py::arg("multiprocessors") = 132, py::arg("slices") = 1,
             py::arg("parts") = 0,
             "(grid, block, dynamic shared bytes) for a shape; ValueError where it is empty.");

    m.def(
        "variants",
        [] {
            py::list all;
            for (const catalogue::Variant& v : catalogue::variants()) {
                all.append(py::cast(v, py::return_value_policy::reference));
            }
            return all;
        },
        "Every variant, in the order of the ladders.");
}

}  // namespace coalesce::bindings
