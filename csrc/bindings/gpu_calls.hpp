// Operations on GPU arrays: binds the caller's arrays to the plan of the call, and executes it.
//
// METHOD
// A plan is made once, in Python, for a key: the operation, its options, the device, and of each
// array the element type, the shape, the strides and the alignment. All later calls with this key
// find the plan here. Such a call reads the arrays, enqueues the launches of the plan
// (cuda/launch/planned_call.hpp), and does not wait. For arrays of CuPy, PyTorch and this package,
// it runs no Python code. The arrays of other libraries are described by a Python function.
//
// A call returns None if there is no plan for it. Then the caller runs the operation step by step,
// which also explains what is wrong with an argument.
//
// STREAMS. The launches use the current stream of the arrays' library. If this is not the default
// stream, it first waits for the default stream before it uses memory of this package's pool. After
// the call, this memory is not reused until the stream's work has ended.
#pragma once

#include <pybind11/pybind11.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bindings/gil.hpp"
#include "bindings/gpu_arrays.hpp"
#include "cuda/launch/planned_call.hpp"

namespace coalesce::bindings {

class GpuCalls {
  public:
    // `make` makes a plan: make(operation, arrays, options, device) returns None or a tuple of
    // four. The first is the executor, a PlannedCall or another object with a method
    // enqueue(addresses). Then follow the shape of the result, its dtype, and a function that makes
    // an array for the result; its argument is the first operand. `describe` returns a description
    // of an array of another library: a GpuArray of Python, or None.
    GpuCalls(pybind11::object make, pybind11::object describe)
        : make_(std::move(make)), describe_(std::move(describe)) {}

    // Runs an operation. `options` has the operation's options, and the arrays "c" and "out".
    pybind11::object run(const pybind11::str& operation, const pybind11::tuple& arrays,
                         const pybind11::dict& options, const pybind11::object& device) {
        namespace py = pybind11;
        Call call;
        if (!bind(call, arrays, options) || !write_key(call, operation, options, device)) {
            PyErr_Clear();
            return py::none();
        }
        const auto found = plans_.find(call.key);
        const std::shared_ptr<const Plan> plan =
            found != plans_.end() ? found->second
                                  : make(call.key, operation, arrays, options, device);
        if (!plan) return py::none();
        for (size_t i = 0; plan->call != nullptr && i < call.count; ++i) {
            const auto& generation = call.arrays[i].generation;
            if (generation && *generation != plan->call->device().generation()) return py::none();
        }
        std::array<cuda::Address, most_arrays + 1> addresses{};
        for (size_t i = 0; i < call.count; ++i) addresses[i] = call.arrays[i].address;
        size_t count = call.count;
        py::object result = call.out;
        if (!result) {
            result = make_result(call, *plan);
            if (result.is_none()) return result;
            BoundArray written;
            if (!read(result.ptr(), written)) throw py::error_already_set();
            addresses[count++] = written.address;
        }
        if (plan->call == nullptr) {
            plan->executor.attr("enqueue")(
                std::vector<cuda::Address>(addresses.begin(), addresses.begin() + count));
            return result;
        }
        {
            const ReleasedGil released;
            plan->call->enqueue({addresses.data(), count},
                                reinterpret_cast<cuda::Stream>(call.stream));
        }
        return result;
    }

    void clear() {
        plans_.clear();
        order_.clear();
    }

  private:
    static constexpr size_t most_arrays = 4, most_plans = 256;
    static constexpr size_t load = 16;  // kernels load up to 16 bytes at once
    inline static const ScalarMask reals = scalar_bit("f4") | scalar_bit("f8");

    struct Plan {
        pybind11::object executor;
        cuda::PlannedCall* call;  // the executor, or null if it is another object
        pybind11::object shape, dtype, empty;
    };

    struct Call {
        std::array<BoundArray, most_arrays> arrays;
        std::array<pybind11::object, most_arrays> kept;  // descriptions, which own what they name
        size_t count = 0;
        pybind11::object out;  // null if the caller did not pass it
        uint64_t stream = 0;
        std::string key;
    };

    // Reads the description of an array of any library.
    bool read(PyObject* object, BoundArray& array, pybind11::object* kept = nullptr) const {
        array.kind = KnownTypes::get().kind_of(Py_TYPE(object));
        switch (array.kind) {
            case KnownTypes::Kind::device_array:
                return bind_device_array(object, array);
            case KnownTypes::Kind::cupy:
                return bind_cupy_array(object, array);
            case KnownTypes::Kind::torch:
                return bind_torch_tensor(object, array);
            case KnownTypes::Kind::numpy:
                return false;
            case KnownTypes::Kind::other:
                break;
        }
        auto description = pybind11::reinterpret_steal<pybind11::object>(
            PyObject_CallOneArg(describe_.ptr(), object));
        if (!description || description.is_none()) return false;
        if (!bind_description(object, description.ptr(), array)) return false;
        if (kept != nullptr) *kept = std::move(description);
        return true;
    }

    // Reads all arrays of a call: the operands, `c` and `out`.
    bool bind(Call& call, const pybind11::tuple& operands, const pybind11::dict& options) const {
        const auto add = [&](PyObject* object) {
            if (call.count == most_arrays) return false;
            BoundArray& array = call.arrays[call.count];
            if (!read(object, array, &call.kept[call.count])) return false;
            ++call.count;
            return array.ordinal == call.arrays[0].ordinal && (array.mask & reals) != 0 &&
                   array.elements() > 0;
        };
        for (const pybind11::handle operand : operands)
            if (!add(operand.ptr())) return false;
        const Names& names = Names::get();
        PyObject* const c = PyDict_GetItem(options.ptr(), names.c);
        PyObject* const out = PyDict_GetItem(options.ptr(), names.out);
        if (c != nullptr && c != Py_None && !add(c)) return false;
        if (out == nullptr || out == Py_None) return find_stream(call);
        if (!add(out)) return false;
        const BoundArray& target = call.arrays[call.count - 1];
        if (target.read_only || !target.c_contiguous) return false;
        const auto [low, high] = target.span();
        for (size_t i = 0; i + 1 < call.count; ++i) {
            const BoundArray& other = call.arrays[i];
            const auto [begin, end] = other.span();
            // A kernel reads an element of c only to compute the same element of out. So the array
            // c may also be out.
            const bool same = i == operands.size() && other.address == target.address &&
                              other.shape == target.shape && other.c_contiguous;
            if (!same && low < end && begin < high) return false;
        }
        call.out = pybind11::reinterpret_borrow<pybind11::object>(out);
        return find_stream(call);
    }

    // Finds the stream for the launches. All arrays must use the same one.
    static bool find_stream(Call& call) {
        std::optional<uint64_t> stream;
        bool seen[5] = {};
        for (size_t i = 0; i < call.count; ++i) {
            const BoundArray& array = call.arrays[i];
            uint64_t own = array.stream;
            const auto kind = static_cast<size_t>(array.kind);
            if (array.kind == KnownTypes::Kind::cupy || array.kind == KnownTypes::Kind::torch) {
                if (seen[kind]) continue;
                if (!current_stream(array.kind, static_cast<int>(array.ordinal), own)) return false;
            }
            seen[kind] = true;
            if (stream && *stream != own) return false;
            stream = own;
        }
        call.stream = stream.value_or(0);
        return true;
    }

    bool write_key(Call& call, const pybind11::str& operation, const pybind11::dict& options,
                   const pybind11::object& device) const {
        std::string& key = call.key;
        key.reserve(512);
        const auto append = [&key](const auto& value) {
            key.append(reinterpret_cast<const char*>(&value), sizeof(value));
        };
        // Appends a value of which equal bytes mean an equal value of the same type.
        const auto append_object = [&](PyObject* value) {
            if (value == Py_None) {
                key += 'n';
            } else if (PyUnicode_CheckExact(value)) {
                Py_ssize_t size = 0;
                const char* text = PyUnicode_AsUTF8AndSize(value, &size);
                if (text == nullptr) return false;
                key += 's';
                append(size);
                key.append(text, static_cast<size_t>(size));
            } else if (PyFloat_CheckExact(value)) {
                key += 'f';
                append(PyFloat_AS_DOUBLE(value));
            } else if (PyLong_CheckExact(value)) {
                int overflow = 0;
                const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
                if (overflow != 0) return false;
                key += 'i';
                append(number);
            } else {
                return false;
            }
            return true;
        };
        if (!append_object(operation.ptr())) return false;
        const Names& names = Names::get();
        if (device.is_none()) {
            // Python sets the process's environment when os.environ changes.
            const char* const name = std::getenv("COALESCE_DEVICE");
            key += name == nullptr ? "" : name;
            key += '\0';
        } else if (PyUnicode_CheckExact(device.ptr())) {
            if (!append_object(device.ptr())) return false;
        } else {
            const Owned name(PyObject_GetAttr(device.ptr(), names.name));
            if (!name || !append_object(name.get())) return false;
        }
        Py_ssize_t place = 0;
        PyObject *name = nullptr, *value = nullptr;
        while (PyDict_Next(options.ptr(), &place, &name, &value) != 0) {
            const bool is_array = name == names.c || name == names.out;
            if (!append_object(name)) return false;
            if (is_array)
                key += value == Py_None ? '0' : '1';
            else if (!append_object(value))
                return false;
        }
        append(call.arrays[0].ordinal);
        for (size_t i = 0; i < call.count; ++i) {
            const BoundArray& array = call.arrays[i];
            append(array.mask);
            append(static_cast<uint32_t>(array.address % load));
            append(array.dimensions);
            append(array.shape);
            append(array.strides);
        }
        return true;
    }

    std::shared_ptr<const Plan> make(const std::string& key, const pybind11::str& operation,
                                     const pybind11::tuple& arrays, const pybind11::dict& options,
                                     const pybind11::object& device) {
        const pybind11::object made = make_(operation, arrays, options, device);
        if (made.is_none()) return nullptr;
        const auto parts = pybind11::reinterpret_borrow<pybind11::tuple>(made);
        const bool planned = pybind11::isinstance<cuda::PlannedCall>(parts[0]);
        auto* const call = planned ? pybind11::cast<cuda::PlannedCall*>(parts[0]) : nullptr;
        auto plan =
            std::make_shared<const Plan>(Plan{parts[0], call, parts[1], parts[2], parts[3]});
        if (plans_.emplace(key, plan).second) order_.push_back(key);
        if (order_.size() > most_plans) {
            plans_.erase(order_.front());
            order_.pop_front();
        }
        return plan;
    }

    // Returns a new array for the result, of the library of the first operand, or None if there is
    // no memory for this stream. The memory of CuPy and PyTorch comes from their own pools, which
    // know their streams.
    static pybind11::object make_result(const Call& call, const Plan& plan) {
        namespace py = pybind11;
        const Names& names = Names::get();
        PyObject* made = nullptr;
        const KnownTypes::Kind kind = call.arrays[0].kind;
        const bool one_gpu = cuda::Driver::get().devices <= 1;  // CuPy allocates on its current GPU
        if (kind == KnownTypes::Kind::cupy && one_gpu) {
            PyObject* arguments[] = {plan.shape.ptr(), plan.dtype.ptr()};
            PyObject* const type = library_type("cupy", "ndarray");
            if (type != nullptr) made = PyObject_Vectorcall(type, arguments, 2, nullptr);
        } else if (kind == KnownTypes::Kind::torch) {
            PyObject* arguments[] = {call.arrays[0].object, plan.shape.ptr()};
            made = PyObject_VectorcallMethod(names.new_empty, arguments, 2, nullptr);
        } else {
            // Memory of this package's pool is for the default stream.
            if (call.stream != 0) return py::none();
            made = PyObject_CallOneArg(plan.empty.ptr(), call.arrays[0].object);
        }
        if (made == nullptr) throw py::error_already_set();
        return py::reinterpret_steal<py::object>(made);
    }

    pybind11::object make_, describe_;
    std::unordered_map<std::string, std::shared_ptr<const Plan>> plans_;
    std::deque<std::string> order_;  // the keys, the oldest first
};

}  // namespace coalesce::bindings
