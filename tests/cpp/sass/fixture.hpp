// Runs a few machine instructions on the simulator.
//
// Each thread gets three 64-bit words in the register pairs R2, R4 and R6. The predicates P1, P2
// and P3 are the lowest bits of these words. The results of the instructions are read from the pair
// R0 and the predicates P0 and P4, which are zero at the start.
#pragma once

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "sass/lift.hpp"
#include "sim/fixture.hpp"

namespace coalesce::sass {

struct Results {
    uint64_t value = 0;
    bool p = false, q = false;  // the results in P0 and P4
};

inline std::string listing_text(const std::vector<std::string>& instructions) {
    std::vector<std::string> code{
        "S2R R20, SR_TID.X",
        "LDC.64 R22, c[0x0][0x210]",
        "LDC.64 R24, c[0x0][0x218]",
        "IMAD.WIDE.U32 R22, R20, 0x18, R22",
        "IMAD.WIDE.U32 R24, R20, 0x10, R24",
        "LDG.E.64 R2, desc[UR4][R22.64]",
        "LDG.E.64 R4, desc[UR4][R22.64+0x8]",
        "LDG.E.64 R6, desc[UR4][R22.64+0x10]",
        "LOP3.LUT P1, RZ, R2, 0x1, RZ, 0xc0, !PT",
        "LOP3.LUT P2, RZ, R4, 0x1, RZ, 0xc0, !PT",
        "LOP3.LUT P3, RZ, R6, 0x1, RZ, 0xc0, !PT",
        "ISETP.NE.AND P0, PT, RZ, RZ, PT",
        "ISETP.NE.AND P4, PT, RZ, RZ, PT",
        "CS2R R0, SRZ",
    };
    code.insert(code.end(), instructions.begin(), instructions.end());
    for (const char* end : {"STG.E.64 desc[UR4][R24.64], R0", "SEL R0, RZ, 0x1, !P0",
                            "SEL R1, RZ, 0x1, !P4", "STG.E.64 desc[UR4][R24.64+0x8], R0", "EXIT"})
        code.emplace_back(end);
    std::string text = "//--------------------- .text.k ----------------------------\n.text.k:\n";
    char offset[32];
    size_t at = 0;
    for (const std::string& line : code) {
        if (line.ends_with(':')) {  // a label
            text += line + "\n";
            continue;
        }
        std::snprintf(offset, sizeof offset, "        /*%04zx*/  ", at);
        text += offset + line + " ;\n";
        at += instruction_bytes;
    }
    return text;
}

// Lifts the instructions. Throws UnsupportedInstruction if one cannot be read or lifted.
inline sim::Program lift_machine(const std::vector<std::string>& instructions,
                                 const sim::Engine& engine) {
    const ptx::Module module = ptx::parse(
        ".version 8.5\n.target sm_90\n.address_size 64\n"
        ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n ret;\n}\n");
    return lift(read(listing_text(instructions)), module, *module.find_function("k"),
                sim::lay_out_memory(module), engine);
}

// Runs the instructions with one thread for each element of `inputs`, and returns the results of
// each thread. Throws UnsupportedInstruction if an instruction cannot be read or lifted. `prepare`
// may add buffers to the memory. `shared_bytes` is the size of the block's shared memory.
inline std::vector<Results> run_machine(
    const std::vector<std::string>& instructions, std::vector<sim::Words> inputs,
    sim::Isa isa = sim::best_isa(),
    const std::function<void(sim::AddressSpace&)>& prepare = nullptr, uint32_t shared_bytes = 64) {
    const sim::Program program = lift_machine(instructions, sim::engine(sim::Watch::nothing, isa));

    struct Stored {
        uint64_t value;
        uint32_t p, q;
    };
    std::vector<Stored> out(inputs.size());
    sim::AddressSpace space;
    sim::Buffer in, result;
    in.name = "in";
    in.bytes = inputs.size() * sizeof inputs[0];
    in.host = reinterpret_cast<std::byte*>(inputs.data());
    result.name = "out";
    result.bytes = out.size() * sizeof out[0];
    result.host = reinterpret_cast<std::byte*>(out.data());
    const uint64_t addresses[] = {space.add(in), space.add(result)};
    if (prepare) prepare(space);
    sim::GridRun launch;
    launch.shared_bytes = shared_bytes;
    launch.block = {uint32_t(inputs.size()), 1, 1};
    launch.workers = 1;
    launch.parameters.resize(sizeof addresses);
    std::memcpy(launch.parameters.data(), addresses, sizeof addresses);
    sim::NoObserver nobody;
    const std::vector<sim::NoObserver*> observers(sim::worker_count(launch), &nobody);
    sim::run_grid<sim::NoObserver>(program, launch, space, observers);
    std::vector<Results> results;
    for (const Stored& s : out) results.push_back({s.value, s.p != 0, s.q != 0});
    return results;
}

}  // namespace coalesce::sass
