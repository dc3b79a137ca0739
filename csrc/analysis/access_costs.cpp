#include "analysis/access_costs.hpp"

namespace coalesce::analysis {

namespace {

// Of PTX ("atom.shared.cas.b32") and of machine code ("ATOMS.CAS", "ATOMS.CAST.SPIN").
model::SharedAtomic kind_of(const std::string& opcode) {
    const auto has = [&](const char* part) { return opcode.find(part) != std::string::npos; };
    if (has(".CAST.SPIN")) return model::SharedAtomic::spinning;
    if (has(".cas.") || has(".CAS")) return model::SharedAtomic::compare_and_swap;
    return has(".POPC.INC") ? model::SharedAtomic::increment : model::SharedAtomic::plain;
}

}  // namespace

bool bypasses_first_level(const sim::InstructionInfo& info) {
    return info.opcode.starts_with("cp.async.cg") || info.opcode.starts_with("LDGSTS.E.BYPASS");
}

AccessCosts::AccessCosts(const sim::Program& program)
    : program_(program),
      regular_(program.instructions.size()),
      sites_(program.instructions.size()),
      atomics_(program.instructions.size()),
      generic_(program.instructions.size()),
      bypasses_(program.instructions.size()) {
    for (size_t i = 0; i < program.instructions.size(); ++i) {
        atomics_[i] = kind_of(program.instructions[i].opcode);
        generic_[i] = program.instructions[i].space == ptx::Space::generic;
        bypasses_[i] = bypasses_first_level(program.instructions[i]);
    }
}

InstructionCounts AccessCosts::of(size_t i) const {
    InstructionCounts total = sites_[i];
    const auto add_regular = [&](sim::Shape shape, uint64_t times) {
        if (times == 0) return;
        sim::MemoryEvent e;
        e.pc = uint32_t(i);
        e.space = ptx::Space::shared;
        e.access = program_.instructions[i].access;
        e.shape = shape;
        e.bytes = program_.instructions[i].bytes;
        e.mask = sim::all_lanes;
        InstructionCounts one;
        one.space = std::max(one.space, e.space);
        add_request(one, e);
        add_shared(one, e);
        for (const Counter& c : counters) one.*c.value *= times;
        total.add(one);
    };
    add_regular(sim::Shape::uniform, regular_[i].uniform);
    add_regular(sim::Shape::consecutive, regular_[i].consecutive);
    return total;
}

void AccessCosts::clear() {
    std::fill(regular_.begin(), regular_.end(), Regular{});
    std::fill(sites_.begin(), sites_.end(), InstructionCounts{});
}

void AccessCosts::add_copy(InstructionCounts& c, const sim::MemoryEvent& e) {
    if (e.space == ptx::Space::global) {
        source_ = e;
        if (e.shape == sim::Shape::scattered) {
            std::copy_n(e.addresses, sim::warp_size, source_addresses_);
            source_.addresses = source_addresses_;
        }
        c.space = ptx::Space::global;
        add_request(c, e);
        if (!bypasses_[e.pc]) add_global(c, e);
        return;
    }
    // Where no lane read anything (all zero fill), no source was announced.
    if (source_.pc != e.pc) source_.mask = 0;
    add_wavefronts(c, model::copy_wavefronts(source_, e));
    if (bypasses_[e.pc] && source_.mask) {
        const model::BypassingCopy copy = model::bypassing_copy(source_, e);
        const model::Footprint f = model::footprint(source_);
        c.sectors += copy.sectors;
        c.theoretical_sectors += copy.theoretical;
        c.lines += f.lines;
        c.ideal += std::min(copy.theoretical, model::packed_sectors(source_));
        c.distinct_bytes += uint64_t(f.elements) * e.bytes;
    }
    source_.mask = 0;
}

}  // namespace coalesce::analysis
