#include "cudart/driver/driver.hpp"

#include <set>
#include <string>
#include <string_view>

#include "cudart/state/runtime.hpp"

namespace coalesce::cudart {

namespace {

// Returns whether the function loads code or launches kernels. If such a function fails, its error
// code says little, and most programs then end. So the reason is printed even without --check.
bool concerns_code(std::string_view function) {
    for (const std::string_view start :
         {"cuLaunch", "cuModule", "cuLibrary", "cuLink", "cuKernel", "cuFunc"})
        if (function.starts_with(start)) return true;
    return false;
}

}  // namespace

DriverError driver_error(Error error) {
    switch (int(error)) {
        case cudaErrorInvalidSymbol:
            return cudaErrorSymbolNotFound;
        case cudaErrorInvalidDeviceFunction:
            return cudaErrorInvalidResourceHandle;
#define D(name, number) case number:
#include "cudart/driver/errors.inc"
#undef D
            return error;
        default:
            return cudaErrorInvalidValue;
    }
}

namespace detail {

void check(Needs needs) {
    const Contexts& contexts = runtime().contexts;
    if (needs == Needs::nothing) return;
    require(contexts.initialized, cudaErrorInitializationError, "cuInit() was not called before");
    if (needs == Needs::initialization) return;
    require(Contexts::current(), cudaErrorDeviceUninitialized,
            "no context is current in this host thread; cuCtxCreate() and cuCtxSetCurrent() make "
            "one current");
    require(Contexts::current()->active, cudaErrorContextIsDestroyed,
            "the current context was destroyed");
}

}  // namespace detail

namespace {

// Returns "cuMemAlloc" for "cuMemAlloc_v2": programs use the names without versions.
const char* without_version(const char* name) {
    static auto* const names = new std::set<std::string, std::less<>>;
    std::string text = name;
    const size_t at = text.rfind("_v");
    if (at != std::string::npos && at + 3 == text.size()) text.resize(at);
    return names->insert(text).first->c_str();
}

DriverError finish_driver(const detail::Outcome& outcome, const char* function, void* address) {
    Runtime& rt = runtime();
    rt.memory.guard_unwaited(true);
    if (outcome.error == cudaSuccess || outcome.mistake.empty()) return driver_error(outcome.error);
    std::string text = outcome.mistake;
    const std::string name = without_version(function);
    if (text.find(name) == std::string::npos) text = name + "(): " + text;
    if (rt.settings.check)
        rt.report.add_mistake("wrong call", text, address);
    else if (concerns_code(name))
        print_once("coalesce: " + text);
    return driver_error(outcome.error);
}

}  // namespace

DriverError driver_call(const char* function, Needs needs, Waits waits, const Body& body,
                        void* caller) {
    const std::lock_guard guard(detail::lock());
    if (const Error error = detail::process_error()) return driver_error(error);
    detail::enter(caller);
    const detail::DriverCall call(without_version(function));
    const detail::Outcome outcome = detail::outcome_of(function, waits, [&] {
        detail::check(needs);
        body();
    });
    return finish_driver(outcome, function, caller);
}

}  // namespace coalesce::cudart
