// Runs the blocks of a kernel one after the other; see device_code.hpp.
#pragma once

#include <ucontext.h>
#include <unistd.h>

#include <map>

namespace host {

uint3 thread, block;
dim3 block_extents, grid_extents;
int lane_of_block;
char* dynamic_shared;
unsigned long long slots[1024];

// A barrier that threads wait at. It is complete when all threads arrived that it waits for.
struct Barrier {
    int arrived = 0, phase = 0;
};

struct Fiber {
    ucontext_t context;
    char* stack = nullptr;
    bool runs = false;
    uint3 index;
};

constexpr size_t stack_bytes = size_t{256} << 10;
constexpr long most_switches = 4'000'000;  // without an end, a barrier waits for nobody

inline Fiber fibers[1024];
inline ucontext_t scheduler;
inline std::function<void()> body;
inline Barrier of_block;
inline std::map<unsigned long long, Barrier> of_lanes;  // a barrier for each warp and mask
inline long switches;

inline void yield() {
    const int own = lane_of_block;
    if (++switches > most_switches) _exit(9);
    swapcontext(&fibers[own].context, &scheduler);
    lane_of_block = own;
    thread = fibers[own].index;
}

// Waits until wanted() threads have arrived at the barrier. wanted() returns a smaller number after
// a thread has returned from the kernel.
template <class F>
void wait(Barrier& barrier, F&& wanted) {
    const int phase = barrier.phase;
    ++barrier.arrived;
    while (barrier.phase == phase) {
        if (barrier.arrived >= wanted()) {
            barrier.arrived = 0;
            ++barrier.phase;
        } else {
            yield();
        }
    }
}

// Returns the number of threads from `first` on that have not returned; `mask` chooses lanes.
inline int alive(int first, int count, unsigned mask) {
    int n = 0;
    for (int i = 0; i < count; ++i) n += (mask >> (i % 32) & 1) && fibers[first + i].runs;
    return n;
}

void block_barrier() {
    const int threads = int(block_extents.x * block_extents.y * block_extents.z);
    wait(of_block, [threads] { return alive(0, threads, ~0u); });
}

void until(const std::function<bool()>& condition) {
    while (!condition()) yield();
}

void warp_barrier(unsigned mask) {
    const int first = first_of_warp();
    Barrier& barrier = of_lanes[static_cast<unsigned long long>(first) << 32 | mask];
    wait(barrier, [first, mask] { return alive(first, 32, mask); });
}

unsigned running(unsigned mask) {
    unsigned lanes = 0;
    for (int i = 0; i < 32; ++i)
        lanes |= unsigned((mask >> i & 1) && fibers[first_of_warp() + i].runs) << i;
    return lanes;
}

std::pair<int, int> block_vote(bool condition) {
    static int yes, all;
    block_barrier();
    yes = all = 0;
    block_barrier();
    yes += condition;
    ++all;
    block_barrier();
    return {yes, all};
}

inline void start() {
    Fiber& own = fibers[lane_of_block];
    body();
    own.runs = false;
    swapcontext(&own.context, &scheduler);
}

inline void run_block(int threads) {
    of_block = {};
    of_lanes.clear();
    switches = 0;
    for (int i = 0; i < threads; ++i) {
        Fiber& f = fibers[i];
        if (!f.stack) f.stack = static_cast<char*>(std::malloc(stack_bytes));
        getcontext(&f.context);
        f.context.uc_stack.ss_sp = f.stack;
        f.context.uc_stack.ss_size = stack_bytes;
        f.context.uc_link = &scheduler;
        makecontext(&f.context, start, 0);
        f.runs = true;
        const unsigned n = unsigned(i), x = block_extents.x, y = block_extents.y;
        f.index = {n % x, n / x % y, n / (x * y)};
    }
    for (bool any = true; any;) {
        any = false;
        for (int i = 0; i < threads; ++i) {
            if (!fibers[i].runs) continue;
            any = true;
            lane_of_block = i;
            thread = fibers[i].index;
            swapcontext(&scheduler, &fibers[i].context);
        }
    }
}

inline void run_grid(dim3 grid, dim3 extents, int shared, std::function<void()> kernel) {
    body = std::move(kernel);
    grid_extents = grid, block_extents = extents;
    dynamic_shared = static_cast<char*>(std::calloc(1, size_t(shared) + 65536));
    for (unsigned z = 0; z < grid.z; ++z) {
        for (unsigned y = 0; y < grid.y; ++y) {
            for (unsigned x = 0; x < grid.x; ++x) {
                block = {x, y, z};
                run_block(int(extents.x * extents.y * extents.z));
            }
        }
    }
}

template <class... A, size_t... I>
void call(void (*kernel)(A...), void** a, dim3 grid, dim3 extents, int shared,
          std::index_sequence<I...>) {
    run_grid(grid, extents, shared,
             [=] { kernel(*static_cast<std::remove_reference_t<A>*>(a[I])...); });
}

// Launches a kernel. `a` has a pointer to each argument.
template <class... A>
void call(void (*kernel)(A...), void** a, dim3 grid, dim3 extents, int shared) {
    call(kernel, a, grid, extents, shared, std::index_sequence_for<A...>());
}

}  // namespace host
