// Each function here adds one part of the C++ core to the extension module. module.cpp calls them
// all.
#pragma once

#include <pybind11/pybind11.h>

#include <functional>
#include <type_traits>

#include "bindings/function.hpp"

namespace coalesce::bindings {

// A class whose functions and read-only properties need little code (function.hpp).
template <class T, class... Options>
class Class : public pybind11::class_<T, Options...> {
  public:
    using pybind11::class_<T, Options...>::class_;
    // `f` is a member of T, or a function whose first parameter is a T. While it runs, there is a
    // Guard. Call method() and property() before def(), which returns a pybind11::class_.
    template <auto f, class Guard = NoGuard>
    Class& method(const char* name, Parameters parameters = {}, const char* doc = "") {
        pybind11::setattr(*this, name, function<f, Guard>(*this, true, name, parameters, doc));
        return *this;
    }
    // `get` is a member of T, or a function that takes a T. If it returns a C++ object, Python gets
    // a copy.
    template <auto get>
    Class& property(const char* name, const char* doc = "") {
        pybind11::object (*const read)(T&) = [](T& self) -> pybind11::object {
            using Value = std::remove_cvref_t<decltype(std::invoke(get, self))>;
            if constexpr (std::is_base_of_v<pybind11::object, Value>)
                return std::invoke(get, self);
            else
                return pybind11::cast(std::invoke(get, self));
        };
        const Function getter = property_getter<T>(read);
        const pybind11::handle type(reinterpret_cast<PyObject*>(&PyProperty_Type));
        pybind11::setattr(*this, name, type(getter, pybind11::none(), pybind11::none(), doc));
        return *this;
    }
};

// Adds a function to a module.
template <auto f, class Guard = NoGuard>
void add_function(pybind11::module_& m, const char* name, Parameters parameters = {},
                  const char* doc = "") {
    m.add_object(name, function<f, Guard>(m, false, name, parameters, doc), true);
}

void add_errors(pybind11::module_& m);
void add_sim(pybind11::module_ m);
void add_cuda(pybind11::module_ m);
void add_ops(pybind11::module_ m);
void add_model(pybind11::module_ m);
void add_programs(pybind11::module_ m);

}  // namespace coalesce::bindings
