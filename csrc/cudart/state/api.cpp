#include "cudart/state/api.hpp"

#include <pthread.h>

#include <cstdlib>
#include <utility>

#include "cudart/state/runtime.hpp"
#include "errors.hpp"

namespace coalesce::cudart {

namespace {

thread_local Error last_error = cudaSuccess;
thread_local void* current_caller = nullptr;
// True if a launch with <<<...>>> failed and the program has not called cudaGetLastError() since.
// Such a launch returns no error code, so this call is the only way to notice the error.
thread_local bool has_unread_error = false;
thread_local void* unread_error_caller = nullptr;
// The driver's function that the program has called; null if there is none.
thread_local const char* driver_function = nullptr;
// The program's function that is running is part of the work of a stream.
thread_local bool in_work = false;

// The process has called a function of the API.
bool used = false;
Error lost = cudaSuccess;

// Watches for the end of the process and for forks. As in NVIDIA's library, the handler for the end
// is registered by the first call: it runs before the handlers and the destructors of static
// objects that the program had registered earlier.
void watch_process() {
    if (std::exchange(used, true)) return;
    std::atexit([] { lost = cudaErrorCudartUnloading; });
    pthread_atfork(nullptr, nullptr, [] { lost = cudaErrorInitializationError; });
}

}  // namespace

void* caller() { return current_caller; }

const char* called(const char* function) { return driver_function ? driver_function : function; }

void report_unchecked_error() {
    if (!has_unread_error) return;
    Runtime& rt = runtime();
    rt.report.add_mistake(
        "unchecked error",
        "a launch returned " + std::string(name_of(last_error)) +
            ", but the program never checked for errors" +
            (rt.unread_error_mistake.empty() ? "" : ": " + rt.unread_error_mistake),
        unread_error_caller);
}

namespace detail {

std::recursive_mutex& lock() {
    static auto* const mutex = new std::recursive_mutex;
    return *mutex;
}

Error process_error() {
    watch_process();
    const Error error = lost ? lost : in_work ? cudaErrorNotPermitted : cudaSuccess;
    if (error) last_error = error;
    return error;
}

Error permanent_error(Waits waits) {
    Runtime& rt = runtime();
    rt.memory.guard_unwaited(false);
    if (waits == Waits::yes) rt.waited();
    if (!rt.fault) return cudaSuccess;
    if (waits == Waits::yes) rt.fault_returned = true;
    return rt.fault_returned ? rt.fault : cudaSuccess;
}

void enter(void* address) { current_caller = address; }

DriverCall::DriverCall(const char* function) { driver_function = function; }
DriverCall::~DriverCall() { driver_function = nullptr; }

ProgramCall::ProgramCall(bool is_work) : function_(driver_function), in_work_(in_work) {
    driver_function = nullptr;
    in_work = in_work || is_work;
}
ProgramCall::~ProgramCall() {
    driver_function = function_;
    in_work = in_work_;
}

Error finish(const Outcome& outcome, const char* function, void* address) {
    const auto& [error, mistake] = outcome;
    runtime().memory.guard_unwaited(true);
    if (error == cudaSuccess) return error;
    // cudaErrorNotReady is a normal answer. cudaGetLastError() does not return it.
    if (error != cudaErrorNotReady) last_error = error;
    Runtime& rt = runtime();
    if (std::string(function).find("LaunchKernel") != std::string::npos) {
        has_unread_error = true;
        unread_error_caller = launched_from() ? launched_from() : address;
        rt.unread_error_mistake = mistake;
        if (!mistake.empty()) print_once("coalesce: " + mistake);
    } else if (!mistake.empty() && rt.settings.check) {
        rt.report.add_mistake("wrong call", mistake, address);
    }
    return error;
}

Outcome failed(const std::exception& e, const char* function) {
    print_once("coalesce: " + std::string(function) + "(): " + e.what());
    if (dynamic_cast<const UnsupportedInstruction*>(&e)) return {cudaErrorNotSupported};
    return {cudaErrorUnknown};
}

Outcome outcome_of(const char* function, Waits waits, const Body& body) noexcept {
    if (const Error error = permanent_error(waits)) return {error};
    try {
        if (waits == Waits::yes) runtime().streams.refuse_in_capture();
        body();
        return {};
    } catch (const Failure& f) {
        return {f.error, f.mistake};
    } catch (const std::bad_alloc&) {
        return {cudaErrorMemoryAllocation};
    } catch (const std::exception& e) {
        return failed(e, function);
    }
}

}  // namespace detail

Error call(const char* function, Waits waits, const Body& body, void* caller) {
    const std::lock_guard guard(detail::lock());
    if (const Error error = detail::process_error()) return error;
    if (driver_function) {  // a function of the driver API, which catches the exceptions
        if (const Error error = detail::permanent_error(waits)) throw Failure{error};
        if (waits == Waits::yes) runtime().streams.refuse_in_capture();
        body();
        return cudaSuccess;
    }
    detail::enter(caller);
    // Makes a context current, as functions of the runtime API do.
    if (const Error error = runtime().contexts.enter_runtime(function))
        return detail::finish({error}, function, caller);
    return detail::finish(detail::outcome_of(function, waits, body), function, caller);
}

Error take_last_error(bool forget) {
    const Error error = last_error;
    has_unread_error = false;
    const Runtime& rt = runtime();
    if (forget) last_error = rt.fault_returned ? rt.fault : cudaSuccess;
    return error;
}

const char* name_of(Error error) {
    switch (error) {
#define E(name, number, text) \
    case name:                \
        return #name;
#include "cudart/runtime/errors.inc"
#undef E
    }
    return "unrecognized error code";
}

}  // namespace coalesce::cudart
