// Properties of instructions and operands that the checker determines once, before a run.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <string_view>
#include <tuple>

#include "analysis/check.hpp"

namespace coalesce::analysis {

using sim::Access;

namespace {

// The names of registers in a part of an instruction, in order.
std::vector<std::string_view> registers(std::string_view text) {
    std::vector<std::string_view> names;
    for (size_t at = text.find('%'); at < text.size(); at = text.find('%', at + 1)) {
        const size_t end = text.find_first_not_of(
            "%$_.0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", at);
        names.push_back(text.substr(at, end - at));
    }
    return names;
}

// The integer at the end of a text such as "%rd1, 8;" or "[%rd1+8]", or 0.
int64_t last_integer(std::string_view text) {
    const size_t end = text.find_last_of("0123456789");
    if (end == std::string_view::npos) return 0;
    size_t start = text.find_last_not_of("0123456789", end) + 1;
    if (start > 0 && text[start - 1] == '-') --start;
    if (start == 0 || std::string_view(" ,+-").find(text[start - 1]) == std::string_view::npos)
        return 0;
    return std::strtoll(std::string(text.substr(start)).c_str(), nullptr, 10);
}

// Expresses the address of each instruction as a register and an offset. Follows additions of
// constants and conversions between address spaces.
class Addresses {
  public:
    explicit Addresses(const sim::Program& program) {
        for (const sim::InstructionInfo& in : program.instructions) {
            using enum sim::OpCode;
            const sim::OpCode code = in.traits.code;
            const bool sum = code == add && in.traits.pipe == sim::Pipe::other;
            const bool same = code == cvta || code == mov;
            const auto names = registers(in.text);
            // In a guarded instruction, the first name is the predicate, and the instruction may
            // not write its registers. In a store, the first name is the address.
            const bool stores = code == st || code == red;
            if (names.empty() || in.text[0] == '@' || stores) continue;
            const Register written{in.function, names[0]};
            if (!defined_.insert(written).second)
                made_of_.erase(written);
            else if ((sum || same) && names.size() == 2)
                made_of_[written] = {names[1], sum ? last_integer(in.text) : 0};
        }
    }

    using Address = std::tuple<uint32_t, std::string_view, int64_t>;
    [[nodiscard]] Address of(const sim::InstructionInfo& in) const {
        const std::string_view text = in.text;
        const size_t open = std::min(text.find('['), text.size());
        const std::string_view operand = text.substr(open, text.find(']', open) - open);
        const auto names = registers(operand);
        if (names.empty()) return {in.function, operand, 0};
        std::string_view base = names[0];
        int64_t offset = last_integer(operand);
        for (int steps = 0; steps < 16; ++steps) {
            const auto made = made_of_.find({in.function, base});
            if (made == made_of_.end()) break;
            base = made->second.first;
            offset += made->second.second;
        }
        return {in.function, base, offset};
    }

  private:
    // The function, and the name of the register.
    using Register = std::pair<uint32_t, std::string_view>;
    std::set<Register> defined_;
    std::map<Register, std::pair<std::string_view, int64_t>> made_of_;
};

}  // namespace

std::vector<uint16_t> copied_bytes(const sim::Program& program) {
    using enum sim::OpCode;
    // In a load, the registers that it writes precede the address. In a store, the registers that
    // it reads follow the address.
    std::set<std::pair<uint32_t, std::string_view>> used;  // by function
    for (const sim::InstructionInfo& in : program.instructions) {
        std::string_view text = in.text;
        const size_t open = std::min(text.find('['), text.size());
        const size_t close = std::min(text.find(']'), text.size());
        if (in.traits.code == st) text = text.substr(0, close);
        if (in.traits.code == ld) text = text.substr(open);
        for (const std::string_view name : registers(text)) used.emplace(in.function, name);
    }
    std::vector<uint16_t> copied;
    for (const sim::InstructionInfo& in : program.instructions) {
        uint16_t& bytes = copied.emplace_back();
        if (in.access == Access::async_copy) bytes = 0xffff;
        if (in.traits.code != ld || in.bytes == 0) continue;
        const size_t open = std::min(in.text.find('['), in.text.size());
        std::string_view text = std::string_view(in.text).substr(0, open);
        if (const size_t opcode = text.find("ld."); opcode < text.size())
            text = text.substr(opcode);
        const auto written = registers(text);
        const size_t size = written.empty() ? 0 : in.bytes / written.size();
        for (size_t i = 0; i < written.size(); ++i) {
            if (used.contains({in.function, written[i]})) continue;
            bytes |= uint16_t(((1u << size) - 1) << (i * size));
        }
    }
    return copied;
}

std::vector<bool> guessing_loads(const sim::Program& program) {
    const Addresses addresses(program);
    std::set<Addresses::Address> swapped;
    for (const sim::InstructionInfo& in : program.instructions) {
        const bool swaps = in.traits.form == sim::AtomicForm::compare_and_swap;
        if (in.traits.code == sim::OpCode::atom && swaps) swapped.insert(addresses.of(in));
    }
    std::vector<bool> guesses;
    for (const sim::InstructionInfo& in : program.instructions) {
        guesses.push_back(in.traits.code == sim::OpCode::ld && swapped.contains(addresses.of(in)));
    }
    return guesses;
}

}  // namespace coalesce::analysis
