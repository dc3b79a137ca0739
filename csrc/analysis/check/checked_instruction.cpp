// Determines properties of instructions that the checker needs, once, before a run.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "analysis/check/check.hpp"

namespace coalesce::analysis {

using ptx::Space;
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

namespace {

// Registers, and what instructions do with them that only pass a value on.
class Values {
  public:
    explicit Values(const sim::Program& program) {
        std::map<Register, uint32_t> writers;
        for (const DataFlow& flow : program.data_flow)
            for (const uint32_t r : flow.writes) ++writers[at(program, flow, r)];
        std::vector<std::pair<Register, Register>> passed;  // from the second to the first
        for (size_t i = 0; i < program.instructions.size(); ++i) {
            const sim::OpCode code = program.instructions[i].traits.code;
            const DataFlow& flow = program.data_flow[i];
            for (const uint32_t r : flow.writes)
                if (flow.guarded || writers[at(program, flow, r)] > 1)
                    unclear_.insert(at(program, flow, r));
            const bool moves = flow.copied >= 0 && flow.added == 0 && !flow.writes.empty();
            const bool shuffles =
                code == sim::OpCode::shfl && !flow.writes.empty() && !flow.reads.empty();
            const bool copies = code == sim::OpCode::st || code == sim::OpCode::ld;
            const std::vector<uint32_t>& reads = copies ? flow.address : flow.reads;
            for (size_t n = 0; n < reads.size(); ++n) {
                const Register read = at(program, flow, reads[n]);
                if (moves || (shuffles && n == 0))
                    passed.emplace_back(at(program, flow, flow.writes[0]), read);
                else
                    used_.insert(read);
            }
            if (moves)
                moved_[at(program, flow, flow.writes[0])] =
                    at(program, flow, uint32_t(flow.copied));
        }
        for (size_t before = SIZE_MAX; before != used_.size();) {
            before = used_.size();
            for (auto pass = passed.rbegin(); pass != passed.rend(); ++pass)
                if (used_.contains(pass->first) || unclear_.contains(pass->first))
                    used_.insert(pass->second);
        }
    }
    // Returns true if only stores read the register, or registers that have its value.
    [[nodiscard]] bool is_copied(Register r) const { return !used_.contains(r); }
    // Returns true if the register always has the value of the instruction that writes it.
    [[nodiscard]] bool is_clear(Register r) const { return !unclear_.contains(r); }
    // Returns the register from which moves have brought the value.
    [[nodiscard]] Register source(Register r) const {
        for (int steps = 0; steps < 16 && is_clear(r); ++steps) {
            const auto from = moved_.find(r);
            if (from == moved_.end()) break;
            r = from->second;
        }
        return r;
    }

  private:
    static Register at(const sim::Program& program, const DataFlow& flow, uint32_t r) {
        return {program.instructions[size_t(&flow - program.data_flow.data())].function, r};
    }
    std::set<Register> used_, unclear_;
    std::map<Register, Register> moved_;
};

// Finds neighbouring loads that only copy, and belong to the same source line.
void find_neighbours(const sim::Program& program, std::vector<CopiedBytes>& copied) {
    using Key = std::tuple<uint32_t, std::string, int64_t, uint32_t, uint32_t>;
    std::map<Key, std::vector<std::pair<int64_t, uint32_t>>> loads;  // their offsets
    const Addresses addresses(program);
    for (uint32_t i = 0; i < copied.size(); ++i) {
        const sim::InstructionInfo& in = program.instructions[i];
        if (!copied[i].bytes || in.traits.code != sim::OpCode::ld) continue;
        const auto [function, symbol, base, offset] = addresses.of(i);
        loads[{function, symbol, base, in.source.file, in.source.line}].emplace_back(offset, i);
    }
    for (auto& [key, all] : loads) {
        std::ranges::sort(all);
        int64_t first = 0, end = INT64_MIN;
        for (const auto& [offset, i] : all) {
            if (offset > end) first = offset;
            copied[i].before = uint32_t(offset - first);
            end = std::max(end, offset + int64_t(program.instructions[i].bytes));
        }
        first = INT64_MAX;
        for (auto load = all.rbegin(); load != all.rend(); ++load) {
            const int64_t after = load->first + int64_t(program.instructions[load->second].bytes);
            if (after < first) end = after;
            copied[load->second].after = uint32_t(end - after);
            first = load->first;
        }
    }
}

}  // namespace

std::vector<CopiedBytes> copied_bytes(const sim::Program& program) {
    const Values values(program);
    std::vector<CopiedBytes> copied;
    for (size_t i = 0; i < program.instructions.size(); ++i) {
        const sim::InstructionInfo& in = program.instructions[i];
        const std::vector<uint32_t>& written = program.data_flow[i].writes;
        CopiedBytes& c = copied.emplace_back();
        if (in.access == Access::async_copy) c.bytes = 0xffff;
        if (in.traits.code != sim::OpCode::ld || in.bytes == 0) continue;
        // If the load drops one of its results, it is not known which bytes the other results have.
        if (written.size() != in.traits.elements) continue;
        const size_t size = in.bytes / written.size();
        c.traced = true;
        for (size_t n = 0; n < written.size(); ++n) {
            const Register r{in.function, written[n]};
            c.traced = c.traced && values.is_clear(r);
            if (!values.is_copied(r)) continue;
            c.bytes |= uint16_t(((1u << size) - 1) << (n * size));
        }
    }
    find_neighbours(program, copied);
    return copied;
}

std::vector<std::vector<Origin>> origins(const sim::Program& program,
                                         const std::vector<CopiedBytes>& copied) {
    const Values values(program);
    std::map<Register, std::pair<uint32_t, uint32_t>> loaded;  // the load, and the byte
    for (uint32_t i = 0; i < copied.size(); ++i) {
        if (!copied[i].traced) continue;
        const std::vector<uint32_t>& written = program.data_flow[i].writes;
        const uint32_t size = uint32_t(program.instructions[i].bytes / written.size());
        for (uint32_t n = 0; n < written.size(); ++n)
            loaded[{program.instructions[i].function, written[n]}] = {i, n * size};
    }
    std::vector<std::vector<Origin>> result(copied.size());
    for (uint32_t i = 0; i < copied.size(); ++i) {
        const sim::InstructionInfo& in = program.instructions[i];
        if (in.traits.code != sim::OpCode::st || in.bytes == 0) continue;
        const DataFlow& flow = program.data_flow[i];
        // The value of a store comes after its address.
        std::vector<uint32_t> stored(flow.reads);
        for (const uint32_t r : flow.address) std::erase(stored, r);
        if (stored.size() != in.traits.elements) continue;
        const uint32_t size = uint32_t(in.bytes / stored.size());
        for (uint32_t n = 0; n < stored.size(); ++n) {
            const auto known = loaded.find(values.source({in.function, stored[n]}));
            if (known != loaded.end())
                result[i].push_back({known->second.first, known->second.second, n * size, size});
        }
    }
    return result;
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

// METHOD
// Follows the value of each load from register to register. It must reach the value of a store to
// the same address. In a line such as `if (m[i] < v) m[i] = v`, it only decides whether the store
// is executed. Or it is passed to a function, or kept in local memory, which is not followed. In
// these cases, the load and the store must belong to the same source line.
std::vector<uint32_t> updates(const sim::Program& program) {
    using enum sim::OpCode;
    const Addresses addresses(program);
    std::map<Addresses::Address, std::vector<uint32_t>> stores;
    std::map<Register, std::vector<uint32_t>> readers;
    for (uint32_t i = 0; i < program.instructions.size(); ++i) {
        const sim::InstructionInfo& in = program.instructions[i];
        if (in.traits.code == st && in.space != Space::reg) stores[addresses.of(i)].push_back(i);
        for (const uint32_t r : program.data_flow[i].reads) readers[{in.function, r}].push_back(i);
    }
    const auto same_line = [&](uint32_t a, uint32_t b) {
        const ptx::SourceLine &x = program.instructions[a].source,
                              &y = program.instructions[b].source;
        return x.file == y.file && x.line == y.line;
    };
    std::map<Addresses::Address, uint32_t> numbers;
    std::vector<uint32_t> result(program.instructions.size());
    for (uint32_t load = 0; load < result.size(); ++load) {
        const sim::InstructionInfo& info = program.instructions[load];
        if (info.traits.code != ld || info.bytes == 0) continue;
        const auto possible = stores.find(addresses.of(load));
        if (possible == stores.end()) continue;
        const auto found = [&](uint32_t store) {
            result[load] = result[store] =
                numbers.try_emplace(possible->first, uint32_t(numbers.size()) + 1).first->second;
        };
        const auto found_if = [&](auto&& test) {
            for (const uint32_t store : possible->second)
                if (same_line(load, store) && test(store)) found(store);
        };
        std::set<uint32_t> followed{load};
        std::vector<uint32_t> left{load};
        const auto follow = [&](uint32_t user, uint32_t value) {
            const sim::InstructionInfo& by = program.instructions[user];
            const DataFlow& use = program.data_flow[user];
            if (use.successors.size() > 1)  // a branch over the store
                return found_if([&](uint32_t store) {
                    return user < store &&
                           std::ranges::any_of(
                               use.successors, [&](uint32_t next) { return next > store; });
                });
            // A store of an argument has no space.
            if (by.traits.code == st && (by.space == Space::reg || by.space == Space::local))
                return found_if([](uint32_t) { return true; });
            if (by.space == Space::reg) {
                if (followed.insert(user).second) left.push_back(user);
            } else if (by.traits.code == st && std::ranges::count(possible->second, user)) {
                const bool decides = use.guarded && use.reads.back() == value;
                if (!std::ranges::count(use.address, value) && (!decides || same_line(load, user)))
                    found(user);
            }
        };
        while (!left.empty()) {
            const uint32_t at = left.back();
            left.pop_back();
            for (const uint32_t value : program.data_flow[at].writes)
                for (const uint32_t user : readers[{info.function, value}]) follow(user, value);
        }
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
