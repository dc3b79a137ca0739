#include "sim/ptx_analysis/traits.hpp"

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "ptx/module.hpp"

namespace coalesce::sim {

namespace {

// The parts of an opcode that follow its spelling in ops.inc.
class Parts {
  public:
    explicit Parts(std::string_view text) : parts_(parts_of(text)) {}
    [[nodiscard]] bool any(std::initializer_list<std::string_view> names) const {
        return std::any_of(names.begin(), names.end(), [&](std::string_view name) {
            return std::find(parts_.begin(), parts_.end(), name) != parts_.end();
        });
    }
    [[nodiscard]] bool has(std::string_view name) const { return any({name}); }
    [[nodiscard]] bool ends_with(std::string_view name) const {
        return !parts_.empty() && parts_.back() == name;
    }

  private:
    std::vector<std::string_view> parts_;
};

Pipe pipe_of(Pipe pipe, const Parts& parts) {
    if (pipe != Pipe::by_type) return pipe;
    return parts.ends_with("f32") ? Pipe::fp32 : parts.ends_with("f64") ? Pipe::fp64 : Pipe::other;
}

AtomicForm form_of(const Parts& parts) {
    if (parts.has("CAST") && parts.has("SPIN")) return AtomicForm::spinning;
    if (parts.any({"cas", "CAS", "CAST"})) return AtomicForm::compare_and_swap;
    if (parts.any({"exch", "EXCH"})) return AtomicForm::exchange;
    return parts.has("POPC") && parts.has("INC") ? AtomicForm::counting : AtomicForm::plain;
}

void read_ptx(Traits& t, const Parts& parts) {
    const bool strong = parts.any({"volatile", "relaxed", "acquire", "mmio"});
    const bool stores = t.code == OpCode::st, loads = t.code == OpCode::ld;
    // A copy of a box to global memory updates no mbarrier, in contrast to a copy to shared memory.
    const bool box_to_global = t.code == OpCode::bulk_tensor && parts.has("bulk_group");
    if (box_to_global) t.atomic = false;
    t.strong = t.atomic || ((loads || stores) && (strong || parts.has("release")));
    t.is_volatile = parts.has("volatile");
    t.releases = (stores || t.atomic) && parts.any({"release", "acq_rel"});
    t.acquires = (loads || t.atomic) && parts.any({"acquire", "acq_rel"});
    if (operation(t.code).has(trait::mbarrier) && !box_to_global) t.strong = t.releases = true;
    t.read_only = parts.has("nc") || t.code == OpCode::tex || t.code == OpCode::tld4;
    const bool vectors = loads || stores || t.code == OpCode::ldu;
    const bool ordinary = vectors || t.code == OpCode::atom || t.code == OpCode::red;
    t.cluster = t.cluster || (ordinary && parts.has("shared::cluster"));
    t.elements = !vectors ? 1 : parts.has("v2") ? 2 : parts.has("v4") ? 4 : parts.has("v8") ? 8 : 1;
    t.scope = parts.has("cta") ? ThreadScope::block : ThreadScope::device;
    t.bypasses_l1 = strong || parts.any({"cg", "cv"});
    // Some fences do not order ordinary accesses with each other. fence.proxy orders ordinary
    // accesses with asynchronous copies, and fence.mbarrier_init is for the initialization of
    // mbarriers.
    t.orders = t.orders && !parts.any({"proxy", "mbarrier_init"});
    t.proxy_fence = t.code == OpCode::fence_ && parts.has("proxy") && parts.has("async") &&
                    !parts.has("global");
    t.asynchronous = t.bulk || t.warpgroup;
    t.relaxed = t.code == OpCode::barrier_cluster && parts.has("relaxed");
    t.aligned = t.aligned || (t.code == OpCode::barrier && parts.has("aligned"));
    t.has_result = t.has_result || (t.block_barrier && parts.has("red"));
    t.block_barrier = t.block_barrier && !parts.has("arrive");
    t.adds_floats =
        t.atomic && parts.has("add") && parts.any({"f16", "f16x2", "bf16", "bf16x2", "f32", "f64"});
}

void read_machine_code(Traits& t, const Parts& parts) {
    t.strong = t.atomic || parts.any({"STRONG", "MMIO"});
    t.bypasses_l1 = parts.has("BYPASS") || (parts.has("STRONG") && parts.any({"GPU", "SYS"}));
    t.fills_parts = parts.has("ZFILL");
    t.scope = parts.any({"CTA", "SM"}) ? ThreadScope::block : ThreadScope::device;
    t.block_barrier = t.block_barrier && !parts.has("ARV");
    t.calls_outside = t.code == OpCode::CALL && parts.has("ABS");
    t.system_fence = t.code == OpCode::MEMBAR && parts.has("SYS");
    t.tests_mbarrier = t.code == OpCode::SYNCS && parts.has("PHASECHK");
    t.requests_registers = t.code == OpCode::USETMAXREG && parts.has("TRY_ALLOC");
    // Of the atomics on 16-bit numbers, only REDG and ATOM.E.ADD.F16x2 were recorded.
    const bool halves = parts.any({"F16x2", "F16x4", "F16x8", "BF16x2", "BF16x4", "BF16x8"});
    const bool recorded = t.code == OpCode::REDG || (t.code == OpCode::ATOM && parts.has("F16x2"));
    t.unrecorded = parts.any({"MMIO", "PRIVATE"}) || (t.atomic && halves && !recorded) ||
                   t.code == OpCode::BGMMA || t.code == OpCode::ARRIVES;
    t.adds_floats =
        t.atomic && parts.has("ADD") && (halves || parts.any({"F32", "F32x2", "F32x4", "F64"}));
}

// Returns true if the first or the second source of an instruction is RZ, the register that is
// zero. In the text, commas separate the opcode with the destination and each source.
bool has_zero_source(std::string_view text) {
    for (int source = 0; source < 2; ++source) {
        const size_t comma = text.find(", ");
        if (comma == text.npos) return false;
        text.remove_prefix(comma + 2);
        const size_t name = text.find_first_not_of("-|");
        if (name != text.npos && text.substr(name).starts_with("RZ")) return true;
    }
    return false;
}

}  // namespace

std::vector<std::string_view> parts_of(std::string_view opcode) {
    std::vector<std::string_view> parts;
    while (!opcode.empty()) {
        const size_t dot = std::min(opcode.find('.'), opcode.size());
        parts.push_back(opcode.substr(0, dot));
        opcode.remove_prefix(std::min(dot + 1, opcode.size()));
    }
    return parts;
}

Traits traits_of(std::string_view opcode, std::string_view text) {
    Traits t;
    t.code = opcode_named(opcode);
    const Operation& row = operation(t.code);
    const Parts parts(opcode.substr(std::min(row.spelling.size(), opcode.size())));
    t.pipe = pipe_of(row.pipe, parts);
    t.machine_code = row.is_machine_code();
    t.has_result = t.code != OpCode::unknown && !row.has(trait::no_result);
    t.block_barrier = row.has(trait::block_barrier);
    t.warp_barrier = row.has(trait::warp_barrier);
    t.aligned = row.has(trait::aligned);
    t.shuffle = row.has(trait::shuffle);
    t.orders = row.has(trait::fence);
    t.atomic = row.has(trait::atomic);
    t.ends_copy_group = row.has(trait::ends_copy_group);
    t.awaits_copies = row.has(trait::awaits_copies);
    t.bulk = row.has(trait::bulk);
    t.multicast = t.bulk && parts.any({"multicast::cluster", "MULTICAST"});
    t.ends_bulk_group = row.has(trait::ends_bulk_group);
    t.matrix = row.has(trait::matrix);
    t.texture = row.has(trait::texture);
    t.warpgroup = row.has(trait::warpgroup);
    t.cluster = row.has(trait::cluster);
    if (t.atomic) t.form = form_of(parts);
    if (t.machine_code)
        read_machine_code(t, parts);
    else
        read_ptx(t, parts);
    read_tensor(t, opcode, text);
    t.adds_zero = t.machine_code && has_zero_source(text);
    return t;
}

std::vector<Traits> traits_of(const ptx::Function& function) {
    std::vector<Traits> traits;
    traits.reserve(function.body.size());
    for (const ptx::Instruction& in : function.body) traits.push_back(traits_of(full_opcode(in)));
    return traits;
}

}  // namespace coalesce::sim
