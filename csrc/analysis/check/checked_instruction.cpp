// Determines properties of instructions that the checker needs, once, before a run.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "analysis/check/check.hpp"

namespace coalesce::analysis {

using sim::Access;
using sim::DataFlow;

namespace {

using Register = std::pair<uint32_t, uint32_t>;  // the function, and its register

// Expresses the address that an instruction accesses as a base plus a constant offset. The base is
// a variable or a register. To find the base, it follows additions of constants and conversions
// between address spaces.
class Addresses {
  public:
    explicit Addresses(const sim::Program& program) : program_(program) {
        std::set<Register> defined;
        for (size_t i = 0; i < program.instructions.size(); ++i) {
            const uint32_t function = program.instructions[i].function;
            const DataFlow& flow = program.data_flow[i];
            for (const uint32_t r : flow.writes) {
                const Register written{function, r};
                // If several instructions write a register, it is not known which of their values
                // an address uses. Then the register itself is the base.
                if (!defined.insert(written).second)
                    made_of_.erase(written);
                else if (flow.copied >= 0 && !flow.guarded)
                    made_of_[written] = {uint32_t(flow.copied), flow.added};
            }
        }
    }

    // An address has four parts: the function, the name of a variable, the number of a register,
    // and an offset. The offset is added to the address of the variable or to the register. If
    // there is a variable, the register is -1. Otherwise the name is empty.
    using Address = std::tuple<uint32_t, std::string, int64_t, int64_t>;
    [[nodiscard]] Address of(size_t instruction) const {
        const uint32_t function = program_.instructions[instruction].function;
        const DataFlow& flow = program_.data_flow[instruction];
        if (flow.address.empty()) return {function, flow.symbol, -1, flow.offset};
        uint32_t base = flow.address[0];
        int64_t offset = flow.offset;
        for (int steps = 0; steps < 16; ++steps) {
            const auto made = made_of_.find({function, base});
            if (made == made_of_.end()) break;
            base = made->second.first;
            offset += made->second.second;
        }
        return {function, "", base, offset};
    }

  private:
    const sim::Program& program_;
    std::map<Register, std::pair<uint32_t, int64_t>> made_of_;
};

}  // namespace

std::vector<uint16_t> copied_bytes(const sim::Program& program) {
    using enum sim::OpCode;
    // The registers that are used by other instructions than stores that copy their values.
    std::set<Register> used;
    for (size_t i = 0; i < program.instructions.size(); ++i) {
        const sim::InstructionInfo& in = program.instructions[i];
        const DataFlow& flow = program.data_flow[i];
        const bool copies = in.traits.code == st || in.traits.code == ld;
        for (const uint32_t r : copies ? flow.address : flow.reads) used.emplace(in.function, r);
    }
    std::vector<uint16_t> copied;
    for (size_t i = 0; i < program.instructions.size(); ++i) {
        const sim::InstructionInfo& in = program.instructions[i];
        const std::vector<uint32_t>& written = program.data_flow[i].writes;
        uint16_t& bytes = copied.emplace_back();
        if (in.access == Access::async_copy) bytes = 0xffff;
        if (in.traits.code != ld || in.bytes == 0) continue;
        // If the load drops one of its results, it is not known which bytes the other results have.
        if (written.size() != in.traits.elements) continue;
        const size_t size = in.bytes / written.size();
        for (size_t n = 0; n < written.size(); ++n) {
            if (used.contains({in.function, written[n]})) continue;
            bytes |= uint16_t(((1u << size) - 1) << (n * size));
        }
    }
    return copied;
}

std::vector<bool> loads_before_compare_and_swap(const sim::Program& program) {
    const Addresses addresses(program);
    std::set<Addresses::Address> swapped;
    for (size_t i = 0; i < program.instructions.size(); ++i) {
        const sim::Traits& traits = program.instructions[i].traits;
        if (traits.code == sim::OpCode::atom && traits.form == sim::AtomicForm::compare_and_swap)
            swapped.insert(addresses.of(i));
    }
    std::vector<bool> before_compare_and_swap;
    for (size_t i = 0; i < program.instructions.size(); ++i) {
        const bool loads = program.instructions[i].traits.code == sim::OpCode::ld;
        before_compare_and_swap.push_back(loads && swapped.contains(addresses.of(i)));
    }
    return before_compare_and_swap;
}

// METHOD
// Follows the loaded value from instruction to instruction. It must reach exactly one instruction
// that is not a bitwise operation: a store to the address of the load. On the way, `and` with a
// constant or `bfi` must have removed the bits of the bit field.
std::vector<bool> loads_for_bit_fields(const sim::Program& program) {
    using enum sim::OpCode;
    const Addresses addresses(program);
    std::map<Register, std::vector<size_t>> readers;
    std::map<Register, int> writers;
    for (size_t i = 0; i < program.instructions.size(); ++i) {
        const uint32_t function = program.instructions[i].function;
        for (const uint32_t r : program.data_flow[i].reads) readers[{function, r}].push_back(i);
        for (const uint32_t r : program.data_flow[i].writes) ++writers[{function, r}];
    }
    const auto is_for_bit_field = [&](size_t load) {
        const sim::InstructionInfo& info = program.instructions[load];
        bool removes = false;
        std::set<size_t> stores, followed{load};
        std::vector<size_t> left{load};
        while (!left.empty()) {
            const size_t at = left.back();
            left.pop_back();
            const DataFlow& flow = program.data_flow[at];
            if (flow.writes.size() != 1 || flow.guarded) return false;
            const Register value{info.function, flow.writes[0]};
            if (writers[value] != 1) return false;
            for (const size_t user : readers[value]) {
                const sim::InstructionInfo& by = program.instructions[user];
                const DataFlow& use = program.data_flow[user];
                const sim::OpCode code = by.traits.code;
                if (code == st) {
                    if (std::ranges::count(use.address, value.second) || by.bytes != info.bytes ||
                        by.space != info.space || addresses.of(user) != addresses.of(load))
                        return false;
                    stores.insert(user);
                    continue;
                }
                if (code != and_ && code != or_ && code != bfi && code != cvt && code != mov)
                    return false;
                removes = removes || (code == and_ && use.reads.size() == 1) || code == bfi;
                if (followed.insert(user).second) left.push_back(user);
            }
        }
        return removes && stores.size() == 1;
    };
    std::vector<bool> result;
    for (size_t i = 0; i < program.instructions.size(); ++i) {
        const sim::InstructionInfo& info = program.instructions[i];
        result.push_back(info.traits.code == ld && info.bytes > 0 && is_for_bit_field(i));
    }
    return result;
}

std::vector<uint32_t> updates(const sim::Program& program) {
    const Addresses addresses(program);
    using Key = std::tuple<Addresses::Address, uint32_t, uint32_t>;  // also the file and the line
    const auto key = [&](size_t i) {
        const ptx::SourceLine& at = program.instructions[i].source;
        return Key{addresses.of(i), at.file, at.line};
    };
    std::map<Key, uint32_t> loaded;
    for (size_t i = 0; i < program.instructions.size(); ++i) {
        if (program.instructions[i].traits.code == sim::OpCode::ld)
            loaded.emplace(key(i), uint32_t(loaded.size()) + 1);
    }
    std::set<uint32_t> stored;
    std::vector<uint32_t> result;
    for (size_t i = 0; i < program.instructions.size(); ++i) {
        const sim::OpCode code = program.instructions[i].traits.code;
        const bool plain = code == sim::OpCode::ld || code == sim::OpCode::st;
        const auto found = plain ? loaded.find(key(i)) : loaded.end();
        result.push_back(found == loaded.end() ? 0 : found->second);
        if (code == sim::OpCode::st) stored.insert(result.back());
    }
    for (uint32_t& update : result) {
        if (!stored.contains(update)) update = 0;
    }
    return result;
}

// METHOD
// If the result of another atomic is not used, the compiler writes `red` instead of `atom`.
std::vector<bool> exchanges_without_result(const sim::Program& program) {
    std::set<Register> used;
    for (size_t i = 0; i < program.instructions.size(); ++i) {
        for (const uint32_t r : program.data_flow[i].reads)
            used.emplace(program.instructions[i].function, r);
    }
    std::vector<bool> result;
    for (size_t i = 0; i < program.instructions.size(); ++i) {
        const sim::InstructionInfo& in = program.instructions[i];
        const bool exchanges =
            in.traits.code == sim::OpCode::atom && in.traits.form == sim::AtomicForm::exchange;
        result.push_back(exchanges &&
                         std::ranges::none_of(program.data_flow[i].writes, [&](uint32_t r) {
                             return used.contains({in.function, r});
                         }));
    }
    return result;
}

// METHOD
// A path leads from the load back to it, and its instructions neither write memory nor change the
// address.
std::vector<bool> waiting_loads(const sim::Program& program) {
    std::vector<bool> waits(program.instructions.size());
    for (uint32_t load = 0; load < waits.size(); ++load) {
        const sim::Traits& traits = program.instructions[load].traits;
        if (!traits.is_volatile || traits.code != sim::OpCode::ld) continue;
        const std::vector<uint32_t>& address = program.data_flow[load].address;
        std::set<uint32_t> seen;
        std::vector<uint32_t> left{load};
        while (!left.empty() && !waits[load]) {
            const uint32_t at = left.back();
            left.pop_back();
            for (const uint32_t next : program.data_flow[at].successors) {
                const sim::InstructionInfo& in = program.instructions[next];
                waits[load] = waits[load] || next == load;
                const bool passes = in.space == ptx::Space::reg || in.access == Access::load;
                const bool moves = std::ranges::any_of(
                    program.data_flow[next].writes,
                    [&](uint32_t r) { return std::ranges::find(address, r) != address.end(); });
                if (passes && !moves && seen.insert(next).second) left.push_back(next);
            }
        }
    }
    return waits;
}

}  // namespace coalesce::analysis
