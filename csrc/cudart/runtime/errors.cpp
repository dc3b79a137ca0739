// Functions that return errors.
#include "cudart/state/api.hpp"
#include "cudart/state/runtime.hpp"

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
#include "cudart/runtime/errors.inc"
#undef E
    }
    return "unrecognized error code";
}

}  // namespace coalesce::cudart
