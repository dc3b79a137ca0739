// Functions that return errors.
#include "cudart/api.hpp"
#include "cudart/runtime.hpp"

namespace coalesce::cudart {

CUDART(cudaGetLastError)() {
    const std::lock_guard guard(detail::lock());
    return take_last_error(true);
}

CUDART(cudaPeekAtLastError)() {
    const std::lock_guard guard(detail::lock());
    return take_last_error(false);
}

extern "C" __attribute__((visibility("default"))) const char* cudaGetErrorName(Error error) {
    return name_of(error);
}

extern "C" __attribute__((visibility("default"))) const char* cudaGetErrorString(Error error) {
    switch (error) {
#define E(name, number, text) \
    case name:                \
        return text;
#include "cudart/errors.inc"
#undef E
    }
    return "unrecognized error code";
}

}  // namespace coalesce::cudart
