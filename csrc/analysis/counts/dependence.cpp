#include "analysis/counts/dependence.hpp"

#include <algorithm>
#include <utility>

namespace coalesce::analysis {

namespace {

using ptx::Space;
using sim::Access;
using sim::DataFlow;
using sim::InstructionInfo;
using sim::OpCode;

bool accesses_memory(const InstructionInfo& in) { return in.space != Space::reg; }

bool is_atomic(const InstructionInfo& in) {
    return accesses_memory(in) && in.access == Access::atomic;
}

// Returns true if an instruction reads the register. A guarded instruction also reads the registers
// that it writes, to keep their values in the lanes in which the guard is false. This function
// ignores such a read.
bool uses(const DataFlow& flow, uint32_t reg) {
    const auto times = [&](const std::vector<uint32_t>& list) {
        return std::count(list.begin(), list.end(), reg);
    };
    return times(flow.reads) > (flow.guarded ? times(flow.writes) : 0);
}

bool result_is_used(const sim::Program& program, uint32_t atomic) {
    for (size_t i = 0; i < program.instructions.size(); ++i) {
        if (program.instructions[i].function != program.instructions[atomic].function) continue;
        for (const uint32_t result : program.data_flow[atomic].writes)
            if (uses(program.data_flow[i], result)) return true;
    }
    return false;
}

// Finds the registers and memory spaces to which the results of atomics spread.
class Spread {
  public:
    explicit Spread(const sim::Program& program) : program_(program) {
        for (size_t before = SIZE_MAX; before != size();) {
            before = size();
            for (uint32_t i = 0; i < program_.instructions.size(); ++i) follow(i);
        }
    }

    [[nodiscard]] bool reaches(uint32_t instruction, const std::vector<uint32_t>& registers) const {
        const uint32_t function = program_.instructions[instruction].function;
        return std::any_of(registers.begin(), registers.end(),
                           [&](uint32_t r) { return registers_.contains({function, r}); });
    }

    // A generic address is treated as an address of global memory, which is most likely.
    static Space space_of(const InstructionInfo& in) {
        return in.space == Space::shared || in.space == Space::local ? in.space : Space::global;
    }

  private:
    [[nodiscard]] size_t size() const { return registers_.size() + memory_.size(); }

    // Returns the memory space that an instruction loads from or stores to. It is Space::param for
    // the arguments and results of calls. It is Space::reg if the instruction accesses no memory,
    // or only the kernel's own parameters.
    [[nodiscard]] Space memory_of(uint32_t i) const {
        const InstructionInfo& in = program_.instructions[i];
        if (accesses_memory(in)) return space_of(in);
        if (in.traits.code != OpCode::ld && in.traits.code != OpCode::st) return Space::reg;
        const auto is_named = [&](const sim::ParameterInfo& p) {
            return p.name == program_.data_flow[i].symbol;
        };
        const bool of_kernel =
            in.function == 0 && std::ranges::any_of(program_.parameters, is_named);
        return of_kernel ? Space::reg : Space::param;
    }

    void follow(uint32_t i) {
        const InstructionInfo& in = program_.instructions[i];
        const DataFlow& flow = program_.data_flow[i];
        const Space memory = memory_of(i);
        const bool loads =
            in.traits.code == OpCode::ld || (accesses_memory(in) && in.access == Access::load);
        bool reached = reaches(i, flow.reads);
        // Values in global memory are not followed.
        if (reached && !loads && memory != Space::reg && memory != Space::global)
            memory_.insert(memory);
        reached |= is_atomic(in) || (loads && memory_.contains(memory));
        if (!reached) return;
        for (const uint32_t r : flow.writes) registers_.emplace(in.function, r);
    }

    const sim::Program& program_;
    std::set<std::pair<uint32_t, uint32_t>> registers_;  // the function, and its register
    std::set<Space> memory_;
};

}  // namespace

std::vector<uint32_t> exchanges(const sim::Program& program) {
    std::vector<uint32_t> numbers;
    for (uint32_t i = 0; i < program.instructions.size(); ++i) {
        const InstructionInfo& in = program.instructions[i];
        const bool is_global = in.space == Space::global || in.space == Space::generic;
        const bool strong_load = in.access == Access::load && in.traits.strong;
        if (in.traits.cluster ||
            (is_global && (is_atomic(in) ? result_is_used(program, i) : strong_load)))
            numbers.push_back(i);
    }
    return numbers;
}

std::set<Space> spaces_ordered_by_atomics(const sim::Program& program) {
    std::set<Space> spaces;
    if (std::ranges::none_of(program.instructions, is_atomic)) return spaces;
    const Spread spread(program);
    for (uint32_t i = 0; i < program.instructions.size(); ++i) {
        const InstructionInfo& in = program.instructions[i];
        if (accesses_memory(in) && spread.reaches(i, program.data_flow[i].address))
            spaces.insert(Spread::space_of(in));
    }
    return spaces;
}

}  // namespace coalesce::analysis
