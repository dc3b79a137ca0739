// Reads a Launch of Python (python/coalesce/launch/launch.py).
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <array>

#include "kernel_launch.hpp"

namespace coalesce::bindings {

// Returns the launch without its arguments, which the callers pass in other forms.
inline Launch launch_of(const pybind11::handle& object) {
    const auto extents = [&](const char* name) {
        const auto [x, y, z] = object.attr(name).cast<std::array<uint32_t, 3>>();
        return Dim3{x, y, z};
    };
    Launch launch;
    launch.grid = extents("grid");
    launch.block = extents("block");
    launch.shared_bytes = object.attr("shared_bytes").cast<uint32_t>();
    launch.cooperative = object.attr("cooperative").cast<bool>();
    return launch;
}

}  // namespace coalesce::bindings
