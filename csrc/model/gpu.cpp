#include "model/gpu.hpp"

#include <algorithm>

#include "round_up.hpp"

namespace coalesce::model {

namespace {

// When the table was made, its figures were compared with the documents that the entries cite,
// partly with reprints of these documents:
// - A100, V100, H100: multiprocessors, cache sizes, shared memory and bandwidth were confirmed.
// - L4: clock, L2 and bandwidth were confirmed; the number of multiprocessors follows from its
//   TFLOPS.
// - RTX 4090: all figures except L2 were confirmed. RTX 3090: the cache sizes were confirmed.
// - T4, RTX 3090: multiprocessors, clock, L2 and bandwidth are from the other tables that the entry
//   cites.
// clang-format off
constexpr Gpu table[] = {
    {"h200", "NVIDIA H200 SXM",
     "NVIDIA H200 datasheet (4.8 TB/s); NVIDIA H100 architecture whitepaper, which describes the "
     "same chip (132 multiprocessors, 50 MB L2); the clock is from our recordings",
     true, 9, 0, 132, 1.98, 128, 64, 64, 32, 228, 256, 50, 2, 4800},
    {"h100", "NVIDIA H100 SXM",
     "NVIDIA H100 Tensor Core GPU Architecture whitepaper; H100 datasheet (3.35 TB/s)",
     false, 9, 0, 132, 1.98, 128, 64, 64, 32, 228, 256, 50, 2, 3350},
    {"a100", "NVIDIA A100 SXM 80 GB",
     "NVIDIA A100 Tensor Core GPU Architecture whitepaper; A100 datasheet (2,039 GB/s)",
     false, 8, 0, 108, 1.41, 64, 32, 64, 32, 164, 192, 40, 2, 2039},
    {"v100", "NVIDIA V100 SXM2",
     "NVIDIA Tesla V100 GPU Architecture whitepaper",
     false, 7, 0, 80, 1.53, 64, 32, 64, 32, 96, 128, 6, 1, 900},
    {"t4", "NVIDIA T4",
     "NVIDIA Turing GPU Architecture whitepaper, appendix on the Tesla T4, as quoted by "
     "sysrqmts.com/en/gpus/nvidia/tesla/t4",
     false, 7, 5, 40, 1.59, 64, 2, 32, 16, 64, 96, 4, 1, 320},
    {"l4", "NVIDIA L4",
     "NVIDIA L4 datasheet (300 GB/s; 30.3 TFLOPS, which follow from 58 multiprocessors at 2.04 "
     "GHz); NVIDIA Ada GPU Architecture whitepaper",
     false, 8, 9, 58, 2.04, 128, 2, 48, 24, 100, 128, 48, 1, 300},
    {"rtx3090", "NVIDIA GeForce RTX 3090",
     "NVIDIA Ampere GA102 GPU Architecture whitepaper, as quoted by "
     "holynerdvana.blogspot.com/2022/10/nvidia-geforce-rtx-3090-specifications.html",
     false, 8, 6, 82, 1.695, 128, 2, 48, 16, 100, 128, 6, 1, 936},
    {"rtx4090", "NVIDIA GeForce RTX 4090",
     "NVIDIA Ada GPU Architecture whitepaper",
     false, 8, 9, 128, 2.52, 128, 2, 48, 24, 100, 128, 72, 1, 1008},
};
// clang-format on

constexpr uint32_t carveouts_70[] = {0, 8, 16, 32, 64, 96};
constexpr uint32_t carveouts_75[] = {32, 64};
constexpr uint32_t carveouts_80[] = {0, 8, 16, 32, 64, 100, 132, 164};
constexpr uint32_t carveouts_86[] = {0, 8, 16, 32, 64, 100};
constexpr uint32_t carveouts_90[] = {0, 8, 16, 32, 64, 100, 132, 164, 196, 228};

}  // namespace

std::span<const Gpu> gpus() { return table; }

const Gpu* find_gpu(std::string_view name) {
    const auto* const gpu = std::find_if(std::begin(table), std::end(table),
                                         [&](const Gpu& g) { return g.name == name; });
    return gpu == std::end(table) ? nullptr : gpu;
}

std::span<const uint32_t> Gpu::carveouts_kb() const {
    if (major >= 9) return carveouts_90;
    if (major == 8 && minor == 0) return carveouts_80;
    if (major == 8) return carveouts_86;
    if (minor == 0) return carveouts_70;
    return carveouts_75;
}

namespace {

// Returns how many warps fit into the registers. A multiprocessor has four schedulers, and each
// scheduler has a quarter of the registers. A warp belongs to one scheduler and can use only the
// registers of this scheduler.
uint32_t warps_in_registers(uint32_t registers_per_thread) {
    const uint32_t a_warp = round_up(registers_per_thread * 32, register_unit);
    return registers / schedulers / a_warp * schedulers;
}

}  // namespace

uint32_t most_threads(uint32_t registers_per_thread) {
    if (registers_per_thread == 0) return block_threads;
    return std::min(block_threads, warps_in_registers(registers_per_thread) * 32);
}

Occupancy occupancy(const Gpu& gpu, uint32_t threads, uint32_t registers_per_thread,
                    uint32_t shared_bytes) {
    Occupancy o;
    o.warps = std::max(1u, (threads + 31) / 32);
    o.blocks = gpu.blocks;
    o.limit = "blocks";
    const auto limit = [&o](uint32_t blocks, const char* name) {
        if (blocks >= o.blocks) return;
        o.blocks = blocks;
        o.limit = name;
    };
    limit(gpu.warps / o.warps, "warps");
    if (registers_per_thread)
        limit(warps_in_registers(registers_per_thread) / o.warps, "registers");
    const uint32_t shared = round_up(shared_bytes, 128) + gpu.reserved_shared_bytes();
    if (shared) limit(gpu.shared_kb * 1024 / shared, "shared memory");

    // The driver chooses the smallest size of shared memory that is large enough for the blocks.
    uint32_t carveout = gpu.shared_kb;
    for (const uint32_t kb : gpu.carveouts_kb()) {
        if (kb * 1024 < o.blocks * shared) continue;
        carveout = kb;
        break;
    }
    o.cache_bytes = (gpu.l1_kb - carveout) * 1024;
    o.on_gpu = uint64_t(o.blocks) * gpu.multiprocessors;
    return o;
}

}  // namespace coalesce::model
