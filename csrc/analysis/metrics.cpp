// Computes Nsight Compute's metrics from the counts.
#include <algorithm>

#include "analysis/counts.hpp"
#include "model/coalescing.hpp"

namespace coalesce::analysis {

using ptx::Space;
using sim::Access;

namespace {

// The counts of instructions for one kind of memory, by kind of access.
struct Sums {
    InstructionCounts load, store, atomic, reduction, copy;

    InstructionCounts& of(Access access) {
        switch (access) {
            case Access::load:
                return load;
            case Access::store:
                return store;
            case Access::atomic:
                return atomic;
            case Access::reduction:
                return reduction;
            case Access::async_copy:
                break;
        }
        return copy;
    }

    [[nodiscard]] InstructionCounts all() const {
        InstructionCounts total;
        for (const InstructionCounts* c : {&load, &store, &atomic, &reduction, &copy})
            total.add(*c);
        return total;
    }
};

// Returns the part of an instruction's counts that is for shared memory. A generic instruction may
// access several spaces.
InstructionCounts shared_part(const InstructionCounts& c) {
    InstructionCounts part;
    part.requests = part.shared_requests = c.shared_requests;
    part.wavefronts = c.wavefronts;
    part.theoretical_wavefronts = c.theoretical_wavefronts;
    part.ideal = part.ideal_wavefronts = c.ideal_wavefronts;
    return part;
}

// Returns the part of the counts that is for global or local memory.
InstructionCounts other_part(InstructionCounts c) {
    c.requests -= c.shared_requests;
    c.ideal -= c.ideal_wavefronts;
    c.executed = c.shared_requests = 0;
    c.wavefronts = c.theoretical_wavefronts = c.ideal_wavefronts = 0;
    return c;
}

double percent(uint64_t part, uint64_t whole) {
    return whole ? 100.0 * double(part) / double(whole) : 0.0;
}

}  // namespace

// Adds the metrics of tensor cores, if the launch used them.
void Counts::add_tensor_cores(std::map<std::string, double>& m) const {
    using enum sim::TensorSource;
    const auto operations = [](sim::TensorSource source) {
        switch (source) {
            case fp16:
                return "fp16";
            case bf16:
                return "bf16_dst_fp32";
            case tf32:
                return "tf32_dst_fp32";
            case fp64:
                return "fp64";
            case int8:
                return "int8";
            case int4:
                return "int4";
            case int1:
                return "int1";
            default:
                return "fp8";
        }
    };
    const std::string pipe = "sm__inst_executed_pipe_tensor";
    for (size_t i = 0; i < instructions.size(); ++i) {
        const sim::Traits& t = listing->instructions[i].traits;
        const double executed = double(instructions[i].executed);
        if (executed == 0 || (t.pipe != sim::Pipe::tensor && t.tensor_cycles == 0)) continue;
        m[pipe + ".sum"] += executed;
        if (t.machine_code) {
            const bool doubles = t.code == sim::OpCode::DMMA;
            const bool integers = t.code == sim::OpCode::IMMA || t.code == sim::OpCode::BMMA;
            m[pipe +
              (doubles    ? "_op_dmma"
               : integers ? "_op_imma"
                          : "_op_hmma") +
              ".sum"] += executed;
            m["sm__pipe_tensor_cycles_active.sum"] += executed * t.tensor_cycles;
        }
        if (t.tensor_operations)
            m[std::string("sm__ops_path_tensor_src_") + operations(t.tensor_source) + ".sum"] +=
                executed * t.tensor_operations;
    }
}

std::map<std::string, double> Counts::metrics() const {
    Sums global, shared, local, generic, matrices;
    InstructionCounts cached_copy;
    uint64_t local_load_words = 0, local_store_words = 0;
    for (size_t i = 0; i < instructions.size(); ++i) {
        const InstructionCounts& c = instructions[i];
        const sim::InstructionInfo& info = listing->instructions[i];
        const Access access = info.access;
        if (info.space == Space::reg || info.space == Space::constant || info.space == Space::param)
            continue;
        if (access == Access::async_copy) {
            global.copy.add(c);
            if (!info.traits.passes_l1) cached_copy.add(c);
            continue;
        }
        if (info.traits.matrix) {
            matrices.of(access).add(c);
            continue;
        }
        Sums& declared = info.space == Space::global   ? global
                         : info.space == Space::shared ? shared
                         : info.space == Space::local  ? local
                                                       : generic;
        declared.of(access).executed += c.executed;
        // Nsight Compute also counts the bytes of generic accesses as bytes of local memory.
        if (&declared == &generic && c.space != Space::local)
            local.of(access).distinct_bytes += c.distinct_bytes;
        shared.of(access).add(shared_part(c));
        (c.space == Space::local ? local : global).of(access).add(other_part(c));
        if (c.space == Space::local) {
            const uint64_t words = c.requests * uint64_t(std::max(1, info.bytes / 4));
            (access == Access::load ? local_load_words : local_store_words) += words;
        }
    }

    std::map<std::string, double> m;
    const auto set = [&m](const std::string& name, uint64_t value) { m[name] = double(value); };
    const auto set_l1 = [&](const std::string& what, uint64_t requests, uint64_t sectors) {
        set("l1tex__t_requests_pipe_lsu_mem_" + what + ".sum", requests);
        set("l1tex__t_sectors_pipe_lsu_mem_" + what + ".sum", sectors);
        if (requests)
            m["l1tex__average_t_sectors_per_request_pipe_lsu_mem_" + what + ".ratio"] =
                double(sectors) / double(requests);
    };
    InstructionCounts fetched = global.load;  // asynchronous copies count as loads of global memory
    fetched.add(global.copy);
    set_l1("global_op_ld", fetched.requests, fetched.sectors);
    set_l1("global_op_st", global.store.requests, global.store.sectors);
    set_l1("global_op_atom", global.atomic.requests, global.atomic.sectors);
    set_l1("global_op_red", global.reduction.requests, global.reduction.sectors);
    // A copy is a request to L1 even if no lane reads, because all bytes are filled with zeros.
    set_l1("global_op_ldgsts_cache_access", cached_copy.requests + cached_copy.sourceless,
           cached_copy.sectors);
    set_l1("local_op_ld", local_load_words, local.load.sectors);
    set_l1("local_op_st", local_store_words, local.store.sectors);

    InstructionCounts shared_atomic = shared.atomic;
    shared_atomic.add(shared.reduction);
    const auto set_shared = [&](const std::string& op, const InstructionCounts& c) {
        // These metrics count ldmatrix as loads and stmatrix as stores.
        const uint64_t of_matrices = op == "ld"   ? matrices.load.wavefronts
                                     : op == "st" ? matrices.store.wavefronts
                                                  : 0;
        set("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_" + op + ".sum",
            c.wavefronts + of_matrices);
        set("smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_" + op + ".sum",
            c.theoretical_wavefronts);
    };
    set_shared("ld", shared.load);
    set_shared("st", shared.store);
    set_shared("atom", shared_atomic);
    set("smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldgsts.sum",
        global.copy.theoretical_wavefronts);

    // Sets two metrics. The first also counts instructions whose guard is false in all lanes. The
    // second does not count them.
    const auto set_executed = [&](const std::string& op, const InstructionCounts& c) {
        set("smsp__inst_executed_op_" + op + ".sum", c.executed);
        set("smsp__sass_inst_executed_op_" + op + ".sum", c.requests);
    };
    set_executed("global_ld", global.load);
    set_executed("global_st", global.store);
    set_executed("global_red", global.reduction);
    set_executed("shared_ld", shared.load);
    set_executed("shared_st", shared.store);
    set_executed("shared_atom", shared_atomic);
    set_executed("local_ld", local.load);
    set_executed("local_st", local.store);
    InstructionCounts copies = global.copy;
    copies.requests += copies.sourceless;
    set_executed("ldgsts", copies);
    set("smsp__inst_executed_op_generic_ld.sum", generic.load.executed);
    set("smsp__inst_executed_op_generic_st.sum", generic.store.executed);
    // The hardware counts an atomic on global memory as generic if it returns a value.
    set("smsp__inst_executed_op_generic_atom.sum",
        generic.atomic.executed + global.atomic.executed);
    set("smsp__sass_inst_executed_op_global_atom.sum", global.atomic.requests);

    const auto set_matrices = [&](const std::string& op, const std::string& wavefronts,
                                  const InstructionCounts& c) {
        if (!c.executed) return;
        set_executed(op, c);
        set("smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_" + wavefronts + ".sum",
            c.theoretical_wavefronts);
    };
    set_matrices("ldsm", "ldsm", matrices.load);
    set_matrices("shared_stsm", "stsm", matrices.store);
    add_tensor_cores(m);

    const InstructionCounts every = global.all();
    InstructionCounts banked = shared.all();
    banked.add(global.copy);
    banked.add(matrices.load);
    banked.add(matrices.store);
    set("memory_l1_tag_requests_global", every.lines);
    set("memory_l2_theoretical_sectors_global", every.theoretical_sectors);
    set("memory_l2_theoretical_sectors_global_ideal", every.ideal);
    set("memory_l2_theoretical_sectors_local", local.all().theoretical_sectors);
    set("memory_l1_wavefronts_shared", banked.theoretical_wavefronts);
    set("memory_l1_wavefronts_shared_ideal", banked.ideal_wavefronts);

    const auto set_use = [&](const std::string& op, const InstructionCounts& c) {
        set("smsp__sass_data_bytes_mem_" + op + ".sum", c.distinct_bytes);
        m["smsp__sass_average_data_bytes_per_sector_mem_" + op + ".pct"] =
            percent(c.distinct_bytes, c.sectors * model::sector_bytes);
    };
    set_use("global_op_ld", global.load);
    set_use("global_op_st", global.store);
    set_use("local_op_ld", local.load);
    set_use("local_op_st", local.store);

    set("smsp__inst_executed.sum", executed());
    set("smsp__thread_inst_executed.sum", threads());
    return m;
}

}  // namespace coalesce::analysis
