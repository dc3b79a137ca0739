// Compiled kernels: the operations of a kernel, translated to machine code of the host.
//
// METHOD
// translate.hpp makes LLVM code from the operations of a program. It contains two functions that
// execute the kernel for one warp: `whole` if all 32 lanes are active, and `part` if some are not.
// They can be entered at many operations, and left before each operation. Between both, the
// registers of the warp are in registers of the host. When a function returns, they are in their
// slots again, and it returns the number of the next operation. The interpreter (warp_runner.hpp)
// continues there. So everything that compiled code does not do itself is left to the interpreter:
// barriers, calls, faults and their messages, and operations at which lanes wait for each other.
//
// The order in which warps and paths run is that of the interpreter: compiled code counts the
// operations of a slice in the same way, and the functions of the scheduler choose the paths.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <vector>

#include "sim/program/program.hpp"
#include "sim/warp/grid_state.hpp"
#include "sim/warp/observer.hpp"
#include "sim/warp/warp.hpp"

namespace coalesce::sim {

// The buffer that a memory instruction accessed last. `bytes` is 0 if there is none.
struct CompiledSite {
    uint64_t address = 0, bytes = 0;
    std::byte* host = nullptr;
    uint64_t latest = 0;  // the host address of the latest access
};

// What compiled code knows about the warp, and the functions that it calls. Compiled code reads the
// members by their offsets.
struct CompiledContext {
    Warp* warp = nullptr;
    std::byte* registers = nullptr;
    std::byte* shared = nullptr;
    uint64_t shared_bytes = 0;
    const std::byte* parameters = nullptr;
    const uint32_t* thread_index[3] = {};
    CompiledSite* sites = nullptr;
    uint64_t* addresses = nullptr;  // Warp::address
    int64_t left = 0;               // how many operations of the slice remain
    uint32_t mask = 0;
    uint32_t join = no_op;  // the place of the running path's join
    // Executes the handler of an op. Returns false if it has thrown an exception.
    bool (*call)(CompiledContext*, uint32_t op) = nullptr;
    uint64_t (*special)(CompiledContext*, uint32_t which) = nullptr;
    // Finds the buffer of an access and stores it in the site of the instruction. Returns false if
    // the interpreter must execute the access.
    bool (*find)(CompiledContext*, uint32_t op, uint64_t low, uint64_t bytes) = nullptr;
    // Like find(), for the addresses in Warp::address.
    bool (*find_lanes)(CompiledContext*, uint32_t op, uint32_t mask) = nullptr;
    // The lanes of `taken` branch, the others do not. Returns the op at which the path that runs
    // next begins, or no_op if compiled code must return.
    uint32_t (*diverge)(CompiledContext*, uint32_t op, uint32_t taken) = nullptr;
    // The running path has reached the place of its join.
    uint32_t (*arrive)(CompiledContext*) = nullptr;
    // The lanes that do not take the branch `op` are at op `at`; the others have taken it.
    void (*split)(CompiledContext*, uint32_t op, uint32_t taken, uint32_t at) = nullptr;
    const uint8_t* part_entries = nullptr;
    std::exception_ptr error;
    bool path_ended = false;  // the running path has changed
    bool alone = false;       // the warp has no other paths that could run
};

// The value that compiled code returns if the functions of the scheduler have changed the path.
inline constexpr uint32_t switched_path = no_op;
// Added to the op at which `whole` is entered if the registers are still as it left them.
inline constexpr uint32_t registers_kept = 1u << 31;

using CompiledFunction = uint32_t (*)(CompiledContext*, uint32_t op);

// The functions may be set while the kernel runs.
struct CompiledKernel {
    // For each op: whether the function can be entered there. Set before the functions.
    std::vector<uint8_t> whole_entries, part_entries;
    std::atomic<CompiledFunction> whole = nullptr, part = nullptr;  // null: not compiled
    mutable std::atomic<uint64_t> wanted_part = 0;  // about how often `part` was missing
};

// The observer of a run that uses compiled code if there is some. It receives no events.
struct CompiledRun : NoObserver {
    const CompiledKernel* kernel = nullptr;
};

// Runs the compiled code of a kernel for the warps of one worker.
class CompiledRunner {
  public:
    CompiledRunner(const Program& program, const CompiledKernel* kernel);
    [[nodiscard]] bool available() const { return kernel_ && kernel_->whole.load(); }
    // Runs the warp until it must be interpreted, or the slice ends. `left` is the number of
    // operations that remain. Returns true if the running path has changed meanwhile.
    bool run(Warp& w, int64_t& left);

  private:
    const Program& program_;
    const CompiledKernel* kernel_;
    std::vector<CompiledSite> sites_;
    uint64_t misses_ = 0;  // how often `part` was missing
    // Warps that compiled code has left at a barrier, and the op after it: the registers are still
    // as it stored them when the warp continues there. The index is Warp::index. (The
    // warps of other blocks of a cluster may have the same index.)
    struct Kept {
        const Warp* warp = nullptr;
        uint32_t op = no_op;
    };
    Kept kept_[32];
    CompiledContext context_;
};

}  // namespace coalesce::sim
