// Binds functions to Python with little code for each function.
//
// METHOD
// For each function, pybind11's def() compiles many templates. They convert the arguments and write
// the function's signature. Here, only the call itself is compiled for each function. The rest is
// compiled once, or once for each type of an argument. Python gets the same signatures and errors
// as from def(). The code uses pybind11's class cpp_function, its casters, and its record of a
// function.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

namespace coalesce::bindings {

// A parameter as Python sees it: py::arg("name"), or py::arg("name") = default.
class Parameter {
  public:
    Parameter(const pybind11::arg& required) : name_(required) {}
    Parameter(const pybind11::arg_v& optional) : name_(optional), default_(optional) {}
    void add_to(pybind11::detail::function_record* record) const {
        using pybind11::detail::process_attribute;
        if (default_)
            process_attribute<pybind11::arg_v>::init(*default_, record);
        else
            process_attribute<pybind11::arg>::init(name_, record);
    }

  private:
    pybind11::arg name_;
    std::optional<pybind11::arg_v> default_;
};
using Parameters = std::initializer_list<Parameter>;

// The types of a function, in the notation that pybind11 turns into a signature.
struct Signature {
    std::string text = "(";
    std::vector<const std::type_info*> types;
    size_t parameters = 0;

    template <class T>
    void add_parameter() {
        if (parameters++ > 0) text += ", ";
        text += "{";
        add_type<T>();
        text += "}";
    }
    template <class T>
    void add_result() {
        text += ") -> ";
        add_type<T>();
        types.push_back(nullptr);
    }

  private:
    template <class T>
    void add_type() {
        constexpr auto name = pybind11::detail::make_caster<T>::name;
        text += name.text;
        for (const std::type_info* type : name.types())
            if (type != nullptr) types.push_back(type);
    }
};

// A function for Python. `call` converts the arguments and calls the C++ function. It may use
// `data`, which is in the record of the function.
class Function : public pybind11::cpp_function {
  public:
    using Call = pybind11::handle (*)(pybind11::detail::function_call&);

    Function(pybind11::handle scope, bool method, const char* name, Call call,
             const Signature& signature, Parameters parameters, const char* doc,
             void* data = nullptr) {
        auto record = make_function_record();
        const pybind11::object sibling = pybind11::getattr(scope, name, pybind11::none());
        record->name = const_cast<char*>(name);
        record->doc = const_cast<char*>(doc);
        record->scope = scope;
        record->sibling = sibling;
        record->is_method = method;
        record->impl = call;
        record->data[0] = data;
        record->nargs_pos = static_cast<uint16_t>(signature.parameters);
        for (const Parameter& parameter : parameters) parameter.add_to(record.get());
        initialize_generic(std::move(record), signature.text.c_str(), signature.types.data(),
                           signature.parameters);
    }
};

// An argument of a call, as a C++ value.
template <class T>
struct Argument {
    Argument(pybind11::detail::function_call& request, size_t i) {
        // pybind11 then raises a TypeError with the signature.
        if (!caster.load(request.args[i], request.args_convert[i]))
            throw pybind11::reference_cast_error();
    }
    pybind11::detail::make_caster<T> caster;
};

// Calls `f`. A are the types of its parameters. While `f` runs, there is a Guard, such as a
// ReleasedGil.
template <auto f, class Guard, class R, class... A>
struct Caller {
    static R call(Argument<A>... arguments) {
        [[maybe_unused]] const Guard guard{};
        return std::invoke(f, pybind11::detail::cast_op<A>(std::move(arguments.caster))...);
    }
    template <size_t... i>
    static pybind11::handle from_python(pybind11::detail::function_call& request,
                                        std::index_sequence<i...>) {
        using pybind11::detail::make_caster;
        if constexpr (std::is_void_v<R>) {
            call({request, i}...);
            return pybind11::none().release();
        } else {
            return make_caster<R>::cast(
                call({request, i}...),
                pybind11::detail::return_value_policy_override<R>::policy(request.func.policy),
                request.parent);
        }
    }
    static pybind11::handle from_python(pybind11::detail::function_call& request) {
        return from_python(request, std::index_sequence_for<A...>());
    }
    static Signature signature() {
        Signature s;
        (s.add_parameter<A>(), ...);
        s.add_result<std::conditional_t<std::is_void_v<R>, pybind11::detail::void_type, R>>();
        return s;
    }
};

// The Caller of a function, a member function or a lambda.
template <auto f, class Guard, class R, class... A>
Caller<f, Guard, R, A...> caller_of(R (*)(A...));
template <auto f, class Guard, class R, class C, class... A>
Caller<f, Guard, R, C&, A...> caller_of(R (C::*)(A...));
template <auto f, class Guard, class R, class C, class... A>
Caller<f, Guard, R, const C&, A...> caller_of(R (C::*)(A...) const);
template <auto f, class Guard, class Lambda, class = decltype(&Lambda::operator())>
auto caller_of(Lambda lambda) -> decltype(caller_of<f, Guard>(+lambda));

struct NoGuard {};

// Makes a function or method of `scope` that calls `f`, which is a function, a member function or a
// lambda.
template <auto f, class Guard = NoGuard>
Function function(pybind11::handle scope, bool method, const char* name, Parameters parameters,
                  const char* doc) {
    using Called = decltype(caller_of<f, Guard>(f));
    return {scope, method, name, &Called::from_python, Called::signature(), parameters, doc};
}

// The function that Python calls to read a property of a T. It calls `read`.
template <class T>
Function property_getter(pybind11::object (*read)(T&)) {
    using Read = decltype(read);
    const Function::Call call = [](pybind11::detail::function_call& request) {
        Argument<T&> self(request, 0);
        T& object = pybind11::detail::cast_op<T&>(self.caster);
        return reinterpret_cast<Read>(request.func.data[0])(object).release();
    };
    Signature signature;
    signature.add_parameter<T&>();
    signature.add_result<pybind11::object>();
    return {pybind11::none(), false, "", call, signature, {}, "", reinterpret_cast<void*>(read)};
}

}  // namespace coalesce::bindings
