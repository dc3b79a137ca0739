// How a function of the API is written: CUDART(name)(parameters) { return call(...); }
//
// METHOD
// call() takes the one lock of the runtime, runs the body and turns what it throws into the error
// that CUDA returns. The last error is the host thread's, as in CUDA. A kernel that faults leaves
// an error that stays: calls that wait for the GPU return it, and so does every call after them.
#pragma once

#include <exception>
#include <mutex>
#include <string>
#include <utility>

#include "cudart/abi.hpp"

#define CUDART(name) extern "C" __attribute__((visibility("default"))) Error name

namespace coalesce::cudart {

// Thrown by a body: the error to return. The text, if there is one, is a mistake of the program's
// host code, in words; --check reports it.
struct Failure {
    Error error;
    std::string mistake = {};
};

// What a call may meet of errors that were left by kernels.
enum class Waits : uint8_t {
    no,   // asynchronous: returns before the work is done, and so no fault of that work
    yes,  // for the GPU
};

namespace detail {
std::recursive_mutex& lock();
// Before the body: the error that stays, if there is one.
[[nodiscard]] Error standing(Waits waits);
// After it: notes the thread's last error and who called.
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

// The last error of this host thread, which is then forgotten if asked.
Error take_last_error(bool forget);
[[nodiscard]] const char* name_of(Error error);  // "cudaErrorInvalidValue"

// The return address of the API call that runs, for findings.
[[nodiscard]] void* caller();
// Where the host code has the <<<...>>> of the last launch; null if there was none.
[[nodiscard]] void* launched_from();

inline void require(bool condition, Error error, const char* mistake = "") {
    if (!condition) throw Failure{error, mistake};
}

}  // namespace coalesce::cudart
