// The functions of the API that are not simulated. Each one prints that it is not simulated (only
// once), and returns an error.
#include <string>

#include "cudart/state/api.hpp"
#include "cudart/state/runtime.hpp"

namespace coalesce::cudart {

namespace {

Error missing(const char* name) {
    return call(name, Waits::no, [&] {
        print_once("coalesce: " + std::string(name) + "() is not simulated");
        runtime().report.missing(name);
        throw Failure{cudaErrorNotSupported};
    });
}

}  // namespace

// The functions do not use their arguments, so they are declared without parameters.
#define MISSING(name) \
    CUDART(name)() { return missing(#name); }
#include "cudart/runtime/missing.inc"
#undef MISSING

}  // namespace coalesce::cudart
