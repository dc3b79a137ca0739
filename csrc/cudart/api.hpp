// Declares how a function of the API is written: CUDART(name)(parameters) { return call(...); }
//
// METHOD
// call() acquires the runtime's only lock, runs the body, and translates exceptions into the errors
// that CUDA returns. Each host thread has its own last error, as in CUDA. A kernel fault leaves a
// permanent error: calls that wait for the GPU return it, and so do all later calls.
#pragma once

#include <exception>
#include <mutex>
#include <string>
#include <utility>

#include "cudart/abi.hpp"

#define CUDART(name) extern "C" __attribute__((visibility("default"))) Error name

namespace coalesce::cudart {

// A body throws this to return an error. If there is a text, it describes a mistake in the
// program's host code. --check reports this mistake.
struct Failure {
    Error error;
    std::string mistake = {};
};

// Whether a call can return errors of earlier kernels.
enum class Waits : uint8_t {
    // Asynchronous. The call returns before the work is done, and thus before its faults.
    no,
    yes,  // waits for the GPU
};

namespace detail {
std::recursive_mutex& lock();
// Runs before the body. Returns the permanent error, if there is one.
[[nodiscard]] Error standing(Waits waits);
// Runs after the body. Stores the thread's last error and the caller.
Error finish(Error error, const char* function, const std::string& mistake, void* caller);
Error failed(const std::exception& e, const char* function);
void enter(void* caller);
}  // namespace detail

template <class Body>
__attribute__((always_inline)) inline Error call(const char* function, Waits waits,
                                                 Body&& body) noexcept {
    const std::lock_guard guard(detail::lock());
    void* const caller = __builtin_return_address(0);
    detail::enter(caller);
    if (const Error error = detail::standing(waits))
        return detail::finish(error, function, {}, caller);
    try {
        std::forward<Body>(body)();
        return detail::finish(cudaSuccess, function, {}, caller);
    } catch (const Failure& f) {
        return detail::finish(f.error, function, f.mistake, caller);
    } catch (const std::bad_alloc&) {
        return detail::finish(cudaErrorMemoryAllocation, function, {}, caller);
    } catch (const std::exception& e) {
        return detail::finish(detail::failed(e, function), function, {}, caller);
    }
}

// Returns the last error of this host thread. If `forget` is true, it also clears the error.
Error take_last_error(bool forget);
[[nodiscard]] const char* name_of(Error error);  // "cudaErrorInvalidValue"

// Returns the return address of the current API call, for findings.
[[nodiscard]] void* caller();
// Returns the address of the last <<<...>>> in the host code, or null if there was none.
[[nodiscard]] void* launched_from();

inline void require(bool condition, Error error, const char* mistake = "") {
    if (!condition) throw Failure{error, mistake};
}

}  // namespace coalesce::cudart
