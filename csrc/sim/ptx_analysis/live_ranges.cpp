// Computes how long each register must keep its value.
//
// METHOD
// A register is live at an instruction if its value is still needed: a later instruction reads the
// register before another instruction writes it. The live registers are found from the end of the
// code towards its start. At the start of a block of instructions, two kinds of registers are live.
// First, the registers that the block reads before it writes them. Second, the registers that are
// live at the start of a following block and that this block does not write. The search is repeated
// until nothing changes. Finally, the interval of each register is extended to all instructions at
// which the register is live, read or written.
//
// Most registers are written and read in one block only. They are never live between two blocks, so
// the sets of live registers leave them out. The other registers are a few hundred in a kernel with
// 10,000 registers. They are processed in batches, to limit the memory.
#include <algorithm>
#include <bit>
#include <utility>

#include "sim/ptx_analysis/data_flow.hpp"

namespace coalesce::sim {
namespace {

constexpr uint32_t no_bit = UINT32_MAX;
// The size of one block's set in a batch, in 64-bit words. A batch has 512 registers.
constexpr size_t words = 8;
constexpr size_t batch = words * 64;

class Liveness {
  public:
    Liveness(const ptx::Function& function, std::span<const Traits> traits, const ControlFlow& flow)
        : blocks_(flow.blocks), ranges_(function.registers.size()) {
        effects_.reserve(function.body.size());
        for (size_t i = 0; i < function.body.size(); ++i)
            effects_.push_back(effects_of(function.body[i], traits[i]));
    }

    std::vector<LiveRange> find() {
        for (uint32_t i = 0; i < effects_.size(); ++i) {
            for (uint32_t reg : effects_[i].reads) cover(reg, i);
            for (uint32_t reg : effects_[i].writes) cover(reg, i);
        }
        const std::vector<uint32_t> crossing = crossing_registers();
        bit_of_.assign(ranges_.size(), no_bit);
        for (size_t first = 0; first < crossing.size(); first += batch) {
            const size_t count = std::min(batch, crossing.size() - first);
            const uint32_t* const registers = crossing.data() + first;
            for (size_t k = 0; k < count; ++k) bit_of_[registers[k]] = static_cast<uint32_t>(k);
            summarize_blocks();
            solve();
            for (size_t b = 0; b < blocks_.size(); ++b) {
                const auto cover_all = [&](const Set& set, uint32_t instruction) {
                    for_each_bit(set, [&](size_t bit) { cover(registers[bit], instruction); });
                };
                cover_all(sets_[b].in, blocks_[b].first);
                cover_all(sets_[b].out, blocks_[b].last - 1);
            }
            for (size_t k = 0; k < count; ++k) bit_of_[registers[k]] = no_bit;
        }
        return std::move(ranges_);
    }

  private:
    struct Set {
        uint64_t word[words] = {};
        void add(uint32_t bit) { word[bit / 64] |= uint64_t{1} << bit % 64; }
        [[nodiscard]] bool has(uint32_t bit) const { return word[bit / 64] >> bit % 64 & 1; }
    };
    struct BlockSets {
        Set in, out, written;
    };

    void cover(uint32_t reg, uint32_t instruction) {
        ranges_[reg].first = std::min(ranges_[reg].first, instruction);
        ranges_[reg].last = std::max(ranges_[reg].last, instruction);
    }

    // Returns the registers that some block reads before it writes them.
    std::vector<uint32_t> crossing_registers() const {
        std::vector<uint32_t> result;
        std::vector<bool> listed(ranges_.size(), false);
        // For each register: the last block that wrote it.
        std::vector<uint32_t> writer(ranges_.size(), no_block);
        for (uint32_t b = 0; b < blocks_.size(); ++b) {
            for (uint32_t i = blocks_[b].first; i < blocks_[b].last; ++i) {
                for (uint32_t reg : effects_[i].reads) {
                    if (writer[reg] == b || listed[reg]) continue;
                    listed[reg] = true;
                    result.push_back(reg);
                }
                for (uint32_t reg : effects_[i].writes) writer[reg] = b;
            }
        }
        return result;
    }

    void summarize_blocks() {
        sets_.assign(blocks_.size(), {});
        for (size_t b = 0; b < blocks_.size(); ++b) {
            BlockSets& sets = sets_[b];
            for (uint32_t i = blocks_[b].first; i < blocks_[b].last; ++i) {
                for (uint32_t reg : effects_[i].reads) {
                    const uint32_t bit = bit_of_[reg];
                    if (bit != no_bit && !sets.written.has(bit)) sets.in.add(bit);
                }
                for (uint32_t reg : effects_[i].writes) {
                    if (bit_of_[reg] != no_bit) sets.written.add(bit_of_[reg]);
                }
            }
        }
    }

    void solve() {
        for (bool changed = true; changed;) {
            changed = false;
            for (size_t b = blocks_.size(); b-- > 0;) {
                BlockSets& sets = sets_[b];
                for (uint32_t successor : blocks_[b].successors) {
                    const Set& needed = sets_[successor].in;
                    for (size_t w = 0; w < words; ++w) sets.out.word[w] |= needed.word[w];
                }
                for (size_t w = 0; w < words; ++w) {
                    const uint64_t in =
                        sets.in.word[w] | (sets.out.word[w] & ~sets.written.word[w]);
                    changed |= in != sets.in.word[w];
                    sets.in.word[w] = in;
                }
            }
        }
    }

    template <typename Visit>
    static void for_each_bit(const Set& set, Visit visit) {
        for (size_t w = 0; w < words; ++w) {
            for (uint64_t bits = set.word[w]; bits != 0; bits &= bits - 1) {
                visit(w * 64 + static_cast<size_t>(std::countr_zero(bits)));
            }
        }
    }

    const std::vector<BasicBlock>& blocks_;
    std::vector<LiveRange> ranges_;
    std::vector<Effects> effects_;
    std::vector<uint32_t> bit_of_;  // for each register: its bit in this batch, or no_bit
    std::vector<BlockSets> sets_;
};

}  // namespace

std::vector<LiveRange> live_ranges(const ptx::Function& function, std::span<const Traits> traits,
                                   const ControlFlow& flow) {
    return Liveness(function, traits, flow).find();
}

}  // namespace coalesce::sim
