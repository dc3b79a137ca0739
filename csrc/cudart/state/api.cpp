#include "cudart/state/api.hpp"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <utility>

#include "cudart/state/runtime.hpp"
#include "errors.hpp"

namespace coalesce::cudart {

namespace {

thread_local Error last_error = cudaSuccess;
// The function that the program has called, and where.
thread_local const ApiFunction* current_function = nullptr;
thread_local void* current_caller = nullptr;
// True if a launch with <<<...>>> failed and the program has not called cudaGetLastError() since.
// Such a launch returns no error code, so this call is the only way to notice the error.
thread_local bool has_unread_error = false;
thread_local void* unread_error_caller = nullptr;
// The program's function that is running is part of the work of a stream.
thread_local bool in_work = false;

// The process has called a function of the API. The number of its threads that have.
bool used = false;
std::atomic<int> threads = 0;
thread_local bool counted = false;
// How often a call may still return later (Order::publish), and for how long.
std::atomic<int> delays = 200;
constexpr std::chrono::milliseconds delay{5};
Error lost = cudaSuccess;

// Watches for the end of the process and for forks. As in NVIDIA's library, the handler for the end
// is registered by the first call: it runs before the handlers and the destructors of static
// objects that the program had registered earlier.
void watch_process() {
    if (std::exchange(used, true)) return;
    std::atexit([] { lost = cudaErrorCudartUnloading; });
    pthread_atfork(nullptr, nullptr, [] { lost = cudaErrorInitializationError; });
}

// Returns the error of every call in a process that cannot use the GPU any more, or cudaSuccess.
// The process is ending (main() has returned, or exit() was called), or it is a child that was
// forked after its parent had used the GPU. Or the caller is the work of a stream (ProgramCall).
Error process_error() {
    watch_process();
    const Error error = lost ? lost : in_work ? cudaErrorNotPermitted : cudaSuccess;
    if (error) last_error = error;
    return error;
}

// Returns the permanent error, if there is one.
Error permanent_error(const ApiFunction& f) {
    Runtime& rt = runtime();
    rt.order.guard(false);
    if (f.has(traits::waits | traits::resets)) rt.waited();
    if (f.has(traits::resets)) rt.fault = cudaSuccess;
    if (!rt.fault) return cudaSuccess;
    if (f.has(traits::waits)) rt.fault_returned = true;
    return rt.fault_returned ? rt.fault : cudaSuccess;
}

void require_initialization() {
    require(runtime().contexts.initialized, cudaErrorInitializationError,
            "cuInit() was not called before");
}

// Prepares the context. Functions of the runtime API make one current.
void enter_context(const ApiFunction& f) {
    if (!f.driver) return runtime().contexts.enter_runtime(!f.has(traits::no_context));
    if (f.has(traits::no_init)) return;
    f.has(traits::no_context) ? require_initialization() : require_context();
}

// Runs the body and translates its exceptions.
Failure outcome_of(const ApiFunction& f, const Body& body) noexcept {
    try {
        if (!f.driver) enter_context(f);
        if (const Error error = permanent_error(f)) return {error};
        if (f.driver) enter_context(f);
        if (!f.has(traits::checks_first)) {
            if (f.has(traits::in_default_stream)) runtime().streams.refuse_implicit_wait(nullptr);
            if (f.has(traits::waits)) runtime().streams.refuse_in_capture();
        }
        body();
        return {cudaSuccess};
    } catch (const Failure& failure) {
        return failure;
    } catch (const std::bad_alloc&) {
        return {cudaErrorMemoryAllocation};
    } catch (const std::exception& e) {
        print_once("coalesce: " + std::string(f.name) + "(): " + e.what());
        const bool unsupported = dynamic_cast<const UnsupportedInstruction*>(&e) != nullptr;
        return {unsupported ? cudaErrorNotSupported : cudaErrorUnknown};
    }
}

// Stores and reports the error of a function of the runtime API.
void finish_runtime(const ApiFunction& f, const Failure& failure) {
    const auto& [error, mistake] = failure;
    // cudaErrorNotReady is a normal answer. cudaGetLastError() does not return it.
    if (error != cudaErrorNotReady) last_error = error;
    Runtime& rt = runtime();
    if (f.has(traits::launches)) {
        has_unread_error = true;
        unread_error_caller = work_from();
        rt.unread_error_mistake = mistake;
        if (!mistake.empty()) print_once("coalesce: " + mistake);
    } else if (!mistake.empty() && rt.settings.check) {
        rt.report.add_mistake("wrong call", mistake, current_caller);
    }
}

void finish_driver(const ApiFunction& f, const Failure& failure) {
    if (failure.mistake.empty()) return;
    Runtime& rt = runtime();
    std::string text = failure.mistake;
    if (text.find(f.name) == std::string::npos) text = std::string(f.name) + "(): " + text;
    if (rt.settings.check)
        rt.report.add_mistake("wrong call", text, current_caller);
    else if (f.has(traits::about_code))
        print_once("coalesce: " + text);
}

}  // namespace

Error driver_error(Error error) {
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

bool several_threads() { return threads > 1; }

Error call(const ApiFunction& function, const Body& body, void* caller) {
    if (!std::exchange(counted, true)) ++threads;
    Runtime& rt = runtime();
    std::unique_lock guard(rt.lock);
    if (const Error error = process_error()) return function.driver ? driver_error(error) : error;
    const auto* const function_before = std::exchange(current_function, &function);
    void* const caller_before = std::exchange(current_caller, caller);
    const Failure failure = outcome_of(function, body);
    rt.order.guard(true);
    if (failure.error) (function.driver ? finish_driver : finish_runtime)(function, failure);
    current_function = function_before;
    current_caller = caller_before;
    if (const Clock learned = rt.order.take_learned(); !learned.empty()) {
        if (rt.settings.check && delays-- > 0) {
            guard.unlock();
            std::this_thread::sleep_for(delay);
            guard.lock();
        }
        rt.order.publish(learned);
    }
    return function.driver ? driver_error(failure.error) : failure.error;
}

void require_context() {
    require_initialization();
    const Context current = Contexts::current();
    require(current, cudaErrorDeviceUninitialized,
            "no context is current in this host thread; cuCtxCreate() and cuCtxSetCurrent() make "
            "one current");
    require(current->active, cudaErrorContextIsDestroyed, "the current context was destroyed");
}

ProgramCall::ProgramCall() : before_(std::exchange(in_work, true)) { runtime().order.guard(true); }
ProgramCall::~ProgramCall() {
    runtime().order.guard(false);
    in_work = before_;
}

void* caller() { return current_caller; }

bool default_is_per_thread() { return current_function && current_function->per_thread; }

bool call_waits() { return current_function && current_function->has(traits::waits); }

void* work_from() {
    const bool launches = current_function && current_function->has(traits::launches);
    return launches && launched_from() ? launched_from() : current_caller;
}

const char* called() { return current_function->name; }

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
