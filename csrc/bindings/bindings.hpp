// Each function here adds one part of the C++ core to the extension module. module.cpp calls them
// all.
#pragma once

#include <pybind11/pybind11.h>

#include <functional>
#include <type_traits>

namespace coalesce::bindings {

// A class with read-only properties. pybind11 compiles templates for each type of function that it
// binds. So that few are compiled, the functions of all properties of a class have the same type.
template <class T, class... Options>
class Class : public pybind11::class_<T, Options...> {
  public:
    using pybind11::class_<T, Options...>::class_;
    // `get` is a member of T, or a function that takes a T. If it returns a C++ object, Python gets
    // a copy. Call property() before def(), which returns a pybind11::class_.
    template <auto get>
    Class& property(const char* name, const char* doc = "") {
        pybind11::object (*const read)(T&) = [](T& self) -> pybind11::object {
            using Value = std::remove_cvref_t<decltype(std::invoke(get, self))>;
            if constexpr (std::is_base_of_v<pybind11::object, Value>)
                return std::invoke(get, self);
            else
                return pybind11::cast(std::invoke(get, self));
        };
        this->def_property_readonly(name, read, doc);
        return *this;
    }
};

void add_errors(pybind11::module_& m);
void add_sim(pybind11::module_ m);
void add_cuda(pybind11::module_ m);
void add_ops(pybind11::module_ m);
void add_model(pybind11::module_ m);
void add_programs(pybind11::module_ m);

}  // namespace coalesce::bindings
