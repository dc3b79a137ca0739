// `kernel[grid, block]` on a GPU: a callable that turns Python arguments into a launch.
//
// METHOD
// The driver needs about 2 microseconds for a launch. The code that prepares the launch should not
// need much more. Therefore a Launcher is a plain C type with the vectorcall protocol. It handles
// only the common case. Each array is a DeviceArray, a CuPy array or a PyTorch tensor on this GPU
// with the type of its parameter. Each scalar has exactly the type of its parameter. In all other
// cases, the launcher passes the whole call to `fallback`. This Python function copies and converts
// arguments and explains errors. It can do so because nothing has been launched yet.
//
// The launch uses the requested stream, or the current stream of the arrays' library. If two
// different streams are involved, the fallback handles the call.
#pragma once

#include <pybind11/pybind11.h>
#include <structmember.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/gil.hpp"
#include "bindings/gpu_arrays.hpp"
#include "bindings/scalars.hpp"
#include "cuda/launch/launch.hpp"
#include "errors.hpp"

namespace coalesce::bindings {

// One parameter of a kernel.
struct LauncherParameter {
    bool pointer = false;
    // The types that are accepted for this parameter: for a pointer, types of array elements; for a
    // scalar, its type. For a scalar, 0 means that the fallback must handle it.
    ScalarMask accepted = 0;
};

// All that a launcher knows before it is called.
struct LaunchPlan {
    std::shared_ptr<cuda::Function> function;
    Launch launch;
    std::vector<LauncherParameter> parameters;
    // The requested stream. If there is none, the launcher uses the current stream of the arrays'
    // library.
    std::optional<uint64_t> stream;
    bool one_gpu = true;  // whether the process has only one GPU, which holds all arrays
};

// The Python object of a launcher.
struct LauncherObject {
    PyObject_HEAD vectorcallfunc vectorcall;
    LaunchPlan* plan;
    PyObject* fallback;
};

namespace launcher {

inline bool read_device_array(PyObject* array, const LaunchPlan& plan, GpuArray& gpu_array) {
    const DeviceArraySlots& slots = DeviceArraySlots::get(Py_TYPE(array));
    uint64_t code = 0, generation = 0;
    if (!slots.address.read(array, gpu_array.address) || !slots.code.read(array, code) ||
        !slots.generation.read(array, generation))
        return false;
    if (generation != plan.function->device().generation()) return false;
    gpu_array.mask = ScalarMask{1} << code;
    return plan.one_gpu || slots.ordinal.read(array, gpu_array.ordinal);
}

inline bool read_cupy_array(PyObject* array, const LaunchPlan& plan, GpuArray& gpu_array) {
    const Owned contiguous(PyObject_GetAttr(array, Names::get().c_contiguous));
    return contiguous.get() == Py_True && read_cupy_memory(array, !plan.one_gpu, gpu_array);
}

inline bool read_torch_tensor(PyObject* tensor, const LaunchPlan& plan, GpuArray& gpu_array) {
    const Owned contiguous(PyObject_CallMethodNoArgs(tensor, Names::get().is_contiguous));
    return contiguous.get() == Py_True && read_torch_memory(tensor, !plan.one_gpu, gpu_array);
}

template <class Integer>
bool store_integer(PyObject* number, void* value) {
    int overflow = 0;
    const long long wide = PyLong_AsLongLongAndOverflow(number, &overflow);
    if (overflow != 0 || !std::in_range<Integer>(wide)) return false;
    const auto narrow = static_cast<Integer>(wide);
    std::memcpy(value, &narrow, sizeof(narrow));
    return true;
}

// Stores a scalar of exactly the parameter's type. Returns false if the fallback must handle it.
inline bool store_scalar(PyObject* argument, ScalarMask accepted, void* value) {
    constexpr size_t sizes[scalar_names.size()] = {1, 1, 1, 2, 2, 2, 2, 4, 4, 4, 8, 8, 8, 8, 16};
    if (accepted == 0 || (accepted & (accepted - 1)) != 0) return false;
    const int code = __builtin_ctz(accepted);
    const std::string_view name = scalar_names[static_cast<size_t>(code)];
    const PyTypeObject* type = Py_TYPE(argument);
    if (type == &PyLong_Type) {
        if (name == "i4") return store_integer<int32_t>(argument, value);
        if (name == "u4") return store_integer<uint32_t>(argument, value);
        if (name == "i8") return store_integer<int64_t>(argument, value);
        return false;
    }
    if (type == &PyFloat_Type) {
        const double wide = PyFloat_AS_DOUBLE(argument);
        if (name == "f8") {
            std::memcpy(value, &wide, sizeof(wide));
            return true;
        }
        const auto narrow = static_cast<float>(wide);
        if (name != "f4" || !(std::abs(wide) <= std::numeric_limits<float>::max())) return false;
        std::memcpy(value, &narrow, sizeof(narrow));
        return true;
    }
    // According to NumPy's public header, a NumPy scalar consists of an object header and the
    // value.
    if (sizes[code] > 8 || KnownTypes::get().numpy_scalar(type) != code) return false;
    std::memcpy(value, reinterpret_cast<const char*>(argument) + sizeof(PyObject), sizes[code]);
    return true;
}

// Fills `values` and `stream`. Returns false, without a Python error, if the fallback must handle
// the call.
inline bool marshal(const LaunchPlan& plan, PyObject* const* arguments, uint64_t* values,
                    uint64_t& stream) {
    using Kind = KnownTypes::Kind;
    const auto ordinal = static_cast<uint64_t>(plan.function->device().ordinal());
    bool kinds[4] = {};
    for (size_t i = 0; i < plan.parameters.size(); ++i) {
        const LauncherParameter& parameter = plan.parameters[i];
        if (!parameter.pointer) {
            if (!store_scalar(arguments[i], parameter.accepted, &values[i])) return false;
            continue;
        }
        const Kind kind = KnownTypes::get().kind_of(Py_TYPE(arguments[i]));
        GpuArray gpu_array;
        gpu_array.ordinal = ordinal;
        bool fits = false;
        if (kind == Kind::device_array) fits = read_device_array(arguments[i], plan, gpu_array);
        if (kind == Kind::cupy) fits = read_cupy_array(arguments[i], plan, gpu_array);
        if (kind == Kind::torch) fits = read_torch_tensor(arguments[i], plan, gpu_array);
        if (!fits || (gpu_array.mask & parameter.accepted) == 0 || gpu_array.ordinal != ordinal)
            return false;
        values[i] = gpu_array.address;
        kinds[static_cast<size_t>(kind)] = true;
    }
    const bool cupy = kinds[static_cast<size_t>(Kind::cupy)];
    const bool torch = kinds[static_cast<size_t>(Kind::torch)];
    uint64_t second = 0;
    if (cupy && !current_stream(Kind::cupy, static_cast<int>(ordinal), stream)) return false;
    if (torch && !current_stream(Kind::torch, static_cast<int>(ordinal), second)) return false;
    if (cupy && torch && stream != second) return false;
    if (torch) stream = second;
    if (plan.stream) {
        // The requested stream must wait for the arrays' stream. The fallback does this.
        if ((cupy || torch) && stream != *plan.stream) return false;
        stream = *plan.stream;
    }
    return !(kinds[static_cast<size_t>(Kind::device_array)] && stream != 0);
}

inline PyObject* raise(const char* type, const char* message) {
    try {
        const pybind11::object error = pybind11::module_::import("coalesce._core").attr(type);
        PyErr_SetString(error.ptr(), message);
    } catch (pybind11::error_already_set& failure) {
        failure.restore();
    }
    return nullptr;
}

inline PyObject* call(PyObject* self, PyObject* const* arguments, size_t count, PyObject* names) {
    // The largest number of parameters. Kernels with more parameters use the fallback.
    constexpr size_t most = 64;
    const auto* launcher = reinterpret_cast<LauncherObject*>(self);
    const LaunchPlan& plan = *launcher->plan;
    const size_t passed = static_cast<size_t>(PyVectorcall_NARGS(count));
    uint64_t values[most];
    void* pointers[most];
    uint64_t stream = 0;
    if (names != nullptr || passed != plan.parameters.size() || passed > most ||
        !marshal(plan, arguments, values, stream)) {
        PyErr_Clear();
        return PyObject_Vectorcall(launcher->fallback, arguments, count, names);
    }
    for (size_t i = 0; i < passed; ++i) pointers[i] = &values[i];
    std::string failure;
    const char* type = nullptr;
    try {
        const ReleasedGil released;
        cuda::launch(*plan.function, plan.launch, pointers, reinterpret_cast<cuda::Stream>(stream));
    } catch (const CompileError& error) {
        type = "CompileError";
        failure = error.what();
    } catch (const std::exception& error) {
        type = "LaunchError";
        failure = error.what();
    }
    if (type != nullptr) return raise(type, failure.c_str());
    Py_RETURN_NONE;
}

inline void destroy(PyObject* self) {
    auto* launcher = reinterpret_cast<LauncherObject*>(self);
    PyTypeObject* type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    delete launcher->plan;
    Py_CLEAR(launcher->fallback);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

inline int traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(reinterpret_cast<LauncherObject*>(self)->fallback);
    return 0;
}

inline int clear(PyObject* self) {
    Py_CLEAR(reinterpret_cast<LauncherObject*>(self)->fallback);
    return 0;
}

inline PyTypeObject* type() {
    static PyTypeObject* const made = [] {
        static PyMemberDef members[] = {{"__vectorcalloffset__", T_PYSSIZET,
                                         offsetof(LauncherObject, vectorcall), READONLY, nullptr},
                                        {}};
        static PyType_Slot slots[] = {
            {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
            {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
            {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
            {Py_tp_clear, reinterpret_cast<void*>(clear)},
            {Py_tp_members, members},
            {Py_tp_doc, const_cast<char*>("A kernel bound to a GPU, a grid and a block.")},
            {}};
        static PyType_Spec spec = {"coalesce._core.cuda.Launcher", sizeof(LauncherObject), 0,
                                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL |
                                       Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                   slots};
        return reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
    }();
    return made;
}

// Returns true if the key of kernel[key] is a tuple whose elements are ints or tuples of ints. The
// types must be exactly int and tuple. Keys with other types could be equal to such a key, because
// True == 1 and 1.0 == 1.
inline bool is_plain(PyObject* key) {
    if (!PyTuple_CheckExact(key)) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i) {
        PyObject* const item = PyTuple_GET_ITEM(key, i);
        if (PyLong_CheckExact(item)) continue;
        if (!PyTuple_CheckExact(item)) return false;
        for (Py_ssize_t j = 0; j < PyTuple_GET_SIZE(item); ++j)
            if (!PyLong_CheckExact(PyTuple_GET_ITEM(item, j))) return false;
    }
    return true;
}

// Implements the Python function bound(launchers, key, make). It returns launchers[key] if the key
// is plain and in the dict. Otherwise it returns make(key), and stores this result in the dict if
// the key is plain.
inline PyObject* bound(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
    if (count != 3 || !PyDict_Check(arguments[0])) {
        PyErr_SetString(PyExc_TypeError, "bound takes a dict, a key and a function");
        return nullptr;
    }
    PyObject *const launchers = arguments[0], *const key = arguments[1];
    const bool plain = is_plain(key);
    PyObject* const launcher = plain ? PyDict_GetItemWithError(launchers, key) : nullptr;
    if (launcher != nullptr) return Py_NewRef(launcher);
    if (PyErr_Occurred() != nullptr) return nullptr;
    PyObject* const made = PyObject_CallOneArg(arguments[2], key);
    if (made != nullptr && plain && PyDict_SetItem(launchers, key, made) != 0) {
        Py_DECREF(made);
        return nullptr;
    }
    return made;
}

}  // namespace launcher

// Adds the function `bound`. A function of pybind11 would take longer than the look-up.
inline void add_bound(pybind11::module_& m) {
    static PyMethodDef functions[] = {
        {"bound", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(launcher::bound)),
         METH_FASTCALL, "bound(launchers, key, make) -> launchers[key] or make(key)."},
        {}};
    if (PyModule_AddFunctions(m.ptr(), functions) != 0) throw pybind11::error_already_set();
}

// Makes a callable. If a parameter's value does not fit in 8 bytes, its `accepted` must be 0.
inline pybind11::object make_launcher(LaunchPlan plan, pybind11::object fallback) {
    PyTypeObject* type = launcher::type();
    if (type == nullptr) throw pybind11::error_already_set();
    auto* made = PyObject_GC_New(LauncherObject, type);
    if (made == nullptr) throw pybind11::error_already_set();
    made->vectorcall = launcher::call;
    made->plan = new LaunchPlan(std::move(plan));
    made->fallback = fallback.release().ptr();
    PyObject_GC_Track(reinterpret_cast<PyObject*>(made));
    return pybind11::reinterpret_steal<pybind11::object>(reinterpret_cast<PyObject*>(made));
}

}  // namespace coalesce::bindings
