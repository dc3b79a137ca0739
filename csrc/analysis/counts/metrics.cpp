// Computes Nsight Compute's metrics from the counts.
#include <algorithm>

#include "analysis/counts/counts.hpp"
#include "model/coalescing.hpp"

namespace coalesce::analysis {

using ptx::Space;
using sim::Access;

namespace {

// The sums of the counts for one memory space, one sum for each kind of access.
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

// Returns the part of an instruction's counts that is for shared memory. An instruction with
// generic addresses may access several memory spaces.
InstructionCounts shared_part(const InstructionCounts& c) {
    InstructionCounts part;
    part.requests = part.shared_requests = c.shared_requests;
    part.wavefronts = c.wavefronts;
    part.theoretical_wavefronts = c.theoretical_wavefronts;
    part.ideal = part.ideal_wavefronts = c.ideal_wavefronts;
    return part;
}

// Returns the counts without the part for shared memory.
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

// Returns the quarters of a wavefront of shared memory that one warp causes with a product of a
// warpgroup in machine code. The tensor cores read each 128 bytes of the operands once for the four
// warps, without bank conflicts. A row of an operand has 32 bytes (sim/program/warpgroup.hpp).
// Recorded on an H200: tests/data/warpgroups_h200.json
uint64_t quarters_of(const sim::Traits& product) {
    return product.columns / 4 + (product.shared_factors == 2 ? 64 / 4 : 0);
}

// The sums over the instructions of the copy engine.
struct CopySums {
    // The counts of copies to shared memory of the block that starts the copy, of multicasts, and
    // of copies to global memory.
    InstructionCounts own, multicast, stores;
    // How many machine instructions were executed: copies to shared memory, copies to global
    // memory, ends of groups (UTMACMDFLUSH), and others. Copies that a guard excludes are among the
    // others.
    uint64_t loaded = 0, stored = 0, flushes = 0, others = 0;

    void add(const sim::InstructionInfo& info, const InstructionCounts& c) {
        // A PTX instruction starts a copy in each active lane. A machine instruction starts one
        // copy.
        const uint64_t executed = info.traits.machine_code ? c.executed : c.requests;
        others += executed - c.requests;
        if (info.access == Access::store) {
            stores.add(c);
            stored += executed;
            return;
        }
        (info.traits.multicast ? multicast : own).add(c);
        loaded += executed;
    }

    // Adds an instruction that the copy engine executes and that is not a copy. Ignores other
    // instructions.
    void add_control(const sim::InstructionInfo& info, const InstructionCounts& c) {
        using enum sim::OpCode;
        const sim::OpCode code = info.traits.code;
        if (info.traits.ends_bulk_group)
            (info.traits.machine_code ? flushes : others) += c.executed;
        if (code == UTMACCTL || code == UBLKPF || code == UTMAPF) others += c.executed;
    }
};

// The sums over the instructions of a launch, by memory space.
struct SpaceSums {
    Sums global, shared, local, generic;
    Sums matrices;                  // ldmatrix and stmatrix
    InstructionCounts cached_copy;  // asynchronous copies that do not bypass L1
    // The requests to local memory. An access to n words per lane counts as n requests.
    uint64_t local_load_words = 0, local_store_words = 0;
    // The reads of products of warpgroups. The hardware reads nothing for an empty product. But
    // Nsight Compute computes wavefronts for it, as for any other product.
    uint64_t products = 0, product_quarters = 0, read_quarters = 0;
    CopySums copies;
};

SpaceSums sums_of(const Counts& counts) {
    SpaceSums s;
    for (size_t i = 0; i < counts.instructions.size(); ++i) {
        const InstructionCounts& c = counts.instructions[i];
        const sim::InstructionInfo& info = counts.code->instructions[i];
        const Access access = info.access;
        if (info.traits.warpgroup && info.traits.machine_code) {
            const uint64_t quarters = c.executed * quarters_of(info.traits);
            s.products += c.executed;
            s.product_quarters += quarters;
            if (!info.traits.empty_product) s.read_quarters += quarters;
        }
        if (info.traits.bulk) {
            s.copies.add(info, c);
            continue;  // it does not use the load/store unit
        }
        s.copies.add_control(info, c);
        if (info.space == Space::reg || info.space == Space::constant || info.space == Space::param)
            continue;
        if (info.traits.texture) continue;  // it does not use the load/store unit
        // The hardware does not count accesses to mbarriers as loads, stores or atomics.
        if (info.traits.machine_code && sim::operation(info.traits.code).has(sim::trait::mbarrier))
            continue;
        if (access == Access::async_copy) {
            s.global.copy.add(c);
            if (!info.traits.bypasses_l1) s.cached_copy.add(c);
            continue;
        }
        if (info.traits.matrix) {
            s.matrices.of(access).add(c);
            continue;
        }
        Sums& declared = info.space == Space::global   ? s.global
                         : info.space == Space::shared ? s.shared
                         : info.space == Space::local  ? s.local
                                                       : s.generic;
        declared.of(access).executed += c.executed;
        // Nsight Compute also counts the bytes of generic accesses as bytes of local memory.
        if (&declared == &s.generic && c.space != Space::local)
            s.local.of(access).distinct_bytes += c.distinct_bytes;
        s.shared.of(access).add(shared_part(c));
        (c.space == Space::local ? s.local : s.global).of(access).add(other_part(c));
        if (c.space == Space::local) {
            const uint64_t words = c.requests * uint64_t(std::max(1, info.bytes / 4));
            (access == Access::load ? s.local_load_words : s.local_store_words) += words;
        }
    }
    return s;
}

// Computes the metrics from the sums, and collects them.
class MetricTable {
  public:
    explicit MetricTable(const SpaceSums& sums) : s_(sums) {
        shared_atomic_ = s_.shared.atomic;
        shared_atomic_.add(s_.shared.reduction);
        set_l1_metrics();
        set_shared_metrics();
        set_executed_metrics();
        set_matrix_metrics();
        set_warpgroup_metrics();
        set_copy_metrics();
        set_memory_metrics();
        set_byte_metrics();
    }

    std::map<std::string, double> m;

  private:
    void set(const std::string& name, uint64_t value) { m[name] = double(value); }

    void set_l1(const std::string& what, uint64_t requests, uint64_t sectors) {
        set("l1tex__t_requests_pipe_lsu_mem_" + what + ".sum", requests);
        set("l1tex__t_sectors_pipe_lsu_mem_" + what + ".sum", sectors);
        if (requests)
            m["l1tex__average_t_sectors_per_request_pipe_lsu_mem_" + what + ".ratio"] =
                double(sectors) / double(requests);
    }

    void set_l1_metrics() {
        // Asynchronous copies count as loads of global memory.
        InstructionCounts fetched = s_.global.load;
        fetched.add(s_.global.copy);
        set_l1("global_op_ld", fetched.requests, fetched.sectors);
        set_l1("global_op_st", s_.global.store.requests, s_.global.store.sectors);
        set_l1("global_op_atom", s_.global.atomic.requests, s_.global.atomic.sectors);
        set_l1("global_op_red", s_.global.reduction.requests, s_.global.reduction.sectors);
        // A copy is a request to L1 even if no lane reads, because all bytes are filled with zeros.
        set_l1("global_op_ldgsts_cache_access", s_.cached_copy.requests + s_.cached_copy.sourceless,
               s_.cached_copy.sectors);
        set_l1("local_op_ld", s_.local_load_words, s_.local.load.sectors);
        set_l1("local_op_st", s_.local_store_words, s_.local.store.sectors);
    }

    void set_shared(const std::string& op, const InstructionCounts& c) {
        // These metrics count ldmatrix as loads and stmatrix as stores.
        const uint64_t of_matrices = op == "ld"   ? s_.matrices.load.wavefronts
                                     : op == "st" ? s_.matrices.store.wavefronts
                                                  : 0;
        set("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_" + op + ".sum",
            c.wavefronts + of_matrices);
        set("smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_" + op + ".sum",
            c.theoretical_wavefronts);
    }

    void set_shared_metrics() {
        set_shared("ld", s_.shared.load);
        set_shared("st", s_.shared.store);
        set_shared("atom", shared_atomic_);
        set("smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldgsts.sum",
            s_.global.copy.theoretical_wavefronts);
    }

    // Sets two metrics of executed instructions. Some instructions have no effect, because their
    // guard (a predicate) is false in all lanes. The first metric counts them, the second does not.
    void set_executed(const std::string& op, const InstructionCounts& c) {
        set("smsp__inst_executed_op_" + op + ".sum", c.executed);
        set("smsp__sass_inst_executed_op_" + op + ".sum", c.requests);
    }

    void set_executed_metrics() {
        set_executed("global_ld", s_.global.load);
        set_executed("global_st", s_.global.store);
        set_executed("global_red", s_.global.reduction);
        set_executed("shared_ld", s_.shared.load);
        set_executed("shared_st", s_.shared.store);
        set_executed("shared_atom", shared_atomic_);
        set_executed("local_ld", s_.local.load);
        set_executed("local_st", s_.local.store);
        InstructionCounts copies = s_.global.copy;
        copies.requests += copies.sourceless;
        set_executed("ldgsts", copies);
        set("smsp__inst_executed_op_generic_ld.sum", s_.generic.load.executed);
        set("smsp__inst_executed_op_generic_st.sum", s_.generic.store.executed);
        // The hardware counts an atomic on global memory as generic if it returns a value.
        set("smsp__inst_executed_op_generic_atom.sum",
            s_.generic.atomic.executed + s_.global.atomic.executed);
        set("smsp__sass_inst_executed_op_global_atom.sum", s_.global.atomic.requests);
    }

    void set_matrices(const std::string& op, const std::string& wavefronts,
                      const InstructionCounts& c) {
        if (!c.executed) return;
        set_executed(op, c);
        set("smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_" + wavefronts + ".sum",
            c.theoretical_wavefronts);
    }

    void set_matrix_metrics() {
        set_matrices("ldsm", "ldsm", s_.matrices.load);
        set_matrices("shared_stsm", "stsm", s_.matrices.store);
    }

    void set_warpgroup_metrics() {
        if (s_.products) {
            set("smsp__sass_inst_executed_op_shared_gmma.sum", s_.products);
            set("smsp__sass_data_bytes_mem_shared_op_gmma.sum", s_.product_quarters * 32);
            set("smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_gmma.sum",
                s_.product_quarters / 4);
            set("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_gmma.sum", s_.read_quarters / 4);
        }
    }

    // Sets the sectors and bytes that pass between L2 and the copy engines.
    void set_crossing(const std::string& direction, const std::string& what, uint64_t sectors) {
        set("l1tex__m_" + direction + "_sectors_" + what + ".sum", sectors);
        set("l1tex__m_" + direction + "_bytes_" + what + ".sum", sectors * model::sector_bytes);
    }

    void set_copy_metrics() {
        const CopySums& c = s_.copies;
        if (!c.loaded && !c.stored) return;
        set("smsp__inst_executed_op_tma_ld.sum", c.loaded);
        set("smsp__inst_executed_op_tma_st.sum", c.stored);
        const std::string in = "xbar2l1tex_read", out = "l1tex2xbar_write";
        set_crossing(in, "mem_global_op_tma_ld", c.own.sectors + c.multicast.sectors);
        set_crossing(in, "mem_global_op_tma_ld_dest_self", c.own.sectors);
        set_crossing(in, "mem_global_op_tma_ld_dest_multicast", c.multicast.sectors);
        set_crossing(in, "pipe_tma", c.own.sectors + c.multicast.sectors);
        set_crossing(out, "mem_global_op_tma_st", c.stores.sectors);
        set_crossing(out, "pipe_tma", c.stores.sectors);
        set("l1tex__m_l1tex2xbar_read_requests_mem_global_op_tma_ld_dest_multicast.sum",
            c.multicast.lines);
        // These counters were recorded only for copies and for ends of groups.
        if (c.others) return;
        const uint64_t copies = c.loaded + c.stored;
        set("sm__inst_executed_pipe_tma.sum", copies + c.flushes);
        set("l1tex__tmain_requests.sum", copies + c.flushes);
        set("sm__pipe_tma_cycles_active.sum", 2 * copies + c.flushes);
    }

    void set_memory_metrics() {
        const InstructionCounts every = s_.global.all();
        InstructionCounts banked = s_.shared.all();
        banked.add(s_.global.copy);
        banked.add(s_.matrices.load);
        banked.add(s_.matrices.store);
        set("memory_l1_tag_requests_global", every.lines);
        set("memory_l2_theoretical_sectors_global", every.theoretical_sectors);
        set("memory_l2_theoretical_sectors_global_ideal", every.ideal);
        set("memory_l2_theoretical_sectors_local", s_.local.all().theoretical_sectors);
        const uint64_t of_products = s_.product_quarters / 4;
        set("memory_l1_wavefronts_shared", banked.theoretical_wavefronts + of_products);
        set("memory_l1_wavefronts_shared_ideal", banked.ideal_wavefronts + of_products);
    }

    void set_use(const std::string& op, const InstructionCounts& c) {
        set("smsp__sass_data_bytes_mem_" + op + ".sum", c.distinct_bytes);
        m["smsp__sass_average_data_bytes_per_sector_mem_" + op + ".pct"] =
            percent(c.distinct_bytes, c.sectors * model::sector_bytes);
    }

    void set_byte_metrics() {
        set_use("global_op_ld", s_.global.load);
        set_use("global_op_st", s_.global.store);
        set_use("local_op_ld", s_.local.load);
        set_use("local_op_st", s_.local.store);
    }

    const SpaceSums& s_;
    InstructionCounts shared_atomic_;  // atomics and reductions
};

// A floating-point instruction: its name in metrics, the type of its elements, and the operations
// of a thread. Example: HFMA2 multiplies and adds two halves, which are 4 operations.
struct FloatOperation {
    sim::OpCode code;
    const char *name, *type;
    double operations;
    [[nodiscard]] std::string metric() const {
        return std::string("smsp__sass_thread_inst_executed_op_") + name + "_pred_on.sum";
    }
};
constexpr FloatOperation float_operations[] = {
    {sim::OpCode::FADD, "fadd", "float32", 1},  {sim::OpCode::FMUL, "fmul", "float32", 1},
    {sim::OpCode::FFMA, "ffma", "float32", 2},  {sim::OpCode::DADD, "dadd", "float64", 1},
    {sim::OpCode::DMUL, "dmul", "float64", 1},  {sim::OpCode::DFMA, "dfma", "float64", 2},
    {sim::OpCode::HADD2, "hadd", "float16", 2}, {sim::OpCode::HMUL2, "hmul", "float16", 2},
    {sim::OpCode::HFMA2, "hfma", "float16", 4},
};

}  // namespace

// Adds the metrics of threads whose guard was true, also those of floating-point instructions.
// Example: all lanes of 10 warps execute an FFMA with a guard, which is true in 20 lanes of each
// warp. Then op_ffma is 200.
void Counts::add_predicated(std::map<std::string, double>& m) const {
    double all = 0;
    for (const InstructionCounts& c : instructions) all += double(c.predicated_on);
    m["smsp__thread_inst_executed_pred_on.sum"] = all;
    if (executed())
        m["smsp__thread_inst_executed_pred_on_per_inst_executed.ratio"] = all / double(executed());
    for (const FloatOperation& f : float_operations) {
        double& threads = m[f.metric()];
        for (size_t i = 0; i < instructions.size(); ++i)
            if (code->instructions[i].traits.code == f.code)
                threads += double(instructions[i].predicated_on);
    }
}

std::map<std::string, double> Counts::flops() const {
    std::map<std::string, double> result;
    for (const FloatOperation& f : float_operations) {
        double& flops = result[f.type];
        for (size_t i = 0; i < instructions.size(); ++i) {
            const sim::Traits& t = code->instructions[i].traits;
            if (t.code == f.code && !t.adds_zero)
                flops += f.operations * double(instructions[i].predicated_on);
        }
    }
    return result;
}

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
        const sim::Traits& t = code->instructions[i].traits;
        const double executed = double(instructions[i].executed);
        if (executed == 0 || !t.uses_tensor_cores()) continue;
        m[pipe + ".sum"] += executed;
        const bool of_warpgroup = t.warpgroup && t.machine_code;
        if (of_warpgroup) m[pipe + "_op_gmma.sum"] += executed;
        if (t.machine_code) {
            const bool doubles = t.code == sim::OpCode::DMMA;
            const bool integers = t.code == sim::OpCode::IMMA || t.code == sim::OpCode::BMMA ||
                                  t.code == sim::OpCode::IGMMA || t.code == sim::OpCode::BGMMA;
            m[pipe +
              (doubles    ? "_op_dmma"
               : integers ? "_op_imma"
                          : "_op_hmma") +
              ".sum"] += executed;
            m["sm__pipe_tensor_cycles_active.sum"] +=
                t.empty_product ? 0 : executed * t.tensor_cycles;
        }
        if (t.tensor_operations)
            m[std::string("sm__ops_path_tensor_src_") + operations(t.tensor_source) + ".sum"] +=
                executed * t.tensor_operations;
    }
}

std::map<std::string, double> Counts::metrics() const {
    const SpaceSums sums = sums_of(*this);
    std::map<std::string, double> m = MetricTable(sums).m;
    // One instruction of PTX may become several machine instructions.
    if (std::ranges::any_of(code->instructions,
                            [](const auto& i) { return i.traits.machine_code; }))
        add_predicated(m);
    add_tensor_cores(m);
    m["smsp__inst_executed.sum"] = double(executed());
    m["smsp__thread_inst_executed.sum"] = double(threads());
    if (executed())
        m["smsp__thread_inst_executed_per_inst_executed.ratio"] =
            double(threads()) / double(executed());
    return m;
}

}  // namespace coalesce::analysis
