#include "sim/ptx_analysis/origins.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace coalesce::sim {

namespace {

using ptx::Instruction;
using ptx::Operand;

// The possible origins of a value. An origin is a number: parameters have the first numbers, from 0
// on, and variables have the following ones. A set contains at most 8 origins, because larger sets
// do not help to name an address.
using Origins = std::vector<uint32_t>;
constexpr size_t max_origins = 8;

bool add(Origins& to, uint32_t origin) {
    const auto at = std::lower_bound(to.begin(), to.end(), origin);
    if ((at != to.end() && *at == origin) || to.size() >= max_origins) return false;
    to.insert(at, origin);
    return true;
}

bool add(Origins& to, const Origins& from) {
    bool changed = false;
    for (const uint32_t origin : from) changed |= add(to, origin);
    return changed;
}

// Returns which operands of an instruction may point into the same array as its result. These
// operands are consecutive: the function returns the index of the first one and their number.
// Returns {0, 0} if there are none.
std::pair<size_t, size_t> pointer_operands(OpCode code) {
    switch (code) {
        case OpCode::mad:
            return {3, 1};
        case OpCode::mov:
        case OpCode::cvta:
        case OpCode::cvt:
        case OpCode::sub:
            return {1, 1};
        case OpCode::add:
        case OpCode::and_:
        case OpCode::or_:
        case OpCode::xor_:
        case OpCode::selp:
            return {1, 2};
        default:
            return {0, 0};
    }
}

// Returns true if the instruction copies between two addresses, and so has two origins. For most of
// these instructions, the second address is the source in global memory, and the first is the
// destination in shared memory. For copies to global memory, the first address is the destination.
bool copies(OpCode code) {
    switch (code) {
        case OpCode::cp_async:
        case OpCode::bulk_to_cluster:
        case OpCode::bulk_to_shared:
        case OpCode::bulk_to_global:
        case OpCode::bulk_tensor:
            return true;
        default:
            return false;
    }
}

bool has_address(OpCode code) {
    switch (code) {
        case OpCode::ld:
        case OpCode::ldu:
        case OpCode::st:
        case OpCode::atom:
        case OpCode::red:
        case OpCode::cp_async_arrive:
        case OpCode::bulk_prefetch:
            return true;
        default:
            return copies(code);
    }
}

class OriginFinder {
  public:
    OriginFinder(const ptx::Module& module, const ptx::Function& function,
                 std::span<const Traits> traits)
        : function_(function), traits_(traits), of_register_(function.registers.size()) {
        for (const ptx::Parameter& p : function.parameters) {
            number_of_.emplace(p.name, uint32_t(names_.size()));
            names_.push_back(p.name);
        }
        pointer_.resize(names_.size());
        for (size_t i = 0; i < names_.size(); ++i) pointer_[i] = function.parameters[i].pointer;
        for (const ptx::Variable& v : module.variables) name_variable(v);
        for (const ptx::Variable& v : function.variables) name_variable(v);
    }

    std::vector<Origin> find() {
        while (spread()) {
        }
        mark_pointers();
        std::vector<Origin> origins;
        origins.reserve(function_.body.size());
        for (size_t i = 0; i < traits_.size(); ++i)
            origins.push_back(origin_of(function_.body[i], traits_[i].code));
        return origins;
    }

  private:
    void name_variable(const ptx::Variable& v) {
        using ptx::Space;
        if (v.space != Space::global && v.space != Space::shared && v.space != Space::constant)
            return;
        number_of_.emplace(v.name, uint32_t(names_.size()));
        names_.push_back(v.name);
    }

    bool spread() {
        bool changed = false;
        for (size_t n = 0; n < traits_.size(); ++n) {
            const Instruction& in = function_.body[n];
            if (in.operands.empty()) continue;
            Origins from;
            if (traits_[n].code == OpCode::ld && loads_parameter(in)) {
                from = of_operand(in.operands[1]);
            } else {
                const auto [first, count] = pointer_operands(traits_[n].code);
                for (size_t i = first; i < first + count && i < in.operands.size(); ++i)
                    add(from, of_operand(in.operands[i]));
            }
            if (!from.empty()) changed |= give(in.operands[0], from);
        }
        return changed;
    }

    static bool loads_parameter(const Instruction& in) {
        return in.operands.size() > 1 && in.has("param") &&
               (in.has("u64") || in.has("b64") || in.has("s64"));
    }

    [[nodiscard]] Origins of_operand(const Operand& o) const {
        Origins from;
        if (o.reg >= 0) add(from, of_register_[size_t(o.reg)]);
        if (!o.name.empty()) {
            if (const auto known = number_of_.find(o.name); known != number_of_.end())
                add(from, known->second);
        }
        for (const Operand& element : o.elements) add(from, of_operand(element));
        return from;
    }

    bool give(const Operand& to, const Origins& from) {
        bool changed = to.reg >= 0 && add(of_register_[size_t(to.reg)], from);
        for (const Operand& element : to.elements) changed |= give(element, from);
        return changed;
    }

    void mark_pointers() {
        for (size_t n = 0; n < traits_.size(); ++n) {
            const Instruction& in = function_.body[n];
            if (traits_[n].code != OpCode::cvta || !in.has("to") || in.operands.size() < 2)
                continue;
            const Origins from = of_operand(in.operands[1]);
            if (from.size() == 1 && from[0] < pointer_.size()) pointer_[from[0]] = true;
        }
    }

    [[nodiscard]] Origin origin_of(const Instruction& in, OpCode code) const {
        Origin origin;
        if (!has_address(code)) return origin;
        const bool to_global = code == OpCode::bulk_to_global || in.has("bulk_group");
        const bool second = copies(code) && !to_global && in.operands.size() > 1;
        const Operand* address = nullptr;
        for (const Operand& o : in.operands) {
            if (o.kind == Operand::Kind::address && (!address || (second && &o == &in.operands[1])))
                address = &o;
        }
        if (!address || in.has("param")) return origin;
        Origins from = of_operand(*address);
        if (from.size() > 1 && from.size() < max_origins) {
            std::erase_if(from, [&](uint32_t n) { return n < pointer_.size() && !pointer_[n]; });
        }
        if (from.size() != 1) return origin;
        if (from[0] < pointer_.size())
            origin.parameter = int32_t(from[0]);
        else
            origin.variable = names_[from[0]];
        return origin;
    }

    const ptx::Function& function_;
    std::span<const Traits> traits_;
    std::vector<std::string> names_;
    std::map<std::string, uint32_t, std::less<>> number_of_;
    std::vector<bool> pointer_;  // for each parameter: whether it is known to be a pointer
    std::vector<Origins> of_register_;
};

}  // namespace

std::vector<Origin> address_origins(const ptx::Module& module, const ptx::Function& function,
                                    std::span<const Traits> traits) {
    return OriginFinder(module, function, traits).find();
}

}  // namespace coalesce::sim
