// Functions that return errors.
#include "cudart/state/api.hpp"
#include "cudart/state/runtime.hpp"

namespace coalesce::cudart {

EXPORTED Error cudaGetLastError() {
    const std::lock_guard guard(runtime().lock);
    return take_last_error(true);
}

EXPORTED Error cudaPeekAtLastError() {
    const std::lock_guard guard(runtime().lock);
    return take_last_error(false);
}

EXPORTED const char* cudaGetErrorName(Error error) { return name_of(error); }

EXPORTED const char* cudaGetErrorString(Error error) {
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
