// Checking a kernel while it runs: races, uninitialised reads, accesses outside arrays, barriers
// and warp operations used wrongly.
//
// METHOD
// The observer keeps shadow memory (shadow.hpp) and the order of events (order.hpp), and asks at
// every access whether the last conflicting ones happen before it. What the simulator's own order
// was plays no part, so that a barrier that is missing is found even if the answer came out right.
// Blocks run one after the other on one host thread: findings are the same in every run.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "analysis/findings.hpp"
#include "analysis/order.hpp"
#include "analysis/shadow.hpp"
#include "sim/observer.hpp"

namespace coalesce::analysis {

// How the source declares a shared variable, where that is known.
struct ArrayShape {
    std::vector<int64_t> shape;
    uint32_t item_bytes = 0;
    std::string type;
};

// What a checked run needs to know of an instruction.
struct CheckedInstruction {
    sim::Traits traits;
    const char* verb = "";  // "write"
    uint16_t copied = 0;    // which bytes of a lane's read are stored and otherwise not used
    bool guesses = false;   // a plain read of where the same thread then compares and swaps
};

// Of each instruction of a program, the bytes that it only copies: those of registers that nothing
// but a store reads. Structures are copied with the padding between their members.
[[nodiscard]] std::vector<uint16_t> copied_bytes(const sim::Program& program);

// Of each instruction, whether it is a plain load from the very address of a compare-and-swap in
// the same function: the first value of a loop such as the CUDA C++ Programming Guide's
// atomicAdd() of a double. A stale one costs another round, or is as good as the newest.
[[nodiscard]] std::vector<bool> guessing_loads(const sim::Program& program);

class CheckObserver {
  public:
    static constexpr sim::Hooks hooks =
        sim::Hook::start | sim::Hook::finish | sim::Hook::segment | sim::Hook::call |
        sim::Hook::access | sim::Hook::fault | sim::Hook::landed | sim::Hook::fence |
        sim::Hook::synchronized | sim::Hook::arrive | sim::Hook::complete | sim::Hook::misuse;

    CheckObserver(const sim::Program& program, const sim::Launch& launch,
                  const sim::AddressSpace& memory, const std::map<std::string, ArrayShape>& shared);
    ~CheckObserver();

    void start(sim::Block& block);
    void finish(const sim::Block& block);
    void segment(const sim::Warp& w, uint32_t op, sim::LaneMask mask);
    void call(const sim::Warp& w);
    void access(const sim::Warp& w, const sim::MemoryEvent& e);
    void fault(const sim::Warp& w, const sim::Op& op, sim::Access access, ptx::Space space,
               sim::Fault fault, sim::LaneMask lanes, const uint64_t* addresses);
    void landed(const sim::Warp& w, const sim::AsyncCopy& copy, sim::LaneMask lanes);
    void fence(const sim::Warp& w, const sim::Op& op);
    void synchronized(const sim::Warp& w, const sim::Op& op);
    void arrive(const sim::Warp& w, const sim::Op& op, uint32_t barrier);
    void complete(const sim::Block& block, uint32_t barrier);

    void misuse(const sim::Warp& w, const sim::Op& op, int lane, const std::string& wrong);

    // The run has ended: what malloc gave it and nobody can free.
    void lost_memory();
    // The run ended with this error.
    void stopped(const std::string& message, FindingKind kind);

    [[nodiscard]] Findings& findings() { return findings_; }

  private:
    struct BlockState;
    struct Place;  // of the granule under the hand

    static BlockState& state(const sim::Warp& w);

    template <bool shared>
    void check(const sim::Warp& w, const sim::MemoryEvent& e);
    void check_local(const sim::Warp& w, const sim::MemoryEvent& e);
    // Whether a lane's access to shared memory leaves the variable its address is made from.
    [[nodiscard]] bool leaves_variable(const sim::MemoryEvent& e, int lane) const;
    void outside_variable(const sim::Warp& w, uint32_t pc, uint32_t bytes, int lane,
                          uint64_t address);
    // A frame of local memory starts for these lanes: its variables hold nothing yet.
    void start_frame(const sim::Warp& w, const sim::Frame& frame, sim::LaneMask lanes);

    // Threads that have left before a barrier: whether one of them had gone past it.
    [[nodiscard]] bool left_past(const sim::Block& block, uint32_t barrier_pc);
    [[nodiscard]] bool is_past(uint32_t op, uint32_t barrier_pc) const;

    static bool is_known(const Place& at, const Cell& cell, uint32_t other);
    void read(const Place& at, Cell& cell, uint32_t other);
    void write(const Place& at, Cell& cell);
    void read_strong(const Place& at, Cell& cell);
    void write_strong(const Place& at, Cell& cell);
    void check_initialised(const Place& at, const Cell& cell);
    // Whether what nobody wrote is only copied, together with bytes that somebody wrote.
    [[nodiscard]] bool is_padding(const Place& at) const;
    static void initialise(const Place& at, Cell& cell);
    void keep_read(const Place& at, Cell& cell, uint32_t other);
    Location& location(const Place& at);

    // A plain access against the strong ones before it.
    void conflict_with(const Place& at, const Recent& recent, bool both_write);
    // Two accesses that nothing orders.
    void conflict(const Place& at, const Stamp& then, uint32_t lane_then, bool both_write);
    // Two strong accesses do not race, unless one's scope leaves the other out; but their order may
    // be lockstep's.
    void check_strong(const Place& at, const Stamp& then, bool block_scope, bool atomic);
    void uninitialized(const Place& at);
    void stale(const Place& at, const Stamp& then);
    [[nodiscard]] bool same_value(const Place& at, uint32_t lane_then, bool same_instruction) const;
    [[nodiscard]] bool same_instruction(const Place& at, const Stamp& then,
                                        uint32_t lane_then) const;
    void describe_place(Finding& f, const Place& at) const;
    [[nodiscard]] std::string name_of_place(const Place& at) const;
    [[nodiscard]] Actor actor(const std::string& what, const Stamp& stamp, uint32_t lane) const;
    [[nodiscard]] Actor actor(const std::string& what, const sim::Warp& w, uint32_t pc,
                              int lane) const;
    void find_shared_variables(const std::map<std::string, ArrayShape>& shapes);
    // The array a place is in, as messages and groups know it.
    [[nodiscard]] const sim::Buffer* array_of(const Place& at) const;
    [[nodiscard]] uint32_t array_number(const Place& at) const;

    const sim::Program& program_;
    const sim::Launch& launch_;
    std::vector<CheckedInstruction> instructions_;
    std::vector<uint32_t> buffer_hints_;  // by instruction
    uint32_t shared_bits_ = 4, global_bits_ = 4;
    std::vector<sim::Buffer> shared_variables_;  // by offset
    std::vector<int> home_;  // by instruction: the one its address is made from, or -1
    GlobalShadow global_;
    Findings findings_;
    // What the threads that arrived at the barrier of a cluster have made visible.
    struct ClusterArrivals {
        ClockPtr known;
        bool complete = false;
    };
    std::map<const sim::Cluster*, ClusterArrivals> clusters_;
    std::vector<std::unique_ptr<BlockState>> states_;
    std::vector<BlockState*> free_states_;
    uint64_t faults_ = 0;
    bool has_barriers_ = false;
    std::map<std::pair<uint32_t, uint32_t>, bool> past_;  // is_past
};

static_assert(sim::Observer<CheckObserver>);

// Runs a program decoded for Watch::faults on one host thread. What stops the kernel is a finding
// too.
struct Checked {
    std::vector<Finding> findings;
    uint64_t left_out = 0;  // findings in further groups
};
[[nodiscard]] Checked run_checked(const sim::Program& program, sim::Launch launch,
                                  sim::AddressSpace& memory,
                                  const std::map<std::string, ArrayShape>& shared);

}  // namespace coalesce::analysis
