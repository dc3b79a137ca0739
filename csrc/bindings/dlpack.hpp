// DLPack is a protocol with which libraries exchange arrays without a copy. This file has the
// structures of its C interface (version 1), and the functions that export and import arrays.
// https://dmlc.github.io/dlpack/latest/c_api.html
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace coalesce::bindings::dlpack {

enum DeviceType : int32_t { cpu = 1, cuda = 2, cuda_host = 3, cuda_managed = 13 };
enum TypeCode : uint8_t {
    integer = 0,
    unsigned_integer = 1,
    real = 2,
    bfloat = 4,
    complex = 5,
    boolean = 6
};

// The structures of DLPack: DLDevice, DLDataType, DLTensor and DLManagedTensor(Versioned).
struct Device {
    int32_t type;
    int32_t id;
};

struct DataType {
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
};

struct Tensor {
    void* data;
    Device device;
    int32_t dimensions;
    DataType dtype;
    int64_t* shape;
    int64_t* strides;  // in elements; null means C order
    uint64_t byte_offset;
};

struct ManagedTensor {  // the structure before version 1; the capsule is named "dltensor"
    Tensor tensor;
    void* context;
    void (*deleter)(ManagedTensor*);
};

struct ManagedTensorVersioned {  // the capsule is named "dltensor_versioned"
    uint32_t major;
    uint32_t minor;
    void* context;
    void (*deleter)(ManagedTensorVersioned*);
    uint64_t flags;  // bit 0 means read-only
    Tensor tensor;
};

// Returns the element type of a NumPy typestr without byte order: {real, 32, 1} for "f4".
inline DataType data_type(std::string_view name) {
    const auto bits = static_cast<uint8_t>(8 * std::stoi(std::string(name.substr(1))));
    switch (name.front()) {
        case 'b':
            return {boolean, bits, 1};
        case 'i':
            return {integer, bits, 1};
        case 'u':
            return {unsigned_integer, bits, 1};
        case 'c':
            return {complex, bits, 1};
        case 'V':
            return {bfloat, bits, 1};
        default:
            return {real, bits, 1};
    }
}

// Returns the name that data_type() would read. It is empty if NumPy has no such type.
inline std::string type_name(DataType type) {
    if (type.lanes != 1 || type.bits % 8 != 0) return {};
    const std::string bytes = std::to_string(type.bits / 8);
    switch (type.code) {
        case boolean:
            return "b" + bytes;
        case integer:
            return "i" + bytes;
        case unsigned_integer:
            return "u" + bytes;
        case real:
            return "f" + bytes;
        case complex:
            return "c" + bytes;
        case bfloat:
            return "V" + bytes;
        default:
            return {};
    }
}

// The objects that an exported tensor keeps alive: its Python array, and its shape.
struct Export {
    pybind11::object owner;
    std::vector<int64_t> shape;
    std::vector<int64_t> strides;
};

template <class Managed>
void drop(Managed* managed) {
    if (Py_IsInitialized()) {
        const pybind11::gil_scoped_acquire gil;
        delete static_cast<Export*>(managed->context);
    }
    delete managed;
}

template <class Managed>
pybind11::capsule wrap(pybind11::object owner, uint64_t address, std::vector<int64_t> shape,
                       std::string_view dtype, int ordinal, const char* name) {
    auto kept = std::make_unique<Export>();
    kept->owner = std::move(owner);
    kept->strides.resize(shape.size());
    int64_t stride = 1;
    for (size_t i = shape.size(); i-- > 0; stride *= shape[i]) kept->strides[i] = stride;
    kept->shape = std::move(shape);
    auto managed = std::make_unique<Managed>();
    managed->tensor = {reinterpret_cast<void*>(address),
                       {cuda, ordinal},
                       static_cast<int32_t>(kept->shape.size()),
                       data_type(dtype),
                       kept->shape.data(),
                       kept->strides.data(),
                       0};
    managed->context = kept.release();
    managed->deleter = drop<Managed>;
    // A consumer renames the capsule. After that, the consumer calls the deleter itself.
    return pybind11::reinterpret_steal<pybind11::capsule>(
        PyCapsule_New(managed.release(), name, [](PyObject* capsule) {
            for (const char* unused : {"dltensor", "dltensor_versioned"})
                if (PyCapsule_IsValid(capsule, unused)) {
                    auto* tensor = static_cast<Managed*>(PyCapsule_GetPointer(capsule, unused));
                    tensor->deleter(tensor);
                    return;
                }
        }));
}

inline pybind11::capsule export_array(pybind11::object owner, uint64_t address,
                                      std::vector<int64_t> shape, std::string_view dtype,
                                      int ordinal, bool versioned) {
    if (!versioned)
        return wrap<ManagedTensor>(std::move(owner), address, std::move(shape), dtype, ordinal,
                                   "dltensor");
    pybind11::capsule capsule = wrap<ManagedTensorVersioned>(
        std::move(owner), address, std::move(shape), dtype, ordinal, "dltensor_versioned");
    auto* managed = static_cast<ManagedTensorVersioned*>(
        PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned"));
    managed->major = 1;
    managed->minor = 0;
    managed->flags = 0;
    return capsule;
}

// Reads the capsule of another library (the producer). Returns a dict: address, shape, strides
// (bytes or None), dtype ("f4"), device (type, id), read_only. The caller must keep the producer's
// array alive. This function does not change the capsule. The capsule's own destructor releases its
// contents.
inline pybind11::dict import_array(const pybind11::object& capsule) {
    namespace py = pybind11;
    const Tensor* tensor = nullptr;
    bool read_only = false;
    if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned")) {
        const auto* managed = static_cast<ManagedTensorVersioned*>(
            PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned"));
        if (managed->major != 1)
            throw py::value_error("DLPack version " + std::to_string(managed->major) +
                                  " is not supported; version 1 is needed");
        tensor = &managed->tensor;
        read_only = (managed->flags & 1) != 0;
    } else if (PyCapsule_IsValid(capsule.ptr(), "dltensor")) {
        tensor =
            &static_cast<ManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"))->tensor;
    } else {
        throw py::type_error(
            "the method __dlpack__ of an argument did not return a DLPack capsule");
    }
    py::list shape, strides;
    for (int32_t i = 0; i < tensor->dimensions; ++i) {
        shape.append(tensor->shape[i]);
        if (tensor->strides != nullptr)
            strides.append(tensor->strides[i] * (tensor->dtype.bits / 8));
    }
    py::dict result;
    result["address"] = reinterpret_cast<uint64_t>(tensor->data) + tensor->byte_offset;
    result["shape"] = py::tuple(shape);
    result["strides"] = tensor->strides != nullptr ? py::object(py::tuple(strides)) : py::none();
    result["dtype"] = type_name(tensor->dtype);
    result["device"] = py::make_tuple(tensor->device.type, tensor->device.id);
    result["read_only"] = read_only;
    return result;
}

}  // namespace coalesce::bindings::dlpack
