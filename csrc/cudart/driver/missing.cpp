// The functions of the driver API that are not simulated. Each one prints that it is not simulated
// (only once), and returns an error.
#include <string>

#include "cudart/driver/driver.hpp"
#include "cudart/state/runtime.hpp"

namespace coalesce::cudart {

namespace {

DriverError driver_missing(const char* name) {
    return driver_call(name, Needs::nothing, Waits::no, [&] {
        print_once("coalesce: " + std::string(called(name)) + "() is not simulated");
        runtime().report.missing(called(name));
        throw Failure{cudaErrorNotSupported};
    });
}

}  // namespace

// The functions do not use their arguments, so they are declared without parameters.
#define MISSING(name) \
    CUDRIVER(name)() { return driver_missing(#name); }
#include "cudart/driver/missing.inc"
#undef MISSING

}  // namespace coalesce::cudart
