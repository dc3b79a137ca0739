// Keyword arguments that a function reads one by one.
//
// pybind11 compiles templates for the whole list of a function's parameters. For about twenty
// parameters, this takes seconds. Therefore functions with that many parameters take py::kwargs.
#pragma once

#include <pybind11/pybind11.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace coalesce::bindings {

class Options {
  public:
    explicit Options(pybind11::kwargs passed) : passed_(std::move(passed)) { known_.reserve(32); }

    // Sets `value` to the argument `name`, if the caller passed it.
    template <class T>
    void read(const char* name, T& value) {
        known_.emplace_back(name);
        PyObject* const item = PyDict_GetItemString(passed_.ptr(), name);
        if (!item) return;
        try {
            value = pybind11::handle(item).cast<T>();
        } catch (const pybind11::cast_error&) {
            throw pybind11::type_error("`" + std::string(name) + "` has the wrong type");
        }
    }
    // Like read(), but the argument must be present.
    template <class T>
    T required(const char* name) {
        if (!passed_.contains(name))
            throw pybind11::type_error("`" + std::string(name) + "` is missing");
        T value{};
        read(name, value);
        return value;
    }
    // Call this last: it throws if the caller passed other arguments.
    void finish() const {
        for (const auto& [name, value] : passed_) {
            const auto text = name.cast<std::string>();
            if (std::find(known_.begin(), known_.end(), text) == known_.end())
                throw pybind11::type_error("unknown argument `" + text + "`");
        }
    }

  private:
    pybind11::kwargs passed_;
    std::vector<std::string_view> known_;  // the names of all arguments that the function has read
};

}  // namespace coalesce::bindings
