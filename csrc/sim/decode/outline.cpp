#include "sim/decode/outline.hpp"

#include <algorithm>
#include <string_view>

#include "errors.hpp"
#include "ptx/demangle.hpp"
#include "sim/ptx_analysis/symbols.hpp"

namespace coalesce::sim {

// The limit on static shared memory of a block (ptxas: "uses too much shared data").
static constexpr uint64_t max_static_shared_bytes = 48 * 1024;

// The size of the memory at %reserved_smem_offset_1 ("CG can expect at least 288 bytes available in
// reserved shared", cooperative_groups/details/memory.h).
static constexpr uint32_t cooperative_groups_bytes = 288;

static bool has_body(const ptx::Module& module, std::string_view name) {
    const ptx::Function* const f = module.find_function(name);
    return f && !f->external;
}

// Converts a mangled C++ name to the name in the source, without the parameters: "_Z5naivePf"
// becomes "naive". Other names are returned unchanged.
std::string readable(const std::string& name) {
    std::string plain = ptx::demangled(name);
    if (plain == name) return name;
    plain = plain.substr(0, plain.find('('));
    plain = plain.substr(0, plain.find("[abi:"));  // Numba adds version tags to names
    // The name of a template instance starts with the type of its result.
    const size_t space = plain.find(' ');
    return space < plain.find('<') ? plain.substr(space + 1) : plain;
}

// Records in `program` what the instruction requires of a launch: the heap, a cooperative launch,
// clusters, or shared memory of the system.
static void record_requirements(Program& program, const ptx::Module& module,
                                const ptx::Instruction& in) {
    const std::string_view called = callee_name(in);
    if ((called == "malloc" || called == "free") && !has_body(module, called))
        program.allocates = true;
    if (in.text.find("%envreg2") != std::string_view::npos) program.uses_grid_workspace = true;
    if (in.text.find("%reserved_smem_offset_1") != std::string_view::npos)
        program.system_shared_bytes = cooperative_groups_bytes;
    if (traits_of(full_opcode(in)).cluster) program.has_clusters = true;
}

Program outline(const ptx::Module& module, const ptx::Function& entry, const CallGraph& graph,
                std::shared_ptr<ModuleMemory> memory) {
    Program program;
    program.memory = std::move(memory);
    program.files = module.files;
    program.kernel = readable(entry.name);
    program.source_file = entry.source.file;
    program.parameters = lay_out_parameters(entry, program.parameter_bytes);
    for (const char* directive : {"maxntid", "reqntid"}) {
        const auto extents = entry.directives.find(directive);
        if (extents == entry.directives.end()) continue;
        uint32_t threads = 1;
        for (const uint32_t n : extents->second) threads *= n;
        program.max_block_threads = threads;
    }
    if (const auto extents = entry.directives.find("reqnctapercluster");
        extents != entry.directives.end()) {
        program.has_clusters = true;
        for (size_t n = 0; n < 3; ++n)
            program.cluster[n] = n < extents->second.size() ? extents->second[n] : 1;
    }
    const SharedLayout shared = lay_out_shared(module, graph);
    for (const auto& [v, offset] : shared.variables) {
        if (v->bytes() > max_static_shared_bytes || offset + v->bytes() > max_static_shared_bytes)
            throw LaunchError(
                program.kernel +
                ": a block has too much static shared memory: including the variable `" +
                readable(v->name) + "`, it has " + std::to_string(offset + v->bytes()) +
                " bytes of static shared memory; at most " +
                std::to_string(max_static_shared_bytes) +
                " bytes are allowed. For more, declare the array as extern "
                "__shared__, and pass its size as shared_bytes of the launch");
        const auto [at, fresh] = program.shared_variables.emplace(
            v->name, std::pair{uint32_t(offset), uint32_t(v->bytes())});
        if (!fresh) throw UnsupportedInstruction("two shared variables have the name " + at->first);
    }
    program.dynamic_shared = shared.dynamic;
    program.shared_bytes = uint32_t(shared.bytes);
    program.reserved_shared = reserved_shared(module);
    for (const ptx::Function* f : graph.functions) {
        for (const ptx::Instruction& in : f->body) record_requirements(program, module, in);
    }
    return program;
}

void find_segments(Program& program) {
    program.segment_end.resize(program.ops.size());
    uint32_t end = uint32_t(program.ops.size());
    for (size_t i = program.ops.size(); i-- > 0;) {
        if (program.ops[i].control != Control::none) end = uint32_t(i) + 1;
        program.segment_end[i] = end;
    }
}

}  // namespace coalesce::sim
