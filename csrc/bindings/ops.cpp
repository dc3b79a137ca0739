// coalesce._core.ops: binds the catalogue.
#include "ops/catalogue.hpp"

#include <pybind11/stl.h>

#include "bindings/bindings.hpp"

namespace py = pybind11;

namespace coalesce::bindings {
namespace {

py::tuple extent(const ops::Extent3& e) { return py::make_tuple(e.x, e.y, e.z); }

py::object arguments_of(const ops::Variant& v) {
    return py::str(py::cast(v.arguments)).attr("split")();
}

py::tuple tiles_of(const ops::Variant& v) {
    return py::tuple(py::cast(std::vector<uint32_t>(v.tiles.begin(), v.tiles.end())));
}

py::tuple launch_of(const ops::Variant& variant, uint64_t rows, uint64_t cols, uint32_t tile,
                    uint32_t item_size, uint32_t multiprocessors, uint32_t slices, uint32_t parts) {
    if (tile == 0) tile = 32;
    const ops::LaunchGeometry l =
        variant.geometry({rows, cols, tile, item_size, multiprocessors, slices, parts});
    return py::make_tuple(extent(l.grid), extent(l.block), l.shared_bytes);
}

}  // namespace

void add_ops(py::module_ m) {
    m.attr("max_extent") = ops::max_extent;

    Class<ops::Variant>(m, "Variant", "A kernel of the catalogue: one row of variants.inc.")
        .property<&ops::Variant::operation>("operation")
        .property<&ops::Variant::name>("name")
        .property<&ops::Variant::file>("file")
        .property<&ops::Variant::sentence>("sentence")
        .property<&ops::Variant::topic>("topic")
        .property<&ops::Variant::name>("entry")
        .property<&ops::Variant::rung>("rung")
        .property<&arguments_of>("arguments")
        .property<&tiles_of>("tiles")
        .property<[](const ops::Variant& v) { return ops::name_of(v.preparation); }>("preparation")
        .property<&ops::Variant::dtype>("dtype")
        .property<&ops::Variant::hopper>("hopper")
        .property<&ops::Variant::tensor_maps>("tensor_maps")
        .def(
            "static_shared_bytes",
            [](const ops::Variant& v, uint32_t tile, uint32_t item_size) {
                return v.shared_bytes(tile == 0 ? 32 : tile, item_size);
            },
            py::arg("tile") = 0, py::arg("item_size") = 4)
        .def("launch", &launch_of, py::arg("rows"), py::arg("cols") = 1, py::arg("tile") = 0,
             py::arg("item_size") = 4, py::arg("multiprocessors") = 132, py::arg("slices") = 1,
             py::arg("parts") = 0,
             "(grid, block, dynamic shared bytes) for a shape; ValueError where it is empty.");

    m.def(
        "variants",
        [] {
            py::list all;
            for (const ops::Variant& v : ops::variants()) {
                all.append(py::cast(v, py::return_value_policy::reference));
            }
            return all;
        },
        "Every variant, in the order of the ladders.");
}

}  // namespace coalesce::bindings
