// Each function here adds one part of the C++ core to the extension module. module.cpp calls them
// all.
#pragma once

#include <pybind11/pybind11.h>

namespace coalesce::bindings {

void add_errors(pybind11::module_& m);
void add_sim(pybind11::module_ m);
void add_cuda(pybind11::module_ m);
void add_ops(pybind11::module_ m);
void add_model(pybind11::module_ m);
void add_programs(pybind11::module_ m);

}  // namespace coalesce::bindings
