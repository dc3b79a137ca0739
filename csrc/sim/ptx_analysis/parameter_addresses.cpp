#include "sim/ptx_analysis/parameter_addresses.hpp"

#include <string_view>
#include <unordered_map>

namespace coalesce::sim {

namespace {

using ptx::Instruction;
using ptx::Operand;

// What a register contains. A number n of at least 0 means: the address of parameter n, plus an
// index.
using Content = int32_t;
constexpr Content not_known_yet = -3, index = -2, anything = -1;

// Returns the content of a register that may have content `a` or content `b`.
Content either(Content a, Content b) {
    if (a == not_known_yet || a == b) return b;
    return b == not_known_yet ? a : anything;
}

Content sum(Content a, Content b) {
    if (a == not_known_yet || b == not_known_yet) return not_known_yet;
    return a == index ? b : b == index ? a : anything;
}

Content difference(Content a, Content b) {
    if (a == not_known_yet || b == not_known_yet) return not_known_yet;
    return b == index ? a : anything;
}

class Interpreter {
  public:
    Interpreter(const ptx::Function& kernel, std::span<const Traits> traits)
        : kernel_(kernel), traits_(traits), contents_(kernel.registers.size(), not_known_yet) {
        for (const ptx::Parameter& p : kernel.parameters)
            number_of_.emplace(p.name, Content(number_of_.size()));
        // An address has 64 bits.
        for (size_t r = 0; r < contents_.size(); ++r)
            if (ptx::size_of(kernel.registers[r].type) < 8) contents_[r] = index;
    }

    std::vector<int32_t> find() {
        for (changed_ = true; changed_;) {
            changed_ = false;
            for (size_t n = 0; n < traits_.size(); ++n) interpret(n);
        }
        std::vector<int32_t> found(traits_.size(), -1);
        for (size_t n = 0; n < traits_.size(); ++n) {
            const Instruction& in = kernel_.body[n];
            if (traits_[n].code != OpCode::ld || in.operands.size() < 2) continue;
            const Operand& address = in.operands[1];
            if (address.kind == Operand::Kind::address && address.reg >= 0)
                found[n] = std::max(contents_[size_t(address.reg)], -1);
        }
        return found;
    }

  private:
    void interpret(size_t n) {
        const Instruction& in = kernel_.body[n];
        if (in.operands.empty()) return;
        const auto operand = [&](size_t i) {
            return i < in.operands.size() ? content_of(in.operands[i]) : anything;
        };
        Content made = anything;
        switch (traits_[n].code) {
            case OpCode::mov:
                made = operand(1);
                break;
            case OpCode::cvta:
                if (in.has("param")) made = operand(1);
                break;
            case OpCode::cvt:  // of a narrow register
                if (operand(1) == index) made = index;
                if (operand(1) == not_known_yet) made = not_known_yet;
                break;
            case OpCode::add:
                made = sum(operand(1), operand(2));
                break;
            case OpCode::sub:
                made = difference(operand(1), operand(2));
                break;
            case OpCode::mul:  // a multiple of an integer is no address
            case OpCode::shl:
                made = index;
                break;
            case OpCode::mad:
                made = operand(3);
                break;
            case OpCode::selp:
                made = either(operand(1), operand(2));
                break;
            default:
                break;
        }
        give(in.operands[0], made);
    }

    [[nodiscard]] Content content_of(const Operand& o) const {
        using enum Operand::Kind;
        if (o.kind == reg) return contents_[size_t(o.reg)];
        if (o.kind == integer || o.kind == special) return index;
        if (o.kind != symbol || o.variable >= 0) return anything;
        const auto known = number_of_.find(o.name);
        return known == number_of_.end() ? anything : known->second;
    }

    void give(const Operand& to, Content content) {
        for (const Operand& element : to.elements) give(element, anything);
        if (to.kind != Operand::Kind::reg) return;
        Content& known = contents_[size_t(to.reg)];
        if (ptx::size_of(kernel_.registers[size_t(to.reg)].type) < 8) return;
        const Content now = either(known, content);
        changed_ = changed_ || now != known;
        known = now;
    }

    const ptx::Function& kernel_;
    std::span<const Traits> traits_;
    std::vector<Content> contents_;  // for each register
    std::unordered_map<std::string_view, Content> number_of_;
    bool changed_ = false;
};

}  // namespace

std::vector<int32_t> parameter_addresses(const ptx::Function& kernel,
                                         std::span<const Traits> traits) {
    return Interpreter(kernel, traits).find();
}

}  // namespace coalesce::sim
