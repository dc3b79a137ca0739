// Binds the GPU table and the models.
#include <pybind11/stl.h>

#include <optional>

#include "bindings/sim/sim.hpp"
#include "errors.hpp"
#include "model/banks.hpp"
#include "model/caches/tag_sets.hpp"
#include "model/coalescing.hpp"
#include "model/copies.hpp"
#include "model/gpu.hpp"
#include "model/time.hpp"
#include "sim/ptx_analysis/traits.hpp"

namespace py = pybind11;

namespace coalesce::bindings {

namespace {

py::dict as_dict(const model::Gpu& g) {
    py::dict d;
    d["name"] = std::string(g.name);
    d["title"] = std::string(g.title);
    d["source"] = std::string(g.source);
    d["checked"] = g.checked;
    d["compute_capability"] = py::make_tuple(g.major, g.minor);
    d["multiprocessors"] = g.multiprocessors;
    d["clock_ghz"] = g.clock_ghz;
    d["fp32_lanes"] = g.fp32_lanes;
    d["fp64_lanes"] = g.fp64_lanes;
    d["warps"] = g.warps;
    d["blocks"] = g.blocks;
    d["shared_kb"] = g.shared_kb;
    d["l1_kb"] = g.l1_kb;
    d["l2_mb"] = g.l2_mb;
    d["partitions"] = g.partitions;
    d["dram_gbps"] = g.dram_gbps;
    return d;
}

const model::Gpu& gpu_named(const std::string& name) {
    const model::Gpu* gpu = model::find_gpu(name);
    if (!gpu) throw py::value_error("there is no simulated GPU `" + name + "`");
    return *gpu;
}

// Calls f(name, member) for the members of a Work.
template <class Work, class F>
void for_each_field(Work& w, F&& f) {
    f("blocks", w.blocks);
    f("instructions", w.instructions);
    f("fp32", w.fp32);
    f("fp64", w.fp64);
    f("alu", w.alu);
    f("xu", w.xu);
    f("tensor_cycles", w.tensor_cycles);
    f("requests", w.requests);
    f("tag_lookups", w.tag_lookups);
    f("shared_wavefronts", w.shared_wavefronts);
    f("constant_lookups", w.constant_lookups);
    f("l2_sectors", w.l2_sectors);
    f("l2_writes", w.l2_writes);
    f("l2_partial_writes", w.l2_partial_writes);
    f("dram_bytes", w.dram_bytes);
    f("instructions_per_warp", w.instructions_per_warp);
    f("memory_waits", w.memory_waits);
    f("shared_waits", w.shared_waits);
    f("barriers", w.barriers);
    f("atomics", w.atomics);
    f("latency", w.latency);
    f("slowest_in_block", w.slowest_in_block);
    f("slowest", w.slowest);
    f("from_l2", w.from_l2);
    f("from_dram", w.from_dram);
}

model::Work work_of(const std::map<std::string, double>& work) {
    model::Work w;
    for_each_field(w, [&](const char* name, auto& value) {
        const auto at = work.find(name);
        if (at == work.end()) return;
        if (!(at->second >= 0 && at->second < 0x1p63))
            throw py::value_error(std::string("`work`: `") + name + "` must be from 0 to 2**63");
        value = static_cast<std::remove_reference_t<decltype(value)>>(at->second);
    });
    return w;
}

// Returns an access of one warp at these addresses, one for each lane. The event refers to the
// addresses and does not copy them.
sim::MemoryEvent scattered(const std::vector<uint64_t>& addresses, uint8_t bytes, uint32_t mask,
                           const std::string& kind) {
    if (addresses.size() != sim::warp_size || bytes == 0 || bytes > 16)
        throw py::value_error("there must be 32 addresses, and 1 to 16 bytes per lane; got " +
                              std::to_string(addresses.size()) + " addresses, and " +
                              std::to_string(bytes) + " bytes per lane");
    if (kind != "load" && kind != "store" && kind != "atomic" && kind != "copy")
        throw py::value_error("`kind` must be 'load', 'store', 'atomic' or 'copy'; got '" + kind +
                              "'");
    sim::MemoryEvent e;
    e.access = kind == "load"     ? sim::Access::load
               : kind == "atomic" ? sim::Access::atomic
                                  : sim::Access::store;
    e.bytes = bytes;
    e.mask = mask;
    e.addresses = addresses.data();
    return e;
}

}  // namespace

py::dict as_dict(const model::Work& w) {
    py::dict d;
    for_each_field(w, [&](const char* name, const auto& value) { d[name] = value; });
    return d;
}

py::dict as_dict(const analysis::CacheResult& r) {
    const model::CacheCounts& c = r.counts;
    py::dict d;
    d["blocks_replayed"] = r.blocks_replayed;
    d["blocks"] = r.blocks;
    d["l1_loads"] = c.l1_loads;
    d["l1_load_hits"] = c.l1_load_hits;
    d["l1_stores"] = c.l1_stores;
    d["l1_store_hits"] = c.l1_store_hits;
    d["l2_reads"] = c.l2_reads;
    d["l2_writes"] = c.l2_writes;
    d["l2_partial_writes"] = c.l2_partial_writes;
    d["l2_merged"] = c.l2_merged;
    d["l2_lookups"] = c.l2_lookups;
    d["l2_hits"] = c.l2_hits;
    d["dram_read_bytes"] = c.dram_read_bytes;
    d["dram_written_bytes"] = c.dram_written_bytes;
    return d;
}

py::dict as_dict(const model::Time& t) {
    py::dict cycles;
    for (int b = 0; b < model::bounds; ++b) cycles[model::name_of(model::Bound(b))] = t.cycles[b];
    py::dict d;
    d["ms"] = t.ms;
    d["bound"] = model::name_of(t.bound);
    d["cycles"] = cycles;
    return d;
}

py::dict as_dict(const model::Occupancy& o) {
    py::dict d;
    d["blocks"] = o.blocks;
    d["limit"] = o.limit;
    d["cache_bytes"] = o.cache_bytes;
    d["warps"] = o.warps;
    d["on_gpu"] = o.on_gpu;
    return d;
}

void add_model(py::module_ m) {
    m.def(
        "gpus",
        [] {
            py::list list;
            for (const model::Gpu& g : model::gpus()) list.append(as_dict(g));
            return list;
        },
        "The simulated GPUs: a dict of figures for each.");
    m.def(
        "occupancy",
        [](const std::string& gpu, uint32_t threads, uint32_t registers, uint32_t shared_bytes) {
            return as_dict(model::occupancy(gpu_named(gpu), threads, registers, shared_bytes));
        },
        py::arg("gpu"), py::arg("threads"), py::arg("registers"), py::arg("shared_bytes"),
        "Blocks that a multiprocessor holds at once, what limits them (limit), bytes of L1, "
        "warps per block. If registers is 0, it is unknown.");
    m.def(
        "time",
        [](const std::string& gpu, uint32_t threads, uint32_t registers, uint32_t shared_bytes,
           const std::map<std::string, double>& work) {
            const model::Work w = work_of(work);
            const model::Gpu& g = gpu_named(gpu);
            const model::Occupancy fits = model::occupancy(g, threads, registers, shared_bytes);
            if (fits.blocks == 0)
                throw LaunchError("a block does not fit on a multiprocessor: too many " +
                                  std::string(fits.limit));
            return as_dict(model::modelled_time(g, fits, w));
        },
        py::arg("gpu"), py::arg("threads"), py::arg("registers"), py::arg("shared_bytes"),
        py::arg("work"), "The time model on counts from elsewhere, such as a recording.");
    m.def(
        "time_of_blocks",
        [](const std::string& gpu, uint32_t blocks, uint32_t warps,
           const std::map<std::string, double>& work) {
            model::Occupancy fits;
            fits.blocks = blocks;
            fits.warps = warps;
            return as_dict(model::modelled_time(gpu_named(gpu), fits, work_of(work)));
        },
        py::arg("gpu"), py::arg("blocks"), py::arg("warps"), py::arg("work"),
        "The time model if a multiprocessor holds this many blocks of this many warps.");
    m.attr("SECTOR_BYTES") = model::sector_bytes;
    m.attr("LINE_BYTES") = model::line_bytes;
    m.def(
        "sectors",
        [](const std::vector<uint64_t>& addresses, uint32_t bytes, uint32_t size) {
            if (bytes == 0 || bytes > 64 || size == 0)
                throw py::value_error("`itemsize` is " + std::to_string(bytes) + " and `size` is " +
                                      std::to_string(size) +
                                      "; `itemsize` must be from 1 to 64, and `size` at least 1");
            return model::sectors_of(addresses, bytes, size);
        },
        py::arg("addresses"), py::arg("itemsize"), py::arg("size") = model::sector_bytes,
        "The addresses of the sectors, or of other aligned units of `size` bytes, that the "
        "accesses touch, ascending.");
    m.def(
        "packed_sectors",
        [](uint32_t lanes, uint32_t bytes) {
            if (lanes > 64 || bytes > 64)
                throw py::value_error(
                    "there must be at most 64 lanes, and at most 64 bytes per lane; got " +
                    std::to_string(lanes) + " lanes, and " + std::to_string(bytes) +
                    " bytes per lane");
            return model::packed_sectors(lanes, bytes);
        },
        py::arg("lanes"), py::arg("itemsize"),
        "The smallest number of sectors that can hold a different element for each of the lanes.");
    m.def(
        "counted_sectors",
        [](const std::vector<uint64_t>& addresses, uint8_t bytes, uint32_t mask,
           const std::string& kind, const std::string& opcode, const std::vector<uint64_t>& targets,
           uint32_t target_mask) -> std::optional<uint32_t> {
            const sim::MemoryEvent e = scattered(addresses, bytes, mask, kind);
            const model::Footprint f = model::footprint(e);
            if (kind == "atomic") return f.repeated;
            if (kind != "copy" || !sim::traits_of(opcode).bypasses_l1) return f.sectors;
            if (target_mask == 0) return std::nullopt;
            const sim::MemoryEvent target = scattered(targets, bytes, target_mask, "store");
            return model::bypassing_copy(e, target).sectors;
        },
        py::arg("addresses"), py::arg("itemsize"), py::arg("mask"), py::arg("kind"),
        py::arg("opcode") = "", py::arg("targets") = std::vector<uint64_t>(),
        py::arg("target_mask") = 0,
        "The number of sectors that a GPU counts for an access to global memory. An atomic sends a "
        "sector several times if lanes access the same element. For an asynchronous copy, "
        "`targets` are the addresses in shared memory. If the copy bypasses L1, the number depends "
        "on them; without them it is None.");
    m.def(
        "shared_groups",
        [](const std::vector<uint64_t>& addresses, uint8_t bytes, uint32_t mask,
           const std::string& kind, const std::string& opcode, const std::vector<uint64_t>& sources,
           uint32_t source_mask) {
            const sim::MemoryEvent e = scattered(addresses, bytes, mask, kind);
            const sim::MemoryEvent source =
                source_mask ? scattered(sources, bytes, source_mask, "load") : sim::MemoryEvent{};
            const sim::Traits traits = sim::traits_of(opcode);
            const bool atomic = kind == "atomic", copy = kind == "copy";
            const int groups =
                traits.matrix ? model::groups_of(bytes) : model::count_served_groups(e);
            py::list groups_and_turns;
            for (int group = 0; group < groups; ++group) {
                const sim::LaneMask lanes = model::group_mask(group, sim::warp_size / groups);
                const uint32_t turns = atomic ? model::atomic_services(e, mask & lanes, traits.form)
                                       : copy ? model::copy_conflicts(source, e, lanes)
                                              : model::most_words(e, mask & lanes);
                groups_and_turns.append(py::make_tuple(mask & lanes, turns));
            }
            const char* names[] = {"", "", "half-warps", "", "quarter-warps"};
            return py::make_tuple(groups_and_turns, atomic ? model::atomic_passes(traits.form) : 1,
                                  !copy && (!atomic || traits.form == sim::AtomicForm::counting),
                                  traits.matrix ? "matrices" : names[groups]);
        },
        py::arg("addresses"), py::arg("itemsize"), py::arg("mask"), py::arg("kind"),
        py::arg("opcode") = "", py::arg("sources") = std::vector<uint64_t>(),
        py::arg("source_mask") = 0,
        "How the banks of shared memory serve an access. Returns the groups of lanes that are "
        "served one after another, the number of wavefronts of each turn, whether lanes that "
        "access the same word are served together, and what the groups are: half-warps, "
        "quarter-warps or matrices, or an empty string if there is one group. A group is the mask "
        "of its active lanes and its turns: how often its busiest bank must serve a word or a "
        "lane. The opcode matters for atomics, and for ldmatrix and stmatrix. For an asynchronous "
        "copy, the access is its destination, and `sources` are the addresses that it reads.");
    m.attr("BANKS") = model::banks;
    m.attr("WORD_BYTES") = model::word_bytes;
    m.def(
        "l1_cycles",
        [](const std::vector<uint64_t>& addresses, uint32_t bytes) {
            if (addresses.empty() || addresses.size() > sim::warp_size || bytes == 0 || bytes > 16)
                throw py::value_error(
                    "there must be 1 to 32 addresses, and 1 to 16 bytes per lane; got " +
                    std::to_string(addresses.size()) + " addresses, and " + std::to_string(bytes) +
                    " bytes per lane");
            const sim::LaneMask mask = sim::all_lanes >> (sim::warp_size - int(addresses.size()));
            const model::L1Cycles c =
                model::l1_cycles(mask, bytes, [&](int lane) { return addresses[size_t(lane)]; });
            return py::make_tuple(c.lookups, c.data);
        },
        py::arg("addresses"), py::arg("itemsize"),
        "Cycles that L1 takes for a load of these lanes: lookups of tags, and wavefronts of data.");
}

}  // namespace coalesce::bindings
