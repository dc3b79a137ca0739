// Checks a kernel while it runs: races, reads of uninitialized memory, accesses outside arrays,
// wrong use of barriers and warp operations.
//
// METHOD
// For each piece of memory, the observer stores which threads accessed it last (shadow memory,
// shadow.hpp). It also stores which accesses are ordered by barriers and fences (order.hpp). At
// each access, it looks up the earlier accesses that conflict with this access. It tests whether a
// barrier or a fence orders them before this access. The order in which the simulator happens to
// execute the threads does not matter. Therefore a missing barrier is found even if the result is
// right. Blocks run one after another on one host thread, so that every run has the same findings.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "analysis/check/findings.hpp"
#include "analysis/check/order.hpp"
#include "analysis/check/registers.hpp"
#include "analysis/check/shadow.hpp"
#include "sim/warp/observer.hpp"

namespace coalesce::analysis {

// The declaration of a shared variable in the source, if it is known.
struct ArrayShape {
    std::vector<int64_t> shape;
    uint32_t item_bytes = 0;
    std::string type;
};

// What a load reads only to store it elsewhere, as a copy of a structure does.
struct CopiedBytes {
    uint16_t bytes = 0;  // a bit mask of these bytes
    // Debug code copies a structure with several loads. They count as one: these are the numbers of
    // bytes that the loads of the same line read directly before and after this load.
    uint32_t before = 0, after = 0;
    bool traced = false;  // the load is the origin (Origin) of all that stores copy from it
};

// A part of what a store writes: a load has read it from `from` on.
struct Origin {
    uint32_t load = 0;  // an index into Program::instructions
    uint32_t from = 0, to = 0, bytes = 0;
};

// The properties of an instruction that the checker needs.
struct CheckedInstruction {
    sim::Traits traits;
    sim::Access access = sim::Access::load;
    CopiedBytes copied;
    // True for a plain read of an address that the same thread then updates with compare-and-swap;
    // see loads_before_compare_and_swap().
    bool before_compare_and_swap = false;
    // For a plain load and a plain store that update an element: a number that both have. Otherwise
    // 0. See updates().
    uint32_t update = 0;
    // True for a volatile load that waits for another thread; see waiting_loads().
    bool waits = false;
    // True for an atomic that does not use the old value; see exchanges_without_result().
    bool replaces = false;
    // True for a load of the word that contains a bit field, for a write of the bit field; see
    // loads_for_bit_fields().
    bool for_bit_field = false;
    // True for a plain access that check_words() may check.
    bool by_words = false;
};

// Returns one entry for each instruction. For a load, it says which of the loaded bytes the kernel
// only copies. Only stores of such a byte read its register. These bytes may be uninitialized. For
// example, a kernel that copies a structure also copies the unused bytes between its members
// (padding), and this is no mistake.
[[nodiscard]] std::vector<CopiedBytes> copied_bytes(const sim::Program& program);

// Returns one entry for each instruction. For a store, it says which loads have read what it
// writes.
[[nodiscard]] std::vector<std::vector<Origin>> origins(const sim::Program& program,
                                                       const std::vector<CopiedBytes>& copied);

// Returns one entry for each instruction: true if it is a load that is part of a write of a bit
// field. To write a bit field, a kernel loads the word that contains it, replaces some bits and
// stores the word. The other bits of the word may be uninitialized.
[[nodiscard]] std::vector<bool> loads_for_bit_fields(const sim::Program& program);

// Returns one entry for each instruction: true if it is a plain load from an address that a
// compare-and-swap in the same function updates. Such a load provides the value with which a loop
// begins, as in the atomicAdd() for double of the CUDA C++ Programming Guide. An outdated value
// does no harm: the compare-and-swap fails, and the loop repeats.
[[nodiscard]] std::vector<bool> loads_before_compare_and_swap(const sim::Program& program);

// Finds plain loads and stores that update an element, as in `h[i]++`: the store writes a value
// that was computed from the loaded one. Returns one entry for each instruction: a number that the
// load and the store of an update have in common, or 0 for all other instructions.
[[nodiscard]] std::vector<uint32_t> updates(const sim::Program& program);

// Returns one entry for each instruction: true if it is a volatile load in a loop that waits for
// another thread, as in `while (*flag == 0);`.
[[nodiscard]] std::vector<bool> waiting_loads(const sim::Program& program);

// Returns one entry for each instruction: true if it is an atomicExch() whose result is not used.
// The old value may then be uninitialized.
[[nodiscard]] std::vector<bool> exchanges_without_result(const sim::Program& program);

// How to check a launch.
struct CheckSettings {
    std::map<std::string, ArrayShape> shared;  // the source's declarations of the shared variables
    // The names of the parameters that are __restrict__ pointers, by their indices.
    std::map<uint32_t, std::string> restricted = {};
    // Apply the stricter rules: `volatile` protects an access only in a loop that waits, and what
    // is usually a warning about a race is an error.
    bool strict = false;
    bool wants_touched = false;  // Checked::touched is needed
};

class CheckObserver {
  public:
    static constexpr sim::Hooks hooks =
        sim::Hook::start | sim::Hook::finish | sim::Hook::segment | sim::Hook::call |
        sim::Hook::access | sim::Hook::fault | sim::Hook::async_complete | sim::Hook::fence |
        sim::Hook::synchronized | sim::Hook::arrive | sim::Hook::complete | sim::Hook::misuse;

    CheckObserver(const sim::Program& program, const sim::GridRun& launch,
                  const sim::AddressSpace& memory, const CheckSettings& settings);
    ~CheckObserver();

    void start(sim::Block& block);
    void finish(const sim::Block& block);
    void segment(const sim::Warp& w, uint32_t op, sim::LaneMask mask);
    void call(const sim::Warp& w);
    void access(const sim::Warp& w, const sim::MemoryEvent& e);
    void fault(const sim::Warp& w, const sim::Op& op, sim::Access access, ptx::Space space,
               Fault fault, sim::LaneMask lanes, const uint64_t* addresses);
    void async_complete(const sim::Warp& w, const sim::AsyncCopy& copy, sim::LaneMask lanes);
    void fence(const sim::Warp& w, const sim::Op& op);
    void synchronized(const sim::Warp& w, const sim::Op& op);
    void arrive(const sim::Warp& w, const sim::Op& op, uint32_t barrier);
    void complete(const sim::Block& block, uint32_t barrier);

    void misuse(const sim::Warp& w, const sim::Op& op, int lane, const sim::Misuse& wrong);

    // Called after the run. Reports memory that the kernel allocated with malloc() and did not
    // free, and to which no pointer exists any more.
    void lost_memory();
    // Called after a run without an error. Notes arrays of which the launch wrote only a part.
    void note_coverage();
    // Called if an error ended the run. Reports this error.
    void stopped(const LaunchError& error, FindingKind kind);
    // The first reason for which the kernel stops in a run without checks.
    [[nodiscard]] std::optional<Fault> first_fault() const { return first_fault_; }
    // The address that this fault called (KernelFault::handle).
    [[nodiscard]] uint64_t called() const { return called_; }

    [[nodiscard]] Findings& findings() { return findings_; }
    [[nodiscard]] Touched touched() const {
        return global_.touched([&](uint32_t pc) { return instructions_[pc].update > 0; });
    }
    // Valid accesses that may be mistakes. They are in a list of their own, so that they do not
    // replace findings.
    [[nodiscard]] Findings& notes() { return notes_; }

  private:
    struct BlockState;
    struct Place;  // describes the access that is being checked, and its granule (state.hpp)
    struct Piece;  // granules that a warp accesses together (state.hpp)
    struct KnownRead;
    // The answer to a question about several granules.
    enum class Answer : uint8_t { no, yes, differs };

    static BlockState& state(const sim::Warp& w);

    void check_access(const sim::Warp& w, const sim::MemoryEvent& e);
    template <bool shared>
    void check(const sim::Warp& w, const sim::MemoryEvent& e);
    void check_local(const sim::Warp& w, const sim::MemoryEvent& e);
    // Follows uninitialized bytes of local memory that a thread only copies. In local memory, the
    // copy is uninitialized, too. Reports a copy to memory that other threads can read.
    void follow_copies(const sim::Warp& w, const sim::MemoryEvent& e);
    // The address of a read may be computed from the address of a parameter. Reports the read if it
    // is outside this parameter.
    void check_parameter(const sim::Warp& w, const sim::MemoryEvent& e);
    // Reports an access to shared memory outside the variable from which its address is computed.
    void outside_variable(const sim::Warp& w, uint32_t pc, uint32_t bytes, int lane,
                          uint64_t address);
    // Reports an index outside an array member of a structure (outside_member.hpp).
    void outside_member(const sim::Warp& w, const sim::Op& op, int lane, const sim::Misuse& wrong);
    // Returns true if an index outside a member was reported for the line of this instruction. The
    // access with this index need not be reported again.
    [[nodiscard]] bool follows_from_member(uint32_t pc) const;
    // Starts a frame of local memory for these lanes. All its variables are uninitialized.
    void start_frame(const sim::Warp& w, const sim::Frame& frame, sim::LaneMask lanes);

    // Returns true if a thread of the block has ended at an op behind the barrier (see
    // is_behind()). Such a thread took a path without the barrier.
    [[nodiscard]] bool ended_behind(const sim::Block& block, uint32_t barrier_pc);
    [[nodiscard]] bool is_behind(uint32_t op, uint32_t barrier_pc) const;

    // Notes partial sums in shared memory that no thread of the block has read.
    void note_lost_sums(const sim::Block& block);

    // Most accesses are to whole rows, and are correct. These functions check such accesses: one
    // test for all granules that have the same cell. Granules that may have a mistake are left to
    // the functions for single granules.
    template <bool shared>
    [[nodiscard]] bool check_rows(Place& at, sim::LaneMask lanes, bool reads);
    [[nodiscard]] bool repeats(const Place& at);
    [[nodiscard]] bool is_known_row(Place& at, uint32_t lane, uint64_t number);
    [[nodiscard]] bool are_known_rows(Place& at, const uint64_t* places, bool down,
                                      KnownRead& known);
    // Returns true if the access certainly reads settled granules of shared memory.
    [[nodiscard]] bool is_settled(BlockState& b, const sim::Warp& w,
                                  const sim::MemoryEvent& e) const;
    // Checks a plain access granule by granule, as long as it is correct. Returns the lanes that
    // are left.
    template <bool shared, bool reads>
    [[nodiscard]] sim::LaneMask check_words(BlockState& b, const sim::Warp& w,
                                            const sim::MemoryEvent& e);
    static void settle(const Place& at, const Cell& cell, uint64_t row, sim::LaneMask granules);
    [[nodiscard]] KnownRead as_known(const Place& at);
    [[nodiscard]] uint64_t& changes_of(uint32_t buffer) {
        return changes_[buffer % changes_.size()];
    }
    template <bool shared>
    void check_piece(Place& at, const Piece& piece, bool reads);
    [[nodiscard]] Row& row(const Place& at, uint64_t number);
    // `granules` are granules of a row with the same cell.
    static Answer ordered(const Place& at, const Stamp& then, uint32_t lane_then, uint32_t lane,
                          sim::LaneMask granules);
    static Answer is_known(const Place& at, const Cell& cell, sim::LaneMask granules);
    [[nodiscard]] bool is_correct_read(const Place& at, const Cell& cell,
                                       sim::LaneMask granules) const;
    static bool is_correct_write(const Place& at, const Cell& cell, sim::LaneMask granules);
    // Keeps a read in a cell. Returns false if this has different results for the granules.
    static bool keep_read(const Place& at, Cell& cell, sim::LaneMask granules);

    void check_cell(Place& at, Cell& cell, bool reads);
    void read(const Place& at, Cell& cell);
    void write(const Place& at, Cell& cell);
    void read_strong(const Place& at, Cell& cell);
    void write_strong(const Place& at, Cell& cell);
    void check_initialised(const Place& at, const Cell& cell);
    // Returns true if uninitialized bytes are probably padding (unused bytes between the members of
    // a structure). This is assumed if the instruction only copies them, together with initialized
    // bytes.
    [[nodiscard]] bool is_padding(const Place& at) const;
    static void initialise(const Place& at, Cell& cell);
    void check_proxy(const Place& at, const Cell& cell);
    Location& location(const Place& at);

    // Compares a plain access with the strong accesses before it.
    // `by_last` is true if what is ordered after the last access is ordered after all (Location).
    void conflict_with(const Place& at, const Recent& recent, bool by_last, bool both_write);
    // Reports two accesses that are not ordered.
    void conflict(const Place& at, const Stamp& then, uint32_t lane_then, bool both_write);
    // Checks two strong accesses (atomics, volatile accesses and similar). They race only if one of
    // them has a scope that does not include the other access's thread. For example, the scope of
    // an atomic can be limited to its block.
    void check_strong(const Place& at, const Stamp& then, bool block_scope, bool atomic);
    void uninitialized(const Place& at);
    // Returns the one variable that the line of this instruction updates, or an empty text.
    [[nodiscard]] std::string updated_at(uint32_t pc) const;
    void uninitialized(const sim::Warp& w, const UnwrittenRegisters::Use& use);
    void outside_view(const Place& at, uint64_t first);
    // Notes that the order of atomic additions of floating-point numbers changes the sum.
    void note_rounding(const Place& at, const Location& sum);
    void stale(const Place& at, const Stamp& then);
    // Returns the number of the name through which an instruction accesses memory, or 0.
    [[nodiscard]] uint32_t alias_of(uint32_t pc) const {
        return alias_of_.empty() ? 0 : alias_of_[pc];
    }
    [[nodiscard]] bool has_alias(uint32_t pc) const { return alias_of(pc) > 0; }
    // Returns true if the access was through another name of the memory than this one.
    [[nodiscard]] bool is_alias(const Place& at, const Stamp& then) const;
    // Reports an access through a name of the memory if another access was through another name.
    void check_alias(const Place& at, const Cell& cell);
    void alias(const Place& at, const Stamp& then, uint32_t lane_then);
    void find_aliases(const std::map<uint32_t, std::string>& restricted);
    void unfenced(const Place& at, const Stamp& then);
    [[nodiscard]] bool same_value(const Place& at, uint32_t lane_then, bool same_instruction) const;
    [[nodiscard]] bool same_instruction(const Place& at, const Stamp& then,
                                        uint32_t lane_then) const;
    void describe_place(Finding& f, const Place& at) const;
    [[nodiscard]] std::string name_of_place(const Place& at) const;
    [[nodiscard]] Actor actor(const std::string& what, const Stamp& stamp, uint32_t lane) const;
    [[nodiscard]] Actor actor(const std::string& what, const sim::Warp& w, uint32_t pc,
                              int lane) const;
    void find_shared_variables(const std::map<std::string, ArrayShape>& shapes);
    // array_of() returns the array that contains a place, for messages. array_number() returns the
    // number of this array; findings about the same array can be in the same group.
    [[nodiscard]] const sim::Buffer* array_of(const Place& at) const;
    [[nodiscard]] uint32_t array_number(const Place& at) const;

    const sim::Program& program_;
    const sim::GridRun& launch_;
    const bool strict_;
    std::vector<CheckedInstruction> instructions_;
    std::vector<std::vector<Origin>> origins_;
    std::vector<uint32_t> buffer_hints_;  // for each instruction: the buffer of its last access
    const UnwrittenRegisters registers_;
    uint32_t shared_bits_ = 4, global_bits_ = 4;
    std::vector<sim::Buffer> shared_variables_;  // sorted by offset
    // For each instruction, the shared variable from which its address is computed, or -1.
    std::vector<int> variable_of_;
    // Names of memory that may be the same memory: __restrict__ parameters, or dynamic arrays in
    // shared memory. For each instruction, its name's index + 1, or 0. Usually there are no names.
    std::vector<std::string> aliases_;
    std::vector<uint32_t> alias_of_;
    GlobalShadow global_;
    Findings findings_, notes_;
    // A read of a warp that changed nothing. As long as nothing changes, the same read changes
    // nothing either. Nor do reads whose lanes all read up to `below` bytes before these places, or
    // up to `above` bytes after them. These are some of the last such reads.
    struct KnownRead {
        uint64_t changes = 0;  // the changes of the array before the read
        uint64_t place = 0;    // the address of lane 0, even if it is not active
        int64_t stride = 0;
        sim::LaneMask lanes = 0;
        uint32_t block = 0, warp = 0, time = 0, alias = 0;
        uint8_t bytes = 0;
        bool read_only = false;
        uint32_t below = 0, above = 0;
        uint64_t tested = 0;  // the place of the last test of whole rows
        [[nodiscard]] bool contains(uint64_t other) const {
            return other - (place - below) <= uint64_t{below} + above;
        }
        [[nodiscard]] bool was_tested_near(uint64_t other, uint64_t bytes) const {
            return (other > tested ? other - tested : tested - other) < bytes;
        }
        // Returns true if the other read has the same result, provided that its place is known.
        [[nodiscard]] bool is_like(const KnownRead& other) const {
            return changes == other.changes && stride == other.stride && lanes == other.lanes &&
                   warp == other.warp && time == other.time && block == other.block &&
                   bytes == other.bytes && read_only == other.read_only && alias == other.alias;
        }
    };
    std::array<KnownRead, 64> known_reads_;
    [[nodiscard]] KnownRead& known_read(const sim::MemoryEvent& e, uint32_t buffer) {
        const uint64_t stride = uint64_t(sim::lane_stride(e));
        return known_reads_[(5 * buffer + stride / sizeof(uint32_t)) % known_reads_.size()];
    }
    std::array<uint64_t, 16> changes_;  // how often the cells of some buffers each have changed
    // The accesses that threads made visible when they arrived at a cluster's barrier.
    struct ClusterArrivals {
        ClockPtr known;
        bool complete = false;
    };
    std::map<const sim::Cluster*, ClusterArrivals> clusters_;
    std::vector<std::unique_ptr<BlockState>> states_;
    std::vector<BlockState*> free_states_;
    std::set<std::pair<uint32_t, uint32_t>> member_lines_;  // see follows_from_member()
    uint64_t faults_ = 0;
    std::optional<Fault> first_fault_;
    uint64_t called_ = 0;
    bool has_barriers_ = false;
    // An atomic may take a lock: atomicCAS(), or atomicExch() whose result is used.
    bool may_lock_ = false;
    // More must be known about a write to shared memory than that it was before a barrier.
    bool needs_writes_ = false;
    bool updates_shared_ = false;  // the kernel updates elements in shared memory; see updates()
    std::map<std::pair<uint32_t, uint32_t>, bool> behind_;  // results of is_behind
};

static_assert(sim::Observer<CheckObserver>);

// The result of run_checked(), which runs a program on one host thread with the checker. The
// program must be decoded for Watch::faults. If an error ends the kernel, this error is one of the
// findings.
struct Checked {
    std::vector<Finding> findings;
    uint64_t left_out = 0;  // findings beyond the maximum number of groups
    // The first reason for which the kernel stops in a run without checks.
    std::optional<Fault> fault = {};
    uint64_t called = 0;  // the address, if the fault is Fault::no_function
    Touched touched = {};
};
[[nodiscard]] Checked run_checked(const sim::Program& program, sim::GridRun launch,
                                  sim::AddressSpace& memory, const CheckSettings& settings);

}  // namespace coalesce::analysis
