#include "cudart/state/contexts.hpp"

#include "cudart/state/api.hpp"
#include "cudart/state/arrays.hpp"
#include "cudart/state/per_thread.hpp"
#include "cudart/state/runtime.hpp"

namespace coalesce::cudart {

namespace {
std::vector<Context>& stack() {
    static const PerThread<std::vector<Context>> stacks;
    return stacks.get();
}
}  // namespace

Context Contexts::create(unsigned flags) {
    auto made = std::make_unique<ContextRecord>();
    made->id = ++count_;
    made->flags = flags;
    made->active = true;
    return *made_.insert(made.release()).first;
}

ContextRecord& Contexts::context(Context handle) {
    require(handle == &primary_ || made_.contains(handle), cudaErrorDeviceUninitialized,
            "the context was not created by cuCtxCreate() or cuDevicePrimaryCtxRetain()");
    require(handle->active, cudaErrorContextIsDestroyed, "the context was destroyed");
    return *handle;
}

void Contexts::destroy(Context handle) {
    context(handle).active = false;
    Runtime& rt = runtime();
    rt.modules.unload_all(handle);
    rt.streams.destroy_all(handle);
    rt.memory.free_all(handle);
    forget_freed_arrays();
    // The primary context stays on the stacks, as in CUDA.
    if (handle != &primary_ && current() == handle) pop();
}

Context Contexts::retain_primary() {
    if (!primary_.active) primary_.id = ++count_;
    primary_.active = true;
    ++retained_;
    return &primary_;
}

void Contexts::release_primary() {
    require(
        primary_.active && retained_ > 0, cudaErrorDeviceUninitialized,
        "cuDevicePrimaryCtxRelease() was called without a preceding cuDevicePrimaryCtxRetain()");
    if (--retained_ == 0) destroy(&primary_);
}

void Contexts::reset_primary() {
    retained_ = 0;
    if (primary_.active) destroy(&primary_);
}

Context Contexts::current() { return stack().empty() ? nullptr : stack().back(); }

void Contexts::set_current(Context context) {
    if (!stack().empty()) stack().pop_back();
    if (context) stack().push_back(context);
}

void Contexts::push(Context context) { stack().push_back(context); }

Context Contexts::pop() {
    if (stack().empty()) return nullptr;
    const Context top = stack().back();
    stack().pop_back();
    return top;
}

void Contexts::enter_runtime(bool needs_context) {
    initialized = true;
    if (!needs_context) return;
    const Context top = current();
    // The runtime activates the primary context again after cudaDeviceReset().
    if ((!top || top == &primary_) && !primary_.active) retain_primary();
    if (!top) push(&primary_);
    require(current()->active, cudaErrorContextIsDestroyed);
}

}  // namespace coalesce::cudart
