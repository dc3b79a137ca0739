// Sets the cost of tensor core instructions, which depends on the opcode and its modifiers.
//
// The cycles are those of the metric sm__pipe_tensor_cycles_active for one instruction. They were
// recorded on an H200, compute capability 9.0 (tests/data/mma_counters_h200.json). The simulator
// does not execute machine code for other GPUs.
#include <algorithm>
#include <charconv>
#include <string_view>
#include <vector>

#include "sim/ptx_analysis/traits.hpp"

namespace coalesce::sim {

namespace {

uint32_t number(std::string_view digits) {
    uint32_t value = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return value;
}

TensorSource source_named(std::string_view part) {
    using enum TensorSource;
    if (part == "f16" || part == "F16") return fp16;
    if (part == "bf16" || part == "BF16") return bf16;
    if (part == "tf32" || part == "TF32") return tf32;
    if (part == "f64") return fp64;
    if (part == "s8" || part == "u8" || part == "S8" || part == "U8") return int8;
    if (part == "s4" || part == "u4") return int4;
    if (part == "b1") return int1;
    return part == "e4m3" || part == "e5m2" ? fp8 : none;
}

// The modifiers contain the types of the operands. In
// mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32, they are the types of d, a, b and c. If the
// matrix `a` holds halves, wmma.mma names only the types of `d` and `c`. wgmma names the types of
// d, a and b. The four warps of a wgmma share its product, so each warp counts a quarter of the
// operations.
void read_ptx(Traits& t, const std::vector<std::string_view>& parts) {
    std::vector<std::string_view> types;
    for (const std::string_view p : parts) {
        const size_t n = p.find('n'), k = p.find('k');
        if (p.size() > 4 && p[0] == 'm' && n != p.npos && k != p.npos && p[1] <= '9')
            t.tensor_operations =
                2 * number(p.substr(1)) * number(p.substr(n + 1)) * number(p.substr(k + 1));
        else if (source_named(p) != TensorSource::none || p == "f32" || p == "s32")
            types.push_back(p);
    }
    if (t.warpgroup) t.tensor_operations /= 4;
    const bool named = types.size() >= (t.warpgroup ? 3 : 4);
    t.tensor_source = named ? source_named(types[1]) : TensorSource::fp16;
}

// Products of a warpgroup, such as HGMMA.64x256x16.F32.BF16. The modifiers after the shape are the
// type of d (not in IGMMA and BGMMA) and the types of a and b. F16 factors are not named in HGMMA.
//
// In HGMMA.64x256x8.F32.TF32 R24, R28, gdesc[UR4], R24, gsb0, the factor a is in registers. If a is
// in shared memory, too, the descriptors (gdesc) follow the first operand. gdesc[URZ] stands for no
// factors.
void read_warpgroup(Traits& t, const std::vector<std::string_view>& parts, std::string_view text) {
    using enum TensorSource;
    if (parts.size() < 2) return;
    const std::optional<WarpgroupShape> shape = warpgroup_shape(parts[1]);
    if (!shape) return;
    t.columns = shape->columns;
    const size_t second = text.find(", ");
    const std::string_view factors = second == text.npos ? "" : text.substr(second + 2);
    t.shared_factors = factors.starts_with("gdesc[") ? 2 : 1;
    t.empty_product = factors.starts_with("gdesc[URZ]");
    // Each of the four warps counts its 16 rows.
    t.tensor_operations = 2 * 16 * shape->columns * shape->depth;
    t.tensor_source = t.code == OpCode::QGMMA   ? fp8
                      : t.code == OpCode::IGMMA ? int8
                      : t.code == OpCode::BGMMA ? int1
                                                : fp16;
    for (const std::string_view p : parts) {
        if (p == "BF16") t.tensor_source = bf16;
        if (p == "TF32") t.tensor_source = tf32;
    }
    t.tensor_cycles = shape->columns / 2;
}

void read_machine_code(Traits& t, const std::vector<std::string_view>& parts,
                       std::string_view text) {
    using enum TensorSource;
    if (t.warpgroup) return read_warpgroup(t, parts, text);
    if (parts.size() < 2) return;
    // The second part of the opcode is the shape m, n, k. It is written as in "16816" (16, 8, 16),
    // "168256" (16, 8, 256), "8816" (8, 8, 16) or "16x8x4" (16, 8, 4).
    std::string_view shape = parts[1];
    const uint32_t m = shape.starts_with("16") ? 16 : 8;
    shape.remove_prefix(std::min<size_t>(shape.size(), m == 16 ? 2 : 1));
    const bool crosses = shape.starts_with('x');
    shape.remove_prefix(std::min<size_t>(shape.size(), crosses ? 3 : 1));
    const uint32_t k = number(shape);
    t.tensor_operations = 2 * m * 8 * k;
    uint32_t bits = 16;
    t.tensor_source = fp16;
    if (t.code == OpCode::DMMA) {
        t.tensor_source = fp64;
        t.tensor_cycles = std::max(16u, 4 * k);
        return;
    }
    if (t.code == OpCode::IMMA) t.tensor_source = int8, bits = 8;
    if (t.code == OpCode::BMMA) t.tensor_source = int1, bits = 1;
    for (const std::string_view p : parts) {
        if (p == "BF16") t.tensor_source = bf16;
        if (p == "TF32") t.tensor_source = tf32, bits = 32;
    }
    t.tensor_cycles = k * bits > 128 ? 6 : 4;
}

}  // namespace

std::optional<WarpgroupShape> warpgroup_shape(std::string_view text) {
    constexpr std::string_view rows = "64x";
    if (!text.starts_with(rows)) return std::nullopt;
    WarpgroupShape shape;
    const char* const end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data() + rows.size(), end, shape.columns);
    if (error != std::errc{} || at == end || *at != 'x') return std::nullopt;
    const auto [rest, wrong] = std::from_chars(at + 1, end, shape.depth);
    if (wrong != std::errc{} || rest != end) return std::nullopt;
    return shape;
}

void read_tensor(Traits& t, std::string_view opcode, std::string_view text) {
    const std::vector<std::string_view> parts = parts_of(opcode);
    // Tensor cores also execute HFMA2.MMA. 32 launches with it were counted on an H100. In 3 of
    // them, the hardware counted 1.4 to 1.7 times these cycles, and in the others exactly these.
    if (t.code == OpCode::HFMA2 && std::ranges::find(parts, "MMA") != parts.end()) {
        t.tensor_cycles = 2;
        t.tensor_cycles_vary = true;
    }
    if (t.pipe != Pipe::tensor) return;
    t.machine_code ? read_machine_code(t, parts, text) : read_ptx(t, parts);
}

}  // namespace coalesce::sim
