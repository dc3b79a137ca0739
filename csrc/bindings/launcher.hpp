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
// Other libraries are never imported. Their arrays are recognized by the module of their type, and
// only public attributes are used. The launch uses the requested stream, or the current stream of
// the arrays' library. If two different streams are involved, the fallback handles the call.
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
#include "bindings/known_types.hpp"
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
    cuda::Geometry geometry;
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

// The names of attributes. They are interned once.
struct Names {
    PyObject* address = PyUnicode_InternFromString("_address");
    PyObject* code = PyUnicode_InternFromString("_code");
    PyObject* ordinal = PyUnicode_InternFromString("_ordinal");
    PyObject* generation = PyUnicode_InternFromString("_generation");
    PyObject* data = PyUnicode_InternFromString("data");
    PyObject* ptr = PyUnicode_InternFromString("ptr");
    PyObject* device_id = PyUnicode_InternFromString("device_id");
    PyObject* dtype = PyUnicode_InternFromString("dtype");
    PyObject* c_contiguous = PyUnicode_InternFromString("_c_contiguous");
    PyObject* is_cuda = PyUnicode_InternFromString("is_cuda");
    PyObject* data_ptr = PyUnicode_InternFromString("data_ptr");
    PyObject* is_contiguous = PyUnicode_InternFromString("is_contiguous");
    PyObject* get_device = PyUnicode_InternFromString("get_device");

    static const Names& get() {
        static const auto* names = new Names;
        return *names;
    }
};

// A reference that this object owns until the end of the scope. It is null after a failed call.
class Owned {
  public:
    explicit Owned(PyObject* object) : object_(object) {}
    ~Owned() { Py_XDECREF(object_); }
    Owned(const Owned&) = delete;
    Owned& operator=(const Owned&) = delete;
    explicit operator bool() const { return object_ != nullptr; }
    [[nodiscard]] PyObject* get() const { return object_; }

  private:
    PyObject* object_;
};

inline bool as_unsigned(PyObject* object, uint64_t& value) {
    if (object == nullptr || !PyLong_Check(object)) return false;
    value = PyLong_AsUnsignedLongLong(object);
    return value != static_cast<uint64_t>(-1) || PyErr_Occurred() == nullptr;
}

inline bool attribute(PyObject* object, PyObject* name, uint64_t& value) {
    const Owned result(PyObject_GetAttr(object, name));
    return as_unsigned(result.get(), value);
}

// The properties of a GPU array of any library that a launch needs.
struct GpuArray {
    uint64_t address = 0;
    uint64_t ordinal = 0;
    ScalarMask mask = 0;
};

// Reads an attribute in __slots__ of DeviceArray directly from the place where Python stores it.
// This takes a quarter of the time of a look-up by name.
class Slot {
  public:
    Slot(PyTypeObject* type, PyObject* name) : name_(name) {
        const Owned descriptor(PyObject_GetAttr(reinterpret_cast<PyObject*>(type), name));
        PyErr_Clear();
        if (!descriptor || !Py_IS_TYPE(descriptor.get(), &PyMemberDescr_Type)) return;
        const PyMemberDef* member =
            reinterpret_cast<const PyMemberDescrObject*>(descriptor.get())->d_member;
        if (member->type == T_OBJECT_EX) offset_ = member->offset;
    }
    bool read(PyObject* object, uint64_t& value) const {
        if (offset_ == 0) return attribute(object, name_, value);
        return as_unsigned(*reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + offset_),
                           value);
    }

  private:
    PyObject* name_;
    Py_ssize_t offset_ = 0;  // 0 if the attribute is not such a slot
};

// The attributes of a DeviceArray that a launch reads.
struct DeviceArraySlots {
    Slot address, code, ordinal, generation;

    // `type` is the class DeviceArray, also in later calls.
    static const DeviceArraySlots& get(PyTypeObject* type) {
        static const auto* slots = new DeviceArraySlots{{type, Names::get().address},
                                                        {type, Names::get().code},
                                                        {type, Names::get().ordinal},
                                                        {type, Names::get().generation}};
        return *slots;
    }
};

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
    const Names& names = Names::get();
    const Owned contiguous(PyObject_GetAttr(array, names.c_contiguous));
    if (contiguous.get() != Py_True) return false;
    const Owned data(PyObject_GetAttr(array, names.data));
    const Owned dtype(PyObject_GetAttr(array, names.dtype));
    if (!data || !dtype || !attribute(data.get(), names.ptr, gpu_array.address)) return false;
    gpu_array.mask = KnownTypes::get().mask_of(dtype.get());
    return plan.one_gpu || attribute(data.get(), names.device_id, gpu_array.ordinal);
}

inline bool read_torch_tensor(PyObject* tensor, const LaunchPlan& plan, GpuArray& gpu_array) {
    const Names& names = Names::get();
    const Owned on_gpu(PyObject_GetAttr(tensor, names.is_cuda));
    if (on_gpu.get() != Py_True) return false;
    const Owned contiguous(PyObject_CallMethodNoArgs(tensor, names.is_contiguous));
    if (contiguous.get() != Py_True) return false;
    const Owned address(PyObject_CallMethodNoArgs(tensor, names.data_ptr));
    const Owned dtype(PyObject_GetAttr(tensor, names.dtype));
    if (!dtype || !as_unsigned(address.get(), gpu_array.address)) return false;
    gpu_array.mask = KnownTypes::get().mask_of(dtype.get());
    if (plan.one_gpu) return true;
    const Owned device(PyObject_CallMethodNoArgs(tensor, names.get_device));
    return as_unsigned(device.get(), gpu_array.ordinal);
}

// Sets `stream` to the handle of a library's current stream. The handle 0 is the legacy default
// stream, for which libraries also use 1.
inline bool current_stream(KnownTypes::Kind library, int ordinal, uint64_t& stream) {
    static PyObject* of_cupy = nullptr;
    static PyObject* of_torch = nullptr;
    PyObject*& function = library == KnownTypes::Kind::cupy ? of_cupy : of_torch;
    if (function == nullptr) {
        PyObject* modules = PyImport_GetModuleDict();
        if (library == KnownTypes::Kind::cupy) {
            PyObject* module = PyDict_GetItemString(modules, "cupy.cuda");
            if (module != nullptr) function = PyObject_GetAttrString(module, "get_current_stream");
        } else {
            PyObject* module = PyDict_GetItemString(modules, "torch._C");
            if (module != nullptr)
                function = PyObject_GetAttrString(module, "_cuda_getCurrentRawStream");
        }
        if (function == nullptr) return false;
    }
    if (library == KnownTypes::Kind::cupy) {
        const Owned result(PyObject_CallNoArgs(function));
        if (!result || !attribute(result.get(), Names::get().ptr, stream)) return false;
    } else {
        const Owned number(PyLong_FromLong(ordinal));
        const Owned result(PyObject_CallOneArg(function, number.get()));
        if (!as_unsigned(result.get(), stream)) return false;
    }
    if (stream == 1) stream = 0;
    return true;
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
        cuda::launch(*plan.function, plan.geometry, pointers,
                     reinterpret_cast<cuda::Stream>(stream));
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
