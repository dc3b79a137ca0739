#include "sim/ptx_analysis/contraction.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/ptx_analysis/data_flow.hpp"
#include "sim/ptx_analysis/traits.hpp"

namespace coalesce::sim {

namespace {

using ptx::Function;
using ptx::Instruction;
using ptx::Operand;

constexpr std::string_view types[] = {"f32", "f64", "f16", "f16x2", "bf16", "bf16x2"};

// Returns the type of a product, sum or difference of floats that may be contracted. It is empty
// for other instructions.
std::string_view contractible(const Instruction& in) {
    if (in.opcode != "mul" && in.opcode != "add" && in.opcode != "sub") return {};
    if (in.modifiers.empty() || std::ranges::find(types, in.modifiers.back()) == std::end(types))
        return {};
    for (size_t i = 0; i + 1 < in.modifiers.size(); ++i)
        if (in.modifiers[i] != "ftz" && in.modifiers[i] != "sat") return {};
    return in.modifiers.back();
}

// Returns true if the assembler does not contract across this instruction. It is a branch, a call
// or a fence, or the assembler makes several blocks of code from it.
bool ends_region(const Instruction& in) {
    static constexpr std::string_view always[] = {"bra",  "brx",  "ret",   "exit",
                                                  "trap", "call", "fence", "membar"};
    static constexpr std::string_view accesses[] = {"ld", "st", "atom", "red"};
    static constexpr std::string_view roundings[] = {"rn", "rz", "rm", "rp"};
    if (std::ranges::find(always, in.opcode) != std::end(always)) return true;
    if (in.guard >= 0 && std::ranges::find(accesses, in.opcode) != std::end(accesses)) return true;
    if (in.modifiers.empty()) return false;
    const std::string_view type = in.modifiers.back();
    const bool integers = type.front() == 'u' || type.front() == 's';
    if ((in.opcode == "div" || in.opcode == "rem") && integers) return type != "u32";
    if (in.opcode == "div" || in.opcode == "rcp" || in.opcode == "sqrt")
        return std::ranges::any_of(roundings, [&](std::string_view r) { return in.has(r); });
    return in.opcode == "rsqrt" && type == "f64" && !in.has("ftz");
}

// A product, and the sums that read it: indices into the body.
struct Product {
    uint32_t at = 0;
    bool possible = true;
    std::vector<uint32_t> sums;
};

class Contraction {
  public:
    explicit Contraction(Function& function) : function_(function), body_(function.body) {}
    void run() {
        find_products();
        if (products_.empty()) return;
        find_regions();
        find_sums();
        choose();
        if (!taken_.empty()) rewrite();
    }

  private:
    void find_products() {
        for (uint32_t i = 0; i < body_.size(); ++i) {
            const Instruction& in = body_[i];
            if (in.opcode != "mul" || in.guard >= 0 || in.has("sat") || contractible(in).empty())
                continue;
            if (has_plain_operands(in)) products_[uint32_t(in.operands[0].reg)].at = i;
        }
    }

    static bool has_plain_operands(const Instruction& in) {
        const std::vector<Operand>& o = in.operands;
        const auto is_source = [](const Operand& source) {
            return source.kind == Operand::Kind::reg || source.kind == Operand::Kind::f32 ||
                   source.kind == Operand::Kind::f64;
        };
        return o.size() == 3 && o[0].kind == Operand::Kind::reg && is_source(o[1]) &&
               is_source(o[2]);
    }

    // Numbers the parts of the body within which the assembler contracts.
    void find_regions() {
        std::vector<bool> starts(body_.size() + 1);
        for (const Instruction& in : body_)
            for (const Operand& o : in.operands)
                if (o.kind == Operand::Kind::label) starts[o.target] = true;
        for (const auto& [name, targets] : function_.branch_targets)
            for (const uint32_t target : targets) starts[target] = true;
        region_.resize(body_.size());
        uint32_t region = 0;
        for (uint32_t i = 0; i < body_.size(); ++i) {
            region += starts[i];
            region_[i] = region;
            region += ends_region(body_[i]);
        }
    }

    // Finds the instructions that read each product. `written` has the last instruction before each
    // that writes a register.
    void find_sums() {
        const std::vector<Traits> traits = traits_of(function_);
        std::vector<uint32_t> writers(function_.registers.size()), written(writers.size());
        std::vector<Effects> effects;
        for (uint32_t i = 0; i < body_.size(); ++i) {
            effects.push_back(effects_of(body_[i], traits[i]));
            for (const uint32_t r : effects.back().writes) ++writers[r];
        }
        for (uint32_t i = 0; i < body_.size(); ++i) {
            for (const uint32_t r : effects[i].reads) {
                const auto known = products_.find(r);
                if (known == products_.end()) continue;
                Product& p = known->second;
                p.possible = p.possible && takes(i, r, p) && writers[r] == 1 &&
                             is_unchanged(body_[p.at].operands[1], p.at, written) &&
                             is_unchanged(body_[p.at].operands[2], p.at, written);
                p.sums.push_back(i);
            }
            for (const uint32_t r : effects[i].writes) written[r] = i;
        }
        std::erase_if(products_, [](const auto& item) { return !item.second.possible; });
    }

    // Returns true if the instruction `i`, which reads the product in register `r`, could take it.
    [[nodiscard]] bool takes(uint32_t i, uint32_t r, const Product& p) const {
        const Instruction &sum = body_[i], &product = body_[p.at];
        if (sum.opcode == "mul" || !has_plain_operands(sum) || i < p.at ||
            region_[i] != region_[p.at])
            return false;
        const auto is_product = [&](const Operand& o) { return o.reg == int32_t(r); };
        return contractible(sum) == contractible(product) && sum.has("ftz") == product.has("ftz") &&
               is_product(sum.operands[1]) != is_product(sum.operands[2]);
    }

    static bool is_unchanged(const Operand& o, uint32_t since,
                             const std::vector<uint32_t>& written) {
        return o.reg < 0 || written[uint32_t(o.reg)] <= since;
    }

    // Chooses the product that each sum takes.
    void choose() {
        std::vector<uint32_t> sums;
        for (const auto& [r, p] : products_) sums.insert(sums.end(), p.sums.begin(), p.sums.end());
        std::ranges::sort(sums);
        sums.erase(std::ranges::unique(sums).begin(), sums.end());
        for (const size_t most : {size_t{1}, SIZE_MAX})
            for (const uint32_t i : sums) {
                const bool pairs = contractible(body_[i]).ends_with("x2");
                const int term = best_term(i, most);
                if (taken_.contains(i) || (most == 1 && (pairs || !term))) continue;
                if (term) taken_[i] = term;
                for (const int other : {1, 2})
                    if (other != term) forget(body_[i].operands[size_t(other)]);
            }
    }

    // Returns which term of a sum, 1 or 2, is the product to take: the one that fewer instructions
    // read. Returns 0 if no term is a product that at most `most` instructions read.
    [[nodiscard]] int best_term(uint32_t i, size_t most) const {
        int best = 0;
        for (const int term : {1, 2}) {
            const auto p = products_.find(uint32_t(body_[i].operands[size_t(term)].reg));
            if (p == products_.end() || p->second.sums.size() > most) continue;
            best = term, most = p->second.sums.size() - 1;
        }
        return best;
    }

    // A sum reads this term, but has not taken it as a product. No later sum takes it.
    void forget(const Operand& term) {
        const auto p = products_.find(uint32_t(term.reg));
        if (p == products_.end()) return;
        forgotten_.insert(*p);
        products_.erase(p);
    }

    [[nodiscard]] const Product& product_of(uint32_t r) const {
        const auto p = products_.find(r);
        return p != products_.end() ? p->second : forgotten_.at(r);
    }

    void rewrite() {
        std::vector<bool> removed(body_.size());
        for (const auto& [r, p] : products_)
            removed[p.at] = std::ranges::all_of(p.sums, [&](uint32_t i) {
                const auto taken = taken_.find(i);
                return taken != taken_.end() &&
                       body_[i].operands[size_t(taken->second)].reg == int32_t(r);
            });
        std::vector<Instruction> made;
        std::vector<uint32_t> place(body_.size() + 1);
        for (uint32_t i = 0; i < body_.size(); ++i) {
            place[i] = uint32_t(made.size());
            if (const auto taken = taken_.find(i); taken != taken_.end())
                contract(i, size_t(taken->second), made);
            else if (!removed[i])
                made.push_back(body_[i]);
        }
        place[body_.size()] = uint32_t(made.size());
        for (Instruction& in : made)
            for (Operand& o : in.operands)
                if (o.kind == Operand::Kind::label) o.target = place[o.target];
        for (auto& [name, targets] : function_.branch_targets)
            for (uint32_t& target : targets) target = place[target];
        body_ = std::move(made);
    }

    // Appends the fma of a sum. In a difference, the second term, or the product, is negated.
    void contract(uint32_t i, size_t term, std::vector<Instruction>& made) {
        Instruction fma = body_[i];
        const Instruction& product = body_[product_of(uint32_t(fma.operands[term].reg)).at];
        std::vector<Operand> o = {fma.operands[0], product.operands[1], product.operands[2],
                                  fma.operands[3 - term]};
        if (fma.opcode == "sub") o[term == 1 ? 3 : 1] = negated(o[term == 1 ? 3 : 1], fma, made);
        fma.opcode = "fma";
        fma.operands = std::move(o);
        fma.modifiers.insert(fma.modifiers.begin(), "rn");
        made.push_back(std::move(fma));
    }

    Operand negated(Operand o, const Instruction& sum, std::vector<Instruction>& made) {
        if (o.kind == Operand::Kind::f32) return o.bits ^= 1u << 31, o;
        if (o.kind == Operand::Kind::f64) return o.bits ^= 1ull << 63, o;
        Instruction neg = sum;
        neg.opcode = "neg";
        neg.modifiers = {sum.modifiers.back()};
        neg.guard = -1;
        ptx::Register r = function_.registers[uint32_t(o.reg)];
        r.name += "_negated" + std::to_string(function_.registers.size());
        Operand result;
        result.kind = Operand::Kind::reg;
        result.reg = int32_t(function_.registers.size());
        function_.registers.push_back(std::move(r));
        neg.operands = {result, o};
        made.push_back(std::move(neg));
        return result;
    }

    Function& function_;
    std::vector<Instruction>& body_;
    std::vector<uint32_t> region_;
    std::map<uint32_t, Product> products_;   // by register
    std::map<uint32_t, Product> forgotten_;  // products that only earlier sums have taken
    std::map<uint32_t, int> taken_;          // for each contracted sum, the term that is a product
};

}  // namespace

ptx::Module contracted(ptx::Module module) {
    if (module.target.ends_with("debug")) return module;
    for (Function& function : module.functions) Contraction(function).run();
    return module;
}

}  // namespace coalesce::sim
