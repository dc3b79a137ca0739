// Keyword arguments that a function reads one by one.
//
// pybind11 compiles templates for the whole list of a function's parameters. For about twenty
// parameters, this takes seconds. Therefore functions with that many parameters take py::kwargs.
#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <utility>

namespace coalesce::bindings {

class Options {
  public:
    explicit Options(pybind11::kwargs given) : given_(std::move(given)) {}

    // Sets `value` to the argument `name`, if the caller passed it.
    template <class T>
    void read(const char* name, T& value) {
        if (!given_.contains(name)) return;
        try {
            value = given_.attr("pop")(name).template cast<T>();
        } catch (const pybind11::cast_error&) {
            throw pybind11::type_error("the argument `" + std::string(name) +
                                       "` has the wrong type");
        }
    }
    // Like read(), but the argument must be present.
    template <class T>
    T required(const char* name) {
        if (!given_.contains(name))
            throw pybind11::type_error("the argument `" + std::string(name) + "` is missing");
        T value{};
        read(name, value);
        return value;
    }
    // Call this last: it throws if the caller passed other arguments.
    void finish() const {
        for (const auto& [name, value] : given_)
            throw pybind11::type_error("unknown argument `" + std::string(pybind11::str(name)) +
                                       "`");
    }

  private:
    pybind11::kwargs given_;
};

}  // namespace coalesce::bindings
