// Reads arrays in GPU memory: those of this package, of CuPy and of PyTorch.
//
// Other libraries are never imported. Their arrays are recognized by the module of their type, and
// only public attributes are used. All functions return false if an array cannot be read. Then a
// Python error may be set, which the caller clears.
#pragma once

#include <pybind11/pybind11.h>
#include <structmember.h>

#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include "bindings/known_types.hpp"
#include "bindings/scalars.hpp"

namespace coalesce::bindings {

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
    PyObject* shape = PyUnicode_InternFromString("shape");
    PyObject* strides = PyUnicode_InternFromString("strides");
    PyObject* stride = PyUnicode_InternFromString("stride");
    PyObject* new_empty = PyUnicode_InternFromString("new_empty");
    PyObject* stream = PyUnicode_InternFromString("stream");
    PyObject* read_only = PyUnicode_InternFromString("read_only");
    PyObject* description_address = PyUnicode_InternFromString("address");
    PyObject* description_code = PyUnicode_InternFromString("code");
    PyObject* description_ordinal = PyUnicode_InternFromString("ordinal");
    PyObject* name = PyUnicode_InternFromString("name");
    PyObject* c = PyUnicode_InternFromString("c");
    PyObject* out = PyUnicode_InternFromString("out");

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

// Reads the address, the element type and, if `with_ordinal`, the number of the GPU.
inline bool read_cupy_memory(PyObject* array, bool with_ordinal, GpuArray& gpu_array) {
    const Names& names = Names::get();
    const Owned data(PyObject_GetAttr(array, names.data));
    const Owned dtype(PyObject_GetAttr(array, names.dtype));
    if (!data || !dtype || !attribute(data.get(), names.ptr, gpu_array.address)) return false;
    gpu_array.mask = KnownTypes::get().mask_of(dtype.get());
    return !with_ordinal || attribute(data.get(), names.device_id, gpu_array.ordinal);
}

inline bool read_torch_memory(PyObject* tensor, bool with_ordinal, GpuArray& gpu_array) {
    const Names& names = Names::get();
    const Owned on_gpu(PyObject_GetAttr(tensor, names.is_cuda));
    if (on_gpu.get() != Py_True) return false;
    const Owned address(PyObject_CallMethodNoArgs(tensor, names.data_ptr));
    const Owned dtype(PyObject_GetAttr(tensor, names.dtype));
    if (!dtype || !as_unsigned(address.get(), gpu_array.address)) return false;
    gpu_array.mask = KnownTypes::get().mask_of(dtype.get());
    if (!with_ordinal) return true;
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

// Returns a type of a library that is already imported, or null with a Python error. The result
// is a borrowed reference to an object that is never freed.
inline PyObject* library_type(const char* module, const char* name) {
    PyObject* const imported = PyDict_GetItemString(PyImport_GetModuleDict(), module);
    static PyObject* found = nullptr;  // there is one library: CuPy
    if (found == nullptr && imported != nullptr) found = PyObject_GetAttrString(imported, name);
    return found;
}

// The layout of an array with at most two dimensions.
struct BoundArray : GpuArray {
    KnownTypes::Kind kind = KnownTypes::Kind::other;
    PyObject* object = nullptr;  // a borrowed reference
    uint32_t dimensions = 0;
    std::array<int64_t, 2> shape{}, strides{};  // the strides are in bytes
    bool c_contiguous = false, read_only = false;
    uint64_t stream = 0;                 // only of the description of an array of another library
    std::optional<uint64_t> generation;  // only of a DeviceArray

    [[nodiscard]] int64_t item() const {
        static const ScalarMask real64 = scalar_bit("f8");
        return (mask & real64) != 0 ? 8 : 4;
    }
    [[nodiscard]] int64_t elements() const {
        int64_t count = 1;
        for (uint32_t i = 0; i < dimensions; ++i) count *= shape[i];
        return count;
    }
    // Returns the address of the first byte, and the address after the last byte.
    [[nodiscard]] std::pair<uint64_t, uint64_t> span() const {
        int64_t low = 0, high = item();
        for (uint32_t i = 0; i < dimensions; ++i) {
            const int64_t reach = (shape[i] - 1) * strides[i];
            (reach < 0 ? low : high) += reach;
        }
        return {address + static_cast<uint64_t>(low), address + static_cast<uint64_t>(high)};
    }
    // Sets the strides of an array in C order, without gaps.
    void set_c_strides() {
        int64_t step = item();
        for (uint32_t i = dimensions; i-- > 0; step *= shape[i]) strides[i] = step;
        c_contiguous = true;
    }
    // Sets `c_contiguous` from the strides.
    void compare_strides() {
        int64_t step = item();
        c_contiguous = true;
        for (uint32_t i = dimensions; i-- > 0; step *= shape[i])
            c_contiguous = c_contiguous && (shape[i] == 1 || strides[i] == step);
    }
};

// Reads a tuple of at most two integers.
inline bool read_extents(PyObject* tuple, std::array<int64_t, 2>& values, uint32_t& count,
                         int64_t unit = 1) {
    if (tuple == nullptr || !PyTuple_Check(tuple) || PyTuple_GET_SIZE(tuple) > 2) return false;
    count = static_cast<uint32_t>(PyTuple_GET_SIZE(tuple));
    for (uint32_t i = 0; i < count; ++i) {
        PyObject* const item = PyTuple_GET_ITEM(tuple, i);
        if (!PyLong_Check(item)) return false;
        values[i] = PyLong_AsLongLong(item) * unit;
        if (PyErr_Occurred() != nullptr) return false;
    }
    return true;
}

inline bool bind_device_array(PyObject* object, BoundArray& array) {
    const DeviceArraySlots& slots = DeviceArraySlots::get(Py_TYPE(object));
    uint64_t code = 0, generation = 0;
    // The ordinal of an array of the simulator is -1, which cannot be read as unsigned.
    if (!slots.address.read(object, array.address) || !slots.code.read(object, code) ||
        !slots.generation.read(object, generation) || !slots.ordinal.read(object, array.ordinal))
        return false;
    const Owned shape(PyObject_GetAttr(object, Names::get().shape));
    array.object = object;
    array.generation = generation;
    array.mask = ScalarMask{1} << code;
    if (!read_extents(shape.get(), array.shape, array.dimensions)) return false;
    array.set_c_strides();
    return true;
}

inline bool bind_cupy_array(PyObject* object, BoundArray& array) {
    const Names& names = Names::get();
    array.object = object;
    if (!read_cupy_memory(object, true, array)) return false;
    const Owned shape(PyObject_GetAttr(object, names.shape));
    const Owned contiguous(PyObject_GetAttr(object, names.c_contiguous));
    if (!contiguous || !read_extents(shape.get(), array.shape, array.dimensions)) return false;
    if (contiguous.get() == Py_True) {
        array.set_c_strides();
        return true;
    }
    const Owned strides(PyObject_GetAttr(object, names.strides));
    return read_extents(strides.get(), array.strides, array.dimensions);
}

inline bool bind_torch_tensor(PyObject* object, BoundArray& array) {
    const Names& names = Names::get();
    array.object = object;
    if (!read_torch_memory(object, true, array)) return false;
    const Owned shape(PyObject_GetAttr(object, names.shape));
    const Owned contiguous(PyObject_CallMethodNoArgs(object, names.is_contiguous));
    if (!contiguous || !read_extents(shape.get(), array.shape, array.dimensions)) return false;
    if (contiguous.get() == Py_True) {
        array.set_c_strides();
        return true;
    }
    const Owned strides(PyObject_CallMethodNoArgs(object, names.stride));
    return read_extents(strides.get(), array.strides, array.dimensions, array.item());
}

// Reads the description of an array of another library: a GpuArray (arrays/gpu_array.py).
inline bool bind_description(PyObject* object, PyObject* description, BoundArray& array) {
    const Names& names = Names::get();
    array.object = object;
    const Owned code(PyObject_GetAttr(description, names.description_code));
    const char* const text = code ? PyUnicode_AsUTF8(code.get()) : nullptr;
    const int number = text != nullptr ? scalar_code(text) : -1;
    if (number < 0) return false;
    array.mask = ScalarMask{1} << number;
    const Owned shape(PyObject_GetAttr(description, names.shape));
    const Owned strides(PyObject_GetAttr(description, names.strides));
    const Owned read_only(PyObject_GetAttr(description, names.read_only));
    const Owned stream(PyObject_GetAttr(description, names.stream));
    if (!attribute(description, names.description_address, array.address) ||
        !attribute(description, names.description_ordinal, array.ordinal) ||
        !read_extents(shape.get(), array.shape, array.dimensions) ||
        !read_extents(strides.get(), array.strides, array.dimensions))
        return false;
    array.read_only = read_only.get() != Py_False;
    if (stream.get() != Py_None && !as_unsigned(stream.get(), array.stream)) return false;
    if (array.stream == 1) array.stream = 0;
    array.compare_strides();
    return true;
}

}  // namespace coalesce::bindings
