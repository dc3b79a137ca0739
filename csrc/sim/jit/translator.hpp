// Translates one kernel (translate.hpp). The parts of the translator:
// - translate.cpp: blocks, registers and liveness
// - values.cpp: values, registers, and their forms
// - operations.cpp: operations on lanes
// - memory.cpp: loads and stores
// - control.cpp: branches, places where compiled code is entered and left, and whole functions
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "sim/jit/compiled.hpp"
#include "sim/jit/meaning.hpp"
#include "sim/jit/translate.hpp"

namespace coalesce::sim::jit {

// The offsets of registers in a frame.
using Slots = std::set<uint32_t>;

enum class Form : uint8_t { unset, uniform, affine, lanes };

// What is known about a register at the start of a block.
struct Known {
    Form form = Form::unset;
    int64_t stride = 0;
    bool raw = false;    // a result of float arithmetic, whose NaNs are not canonical yet
    bool clean = false;  // the slot of the register has the value, too
    bool operator==(const Known&) const = default;
    [[nodiscard]] bool same_form(const Known& k) const {
        return form == k.form && stride == k.stride && raw == k.raw;
    }
};

// A value of a register. Predicates are values of type i1.
struct Value {
    Form form = Form::lanes;
    int64_t stride = 0;
    std::string bits = {};  // an integer: of lane 0 if the form is not `lanes`
    std::string real = {};  // the same as a floating-point number, or empty
    bool raw = false;       // only `real` is set, and its NaNs are not canonical
    uint32_t id = 0;        // values with the same id are equal
    // A part of threadIdx.x or the number of the lane: below 1024, the stride is 1, and lane 0 has
    // a multiple of 32.
    bool counts_lanes = false;
    [[nodiscard]] Known known() const { return {form, stride, raw, false}; }
};

// A sequence of ops that is only entered at its start.
struct BasicBlock {
    uint32_t first = 0, last = 0;     // ops, without the last
    std::vector<uint32_t> next = {};  // the blocks to which control may go
    Slots in = {};                    // the registers that are live at the start
    std::map<uint32_t, Known> known = {};
    // after_barrier: `whole` leaves at a barrier, and is entered here without a test.
    bool whole_entry = false, after_barrier = false, reached = false;
    bool stale = false;  // `known` or `reached` has changed since the block was translated
};

// The registers that an op reads and writes.
struct Effects {
    Slots reads, writes;
    bool partial = false;  // it may not write all lanes
};

class Translator {
  public:
    Translator(const Program& program, const Meanings& meanings, ThreadShape shape)
        : program_(program), meanings_(meanings), shape_(shape) {}
    Translation translate();

  private:
    // ---- translate.cpp
    [[nodiscard]] const Meaning* find_meaning(const Op& op) const;
    // Notes the sizes of an op's registers. Returns false if another op has another size.
    bool note_slots(const Op& op, const Meaning& m);
    bool note_slot(Locator at, int bits);
    [[nodiscard]] Effects effects(uint32_t at) const;
    void find_blocks();
    void find_live();
    void find_entries();
    // The registers that are written between a branch and the place where its lanes reconverge.
    const Slots& region(uint32_t branch);
    // If a branch skips one short block and its lanes reconverge after it, returns this block.
    [[nodiscard]] const BasicBlock* skipped_block(uint32_t branch) const;
    [[nodiscard]] BasicBlock& block_at(uint32_t op) { return blocks_[block_of_.at(op)]; }
    [[nodiscard]] const BasicBlock& block_at(uint32_t op) const {
        return blocks_[block_of_.at(op)];
    }
    [[nodiscard]] uint32_t length(uint32_t op) const { return program_.segment_end[op] - op; }

    // ---- values.cpp
    // Returns the value of a member of CompiledContext, or its address.
    std::string field(const char* type, size_t offset);
    std::string field_address(size_t offset);
    Value constant(Locator at, int bits);
    // The value of a register in the block that is being emitted.
    Value read_slot(uint32_t slot);
    Value read(Locator at, int bits);  // with bits
    // An operand of this type. A floating-point number may be without bits.
    Value operand(Locator at, LaneType t);
    std::string bits_of(Value& v);            // of one lane, or as the value's form is
    std::string lanes_of(Value v, int bits);  // <32 x iN>
    std::string real_of(Value v, bool wide);  // float or <32 x float>
    std::string mask_of(const Value& p);      // for a predicate: i32
    std::string as(Value v, LaneType t, bool wide);
    std::string bools_of(const std::string& mask);
    std::string splat(const std::string& x, LaneType t);
    // Sets the register to v, in the lanes that execute the op.
    void write(const Op& op, Locator at, Value v);
    // For `part`: the value with the old value in the lanes that are not active.
    Value blended(uint32_t slot, Value v);
    Value load_home(uint32_t slot);
    void store_home(uint32_t slot, const Value& v);
    [[nodiscard]] std::string variable(uint32_t slot, const Known& k) const;
    [[nodiscard]] std::string variable_type(uint32_t slot, const Known& k) const;
    void store_variable(uint32_t slot, const Known& k, Value v);
    Value load_variable(uint32_t slot, const Known& k);
    // What is known about a register at this place of the block.
    [[nodiscard]] Known known_now(uint32_t slot) const;
    // What is known about a register at the start of all blocks of `part`.
    [[nodiscard]] Known in_part(uint32_t slot) const {
        return {Form::lanes, 0, real_.contains(slot), false};
    }

    // ---- operations.cpp
    void emit_op(uint32_t at);
    void emit_lanes(uint32_t at, const Meaning& m);
    // Returns the result if it is 0 or an operand.
    static std::optional<Value> folded(const Meaning& m, const std::vector<Value>& a);
    std::optional<int64_t> stride_of_result(const Meaning& m, const std::vector<Value>& a);
    void emit_compare(const Op& op, const Meaning& m);
    void emit_special(const Op& op);
    // Calls the handler of an op. Its registers are in their slots meanwhile.
    void emit_call(uint32_t at);
    // Executes an exchange between lanes in `whole`. Returns false if the interpreter must execute
    // it.
    bool emit_exchange(uint32_t at);
    // The lanes of the path that execute an op, as an i32, or "" if these are all of its lanes.
    std::string condition(const Op& op);
    // The lanes that execute an op, as an i32, or "" if these are all lanes.
    std::string access_mask(const Op& op);

    // ---- memory.cpp
    void emit_parameter(const Op& op);
    void emit_memory(uint32_t at, const Meaning& m);
    struct Access;
    std::string check_group(const Access& a);
    std::string check_lanes(const Access& a);
    void move(const Access& a, const std::string& host);
    void emit_result(const Access& a, int n, const std::string& v, Form form);
    std::string site(uint32_t at, size_t member);

    // ---- control.cpp
    void emit_function(bool whole, std::string& out);  // leaves `out` empty if it is too long
    std::string function_head();
    void find_known();
    void emit_block(BasicBlock& b, bool dry);
    void emit_entry(const BasicBlock& b, bool kept);
    bool emit_control(uint32_t at);  // returns false if it is an ordinary op
    // Executes the block after the branch in the lanes that do not take the branch.
    void emit_skipped(const BasicBlock& b, uint32_t branch, const std::string& taken);
    // Goes on with the block that begins at op `to`.
    void edge(uint32_t to, bool falls_through);
    // Begins the segment at `to`, or leaves if the slice has ended.
    void begin_segment(uint32_t to);
    // Leaves before op `at` unless the condition (an i1) is true.
    void leave(const std::string& condition, uint32_t at, const std::string& go_on);
    // Stores the registers, and leaves before op `at`. The operations from there to the end of the
    // segment are counted already, or not.
    void emit_leave(uint32_t at, bool counted = true);
    // Lets the scheduler split the path at a branch, and continue with any path.
    void emit_diverge(uint32_t branch, const std::string& taken, const char* go_on);
    void finish(const std::string& next);
    // Stores the registers for the code after the block: these in their slots, or for `part`, those
    // that have changed in their variables.
    void store_registers(const Slots& live);
    void learn(BasicBlock& b, uint32_t slot, const Known& k);
    void reach(BasicBlock& b);

    const Program& program_;
    const Meanings& meanings_;
    ThreadShape shape_;
    uint32_t end_ = 0;                        // the end of the kernel's own ops
    std::vector<const Meaning*> meaning_of_;  // null: the handler is called
    std::map<uint32_t, int> slots_;           // the bits of a lane, 1 for a predicate
    Slots written_;
    Slots real_;  // the registers that only results of float arithmetic are written to
    std::vector<BasicBlock> blocks_;
    std::map<uint32_t, uint32_t> block_of_;  // the key is the first op
    std::vector<Slots> live_;                // for each op
    std::map<uint32_t, Slots> regions_;

    // The function that is being emitted:
    bool whole_ = true, too_long_ = false;
    Writer e_;
    std::string body_, cold_;
    // The block that is being emitted:
    BasicBlock* block_ = nullptr;
    std::map<uint32_t, Value> values_;
    Slots changed_;  // the registers that the block has written
    uint32_t next_id_ = 0;
    std::map<std::string, uint32_t> literal_ids_;
    Value guard_;       // of the op that is being emitted
    std::string mask_;  // for `part`: the active lanes, an i32
    // While a block is executed that only some lanes of the path execute: these lanes, an i32, the
    // branch over the block, and the lanes that take it.
    std::string predicate_, skipping_;
    uint32_t skip_ = 0;
    // Accesses with the same base address, which share one check.
    struct Group {
        int64_t low = INT64_MAX, high = INT64_MIN;
        std::string host;  // the host address for `low`, or empty if it is not checked yet
    };
    using GroupKey = std::tuple<bool, bool, uint32_t, int64_t, uint32_t, int64_t>;
    std::map<GroupKey, Group> groups_;
};

inline std::string num(int64_t n) { return std::to_string(n); }

inline int64_t wrap(uint64_t x, int bits) {
    return bits == 64 ? int64_t(x) : bits == 32 ? int64_t(int32_t(x)) : int64_t(int16_t(x));
}

// Returns the number that a value is, or nothing.
inline std::optional<int64_t> literal(const std::string& s) {
    if (s.empty() || s[0] == '%') return {};
    return std::stoll(s);
}

}  // namespace coalesce::sim::jit
