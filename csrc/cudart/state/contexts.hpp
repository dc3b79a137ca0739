// The contexts of the driver API: the primary context, and the contexts that cuCtxCreate() makes.
//
// METHOD
// All contexts share one simulated GPU and its addresses. Each host thread has a stack of contexts;
// the context on top is the current one. A context owns the allocations, modules, streams and
// events that were made while it was current. When the context is destroyed, they are destroyed,
// too. The runtime API uses the current context. If there is none, it makes the primary context
// current.
#pragma once

#include <cstdint>
#include <set>

#include "cudart/abi/driver.hpp"

namespace coalesce::cudart {

// A context.
struct ContextRecord {
    uint64_t id = 0;
    unsigned flags = 0;
    // False after the context was destroyed. The primary context can become active again.
    bool active = false;
};

// All contexts, and the stack of each host thread.
class Contexts {
  public:
    bool initialized = false;  // cuInit(), or a call of the runtime API

    Context create(unsigned flags);
    // Frees everything that the context owns. Other threads may still have it on their stacks.
    void destroy(Context context);
    // Throws Failure unless the handle is a context that was not destroyed.
    ContextRecord& context(Context handle);

    [[nodiscard]] Context primary() { return &primary_; }
    Context retain_primary();
    void release_primary();
    void reset_primary();

    // Returns the context that is current in this host thread, or null if there is none.
    [[nodiscard]] static Context current();
    static void set_current(Context context);  // replaces the top of the stack
    static void push(Context context);
    static Context pop();  // returns null if the stack is empty
    // Returns the owner of what a call makes now.
    [[nodiscard]] Context owner() { return current() ? current() : &primary_; }
    // Prepares this host thread for a function of the runtime API. Throws Failure if the function
    // needs a context and the current one was destroyed.
    void enter_runtime(bool needs_context);

  private:
    ContextRecord primary_;
    uint64_t retained_ = 0, count_ = 0;
    // Records of destroyed contexts are kept, because threads may still have them on their stacks.
    std::set<Context> made_;
};

}  // namespace coalesce::cudart
