// Classifies Python types: arrays in GPU memory, NumPy scalars, dtypes. Each type is looked up
// once.
#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bindings/scalars.hpp"

namespace coalesce::bindings {

// A cache of what the launcher knows about Python types. It lives as long as the process.
class KnownTypes {
  public:
    enum class Kind : uint8_t { other, device_array, cupy, torch, numpy };

    static KnownTypes& get() {
        // The cache is never destroyed, because the interpreter may end later.
        static auto* types = new KnownTypes;
        return *types;
    }

    void add_numpy_scalar(PyTypeObject* type, int code) { scalars_.push_back({type, code}); }
    void set_device_array(PyTypeObject* type) { arrays_.push_back({type, Kind::device_array}); }

    // Returns the code of the element type of a NumPy scalar class, or -1 if it is another class.
    [[nodiscard]] int numpy_scalar(const PyTypeObject* type) const {
        for (const auto& [known, code] : scalars_)
            if (known == type) return code;
        return -1;
    }

    Kind kind_of(PyTypeObject* type) {
        for (const auto& [known, kind] : arrays_)
            if (known == type) return kind;
        const auto module = pybind11::reinterpret_steal<pybind11::object>(
            PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__module__"));
        PyErr_Clear();
        Kind kind = Kind::other;
        if (module && PyUnicode_Check(module.ptr())) {
            const auto name = pybind11::cast<std::string>(module);
            if (name.rfind("cupy", 0) == 0) kind = Kind::cupy;
            if (name == "numpy" || name.rfind("numpy.", 0) == 0) kind = Kind::numpy;
            if (name == "torch" || name.rfind("torch.nn.parameter", 0) == 0) kind = Kind::torch;
        }
        Py_INCREF(type);
        arrays_.push_back({type, kind});
        return kind;
    }

    // Returns the mask of a dtype object of NumPy or torch. The text of the object names the type:
    // "float32", "torch.float32".
    ScalarMask mask_of(PyObject* dtype) {
        for (const auto& [known, mask] : dtypes_)
            if (known == dtype) return mask;
        std::string name = pybind11::str(pybind11::handle(dtype));
        if (const size_t dot = name.find('.'); dot != std::string::npos) name.erase(0, dot + 1);
        static constexpr std::pair<std::string_view, std::string_view> names[] = {
            {"bool", "b1"},    {"int8", "i1"},      {"uint8", "u1"},      {"int16", "i2"},
            {"uint16", "u2"},  {"float16", "f2"},   {"bfloat16", "V2"},   {"int32", "i4"},
            {"uint32", "u4"},  {"float32", "f4"},   {"int64", "i8"},      {"uint64", "u8"},
            {"float64", "f8"}, {"complex64", "c8"}, {"complex128", "c16"}};
        ScalarMask mask = 0;
        for (const auto& [text, code] : names)
            if (text == name) mask = scalar_bit(code);
        if (dtypes_.size() < 64) {
            Py_INCREF(dtype);
            dtypes_.push_back({dtype, mask});
        }
        return mask;
    }

  private:
    std::vector<std::pair<const PyTypeObject*, int>> scalars_;
    std::vector<std::pair<const PyTypeObject*, Kind>> arrays_;
    std::vector<std::pair<PyObject*, ScalarMask>> dtypes_;
};

}  // namespace coalesce::bindings
